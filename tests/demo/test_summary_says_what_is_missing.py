"""The demo passes only when everything that must show was found; otherwise it says what was not."""

from typing import Any

import msgspec
import pytest

from service.demo.lookback import KINDS, BestCheckpoint, Incident, JobFound, Question
from service.demo.replays import ReplaysFound
from service.demo.report import Found, LogFound, shortcomings, summary


def judged(verdict: str = "reproduced", **result: Any) -> dict[str, Any]:
    said = {
        "engine": "gpu", "engine_reason": None, "reason": None, "max_abs_error": 1e-6,
        "adapter": {"name": "llvmpipe", "is_software": True}, "labels": {"equal": 360, "of": 360},
    }  # fmt: skip
    return {"verdict": verdict, "stream": "job-a", "round": 3, "result": said | result}


def found(**changed: Any) -> Found:
    incidents = [Incident(kind, "a", "p1", 1, position, "…") for position, kind in enumerate(KINDS, 1)]
    job = JobFound(
        id="a", aggregation="FedAvg", phase="finished", participants=["p1", "p2"], checkpoints=[{}] * 36,
        history=[0.9], best=[BestCheckpoint("loss", "min", 1, 0.3, "0" * 64)], accuracy=0.9, incidents=incidents,
    )  # fmt: skip
    log = LogFound(size=100, root="ab", verified=True)
    whole = Found([job], ReplaysFound([judged()] * 36), log, Question("q", "Why?", [], []), {"train": 20.0})
    return msgspec.structs.replace(whole, **changed)


def with_job(**changed: Any) -> Found:
    return found(jobs=[msgspec.structs.replace(found().jobs[0], **changed)])


def test_nothing_is_missing() -> None:
    assert shortcomings(found()) == []


@pytest.mark.parametrize("kind", KINDS)
def test_an_incident_that_was_not_found(kind: str) -> None:
    rest = [incident for incident in found().incidents if incident.kind != kind]
    assert shortcomings(with_job(incidents=rest)) == [f"no incident of kind {kind} was found in the record"]


def test_a_checkpoint_that_deviates() -> None:
    replays = ReplaysFound([judged()] * 35 + [judged("deviates", reason="the outputs differ")])
    assert shortcomings(found(replays=replays)) == ["a round 3: deviates: the outputs differ"]


def test_a_label_that_differs() -> None:
    replays = ReplaysFound([judged()] * 35 + [judged(labels={"equal": 359, "of": 360})])
    assert shortcomings(found(replays=replays)) == ["a round 3: 359 of 360 labels"]


def test_an_infinite_difference_is_said_as_one() -> None:
    replays = ReplaysFound([judged(), judged("deviates", max_abs_error={"non_finite": "Infinity"})])
    assert "  largest logit difference inf, in round 3 of a" in replays.sentences()


def test_a_checkpoint_without_a_replay() -> None:
    assert shortcomings(found(replays=ReplaysFound([judged()] * 35))) == ["35 of 36 checkpoints were replayed"]


def test_a_log_that_does_not_verify() -> None:
    log = LogFound(100, "ab", False, ["position 7: the payload is not what was recorded"])
    [reason] = shortcomings(found(log=log))
    assert "position 7" in reason


@pytest.mark.parametrize("accuracy", [0.849, None])
def test_an_accuracy_that_is_low_or_unknown(accuracy: float | None) -> None:
    assert shortcomings(with_job(accuracy=accuracy)) == [f"a ended with accuracy {accuracy}, wanted at least 0.85"]


def test_too_slow() -> None:
    assert shortcomings(found(parts={"train": 40.0, "replay": 20.5})) == ["it took 60.5 s, wanted at most 60 s"]


def test_summary_has_the_documented_fields() -> None:
    document = summary(found())
    assert list(document) == [
        "seconds", "parts", "events", "jobs", "checkpoints", "participants", "replays", "log", "incidents", "accuracy",
    ]  # fmt: skip
    assert document["replays"] == {
        "reproduced": 36, "deviates": 0, "cannot_run": 0, "engine": "gpu", "adapter": "llvmpipe",
    }  # fmt: skip
    assert document["incidents"][0]["position"] == 1
    assert (document["jobs"], document["checkpoints"], document["participants"]) == (1, 36, 2)


def test_without_a_gpu_the_adapter_is_null_and_the_reason_is_said() -> None:
    replays = ReplaysFound([judged(engine="reference", adapter=None, engine_reason="no Vulkan adapter")] * 36)
    assert summary(found(replays=replays))["replays"]["adapter"] is None
    assert "  no Vulkan adapter" in replays.sentences()
