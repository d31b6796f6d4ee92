"""Liveness of a participant: fresh, stale or gone, computed for the moment asked about and never recorded.

It rests on `recorded_at` (our clock) of fresh evidence alone: a snapshot by the participant's own page, or another
page's snapshot in which the participant's report marker moved on. See DESIGN §13 and docs/events.md.
"""

from typing import Literal

import msgspec

from service.domain.times import as_seconds

State = Literal["fresh", "stale", "gone"]


class Liveness(msgspec.Struct, frozen=True):
    """`state`, how old the evidence is, the limit that was applied, and the event that is the evidence."""

    state: State
    age_s: float
    limit_s: float
    evidence_position: int


def judge_liveness(evidence_us: int, evidence_position: int, is_gone: bool, moment_us: int, limit_us: int) -> Liveness:
    """Liveness at `moment_us`. Evidence as old as the limit is stale; who left is gone, however fresh."""
    age_us = max(0, moment_us - evidence_us)
    state: State = "gone" if is_gone else "stale" if age_us >= limit_us else "fresh"
    return Liveness(state, as_seconds(age_us), as_seconds(limit_us), evidence_position)
