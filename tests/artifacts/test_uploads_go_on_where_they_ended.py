"""Large files in several requests: bytes that have arrived are kept, and the digest is held to the whole."""

import hashlib
from pathlib import Path

import pytest

from service.artifacts.archive import Archive
from service.errors import DigestMismatch, InvalidDigest, TooLarge, UploadInProgress, UploadOffsetMismatch
from service.settings import Settings

DATA = bytes(range(251)) * 500
DIGEST = hashlib.sha256(DATA).hexdigest()
HALF = len(DATA) // 2


def test_a_broken_upload_goes_on_after_a_restart(tmp_path: Path) -> None:
    settings = Settings(data=str(tmp_path))
    first = Archive.open(settings)
    with first.partial.go_on(DIGEST, 0) as upload:
        upload.write(DATA[:HALF])
    assert first.head(DIGEST) is None

    second = Archive.open(settings)
    assert second.partial.size_of(DIGEST) == HALF
    assert second.partial.pending() == {DIGEST: HALF}
    with second.partial.go_on(DIGEST, HALF) as upload:
        upload.write(DATA[HALF:])
        assert upload.commit() == (DIGEST, len(DATA), True)
    assert second.read(DIGEST) == DATA
    assert second.partial.pending() == {}
    assert second.partial.size_of(DIGEST) == 0


@pytest.mark.parametrize("offset", [0, HALF - 1, HALF + 1])
def test_bytes_that_do_not_join_are_refused_with_the_place_to_go_on(folder_archive: Archive, offset: int) -> None:
    with folder_archive.partial.go_on(DIGEST, 0) as upload:
        upload.write(DATA[:HALF])
    with pytest.raises(UploadOffsetMismatch) as refusal:
        folder_archive.partial.go_on(DIGEST, offset)
    assert refusal.value.details == {"offset": HALF}
    assert folder_archive.partial.size_of(DIGEST) == HALF


def test_two_requests_do_not_write_one_upload_at_once(folder_archive: Archive) -> None:
    with folder_archive.partial.go_on(DIGEST, 0) as upload:
        upload.write(DATA[:HALF])
        with pytest.raises(UploadInProgress):
            folder_archive.partial.go_on(DIGEST, HALF)
    folder_archive.partial.go_on(DIGEST, HALF).close()


def test_a_wrong_whole_is_refused_and_forgotten(folder_archive: Archive) -> None:
    with folder_archive.partial.go_on(DIGEST, 0) as upload:
        upload.write(DATA[:-1] + b"x")
        with pytest.raises(DigestMismatch):
            upload.commit()
    assert folder_archive.partial.size_of(DIGEST) == 0
    assert folder_archive.head(DIGEST) is None


def test_a_part_that_was_damaged_on_disk_is_found(folder_archive: Archive, tmp_path: Path) -> None:
    with folder_archive.partial.go_on(DIGEST, 0) as upload:
        upload.write(DATA[:HALF])
    part = tmp_path / "incoming" / f"{DIGEST}.partial"
    part.write_bytes(b"\xff" + part.read_bytes()[1:])
    with folder_archive.partial.go_on(DIGEST, HALF) as upload:
        upload.write(DATA[HALF:])
        with pytest.raises(DigestMismatch):
            upload.commit()


def test_the_limit_holds_for_the_whole(tmp_path: Path) -> None:
    archive = Archive.open(Settings(data=str(tmp_path), artifact_bytes_max=len(DATA) - 1))
    with archive.partial.go_on(DIGEST, 0) as upload:
        upload.write(DATA[:HALF])
    with archive.partial.go_on(DIGEST, HALF) as upload, pytest.raises(TooLarge):
        upload.write(DATA[HALF:])
    assert archive.partial.size_of(DIGEST) == 0


def test_a_partial_upload_can_be_forgotten(folder_archive: Archive) -> None:
    with folder_archive.partial.go_on(DIGEST, 0) as upload:
        upload.write(DATA[:HALF])
    folder_archive.partial.discard(DIGEST)
    assert folder_archive.partial.pending() == {}


def test_only_a_digest_ever_becomes_a_path(folder_archive: Archive) -> None:
    for attempt in (folder_archive.partial.size_of, folder_archive.partial.discard):
        with pytest.raises(InvalidDigest):
            attempt("../" + DIGEST[3:])
    with pytest.raises(InvalidDigest):
        folder_archive.partial.go_on("../" + DIGEST[3:], 0)
