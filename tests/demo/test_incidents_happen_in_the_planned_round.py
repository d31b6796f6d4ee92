"""Each incident of the plan as the pages record it, and what it does to the checkpoints."""

from collections.abc import Callable
from typing import Any

import pytest

from service.artifacts.checkpoint_format import Checkpoint, read_checkpoint
from service.demo.incidents import EVERYTHING
from service.demo.job_plan import PARTICIPANTS, JobPlan
from service.domain.aggregation import FedAvg
from service.domain.events import COMMAND_RETURNED, RECORDER_STARTED, RECORDER_STOPPED, STATE_REPORTED

PLAN = JobPlan(id="rough", rule=FedAvg(), rounds=8, incidents=EVERYTHING)


@pytest.fixture(scope="module")
def played(play_job: Callable[[JobPlan, int], Any]) -> Any:
    return play_job(PLAN, 7)


@pytest.fixture(scope="module")
def checkpoints(played: Any) -> dict[int, Checkpoint]:
    return {number: read_checkpoint(data) for number, data in played.artifacts("owner", "checkpoint").items()}


def contributors(checkpoint: Checkpoint) -> list[str]:
    return [part.participant_id for part in checkpoint.contributions]


def failures(played: Any, page: str) -> list[tuple[str, str]]:
    returned = played.pages[page].of(COMMAND_RETURNED)
    return [(data["name"], data["error_code"]) for data in returned if data["outcome"] == "error"]


def test_sums_follow_the_order_of_participants(checkpoints: dict[int, Checkpoint]) -> None:
    assert [contributors(checkpoints[number]) for number in range(1, 9)] == [
        ["p1", "p2", "p3", "p4", "p5"],
        ["p1", "p2", "p3", "p4", "p5"],
        ["p1", "p2", "p3", "p4", "p5"],
        ["p1", "p2", "p3", "p4", "p5", "p6"],
        ["p1", "p3", "p4", "p5", "p6"],
        ["p1", "p2", "p3", "p4", "p6"],
        ["p1", "p2", "p3", "p4", "p5", "p6"],
        ["p1", "p2", "p4", "p5", "p6"],
    ]


def test_p6_is_listed_from_round_4_on(played: Any) -> None:
    listed = [
        (state["job"]["state"]["round"], any(word["id"] == "p6" for word in state["participants"]))
        for state in played.pages["owner"].of(STATE_REPORTED)
    ]
    assert not any(is_listed for completed, is_listed in listed if completed < 3)
    assert all(is_listed for completed, is_listed in listed if completed >= 4)


def test_p3_leaves_after_round_7_and_its_run_ends(played: Any) -> None:
    last = played.pages["p3"].of(STATE_REPORTED)[-1]
    assert last["job"]["state"]["round"] == 7
    assert [word["status"] for word in last["participants"] if word["local"]] == ["left"]
    assert played.pages["p3"].events[-1]["type"] == RECORDER_STOPPED


def test_p4_says_why_it_computes_on_the_cpu(played: Any) -> None:
    for state in played.pages["p4"].of(STATE_REPORTED):
        execution = state["execution"]
        assert (execution["requestedBackend"], execution["backend"]) == ("webgpu", "numpy-cpu")
        assert "max_buffer_size" in execution["fallbackReason"]


def test_who_never_asked_for_a_gpu_says_nothing_about_one(played: Any) -> None:
    assert "gpuAvailable" not in played.pages["p1"].of(STATE_REPORTED)[-1]["execution"]


def test_late_result_of_p5_is_refused_and_kept(played: Any, checkpoints: dict[int, Checkpoint]) -> None:
    assert failures(played, "p5") == [("submitResult", "late_result")]
    assert 6 in played.artifacts("p5", "update")
    assert "p5" not in contributors(checkpoints[6])


def test_p5_is_seen_stale_by_the_owner_and_fresh_again(played: Any) -> None:
    flags = [
        word["stale"]
        for state in played.pages["owner"].of(STATE_REPORTED)
        for word in state["participants"]
        if word["id"] == "p5"
    ]
    assert True in flags
    assert flags[-1] is False


def test_p2_raises_once_with_the_errors_own_name(played: Any) -> None:
    assert failures(played, "p2") == [("train", "IndexError")]
    assert 5 not in played.artifacts("p2", "update")


def test_refused_start_changes_nothing(played: Any) -> None:
    assert failures(played, "owner") == [("start", "wrong_state")]
    phases = [state["job"]["state"]["phase"] for state in played.pages["owner"].of(STATE_REPORTED)]
    assert phases == sorted(phases, key=("created", "running", "finished").index)


def test_nothing_else_fails(played: Any) -> None:
    assert {page for page in played.pages if failures(played, page)} == {"owner", "p2", "p5"}


def test_every_page_is_one_whole_run(played: Any) -> None:
    assert set(played.pages) == {"owner", *PARTICIPANTS}
    for notebook in played.pages.values():
        types = [event["type"] for event in notebook.events]
        assert (types[0], types[-1]) == (RECORDER_STARTED, RECORDER_STOPPED)


def test_every_stage_change_is_a_snapshot(played: Any) -> None:
    for participant in PARTICIPANTS:
        states = played.pages[participant].of(STATE_REPORTED)
        numbers = [state["execution"]["stageSeq"] for state in states]
        assert sorted(set(numbers)) == list(range(1, numbers[-1] + 1))


def test_page_and_its_own_entry_say_the_same(played: Any) -> None:
    for participant in PARTICIPANTS:
        for state in played.pages[participant].of(STATE_REPORTED):
            own = [word for word in state["participants"] if word["local"]]
            assert [word["execution"] for word in own] in ([], [state["execution"]])
