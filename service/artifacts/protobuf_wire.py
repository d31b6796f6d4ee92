"""The protocol buffers wire format, read: field numbers and raw values of one message. No schema is known here.

Enough for ONNX files, without generated code: varints, 64-bit, length-delimited and 32-bit values (encoding guide,
"Message structure"). Groups are refused. Every length is checked against the bytes that are there.
"""

import struct
from collections.abc import Iterator

VARINT, FIXED64, BYTES, FIXED32 = 0, 1, 2, 5
_VARINT_BYTES_MAX = 10
Value = int | memoryview


class WireError(ValueError):
    """Bytes that are no message; the message of the error says where."""


def fields(data: memoryview) -> Iterator[tuple[int, int, Value]]:
    """(field number, wire type, value) in the order of the bytes; BYTES and fixed values come as views."""
    at, end = 0, len(data)
    while at < end:
        key, at = _varint(data, at)
        number, kind = key >> 3, key & 7
        if kind == VARINT:
            value, at = _varint(data, at)
            yield number, kind, value
            continue
        size = {FIXED64: 8, FIXED32: 4}.get(kind)
        if kind == BYTES:
            size, at = _varint(data, at)
        if size is None or number == 0:
            raise WireError(f"byte {at}: field {number} of wire type {kind} is not read here")
        if size > end - at:
            raise WireError(f"byte {at}: field {number} is said to have {size} bytes, but {end - at} follow")
        yield number, kind, data[at : at + size]
        at += size


def signed(value: Value) -> int:
    """A varint as the signed 64-bit number that int32 and int64 fields mean."""
    if not isinstance(value, int):
        raise WireError("wanted a varint, got bytes")
    return value - 2**64 if value >= 2**63 else value


def text(value: Value) -> str:
    """A string field. Raises WireError for bytes that are no UTF-8."""
    try:
        return bytes(raw(value)).decode("utf-8")
    except UnicodeDecodeError as error:
        raise WireError(f"a string is no UTF-8: {error.reason}") from None


def raw(value: Value) -> memoryview:
    """The bytes of a length-delimited or fixed field."""
    if isinstance(value, int):
        raise WireError("wanted bytes, got a varint")
    return value


def packed_integers(kind: int, value: Value) -> list[int]:
    """Values of a repeated integer field: one varint, or many packed into bytes."""
    if kind == VARINT:
        return [signed(value)]
    view, at, numbers = raw(value), 0, []
    while at < len(view):
        number, at = _varint(view, at)
        numbers.append(signed(number))
    return numbers


def float_value(value: Value) -> float:
    """A float field."""
    view = raw(value)
    if len(view) != 4:
        raise WireError(f"a float has {len(view)} bytes, wanted 4")
    return float(struct.unpack("<f", view)[0])


def packed_floats(value: Value) -> list[float]:
    """Values of a repeated float field: one fixed value, or many packed into bytes."""
    view = raw(value)
    if len(view) % 4:
        raise WireError(f"{len(view)} bytes of packed floats are no multiple of 4")
    return list(struct.unpack(f"<{len(view) // 4}f", view))


def _varint(data: memoryview, at: int) -> tuple[int, int]:
    value = 0
    for shift in range(_VARINT_BYTES_MAX):
        if at >= len(data):
            raise WireError(f"byte {at}: a number is cut")
        byte = data[at]
        at += 1
        value |= (byte & 0x7F) << (7 * shift)
        if byte < 0x80:
            return value & (2**64 - 1), at
    raise WireError(f"byte {at}: a number of more than 64 bits")
