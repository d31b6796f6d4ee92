"""From arrays to words: what counts as agreement, what as a deviation, and what nobody can tell."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays

from service.replay.judgement import MetricFound, Place, ReplayEnded, Tolerance
from service.replay.verdict import compare_outputs, count_non_finite, rule

TOLERANCE = Tolerance(1e-5, "default")
WANTED = np.array([[1.0, 2.0, -4.0], [0.5, 0.0, 3.0]])


def metric(is_equal: bool | None) -> MetricFound:
    return MetricFound("loss", "Loss", "min", "mse", 1.0, "checkpoint", 1.5, 0.5, 1e-4, is_equal, None)


def test_equal_outputs_reproduce() -> None:
    agreement = compare_outputs({"y": WANTED.copy()}, {"y": WANTED}, TOLERANCE)
    assert (agreement.max_abs_error, agreement.where, agreement.worst_ratio) == (0.0, None, 0.0)
    assert agreement.labels is not None
    assert (agreement.labels.equal, agreement.labels.of) == (2, 2)
    assert rule({}, agreement, [], TOLERANCE).verdict == "reproduced"


def test_a_difference_beyond_the_tolerance_is_named_with_its_place() -> None:
    got = WANTED.copy()
    got[1, 2] += 5e-5  # the largest reference is 4, so 4e-5 is accepted
    agreement = compare_outputs({"y": got}, {"y": WANTED}, TOLERANCE)
    assert agreement.where == Place("y", (1, 2))
    assert agreement.max_abs_error == pytest.approx(5e-5)
    ruling = rule({}, agreement, [], TOLERANCE)
    assert (ruling.verdict, ruling.code) == ("deviates", "outputs_differ")
    assert "y[1, 2]" in (ruling.reason or "")


@given(st.data())
def test_an_error_is_accepted_exactly_up_to_the_tolerance(data: st.DataObject) -> None:
    wanted = data.draw(arrays(np.float64, (3, 2), elements=st.floats(1, 100)))
    factor = data.draw(st.sampled_from([0.5, 2.0]))
    got = wanted.copy()
    got[1, 1] += factor * 1e-5 * np.abs(wanted).max()
    agreement = compare_outputs({"y": got}, {"y": wanted}, TOLERANCE)
    assert (agreement.worst_ratio > 1) == (factor > 1)


@pytest.mark.parametrize("number", [np.nan, np.inf, -np.inf])
def test_the_same_non_finite_number_on_both_sides_agrees(number: float) -> None:
    wanted = WANTED.copy()
    wanted[0, 0] = number
    assert compare_outputs({"y": wanted.copy()}, {"y": wanted}, TOLERANCE).worst_ratio == 0
    assert compare_outputs({"y": WANTED}, {"y": wanted}, TOLERANCE).max_abs_error == np.inf
    assert compare_outputs({"y": wanted}, {"y": WANTED}, TOLERANCE).max_abs_error == np.inf


def test_a_zero_reference_accepts_only_zero() -> None:
    nothing = np.zeros((2, 1))
    assert compare_outputs({"y": nothing}, {"y": nothing}, TOLERANCE).worst_ratio == 0
    assert compare_outputs({"y": nothing + 1e-30}, {"y": nothing}, TOLERANCE).worst_ratio == np.inf


def test_unwritten_outputs_come_before_everything_else() -> None:
    agreement = compare_outputs({"y": WANTED}, {"y": WANTED}, TOLERANCE)
    ruling = rule({"y": 3, "z": 0}, agreement, [metric(False)], TOLERANCE)
    assert (ruling.verdict, ruling.code) == ("deviates", "outputs_not_written")
    assert ruling.reason == "the shaders never wrote 3 elements of y"


def test_a_recorded_metric_that_differs_deviates_with_both_numbers() -> None:
    ruling = rule({}, compare_outputs({"y": WANTED}, {"y": WANTED}, TOLERANCE), [metric(False)], TOLERANCE)
    assert (ruling.verdict, ruling.code) == ("deviates", "metrics_differ")
    assert "recorded 1.0, recomputed 1.5" in (ruling.reason or "")


def test_without_a_reference_the_recorded_metrics_are_the_judge() -> None:
    assert rule({}, None, [metric(True)], TOLERANCE).verdict == "reproduced"
    with pytest.raises(ReplayEnded) as ended:
        rule({}, None, [metric(None)], TOLERANCE)
    assert (ended.value.verdict, ended.value.code) == ("cannot-run", "nothing_to_judge_by")


def test_non_finite_numbers_are_counted_and_clean_arrays_left_out() -> None:
    arrays_given = {"a": np.array([1.0, np.nan, np.inf]), "b": np.ones(2), "c": np.array([1, 2])}
    assert count_non_finite(arrays_given) == {"a": 2}
