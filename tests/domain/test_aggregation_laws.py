"""What holds for every model and every set of updates, and what is refused."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from service.domain.aggregation import (
    FIRST_MOMENT,
    NO_STATE,
    FedAdam,
    FedAvg,
    FedAvgM,
    Rule,
    ServerState,
    Update,
    aggregate,
    rule_settings,
    weighted_average,
    weights_from_moments,
    weights_from_velocity,
)

numbers = st.floats(-1e3, 1e3)
models = st.lists(numbers, min_size=3, max_size=3).map(lambda values: {"w": np.array(values, np.float32)})
updates_of_all_sorts = st.lists(st.builds(Update, models, st.integers(1, 1000)), min_size=1, max_size=6)
RULES: list[Rule] = [FedAvg(), FedAvgM(momentum=0.7), FedAdam(eta=0.05)]


@given(updates_of_all_sorts)
def test_average_lies_between_the_updates(updates: list[Update]) -> None:
    average = weighted_average(updates)["w"]
    rows = np.stack([update.weights["w"] for update in updates]).astype(np.float64)
    slack = 1e-9 * np.abs(rows).max()
    assert np.all(average >= rows.min(axis=0) - slack)
    assert np.all(average <= rows.max(axis=0) + slack)


@given(models, updates_of_all_sorts)
def test_fedavgm_without_momentum_at_rate_one_is_fedavg(weights: dict[str, object], updates: list[Update]) -> None:
    plain = aggregate(FedAvg(), weights, updates).weights["w"]  # type: ignore[arg-type]
    momentum = aggregate(FedAvgM(momentum=0.0), weights, updates).weights["w"]  # type: ignore[arg-type]
    np.testing.assert_allclose(momentum, plain, rtol=0, atol=1e-9)


@given(models, updates_of_all_sorts)
def test_state_after_a_round_and_model_before_it_give_the_model_again(
    weights: dict[str, np.ndarray[tuple[int], np.dtype[np.float32]]], updates: list[Update]
) -> None:
    momentum, adam = FedAvgM(momentum=0.7), FedAdam(eta=0.05)
    one = aggregate(momentum, weights, updates)
    assert np.array_equal(weights_from_velocity(momentum, weights, one.state)["w"], one.weights["w"])
    other = aggregate(adam, weights, updates)
    assert np.array_equal(weights_from_moments(adam, weights, other.state)["w"], other.weights["w"])


@pytest.mark.parametrize("rule", RULES, ids=lambda rule: rule.formula)
def test_the_arguments_are_left_as_they_were(rule: Rule) -> None:
    weights = {"w": np.array([1.0, 2.0], np.float32)}
    updates = [Update({"w": np.array([3.0, 4.0], np.float32)}, 5)]
    aggregate(rule, weights, updates)
    assert weights["w"].tolist() == [1.0, 2.0]
    assert updates[0].weights["w"].tolist() == [3.0, 4.0]


def test_a_nan_in_one_update_reaches_the_model_and_is_not_hidden() -> None:
    updates = [Update({"w": np.array([1.0, np.nan])}, 3), Update({"w": np.array([2.0, 2.0])}, 1)]
    after = aggregate(FedAvg(), {"w": np.zeros(2)}, updates).weights["w"]
    assert after[0] == 1.25
    assert np.isnan(after[1])


@pytest.mark.parametrize("updates", [[], [Update({"w": np.zeros(2)}, 0)], [Update({"w": np.zeros(2)}, -1)]])
def test_no_examples_have_no_average(updates: list[Update]) -> None:
    with pytest.raises(ValueError, match="at least one example"):
        weighted_average(updates)


def test_an_update_of_another_shape_is_refused() -> None:
    with pytest.raises(ValueError, match="tensors do not match"):
        aggregate(FedAvg(), {"w": np.zeros(2)}, [Update({"w": np.zeros(3)}, 1)])


def test_a_lost_moment_is_an_error_and_never_a_restart_from_zero() -> None:
    crippled = ServerState(4, {f"{FIRST_MOMENT}w": np.zeros(2)})
    with pytest.raises(ValueError, match="at step 4 and has no tensor 'v/w'"):
        aggregate(FedAdam(eta=0.05), {"w": np.zeros(2)}, [Update({"w": np.ones(2)}, 1)], crippled)
    assert aggregate(FedAdam(eta=0.05), {"w": np.zeros(2)}, [Update({"w": np.ones(2)}, 1)], NO_STATE).state.step == 1


def test_settings_are_exact_strings() -> None:
    assert rule_settings(FedAdam(eta=0.05)) == {
        "eta": "0.05", "beta_1": "0.9", "beta_2": "0.99", "tau": "0.001", "correction": "t+1",
        "second_moment_start": "0.0",
    }  # fmt: skip
    assert rule_settings(FedAvg()) == {}
