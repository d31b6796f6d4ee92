"""Events to typed rows. What a State document means is the lens's business; here it only gets columns.

Pages repeat themselves, so checkpoints, metrics and finished stages become a row only when they say something new.
What was said before is `Said`, which can be loaded again from the lake.
"""

from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from typing import Any, NamedTuple

import msgspec

from service.domain import lens
from service.domain.envelope import StoredEvent
from service.domain.events import (
    ARTIFACT_ARCHIVED,
    COMMAND_CALLED,
    COMMAND_RETURNED,
    REPLAY_JUDGED,
    STATE_REPORTED,
    ArtifactArchived,
    CommandCalled,
    CommandReturned,
    ReplayJudged,
)
from service.domain.facts import non_finite_name, untag_number
from service.domain.identifiers import job_of_stream
from service.domain.times import US_PER_S
from service.domain.upcasters import upcast
from service.errors import MalformedState

Row = dict[str, Any]
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_decode = msgspec.json.Decoder().decode
INT64_MAX = 2**63 - 1


class StageSeen(NamedTuple):
    """The stage that a participant's own page last showed."""

    stage: str | None
    sequence: float | None
    assignment_id: str | None
    assignment_round: float | None


class MetricSaid(NamedTuple):
    """A metric's newest word: its value, tag or reason as text, and the direction last given for it."""

    meaning: str
    direction: str | None


class Said(msgspec.Struct):
    """What earlier events said: which checkpoints, the newest word on each metric, and each participant's stage."""

    checkpoints: set[tuple[str | None, str, str]] = msgspec.field(default_factory=set)
    metrics: dict[tuple[str | None, str, str, str, str], MetricSaid] = msgspec.field(default_factory=dict)
    stages: dict[tuple[str | None, str, str], StageSeen] = msgspec.field(default_factory=dict)


def rows_of(stored: StoredEvent, said: Said) -> Iterator[tuple[str, Row]]:
    """(table, row) for everything that one event says. Adds to `said` what is new."""
    origin = _origin(stored)
    yield "events", {**origin, **_envelope(stored)}
    if stored.is_erased:
        return
    try:
        data = upcast(stored.event.type, stored.event.schema_version, _decode(stored.event.data))
        yield from _FOLDS.get(stored.event.type, _nothing)(data, stored, origin, said)
    except (MalformedState, msgspec.ValidationError) as error:
        yield "unreadable", unreadable(stored, str(error))


def unreadable(stored: StoredEvent, reason: str) -> Row:
    """The row of an event whose rows cannot be kept, in the table `unreadable`."""
    return {**_origin(stored), "reason": reason[:1000]}


def moment(us: int) -> datetime:
    """A moment in µs UTC as Arrow wants it."""
    return _EPOCH + timedelta(microseconds=us)


def _origin(stored: StoredEvent) -> Row:
    event = stored.event
    return {
        "position": stored.position,
        "recorded_at": moment(stored.recorded_at_us),
        "observed_at": moment(event.observed_at_us),
        "recorder": event.source.recorder,
        "site": event.source.site,
        "job": job_of_stream(event.stream),
    }


def _envelope(stored: StoredEvent) -> Row:
    event = stored.event
    return {
        "stream": event.stream,
        "stream_position": stored.stream_position,
        "id": event.id,
        "type": event.type,
        "seq": event.source.seq,
        "data_size": stored.data_size,
        "data_sha256": stored.data_sha256,
    }


def _nothing(data: Any, stored: StoredEvent, origin: Row, said: Said) -> Iterator[tuple[str, Row]]:
    yield from ()


# ---- a State document ------------------------------------------------------------------------------------------


def _state(data: Any, stored: StoredEvent, origin: Row, said: Said) -> Iterator[tuple[str, Row]]:
    snapshot = lens.Snapshot(data)
    stale_after_us = lens.stale_after_us(snapshot.job)
    stale_after_s = None if stale_after_us is None else stale_after_us / US_PER_S
    if snapshot.job is not None:
        yield "jobs", {**origin, **_job(snapshot, stale_after_s)}
    for name, word in snapshot.participants.items():
        is_own = name == snapshot.own_participant
        row = _participant(name, snapshot.own_word(word) if is_own else word, is_own, stale_after_s)
        yield "snapshots", {**origin, **row}
        if is_own:
            yield from _finished_stage(row, snapshot.own_word(word), origin, said)
    yield from _checkpoints(snapshot, origin, said)


