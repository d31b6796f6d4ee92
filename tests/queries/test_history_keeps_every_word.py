"""F01–F06, F13, F18: seven kinds of absence, late and repeated points, legacy names, big integers, poison events."""

from itertools import permutations
from typing import Any

import pytest

from tests.projections.tape import participant, state
from tests.queries.bench import START_US, Bench


def point(round_number: int, **training: Any) -> dict[str, Any]:
    return {"round": round_number, "metrics": {"training": training, "validation": None}}


def report(bench: Bench, *checkpoints: dict[str, Any], **rest: Any) -> int:
    return bench.record("state.reported", state(participant("p1", local=True), checkpoints=list(checkpoints)), **rest)


@pytest.mark.parametrize(
    ("told", "value", "reason"),
    [
        (0, 0, None),
        (1.5, 1.5, None),
        ("NaN", {"non_finite": "NaN"}, None),
        ({"non_finite": "Infinity"}, {"non_finite": "Infinity"}, None),
        ("-Infinity", {"non_finite": "-Infinity"}, None),
        (None, None, "reported as unavailable"),
        ("fast", None, "reported, but not as a number"),
    ],
)
def test_each_kind_of_value_stays_itself(bench: Bench, told: Any, value: Any, reason: str | None) -> None:
    report(bench, point(1, loss=told))
    [row] = bench.get("/v1/jobs/j1/metrics")["metrics"]
    assert row["value"] == {"value": value, "reason": reason, "position": 1}


def test_missing_metric_is_no_row_and_no_zero(bench: Bench) -> None:
    report(bench, point(1, accuracy=0.5))
    assert [row["name"] for row in bench.get("/v1/jobs/j1/metrics")["metrics"]] == ["accuracy"]


def test_one_nan_leaves_the_other_points_alone(bench: Bench) -> None:
    points = [point(n, loss="NaN" if n == 17 else 1 / n, accuracy=n / 50) for n in range(1, 51)]
    report(bench, *points)
    rows = bench.get("/v1/jobs/j1/metrics")["metrics"]
    losses = [row["value"]["value"] for row in rows if row["name"] == "loss"]
    assert len(losses) == 50
    assert losses[16] == {"non_finite": "NaN"}
    assert all(isinstance(row["value"]["value"], float) for row in rows if row["name"] == "accuracy")


def test_late_and_repeated_points_are_kept_and_told_apart(bench: Bench) -> None:
    report(bench, point(3, loss=0.3), observed_us=START_US + 3)
    report(bench, point(4, loss=0.4), observed_us=START_US + 4)
    report(bench, point(2, loss=0.2), observed_us=START_US + 2)
    report(bench, point(4, loss=0.39), observed_us=START_US + 5)
    rows = bench.get("/v1/jobs/j1/metrics")["metrics"]
    found = [(r["round"], r["value"]["value"], r["is_current"], r["is_late"]) for r in rows]
    assert found == [(2, 0.2, True, True), (3, 0.3, True, False), (4, 0.4, False, False), (4, 0.39, True, False)]


@pytest.mark.parametrize("order", list(permutations([0, 1, 2])))
def test_current_value_is_the_latest_observed_in_any_order_of_arrival(bench: Bench, order: tuple[int, ...]) -> None:
    told = [(999_999_999_999, 0.9), (1_553_090_000_000, 0.5), (20_000_000_000, 0.1)]
    for index in order:
        observed_ms, loss = told[index]
        report(bench, point(1, loss=loss), observed_us=observed_ms * 1000)
    rows = bench.get("/v1/jobs/j1/metrics")["metrics"]
    assert [row["value"]["value"] for row in rows if row["is_current"]] == [0.5]


@pytest.mark.parametrize(
    ("told", "value", "conflict"),
    [
        ({"rounds": 10}, 10, None),
        ({"epochs": 12}, 12, None),
        ({"epochs": 12, "rounds": 10}, 12, {"epochs": 12, "rounds": 10}),
        ({"epochs": 12, "rounds": 12}, 12, None),
        ({}, None, None),
        ({"epochs": None, "rounds": 10}, 10, None),
    ],
)
def test_legacy_rounds_are_read_as_epochs(bench: Bench, told: Any, value: Any, conflict: Any) -> None:
    bench.record("state.reported", state(settings=told, round_number=99))
    job = bench.get("/v1/jobs/j1")
    assert job["epochs"]["value"] == value
    assert job["epochs_conflict"] == conflict


