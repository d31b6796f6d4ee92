"""How a payload is kept: raw, as a zstd keyframe, or as a zstd patch against a keyframe. Bytes only, no rows, no SQL.

Consecutive State documents of one recorder differ little, so each chain (stream, recorder, type) keeps a keyframe
every 64 events and patches in between: any event is read with at most two rows. A patch is a zstd frame whose
dictionary is the raw keyframe. Whatever does not get smaller stays raw. The leaf commits to the payload as received,
so this choice can change without touching a proof.
"""

from collections import OrderedDict
from collections.abc import Hashable

import zstandard

from service.errors import Corrupt

RAW, KEYFRAME, PATCH, REDACTED = 0, 1, 2, 3
"""REDACTED: another document took the payload's place on request; it is kept as it is, whatever its size."""
KEYFRAME_EVERY = 64
"""A chain starts anew after this many events, so that one lost keyframe row costs at most so many payloads."""
RAW_BELOW_BYTES = 96
"""Shorter payloads stay raw: a frame, its header and the work cost more than they save."""
_LEVELS = ((1024, -1), (32 * 1024, 6))
_LEVEL_LARGE = 3
"""zstd level by size in bytes. Measured: on short events level -1 takes half the time of 1 for a fifth more bytes; on
State documents of a few participants level 6 saves a seventh for 20 µs more; on large ones it would cost milliseconds.
"""
_CHAIN_BYTES_MAX = 64 * 1024 * 1024
_COMPRESSORS_MAX = 96
"""A compressor with its keyframe weighs 0.25 to 0.85 MB; for further chains one is made when needed (0.1 ms)."""

Encoded = tuple[int, int | None, bytes]
"""`(encoding, position of the keyframe or None, stored bytes)`: three columns of `events`."""


class _Chain:
    """One open keyframe: where it is, its payload, and how many events lean on it."""

    __slots__ = ("data", "followers", "position")

    def __init__(self, position: int, data: bytes) -> None:
        self.position = position
        self.data = data
        self.followers = 0


class Encoder:
    """Decides for each payload; belongs to the single writer. Forgets chains that were not used for long."""

    def __init__(self) -> None:
        self._chains: OrderedDict[Hashable, _Chain] = OrderedDict()
        self._compressors: OrderedDict[Hashable, zstandard.ZstdCompressor] = OrderedDict()
        self._size_bytes = 0
        self._plain = zstandard.ZstdCompressor(level=_LEVEL_LARGE, write_checksum=False, write_content_size=False)

    def encode(self, chain_key: Hashable, position: int, data: bytes) -> Encoded:
        """The stored form of the payload of the event at `position`."""
        if len(data) < RAW_BELOW_BYTES:
            return RAW, None, data
        chain = self._chains.get(chain_key)
        if chain is None or chain.followers >= KEYFRAME_EVERY - 1:
            return self._keyframe(chain_key, position, data)
        self._chains.move_to_end(chain_key)
        chain.followers += 1
        patch = self._compressor(chain_key, chain).compress(data)
        return (PATCH, chain.position, patch) if len(patch) < len(data) else (RAW, None, data)

    def forget(self) -> None:
        """Drop all chains: after a rollback or an erasure a keyframe in memory may not be the one stored."""
        self._chains.clear()
        self._compressors.clear()
        self._size_bytes = 0

    def _compressor(self, chain_key: Hashable, chain: _Chain) -> zstandard.ZstdCompressor:
        """One that knows the keyframe: made for the first follower, since most short chains never have one."""
        known = self._compressors.get(chain_key)
        if known is not None:
            self._compressors.move_to_end(chain_key)
            return known
        compressor = zstandard.ZstdCompressor(
            level=_level(len(chain.data)),
            dict_data=_dictionary(chain.data),
            write_checksum=False,
            write_content_size=False,
        )
        self._compressors[chain_key] = compressor
        if len(self._compressors) > _COMPRESSORS_MAX:
            self._compressors.popitem(last=False)
        return compressor

    def _keyframe(self, chain_key: Hashable, position: int, data: bytes) -> Encoded:
        previous = self._chains.pop(chain_key, None)
        self._compressors.pop(chain_key, None)
        self._size_bytes += len(data) - (len(previous.data) if previous else 0)
        self._chains[chain_key] = _Chain(position, data)
        while self._size_bytes > _CHAIN_BYTES_MAX and len(self._chains) > 1:
            key, dropped = self._chains.popitem(last=False)
            self._compressors.pop(key, None)
            self._size_bytes -= len(dropped.data)
        frame = self._plain.compress(data)
        return (KEYFRAME, None, frame) if len(frame) < len(data) else (RAW, None, data)


class KeyframeDecoder:
    """Reads the patches that lean on one keyframe."""

    __slots__ = ("_decompressor", "size_bytes")

    def __init__(self, keyframe: bytes) -> None:
        self.size_bytes = len(keyframe)
        self._decompressor = zstandard.ZstdDecompressor(dict_data=_dictionary(keyframe))

    def decode(self, position: int, stored: bytes, size_bytes: int) -> bytes:
        """The payload behind a patch. Raises Corrupt, naming the position."""
        return _decompress(self._decompressor, position, stored, size_bytes)


def decode_alone(position: int, encoding: int, stored: bytes, size_bytes: int) -> bytes:
    """The payload of a row that leans on no other (raw, keyframe, redacted). Raises Corrupt, naming the position."""
    if encoding == KEYFRAME:
        return _decompress(zstandard.ZstdDecompressor(), position, stored, size_bytes)
    if encoding == REDACTED:
        return stored
    if encoding != RAW:
        raise Corrupt(f"event {position} has the unknown payload encoding {encoding}", position=position)
    if len(stored) != size_bytes:
        raise _wrong_size(position, len(stored), size_bytes)
    return stored


def _level(size_bytes: int) -> int:
    return next((level for below, level in _LEVELS if size_bytes < below), _LEVEL_LARGE)


def _dictionary(data: bytes) -> zstandard.ZstdCompressionDict:
    return zstandard.ZstdCompressionDict(data, dict_type=zstandard.DICT_TYPE_RAWCONTENT)


def _decompress(decompressor: zstandard.ZstdDecompressor, position: int, stored: bytes, size_bytes: int) -> bytes:
    # The output limit is the recorded size: changed bytes can neither blow up memory nor pass as a longer payload.
    try:
        data = decompressor.decompress(stored, max_output_size=size_bytes, allow_extra_data=False)
    except zstandard.ZstdError as error:
        raise Corrupt(f"the payload of event {position} cannot be decompressed: {error}", position=position) from None
    if len(data) != size_bytes:
        raise _wrong_size(position, len(data), size_bytes)
    return data


def _wrong_size(position: int, got: int, wanted: int) -> Corrupt:
    return Corrupt(f"the payload of event {position} has {got} bytes, its envelope says {wanted}", position=position)