def _job(snapshot: lens.Snapshot, stale_after_s: float | None) -> Row:
    facts = {name: fact.value for name, fact in lens.read_all(snapshot.job, lens.JOB_FACTS, None).items()}
    return {
        "is_owner": snapshot.is_owner,
        "phase": facts["phase"],
        "round": _real(facts["round"]),
        "completed_passes": _real(facts["completed_passes"]),
        "epochs": _real(lens.epochs(snapshot.job)[0].value),
        "aggregation": lens.aggregation(snapshot.job).value,
        "local_workers": _real(facts["local_workers"]),
        "stale_after_s": stale_after_s,
    }


_TEXTS = ("requested_backend", "backend", "fallback_reason", "browser", "stage", "assignment_id", "model_sha256",
          "shader_sha256", "gpu_available")  # fmt: skip
_REALS = ("workers", "stage_sequence", "assignment_round", "assignment_units", "batch_size", "local_steps")


def _participant(name: str, word: dict[str, Any], is_own: bool, stale_after_s: float | None) -> Row:
    facts = {key: fact.value for key, fact in lens.read_all(word, lens.EXECUTION_FACTS, None).items()}
    own = {key: fact.value for key, fact in lens.read_all(word, lens.PARTICIPANT_FACTS, None).items()}
    speed = facts["compute_only_samples_per_second"]
    return {
        "participant": name,
        "is_own_page": is_own,
        "name": own["name"],
        "status": own["status"],
        "seen_at_ms": _real(lens.marker(word).seen_at),
        **{key: facts[key] for key in _TEXTS},
        **{key: _real(facts[key]) for key in _REALS},
        "samples_per_second": _real(speed),
        "samples_per_second_tag": non_finite_name(speed),
        "stale_after_s": stale_after_s,
    }


def _finished_stage(row: Row, word: dict[str, Any], origin: Row, said: Said) -> Iterator[tuple[str, Row]]:
    """A row for the stage that ended when the page shows another one; its length is the page's own count."""
    key = (origin["job"], origin["recorder"], row["participant"])
    now = StageSeen(row["stage"], row["stage_sequence"], row["assignment_id"], row["assignment_round"])
    before = said.stages.get(key)
    said.stages[key] = now
    if before is None or before.stage is None or before.sequence == now.sequence:
        return
    length = lens.stage_durations_s(word).get(before.stage)
    yield (
        "stages",
        {
            **origin,
            "participant": row["participant"],
            "stage": before.stage,
            "duration_s": None if length is None else _real(length.value),
            "assignment_id": before.assignment_id,
            "assignment_round": before.assignment_round,
        },
    )


def _checkpoints(snapshot: lens.Snapshot, origin: Row, said: Said) -> Iterator[tuple[str, Row]]:
    for word in snapshot.checkpoints:
        facts = {name: fact.value for name, fact in lens.read_all(word, lens.CHECKPOINT_FACTS, None).items()}
        sha256, round_number = facts["sha256"], _whole(lens.round_of(word))
        key = (origin["job"], origin["site"], f"{sha256}:{round_number}")
        if key not in said.checkpoints:
            said.checkpoints.add(key)
            yield (
                "checkpoints",
                {
                    **origin,
                    "sha256": sha256,
                    "round": round_number,
                    "checkpoint_format": _whole(facts["checkpoint_format"]),
                    "parent_sha256": facts["parent_sha256"],
                    "size_bytes": _whole(facts["size_bytes"]),
                },
            )
        yield from _metrics(snapshot, word, (sha256, round_number), origin, said)


