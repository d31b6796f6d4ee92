"""The demo's model: an MLP 64-32-10 in numpy, its start, its local SGD and its scores. Pure: no process, file or clock.

Everything is decided by the arguments, so one seed gives the same bytes on one machine (with one BLAS thread, which the
demo sets). Weights are float32, as they are exchanged and stored; scores are computed in float64.
"""

from collections.abc import Mapping
from typing import Any, NamedTuple

import msgspec
import numpy as np

Array = np.ndarray[Any, np.dtype[Any]]
Float32s = np.ndarray[Any, np.dtype[np.float32]]
Weights = dict[str, Float32s]

SHAPES: dict[str, tuple[int, ...]] = {
    "dense1.weight": (64, 32), "dense1.bias": (32,), "dense2.weight": (32, 10), "dense2.bias": (10,),
}  # fmt: skip
"""The model's parameters by name; weights are [inputs, outputs]."""


class Examples(NamedTuple):
    """Images [n, 64] float32 in 0..1 and their labels [n] int32 in 0..9."""

    images: Array
    labels: Array


class LocalTraining(msgspec.Struct, frozen=True):
    """How a participant trains in one round."""

    epochs: int = 5
    batch: int = 32
    rate: float = 0.1


class Scores(msgspec.Struct, frozen=True):
    """Mean cross-entropy (natural logarithm) and share of right labels."""

    loss: float
    accuracy: float


def initial_weights(seed: int) -> Weights:
    """He-normal weights and zero biases."""
    random = np.random.default_rng([seed, 0])
    return rounded({
        name: random.normal(0.0, np.sqrt(2 / shape[0]), shape) if len(shape) == 2 else np.zeros(shape)
        for name, shape in SHAPES.items()
    })  # fmt: skip


def rounded(weights: Mapping[str, Array]) -> Weights:
    """The model in float32, as it is exchanged and stored."""
    return {name: array.astype("<f4") for name, array in weights.items()}


def logits(weights: Mapping[str, Array], images: Array) -> Array:
    """[n, 10] scores before the softmax, in the dtype of the arguments."""
    hidden = np.maximum(images @ weights["dense1.weight"] + weights["dense1.bias"], 0)
    scores: Array = hidden @ weights["dense2.weight"] + weights["dense2.bias"]
    return scores


def evaluate(weights: Mapping[str, Array], examples: Examples) -> Scores:
    """Scores of the model on the examples, in float64 throughout."""
    wide = {name: array.astype(np.float64) for name, array in weights.items()}
    scores = logits(wide, examples.images.astype(np.float64))
    highest = scores.max(axis=1)
    log_total = highest + np.log(np.exp(scores - highest[:, None]).sum(axis=1))
    of_label = scores[np.arange(len(scores)), examples.labels]
    is_right = scores.argmax(axis=1) == examples.labels
    return Scores(float(np.mean(log_total - of_label)), float(np.mean(is_right)))


def local_steps(training: LocalTraining, examples: int) -> int:
    """How many SGD steps one assignment takes: the last batch of an epoch may be smaller."""
    return training.epochs * -(-examples // training.batch)


def train(
    weights: Weights,
    shard: Examples,
    units: int,
    training: LocalTraining,
    key: list[int],
) -> Weights:
    """The model after local SGD over the first `units` examples of the shard. `key` seeds the order of the batches.

    Raises IndexError, numpy's own, when the assignment asks for more units than the shard holds.
    """
    weights = {name: array.copy() for name, array in weights.items()}
    random = np.random.default_rng(key)
    for _ in range(training.epochs):
        order = random.permutation(units)
        for start in range(0, units, training.batch):
            chosen = order[start : start + training.batch]
            _sgd_step(weights, shard.images[chosen], shard.labels[chosen], np.float32(training.rate))
    return weights


def _sgd_step(weights: Weights, images: Array, labels: Array, rate: np.float32) -> None:
    """One step of gradient descent on the mean cross-entropy of the batch, in place."""
    hidden = np.maximum(images @ weights["dense1.weight"] + weights["dense1.bias"], 0)
    scores = hidden @ weights["dense2.weight"] + weights["dense2.bias"]
    slope = np.exp(scores - scores.max(axis=1, keepdims=True))
    slope /= slope.sum(axis=1, keepdims=True)
    slope[np.arange(len(labels)), labels] -= 1
    slope /= np.float32(len(labels))
    back = (slope @ weights["dense2.weight"].T) * (hidden > 0)
    for name, gradient in (
        ("dense2.weight", hidden.T @ slope), ("dense2.bias", slope.sum(axis=0)),
        ("dense1.weight", images.T @ back), ("dense1.bias", back.sum(axis=0)),
    ):  # fmt: skip
        weights[name] -= rate * gradient
