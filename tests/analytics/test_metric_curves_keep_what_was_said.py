"""Metric curves: NaN stays NaN and alone, best follows the model's direction, nothing missing becomes a number."""

from typing import Any

import pytest

from tests.analytics.conftest import Asking
from tests.analytics.history import History, checkpoint

LABELS = [
    {"key": "loss", "label": "Loss", "direction": "min"},
    {"key": "accuracy", "label": "Accuracy", "direction": "max"},
    {"key": "reward", "label": "Reward"},
]


def curves(asked: Asking, name: str) -> list[dict[str, Any]]:
    return [row for row in asked("metric-curves", job="j1") if row["name"] == name]


def test_one_nan_spoils_no_other_point(history: History, asked: Asking) -> None:
    """F02: 50 rounds, the loss of round 17 is NaN."""
    rounds = [checkpoint(n, loss="NaN" if n == 17 else 1 / n, accuracy=n / 50) for n in range(1, 51)]
    history.state(job_says={"metricLabels": LABELS}, checkpoints=rounds)
    loss, accuracy = curves(asked, "loss"), curves(asked, "accuracy")
    assert [row["round"] for row in loss] == [row["round"] for row in accuracy] == list(range(1, 51))
    assert (loss[16]["value"], loss[16]["value_tag"], loss[16]["is_best"]) == (None, "NaN", False)
    assert all(row["value"] is not None for row in [*loss[:16], *loss[17:], *accuracy])


def test_seven_kinds_of_value_stay_apart(history: History, asked: Asking) -> None:
    """F01: a number, NaN, both infinities, null, missing and 0."""
    said: dict[int, dict[str, Any]] = {
        1: {"loss": 0.5},
        2: {"loss": "NaN"},
        3: {"loss": {"non_finite": "Infinity"}},
        4: {"loss": "-Infinity"},
        5: {"loss": None},
        6: {},
        7: {"loss": 0},
    }
    history.state(checkpoints=[checkpoint(number, **metrics) for number, metrics in said.items()])
    found = {row["round"]: (row["value"], row["value_tag"], row["reason"]) for row in curves(asked, "loss")}
    assert found == {
        1: (0.5, None, None),
        2: (None, "NaN", None),
        3: (None, "Infinity", None),
        4: (None, "-Infinity", None),
        5: (None, None, "reported as unavailable"),
        7: (0.0, None, None),
    }


@pytest.mark.parametrize(("metric", "best"), [("loss", [3]), ("accuracy", [2]), ("reward", [])])
def test_best_follows_the_direction_of_the_model(history: History, asked: Asking, metric: str, best: list[int]) -> None:
    """F11: .9 .5 .4 .6 is best in round 3 when less is better; without a direction nobody guesses."""
    values = {1: (0.9, 0.3), 2: (0.5, 0.7), 3: (0.4, 0.6), 4: (0.6, 0.5)}
    rounds = [checkpoint(n, loss=loss, accuracy=accuracy, reward=loss) for n, (loss, accuracy) in values.items()]
    history.state(job_says={"metricLabels": LABELS}, checkpoints=rounds)
    found = curves(asked, metric)
    assert [row["round"] for row in found if row["is_best"]] == best
    if metric == "reward":
        assert {row["is_best"] for row in found} == {None}


def test_repeats_are_one_point_and_a_changed_value_is_the_later_one(history: History, asked: Asking) -> None:
    for at_s, loss in ((0, 0.5), (2, 0.5), (4, 0.4), (6, 0.4)):
        history.state(at_s=at_s, checkpoints=[checkpoint(1, loss=loss)])
    [row] = curves(asked, "loss")
    assert (row["value"], row["position"]) == (0.4, 3)


def test_value_that_comes_back_is_the_latest(history: History, asked: Asking) -> None:
    for at_s, loss in ((0, 0.5), (2, 0.4), (4, 0.5)):
        history.state(at_s=at_s, checkpoints=[checkpoint(1, loss=loss)])
    [row] = curves(asked, "loss")
    assert (row["value"], row["position"]) == (0.5, 3)


def test_direction_said_later_counts_and_silence_takes_none_back(history: History, asked: Asking) -> None:
    for at_s, labels in ((0, []), (2, LABELS), (4, [])):
        history.state(at_s=at_s, job_says={"metricLabels": labels}, checkpoints=[checkpoint(1, loss=0.5)])
    [row] = curves(asked, "loss")
    assert (row["direction"], row["is_best"], row["position"]) == ("min", True, 2)


def test_directions_that_contradict_each_other_name_no_best(history: History, asked: Asking) -> None:
    for at_s, way in ((0, "min"), (2, "max")):
        labels = [{"key": "loss", "label": "Loss", "direction": way}]
        history.state(at_s=at_s, job_says={"metricLabels": labels}, checkpoints=[checkpoint(1, loss=0.5)])
    [row] = curves(asked, "loss")
    assert (row["direction"], row["is_best"]) == (None, None)
