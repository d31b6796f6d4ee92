"""F11, F12, F20, F26, F27: latest, latest archived, latest usable and best are four questions; none is guessed."""

from typing import Any

import pytest

from tests.projections.tape import participant, state
from tests.queries.bench import Bench


def digest(name: int) -> str:
    return f"{name:064x}"


def reported(round_number: int, name: int | None = None, **metrics: Any) -> dict[str, Any]:
    """What a page says of a checkpoint; `validation` metrics as given."""
    return {
        "version": 2, "round": round_number, "sha256": digest(name or round_number),
        "metrics": {"training": {"loss": 0.0}, "validation": metrics or None},
    }  # fmt: skip


def archive(bench: Bench, round_number: int, name: int | None = None, nan: int = 0) -> int:
    inspection = {"well_formed": True, "nan": nan, "positive_infinity": 0, "negative_infinity": 0}
    data = {"role": "checkpoint", "sha256": digest(name or round_number), "size_bytes": 8, "round": round_number}
    return bench.record("artifact.archived", {**data, "inspection": inspection}, site="", recorder="service")


def report(bench: Bench, *checkpoints: dict[str, Any]) -> int:
    return bench.record("state.reported", state(participant("p1", local=True), checkpoints=list(checkpoints)))


def ask(bench: Bench, which: str, **parameters: Any) -> Any:
    return bench.get(f"/v1/jobs/j1/checkpoints/{which}", **parameters)


def test_latest_is_the_highest_round_and_latest_archived_arrived_last(bench: Bench) -> None:
    for round_number in (9, 100, 10, 11, 8):
        archive(bench, round_number)
    archive(bench, 9)
    assert ask(bench, "latest")["checkpoint"]["round"] == 100
    found = ask(bench, "latest_archived")["checkpoint"]
    assert (found["round"], found["archived"]["positions"]) == (9, [1, 6])


def test_checkpoint_with_nan_is_kept_and_not_usable(bench: Bench) -> None:
    archive(bench, 1)
    archive(bench, 2, nan=1)
    archive(bench, 3, nan=2410)
    assert ask(bench, "latest")["checkpoint"]["round"] == 3
    assert ask(bench, "latest_usable")["checkpoint"]["round"] == 1
    assert ask(bench, "2")["checkpoint"]["archived"]["inspection"]["nan"] == 1


def test_none_is_said_with_a_reason(bench: Bench) -> None:
    report(bench)
    assert ask(bench, "latest")["reason"] == "no_checkpoint"
    report(bench, reported(1))
    assert ask(bench, "latest")["checkpoint"]["archived"] is None
    assert ask(bench, "latest_archived")["reason"] == "none_archived"
    assert ask(bench, "latest_usable")["reason"] == "none_usable"


@pytest.mark.parametrize(("metric", "best_round"), [("loss", 3), ("accuracy", 2)])
def test_direction_comes_from_the_model(bench: Bench, metric: str, best_round: int) -> None:
    values = [(0.9, 0.3), (0.5, 0.7), (0.4, 0.6), (0.6, 0.5)]
    report(bench, *(reported(i + 1, loss=loss, accuracy=accuracy) for i, (loss, accuracy) in enumerate(values)))
    found = ask(bench, "best", metric=metric)
    assert found["best"]["round"] == best_round
    assert (found["split"], found["direction_from"], found["had_it"], found["of"]) == ("validation", "model", 4, 4)


def test_unknown_direction_is_asked_for_and_never_guessed(bench: Bench) -> None:
    report(bench, reported(1, cifar_loss=0.9), reported(2, cifar_loss=0.4))
    refused = bench.get("/v1/jobs/j1/checkpoints/best", expect=422, metric="cifar_loss")
    assert refused["code"] == "direction_unknown"
    found = ask(bench, "best", metric="cifar_loss", direction="min")
    assert (found["best"]["round"], found["direction_from"]) == (2, "request")


def test_manifest_of_the_archived_module_tells_the_direction(bench: Bench) -> None:
    report(bench, reported(1, cifar_loss=0.9), reported(2, cifar_loss=0.4))
    inspection = {"metrics": [{"key": "cifar_loss", "direction": "min"}]}
    module = {"role": "module", "sha256": digest(77), "size_bytes": 9, "inspection": inspection}
    bench.record("artifact.archived", module, site="", recorder="service")
    assert ask(bench, "best", metric="cifar_loss")["best"]["round"] == 2


def test_best_never_falls_back_to_training_or_latest(bench: Bench) -> None:
    report(bench, *(reported(i) for i in range(1, 6)))
    found = ask(bench, "best", metric="loss")
    assert (found["best"], found["reason"], found["had_it"], found["of"]) == (None, "no_value", 0, 5)
    report(bench, *(reported(i, None, **({"loss": 0.5} if i == 2 else {})) for i in range(1, 6)))
    found = ask(bench, "best", metric="loss")
    assert (found["best"]["round"], found["had_it"], found["of"]) == (2, 1, 5)


def test_equal_values_give_the_lowest_round(bench: Bench) -> None:
    report(bench, reported(3, loss=0.5), reported(2, loss=0.5), reported(1, loss=0.6))
    assert ask(bench, "best", metric="loss")["best"]["round"] == 2


def test_non_finite_value_is_never_best(bench: Bench) -> None:
    report(bench, reported(1, loss=0.5), reported(2, loss={"non_finite": "-Infinity"}), reported(3, loss="NaN"))
    found = ask(bench, "best", metric="loss")
    assert (found["best"]["round"], found["had_it"]) == (1, 1)
    assert ask(bench, "3")["checkpoint"]["metrics"]["validation"]["loss"]["value"] == {"non_finite": "NaN"}


def test_resumed_run_is_a_segment_beside_the_first(bench: Bench) -> None:
    first = [reported(4, 4), reported(8, 8), reported(12, 12)]
    report(bench, *first)
    resumed = {**reported(8, 108), "parentSha256": digest(4)}
    report(bench, *first, resumed)
    found = ask(bench, "8")
    assert found["checkpoint"]["sha256"] == digest(108)
    assert [other["sha256"] for other in found["others"]] == [digest(8)]
    assert [(c["round"], c["segment"]) for c in bench.get("/v1/jobs/j1/checkpoints")["checkpoints"]] == [
        (4, 1), (8, 1), (8, 2), (12, 1),
    ]  # fmt: skip


def test_checkpoint_is_found_by_digest_in_every_job(bench: Bench) -> None:
    report(bench, reported(1))
    bench.record("state.reported", state(participant("p1", local=True), checkpoints=[reported(1)]), stream="job-j2")
    assert [place["job"] for place in bench.get(f"/v1/checkpoints/{digest(1)}")["jobs"]] == ["j1", "j2"]
    assert bench.get(f"/v1/checkpoints/{digest(2)}", expect=404)["code"] == "checkpoint_not_found"
    assert bench.get("/v1/checkpoints/ABC", expect=422)["code"] == "invalid_digest"


def test_unknown_round_names_what_can_be_asked(bench: Bench) -> None:
    report(bench, reported(1))
    refused = bench.get("/v1/jobs/j1/checkpoints/7", expect=404)
    assert refused["code"] == "checkpoint_not_found"
    assert "latest_usable" in refused["detail"]
