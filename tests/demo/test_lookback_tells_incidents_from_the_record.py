"""What the look back finds in a recorded job, asked over the REST routes of a real store and real views."""

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from service.demo.incidents import EVERYTHING
from service.demo.job_plan import JobPlan
from service.demo.lookback import KINDS, JobFound, look_back
from service.demo.rest import Rest
from service.domain.aggregation import FedAvg
from service.domain.times import parse_rfc3339
from tests.queries.bench import Bench

PLAN = JobPlan(id="rough", rule=FedAvg(), rounds=8, incidents=EVERYTHING)


def record(bench: Bench, played: Any) -> None:
    """Store what the pages recorded, in the order of the play's clock, each page as one recorder run."""
    told = [event for notebook in played.pages.values() for event in notebook.events]
    ids: dict[str, str] = {}
    for event in sorted(told, key=lambda event: event["observed_at"]):
        bench.now_us = parse_rfc3339(event["observed_at"])
        position = bench.record(
            event["type"], event["data"], recorder=event["source"]["recorder"], stream=event["stream"],
            causation_id=ids.get(event["causation_id"]),
        )  # fmt: skip
        ids[event["id"]] = bench.store.read_one(position).event.id


@pytest.fixture(scope="module")
def bench(play_job: Callable[[JobPlan, int], Any], tmp_path_factory: pytest.TempPathFactory) -> Iterator[Bench]:
    folder: Path = tmp_path_factory.mktemp("record")
    bench = Bench(folder)
    record(bench, play_job(PLAN, 7))
    yield bench
    bench.close()


@pytest.fixture(scope="module")
def job(bench: Bench) -> JobFound:
    [found] = look_back(Rest(bench.client), bench.store.head())
    return found


def test_all_six_kinds_are_found_once_each(job: JobFound) -> None:
    assert sorted(incident.kind for incident in job.incidents) == sorted(KINDS)


def test_who_and_in_which_round(job: JobFound) -> None:
    assert {incident.kind: (incident.participant, incident.round) for incident in job.incidents} == {
        "joined-late": ("p6", 4),
        "left-early": ("p3", 7),
        "gpu-refused": ("p4", None),
        "went-stale": ("p5", 6),
        "training-raised": ("p2", 5),
        "command-refused": (None, 2),
    }


def listed(document: dict[str, Any]) -> dict[str, dict[str, Any]]:
    return {word["id"]: word for word in document["participants"]}


def test_each_position_leads_to_an_event_that_shows_it(bench: Bench, job: JobFound) -> None:
    shown = {i.kind: bench.get(f"/v1/events/{i.position}")["data"] for i in job.incidents}
    assert "p6" in listed(shown["joined-late"])
    assert listed(shown["left-early"])["p3"]["status"] == "left"
    assert "max_buffer_size" in listed(shown["gpu-refused"])["p4"]["execution"]["fallbackReason"]
    assert shown["went-stale"]["error_code"] == "late_result"
    assert shown["training-raised"]["error_code"] == "IndexError"
    assert shown["command-refused"]["error_code"] == "wrong_state"


def test_silence_is_told_with_the_others_going_on(job: JobFound) -> None:
    [stale] = [incident for incident in job.incidents if incident.kind == "went-stale"]
    assert "stale after 1 s" in stale.sentence
    assert "while p1, p2, p3, p4, p6 went on" in stale.sentence


def test_best_checkpoint_goes_by_the_models_own_direction(job: JobFound) -> None:
    assert {best.metric: best.direction for best in job.best} == {"loss": "min", "accuracy": "max"}
    accuracy = next(best for best in job.best if best.metric == "accuracy")
    assert accuracy.value == max(value for value in job.history if value is not None)


def test_history_and_final_accuracy_are_what_was_reported(job: JobFound) -> None:
    assert len(job.history) == PLAN.rounds
    assert job.accuracy == job.history[-1]
    assert job.phase == "finished"
