"""Reading the store: rows back to StoredEvents, places by moment, tiles. Never writes, blocks no writer.

A patch is decoded against its keyframe, which is one more row at most.
"""

from collections.abc import Callable, Mapping

import sqlalchemy as sa

from service.domain.envelope import NewEvent, Source, StoredEvent
from service.errors import Corrupt, EventNotFound
from service.store.codec import PATCH, REDACTED, KeyframeDecoder, decode_alone
from service.store.engine import Database, Row
from service.store.requests import uuid_text

_COLUMNS = """SELECT e.position, e.event_id, s.name, e.stream_position, t.name, o.recorder, o.site, e.seq,
 e.schema_version, e.observed_at_us, e.recorded_at_us, e.correlation_id, e.causation_id, e.data_sha256, e.data_size,
 e.salt, e.encoding, e.keyframe, e.payload
 FROM events e LEFT JOIN streams s ON s.id = e.stream_id LEFT JOIN event_types t ON t.id = e.type_id
 LEFT JOIN sources o ON o.id = e.source_id"""
_PAYLOADS = "SELECT position, encoding, data_size, payload FROM events"


class Reader:
    """All queries over events and tiles. Thread-safe."""

    def __init__(self, database: Database) -> None:
        self._database = database

    def read(self, after: int, limit: int, up_to: int | None, stream: str | None) -> list[StoredEvent]:
        """Events with position in (after, up_to], ascending, at most `limit`; of one stream when given."""
        with self._database.reading() as connection:
            if stream is None:
                where, parameters = "e.position > ?", [after]
            else:
                place = self._place_in_stream(connection, stream, after)
                if place is None:
                    return []
                where, parameters = "e.stream_id = ? AND e.stream_position > ?", list(place)
            if up_to is not None:
                where += " AND e.position <= ?"
                parameters.append(up_to)
            order = "e.position" if stream is None else "e.stream_position"
            statement = f"{_COLUMNS} WHERE {where} ORDER BY {order} LIMIT ?"
            rows = self._database.fetch(connection, statement, [*parameters, limit])
            return self._events(connection, rows)

    def read_one(self, position: int) -> StoredEvent:
        """The event at a position. Raises EventNotFound."""
        with self._database.reading() as connection:
            rows = self._database.fetch(connection, f"{_COLUMNS} WHERE e.position = ?", (position,))
            if not rows:
                raise EventNotFound(f"there is no event at position {position}", position=position)
            return self._events(connection, rows)[0]

    def find(self, event_id: bytes) -> StoredEvent | None:
        """The event with this id, if it is stored."""
        with self._database.reading() as connection:
            rows = self._database.fetch(connection, f"{_COLUMNS} WHERE e.event_id = ?", (event_id,))
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
        wanted = sorted({row[-2] for row in rows if row[-3] == PATCH and row[-1] is not None})
        found = self._database.fetch_by(connection, _PAYLOADS, "position", wanted)
        decoders = {
            position: KeyframeDecoder(decode_alone(position, encoding, stored, size_bytes))
            for position, encoding, size_bytes, stored in found
            if stored is not None
        }
        return [_event(row, decoders) for row in rows]


def _event(row: Row, decoders: Mapping[int, KeyframeDecoder]) -> StoredEvent:
    try:
        return _event_of_sound_row(row, decoders)
    except (TypeError, AttributeError, ValueError) as error:
        # SQLite keeps values of any type in any column, so a changed file can hold what we never wrote.
        raise Corrupt(f"the row of event {row[0]} is damaged: {error}", position=row[0]) from None


def _event_of_sound_row(row: Row, decoders: Mapping[int, KeyframeDecoder]) -> StoredEvent:
    (
        position, event_id, stream, stream_position, type_, recorder, site, seq, schema_version, observed_at_us,
        recorded_at_us, correlation_id, causation_id, data_sha256, data_size, salt, encoding, keyframe, stored,
    ) = row  # fmt: skip
    is_erased = stored is None
    if is_erased:
        data = b""
    elif encoding != PATCH:
        data = decode_alone(position, encoding, stored, data_size)
    elif keyframe in decoders:
        data = decoders[keyframe].decode(position, stored, data_size)
    else:
        raise Corrupt(
            f"the payload of event {position} leans on event {keyframe}, which is not there", position=position
        )
    event = NewEvent(
        uuid_text(event_id), type_, schema_version, stream, observed_at_us, Source(recorder, seq, site), data,
        correlation_id, causation_id, salt,
    )  # fmt: skip
    return StoredEvent(
        position, stream_position, recorded_at_us, data_sha256.hex(), data_size, event,
        is_erased=is_erased, is_redacted=encoding == REDACTED,
    )  # fmt: skip


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
