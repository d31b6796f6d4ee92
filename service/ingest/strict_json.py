"""The gate's rules on JSON text itself: validity, duplicate keys, nesting, long strings, NUL, numbers, secrets.

Quick looks at the bytes clear nearly every text at C speed; only a suspect one is walked, exactly and with paths. The
quick looks may suspect wrongly and never clear wrongly (tests hold them against the walk).
"""

import json
import math
from itertools import accumulate
from typing import Any

import msgspec

from service.domain.secrets import REMOVED, is_secret_key, may_hold_secrets
from service.errors import DuplicateKey, InvalidField, InvalidJson, NestingTooDeep, NumberOutOfRange, TooLarge
from service.ingest.json_walk import Path, path_text, walk
from service.settings import Settings

_NOT_BRACKETS = bytes(set(range(256)) - set(b"{}[]"))
_ONE_KIND = bytes.maketrans(b"[]", b"{}")
_decode = msgspec.json.Decoder().decode
_outline = msgspec.json.Decoder(msgspec.Raw).decode
DIGITS_MAX = 200
"""Longest integer: digits are kept, never rounded, but no reader has to take a number without end."""
_DIGITS_ALIKE = bytes.maketrans(b"123456789", b"0" * 9)
_REMOVED = msgspec.json.encode(REMOVED)
_TOO_MANY_DIGITS = b"0" * (DIGITS_MAX + 1)


class _Duplicate(Exception):
    """An object has one key twice; which one and where is found by walking."""


def check_text(text: bytes, limits: Settings, root: str) -> None:
    """Refuses what is no strict JSON within the limits; `root` is where the text stands, for the paths in messages.

    Raises InvalidJson, NestingTooDeep, DuplicateKey, NumberOutOfRange, TooLarge or InvalidField.
    """
    check_nesting(text, limits.nesting_max, root)
    number_error = _decode_strictly(text, root)
    if number_error is not None or _is_suspect(text, limits.text_characters_max):
        _check_by_walking(text, limits, root)
    if number_error is not None:
        raise number_error


def _decode_strictly(text: bytes, root: str) -> NumberOutOfRange | None:
    """Raises InvalidJson. A number beyond its range is given back, as only a walk knows where it stands."""
    try:
        text.decode()
        try:
            _decode(text)
        except msgspec.ValidationError:
            _outline(text)  # the decoder stopped at the number: is the rest valid?
            return NumberOutOfRange(f"{root}: a number is out of range", path=root)
    except (msgspec.DecodeError, UnicodeDecodeError) as error:
        raise InvalidJson(f"{root}: not valid JSON in UTF-8: {error}", path=root) from None
    return None


def check_nesting(text: bytes, nesting_max: int, root: str) -> None:
    """Refuses objects and lists that stand deeper than `nesting_max` in each other. The text need not be valid."""
    if text.count(b"{") + text.count(b"[") <= nesting_max:
        return
    brackets = b"".join(_split_at_quotes(text)[::2]).translate(_ONE_KIND, _NOT_BRACKETS)
    cancelled = brackets
    for _ in range(nesting_max):  # each pass takes away the innermost pairs: one level
        cancelled = cancelled.replace(b"{}", b"")
    if cancelled and _depth(brackets) > nesting_max:
        raise NestingTooDeep(
            f"{root}: objects and lists are nested deeper than {nesting_max}; flatten the document",
            path=root, limit=nesting_max, unit="levels",
        )  # fmt: skip


def _split_at_quotes(text: bytes) -> list[bytes]:
    """What stands outside of strings (even places) and inside (odd places), as long as it was."""
    return text.replace(b"\\\\", b"__").replace(b'\\"', b"__").split(b'"')


def _depth(brackets: bytes) -> int:
    return max(accumulate(1 if mark in b"{" else -1 for mark in brackets), default=0)


