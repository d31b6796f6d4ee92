"""Where two pages of one job say different things, for longer than news takes to travel.

Words travel: a page may be behind for a moment without contradicting anybody. So a difference counts from when it has
stood for as long as the limit for liveness, between pages that are both heard within that limit. Whose word counts is
decided elsewhere; here both are evidence of a `contradiction`.
"""

from typing import Any

import msgspec

from service.domain import lens
from service.projections.flag_rules import Checked, Finding
from service.projections.jobs import Page
from service.projections.participants import Seen
from service.projections.step import Step

Differences = dict[str, Any]


class Suspect(msgspec.Struct, frozen=True, array_like=True, gc=False):
    """A difference since an event, not yet old enough to count."""

    position: int
    since_us: int


def follow(suspects: dict[str, Suspect], step: Step) -> tuple[dict[str, Suspect], list[Checked]]:
    """The differences after one snapshot, and those that hold for long enough."""
    if len(step.job.pages) == 1:
        return suspects, []
    recorder, now_us = step.observed.event.source.recorder, step.observed.recorded_at_us
    kept, checked = dict(suspects), []
    for participant, field, told in _compared(step):
        key = f"{recorder}\n{participant}\n{field}"
        if told is None:
            kept.pop(key, None)
            checked.append(Checked("contradiction", participant, f"{field} by {recorder}", None))
            continue
        suspect = kept.setdefault(key, Suspect(step.observed.position, now_us))
        if now_us - suspect.since_us >= step.limit_us:
            evidence = (suspect.position, step.observed.position)
            finding = Finding("contradiction", participant, f"{field} by {recorder}", evidence, told)
            checked.append(Checked(*finding[:3], finding))
    return kept, checked


def _compared(step: Step) -> list[tuple[str, str, Differences | None]]:
    """(participant, field, what both say or None when they agree) for each field that two pages tell."""
    now_us, page, counts = step.observed.recorded_at_us, step.page, step.counts
    found: list[tuple[str, str, Differences | None]] = []
    if counts is not None and counts is not page and now_us - counts.recorded_at_us < step.limit_us:
        found += [("", field, told) for field, told in _job_differences(page, counts).items()]
    for participant, seen in step.listed:
        if _is_told_by_another(seen, step):
            found += [(participant, field, told) for field, told in _execution_differences(seen).items()]
    return found


def _is_told_by_another(seen: Seen, step: Step) -> bool:
    """Whether this snapshot is another page's word about someone whose own page is heard."""
    own, other = seen.own, seen.other
    if own is None or other is None or other.position != step.observed.position:
        return False
    return step.observed.recorded_at_us - own.recorded_at_us < step.limit_us


def _job_differences(page: Page, counts: Page) -> dict[str, Differences | None]:
    mine, theirs = lens.job_words(page.job), lens.job_words(counts.job)
    return {field: _difference(mine[field], theirs[field]) for field in mine}


def _execution_differences(seen: Seen) -> dict[str, Differences | None]:
    own = lens.execution_of(seen.own.word if seen.own else {})
    other = lens.execution_of(seen.other.word if seen.other else {})
    return {
        "backend": _difference(other.backend, own.backend),
        "gpu_available": _difference(other.gpu_available, own.gpu_available),
    }


def _difference(told: Any, counts: Any) -> Differences | None:
    """Both values when both are told and differ; what one page leaves out contradicts nothing."""
    return None if told is None or counts is None or told == counts else {"told": told, "counts": counts}
