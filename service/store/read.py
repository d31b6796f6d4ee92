"""Reading the store: rows back to StoredEvents, places by moment, tiles. Never writes, blocks no writer.

A patch is decoded against its keyframe, which is one more row at most. Names are remembered, because joining them to
each row costs as much as reading it.
"""

from collections.abc import Callable, Mapping, Sequence

import sqlalchemy as sa

from service.domain.envelope import NewEvent, Source, StoredEvent
from service.errors import Corrupt, EventNotFound
from service.store import schema
from service.store.codec import PATCH, REDACTED, KeyframeDecoder, decode_alone
from service.store.engine import Database, Row
from service.store.names import NamesById
from service.store.requests import uuid_text

_COLUMNS = f"SELECT {', '.join(column.name for column in schema.events.columns)} FROM events"
_STREAM, _TYPE, _SOURCE, _ENCODING, _KEYFRAME, _PAYLOAD = (
    schema.events.columns.keys().index(name)
    for name in ("stream_id", "type_id", "source_id", "encoding", "keyframe", "payload")
)
_PAYLOADS = "SELECT position, encoding, data_size, payload FROM events"


class Reader:
    """All queries over events and tiles. Thread-safe."""

    def __init__(self, database: Database) -> None:
        self._database = database
        self._streams = NamesById(schema.streams)
        self._types = NamesById(schema.event_types)
        self._sources = NamesById(schema.sources)

    def read(self, after: int, limit: int, up_to: int | None, stream: str | None) -> list[StoredEvent]:
        """Events with position in (after, up_to], ascending, at most `limit`; of one stream when given."""
        with self._database.reading() as connection:
            if stream is None:
                where, parameters = "position > ?", [after]
            else:
                place = self._place_in_stream(connection, stream, after)
                if place is None:
                    return []
                where, parameters = "stream_id = ? AND stream_position > ?", list(place)
            if up_to is not None:
                where += " AND position <= ?"
                parameters.append(up_to)
            order = "position" if stream is None else "stream_position"
            statement = f"{_COLUMNS} WHERE {where} ORDER BY {order} LIMIT ?"
            rows = self._database.fetch(connection, statement, [*parameters, limit])
            return self._events(connection, rows)

    def read_one(self, position: int) -> StoredEvent:
        """The event at a position. Raises EventNotFound."""
        with self._database.reading() as connection:
            rows = self._database.fetch(connection, f"{_COLUMNS} WHERE position = ?", (position,))
            if not rows:
                raise EventNotFound(f"there is no event at position {position}", position=position)
            return self._events(connection, rows)[0]

    def find(self, event_id: bytes) -> StoredEvent | None:
        """The event with this id, if it is stored."""
        with self._database.reading() as connection:
            rows = self._database.fetch(connection, f"{_COLUMNS} WHERE event_id = ?", (event_id,))
            return self._events(connection, rows)[0] if rows else None

    def head(self) -> int:
        """The newest position; 0 when the store is empty."""
        with self._database.reading() as connection:
            return self._head(connection)

    def position_at(self, moment_us: int) -> int:
        """The last position recorded at or before the moment; 0 if none. recorded_at never falls, so it is bisected."""
        with self._database.reading() as connection:
            statement = "SELECT recorded_at_us FROM events WHERE position = ?"
            return _last_where(
                self._head(connection),
                lambda position: self._number(connection, statement, (position,)) <= moment_us,
            )

    def tile(self, level: int, tile_index: int) -> bytes:
        """The stored hashes of a tile, concatenated; empty when there is none."""
        with self._database.reading() as connection:
            statement = "SELECT hashes FROM tiles WHERE level = ? AND tile_index = ?"
            rows = self._database.fetch(connection, statement, (level, tile_index))
            return bytes(rows[0][0]) if rows else b""

    def _head(self, connection: sa.Connection) -> int:
        return self._number(connection, "SELECT coalesce(max(position), 0) FROM events")

    def _number(self, connection: sa.Connection, statement: str, parameters: tuple[int, ...] = ()) -> int:
        return int(self._database.fetch(connection, statement, parameters)[0][0])

    def _place_in_stream(self, connection: sa.Connection, stream: str, after: int) -> tuple[int, int] | None:
        """`(stream id, last stream_position at or before position after)`; None for an unknown stream.

        Both numbers rise together within a stream, so the index on (stream, stream_position) can be bisected and a
        second index, which every append would pay for, is not needed.
        """
        rows = self._database.fetch(connection, "SELECT id FROM streams WHERE name = ?", (stream,))
        if not rows:
            return None
        stream_id = int(rows[0][0])
        newest = "SELECT coalesce(max(stream_position), 0) FROM events WHERE stream_id = ?"
        statement = "SELECT position FROM events WHERE stream_id = ? AND stream_position = ?"
        if after <= 0:
            return stream_id, 0
        return stream_id, _last_where(
            self._number(connection, newest, (stream_id,)),
            lambda place: self._number(connection, statement, (stream_id, place)) <= after,
        )

    def _events(self, connection: sa.Connection, rows: list[Row]) -> list[StoredEvent]:
        """Rows as events. The keyframes they lean on come in one more query, one decoder for each and call.

        Decoders are not shared between calls: zstd contexts must not be used by two threads at once.
        """
        wanted = sorted({row[_KEYFRAME] for row in rows if row[_ENCODING] == PATCH and row[_PAYLOAD] is not None})
        found = self._database.fetch_by(connection, _PAYLOADS, "position", wanted)
        decoders = {
            position: KeyframeDecoder(decode_alone(position, encoding, stored, size_bytes))
            for position, encoding, size_bytes, stored in found
            if stored is not None
        }
        names = [
            known.resolve(self._database, connection, {row[column] for row in rows})
            for known, column in ((self._streams, _STREAM), (self._types, _TYPE), (self._sources, _SOURCE))
        ]
        return [_event(row, names, decoders) for row in rows]


