"""From when on something counts: the limits of liveness and diagnostics, taken from the settings once."""

import msgspec

from service.domain.times import US_PER_S
from service.settings import Settings


class Thresholds(msgspec.Struct, frozen=True):
    """Times in µs. docs/operations.md explains each setting."""

    stale_after_us: int = 10 * US_PER_S
    speed_break_ratio: float = 8.0
    throttled_gap_us: int = 60 * US_PER_S
    throttled_tolerance_us: int = 10 * US_PER_S
    clock_skew_us: int = 30 * US_PER_S


def thresholds_of(settings: Settings) -> Thresholds:
    """The thresholds that the settings give."""
    return Thresholds(
        int(settings.stale_after_s * US_PER_S),
        settings.speed_break_ratio,
        int(settings.throttled_gap_s * US_PER_S),
        int(settings.throttled_tolerance_s * US_PER_S),
        int(settings.clock_skew_s * US_PER_S),
    )
