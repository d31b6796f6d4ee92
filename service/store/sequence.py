"""The sequencer: from append requests to rows with dense positions, leaf hashes and tiles, in one transaction.

Positions are counted here and never by the database, so a rollback leaves no gap. A request that must be refused
(version or id conflict) stages nothing and never fails the others of its group. Nothing here knows threads.
"""

from collections.abc import Sequence

import msgspec
import sqlalchemy as sa

from service.audit.merkle import HASH_SIZE, leaf_hash
from service.domain.envelope import NewEvent, Receipt, Source, data_digest
from service.domain.events import PAYLOAD_ERASED
from service.domain.times import Clock
from service.errors import Conflict, Corrupt, EventIdConflict, VersionConflict
from service.store import schema
from service.store.codec import Encoder
from service.store.engine import Database, Row
from service.store.erase import Erasure, erase_payloads
from service.store.leaves import leaf_bytes_of, moment_text
from service.store.names import InternedNames
from service.store.requests import AppendRequest, Prepared, uuid_text
from service.store.tree_edge import TreeEdge, edge_tiles

_NEWEST = "SELECT position, recorded_at_us FROM events ORDER BY position DESC LIMIT 1"
_ERASED_SINCE = (
    "SELECT 1 FROM events e JOIN event_types t ON t.id = e.type_id WHERE e.position > ? AND t.name = ? LIMIT 1"
)
_TILE = "SELECT hashes FROM tiles WHERE level = ? AND tile_index = ?"
_STREAM_HEAD = "SELECT coalesce(max(stream_position), 0) FROM events WHERE stream_id = ?"
_KNOWN = """SELECT e.event_id, e.position, e.stream_position, e.recorded_at_us, e.data_sha256, e.salt,
 t.name, e.schema_version, s.name, e.observed_at_us, o.recorder, e.seq, o.site, e.correlation_id, e.causation_id
 FROM events e LEFT JOIN streams s ON s.id = e.stream_id LEFT JOIN event_types t ON t.id = e.type_id
 LEFT JOIN sources o ON o.id = e.source_id"""

Outcome = list[Receipt] | Conflict
"""What becomes of one request: its receipts, or why it was refused."""


class Placed(msgspec.Struct, frozen=True, gc=False):
    """An event that has its place: stored before, or staged in this group. Knows when a new one is the same."""

    event: NewEvent
    data_sha256: bytes
    position: int
    stream_position: int
    recorded_at_us: int

    def receipt(self, is_redelivery: bool) -> Receipt:
        """The receipt, equal for each delivery but for the flag."""
        return Receipt(
            self.event.id,
            self.position,
            self.stream_position,
            self.recorded_at_us,
            self.data_sha256.hex(),
            is_redelivery,
        )

    def receipt_for(self, item: Prepared) -> Receipt:
        """The original receipt for a redelivery. Raises EventIdConflict when anything but the salt differs."""
        differing = [name for name in _COMPARED if getattr(self.event, name) != getattr(item.event, name)]
        if not self._has_same_data(item):
            differing.append("data")
        if differing:
            raise EventIdConflict(
                f"event {self.event.id} is already stored at position {self.position} with other content "
                f"({', '.join(differing)}); a changed event needs an id of its own",
                id=self.event.id, position=self.position, differing=differing,
            )  # fmt: skip
        return self.receipt(is_redelivery=True)

    def _has_same_data(self, item: Prepared) -> bool:
        salt = self.event.salt
        if salt == item.event.salt:
            return self.data_sha256 == item.data_sha256
        if salt == b"":
            return True  # salted and erased: nothing is left to compare with, and the envelope has decided
        return self.data_sha256.hex() == data_digest(item.event.data, salt)


_COMPARED = ("type", "schema_version", "stream", "observed_at_us", "source", "correlation_id", "causation_id")


