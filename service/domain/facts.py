"""Values that keep their difference: a number, NaN, +Inf, -Inf, null, missing and 0 stay seven different things.

JSON has no NaN, so a non-finite number travels as `{"non_finite": "NaN" | "Infinity" | "-Infinity"}` (the tag) in
events, REST answers and exports alike. `read_number` is the one place that turns what a document says into a Fact.
"""

import math
from typing import Any, Literal

import msgspec

NonFinite = Literal["NaN", "Infinity", "-Infinity"]
_NAMES: dict[str, NonFinite] = {
    "NaN": "NaN",
    "Infinity": "Infinity",
    "+Infinity": "Infinity",
    "-Infinity": "-Infinity",
}

MISSING = "not reported"
NULL = "reported as unavailable"
NOT_A_NUMBER = "reported, but not as a number"


class Fact(msgspec.Struct, frozen=True):
    """One reported value: `value` (None when unavailable), why it is unavailable, and the event that says so.

    `reason` is None exactly when `value` is there. A non-finite number is a value: its tag, not an absence.
    """

    value: Any = None
    reason: str | None = MISSING
    position: int | None = None


def tag_number(number: float) -> float | dict[str, str]:
    """The number itself when finite, else its tag."""
    if math.isfinite(number):
        return number
    return {"non_finite": "NaN" if math.isnan(number) else "Infinity" if number > 0 else "-Infinity"}


def untag_number(value: Any) -> float | None:
    """The float behind a number or a tag (NaN and infinities included); None for anything else."""
    if isinstance(value, bool):
        return None
    if isinstance(value, int | float):
        return float(value)
    name = non_finite_name(value)
    return None if name is None else float(name.replace("Infinity", "inf"))


def non_finite_name(value: Any) -> NonFinite | None:
    """Which non-finite number a document value means: a tag, or the same word as a plain string."""
    if isinstance(value, dict) and len(value) == 1:
        value = value.get("non_finite")
    return _NAMES.get(value) if isinstance(value, str) else None


def read_number(document: dict[str, Any], key: str, position: int | None = None) -> Fact:
    """The number under `key`, as a Fact: finite number, tag, or unavailable with the reason. Never 0 for missing."""
    if key not in document:
        return Fact(None, MISSING, position)
    value = document[key]
    if value is None:
        return Fact(None, NULL, position)
    if isinstance(value, int | float) and not isinstance(value, bool):
        return Fact(value, None, position)
    name = non_finite_name(value)
    if name is not None:
        return Fact({"non_finite": name}, None, position)
    return Fact(None, NOT_A_NUMBER, position)
