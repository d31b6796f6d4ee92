"""What a single reported value may be: readers that give it typed, or say why it is unavailable.

Nothing here knows where a value stands; that is the lens. Numbers keep all their digits, ids come out as strings, and
nothing missing becomes 0. A `Word` is one part of a document as a page said it.
"""

from collections.abc import Callable
from typing import Any

from service.domain.facts import MISSING, NOT_A_NUMBER, NULL, Fact, non_finite_name
from service.domain.identifiers import is_sha256
from service.domain.times import format_us

Word = dict[str, Any]
Reader = Callable[[Any], tuple[Any, str | None]]
"""Gives (value, None), or (None, why it cannot be read)."""
Path = tuple[str, ...]

MS_MAX = 253_402_300_800_000
"""10000-01-01 in ms: the first moment that RFC 3339 cannot write."""


def number(value: Any) -> tuple[Any, str | None]:
    """A number with all its digits, or the tag of a non-finite one."""
    if isinstance(value, int | float) and not isinstance(value, bool):
        return value, None
    name = non_finite_name(value)
    return (None, NOT_A_NUMBER) if name is None else ({"non_finite": name}, None)


def text(value: Any) -> tuple[Any, str | None]:
    return (value, None) if isinstance(value, str) else (None, "reported, but not as text")


def flag(value: Any) -> tuple[Any, str | None]:
    return (value, None) if isinstance(value, bool) else (None, "reported, but not as true or false")


def identifier(value: Any) -> tuple[Any, str | None]:
    """An id as a string, digit for digit."""
    if isinstance(value, str) and value:
        return value, None
    if isinstance(value, int) and not isinstance(value, bool):
        return str(value), None
    return None, "reported, but not as an id"


def digest(value: Any) -> tuple[Any, str | None]:
    return (value, None) if isinstance(value, str) and is_sha256(value) else (None, "reported, but not as a SHA-256")


def moment_ms(value: Any) -> tuple[Any, str | None]:
    """A page's time in ms since 1970 as RFC 3339. It is the page's claim, by the page's clock."""
    if isinstance(value, int | float) and not isinstance(value, bool) and 0 <= value < MS_MAX:
        return format_us(int(value * 1000)), None
    return None, "reported, but not as a moment"


def opaque(value: Any) -> tuple[Any, str | None]:
    """As reported, whatever it is."""
    return value, None


def read(word: Word | None, path: Path, reader: Reader, position: int | None = None) -> Fact:
    """The value at `path` as a Fact: there, or unavailable and why."""
    if word is None:
        return Fact(None, MISSING, position)
    value: Any = word
    for key in path:
        if value is None:
            return Fact(None, NULL, position)
        if not isinstance(value, dict):
            return Fact(None, "reported, but not as an object", position)
        if key not in value:
            return Fact(None, MISSING, position)
        value = value[key]
    if value is None:
        return Fact(None, NULL, position)
    found, reason = reader(value)
    return Fact(found, reason, position)


def finite(word: Any, key: str) -> float | None:
    """The finite number under `key`, where `word` is an object that has one."""
    value = word.get(key) if isinstance(word, dict) else None
    if isinstance(value, int | float) and not isinstance(value, bool) and value - value == 0:
        return value
    return None