class _Group:
    """What one transaction is about to store."""

    def __init__(self, position: int, recorded_at_us: int, known: dict[bytes, Placed]) -> None:
        self.position = position
        self.recorded_at_us = recorded_at_us
        self.known = known
        self.stream_heads: dict[str, int] = {}
        self.placed: list[Placed] = []
        self.items: list[Prepared] = []


class Sequencer:
    """Remembers the newest position, the tree's edge and the heads of streams from one group to the next."""

    def __init__(self, database: Database, clock: Clock) -> None:
        self._database = database
        self._clock = clock
        self._encoder = Encoder()
        self._streams = InternedNames(schema.streams)
        self._types = InternedNames(schema.event_types)
        self._sources = InternedNames(schema.sources)
        self.forget()

    def forget(self) -> None:
        """Read everything anew before the next group: what is remembered may not be what is stored."""
        self.position = -1
        self._recorded_at_us = 0
        self._edge = TreeEdge()
        self._stream_heads: dict[str, int] = {}
        self._encoder.forget()
        for names in (self._streams, self._types, self._sources):
            names.forget()

    def append(self, connection: sa.Connection, requests: Sequence[AppendRequest]) -> list[Outcome]:
        """Store what can be stored of the group; one outcome for each request. The caller commits.

        After a failed commit the caller must call `forget`.
        """
        self.catch_up(connection)
        group = _Group(self.position, max(self._recorded_at_us, self._clock()), self._find_known(connection, requests))
        self._load_stream_heads(connection, requests)
        outcomes = [self._place(request, group) for request in requests]
        if group.placed:
            self._store(connection, group)
        return outcomes

    def erase(self, connection: sa.Connection, erasures: Sequence[Erasure], request: AppendRequest) -> list[Receipt]:
        """Take payloads out and append the event that says so, in one transaction. The caller commits."""
        erase_payloads(self._database, connection, erasures)
        self._encoder.forget()
        outcome = self.append(connection, [request])[0]
        if isinstance(outcome, Conflict):
            raise outcome
        return outcome

    def catch_up(self, connection: sa.Connection) -> None:
        """See what is stored by now: at the start, after a rollback, and when another process had its turn."""
        if self.position >= 0 and not self._database.is_shared:
            return  # the folder is ours alone
        newest = self._database.fetch(connection, _NEWEST)
        position, recorded_at_us = newest[0] if newest else (0, 0)
        if position == self.position:
            return
        if self.position >= 0 and self._database.fetch(connection, _ERASED_SINCE, (self.position, PAYLOAD_ERASED)):
            self._encoder.forget()  # another process took payloads out: a keyframe in memory may be gone
        self._edge = self._load_edge(connection, position)
        self._stream_heads.clear()
        self.position, self._recorded_at_us = position, recorded_at_us

    def _load_edge(self, connection: sa.Connection, size: int) -> TreeEdge:
        partials = []
        for level, index, width in edge_tiles(size):
            rows = self._database.fetch(connection, _TILE, (level, index)) if width else []
            hashes = rows[0][0] if rows else b""
            if len(hashes) != width * HASH_SIZE:
                raise Corrupt(
                    f"tile {level}/{index} holds {len(hashes)} bytes, {size} events need {width * HASH_SIZE}; "
                    "run `retrace verify` and restore a backup",
                    level=level, tile_index=index,
                )  # fmt: skip
            partials.append(hashes)
        return TreeEdge(size, partials)

    def _find_known(self, connection: sa.Connection, requests: Sequence[AppendRequest]) -> dict[bytes, Placed]:
        ids = [item.event_id for request in requests for item in request.items]
        known = self._database.fetch_by(connection, "SELECT event_id FROM events", "event_id", ids)
        if not known:  # nearly always: then one look at the index was enough
            return {}
        rows = self._database.fetch_by(connection, _KNOWN, "e.event_id", [row[0] for row in known])
        return {row[0]: _placed(row) for row in rows}

    def _load_stream_heads(self, connection: sa.Connection, requests: Sequence[AppendRequest]) -> None:
        names = {(item.event.stream,) for request in requests for item in request.items}
        if len(self._stream_heads) > 65_536:
            self._stream_heads.clear()
        ids = self._streams.resolve(self._database, connection, names)
        for key in names:
            if key[0] not in self._stream_heads:
                self._stream_heads[key[0]] = self._database.fetch(connection, _STREAM_HEAD, (ids[key],))[0][0]

    def _place(self, request: AppendRequest, group: _Group) -> Outcome:
        """Give positions to what is new. Stages all of the request, or nothing when it is refused."""
        heads, position = dict[str, int](), group.position
        placed: list[Placed] = []
        items: list[Prepared] = []
        fresh: dict[bytes, Placed] = {}
        receipts = []
        try:
            for item in request.items:
                earlier = group.known.get(item.event_id) or fresh.get(item.event_id)
                if earlier is not None:
                    receipts.append(earlier.receipt_for(item))
                    continue
                stream = item.event.stream
                head = heads.get(stream)
                if head is None:
                    head = group.stream_heads.get(stream, self._stream_heads[stream])
                    _check_expected_version(request.expected_version, stream, head)
                heads[stream] = head + 1
                position += 1
                one = Placed(item.event, item.data_sha256, position, head + 1, group.recorded_at_us)
                fresh[item.event_id] = one
                placed.append(one)
                items.append(item)
                receipts.append(one.receipt(is_redelivery=False))
        except Conflict as refusal:
            return refusal
        group.position = position
        group.known.update(fresh)
        group.stream_heads.update(heads)
        group.placed += placed
        group.items += items
        return receipts

    def _store(self, connection: sa.Connection, group: _Group) -> None:
        database = self._database
        streams = self._streams.resolve(database, connection, {(one.event.stream,) for one in group.placed})
        types = self._types.resolve(database, connection, {(one.event.type,) for one in group.placed})
        sources = self._sources.resolve(
            database, connection, {(one.event.source.recorder, one.event.source.site) for one in group.placed}
        )
        rows, leaves = [], []
        recorded_at = moment_text(group.recorded_at_us)
        for one, item in zip(group.placed, group.items, strict=True):
            event, position = one.event, one.position
            source = event.source
            chain = (
                streams[event.stream,],
                types[event.type,],
                sources[source.recorder, source.site],
            )
            encoding, keyframe, payload = self._encoder.encode(chain, position, event.data)
            rows.append((
                position, item.event_id, chain[0], one.stream_position, chain[1], chain[2],
                source.seq, event.schema_version, event.observed_at_us, one.recorded_at_us,
                event.correlation_id, event.causation_id, one.data_sha256, len(event.data), event.salt,
                encoding, keyframe, payload,
            ))  # fmt: skip
            leaves.append(leaf_hash(leaf_bytes_of(event, position, one.stream_position, recorded_at, one.data_sha256)))
        edge, tiles = self._edge.extended(leaves)
        database.insert(connection, schema.events, rows)
        database.replace_tiles(connection, tiles)
        database.announce(connection, group.position)
        self._edge, self.position, self._recorded_at_us = edge, group.position, group.recorded_at_us
        self._stream_heads.update(group.stream_heads)


def _check_expected_version(expected: int | None, stream: str, actual: int) -> None:
    if expected is not None and expected != actual:
        raise VersionConflict(
            f"stream {stream!r} is at {actual}, the sender expected {expected}; read what was added and decide anew",
            stream=stream, expected=expected, actual=actual,
        )  # fmt: skip


def _placed(row: Row) -> Placed:
    """A stored row as far as redelivery needs it: without its payload, whose digest stands for it."""
    (event_id, position, stream_position, recorded_at_us, data_sha256, salt, *envelope) = row
    type_, schema_version, stream, observed_at_us, recorder, seq, site, correlation_id, causation_id = envelope
    event = NewEvent(
        uuid_text(event_id), type_, schema_version, stream, observed_at_us, Source(recorder, seq, site), b"",
        correlation_id, causation_id, salt,
    )  # fmt: skip
    return Placed(event, data_sha256, position, stream_position, recorded_at_us)
