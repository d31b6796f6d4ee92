"""The JSON header of a safetensors file, read entry by entry against its one grammar; every refusal has its offset.

A general JSON parser would first build whatever the header says. This one meets nothing but the grammar, so a hostile
header costs no more memory than the tensors it truly describes, and a repeated name is seen at once.

    header   = "{" [ entry { "," entry } ] "}" { " " }
    entry    = "__metadata__" ":" "{" [ string ":" string { "," string ":" string } ] "}"  |  name ":" tensor
    tensor   = "{" "dtype" ":" string, "shape" ":" sizes, "data_offsets" ":" "[" begin "," end "]" "}"   (any order)
"""

import re
from collections.abc import Iterator
from typing import NamedTuple

import msgspec

from service.artifacts.byte_source import Bytes

METADATA_KEY = "__metadata__"
TENSORS_MAX = 65_536
METADATA_KEYS_MAX = 256
AXES_MAX = 16
NAME_LENGTH_MAX = 512

_SPACE = rb"[ \t\n\r]*+"
_STRING = rb'("(?:[^"\\]++|\\.)*+")'
_KEY = re.compile(_SPACE + _STRING + _SPACE + rb":" + _SPACE, re.DOTALL)
_VALUE_STRING = re.compile(_STRING, re.DOTALL)
_VALUE_TENSOR = re.compile(rb"\{[^{}]{1,1024}\}", re.DOTALL)
_MARK = re.compile(_SPACE + rb"([{},])")
_TENSOR_QUOTES = 8  # three keys and the dtype: with all three fields there, no room is left for a repeated one


class HeaderError(ValueError):
    """The header breaks the grammar: `reason`, and `offset` in bytes from the header's first byte."""

    def __init__(self, reason: str, offset: int) -> None:
        super().__init__(reason)
        self.reason = reason
        self.offset = offset


class TensorEntry(NamedTuple):
    """One tensor as the header describes it; `begin` and `end` count bytes from the start of the data."""

    name: str
    dtype: str
    shape: tuple[int, ...]
    begin: int
    end: int
    header_offset: int


class Header(NamedTuple):
    """The tensors in the order of the header, and the metadata (empty when there is none)."""

    entries: list[TensorEntry]
    metadata: dict[str, str]


class _TensorValue(msgspec.Struct, forbid_unknown_fields=True):
    dtype: str
    shape: tuple[int, ...]
    data_offsets: tuple[int, int]


_decode_string = msgspec.json.Decoder(str).decode
_decode_tensor = msgspec.json.Decoder(_TensorValue).decode


def parse_header(text: Bytes) -> Header:
    """The header's records. Raises HeaderError for anything outside the grammar, duplicates included."""
    return _Parser(text).header()


class _Parser:
    """A cursor: `next` is the first byte not yet read, `at` the place of the key that was read last."""

    def __init__(self, text: Bytes) -> None:
        self.text = text
        self.next = 0
        self.at = 0

    def header(self) -> Header:
        entries: dict[str, TensorEntry] = {}
        metadata: dict[str, str] | None = None
        for name in self.keys("a tensor name"):
            if name == METADATA_KEY and metadata is None:
                metadata = self.metadata()
                continue
            if name in entries or name == METADATA_KEY:
                raise HeaderError(f"duplicate key: {name[:200]!r} is described twice", self.at)
            if not name or len(name) > NAME_LENGTH_MAX or "\x00" in name:
                raise HeaderError(
                    f"tensor name {name[:40]!r}: wanted 1 to {NAME_LENGTH_MAX} characters, no NUL", self.at
                )
            if len(entries) == TENSORS_MAX:
                raise HeaderError(f"more than {TENSORS_MAX} tensors", self.at)
            entries[name] = self.tensor(name)
        if bytes(self.text[self.next :]).strip(b" "):
            raise HeaderError("bytes other than spaces after the closing brace", self.next)
        return Header(list(entries.values()), metadata or {})

    def metadata(self) -> dict[str, str]:
        metadata: dict[str, str] = {}
        for key in self.keys("a metadata key"):
            if key in metadata:
                raise HeaderError(f"duplicate key: {METADATA_KEY}.{key[:200]} is given twice", self.at)
            if len(metadata) == METADATA_KEYS_MAX:
                raise HeaderError(f"more than {METADATA_KEYS_MAX} metadata keys", self.at)
            metadata[key] = self.string(self.take(_VALUE_STRING, f"{METADATA_KEY}.{key[:200]} as a string"))
        return metadata

    def tensor(self, name: str) -> TensorEntry:
        at = self.at
        raw = self.take(_VALUE_TENSOR, f"tensor {name[:200]!r} as an object of dtype, shape and data_offsets").group()
        try:
            value = _decode_tensor(raw)
        except (msgspec.DecodeError, RecursionError) as error:
            raise HeaderError(f"tensor {name[:200]!r}: {error}", at) from None
        if raw.count(b'"') != _TENSOR_QUOTES:
            raise HeaderError(f"tensor {name[:200]!r}: duplicate key, or a dtype with quotes in it", at)
        begin, end = value.data_offsets
        if len(value.shape) > AXES_MAX or any(size < 0 for size in (*value.shape, *value.data_offsets)):
            raise HeaderError(f"tensor {name[:200]!r}: wanted at most {AXES_MAX} axes and no negative number", at)
        return TensorEntry(name, value.dtype, value.shape, begin, end, at)

    def keys(self, wanted: str) -> Iterator[str]:
        """Walks one object: gives each key, after which the caller takes the value."""
        self.mark(b"{")
        if self.text[self.next : self.next + 1] == b"}":
            self.next += 1
            return
        mark = b","
        while mark == b",":
            match = self.take(_KEY, f"{wanted} and a colon")
            self.at = match.start(1)
            yield self.string(match)
            mark = self.mark(b",", b"}")

    def string(self, match: re.Match[bytes]) -> str:
        try:
            return _decode_string(match.group(1))
        except msgspec.DecodeError as error:
            raise HeaderError(f"not a JSON string: {error}", match.start(1)) from None

    def mark(self, *wanted: bytes) -> bytes:
        names = " or ".join(mark.decode() for mark in wanted)
        mark: bytes = self.take(_MARK, names).group(1)
        if mark not in wanted:
            raise HeaderError(f"wanted {names}", self.next - 1)
        return mark

    def take(self, pattern: re.Pattern[bytes], wanted: str) -> re.Match[bytes]:
        match = pattern.match(self.text, self.next)
        if match is None:
            raise HeaderError(f"wanted {wanted}", self.next)
        self.next = match.end()
        return match
