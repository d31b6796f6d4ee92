"""How artifact bytes come in: through a temporary file on local disk, hashed as they arrive, kept only when they match.

An upload in one request leaves nothing behind unless it is committed. An upload in several requests keeps what has
arrived under the digest it is to have, so that a sender may go on after a broken connection or a restart. Each open
temporary file is locked: a file without a lock belongs to no living process and is swept away at the next start.
"""

import fcntl
import hashlib
import os
import secrets
from pathlib import Path
from types import TracebackType
from typing import BinaryIO

from service.artifacts.folder_shelf import translated_os_errors
from service.artifacts.shelf import Kept, Shelf
from service.domain.identifiers import check_sha256, is_sha256
from service.errors import DigestMismatch, TooLarge, UploadInProgress, UploadOffsetMismatch

WHOLE_SUFFIX, PARTIAL_SUFFIX = ".part", ".partial"
READ_BYTES = 1024 * 1024


class Upload:
    """One upload: `write` chunks, then `commit`. Leaving the `with` block without a commit keeps nothing.

    Only an upload in several requests keeps what it has, unless its bytes were refused.
    """

    def __init__(
        self, shelf: Shelf, path: Path, sha256: str | None, size_bytes_max: int, *, is_resumable: bool = False
    ) -> None:
        self._shelf, self._path, self._sha256, self._size_bytes_max = shelf, path, sha256, size_bytes_max
        self._keeps_unfinished = is_resumable
        with translated_os_errors():
            # Unbuffered, so that no byte can be left for a close that happens after a refusal.
            self._file: BinaryIO = path.open("a+b" if is_resumable else "xb", buffering=0)
        _lock(self._file, sha256)
        self._digest = hashlib.sha256()
        self.size_bytes = 0
        """Bytes received so far, those of earlier requests included."""
        if is_resumable:
            self._take_up()

    def write(self, chunk: bytes) -> None:
        """Takes the next bytes. Raises TooLarge beyond the limit, StoreUnavailable when the disk refuses them."""
        if self.size_bytes + len(chunk) > self._size_bytes_max:
            self._keeps_unfinished = False
            raise TooLarge(
                f"got more than {self._size_bytes_max} bytes, wanted at most that many; see artifact_bytes_max",
                limit=self._size_bytes_max, got=self.size_bytes + len(chunk), unit="bytes",
            )  # fmt: skip
        rest = memoryview(chunk)
        with translated_os_errors():
            while rest:
                rest = rest[self._file.write(rest) :]
        self._digest.update(chunk)
        self.size_bytes += len(chunk)

    def commit(self) -> Kept:
        """Makes the bytes durable and keeps them. Raises DigestMismatch when they are not what was declared."""
        got = self._digest.hexdigest()
        if self._sha256 not in (None, got):
            self._keeps_unfinished = False
            raise DigestMismatch(
                f"the {self.size_bytes} bytes received have SHA-256 {got}, {self._sha256} was declared: nothing kept",
                declared=self._sha256, got=got, size_bytes=self.size_bytes,
            )  # fmt: skip
        with translated_os_errors():
            os.fsync(self._file.fileno())
        return Kept(got, self.size_bytes, self._shelf.keep(got, self._path, self.size_bytes))

    def close(self) -> None:
        """Ends the upload here: what is neither committed nor to be continued is forgotten."""
        if not self._keeps_unfinished:
            self._path.unlink(missing_ok=True)
        self._file.close()

    def _take_up(self) -> None:
        """Hashes what earlier requests brought; leaves the file at its end."""
        with translated_os_errors():
            self._file.seek(0)
            while piece := self._file.read(READ_BYTES):
                self._digest.update(piece)
                self.size_bytes += len(piece)

    def __enter__(self) -> "Upload":
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()


class PartialUploads:
    """Uploads in several requests: each goes on where the last one ended."""

    def __init__(self, shelf: Shelf, incoming: Path, size_bytes_max: int) -> None:
        self._shelf, self._incoming, self._size_bytes_max = shelf, incoming, size_bytes_max

    def size_of(self, sha256: str) -> int:
        """How many bytes have arrived for this digest and are not complete; 0 when there are none."""
        try:
            return self._path(sha256).stat().st_size
        except FileNotFoundError:
            return 0

    def go_on(self, sha256: str, offset: int) -> Upload:
        """An upload that continues at `offset`, which must be the number of bytes that have arrived.

        Raises UploadOffsetMismatch (`details["offset"]` is where to go on), or UploadInProgress while another request
        writes the same digest. What has arrived is hashed anew, so a damaged part is found at the commit.
        """
        upload = Upload(self._shelf, self._path(sha256), sha256, self._size_bytes_max, is_resumable=True)
        if upload.size_bytes != offset:
            upload.close()
            raise UploadOffsetMismatch(
                f"got bytes from {offset} on, wanted them from {upload.size_bytes} on", offset=upload.size_bytes
            )
        return upload

    def discard(self, sha256: str) -> None:
        """Forgets what has arrived for this digest."""
        self._path(sha256).unlink(missing_ok=True)

    def pending(self) -> dict[str, int]:
        """Size of every unfinished upload by its digest."""
        paths = self._incoming.glob(f"*{PARTIAL_SUFFIX}")
        return {path.stem: path.stat().st_size for path in sorted(paths) if is_sha256(path.stem)}

    def _path(self, sha256: str) -> Path:
        return self._incoming / f"{check_sha256(sha256)}{PARTIAL_SUFFIX}"


def new_upload(shelf: Shelf, incoming: Path, sha256: str | None, size_bytes_max: int) -> Upload:
    """An upload in one request, with a temporary file of its own."""
    return Upload(shelf, incoming / f"{secrets.token_hex(16)}{WHOLE_SUFFIX}", sha256, size_bytes_max)


def sweep(incoming: Path) -> int:
    """Removes temporary files that no living upload holds; how many. Partial uploads stay, to be continued."""
    return sum(_remove_unheld(orphan) for orphan in incoming.glob(f"*{WHOLE_SUFFIX}"))


def _remove_unheld(orphan: Path) -> bool:
    try:
        with orphan.open("rb") as file:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
            orphan.unlink()
    except (BlockingIOError, FileNotFoundError):
        return False  # a living upload holds it, or it has just been finished
    return True


def _lock(file: BinaryIO, sha256: str | None) -> None:
    """Holds the file until it is closed."""
    try:
        fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        file.close()
        raise UploadInProgress(f"another request is sending {sha256}; wait for it, then ask how far it came") from None
