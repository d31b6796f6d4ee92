"""What is found out afterwards, by REST only: nothing here knows the plan, the processes or their memory.

Each incident is told from facts that carry the position of the event that shows them, so that a reader can look it up.
"""

from collections.abc import Iterator
from datetime import datetime, timedelta
from typing import Any

import msgspec

from service.demo.rest import Rest
from service.domain.lens import JOB_FACTS, Snapshot, read_all

Answer = dict[str, Any]
KINDS = ("joined-late", "left-early", "gpu-refused", "went-stale", "training-raised", "command-refused")
"""The six kinds of incident that a job of the demo can show."""
GAPS_LOOKED_AT_MAX = 50
"""How many signs of life are looked at, backwards, to find the silence before a late result."""


class Incident(msgspec.Struct, frozen=True):
    """Something that went wrong: what, where, the round under way, and the position of the event that shows it."""

    kind: str
    job: str
    participant: str | None
    round: int | None
    position: int
    sentence: str


class BestCheckpoint(msgspec.Struct, frozen=True):
    """The best checkpoint by one metric; the direction is the model's own."""

    metric: str
    direction: str
    round: int
    value: float
    sha256: str


class JobFound(msgspec.Struct, frozen=True):
    """What the record says of one job. `history` is the validation accuracy by round, None where there is none."""

    id: str
    aggregation: str
    phase: str
    participants: list[str]
    checkpoints: list[Answer]
    history: list[float | None]
    best: list[BestCheckpoint]
    accuracy: float | None
    incidents: list[Incident]


class Question(msgspec.Struct, frozen=True):
    """One question that DuckDB answered, as columns and rows."""

    name: str
    words: str
    columns: list[str]
    rows: list[list[Any]]


def ask(rest: Rest, name: str) -> Question:
    """The answer to one of the shipped questions, over the whole record."""
    answer = rest.get(f"/v1/questions/{name}")
    columns = [column["name"] for column in answer["columns"]]
    return Question(name, answer["question"], columns, [[row[column] for column in columns] for row in answer["rows"]])


def look_back(rest: Rest, up_to: int) -> list[JobFound]:
    """Every job in the record, in the order in which they were first heard of, once the views stand at `up_to`."""
    return [_look_at(rest, job) for job in rest.get("/v1/jobs", wait_for=up_to)["jobs"]]


def _look_at(rest: Rest, job: Answer) -> JobFound:
    path = f"/v1/jobs/{job['id']}"
    checkpoints = list(rest.get(f"{path}/checkpoints")["checkpoints"])
    participants = rest.get(f"{path}/participants")["participants"]
    return JobFound(
        id=job["id"],
        aggregation=job["aggregation"]["value"],
        phase=job["phase"]["value"],
        participants=sorted(participant["id"] for participant in participants),
        checkpoints=checkpoints,
        history=[_accuracy(checkpoint) for checkpoint in checkpoints],
        best=[_best(rest, path, metric["key"]) for metric in rest.get(path)["metrics"]],
        accuracy=_accuracy(rest.get(f"{path}/checkpoints/latest")["checkpoint"]),
        incidents=sorted(find_incidents(rest, job["id"], participants), key=lambda incident: incident.position),
    )


def _accuracy(checkpoint: Answer) -> float | None:
    fact = checkpoint["metrics"]["validation"].get("accuracy")
    value = fact["value"] if fact else None
    return value if isinstance(value, int | float) else None  # a tagged NaN is no accuracy


def _best(rest: Rest, path: str, metric: str) -> BestCheckpoint:
    found = rest.get(f"{path}/checkpoints/best", metric=metric)
    best = found["best"]
    return BestCheckpoint(metric, found["direction"], best["round"], found["value"], best["sha256"])


# ---- who failed and when ---------------------------------------------------------------------------------------


def find_incidents(rest: Rest, job: str, participants: list[Answer]) -> Iterator[Incident]:
    """Every incident of one job that its record shows."""
    pages = {row["told_by"]["recorder"]: row["id"] for row in participants if row["told_by"]["is_own_page"]}
    for participant in participants:
        yield from _membership(rest, job, participant)
        yield from _fallback(rest, job, participant)
    for command in rest.rows(f"/v1/jobs/{job}/commands", "commands", outcome="error"):
        yield from _failed_command(rest, job, command, pages.get(command["recorder"]))


