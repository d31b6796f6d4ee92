"""The transparency log as the store keeps it: heads, proofs and tiles, all read from tiles. Signs, but never appends.

A head is signed only when the log extends every head that we remember signing: the newest one in the database and the
one in `log-head`. Otherwise LogForked, and nothing is signed.
"""

from collections.abc import Callable
from concurrent.futures import Future
from typing import Any, Protocol

import sqlalchemy as sa

from service.audit import merkle
from service.audit.entries import entry_bundle
from service.audit.log_key import LogKey
from service.audit.tree_head import TreeHead, open_head, sign_head
from service.domain.envelope import StoredEvent
from service.domain.times import Clock, system_clock
from service.errors import Corrupt, LogForked, MalformedNote, NotFound
from service.store.log_tables import keep_head, newest_head, read_tile, size_of_log

ReadTile = Callable[[int, int], bytes]
"""`(level, tile_index)` → the hashes of that tile, concatenated; empty when there is none."""


class LogStore(Protocol):
    """What the log needs of the event store."""

    def head(self) -> int: ...
    def tile(self, level: int, tile_index: int) -> bytes: ...
    def read(self, after: int = 0, limit: int = 1000, up_to: int | None = None) -> list[StoredEvent]: ...
    def transact(self, work: Callable[[sa.Connection], Any]) -> "Future[Any]": ...


class TransparencyLog:
    """Roots, proofs and signed heads of one store. Thread-safe: it holds nothing that changes."""

    def __init__(self, store: LogStore, key: LogKey, origin: str, clock: Clock = system_clock) -> None:
        self._store = store
        self._key = key
        self._origin = origin
        self._clock = clock

    def head(self) -> TreeHead:
        """Size and root now, unsigned."""
        return self._head_at(self._store.head(), self._store.tile)

    def signed_head(self) -> str:
        """A signed head of all that is stored now (a C2SP signed note).

        Raises LogForked when the log does not extend a head that was signed before: a database was exchanged or
        changed, or an old backup restored.
        """
        note: str = self._store.transact(self._sign).result()
        return note

    def signed_size(self, note: str) -> int:
        """The size that one of our own signed heads is about. Raises MalformedNote for another's."""
        return open_head(note, self._key.verifiers, self._origin).size

    def verifier_keys(self) -> list[str]:
        """The keys that heads are checked with, as C2SP vkey lines: publish them apart from the log."""
        return [verifier.text for verifier in self._key.verifiers]

    def inclusion_proof(self, index: int, size: int) -> list[bytes]:
        """The hashes that lead from leaf `index` (position - 1) to the root at `size`. Raises NotFound."""
        self._check_size(size)
        if not 0 <= index < size:
            raise NotFound(f"there is no leaf {index} in a log of size {size}")
        return merkle.inclusion_proof(index, size, nodes_of_tiles(self._store.tile))

    def consistency_proof(self, old_size: int, size: int) -> list[bytes]:
        """The hashes that show that the log at `size` extends the one at `old_size`. Raises NotFound."""
        self._check_size(size)
        if not 0 <= old_size <= size:
            raise NotFound(f"a log of size {size} has no part of size {old_size}")
        return merkle.consistency_proof(old_size, size, nodes_of_tiles(self._store.tile))

    def tile(self, level: int, tile_index: int, width: int = merkle.TILE_WIDTH) -> bytes:
        """`width` hashes of a tile, as C2SP tlog-tiles serves them. Raises NotFound for more than there are."""
        hashes = self._store.tile(level, tile_index) if 0 < width <= merkle.TILE_WIDTH else b""
        if len(hashes) < width * merkle.HASH_SIZE or not hashes:
            raise NotFound(f"the log has no tile {level}/{tile_index} with {width} hashes")
        return hashes[: width * merkle.HASH_SIZE]

    def entries(self, tile_index: int, width: int = merkle.TILE_WIDTH) -> bytes:
        """The leaves under a level-0 tile, as C2SP tlog-tiles bundles them. Raises NotFound."""
        after = tile_index * merkle.TILE_WIDTH
        events = self._store.read(after=after, limit=width) if 0 < width <= merkle.TILE_WIDTH and after >= 0 else []
        if len(events) < width or not events:
            raise NotFound(f"the log has no entries {tile_index} with {width} leaves")
        return entry_bundle(events)

    def _check_size(self, size: int) -> None:
        head = self._store.head()
        if not 0 <= size <= head:
            raise NotFound(f"the log has {head} leaves, asked was for size {size}")

    def _head_at(self, size: int, read: ReadTile) -> TreeHead:
        return TreeHead(size, merkle.root(size, nodes_of_tiles(read)), self._origin)

    def _sign(self, connection: sa.Connection) -> str:
        """Runs in the writer's order, so nothing is appended between the check and the signature."""

        def read(level: int, tile_index: int) -> bytes:
            return read_tile(connection, level, tile_index)

        head = self._head_at(size_of_log(connection), read)
        last_note = newest_head(connection)
        for remembered in (last_note, self._key.last_note()):
            if remembered is not None:
                self._check_extends(head, remembered, read)
        if last_note is not None and self._is_current(last_note, head):
            self._key.remember(last_note)
            return last_note
        note = sign_head(head, self._key.signers)
        keep_head(connection, head.size, head.root, note, self._clock())
        self._key.remember(note)
        return note

    def _is_current(self, note: str, head: TreeHead) -> bool:
        return note == sign_head(head, self._key.signers)

    def _check_extends(self, head: TreeHead, note: str, read: ReadTile) -> None:
        try:
            signed = open_head(note, self._key.verifiers, self._origin)
        except MalformedNote as error:
            raise LogForked(f"the head signed last cannot be trusted: {error}; restore a backup") from None
        if signed.size > head.size:
            raise LogForked(
                f"a head of size {signed.size} was signed, but only {head.size} events are stored: events were lost "
                "or an old backup was restored; restore the newest one, or begin a new log with a new key and origin",
                signed_size=signed.size, size=head.size,
            )  # fmt: skip
        if self._head_at(signed.size, read).root != signed.root:
            raise LogForked(
                f"the first {signed.size} events are not those of the head that was signed: history was rewritten; "
                "run `retrace verify`, then restore a backup",
                signed_size=signed.size, size=head.size,
            )  # fmt: skip


def nodes_of_tiles(read: ReadTile) -> merkle.NodeReader:
    """Nodes of the tree out of tiles; each tile is read once."""
    tiles: dict[tuple[int, int], bytes] = {}

    def node(level: int, index: int) -> bytes:
        tile_level, within = divmod(level, merkle.TILE_HEIGHT)
        first = index << within
        tile_index, at = divmod(first, merkle.TILE_WIDTH)
        key = (tile_level, tile_index)
        if key not in tiles:
            tiles[key] = read(*key)
        start, length = at * merkle.HASH_SIZE, merkle.HASH_SIZE << within
        hashes = tiles[key][start : start + length]
        if len(hashes) != length:
            raise Corrupt(
                f"tile {tile_level}/{tile_index} is too short for the log's size; run `retrace verify`",
                level=tile_level, tile_index=tile_index,
            )  # fmt: skip
        return merkle.perfect_root(hashes)

    return node
