"""Moments as integer microseconds since 1970-01-01 UTC, and their one text form.

Storage and arithmetic use the integer, so no time zone of a host can shift anything; text is RFC 3339 with
exactly six decimals and `Z`. Reading accepts any RFC 3339 offset and refuses a time without one.
"""

import re
from collections.abc import Callable
from datetime import UTC, datetime, timedelta

from service.errors import InvalidField

Clock = Callable[[], int]
"""Gives the present moment in µs UTC. Passed in as an argument everywhere; tests pass their own."""

US_PER_S = 1_000_000
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_RFC3339 = re.compile(r"(\d{4}-\d{2}-\d{2})[Tt ](\d{2}:\d{2}:\d{2})(?:\.(\d{1,9}))?([Zz]|[+-]\d{2}:\d{2})", re.ASCII)


def system_clock() -> int:
    """Now, from the host's clock, in µs UTC."""
    return (datetime.now(UTC) - _EPOCH) // timedelta(microseconds=1)


def parse_rfc3339(text: str, path: str = "$") -> int:
    """µs UTC of an RFC 3339 time (section 5.6). Digits below the microsecond are cut off, never rounded.

    Raises InvalidField, naming `path`, for anything else: a time without zone, a leap second, 24:00.
    """
    match = _RFC3339.fullmatch(text)
    if match is None:
        raise InvalidField(
            f"{path}: got {text[:64]!r}, wanted an RFC 3339 time with a zone such as 2026-12-01T05:00:00.123Z",
            path=path,
        )
    day, clock, fraction, zone = match.groups()
    micros = (fraction or "")[:6].ljust(6, "0")
    try:
        moment = datetime.fromisoformat(f"{day}T{clock}.{micros}{'+00:00' if zone in 'Zz' else zone}")
        return (moment - _EPOCH) // timedelta(microseconds=1)
    except (ValueError, OverflowError) as error:
        raise InvalidField(f"{path}: got {text[:64]!r}, which is no moment: {error}", path=path) from None


def format_us(moment_us: int) -> str:
    """`2026-12-01T05:00:00.123000Z` for a moment in µs UTC (years 1 to 9999)."""
    return (_EPOCH + timedelta(microseconds=moment_us)).strftime("%Y-%m-%dT%H:%M:%S.%fZ").rjust(27, "0")


def as_seconds(duration_us: int) -> float:
    """A duration in µs as seconds, for answers."""
    return duration_us / US_PER_S
