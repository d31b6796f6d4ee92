"""Safetensors files: the one strict bounded reader and the byte-stable writer. What the tensors mean is not known here.

Layout (safetensors format, all integers little-endian):

    byte 0        u64     header size n
    byte 8        n bytes JSON header, padded with spaces
    byte 8 + n    data    the tensors, row-major, without gap or overlap, up to the last byte of the file

The reader checks every length against the file's size before it allocates, multiplies in unbounded integers, and reads
each tensor with an explicit little-endian dtype. Checkpoints, updates and validation sets all pass through it.
"""

import math
from collections.abc import Mapping
from typing import Any, NamedTuple

import numpy as np

from service.artifacts.byte_source import ByteSource, Readable, as_source
from service.artifacts.safetensors_header import METADATA_KEY, HeaderError, TensorEntry, parse_header
from service.domain.canonical import canonical_json
from service.errors import MalformedTensorFile

Array = np.ndarray[Any, np.dtype[Any]]
HEADER_BYTES_MAX = 16 * 1024 * 1024
PREFIX_BYTES = 8
INT64_MAX = 2**63 - 1

DTYPES: dict[str, np.dtype[Any]] = {
    "F64": np.dtype("<f8"), "F32": np.dtype("<f4"), "F16": np.dtype("<f2"), "BF16": np.dtype("<u2"),
    "I64": np.dtype("<i8"), "I32": np.dtype("<i4"), "I16": np.dtype("<i2"), "I8": np.dtype("i1"),
    "U64": np.dtype("<u8"), "U32": np.dtype("<u4"), "U16": np.dtype("<u2"), "U8": np.dtype("u1"),
    "BOOL": np.dtype("?"),
}  # fmt: skip
"""How each dtype lies in the file. BF16 has no numpy type: it is read as its 16 bits and widened exactly to float32."""
_NAMES = {dtype: name for name, dtype in DTYPES.items() if name != "BF16"}


class Layout(NamedTuple):
    """Where everything lies. `entries` are in the order of the data; `data_offset` is the first data byte."""

    entries: list[TensorEntry]
    metadata: dict[str, str]
    data_offset: int


def read_layout(data: Readable, error: type[MalformedTensorFile] = MalformedTensorFile) -> Layout:
    """The checked layout; no tensor byte is read. Raises `error`, which names byte offset and reason."""
    source = as_source(data)
    header_size = _header_size(source, error)
    data_offset = PREFIX_BYTES + header_size
    try:
        header = parse_header(source.read(PREFIX_BYTES, data_offset))
    except HeaderError as refusal:
        raise malformed(error, PREFIX_BYTES + refusal.offset, refusal.reason) from None
    entries = sorted(header.entries, key=lambda entry: (entry.begin, entry.end))
    _check_coverage(entries, source.size_bytes - data_offset, data_offset, error)
    return Layout(entries, header.metadata, data_offset)


def read_tensor(source: ByteSource, layout: Layout, entry: TensorEntry) -> Array:
    """One tensor, read-only, in its little-endian dtype; a view where the source allows it. BF16 comes as float32."""
    raw = source.read(layout.data_offset + entry.begin, layout.data_offset + entry.end)
    flat = np.frombuffer(raw, dtype=DTYPES[entry.dtype])
    array: Array = widen(flat, entry.dtype).reshape(entry.shape)
    array.flags.writeable = False
    return array


def read_tensors(data: Readable, error: type[MalformedTensorFile] = MalformedTensorFile) -> dict[str, Array]:
    """All tensors by name, in the order of the data. Raises `error` for a malformed file."""
    source = as_source(data)
    layout = read_layout(source, error)
    return {entry.name: read_tensor(source, layout, entry) for entry in layout.entries}


