"""What only a folder can suffer: damaged files, links, left-over uploads, a full disk, large artifacts."""

import errno
import hashlib
import os
import subprocess
import sys
import tracemalloc
from collections.abc import Iterator
from pathlib import Path

import pytest

from service.artifacts.archive import Archive
from service.artifacts.folder_shelf import FolderShelf
from service.errors import Corrupt, StoreUnavailable
from service.settings import Settings

DATA = b"weights" * 1000


def stored_file(tmp_path: Path, sha256: str) -> Path:
    return tmp_path / "artifacts" / sha256[:2] / sha256


def test_a_changed_byte_is_found_on_the_way_out(folder_archive: Archive, tmp_path: Path) -> None:
    digest = folder_archive.put(DATA).sha256
    stored_file(tmp_path, digest).write_bytes(b"W" + DATA[1:])

    chunks = folder_archive.open_read(digest)
    assert next(chunks)[:1] == b"W"
    with pytest.raises(Corrupt) as refusal:
        next(chunks)
    assert digest in str(refusal.value)
    assert refusal.value.details["sha256"] == digest
    with pytest.raises(Corrupt):
        folder_archive.verify(digest)


def test_a_cut_file_is_found_and_not_taken_for_known(folder_archive: Archive, tmp_path: Path) -> None:
    digest = folder_archive.put(DATA).sha256
    stored_file(tmp_path, digest).write_bytes(DATA[:-1])

    with pytest.raises(Corrupt):
        folder_archive.read(digest)
    with pytest.raises(Corrupt, match="move the damaged file away"):
        folder_archive.put(DATA)


def test_symbolic_links_in_the_store_are_not_followed(folder_archive: Archive, tmp_path: Path) -> None:
    """F41: neither a linked file nor a linked folder leads out of the store."""
    outside = tmp_path / "outside"
    outside.write_bytes(DATA)
    digest = hashlib.sha256(DATA).hexdigest()
    link = stored_file(tmp_path, digest)
    link.parent.mkdir()
    link.symlink_to(outside)
    with pytest.raises(Corrupt, match="symbolic link"):
        folder_archive.read(digest)
    assert list(folder_archive.digests()) == []

    link.unlink()
    link.parent.rmdir()
    elsewhere = tmp_path / "elsewhere"
    elsewhere.mkdir()
    (elsewhere / digest).write_bytes(DATA)
    link.parent.symlink_to(elsewhere)
    with pytest.raises(Corrupt, match="symbolic link"):
        folder_archive.read(digest)
    assert list(folder_archive.digests()) == []


def test_left_over_uploads_are_removed_at_the_start(tmp_path: Path) -> None:
    """F21: a process that died in the middle of an upload leaves a file; the next one sweeps it away."""
    settings = Settings(data=str(tmp_path))
    dying = (
        "import os, sys; from service.artifacts.archive import Archive; from service.settings import Settings\n"
        "upload = Archive.open(Settings(data=sys.argv[1])).writer(); upload.write(b'half'); os._exit(1)"
    )
    subprocess.run([sys.executable, "-c", dying, str(tmp_path)], check=False)
    assert len(list((tmp_path / "artifacts" / "incoming").iterdir())) == 1

    assert Archive.open(settings).swept == 1
    assert list((tmp_path / "artifacts" / "incoming").iterdir()) == []


def test_uploads_of_a_living_process_are_not_swept(tmp_path: Path) -> None:
    """A second process that only reads (a verification, say) opens the same archive in the middle of an upload."""
    settings = Settings(data=str(tmp_path))
    with Archive.open(settings).writer() as upload:
        upload.write(DATA)
        assert Archive.open(settings).swept == 0
        assert upload.commit().is_new


def test_a_full_disk_refuses_the_upload_and_keeps_nothing(
    folder_archive: Archive, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """F21: the disk fills up while the bytes are made durable."""

    def full(descriptor: int) -> None:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    monkeypatch.setattr(os, "fsync", full)
    with folder_archive.writer() as upload:
        upload.write(DATA)
        with pytest.raises(StoreUnavailable, match="No space left on device; make room") as refusal:
            upload.commit()

    assert refusal.value.details["retry_after_s"] > 0
    assert list((tmp_path / "incoming").iterdir()) == []
    assert list(folder_archive.digests()) == []


def test_a_disk_that_is_full_from_the_start_is_named(tmp_path: Path) -> None:
    """The device that is always full: every write fails with ENOSPC."""
    archive = Archive(FolderShelf(tmp_path / "artifacts"), tmp_path / "incoming", 10)
    upload = archive.writer()
    upload._file.close()
    upload._file = Path("/dev/full").open("wb", buffering=0)  # noqa: SIM115 - the upload closes it
    with upload, pytest.raises(StoreUnavailable, match="No space left"):
        upload.write(b"x")


def test_a_large_artifact_streams_through_bounded_memory(tmp_path: Path) -> None:
    size = 256 * 2**20
    archive = Archive(FolderShelf(tmp_path / "artifacts"), tmp_path / "incoming", size)
    tracemalloc.start()
    with archive.writer() as upload:
        for chunk in pieces(size):
            upload.write(chunk)
        kept = upload.commit()
    assert archive.verify(kept.sha256) == size
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()

    assert peak < 16 * 2**20


def pieces(size: int) -> Iterator[bytes]:
    piece = bytes(2**20)
    for _ in range(size // len(piece)):
        yield piece


def test_the_archive_opens_in_the_data_folder(tmp_path: Path) -> None:
    archive = Archive.open(Settings(data=str(tmp_path / "data")))
    digest = archive.put(DATA).sha256
    assert (tmp_path / "data" / "artifacts" / digest[:2] / digest).read_bytes() == DATA
