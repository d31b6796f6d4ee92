"""F30: fresh, stale, stale with age, with no event in between; nothing ever records that someone is stale."""

from typing import Any

from service.domain.times import format_us
from tests.projections.tape import participant, state
from tests.queries.bench import START_US, Bench, S


def liveness(bench: Bench, **parameters: Any) -> dict[str, Any]:
    found: dict[str, Any] = bench.get("/v1/jobs/j1/participants/p1", **parameters)["liveness"]
    return found


def test_silence_turns_fresh_into_stale_without_any_event(bench: Bench) -> None:
    bench.record("state.reported", state(participant("p1", local=True)))
    for age_s, expected in ((0, "fresh"), (9.9, "fresh"), (10.1, "stale"), (7 * 86400, "stale")):
        bench.now_us = START_US + int(age_s * S)
        assert liveness(bench)["state"] == expected
        assert liveness(bench)["age_s"] == age_s


def test_late_snapshot_makes_fresh_again(bench: Bench) -> None:
    bench.record("state.reported", state(participant("p1", local=True)))
    bench.now_us += 60 * S
    bench.record("state.reported", state(participant("p1", local=True)))
    assert liveness(bench)["state"] == "fresh"


def test_past_moment_is_answered_as_it_stood_then(bench: Bench) -> None:
    first = bench.record("state.reported", state(participant("p1", local=True)))
    bench.now_us += 60 * S
    second = bench.record("state.reported", state(participant("p1", local=True)))
    assert liveness(bench, as_of=first) == {"state": "fresh", "age_s": 0, "limit_s": 10, "evidence_position": first}
    assert liveness(bench, as_of=second)["evidence_position"] == second
    assert liveness(bench, as_of=format_us(START_US + 59 * S)) == {
        "state": "stale", "age_s": 59, "limit_s": 10, "evidence_position": first,
    }  # fmt: skip


def test_moment_to_come_shows_who_will_be_stale(bench: Bench) -> None:
    bench.record("state.reported", state(participant("p1", local=True)))
    assert liveness(bench, as_of=format_us(START_US + 11 * S))["state"] == "stale"


def test_job_may_set_its_own_limit(bench: Bench) -> None:
    bench.record("state.reported", state(participant("p1", local=True), settings={"staleAfterMs": 2000}))
    bench.now_us += 3 * S
    assert liveness(bench) == {"state": "stale", "age_s": 3, "limit_s": 2, "evidence_position": 1}


def test_listing_by_another_page_proves_nothing(bench: Bench) -> None:
    bench.record("state.reported", state(participant("p1", local=True), participant("p2", seen_ms=500)))
    bench.now_us += 11 * S
    bench.record("state.reported", state(participant("p1", local=True), participant("p2", seen_ms=500)))
    found = {row["id"]: row["liveness"]["state"] for row in bench.get("/v1/jobs/j1/participants")["participants"]}
    assert found == {"p1": "fresh", "p2": "stale"}


def test_report_marker_that_moved_on_is_evidence(bench: Bench) -> None:
    bench.record("state.reported", state(participant("p1", local=True), participant("p2", seen_ms=500)))
    bench.now_us += 11 * S
    bench.record("state.reported", state(participant("p1", local=True), participant("p2", seen_ms=501)))
    assert bench.get("/v1/jobs/j1/participants/p2")["liveness"]["state"] == "fresh"


def test_page_that_starts_to_watch_is_no_evidence_for_those_it_lists(bench: Bench) -> None:
    bench.record("state.reported", state(participant("p1", local=True), participant("p2", seen_ms=500)))
    bench.now_us += 11 * S
    guest = state(participant("p3", local=True), participant("p2", seen_ms=999), role="guest")
    bench.record("state.reported", guest, recorder="00000000-0000-7000-8000-0000000000bb")
    assert bench.get("/v1/jobs/j1/participants/p2")["liveness"]["state"] == "stale"


def test_who_left_is_gone_however_fresh(bench: Bench) -> None:
    left = {**participant("p2", seen_ms=900), "status": "left"}
    bench.record("state.reported", state(participant("p1", local=True), participant("p2", seen_ms=500)))
    bench.record("state.reported", state(participant("p1", local=True), left))
    assert bench.get("/v1/jobs/j1/participants/p2")["liveness"]["state"] == "gone"


def test_list_can_be_narrowed_by_liveness(bench: Bench) -> None:
    bench.record("state.reported", state(participant("p1", local=True), participant("p2", seen_ms=500)))
    bench.now_us += 11 * S
    bench.record("state.reported", state(participant("p1", local=True), participant("p2", seen_ms=500)))
    rows = bench.get("/v1/jobs/j1/participants", liveness="stale")["participants"]
    assert [row["id"] for row in rows] == ["p2"]
    assert bench.get("/v1/jobs/j1/participants", expect=422, liveness="dead")["code"] == "unknown_parameter"
