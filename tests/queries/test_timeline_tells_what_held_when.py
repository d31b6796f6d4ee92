"""Which value held from when to when; a stale interval stays in history; what a recorder lost is unknown, not quiet."""

from typing import Any

from service.domain.times import format_us
from tests.projections.tape import participant, state
from tests.queries.bench import START_US, Bench, S


def at(seconds: float) -> str:
    return format_us(START_US + int(seconds * S))


def report(bench: Bench, at_s: float, **execution: Any) -> int:
    bench.now_us = START_US + int(at_s * S)
    document = state(participant("p1", local=True, seen_ms=int(at_s * 1000), **execution))
    return bench.record("state.reported", document)


def spans(bench: Bench, subject: str, **parameters: Any) -> list[tuple[Any, ...]]:
    path = "/v1/jobs/j1/participants/p1/timeline"
    found = bench.get(path, subject=subject, **parameters)["intervals"]
    return [(part["value"], part["from"], part["to"]) for part in found]


def test_stage_and_backend_hold_until_another_is_told(bench: Bench) -> None:
    report(bench, 0, stage="downloading")
    report(bench, 2, stage="training")
    report(bench, 4, stage="training", backend="wasm-cpu")
    assert spans(bench, "stage") == [("downloading", at(0), at(2)), ("training", at(2), None)]
    assert spans(bench, "backend") == [("webgpu", at(0), at(4)), ("wasm-cpu", at(4), None)]


def test_unavailable_value_is_an_interval_of_its_own(bench: Bench) -> None:
    report(bench, 0, backend="webgpu")
    report(bench, 2, backend=None)
    report(bench, 4, backend="wasm-cpu")
    assert [value for value, _, _ in spans(bench, "backend")] == ["webgpu", None, "wasm-cpu"]


def test_stale_interval_stays_in_history_after_the_return(bench: Bench) -> None:
    report(bench, 0)
    report(bench, 60)
    expected = [("fresh", at(0), at(10)), ("stale", at(10), at(60)), ("fresh", at(60), None)]
    assert spans(bench, "liveness") == expected


def test_moment_within_a_silence_shows_it_open(bench: Bench) -> None:
    first = report(bench, 0)
    report(bench, 60)
    assert spans(bench, "liveness", as_of=at(30)) == [("fresh", at(0), at(10)), ("stale", at(10), None)]
    assert spans(bench, "liveness", as_of=first) == [("fresh", at(0), None)]


def test_who_leaves_is_gone_from_that_word_on(bench: Bench) -> None:
    bench.record("state.reported", state(participant("p0", local=True), participant("p1")))
    bench.now_us += 2 * S
    left = {**participant("p1", seen_ms=1001), "status": "left"}
    bench.record("state.reported", state(participant("p0", local=True), left))
    assert spans(bench, "liveness") == [("fresh", at(0), at(2)), ("gone", at(2), None)]


def test_job_timeline_holds_phase_and_round(bench: Bench) -> None:
    for round_number, phase in ((1, "running"), (2, "running"), (2, "finished")):
        bench.record("state.reported", state(participant("p1", local=True), round_number=round_number, phase=phase))
        bench.now_us += S
    found = bench.get("/v1/jobs/j1/timeline", subject="round")["intervals"]
    assert [(part["value"], part["participant"], part["is_open"]) for part in found] == [
        ("1", None, False), ("2", None, True),
    ]  # fmt: skip
    assert [part["value"] for part in bench.get("/v1/jobs/j1/timeline", subject="phase")["intervals"]] == [
        "running", "finished",
    ]  # fmt: skip


def test_hole_in_a_recording_is_unknown_until_it_is_filled(bench: Bench) -> None:
    document = state(participant("p1", local=True))
    bench.record("state.reported", document, seq=1)
    bench.now_us += 30 * S
    bench.record("state.reported", document, seq=3)
    [hole] = bench.get("/v1/jobs/j1/timeline")["unknown"]
    assert (hole["from"], hole["to"], hole["first_seq"], hole["last_seq"]) == (at(0), at(30), 2, 2)
    bench.record("state.reported", document, seq=2)
    assert bench.get("/v1/jobs/j1/timeline")["unknown"] == []
    assert len(bench.get("/v1/jobs/j1/timeline", as_of=2)["unknown"]) == 1


def test_id_listed_twice_is_one_head_and_two_entries(bench: Bench) -> None:
    twice = state(participant("p1", local=True), participant("p1"), participant("p2"))
    bench.record("state.reported", twice)
    counted = bench.get("/v1/jobs/j1")["participants"]
    assert (counted["total"], counted["entries_listed"]) == (2, 3)


def test_unknown_subject_is_refused(bench: Bench) -> None:
    bench.record("state.reported", state(participant("p1", local=True)))
    assert bench.get("/v1/jobs/j1/timeline", expect=422, subject="mood")["code"] == "unknown_parameter"
