"""The federated training of the demo is real: it learns, and its gradient is the slope of its loss."""

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from service.artifacts.checkpoint_format import read_checkpoint
from service.artifacts.tensor_file import read_tensors
from service.demo.job_plan import JOBS, JobPlan
from service.demo.package_builder import build_package
from service.demo.shards import VALIDATION_IMAGES, dirichlet_shards, load_digits, split
from service.demo.training import (
    Examples,
    LocalTraining,
    evaluate,
    initial_weights,
    local_steps,
    rounded,
    train,
)
from service.domain.aggregation import NO_STATE, ServerState, Update, aggregate

SEED = 7


@pytest.mark.parametrize("plan", JOBS, ids=lambda plan: plan.id)
def test_each_job_ends_above_85_percent(plan: JobPlan, play_job: Callable[[JobPlan, int], Any]) -> None:
    played = play_job(plan, SEED)
    newest = read_checkpoint(played.artifacts("owner", "checkpoint")[plan.rounds])
    _, validation = split(load_digits(), SEED)
    assert evaluate(rounded(newest.weights), validation).accuracy >= 0.85
    assert newest.metrics is not None
    assert newest.metrics.validation is not None
    assert newest.metrics.validation["accuracy"] == evaluate(rounded(newest.weights), validation).accuracy


@pytest.mark.parametrize("plan", JOBS, ids=lambda plan: plan.id)
def test_archived_updates_give_every_checkpoint_again_to_the_bit(
    plan: JobPlan, play_job: Callable[[JobPlan, int], Any]
) -> None:
    """Arithmetic lineage: from parent, archived updates and optimizer tensors, nothing but the named formula."""
    played = play_job(plan, SEED)
    files = played.artifacts("owner", "checkpoint")
    for number in range(plan.format_one_rounds + 1, plan.rounds + 1):
        before, after = read_checkpoint(files[number - 1]), read_checkpoint(files[number])
        updates = [
            Update(read_tensors(played.artifacts(part.participant_id, "update")[number]), part.examples)
            for part in after.contributions
        ]
        state = NO_STATE if number == 1 else ServerState(number - 1, before.optimizer_tensors)
        outcome = aggregate(plan.rule, before.weights, updates, state)
        assert after.formula == plan.rule.formula
        for name, array in after.weights.items():
            assert array.tobytes() == outcome.weights[name].astype("<f4").tobytes(), (number, name)
        for name, tensor in after.optimizer_tensors.items():
            assert tensor.tobytes() == outcome.state.tensors[name].tobytes(), (number, name)


def test_model_has_the_parameters_of_its_package() -> None:
    declared = {parameter.name: parameter.shape for parameter in build_package().module.parameters}
    assert {name: array.shape for name, array in initial_weights(SEED).items()} == declared


def test_one_sgd_step_goes_down_the_slope_of_the_loss() -> None:
    examples = Examples(*(part[:32] for part in split(load_digits(), SEED)[0]))
    weights = initial_weights(SEED)
    stepped = train(weights, examples, 32, LocalTraining(epochs=1, batch=32, rate=1.0), [SEED])
    for name, index in (("dense1.weight", (20, 3)), ("dense2.bias", (4,))):
        slope = float(weights[name][index] - stepped[name][index])
        up, down = ({key: array.astype(np.float64) for key, array in weights.items()} for _ in range(2))
        up[name][index] += 1e-5
        down[name][index] -= 1e-5
        numeric = (evaluate(up, examples).loss - evaluate(down, examples).loss) / 2e-5
        assert slope == pytest.approx(numeric, rel=1e-2, abs=1e-5)


def test_validation_and_shards_share_no_image() -> None:
    digits = load_digits()
    numbered = Examples(np.arange(len(digits.labels))[:, None], digits.labels)
    training, validation = split(numbered, SEED)
    shards = dirichlet_shards(training, 6, SEED)
    seen = np.concatenate([validation.images, *(shard.images for shard in shards)]).ravel()
    assert sorted(seen.tolist()) == list(range(1797))
    assert len(validation.labels) == VALIDATION_IMAGES


def test_an_assignment_beyond_the_shard_raises() -> None:
    shard = Examples(*(part[:40] for part in load_digits()))
    with pytest.raises(IndexError, match="out of bounds"):
        train(initial_weights(SEED), shard, 41, LocalTraining(), [SEED])


def test_the_last_batch_of_an_epoch_counts_as_a_step() -> None:
    assert local_steps(LocalTraining(epochs=5, batch=32), 33) == 10
    assert local_steps(LocalTraining(epochs=5, batch=32), 32) == 5
