"""Strict JSON for the artifact formats: typed decoding, and duplicate keys refused with path and byte offset.

msgspec and `json` keep the last of two equal keys and say nothing, so that one value could hide behind another; the
check here is a scan of its own. Raises NotStrict, which each format turns into its own error.
"""

import re
from typing import TypeVar

import msgspec

T = TypeVar("T")
# A key is a string followed by a colon; other strings only have to be stepped over.
_TOKEN = re.compile(rb'("(?:[^"\\]++|\\.)*+")([ \t\n\r]*+:)?|([{}\[\],])', re.DOTALL)


class NotStrict(ValueError):
    """Not the JSON wanted: `reason` says why, `offset` is the byte where it shows (None when only a path is known)."""

    def __init__(self, reason: str, offset: int | None = None) -> None:
        super().__init__(reason)
        self.reason = reason
        self.offset = offset


def decode_strict(text: bytes, wanted: type[T]) -> T:
    """The document as `wanted`. Raises NotStrict for bad JSON, a wrong or unknown field, or a duplicate key."""
    try:
        value = msgspec.json.decode(text, type=wanted)
    except (msgspec.DecodeError, RecursionError, UnicodeDecodeError) as error:
        raise NotStrict(str(error)) from None
    refuse_duplicate_keys(text)
    return value


def refuse_duplicate_keys(text: bytes) -> None:
    """Raises NotStrict when an object of the (valid) JSON text has one key twice, however it is escaped."""
    keys_seen: list[set[str] | None] = []
    path: list[str | int] = []
    for match in _TOKEN.finditer(text):
        string, colon, mark = match.groups()
        if mark in (b"{", b"["):
            keys_seen.append(set() if mark == b"{" else None)
            path.append("" if mark == b"{" else 0)
        elif mark in (b"}", b"]"):
            keys_seen.pop()
            path.pop()
        elif mark == b",":
            if keys_seen and keys_seen[-1] is None:
                path[-1] = int(path[-1]) + 1
        elif colon is not None:
            seen = keys_seen[-1]
            key = msgspec.json.decode(string, type=str)
            path[-1] = key
            if seen is None or key in seen:
                raise NotStrict(f"duplicate key at {_path_text(path)}", match.start())
            seen.add(key)


def _path_text(path: list[str | int]) -> str:
    return "$" + "".join(f"[{part}]" if isinstance(part, int) else f".{part}" for part in path)
