"""The few values that views compare from snapshot to snapshot, without the cost of a Fact; None when unavailable."""

from typing import Any, NamedTuple

from service.domain.lens.derived import aggregation, epochs, phase
from service.domain.readers import Word, finite, identifier

LEFT = "left"


class Marker(NamedTuple):
    """What a page shows of a participant's latest own report: when (its `lastSeenAt`) and which (its `stageSeq`)."""

    seen_at: int | float | None
    sequence: int | float | None


class Execution(NamedTuple):
    """What a participant's execution diagnostics say, as the rules of diagnostics need it; None when unavailable."""

    requested_backend: str | None
    backend: str | None
    gpu_available: bool | None
    fallback_reason: str | None
    workers: float | None
    speed: float | None
    stage_sequence: float | None


def marker(word: Word) -> Marker:
    """The report marker of a participant, as this word shows it."""
    return Marker(finite(word, "lastSeenAt"), finite(word.get("execution"), "stageSeq"))


def moved_on(before: Marker, now: Marker) -> bool:
    """Whether the participant reported again between two words of one page."""
    return _is_later(before.seen_at, now.seen_at) or _is_later(before.sequence, now.sequence)


def _is_later(before: float | None, now: float | None) -> bool:
    return now is not None and (before is None or now > before)


def says_the_same(word: Word, before: Word) -> bool:
    """Whether two words about a participant tell the same of all that timelines and diagnostics look at."""
    return word.get("execution") == before.get("execution") and word.get("status") == before.get("status")


def participant_track(word: Word) -> dict[str, str | None]:
    """What a timeline follows of a participant; None for what is unavailable."""
    execution = word.get("execution")
    execution = execution if isinstance(execution, dict) else {}
    assignment = execution.get("assignment")
    return {
        "status": _text_or_none(word.get("status")),
        "stage": _text_or_none(execution.get("stage")),
        "backend": _text_or_none(execution.get("backend")),
        "assignment": identifier(assignment.get("id"))[0] if isinstance(assignment, dict) else None,
    }


def execution_of(word: Word) -> Execution:
    """The execution diagnostics of a participant's word."""
    found = word.get("execution")
    found = found if isinstance(found, dict) else {}
    gpu = found.get("gpuAvailable")
    return Execution(
        _text_or_none(found.get("requestedBackend")),
        _text_or_none(found.get("backend")),
        gpu if isinstance(gpu, bool) else None,
        _text_or_none(found.get("fallbackReason")),
        finite(found, "workers"),
        finite(found, "computeOnlySamplesPerSecond"),
        finite(found, "stageSeq"),
    )


def is_gpu(backend: str | None) -> bool:
    """Whether a backend's name says that it computes on a GPU."""
    return backend is not None and "gpu" in backend.lower()


def local_workers(job: Word | None) -> float | None:
    """The workers that the page's job counts."""
    return finite(job, "localWorkers")


def job_counters(job: Word) -> dict[str, float | None]:
    """Counters of a job that only rise within one run."""
    state = job.get("state")
    return {"round": finite(state, "round"), "completed_passes": finite(state, "completedPasses")}


def job_words(job: Word | None) -> dict[str, Any]:
    """What pages of one job must agree on: phase, passes, aggregation. None for what a page leaves out."""
    return {"phase": phase(job), "epochs": epochs(job)[0].value, "aggregation": aggregation(job).value}


def job_track(job: Word | None) -> dict[str, str | None]:
    """What a timeline follows of a job."""
    state = job.get("state") if job else None
    state = state if isinstance(state, dict) else {}
    round_number = finite(state, "round")
    return {
        "phase": _text_or_none(state.get("phase")),
        "round": None if round_number is None else str(round_number),
    }


def _text_or_none(value: Any) -> str | None:
    return value if isinstance(value, str) else None


def status(word: Word) -> str | None:
    """What the page says of the participant's place in the job (`joined`, `left`); None when it says nothing."""
    value = word.get("status")
    return value if isinstance(value, str) else None
