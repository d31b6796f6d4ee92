"""When a diagnostic flag holds: pure rules over one snapshot and what was known before it (docs/events.md lists them).

A state rule gives a Finding, or None where it does not hold; an instant rule gives what happened at this event.
`diagnostics` follows findings through time. Nothing here decides which page is right: both sides are evidence.
"""

from collections.abc import Iterator
from typing import Any, NamedTuple

from service.domain import lens
from service.domain.lens import Execution
from service.domain.times import as_seconds
from service.projections.step import Step


class Finding(NamedTuple):
    """A rule that holds: which flag, about whom, the positions that show it. `subject` keeps flags of a name apart."""

    name: str
    participant: str
    subject: str
    evidence: tuple[int, ...]
    detail: dict[str, Any]


class Checked(NamedTuple):
    """A state rule that was looked at: the flag's key, and what was found."""

    name: str
    participant: str
    subject: str
    finding: Finding | None


def has_news(step: Step) -> bool:
    """Whether this snapshot can change what any rule here finds."""
    return step.is_job_new or bool(step.told) or abs(_ahead_us(step)) > step.thresholds.clock_skew_us


def state_findings(step: Step) -> Iterator[Checked]:
    """Every state rule that this snapshot lets us look at."""
    page, recorder, position = step.page, step.observed.event.source.recorder, step.observed.position
    if step.is_job_new:
        yield _checked("epochs-conflict", "", recorder, (position,), lens.epochs(page.job)[1])
    yield _checked("clock-skew", "", recorder, (position,), _clock_skew(step))
    for participant, _, _, execution, _ in step.told:
        yield _checked("silent-cpu", participant, "", (position,), _silent_cpu(execution))
        yield _checked("contradiction", participant, "gpu", (position,), _gpu_contradiction(execution))
    if page.own_participant is not None and (step.is_job_new or step.told):
        yield from _workers_findings(step, page.own_participant)


def instant_findings(step: Step) -> Iterator[Finding]:
    """What happened at this snapshot, against the word about the same participant before it."""
    yield from _job_resets(step)
    for participant, said, before, new, old in step.told:
        if before is None or old is None:
            continue
        evidence = (before.position, said.position)
        if lens.is_gpu(old.backend) and not lens.is_gpu(new.backend):
            yield Finding("gpu-lost", participant, "", evidence, _gpu_lost(new, old))
        if _is_speed_break(old, new, step.thresholds.speed_break_ratio):
            yield Finding("speed-break", participant, "", evidence, {"from": old.speed, "to": new.speed})
        if before.recorder == said.recorder and _fell(old.stage_sequence, new.stage_sequence):
            detail = {"counter": "stage_sequence", "from": old.stage_sequence, "to": new.stage_sequence}
            yield Finding("counter-reset", participant, "stage_sequence", evidence, detail)


def _checked(
    name: str, participant: str, subject: str, evidence: tuple[int, ...], detail: dict[str, Any] | None
) -> Checked:  # fmt: skip
    finding = None if detail is None else Finding(name, participant, subject, evidence, detail)
    return Checked(name, participant, subject, finding)


def _silent_cpu(execution: Execution) -> dict[str, Any] | None:
    """A GPU is there, the work is on a CPU backend that nobody asked for, and no reason is given (F33)."""
    is_silent = (
        execution.gpu_available is True
        and execution.backend is not None
        and not lens.is_gpu(execution.backend)
        and execution.requested_backend != execution.backend
        and execution.fallback_reason is None
    )
    return {"backend": execution.backend, "requested": execution.requested_backend} if is_silent else None


def _gpu_contradiction(execution: Execution) -> dict[str, Any] | None:
    """A GPU backend while the page says that there is no GPU. A page that says nothing contradicts nothing (F33)."""
    if execution.gpu_available is False and lens.is_gpu(execution.backend):
        return {"backend": execution.backend, "gpu_available": False}
    return None


def _workers_findings(step: Step, participant: str) -> Iterator[Checked]:
    seen = step.people.seen.get(participant)
    if seen is not None and seen.own is not None:
        found = _workers_contradiction(lens.execution_of(seen.own.word), lens.local_workers(step.page.job))
        yield _checked("contradiction", participant, "workers", (step.observed.position,), found)


def _workers_contradiction(execution: Execution, local_workers: float | None) -> dict[str, Any] | None:
    """The page's job counts other workers than its execution does (F32)."""
    if local_workers is None or execution.workers is None or local_workers == execution.workers:
        return None
    return {"local_workers": local_workers, "execution_workers": execution.workers}


def _clock_skew(step: Step) -> dict[str, Any] | None:
    """The page's clock and ours differ by more than the limit: its times are not ours, liveness is not touched."""
    ahead_us = _ahead_us(step)
    if abs(ahead_us) <= step.thresholds.clock_skew_us:
        return None
    return {"ahead_s": as_seconds(ahead_us)}


def _ahead_us(step: Step) -> int:
    return step.observed.event.observed_at_us - step.observed.recorded_at_us


def _gpu_lost(new: Execution, old: Execution) -> dict[str, Any]:
    return {"from": old.backend, "to": new.backend, "reason": new.fallback_reason}


def _is_speed_break(old: Execution, new: Execution, ratio: float) -> bool:
    """The computation-only speed fell by the ratio or more while the backend stayed (F33)."""
    if old.speed is None or new.speed is None or old.backend != new.backend:
        return False
    return old.speed > 0 and new.speed * ratio <= old.speed


def _fell(old: float | None, new: float | None) -> bool:
    return old is not None and new is not None and new < old


def _job_resets(step: Step) -> Iterator[Finding]:
    """A counter of the job that went back on one page: a resume, a new run, or a page that forgot (F27)."""
    before, now = step.page_before, step.page
    if not step.is_job_new or before is None or before.job is None or now.job is None:
        return
    old, new = lens.job_counters(before.job), lens.job_counters(now.job)
    for counter, value in new.items():
        if _fell(old[counter], value):
            detail = {"counter": counter, "from": old[counter], "to": value}
            yield Finding("counter-reset", "", counter, (before.position, now.position), detail)
