"""Every worked example of tests/golden/aggregation_cases.json, given by two rounds of known client models."""

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from service.domain.aggregation import (
    FIRST_MOMENT,
    NO_STATE,
    SECOND_MOMENT,
    VELOCITY,
    Array,
    FedAdam,
    FedAvg,
    FedAvgM,
    Rule,
    Tensors,
    Update,
    aggregate,
    weighted_average,
)

GOLDEN = json.loads((Path(__file__).parent.parent / "golden/aggregation_cases.json").read_text())
CASES = {case["name"]: case for case in GOLDEN["cases"]}
CORRECTIONS = {"none": "none", "exponent t, t counted from 1": "t", "exponent round+1, round counted from 1": "t+1"}


def assert_exact(got: Array, expected: list[float]) -> None:
    np.testing.assert_allclose(got, expected, rtol=0.0, atol=1e-15)


def rule_of(case: dict[str, Any]) -> Rule:
    settings = case["hyperparameters"]
    if case["algorithm"] == "FedAvg":
        return FedAvg()
    if case["algorithm"] == "FedAvgM":
        return FedAvgM(momentum=settings["server_momentum"], rate=settings["server_learning_rate"])
    return FedAdam(
        eta=settings["eta"], beta_1=settings["beta_1"], beta_2=settings["beta_2"], tau=settings["tau"],
        correction=CORRECTIONS[settings["bias_correction"]],  # type: ignore[arg-type]
        second_moment_start=settings.get("v_initial", 0.0),
    )  # fmt: skip


def updates_of(round_index: int) -> list[Update]:
    return [Update({"w": np.array(c["model"])}, c["num_examples"]) for c in GOLDEN["clients"][round_index]]


def test_all_nine_cases_are_there() -> None:
    assert len(CASES) == 9
    assert {case["algorithm"] for case in CASES.values()} == {"FedAvg", "FedAvgM", "FedAdam"}


@pytest.mark.parametrize("name", CASES)
def test_two_rounds_give_the_published_numbers(name: str) -> None:
    case = CASES[name]
    rule, state = rule_of(case), NO_STATE
    weights: Tensors = {"w": np.array(GOLDEN["initial_global"])}
    for index, expected in enumerate(case["rounds"]):
        updates = updates_of(index)
        assert_exact(weighted_average(updates)["w"], expected["weighted_average"])
        weights, state = aggregate(rule, weights, updates, state)
        assert_exact(weights["w"], expected["global_after"])
        assert state.step == index + 1
        for key, prefix in (("velocity", VELOCITY), ("m", FIRST_MOMENT), ("v", SECOND_MOMENT)):
            if key in expected:
                assert_exact(state.tensors[f"{prefix}w"], expected[key])
        if isinstance(rule, FedAdam):
            assert rule.effective_eta(state.step) == pytest.approx(expected["effective_eta"], rel=1e-14)


def test_variants_of_fedadam_bear_different_names() -> None:
    rules = [rule_of(case) for case in CASES.values() if case["algorithm"] == "FedAdam"]
    assert {rule.formula for rule in rules} == {
        "fedadam/correction-none", "fedadam/correction-t", "fedadam/correction-t+1",
    }  # fmt: skip
