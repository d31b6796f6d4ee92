"""How updates become a model: FedAvg, FedAvgM and FedAdam as pure float64 arithmetic, each under its formula's name.

Published rules differ in detail (which exponent corrects Adam's bias, what the second moment starts from), so a rule is
always named down to that detail: the name goes into a checkpoint's `formula`, and a later reader recomputes exactly it.
Nothing is stored, read or rounded here. Sources: tests/golden/aggregation_cases.json names one for each case.
"""

import math
from collections.abc import Mapping, Sequence
from typing import Any, Literal, NamedTuple

import msgspec
import numpy as np

Array = np.ndarray[Any, np.dtype[Any]]
Float64s = np.ndarray[Any, np.dtype[np.float64]]
Tensors = Mapping[str, Array]
Correction = Literal["none", "t", "t+1"]

VELOCITY, FIRST_MOMENT, SECOND_MOMENT = "velocity/", "m/", "v/"
"""Prefixes of the optimizer's tensors; the weight's own name follows."""


class Update(NamedTuple):
    """What one participant delivers: its whole model after local training, and the examples it was trained on."""

    weights: Tensors
    examples: int


class FedAvg(msgspec.Struct, frozen=True, tag="FedAvg", tag_field="kind"):
    """Weighted average: `w' = sum(n_k * w_k) / sum(n_k)`. arXiv:1602.05629."""

    @property
    def formula(self) -> str:
        """Name of the rule, exact to the detail."""
        return "fedavg"


class FedAvgM(msgspec.Struct, frozen=True, tag="FedAvgM", tag_field="kind"):
    """Server momentum: `velocity' = momentum * velocity + (w - average)`, `w' = w - rate * velocity'`.

    arXiv:1909.06335. The velocity starts at 0.
    """

    momentum: float
    rate: float = 1.0

    @property
    def formula(self) -> str:
        """Name of the rule, exact to the detail."""
        return "fedavgm/velocity-from-zero"


class FedAdam(msgspec.Struct, frozen=True, tag="FedAdam", tag_field="kind"):
    """Server Adam: with `d = average - w`, `m' = b1*m + (1-b1)*d`, `v' = b2*v + (1-b2)*d*d`,
    `w' = w + eta_t * m' / (sqrt(v') + tau)`.

    `eta_t` is `eta` without a correction (arXiv:2003.00295, Algorithm 2), else `eta * sqrt(1 - b2^e) / (1 - b1^e)` with
    e = t (TensorFlow Federated's `build_adam`) or e = t+1 (Flower's FedAdam), t counted from 1.
    """

    eta: float
    beta_1: float = 0.9
    beta_2: float = 0.99
    tau: float = 1e-3
    correction: Correction = "t+1"
    second_moment_start: float = 0.0

    @property
    def formula(self) -> str:
        """Name of the rule, exact to the detail."""
        return f"fedadam/correction-{self.correction}"

    def effective_eta(self, step: int) -> float:
        """`eta_t` of the step (from 1)."""
        if self.correction == "none":
            return self.eta
        exponent = step + 1 if self.correction == "t+1" else step
        return self.eta * math.sqrt(1 - self.beta_2**exponent) / (1 - self.beta_1**exponent)


Rule = FedAvg | FedAvgM | FedAdam


class ServerState(NamedTuple):
    """The optimizer between two rounds: how many steps it took, and its float64 tensors (prefix + weight's name)."""

    step: int
    tensors: Mapping[str, Float64s]


class Outcome(NamedTuple):
    """The model after the round, in float64 (the caller rounds to what it stores), and the optimizer after it."""

    weights: dict[str, Float64s]
    state: ServerState


NO_STATE = ServerState(0, {})
"""The optimizer before the first round."""


def rule_settings(rule: Rule) -> dict[str, str]:
    """The rule's settings as exact decimal strings (`repr` of a float names it exactly), as a checkpoint keeps them."""
    return {name: str(getattr(rule, name)) for name in rule.__struct_fields__}


