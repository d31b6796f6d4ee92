"""Stored folds of streams: the live one, and one every CACHE_EVERY events of a stream, so that any moment is near.

To answer as of P: the nearest stored fold at or before P, then the stream's events up to P on top of it.
"""

import sqlite3
from collections.abc import Callable

import msgspec
import zstandard

from service.domain.envelope import StoredEvent
from service.projections.projection import Change
from service.projections.streams import StreamFold, fold_on
from service.projections.thresholds import Thresholds

CACHE_EVERY = 64
"""Events of one stream between two fold caches: halving it halves the events to fold and doubles the bytes kept."""

ReadEvents = Callable[[int, int, int | None, str | None], list[StoredEvent]]
"""`EventStore.read(after, limit, up_to, stream)`."""

_STORE_LIVE = "INSERT OR REPLACE INTO live_folds (stream, position, fold) VALUES (?,?,?)"
_STORE_CACHE = "INSERT OR REPLACE INTO fold_caches (stream, position, fold) VALUES (?,?,?)"
_LIVE = "SELECT position, fold FROM live_folds WHERE stream = ?"
_NEAREST = "SELECT position, fold FROM fold_caches WHERE stream = ? AND position <= ? ORDER BY position DESC LIMIT 1"

_encode = msgspec.json.Encoder().encode
_decode = msgspec.json.Decoder(StreamFold).decode


def is_due(stream_position: int) -> bool:
    """Whether the fold after this event of a stream is kept: a rule of the stream alone, however batches fall."""
    return stream_position % CACHE_EVERY == 0


def store_cache(stream: str, fold: StreamFold) -> Change:
    """The row of a fold cache."""
    return _STORE_CACHE, (stream, fold.position, pack(fold))


def store_live(stream: str, fold: StreamFold) -> Change:
    """The row of the live fold."""
    return _STORE_LIVE, (stream, fold.position, pack(fold))


def pack(fold: StreamFold) -> bytes:
    return zstandard.ZstdCompressor(level=1).compress(_encode(fold))


def unpack(data: bytes) -> StreamFold:
    return _decode(zstandard.ZstdDecompressor().decompress(data))


def load_live(connection: sqlite3.Connection, stream: str) -> StreamFold | None:
    """The newest fold of the stream; None for a stream that no view knows."""
    for _, data in connection.execute(_LIVE, (stream,)):
        return unpack(data)
    return None


def load_as_of(
    connection: sqlite3.Connection, stream: str, up_to: int, read: ReadEvents, thresholds: Thresholds
) -> StreamFold | None:  # fmt: skip
    """The stream's fold after its last event at or before `up_to`; None when it had none."""
    live = connection.execute(_LIVE, (stream,)).fetchone()
    if live is None:
        return None
    if live[0] <= up_to:
        return unpack(live[1])
    nearest = connection.execute(_NEAREST, (stream, up_to)).fetchone()
    fold = unpack(nearest[1]) if nearest else StreamFold()
    fold = fold_on(fold, read(fold.position, CACHE_EVERY, up_to, stream), thresholds)
    return fold if fold.sites else None