def _membership(rest: Rest, job: str, participant: Answer) -> Iterator[Incident]:
    name, first, status = participant["id"], participant["position"], participant["facts"]["status"]
    completed = _rounds_told(rest, first)
    if completed:
        sentence = (
            f"{name} was first listed when {completed} rounds were over, and took part from round {completed + 1}"
        )
        yield Incident("joined-late", job, name, completed + 1, first, sentence)
    if status["value"] == "left":
        completed = _rounds_told(rest, status["position"])
        yield Incident("left-early", job, name, completed, status["position"], f"{name} left after round {completed}")


def _fallback(rest: Rest, job: str, participant: Answer) -> Iterator[Incident]:
    name, execution = participant["id"], participant["execution"]
    wanted, got, reason = (execution[key] for key in ("requested_backend", "backend", "fallback_reason"))
    if reason["value"] is not None and wanted["value"] != got["value"]:
        since = _first_fallback(
            rest, f"/v1/jobs/{job}/participants/{name}", participant["position"], reason["position"]
        )
        sentence = f"{name} wanted {wanted['value']} and computes on {got['value']}: {reason['value']}"
        yield Incident("gpu-refused", job, name, None, since, sentence)


def _first_fallback(rest: Rest, path: str, unknown: int, known: int) -> int:
    """The first event that said the reason, by halving between a position without it and one with it."""
    while known - unknown > 1:
        middle = (unknown + known) // 2
        reason = rest.get(path, as_of=middle)["execution"]["fallback_reason"]
        if reason["value"] is None:
            unknown = middle
        else:
            known = reason["position"]
    return known


def _failed_command(rest: Rest, job: str, command: Answer, who: str | None) -> Iterator[Incident]:
    name, error, position = command["name"], command["error"], command["returned_position"]
    round_number = (command["arguments"] or {}).get("round") or _round_under_way(rest, job, position)
    said = f"{name} of {who or 'the owner'} failed: {error['code']}: {error['message']}"
    if name == "train":
        yield Incident("training-raised", job, who, round_number, position, said)
    elif error["code"] == "late_result" and who is not None:
        silence = _silence_before(rest, job, who, command["called_position"])
        if silence is not None:
            yield Incident("went-stale", job, who, round_number, position, f"{silence}; then {said}")
    else:
        yield Incident("command-refused", job, who, round_number, position, said)


def _silence_before(rest: Rest, job: str, who: str, position: int) -> str | None:
    """The last silence of a participant before a position that made it stale, told from its signs of life backwards."""
    path = f"/v1/jobs/{job}/participants"
    sign = rest.get(f"{path}/{who}", as_of=position)["liveness"]["evidence_position"]
    for _ in range(GAPS_LOOKED_AT_MAX):
        if sign <= 1:
            return None
        before = rest.get(f"{path}/{who}", as_of=sign - 1)["liveness"]
        if before["state"] == "stale":
            return _confirm_silence(rest, path, who, before, sign)
        sign = before["evidence_position"]
    return None


def _confirm_silence(rest: Rest, path: str, who: str, before: Answer, back: int) -> str | None:
    """Look at everybody at a moment inside the gap: `who` must be stale and somebody else fresh."""
    last, limit_s = before["evidence_position"], before["limit_s"]
    silent_from, back_at = (_recorded_at(rest, position) for position in (last, back))
    gap_s = (back_at - silent_from).total_seconds()
    inside = silent_from + timedelta(seconds=(limit_s + gap_s) / 2)
    states = {row["id"]: row["liveness"]["state"] for row in rest.get(path, as_of=inside.isoformat())["participants"]}
    if states[who] != "stale" or "fresh" not in states.values():
        return None
    others = ", ".join(sorted(name for name, state in states.items() if state == "fresh"))
    return (
        f"{who} was silent for {gap_s:.1f} s after position {last} (stale after {limit_s:g} s) while {others} went on"
    )


def _recorded_at(rest: Rest, position: int) -> datetime:
    return datetime.fromisoformat(rest.get(f"/v1/events/{position}")["recorded_at"])


def _round_under_way(rest: Rest, job: str, position: int) -> int | None:
    """The round after the last one that was over, as the page that counts said as of a position."""
    completed = rest.get(f"/v1/jobs/{job}", as_of=position)["round"]["value"]
    return None if completed is None else completed + 1


def _rounds_told(rest: Rest, position: int) -> int | None:
    """How many rounds were over by the snapshot at this very position; pages may be a moment apart."""
    snapshot = Snapshot(rest.get(f"/v1/events/{position}")["data"])
    value: int | None = read_all(snapshot.job, JOB_FACTS, position)["round"].value
    return value