def write_tensors(tensors: Mapping[str, Array], metadata: Mapping[str, str] | None = None) -> bytes:
    """The file's bytes: names sorted, canonical header padded with spaces to 8. Equal input gives equal bytes.

    Raises ValueError for a dtype that the format cannot hold or the reserved name.
    """
    header: dict[str, Any] = {METADATA_KEY: dict(metadata)} if metadata else {}
    chunks: list[bytes] = []
    begin = 0
    for name in sorted(tensors):
        array = tensors[name]
        little_endian = array.dtype.newbyteorder("<")
        if little_endian not in _NAMES or name == METADATA_KEY:
            raise ValueError(
                f"tensor {name!r} of dtype {array.dtype} cannot be written; wanted one of {sorted(DTYPES)}"
            )
        chunk = np.ascontiguousarray(array, dtype=little_endian).tobytes()
        header[name] = {
            "dtype": _NAMES[little_endian],
            "shape": list(array.shape),
            "data_offsets": [begin, begin + len(chunk)],
        }
        chunks.append(chunk)
        begin += len(chunk)
    text = canonical_json(header)
    text += b" " * (-len(text) % 8)
    return b"".join([len(text).to_bytes(PREFIX_BYTES, "little"), text, *chunks])


def widen(flat: Array, dtype: str) -> Array:
    """BF16 bits to the float32 of equal value (its upper half); any other dtype as it is."""
    if dtype != "BF16":
        return flat
    return (flat.astype("<u4") << 16).view("<f4")


def malformed(error: type[MalformedTensorFile], offset: int, reason: str) -> MalformedTensorFile:
    """The refusal, with its byte offset in the message and in `details`."""
    return error(f"at byte {offset}: {reason}", offset=offset, reason=reason)


def _header_size(source: ByteSource, error: type[MalformedTensorFile]) -> int:
    """The header size of bytes 0..7, checked against the file's size before anything is read by it."""
    if source.size_bytes < PREFIX_BYTES:
        raise malformed(error, 0, f"the file has {source.size_bytes} bytes, wanted at least {PREFIX_BYTES}")
    header_size = int.from_bytes(source.read(0, PREFIX_BYTES), "little")
    room = source.size_bytes - PREFIX_BYTES
    if header_size > room:
        raise malformed(error, 0, f"the header is said to have {header_size} bytes, but only {room} follow")
    if header_size > HEADER_BYTES_MAX:
        raise malformed(error, 0, f"the header has {header_size} bytes, wanted at most {HEADER_BYTES_MAX}")
    return header_size


def _check_coverage(
    entries: list[TensorEntry], data_size: int, data_offset: int, error: type[MalformedTensorFile]
) -> None:
    """Each tensor has the bytes its shape asks for, and together they cover the data without gap, overlap or rest."""
    expected = 0
    for entry in entries:
        at = PREFIX_BYTES + entry.header_offset
        if entry.dtype not in DTYPES:
            known = ", ".join(DTYPES)
            raise malformed(error, at, f"tensor {entry.name!r} has unknown dtype {entry.dtype[:40]!r}; known: {known}")
        item_size = DTYPES[entry.dtype].itemsize
        if math.prod(size or 1 for size in entry.shape) * item_size > INT64_MAX:
            raise malformed(
                error, at, f"tensor {entry.name!r} of shape {list(entry.shape)} is beyond 64-bit addressing"
            )
        size = math.prod(entry.shape) * item_size
        if entry.end - entry.begin != size:
            raise malformed(
                error, at,
                f"tensor {entry.name!r} of shape {list(entry.shape)} and dtype {entry.dtype} needs {size} bytes, "
                f"data_offsets [{entry.begin}, {entry.end}] give {entry.end - entry.begin}",
            )  # fmt: skip
        if entry.begin != expected:
            raise malformed(
                error, at,
                f"tensor {entry.name!r} begins at data byte {entry.begin}, wanted {expected}: a gap or an overlap",
            )  # fmt: skip
        expected = entry.end
    if expected != data_size:
        raise malformed(
            error, data_offset + min(expected, data_size),
            f"the tensors cover {expected} data bytes, the file has {data_size}",
        )  # fmt: skip
