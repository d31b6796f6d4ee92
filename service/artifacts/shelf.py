"""Where complete artifact bytes rest: the contract that the folder and the object store keep."""

from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple, Protocol


class Shelf(Protocol):
    """Where complete bytes rest. All methods may raise StoreUnavailable, and InvalidDigest for a malformed digest."""

    @property
    def chunk_bytes(self) -> int:
        """How much to read at once."""

    def size_of(self, sha256: str) -> int | None:
        """Size in bytes, None when nothing is kept under the digest."""

    def read_range(self, sha256: str, begin: int, end: int) -> bytes:
        """Exactly the bytes begin <= i < end. Raises ArtifactNotFound, or Corrupt when there are fewer."""

    def keep(self, sha256: str, incoming: Path, size_bytes: int) -> bool:
        """Takes a complete and verified file, which is gone from `incoming` afterwards; True when it is new."""

    def digests(self) -> Iterator[str]:
        """Every digest kept."""


class Kept(NamedTuple):
    """What became of an upload; `is_new` is False when the same bytes were kept before."""

    sha256: str
    size_bytes: int
    is_new: bool
