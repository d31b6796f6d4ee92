"""Artifacts in an object store (S3 by URL, or any obstore store): key `aa/<sha256>`, written once.

A small object is put in create mode. A large one goes up in parts, for which stores offer no create mode; it is looked
for first, and a lost race writes the same verified bytes again. Parts of a broken upload stay hidden in the bucket:
give it a rule that ends incomplete multipart uploads.
"""

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import obstore
from obstore.exceptions import AlreadyExistsError, BaseError
from obstore.store import ObjectStore

from service.domain.identifiers import check_sha256, is_sha256
from service.errors import ArtifactNotFound, Corrupt, StoreUnavailable

CHUNK_BYTES = 8 * 1024 * 1024
RETRY_AFTER_S = 30


class ObjectShelf:
    """A shelf over one obstore store; the store's prefix is part of the store."""

    chunk_bytes = CHUNK_BYTES

    def __init__(self, store: ObjectStore) -> None:
        self._store = store

    def size_of(self, sha256: str) -> int | None:
        """Size in bytes, None when nothing is kept under the digest."""
        try:
            with _translated(sha256):
                return int(obstore.head(self._store, _key(sha256))["size"])
        except ArtifactNotFound:
            return None

    def read_range(self, sha256: str, begin: int, end: int) -> bytes:
        """The bytes begin <= i < end. Raises ArtifactNotFound, or Corrupt when the object is too short."""
        if begin == end:
            return b""
        with _translated(sha256):
            data = bytes(obstore.get_range(self._store, _key(sha256), start=begin, end=end))
        if len(data) != end - begin:
            raise Corrupt(f"artifact {sha256} ends before byte {end}: the stored object was cut", sha256=sha256)
        return data

    def keep(self, sha256: str, incoming: Path, size_bytes: int) -> bool:
        """Sends a complete, verified file up and removes it here; True when it is new to the store."""
        kept_size = self.size_of(sha256)
        is_new = kept_size is None and self._put(sha256, incoming, size_bytes)
        incoming.unlink()
        if kept_size not in (None, size_bytes):
            raise Corrupt(
                f"artifact {sha256} is kept with {kept_size} bytes, but its content has {size_bytes}; "
                "move the damaged object away and send it again",
                sha256=sha256,
            )
        return is_new

    def digests(self) -> Iterator[str]:
        """Every digest kept, in the order of the store's listing (ascending on S3). Other keys are passed by."""
        for page in obstore.list(self._store):
            for item in page:
                folder, _, name = str(item["path"]).rpartition("/")
                if is_sha256(name) and folder == name[:2]:
                    yield name

    def _put(self, sha256: str, incoming: Path, size_bytes: int) -> bool:
        with _translated(sha256):
            try:
                if size_bytes <= CHUNK_BYTES:
                    obstore.put(self._store, _key(sha256), incoming.read_bytes(), mode="create", use_multipart=False)
                else:
                    obstore.put(self._store, _key(sha256), incoming, chunk_size=CHUNK_BYTES, max_concurrency=2)
            except AlreadyExistsError:
                return False
        return True


def _key(sha256: str) -> str:
    return f"{check_sha256(sha256)[:2]}/{sha256}"


@contextmanager
def _translated(sha256: str) -> Iterator[None]:
    """The client's errors as ours, once, at the border."""
    try:
        yield
    except FileNotFoundError:
        raise ArtifactNotFound(f"no artifact is kept under {sha256}", sha256=sha256) from None
    except (BaseError, OSError) as error:
        reason = str(error).splitlines()[0]
        raise StoreUnavailable(f"the artifact store cannot do it: {reason}", retry_after_s=RETRY_AFTER_S) from error
