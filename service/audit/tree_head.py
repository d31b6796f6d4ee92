"""Tree heads: size and root of the log, their text form (C2SP tlog-checkpoint), signed as a note. No store, no files.

C2SP calls the text form a checkpoint; here that word means a model checkpoint, so it is a tree head.
"""

import base64
import re
from collections.abc import Sequence

import msgspec

from service.audit.merkle import EMPTY_ROOT, HASH_SIZE
from service.audit.signed_note import SigningKey, VerifierKey, from_base64, open_note, sign_note
from service.errors import MalformedNote

_SIZE = re.compile(r"0|[1-9][0-9]{0,18}", re.ASCII)


class TreeHead(msgspec.Struct, frozen=True):
    """The log at one moment: how many leaves, and their Merkle root (32 bytes). `extensions` are kept as read."""

    size: int
    root: bytes
    origin: str
    extensions: tuple[str, ...] = ()


def head_text(head: TreeHead) -> str:
    """The signed lines: origin, size, base64 of the root. c2sp.org/tlog-checkpoint."""
    lines = [head.origin, str(head.size), base64.b64encode(head.root).decode(), *head.extensions]
    return "".join(f"{line}\n" for line in lines)


def parse_head(text: str) -> TreeHead:
    """The head behind the signed lines. Raises MalformedNote for any other spelling of the same numbers."""
    if not text.endswith("\n"):
        raise MalformedNote("a tree head ends in a line feed")
    lines = text[:-1].split("\n")
    if len(lines) < 3 or not all(lines):
        raise MalformedNote("a tree head has three lines or more, none of them empty: origin, size, root")
    origin, size, root, *extensions = lines
    if _SIZE.fullmatch(size) is None:
        raise MalformedNote(f"got the size {size[:40]!r}, wanted decimal digits without sign or leading zero")
    head = TreeHead(int(size), from_base64(root), origin, tuple(extensions))
    if len(head.root) != HASH_SIZE:
        raise MalformedNote(f"got a root of {len(head.root)} bytes, wanted {HASH_SIZE}")
    if head.size == 0 and head.root != EMPTY_ROOT:
        raise MalformedNote("the root of an empty log is SHA-256 of nothing")
    return head


def sign_head(head: TreeHead, keys: Sequence[SigningKey]) -> str:
    """The head as a signed note."""
    return sign_note(head_text(head), keys)


def open_head(note: str, keys: Sequence[VerifierKey], origin: str | None = None) -> TreeHead:
    """The head behind a note that a known key signed, of this origin when given. Raises MalformedNote."""
    head = parse_head(open_note(note, keys))
    if origin is not None and head.origin != origin:
        raise MalformedNote(f"the head is of the log {head.origin!r}, not of {origin!r}")
    return head
