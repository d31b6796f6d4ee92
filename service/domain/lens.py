"""The one module that knows where each fact stands in a State document.

The page API publishes which facts exist, not their field paths; the paths here are ours. A corrected path plus a
rebuild repairs every view. What comes out is a typed value or a Fact with the reason why it is unavailable
(`service.domain.readers`). The outline (objects where objects belong, lists of objects with ids) must hold or
MalformedState is raised: the event is then quarantined, never guessed at. Views keep words, the parts of a document as
a page said them, and read facts out of them here when asked.
"""

import sys
from collections.abc import Iterator
from typing import Any, NamedTuple

from service.domain.facts import MISSING, Fact
from service.domain.once import once
from service.domain.readers import (
    MS_MAX,
    Path,
    Reader,
    Word,
    digest,
    finite,
    flag,
    identifier,
    moment_ms,
    number,
    opaque,
    read,
    text,
)
from service.domain.times import US_PER_S
from service.errors import MalformedState

OWNER = "owner"
LEFT = "left"
FLOAT_MAX = sys.float_info.max
DIRECTIONS = frozenset({"min", "max"})


class Marker(NamedTuple):
    """What a page shows of a participant's latest own report: when (its `lastSeenAt`) and which (its `stageSeq`)."""

    seen_at: float | None
    sequence: float | None


class MetricValue(NamedTuple):
    """One metric of one checkpoint. `value` is None for a non-finite number (`tag` names it) or when unavailable."""

    split: str
    key: str
    value: float | None
    tag: str | None
    reason: str | None


# ---- the outline of a document -------------------------------------------------------------------------------


class Snapshot:
    """One State document, taken apart on demand. Raises MalformedState where the outline does not hold."""

    def __init__(self, document: Any) -> None:
        if not isinstance(document, dict):
            raise _malformed("$", document, "an object")
        self.document: Word = document

    @property
    def is_owner(self) -> bool:
        """Whether this page is the job owner's."""
        return self.document.get("role") == OWNER

    @once
    def job(self) -> Word | None:
        """What the page says of its job; None while it has none."""
        return _object_or_none(self.document, "job", "$.job")

    @once
    def page(self) -> Word:
        """What the page says of itself: preferences, visibility, storage, transfer, invitations, own execution."""
        return {key: value for key, value in self.document.items() if key not in _SECTIONS}

    @once
    def participants(self) -> dict[str, Word]:
        """The word about each participant by id; for an id listed twice the last entry. See `entries`."""
        return {_id_of(word, f"$.participants[{i}].id"): word for i, word in enumerate(self.entries)}

    @once
    def entries(self) -> list[Word]:
        """The list of participants as it stands, repeats included."""
        return _list_of_objects(self.document, "participants")

    @once
    def own_participant(self) -> str | None:
        """Id of the participant whose page this is."""
        for i, word in enumerate(self.entries):
            if word.get("local") is True:
                return _id_of(word, f"$.participants[{i}].id")
        return None

    @once
    def checkpoints(self) -> list[Word]:
        """What the page says of each checkpoint, in its order."""
        return _list_of_objects(self.document, "checkpoints")

    def own_word(self, word: Word) -> Word:
        """The own participant's word with `state.execution`, the actual execution, where that is no older.

        A page may refresh `state.execution` less often than its participant entry: the higher `stageSeq` counts.
        """
        actual = self.document.get("execution")
        listed = word.get("execution")
        if not isinstance(actual, dict) or actual == listed:
            return word
        if isinstance(listed, dict) and (finite(listed, "stageSeq") or 0) > (finite(actual, "stageSeq") or 0):
            return word
        return {**word, "execution": actual}


_SECTIONS = frozenset({"job", "participants", "checkpoints", "role"})


def _object_or_none(document: Word, key: str, path: str) -> Word | None:
    value = document.get(key)
    if value is None or isinstance(value, dict):
        return value
    raise _malformed(path, value, "an object or null")


def _list_of_objects(document: Word, key: str) -> list[Word]:
    value = document.get(key)
    if value is None:
        return []
    if not isinstance(value, list):
        raise _malformed(f"$.{key}", value, "a list")
    for i, item in enumerate(value):
        if not isinstance(item, dict):
            raise _malformed(f"$.{key}[{i}]", item, "an object")
    return value


def _id_of(word: Word, path: str) -> str:
    text, reason = identifier(word.get("id"))
    if text is None:
        raise MalformedState(f"{path}: {reason or 'is missing'}; wanted a string or an integer", path=path)
    return str(text)


def _malformed(path: str, got: Any, wanted: str) -> MalformedState:
    kind = {dict: "an object", list: "a list", str: "a string", bool: "true or false"}.get(type(got), "a number")
    return MalformedState(f"{path}: got {kind}, wanted {wanted}; the lens cannot read this state", path=path)


