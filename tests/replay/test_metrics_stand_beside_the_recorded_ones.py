"""Scores computed again, and what is said when they cannot be: never a zero, never a guess."""

import numpy as np
import pytest

from service.artifacts.module_package import Metric
from service.demo.package_builder import build_package
from service.replay.metrics import NotRecomputed, compare_metrics, recompute

MODULE = build_package().module
LOGITS = np.array([[2.0, 1.0], [0.0, 3.0], [1.0, 0.0]])
LABELS = np.array([0, 1, 1], dtype="<i4")


def metric(kind: str | None) -> Metric:
    return Metric("m", "M", "min", kind, "logits", "labels")


def test_accuracy_and_cross_entropy_of_three_rows() -> None:
    assert recompute(metric("accuracy"), {"logits": LOGITS}, {"labels": LABELS}) == 2 / 3
    entropy = recompute(metric("cross_entropy"), {"logits": LOGITS}, {"labels": LABELS})
    by_hand = [-np.log(1 / (1 + np.exp(-1.0))), -np.log(1 / (1 + np.exp(-3.0))), -np.log(1 / (1 + np.exp(1.0)))]
    assert entropy == pytest.approx(np.mean(by_hand))
    assert recompute(metric("perplexity"), {"logits": LOGITS}, {"labels": LABELS}) == pytest.approx(np.exp(entropy))


def test_errors_of_a_regression() -> None:
    given = {"logits": np.array([[1.0], [3.0]])}
    targets = {"labels": np.array([[2.0], [0.0]])}
    assert recompute(metric("mse"), given, targets) == 5.0
    assert recompute(metric("mae"), given, targets) == 2.0


def test_huge_logits_do_not_overflow() -> None:
    assert recompute(metric("cross_entropy"), {"logits": np.array([[1e4, 0.0]])}, {"labels": np.array([0])}) == 0.0


@pytest.mark.parametrize(
    ("kind", "labels", "word"),
    [
        ("f1", LABELS, "kind 'f1' is none of"),
        (None, LABELS, "kind None is none of"),
        ("accuracy", LABELS.astype("<f4"), "wanted [rows, classes] and whole numbers"),
        ("accuracy", LABELS[:2], "do not meet"),
        ("accuracy", LABELS + 5, "outside of the 2 classes"),
        ("mse", LABELS, "different shapes"),
    ],
)
def test_what_cannot_be_computed_says_why(kind: str | None, labels: np.ndarray, word: str) -> None:
    with pytest.raises(NotRecomputed) as refusal:
        recompute(metric(kind), {"logits": LOGITS}, {"labels": labels})
    assert word in str(refusal.value)


def logits_for(labels: np.ndarray) -> np.ndarray:
    return np.where(np.arange(10) == labels[:, None], 5.0, 0.0)


def test_recorded_beside_recomputed_with_label_and_direction_of_the_package() -> None:
    labels = np.array([1, 2, 3])
    found = compare_metrics(
        MODULE, {"logits": logits_for(labels)}, {"labels": labels}, {"accuracy": 1.0}, {"loss": 9.0}
    )
    loss, accuracy = found
    assert (accuracy.label, accuracy.direction, accuracy.recorded_by) == ("Accuracy", "max", "checkpoint")
    assert (accuracy.recomputed, accuracy.difference, accuracy.is_equal) == (1.0, 0.0, True)
    assert (loss.recorded, loss.recorded_by, loss.is_equal) == (9.0, "state", False)


def test_the_checkpoints_own_word_comes_before_the_states() -> None:
    labels = np.array([1])
    _, accuracy = compare_metrics(
        MODULE, {"logits": logits_for(labels)}, {"labels": labels}, {"accuracy": 1.0}, {"accuracy": 0.2}
    )
    assert (accuracy.recorded, accuracy.recorded_by) == (1.0, "checkpoint")


def test_nothing_recorded_is_no_deviation_and_no_zero() -> None:
    labels = np.array([1])
    _, accuracy = compare_metrics(MODULE, {"logits": logits_for(labels)}, {"labels": labels}, {}, {})
    assert (accuracy.recorded, accuracy.difference, accuracy.is_equal) == (None, None, None)
    assert accuracy.reason == "nothing was recorded for it"


def test_without_the_target_it_is_not_recomputed() -> None:
    _, accuracy = compare_metrics(MODULE, {"logits": LOGITS}, {}, {"accuracy": 1.0}, {})
    assert (accuracy.recomputed, accuracy.is_equal) == (None, None)
    assert accuracy.reason == "not recomputed: target 'labels' is not there"


def test_a_recorded_nan_equals_only_a_recomputed_nan() -> None:
    labels = np.array([1])
    nan = {"logits": np.full((1, 10), np.nan)}
    loss, _ = compare_metrics(MODULE, nan, {"labels": labels}, {"loss": float("nan")}, {})
    assert loss.is_equal is True
    loss, _ = compare_metrics(MODULE, {"logits": logits_for(labels)}, {"labels": labels}, {"loss": float("nan")}, {})
    assert loss.is_equal is False
