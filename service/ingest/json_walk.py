"""A walk over valid JSON text: every key and value with its path and its place in the bytes. Decides nothing.

msgspec and `json` decode faster but keep the last of two equal keys and forget where a value stood. The gate walks only
a text that its quick looks could not clear, and to name the path of what it refuses.
"""

import re
from collections.abc import Iterator
from typing import Literal, NamedTuple

import msgspec

_TOKEN = re.compile(rb'"(?:[^"\\]++|\\.)*+"|[{}\[\]:,]|[^\s{}\[\]:,"]++', re.DOTALL)
_decode_text = msgspec.json.Decoder(str).decode

Path = tuple[str | int, ...]


class Piece(NamedTuple):
    """One piece of the text. `path` leads to it; a `close` spans its whole object or list, from `start` to `end`.

    `text` is the decoded string for a `key` or `string`, the literal for a `scalar`, empty otherwise.
    """

    kind: Literal["key", "open", "string", "scalar", "close"]
    path: Path
    start: int
    end: int
    text: str


def walk(text: bytes) -> Iterator[Piece]:
    """The pieces of a valid JSON text in order. What it gives for text that is not valid means nothing."""
    path: list[str | int] = []
    opened: list[int] = []
    awaits_key = False
    for match in _TOKEN.finditer(text):
        start, end = match.span()
        mark = text[start]
        if mark in b"{[":
            yield Piece("open", tuple(path), start, end, "")
            opened.append(start)
            awaits_key = mark in b"{"
            path.append("" if awaits_key else 0)
        elif mark in b"}]":
            path.pop()
            yield Piece("close", tuple(path), opened.pop(), end, "")
        elif mark in b",":
            last = path[-1]
            awaits_key = isinstance(last, str)
            if isinstance(last, int):
                path[-1] = last + 1
        elif mark in b'"':
            word = _decode_text(match.group())
            if awaits_key:
                path[-1] = word
            yield Piece("key" if awaits_key else "string", tuple(path), start, end, word)
            awaits_key = False
        elif mark not in b":":
            yield Piece("scalar", tuple(path), start, end, match.group().decode())


def path_text(root: str, path: Path) -> str:
    """`$.data.items[3].id`; a key that is no plain word stands in brackets, as JSON and cut to 64 characters."""
    return root + "".join(_step(part) for part in path)


def _step(part: str | int) -> str:
    if isinstance(part, int):
        return f"[{part}]"
    if part.isascii() and part.replace("_", "a").isalnum() and len(part) <= 64:
        return f".{part}"
    return f"[{msgspec.json.encode(part[:64]).decode()}]"
