"""The archive: bytes under their SHA-256, written once, hashed on the way in and again on the way out.

No artifact is ever held in memory as a whole. Where the bytes rest is a shelf's matter: a folder by default, an object
store by URL; how they come in is `uploads`. Only 64 lower-case hex digits ever become a path. What the bytes mean is
not known here.
"""

import hashlib
from collections.abc import Iterator
from pathlib import Path

from obstore.store import from_url

from service.artifacts.folder_shelf import FolderShelf
from service.artifacts.object_shelf import ObjectShelf
from service.artifacts.shelf import Kept, Shelf
from service.artifacts.uploads import PartialUploads, Upload, new_upload, sweep
from service.domain.identifiers import check_sha256
from service.errors import ArtifactNotFound, Corrupt, RangeNotSatisfiable, SetupError
from service.settings import Settings

__all__ = ["Archive", "ArtifactSource", "Kept", "PartialUploads", "Shelf", "Upload"]

INCOMING = "incoming"


class Archive:
    """Content-addressed, write-once. Several threads and processes may use one."""

    def __init__(self, shelf: Shelf, incoming: Path, size_bytes_max: int) -> None:
        self._shelf = shelf
        self._incoming = incoming
        self._size_bytes_max = size_bytes_max
        incoming.mkdir(parents=True, exist_ok=True)
        self.swept = sweep(incoming)
        """How many temporary files of uploads whose process is gone were removed at the start."""
        self.partial = PartialUploads(shelf, incoming, size_bytes_max)
        """Uploads in several requests."""

    @classmethod
    def open(cls, settings: Settings, incoming: Path | None = None) -> "Archive":
        """The archive that the settings name. Raises SetupError for a URL that no store understands.

        Whoever only reads, and may not write in the data folder, gives an `incoming` folder of its own.
        """
        folder = settings.folder / "artifacts"
        shelf: Shelf = FolderShelf(folder) if settings.artifacts_url is None else _shelf_by_url(settings.artifacts_url)
        return cls(shelf, incoming or folder / INCOMING, settings.artifact_bytes_max)

    def writer(self, sha256: str | None = None) -> "Upload":
        """An upload whose bytes must have this digest; None takes the digest that they have. Raises InvalidDigest."""
        declared = None if sha256 is None else check_sha256(sha256)
        return new_upload(self._shelf, self._incoming, declared, self._size_bytes_max)

    def put(self, data: bytes) -> Kept:
        """Keeps bytes that are in memory already."""
        with self.writer() as upload:
            upload.write(data)
            return upload.commit()

    def head(self, sha256: str) -> int | None:
        """Size in bytes, None when nothing is kept under the digest."""
        return self._shelf.size_of(sha256)

    def open_read(self, sha256: str, start: int = 0, end: int | None = None) -> Iterator[bytes]:
        """The bytes start <= i < end (to the end when None), in chunks. Raises ArtifactNotFound, RangeNotSatisfiable.

        A read of everything is hashed on the way: after the last chunk it raises Corrupt when the digest is wrong, so
        a consumer must not trust the bytes before the iterator ends. A part cannot be checked by the digest.
        """
        size = self._size(sha256)
        stop = size if end is None else end
        if not 0 <= start <= stop <= size:
            raise RangeNotSatisfiable(f"got bytes {start} to {stop}, wanted a part of {size} bytes", size_bytes=size)
        return self._chunks(sha256, start, stop, is_whole=(start, stop) == (0, size))

    def read(self, sha256: str) -> bytes:
        """Everything, in memory. Raises ArtifactNotFound, or Corrupt when the digest of what was read is wrong."""
        return b"".join(self.open_read(sha256))

    def verify(self, sha256: str) -> int:
        """Reads everything and keeps nothing: the size in bytes. Raises as `read` does."""
        return sum(len(chunk) for chunk in self.open_read(sha256))

    def source(self, sha256: str) -> "ArtifactSource":
        """Random access for the formats' readers, unverified. Raises ArtifactNotFound."""
        return ArtifactSource(self._shelf, sha256, self._size(sha256))

    def digests(self) -> Iterator[str]:
        """Every digest kept."""
        return self._shelf.digests()

    def _size(self, sha256: str) -> int:
        size = self._shelf.size_of(sha256)
        if size is None:
            raise ArtifactNotFound(f"no artifact is kept under {sha256}", sha256=sha256)
        return size

    def _chunks(self, sha256: str, start: int, stop: int, is_whole: bool) -> Iterator[bytes]:
        digest = hashlib.sha256()
        for begin in range(start, stop, self._shelf.chunk_bytes):
            chunk = self._shelf.read_range(sha256, begin, min(stop, begin + self._shelf.chunk_bytes))
            digest.update(chunk)
            yield chunk
        if is_whole and digest.hexdigest() != sha256:
            raise Corrupt(
                f"artifact {sha256} is damaged: the stored bytes have SHA-256 {digest.hexdigest()}",
                sha256=sha256, got=digest.hexdigest(),
            )  # fmt: skip


class ArtifactSource:
    """A `ByteSource` over one artifact."""

    def __init__(self, shelf: Shelf, sha256: str, size_bytes: int) -> None:
        self._shelf, self._sha256, self._size_bytes = shelf, sha256, size_bytes

    @property
    def size_bytes(self) -> int:
        """The artifact's size."""
        return self._size_bytes

    def read(self, begin: int, end: int) -> bytes:
        """Exactly the bytes begin <= i < end."""
        return self._shelf.read_range(self._sha256, begin, end)


def _shelf_by_url(url: str) -> Shelf:
    """The object store behind a URL; credentials and endpoint come from the store's own environment variables."""
    try:
        return ObjectShelf(from_url(url))
    except Exception as error:
        reason = str(error).splitlines()[0]
        raise SetupError(f"artifacts_url: got {url!r}, wanted a URL such as s3://bucket/prefix: {reason}") from error
