"""Taking payloads out of the store: rows keep their envelope, position and leaf, so every proof still holds.

Patches that lean on a payload which goes away are encoded anew first, in the same transaction. The salt goes with the
payload, so that nobody can guess what was there by hashing candidates.
"""

from collections.abc import Iterable, Sequence

import msgspec
import sqlalchemy as sa

from service.errors import EventNotFound
from service.store.codec import PATCH, RAW, REDACTED, Encoder, KeyframeDecoder, decode_alone
from service.store.engine import Database, Row

_ROWS = "SELECT position, stream_id, stream_position, salt, encoding, keyframe, data_size, payload FROM events"
_UPDATE = "UPDATE events SET salt = ?, encoding = ?, keyframe = ?, payload = ? WHERE position = ?"


class Erasure(msgspec.Struct, frozen=True):
    """A payload to take out; `redacted` is the document (JSON text) that takes its place, if any."""

    position: int
    redacted: bytes | None = None


def erase_payloads(database: Database, connection: sa.Connection, erasures: Sequence[Erasure]) -> None:
    """Do it inside a write transaction. Erasing twice is harmless. Raises EventNotFound."""
    positions = [erasure.position for erasure in erasures]
    rows = {row[0]: row for row in database.fetch_by(connection, _ROWS, "position", positions)}
    for position in positions:
        if position not in rows:
            raise EventNotFound(f"there is no event at position {position} to erase", position=position)
    _free_followers(database, connection, rows)
    for erasure in erasures:
        salt = None if rows[erasure.position][3] is None else b""
        encoding = RAW if erasure.redacted is None else REDACTED
        database.execute(connection, _UPDATE, (salt, encoding, None, erasure.redacted, erasure.position))


def _free_followers(database: Database, connection: sa.Connection, erased: dict[int, Row]) -> None:
    """Encode anew what leans on a row that is about to lose its payload: the first follower becomes the keyframe."""
    for stream_id in {row[1] for row in erased.values()}:
        in_stream = {position: row for position, row in erased.items() if row[1] == stream_id}
        first = min(row[2] for row in in_stream.values())
        # A keyframe and its followers share their stream, so only the rest of the stream is looked through.
        statement = f"{_ROWS} WHERE stream_id = ? AND stream_position > ? AND encoding = ? ORDER BY stream_position"
        followers = [
            row
            for row in database.fetch(connection, statement, (stream_id, first, PATCH))
            if row[5] in in_stream and row[0] not in erased
        ]
        _encode_anew(database, connection, in_stream, followers)


def _encode_anew(
    database: Database, connection: sa.Connection, keyframes: dict[int, Row], followers: Iterable[Row]
) -> None:  # fmt: skip
    encoder, decoders = Encoder(), dict[int, KeyframeDecoder]()
    for position, _, _, salt, _, keyframe, data_size, stored in followers:
        if keyframe not in decoders:
            _, _, _, _, encoding, _, size_bytes, payload = keyframes[keyframe]
            decoders[keyframe] = KeyframeDecoder(decode_alone(keyframe, encoding, payload, size_bytes))
        data = decoders[keyframe].decode(position, stored, data_size)
        encoded = encoder.encode(keyframe, position, data)
        database.execute(connection, _UPDATE, (salt, *encoded, position))