def _is_suspect(text: bytes, characters_max: int) -> bool:
    """Whether the valid text may break a rule that only the walk can decide."""
    return (
        b"\\u0000" in text
        or (len(text) > DIGITS_MAX and _TOO_MANY_DIGITS in text.translate(_DIGITS_ALIKE))
        or (len(text) > characters_max and max(map(len, _split_at_quotes(text))) > characters_max)
        or _has_duplicate_key(text)
    )


def _pairs_without_duplicates(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    members = dict(pairs)
    if len(members) != len(pairs):
        raise _Duplicate
    return members


_raw_decode = json.JSONDecoder(object_pairs_hook=_pairs_without_duplicates, parse_float=str, parse_int=str).raw_decode


def _has_duplicate_key(text: bytes) -> bool:
    try:
        _raw_decode(text.decode().lstrip())
    except _Duplicate:
        return True
    return False


def _check_by_walking(text: bytes, limits: Settings, root: str) -> None:
    """The exact rules, with the path of the first thing that breaks one."""
    keys_seen: dict[Path, set[str]] = {}
    for piece in walk(text):
        if piece.kind == "open":
            keys_seen[piece.path] = set()
        elif piece.kind == "key":
            _check_key(piece.path, keys_seen[piece.path[:-1]], root)
        elif piece.kind == "scalar":
            _check_scalar(piece.text, piece.path, root)
        elif piece.kind == "string" and piece.path[-1:] == ("id",):
            _check_nul(piece.text, piece.path, root)
        _check_length(piece.text, limits.text_characters_max, piece.path, root)


def _check_key(path: Path, seen: set[str], root: str) -> None:
    key = str(path[-1])
    if key in seen:
        where = path_text(root, path)
        raise DuplicateKey(f"{where}: the same key stands twice in one object; send it once", path=where)
    seen.add(key)
    _check_nul(key, path, root)


def _check_nul(text: str, path: Path, root: str) -> None:
    if "\x00" in text:
        where = path_text(root, path)
        raise InvalidField(f"{where}: keys and ids must not contain the NUL character", path=where)


def _check_scalar(literal: str, path: Path, root: str) -> None:
    """Finite as a double, and an integer of no more digits than any reader takes."""
    if literal[0] not in "-0123456789":
        return
    if not math.isfinite(float(literal)) or (len(literal) > DIGITS_MAX and literal.lstrip("-").isdigit()):
        where = path_text(root, path)
        raise NumberOutOfRange(
            f"{where}: the number is not finite as a double, or an integer of more than {DIGITS_MAX} digits; "
            'a non-finite number travels as {"non_finite":"Infinity"}',
            path=where,
        )  # fmt: skip


def _check_length(text: str, characters_max: int, path: Path, root: str) -> None:
    if len(text) > characters_max:
        where = path_text(root, path)
        raise TooLarge(
            f"{where}: got a string of {len(text)} characters, wanted at most {characters_max}",
            limit=characters_max, got=len(text), unit="characters", path=where,
        )  # fmt: skip


def without_secrets(text: bytes) -> bytes:
    """The valid text with `"[removed]"` in the place of each secret's value; every other byte stays as it is."""
    if not may_hold_secrets(text):
        return text
    kept: list[bytes] = []
    at = 0
    for start, end in _secret_spans(text):
        kept += [text[at:start], _REMOVED]
        at = end
    return b"".join([*kept, text[at:]])


def _secret_spans(text: bytes) -> list[tuple[int, int]]:
    """Where the values of secrets stand, in order, none inside another."""
    spans: list[tuple[int, int]] = []
    for piece in walk(text):
        is_null = piece.kind == "scalar" and piece.text == "null"
        if piece.kind in ("key", "open") or is_null or not _is_secret(piece.path):
            continue
        while spans and spans[-1][0] > piece.start:  # a secret object closes after what stands in it
            spans.pop()
        spans.append((piece.start, piece.end))
    return spans


def _is_secret(path: Path) -> bool:
    if not path or not isinstance(path[-1], str):
        return False
    keys = [part for part in path if isinstance(part, str)]
    return is_secret_key(keys[-1], keys[-2] if len(keys) > 1 else None)
