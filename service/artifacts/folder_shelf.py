"""Artifacts in a folder: `aa/<sha256>`, published by fsync and rename, read without following any symbolic link.

Own code instead of an object-store client, because a local store must survive power loss (file, then folder, are
synced) and must not be led out of its folder by a link. Needs POSIX `openat`.
"""

import errno
import os
import stat
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from service.domain.identifiers import check_sha256, is_sha256
from service.errors import ArtifactNotFound, Corrupt, StoreUnavailable

CHUNK_BYTES = 1024 * 1024
RETRY_AFTER_S = 30


class FolderShelf:
    """The default shelf. Several threads may use it."""

    chunk_bytes = CHUNK_BYTES

    def __init__(self, root: Path) -> None:
        self._root = root
        root.mkdir(parents=True, exist_ok=True)

    def size_of(self, sha256: str) -> int | None:
        """Size in bytes, None when nothing is kept under the digest. Raises Corrupt for anything but a plain file."""
        try:
            with self._opened(sha256) as descriptor:
                return os.fstat(descriptor).st_size
        except ArtifactNotFound:
            return None

    def read_range(self, sha256: str, begin: int, end: int) -> bytes:
        """The bytes begin <= i < end. Raises ArtifactNotFound, or Corrupt when the file is too short."""
        with self._opened(sha256) as descriptor:
            data = b""
            while len(data) < end - begin:
                piece = os.pread(descriptor, end - begin - len(data), begin + len(data))
                if not piece:
                    raise Corrupt(f"artifact {sha256} ends before byte {end}: the stored file was cut", sha256=sha256)
                data = data + piece if data else piece
        return data

    def keep(self, sha256: str, incoming: Path, size_bytes: int) -> bool:
        """Moves a complete, synced and verified file in; True when it is new. What is there already is never touched.

        Raises Corrupt when a file of another size stands under the digest.
        """
        kept_size = self.size_of(sha256)
        if kept_size is None:
            folder = self._root / check_sha256(sha256)[:2]
            with translated_os_errors():
                if not folder.is_dir():
                    folder.mkdir(exist_ok=True)
                    _sync_folder(self._root)
                os.rename(incoming, folder / sha256)
                _sync_folder(folder)
            return True
        incoming.unlink()
        if kept_size != size_bytes:
            raise Corrupt(
                f"artifact {sha256} is kept with {kept_size} bytes, but its content has {size_bytes}; "
                "move the damaged file away and send it again",
                sha256=sha256,
            )
        return False

    def digests(self) -> Iterator[str]:
        """Every digest kept, in ascending order. Other names in the folder are passed by."""
        for folder in sorted(self._root.iterdir()):
            if len(folder.name) == 2 and folder.is_dir() and not folder.is_symlink():
                yield from sorted(
                    entry.name
                    for entry in os.scandir(folder)
                    if is_sha256(entry.name) and entry.is_file(follow_symlinks=False)
                )

    @contextmanager
    def _opened(self, sha256: str) -> Iterator[int]:
        """A descriptor of the plain file; neither it nor its folder may be a symbolic link."""
        name = check_sha256(sha256)
        try:
            folder = os.open(self._root / name[:2], os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW)
            try:
                descriptor = os.open(name, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK, dir_fd=folder)
            finally:
                os.close(folder)
        except FileNotFoundError:
            raise ArtifactNotFound(f"no artifact is kept under {name}", sha256=name) from None
        except OSError as error:
            if error.errno in (errno.ELOOP, errno.ENOTDIR):
                raise Corrupt(f"artifact {name} is a symbolic link in the store: not followed", sha256=name) from None
            raise unavailable(error) from error
        try:
            if not stat.S_ISREG(os.fstat(descriptor).st_mode):
                raise Corrupt(f"artifact {name} is not a plain file", sha256=name)
            yield descriptor
        finally:
            os.close(descriptor)


@contextmanager
def translated_os_errors() -> Iterator[None]:
    """Turns what the operating system refuses (disk full, no right, input/output error) into StoreUnavailable."""
    try:
        yield
    except OSError as error:
        raise unavailable(error) from error


def unavailable(error: OSError) -> StoreUnavailable:
    """The refusal for an operating system error; a full disk says what to do."""
    advice = "; make room and send it again" if error.errno in (errno.ENOSPC, errno.EDQUOT) else ""
    return StoreUnavailable(
        f"the artifact store cannot do it: {error.strerror or error}{advice}", retry_after_s=RETRY_AFTER_S
    )


def _sync_folder(folder: Path) -> None:
    descriptor = os.open(folder, os.O_RDONLY | os.O_DIRECTORY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