def _event(
    row: Row, names: Sequence[Mapping[int, Row]], decoders: Mapping[int, KeyframeDecoder]
) -> StoredEvent:  # fmt: skip
    (
        position, event_id, stream_id, stream_position, type_id, source_id, seq, schema_version, observed_at_us,
        recorded_at_us, correlation_id, causation_id, data_sha256, data_size, salt, encoding, keyframe, stored,
    ) = row  # fmt: skip
    try:
        if stored is None:
            data = b""
        elif encoding == PATCH:
            data = decoders[keyframe].decode(position, stored, data_size)
        else:
            data = decode_alone(position, encoding, stored, data_size)
        recorder, site = names[2][source_id]
        event = NewEvent(
            uuid_text(event_id), names[1][type_id][0], schema_version, names[0][stream_id][0], observed_at_us,
            Source(recorder, seq, site), data, correlation_id, causation_id, salt,
        )  # fmt: skip
        return StoredEvent(
            position, stream_position, recorded_at_us, data_sha256.hex(), data_size, event,
            stored is None, encoding == REDACTED,
        )  # fmt: skip
    except KeyError as error:
        raise Corrupt(
            f"event {position} leans on number {error.args[0]} (a keyframe or a name), which is not there",
            position=position,
        ) from None
    except (TypeError, AttributeError, ValueError) as error:
        # SQLite keeps values of any type in any column, so a changed file can hold what we never wrote.
        raise Corrupt(f"the row of event {position} is damaged: {error}", position=position) from None


def _last_where(count: int, holds: Callable[[int], bool]) -> int:
    """The last of 1..count for which `holds`, given that it holds for a first part only; 0 if for none."""
    low, high = 0, count
    while low < high:
        middle = (low + high + 1) // 2
        if holds(middle):
            low = middle
        else:
            high = middle - 1
    return low
