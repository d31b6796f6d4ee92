"""Facts that need more than a path: legacy names, either of two shapes, lists, and every metric of a checkpoint."""

import sys
from collections.abc import Iterator
from typing import Any, NamedTuple

from service.domain.facts import MISSING, Fact
from service.domain.lens.tables import TRANSFER_FACTS, read_all
from service.domain.readers import MS_MAX, Word, finite, number, opaque, read, text

FLOAT_MAX = sys.float_info.max
DIRECTIONS = frozenset({"min", "max"})


class MetricValue(NamedTuple):
    """One metric of one checkpoint. `value` is None for a non-finite number (`tag` names it) or when unavailable."""

    split: str
    key: str
    value: float | None
    tag: str | None
    reason: str | None


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