def _metrics(
    snapshot: lens.Snapshot, word: dict[str, Any], which: tuple[str | None, int | None], origin: Row, said: Said
) -> Iterator[tuple[str, Row]]:
    sha256, round_number = which
    for metric in lens.metric_values(word):
        meaning = metric.tag or metric.reason or repr(_real(metric.value))
        key = (origin["job"], origin["site"], f"{sha256}:{round_number}", metric.split, metric.key)
        label, direction = next(
            ((label, way) for name, label, way in lens.metric_directions(snapshot.job) if name == metric.key),
            (None, None),
        )
        before = said.metrics.get(key)
        if before and before.meaning == meaning and direction in (None, before.direction):
            continue
        # A page without labels says nothing about direction, so it takes none back.
        said.metrics[key] = MetricSaid(meaning, direction or (before.direction if before else None))
        yield (
            "metrics",
            {
                **origin,
                "sha256": sha256,
                "round": round_number,
                "split": metric.split,
                "name": metric.key,
                "label": label,
                "direction": direction,
                "value": _real(metric.value),
                "value_tag": metric.tag,
                "reason": metric.reason,
            },
        )


# ---- commands, artifacts, replays --------------------------------------------------------------------------------


def _called(data: Any, stored: StoredEvent, origin: Row, said: Said) -> Iterator[tuple[str, Row]]:
    command = msgspec.convert(data, CommandCalled)
    yield "commands", {
        **origin, "event_id": stored.event.id, "called_id": stored.event.id, "is_return": False, "name": command.name,
    }  # fmt: skip


def _returned(data: Any, stored: StoredEvent, origin: Row, said: Said) -> Iterator[tuple[str, Row]]:
    command = msgspec.convert(data, CommandReturned)
    yield (
        "commands",
        {
            **origin,
            "event_id": stored.event.id,
            "called_id": stored.event.causation_id,
            "is_return": True,
            "name": command.name,
            "outcome": command.outcome,
            "duration_s": None if command.duration_ms is None else command.duration_ms / 1000,
            "error_code": command.error_code,
            "error_message": command.error_message,
        },
    )


def _archived(data: Any, stored: StoredEvent, origin: Row, said: Said) -> Iterator[tuple[str, Row]]:
    artifact = msgspec.convert(data, ArtifactArchived)
    yield (
        "artifacts",
        {
            **origin,
            "sha256": artifact.sha256,
            "role": artifact.role,
            "round": _whole(artifact.round),
            "size_bytes": _whole(artifact.size_bytes),
            "media_format": artifact.media_format,
        },
    )
    made = (artifact.inspection or {}).get("origin") or {"contributions": []}
    for at, contribution in enumerate(made["contributions"]):
        yield (
            "lineage",
            {
                **origin,
                "sha256": artifact.sha256,
                "round": _whole(artifact.round),
                "parent_sha256": made["parent_sha256"],
                "formula": made["formula"],
                "contribution": at + 1,
                "assignment_id": contribution["assignment_id"],
                "participant": contribution["participant_id"],
                "examples": contribution["examples"],
                "update_sha256": contribution.get("update_sha256"),
            },
        )


def _judged(data: Any, stored: StoredEvent, origin: Row, said: Said) -> Iterator[tuple[str, Row]]:
    judged = msgspec.convert(data, ReplayJudged)
    adapter = judged.result.get("adapter")
    yield (
        "replays",
        {
            **origin,
            "replay_id": judged.replay_id,
            "sha256": judged.checkpoint_sha256,
            "round": _whole(judged.round),
            "verdict": judged.verdict,
            "engine": judged.result.get("engine"),
            "adapter": adapter.get("name") if isinstance(adapter, dict) else None,
            "max_abs_error": untag_number(judged.result.get("max_abs_error")),
            "reason": judged.result.get("reason"),
        },
    )


_FOLDS = {
    STATE_REPORTED: _state,
    COMMAND_CALLED: _called,
    COMMAND_RETURNED: _returned,
    ARTIFACT_ARCHIVED: _archived,
    REPLAY_JUDGED: _judged,
}


def _real(value: Any) -> float | None:
    """The finite number as a float; None for anything else (a non-finite one has its tag elsewhere, or is left out)."""
    if isinstance(value, bool) or not isinstance(value, int | float):
        return None
    return float(value) if abs(value) <= lens.FLOAT_MAX else None


def _whole(value: Any) -> int | None:
    """The number as an integer that fits 64 bits; None for anything else."""
    if isinstance(value, float) and value.is_integer():
        value = int(value)
    is_whole = isinstance(value, int) and not isinstance(value, bool) and abs(value) <= INT64_MAX
    return value if is_whole else None