def weighted_average(updates: Sequence[Update]) -> dict[str, Float64s]:
    """`sum(n_k * w_k) / sum(n_k)`, summed in the order given: another order can change the last bits.

    Raises ValueError without updates, with no examples at all, or when the tensors' names or shapes differ.
    """
    total = sum(update.examples for update in updates)
    if total <= 0 or any(update.examples < 0 for update in updates):
        raise ValueError(f"{len(updates)} updates over {total} examples have no average; wanted at least one example")
    first = updates[0].weights
    sums = {name: np.zeros(array.shape, np.float64) for name, array in first.items()}
    for update in updates:
        _check_same_tensors(first, update.weights)
        for name, array in update.weights.items():
            sums[name] += update.examples * array.astype(np.float64)
    return {name: array / total for name, array in sums.items()}


def aggregate(rule: Rule, weights: Tensors, updates: Sequence[Update], state: ServerState = NO_STATE) -> Outcome:
    """One round: the model before it, the updates in summing order and the optimizer's state give the model after it.

    Raises ValueError for updates without an average, or tensors that do not match the model's.
    """
    average = weighted_average(updates)
    _check_same_tensors(weights, average)
    match rule:
        case FedAvg():
            return Outcome(average, ServerState(state.step + 1, {}))
        case FedAvgM():
            after = _next_velocity(rule, weights, average, state)
            return Outcome(weights_from_velocity(rule, weights, after), after)
        case FedAdam():
            after = _next_moments(rule, weights, average, state)
            return Outcome(weights_from_moments(rule, weights, after), after)


def weights_from_velocity(rule: FedAvgM, weights: Tensors, after: ServerState) -> dict[str, Float64s]:
    """The last leg of FedAvgM: the model before the round, and the velocity after it, give the model after it."""
    return {
        name: array.astype(np.float64) - rule.rate * _tensor(after, VELOCITY, name) for name, array in weights.items()
    }


def weights_from_moments(rule: FedAdam, weights: Tensors, after: ServerState) -> dict[str, Float64s]:
    """The last leg of FedAdam: the model before the round, and step and moments after it, give the model after it."""
    eta = rule.effective_eta(after.step)
    return {
        name: array.astype(np.float64)
        + eta * _tensor(after, FIRST_MOMENT, name) / (np.sqrt(_tensor(after, SECOND_MOMENT, name)) + rule.tau)
        for name, array in weights.items()
    }


def _next_velocity(rule: FedAvgM, weights: Tensors, average: Tensors, state: ServerState) -> ServerState:
    velocity = {}
    for name, array in weights.items():
        pseudo_gradient = array.astype(np.float64) - average[name]
        before = _tensor(state, VELOCITY, name) if state.step else np.zeros(array.shape, np.float64)
        velocity[VELOCITY + name] = rule.momentum * before + pseudo_gradient
    return ServerState(state.step + 1, velocity)


def _next_moments(rule: FedAdam, weights: Tensors, average: Tensors, state: ServerState) -> ServerState:
    moments = {}
    for name, array in weights.items():
        delta = average[name] - array.astype(np.float64)
        first, second = _moments_before(rule, state, name, array.shape)
        moments[FIRST_MOMENT + name] = rule.beta_1 * first + (1 - rule.beta_1) * delta
        moments[SECOND_MOMENT + name] = rule.beta_2 * second + (1 - rule.beta_2) * delta**2
    return ServerState(state.step + 1, moments)


def _moments_before(rule: FedAdam, state: ServerState, name: str, shape: tuple[int, ...]) -> tuple[Float64s, Float64s]:
    if state.step == 0:
        return np.zeros(shape, np.float64), np.full(shape, rule.second_moment_start, np.float64)
    return _tensor(state, FIRST_MOMENT, name), _tensor(state, SECOND_MOMENT, name)


def _tensor(state: ServerState, prefix: str, name: str) -> Float64s:
    """One of the optimizer's tensors. A missing one is an error, never a zero: zeros would be a silent restart."""
    try:
        return state.tensors[prefix + name]
    except KeyError:
        raise ValueError(f"the optimizer is at step {state.step} and has no tensor {prefix + name!r}") from None


def _check_same_tensors(wanted: Tensors, got: Tensors) -> None:
    shapes_wanted = {name: array.shape for name, array in wanted.items()}
    shapes_got = {name: array.shape for name, array in got.items()}
    if shapes_wanted != shapes_got:
        raise ValueError(f"tensors do not match: got {shapes_got}, wanted {shapes_wanted}")