# ---- where each fact stands ----------------------------------------------------------------------------------

JOB_FACTS: dict[str, tuple[Path, Reader]] = {
    "created_at": (("createdAt",), moment_ms),
    "phase": (("state", "phase"), text),
    "round": (("state", "round"), number),
    "completed_passes": (("state", "completedPasses"), number),
    "started_at": (("state", "startedAt"), moment_ms),
    "finished_at": (("state", "finishedAt"), moment_ms),
    "progress_round": (("progress", "round"), number),
    "progress_of": (("progress", "of"), number),
    "snapshot_interval_ms": (("settings", "snapshotIntervalMs"), number),
    "stale_after_ms": (("settings", "staleAfterMs"), number),
    "units_per_assignment": (("settings", "experience", "unitsPerAssignment"), number),
    "has_module_file": (("hasModuleFile",), flag),
    "initial_sha256": (("initialSha256",), digest),
    "wasm_sha256": (("executionFiles", "wasm", "sha256"), digest),
    "shader_archive_sha256": (("executionFiles", "wgsl", "sha256"), digest),
    "local_workers": (("localWorkers",), number),
}
PAGE_FACTS: dict[str, tuple[Path, Reader]] = {
    "is_visible": (("visible",), flag),
    "storage_used_bytes": (("storage", "usedBytes"), number),
    "backend_preference": (("preferences", "backend"), text),
}
LIMIT_FACTS: dict[str, tuple[Path, Reader]] = {
    "max_local_workers": (("preferences", "maxLocalWorkers"), number),
    "gpu_memory_budget_mib": (("preferences", "gpuMemoryBudgetMiB"), number),
}
"""Limits that a user set. The GPU budget is one of them and measures nothing."""
PARTICIPANT_FACTS: dict[str, tuple[Path, Reader]] = {
    "name": (("name",), text),
    "status": (("status",), text),
    "last_seen_at": (("lastSeenAt",), moment_ms),
    "is_stale_by_page": (("stale",), flag),
}
EXECUTION_FACTS: dict[str, tuple[Path, Reader]] = {
    "requested_backend": (("execution", "requestedBackend"), text),
    "backend": (("execution", "backend"), text),
    "gpu_available": (("execution", "gpuAvailable"), flag),
    "fallback_reason": (("execution", "fallbackReason"), text),
    "browser": (("execution", "browser"), text),
    "workers": (("execution", "workers"), number),
    "stage": (("execution", "stage"), text),
    "stage_sequence": (("execution", "stageSeq"), number),
    "stage_started_at": (("execution", "stageStartedAt"), moment_ms),
    "assignment_id": (("execution", "assignment", "id"), identifier),
    "assignment_round": (("execution", "assignment", "round"), number),
    "assignment_units": (("execution", "assignment", "units"), number),
    "batch_size": (("execution", "batch", "size"), number),
    "local_steps": (("execution", "batch", "localSteps"), number),
    "compute_only_samples_per_second": (("execution", "computeOnlySamplesPerSecond"), number),
    "model_sha256": (("execution", "modelSha256"), digest),
    "shader_sha256": (("execution", "shaderSha256"), digest),
}
TRANSFER_FACTS: dict[str, tuple[Path, Reader]] = {
    "participant": (("transfer", "participant"), identifier),
    "direction": (("transfer", "direction"), text),
    "bytes": (("transfer", "bytes"), number),
    "total_bytes": (("transfer", "totalBytes"), number),
}
CHECKPOINT_FACTS: dict[str, tuple[Path, Reader]] = {
    "round": (("round",), number),
    "checkpoint_format": (("version",), number),
    "sha256": (("sha256",), digest),
    "parent_sha256": (("parentSha256",), digest),
    "size_bytes": (("bytes",), number),
    "created_at": (("createdAt",), moment_ms),
}


def read_all(word: Word | None, table: dict[str, tuple[Path, Reader]], position: int | None) -> dict[str, Fact]:
    """Every fact of one of the tables above, read from one word."""
    return {name: read(word, path, reader, position) for name, (path, reader) in table.items()}


# ---- facts that need more than a path ------------------------------------------------------------------------


def epochs(job: Word | None, position: int | None = None) -> tuple[Fact, dict[str, Any] | None]:
    """Dataset passes asked for, and both values when the legacy name contradicts (after `upcasters`)."""
    named = read(job, ("settings", "epochs"), number, position)
    legacy = read(job, ("settings", "rounds"), number, position)
    if legacy.reason == MISSING:
        return named, None
    if named.reason is not None:
        return (legacy if legacy.reason is None else named), None
    if named.value == legacy.value:
        return named, None
    return named, {"epochs": named.value, "rounds": job and job["settings"]["rounds"]}


