"""Walking over all events and deriving everything again: order, payload digests, leaves, tiles and roots.

Memory: the partial tiles (O(log n)), one number per stream and one digest per erased payload. What does not fit becomes
a finding and the walk goes on, so that one changed byte hides nothing behind it.
"""

from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Protocol

import msgspec

from service.audit.findings import Report
from service.audit.merkle import HASH_SIZE, TILE_WIDTH, leaf_hash
from service.audit.tree_head import TreeHead
from service.domain.canonical import sha256_hex
from service.domain.envelope import StoredEvent, data_digest, leaf_bytes
from service.domain.events import PAYLOAD_ERASED, PayloadErased
from service.errors import Corrupt, EventNotFound
from service.store.tree_edge import TileRow, TreeEdge

_BATCH = TILE_WIDTH
Observer = Callable[[StoredEvent], None]


class EventSource(Protocol):
    """Where events and tiles come from: a store, or a copy of one."""

    def head(self) -> int: ...
    def read(self, after: int = 0, limit: int = 1000, up_to: int | None = None) -> list[StoredEvent]: ...
    def read_one(self, position: int) -> StoredEvent: ...
    def tile(self, level: int, tile_index: int) -> bytes: ...


class RootClaim:
    """Somebody's word that the log of a size had a root; `code` is the finding when it had not."""

    def __init__(self, head: TreeHead, code: str, who: str) -> None:
        self.head = head
        self.code = code
        self.who = who


def derive_log(
    source: EventSource, size: int, claims: Sequence[RootClaim], report: Report, observe: Observer
) -> None:  # fmt: skip
    """Check positions 1 to `size` of the source, and every claim about a root; findings go into the report.

    `observe` is shown each event that can be read, so that others need not walk the whole log again.
    """
    walk = _Walk(source, report, observe)
    for claim in sorted(claims, key=lambda one: one.head.size):
        if claim.head.size > size:
            report.add(
                "truncated",
                f"{claim.who} covers {claim.head.size} events, only {size} are stored",
                position=size + 1,
            )
            continue
        walk.advance(claim.head.size)
        if walk.root() != claim.head.root:
            report.add(
                claim.code,
                f"the first {claim.head.size} events give the root {walk.root().hex()}, "
                f"{claim.who} says {claim.head.root.hex()}",
            )
    walk.advance(size)
    walk.finish()
    report.size, report.root, report.streams = size, walk.root().hex(), walk.streams_count()