def test_aggregation_is_read_as_word_or_as_object(bench: Bench) -> None:
    bench.record("state.reported", state(settings={"aggregation": {"name": "FedAdam", "eta": 0.05}}))
    job = bench.get("/v1/jobs/j1")
    assert (job["aggregation"]["value"], job["aggregation_settings"]["value"]) == ("FedAdam", {"eta": 0.05})


def test_ids_beyond_doubles_come_back_as_strings_digit_for_digit(bench: Bench) -> None:
    person = participant("p1", local=True, assignment={"id": 18446744073709551616123, "units": 9007199254740993})
    person["id"] = 9007199254740993
    bench.record("state.reported", state(person))
    [row] = bench.get("/v1/jobs/j1/participants")["participants"]
    assert row["id"] == "9007199254740993"
    assert row["execution"]["assignment_id"]["value"] == "18446744073709551616123"
    assert row["execution"]["assignment_units"]["value"] == 9007199254740993


def test_poison_event_is_set_aside_and_the_rest_goes_on(bench: Bench) -> None:
    for round_number in range(1, 5):
        bench.record("state.reported", state(participant("p1", local=True), round_number=round_number))
    poison = bench.record("state.reported", {**state(), "participants": {"p1": {}}})
    for _ in range(6, 11):
        bench.record("state.reported", state(participant("p1", local=True)), stream="job-j2")
    job = bench.get("/v1/jobs/j1")
    assert job["incomplete_since"] == poison == 5
    assert {entry["view"] for entry in job["quarantined"]} == {"jobs"}
    assert job["quarantined"][0]["reason"].startswith("MalformedState: $.participants: got an object, wanted a list")
    assert job["round"]["value"] == 4
    other = bench.get("/v1/jobs/j2")
    assert (other["incomplete_since"], other["last_position"]) == (None, 10)
    assert bench.get("/v1/jobs/j1", as_of=4)["incomplete_since"] is None


def test_gap_of_a_recorder_shows_and_closes(bench: Bench) -> None:
    for seq in (1, 2, 6):
        bench.record("state.reported", state(participant("p1", local=True)), seq=seq)
    bench.record("state.reported", state(participant("p1", local=True)), seq=4)
    [recorder] = bench.get("/v1/jobs/j1/recorders")["recorders"]
    gaps = [(gap["first_seq"], gap["last_seq"], gap["closed_position"]) for gap in recorder["gaps"]]
    assert gaps == [(3, 5, 4), (3, 3, None), (5, 5, None)]
    [before] = bench.get("/v1/jobs/j1/recorders", as_of=3)["recorders"][0]["gaps"]
    assert (before["first_seq"], before["last_seq"], before["closed_position"]) == (3, 5, None)


def test_long_series_is_thinned_by_row_and_keeps_what_matters(bench: Bench) -> None:
    losses: list[Any] = [float(n % 7) for n in range(1, 1002)]
    losses[400], losses[500], losses[600] = 99.0, -5.0, "NaN"
    report(bench, *(point(n + 1, loss=loss, accuracy=0.5) for n, loss in enumerate(losses)))
    found = bench.get("/v1/jobs/j1/metrics", names="loss", max_points=50)
    rounds = {row["round"]: row["value"]["value"] for row in found["metrics"]}
    assert len(rounds) <= 53
    assert {1, 1001} <= rounds.keys()
    assert (rounds[401], rounds[501], rounds[601]) == (99.0, -5.0, {"non_finite": "NaN"})
    [series] = found["series"]
    assert (series["points"], series["non_finite"], series["shown"]) == (1001, 1, len(rounds))


def test_series_can_be_read_in_the_order_of_recording(bench: Bench) -> None:
    report(bench, point(3, loss=0.3))
    report(bench, point(2, loss=0.2), observed_us=START_US - 1)
    rows = bench.get("/v1/jobs/j1/metrics", by="time")["metrics"]
    assert [row["round"] for row in rows] == [3, 2]