def aggregation(job: Word | None, position: int | None = None) -> Fact:
    """FedAvg, FedAvgM or FedAdam as reported, whether written as a string or as an object with a name."""
    whole = read(job, ("settings", "aggregation"), opaque, position)
    if isinstance(whole.value, dict):
        return read(whole.value, ("name",), text, position)
    return read(job, ("settings", "aggregation"), text, position)


def aggregation_settings(job: Word | None, position: int | None = None) -> Fact:
    """Settings of the aggregation: their own object, or what stands beside the name."""
    own = read(job, ("settings", "aggregationSettings"), opaque, position)
    whole = read(job, ("settings", "aggregation"), opaque, position)
    if own.reason is not None and isinstance(whole.value, dict):
        return Fact({key: value for key, value in whole.value.items() if key != "name"}, None, position)
    return own


def stale_after_us(job: Word | None) -> int | None:
    """The job's own limit for liveness in µs, where it was recorded and is a positive number."""
    settings = job.get("settings") if job else None
    limit = finite(settings, "staleAfterMs")
    return int(limit * 1000) if limit is not None and 0 < limit < MS_MAX else None


def phase(job: Word | None) -> str | None:
    """The job's phase when it was reported as text."""
    found: str | None = read(job, ("state", "phase"), text).value
    return found


def marker(word: Word) -> Marker:
    """The report marker of a participant, as this word shows it."""
    return Marker(finite(word, "lastSeenAt"), finite(word.get("execution"), "stageSeq"))


def moved_on(before: Marker, now: Marker) -> bool:
    """Whether the participant reported again between two words of one page."""
    return _is_later(before.seen_at, now.seen_at) or _is_later(before.sequence, now.sequence)


def _is_later(before: float | None, now: float | None) -> bool:
    return now is not None and (before is None or now > before)


def status(word: Word) -> str | None:
    """What the page says of the participant's place in the job (`joined`, `left`); None when it says nothing."""
    value = word.get("status")
    return value if isinstance(value, str) else None


def stage_durations_s(word: Word | None, position: int | None = None) -> dict[str, Fact]:
    """Seconds spent in each stage, by the page's own count."""
    durations = read(word, ("execution", "stageDurationsMs"), opaque).value
    if not isinstance(durations, dict):
        return {}
    facts = {stage: read(durations, (stage,), number, position) for stage in durations}
    return {stage: Fact(_thousandth(fact.value), fact.reason, position) for stage, fact in facts.items()}


def _thousandth(value: Any) -> Any:
    return value / 1000 if isinstance(value, int | float) else value


def transfer(page: Word | None, position: int | None = None) -> dict[str, Fact]:
    """The transfer under way, as the page shows it; every fact unavailable while there is none."""
    return read_all(page, TRANSFER_FACTS, position)


def pending_invitations(page: Word | None) -> Fact:
    """Invitations that nobody took up yet, as returned."""
    whole = read(page, ("invitations",), opaque)
    if not isinstance(whole.value, list):
        return whole if whole.reason else Fact(None, "reported, but not as a list")
    return Fact([i for i in whole.value if isinstance(i, dict) and i.get("status") == "pending"], None)


def metric_directions(job: Word | None) -> Iterator[tuple[str, str | None, str | None]]:
    """(key, label, direction) of each metric the selected model names; direction None when it is not min or max."""
    labels = read(job, ("metricLabels",), opaque).value
    for item in labels if isinstance(labels, list) else []:
        if isinstance(item, dict) and isinstance(item.get("key"), str):
            direction = item.get("direction")
            label = item.get("label")
            yield item["key"], label if isinstance(label, str) else None, direction if direction in DIRECTIONS else None


def round_of(checkpoint: Word) -> int | None:
    """The round of a checkpoint, where it was reported as a whole number."""
    value = finite(checkpoint, "round")
    return int(value) if value is not None and value == int(value) and abs(value) < 2**53 else None


def metric_values(checkpoint: Word) -> Iterator[MetricValue]:
    """Every metric that a page says this checkpoint has, in both splits. Unavailable ones carry their reason."""
    splits = checkpoint.get("metrics")
    for split in ("training", "validation"):
        values = splits.get(split) if isinstance(splits, dict) else None
        for key in values if isinstance(values, dict) else ():
            fact = read(values, (key,), number)
            if isinstance(fact.value, dict):
                yield MetricValue(split, key, None, fact.value["non_finite"], None)
            elif fact.value is not None and abs(fact.value) > FLOAT_MAX:
                yield MetricValue(split, key, None, None, "reported, but beyond the range of a float64")
            else:
                yield MetricValue(split, key, fact.value, None, fact.reason)


def as_seconds(moment_us: int) -> float:
    """µs as seconds, for ages and durations in answers."""
    return moment_us / US_PER_S
