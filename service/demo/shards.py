"""The demo's data: scikit-learn's 1,797 digits, a validation set and one Dirichlet shard for each participant.

The file is read where scikit-learn keeps it, without importing scikit-learn: the import takes longer than the whole
training does. No image is shared between two shards, or between a shard and the validation set.
"""

import importlib.util
from pathlib import Path

import numpy as np

from service.demo.training import Array, Examples
from service.errors import SetupError

VALIDATION_IMAGES = 360
GREYS = 16
"""Pixels are whole numbers from 0 to 16."""


def load_digits() -> Examples:
    """All 1,797 images, scaled to 0..1. Raises SetupError when scikit-learn is not installed."""
    package = importlib.util.find_spec("sklearn")
    if package is None or not package.submodule_search_locations:
        raise SetupError(
            "the demo trains on scikit-learn's digits: install the extra `demo` (pip install retrace[demo])"
        )
    path = Path(package.submodule_search_locations[0]) / "datasets" / "data" / "digits.csv.gz"
    table = np.loadtxt(path, delimiter=",", dtype=np.float32)
    return Examples(table[:, :-1] / np.float32(GREYS), table[:, -1].astype(np.int32))


def split(digits: Examples, seed: int) -> tuple[Examples, Examples]:
    """(training, validation): the last 360 images of a seeded permutation validate."""
    order = np.random.default_rng([seed, 1]).permutation(len(digits.labels))
    training, validation = order[:-VALIDATION_IMAGES], order[-VALIDATION_IMAGES:]
    return _take(digits, training), _take(digits, validation)


def dirichlet_shards(training: Examples, participants: int, seed: int, concentration: float = 0.5) -> list[Examples]:
    """One shard for each participant; each digit is dealt out by its own Dirichlet draw, so shards are uneven."""
    random = np.random.default_rng([seed, 2])
    chosen: list[list[Array]] = [[] for _ in range(participants)]
    for label in range(10):
        of_label = np.flatnonzero(training.labels == label)
        shares = random.dirichlet(np.full(participants, concentration))
        cuts = np.rint(np.cumsum(shares)[:-1] * len(of_label)).astype(int)
        for part, indices in zip(chosen, np.split(of_label, cuts), strict=True):
            part.append(indices)
    # In the order of the permutation, so that a prefix of a shard is a fair sample of it.
    return [_take(training, np.sort(np.concatenate(part))) for part in chosen]


def _take(examples: Examples, indices: Array) -> Examples:
    return Examples(examples.images[indices], examples.labels[indices])