class _Walk:
    def __init__(self, source: EventSource, report: Report, observe: Observer) -> None:
        self._observe = observe
        self._source = source
        self._report = report
        self._edge = TreeEdge()
        self._stream_heads: dict[str, int] = {}
        self._recorded_at_us = 0
        self._unread_count = 0
        self._erased: dict[int, str | None] = {}
        self._bottom: tuple[int, bytes] = (-1, b"")

    def root(self) -> bytes:
        return self._edge.root()

    def streams_count(self) -> int:
        return len(self._stream_heads)

    def advance(self, size: int) -> None:
        """Visit every position up to `size`."""
        while self._edge.size < size:
            after = self._edge.size
            up_to = min(size, after + _BATCH - after % _BATCH)
            leaves = [self._leaf(position, event) for position, event in self._events(after, up_to)]
            self._edge, tiles = self._edge.extended(leaves)
            self._compare_tiles([tile for tile in tiles if len(tile[2]) == TILE_WIDTH * HASH_SIZE])

    def finish(self) -> None:
        """Everything was visited: what is left are the partial tiles at the edge, and erasures that nobody ordered."""
        self._compare_tiles(self._edge.partial_tiles())
        for position in self._erased:
            self._report.add(
                "erased_without_event",
                f"the payload of event {position} is gone or redacted, and no payload.erased event says so",
                position=position,
            )

    def _note_erasures(self, event: StoredEvent) -> None:
        """What this event says was taken out is accounted for; a redacted document must have the digest it says."""
        try:
            said = msgspec.json.decode(event.data, type=PayloadErased).payloads
        except msgspec.MsgspecError:
            return  # then the payloads stay unaccounted for, which is the finding
        for one in said:
            if self._erased.get(one.position, one) == one.redacted_sha256:
                del self._erased[one.position]

    def _compare_tiles(self, tiles: Iterable[TileRow]) -> None:
        """Hold tiles against the stored ones. The bottom level is left out: its hashes are compared one by one."""
        for level, index, hashes in tiles:
            if level and self._kept_tile(level, index) != hashes:
                self._report.add("tile_differs", f"tile {level}/{index} does not hold the hashes that its events give")

    def _events(self, after: int, up_to: int) -> Iterator[tuple[int, StoredEvent | None]]:
        """Every position in (after, up_to] with its event; None, and a finding, where it cannot be read."""
        try:
            events = self._source.read(after=after, limit=up_to - after, up_to=up_to)
        except Corrupt:
            events = []
        if [event.position for event in events] == list(range(after + 1, up_to + 1)):
            yield from ((event.position, event) for event in events)
            return
        for position in range(after + 1, up_to + 1):
            yield position, self._read_one(position)

    def _read_one(self, position: int) -> StoredEvent | None:
        try:
            return self._source.read_one(position)
        except EventNotFound:
            self._report.add("event_missing", f"there is no event at position {position}", position=position)
        except Corrupt as error:
            self._report.add("event_unreadable", error.message, position=position)
        self._unread_count += 1
        return None

    def _leaf(self, position: int, event: StoredEvent | None) -> bytes:
        """The leaf hash that the event gives, checked against its tile; the tile's where there is no event."""
        kept = self._kept_leaf(position)
        if event is None:
            return kept or bytes(HASH_SIZE)
        self._report.events += 1
        self._check_order(event)
        self._check_payload(event)
        self._observe(event)
        if event.event.type == PAYLOAD_ERASED:
            self._note_erasures(event)
        leaf = leaf_hash(leaf_bytes(event))
        if leaf != kept:
            self._report.add(
                "leaf_differs",
                f"the envelope of event {position} and its leaf in tile 0/{(position - 1) // TILE_WIDTH} do not fit: "
                "one of them was changed",
                position=position,
            )
        return leaf

    def _kept_leaf(self, position: int) -> bytes:
        index, at = divmod(position - 1, TILE_WIDTH)
        if self._bottom[0] != index:
            self._bottom = (index, self._kept_tile(0, index))
        return self._bottom[1][at * HASH_SIZE : (at + 1) * HASH_SIZE]

    def _kept_tile(self, level: int, index: int) -> bytes:
        try:
            return self._source.tile(level, index)
        except Corrupt as error:
            self._report.add("tile_unreadable", f"tile {level}/{index}: {error.message}")
            return b""

    def _check_order(self, event: StoredEvent) -> None:
        stream = event.event.stream
        wanted = self._stream_heads.get(stream, 0) + 1
        # An event that could not be read has its own finding; it may be the one that is missing in this stream.
        if not wanted <= event.stream_position <= wanted + self._unread_count:
            self._report.add(
                "stream_gap",
                f"event {event.position} is number {event.stream_position} of stream {stream!r}, wanted {wanted}",
                position=event.position,
            )
        self._stream_heads[stream] = event.stream_position
        if event.recorded_at_us < self._recorded_at_us:
            self._report.add(
                "time_went_back",
                f"event {event.position} was recorded before event {event.position - 1}",
                position=event.position,
            )
        self._recorded_at_us = max(self._recorded_at_us, event.recorded_at_us)

    def _check_payload(self, event: StoredEvent) -> None:
        if event.is_erased or event.is_redacted:
            self._report.erased += 1
            self._erased[event.position] = sha256_hex(event.data) if event.is_redacted else None
        elif data_digest(event.data, event.event.salt) != event.data_sha256:
            self._report.add(
                "payload_differs",
                f"the payload of event {event.position} does not have the digest {event.data_sha256}",
                position=event.position,
            )
