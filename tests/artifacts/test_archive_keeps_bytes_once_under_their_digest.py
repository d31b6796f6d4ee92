"""The archive's contract, the same on every shelf: folder, obstore's folder and memory, and an S3 server."""

import hashlib
from pathlib import Path

import pytest

from service.artifacts.archive import Archive, Shelf
from service.errors import (
    ArtifactNotFound,
    DigestMismatch,
    InvalidDigest,
    RangeNotSatisfiable,
    SetupError,
    TooLarge,
)
from service.settings import Settings

DATA = bytes(range(256)) * 40
SIZE_BYTES_MAX = 64 * 1024 * 1024  # what the archive fixture allows
DIGEST = hashlib.sha256(DATA).hexdigest()


def test_bytes_come_back_as_they_went_in(archive: Archive) -> None:
    with archive.writer(DIGEST) as upload:
        upload.write(DATA[:1000])
        upload.write(DATA[1000:])
        kept = upload.commit()

    assert kept == (DIGEST, len(DATA), True)
    assert archive.head(DIGEST) == len(DATA)
    assert archive.read(DIGEST) == DATA
    assert list(archive.digests()) == [DIGEST]


def test_the_digest_is_found_when_none_was_declared(archive: Archive) -> None:
    assert archive.put(DATA).sha256 == DIGEST


def test_the_same_bytes_again_are_known_not_new(archive: Archive) -> None:
    assert archive.put(DATA).is_new
    assert not archive.put(DATA).is_new
    assert list(archive.digests()) == [DIGEST]


def test_nothing_at_all_is_an_artifact_too(archive: Archive) -> None:
    kept = archive.put(b"")
    assert archive.read(kept.sha256) == b""
    assert archive.head(kept.sha256) == 0


@pytest.mark.parametrize("cut", [0, 1, len(DATA) - 1])
def test_cut_bytes_are_refused_and_leave_nothing(archive: Archive, tmp_path: Path, cut: int) -> None:
    """F21: cut at 0 bytes, in the header, one byte before the end."""
    with archive.writer(DIGEST) as upload:
        upload.write(DATA[:cut])
        with pytest.raises(DigestMismatch) as refusal:
            upload.commit()

    assert refusal.value.details == {
        "declared": DIGEST, "got": hashlib.sha256(DATA[:cut]).hexdigest(), "size_bytes": cut
    }  # fmt: skip
    assert archive.head(DIGEST) is None
    assert list(archive.digests()) == []
    assert list((tmp_path / "incoming").iterdir()) == []


def test_an_upload_left_without_commit_keeps_nothing(archive: Archive, tmp_path: Path) -> None:
    with archive.writer(DIGEST) as upload:
        upload.write(DATA)

    assert archive.head(DIGEST) is None
    assert list((tmp_path / "incoming").iterdir()) == []


def test_more_bytes_than_the_limit_are_refused_as_they_arrive(archive: Archive, tmp_path: Path) -> None:
    with archive.writer() as upload:
        for _ in range(SIZE_BYTES_MAX // 2**22):
            upload.write(bytes(2**22))
        with pytest.raises(TooLarge) as refusal:
            upload.write(b"x")

    assert refusal.value.details["limit"] == SIZE_BYTES_MAX
    assert list((tmp_path / "incoming").iterdir()) == []


def test_parts_are_read_by_byte_range(archive: Archive) -> None:
    archive.put(DATA)
    assert b"".join(archive.open_read(DIGEST, 10, 20)) == DATA[10:20]
    assert b"".join(archive.open_read(DIGEST, len(DATA) - 1)) == DATA[-1:]
    assert b"".join(archive.open_read(DIGEST, 5, 5)) == b""


@pytest.mark.parametrize(("start", "end"), [(-1, 4), (4, 3), (0, len(DATA) + 1), (len(DATA) + 1, None)])
def test_a_part_that_does_not_exist_is_refused(archive: Archive, start: int, end: int | None) -> None:
    archive.put(DATA)
    with pytest.raises(RangeNotSatisfiable) as refusal:
        archive.open_read(DIGEST, start, end)
    assert refusal.value.details == {"size_bytes": len(DATA)}


def test_what_is_not_kept_is_not_found(archive: Archive) -> None:
    with pytest.raises(ArtifactNotFound):
        archive.read(DIGEST)
    with pytest.raises(ArtifactNotFound):
        archive.open_read(DIGEST)
    with pytest.raises(ArtifactNotFound):
        archive.source(DIGEST)


def test_a_reader_gets_exactly_the_range_it_asks_for(archive: Archive) -> None:
    archive.put(DATA)
    source = archive.source(DIGEST)
    assert source.size_bytes == len(DATA)
    assert source.read(3, 3) == b""
    assert source.read(255, 258) == DATA[255:258]


@pytest.mark.parametrize(
    "name",
    [
        "",
        DIGEST[:63],
        DIGEST + "0",
        DIGEST.upper(),
        "../" + DIGEST[3:],
        "/etc/passwd",
        DIGEST[:63] + "\x00",
        DIGEST + "\n",
    ],
)
def test_only_a_digest_ever_becomes_a_path(archive: Archive, name: str) -> None:
    """F41."""
    for attempt in (archive.head, archive.read, archive.open_read, archive.source, archive.verify, archive.writer):
        with pytest.raises(InvalidDigest):
            attempt(name)


def test_an_s3_address_in_the_settings_opens_that_bucket(
    s3_endpoint: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    environment = {"ENDPOINT": s3_endpoint, "REGION": "us-east-1", "ACCESS_KEY_ID": "x", "SECRET_ACCESS_KEY": "x"}
    for name, value in environment.items():
        monkeypatch.setenv(f"AWS_{name}", value)
    monkeypatch.setenv("AWS_ALLOW_HTTP", "true")
    settings = Settings(data=str(tmp_path), artifacts_url="s3://retrace/by-settings")

    Archive.open(settings).put(DATA)
    assert Archive.open(settings).read(DIGEST) == DATA


def test_a_large_object_goes_up_in_parts(shelf: Shelf, tmp_path: Path) -> None:
    archive = Archive(shelf, tmp_path / "incoming", SIZE_BYTES_MAX)
    data = bytes(range(250)) * 80_000
    kept = archive.put(data)
    assert archive.verify(kept.sha256) == len(data)
    assert not archive.put(data).is_new


def test_an_address_that_no_store_understands_is_a_set_up_error(tmp_path: Path) -> None:
    with pytest.raises(SetupError, match="artifacts_url"):
        Archive.open(Settings(data=str(tmp_path), artifacts_url="gopher://hole"))
