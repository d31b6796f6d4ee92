"""The files of a job as bytes: its checkpoints in format 1 or 2, and the validation set. Pure."""

from typing import NamedTuple

import numpy as np

from service.artifacts.checkpoint_format import Checkpoint, Contribution, Metrics, Optimizer, write_checkpoint
from service.artifacts.packing import PackedModule
from service.artifacts.tensor_file import write_tensors
from service.demo.job_plan import JobPlan
from service.demo.messages import Result
from service.demo.rounds import Assignment
from service.demo.training import Examples, Scores, Weights
from service.domain.aggregation import ServerState, rule_settings
from service.domain.canonical import sha256_hex


class RoundScores(NamedTuple):
    """Scores after a round: of the updates on their own shards (weighted by examples), of the model on validation."""

    training: Scores
    validation: Scores


class SavedRound(NamedTuple):
    """Everything that goes into the checkpoint of one round."""

    number: int
    weights: Weights
    state: ServerState
    parent_sha256: str
    counted: list[tuple[Assignment, Result]]
    scores: RoundScores


def initial_checkpoint(plan: JobPlan, module_sha256: str, weights: Weights) -> bytes:
    """The model before the first round, as round 0 in format 1."""
    return write_checkpoint(
        Checkpoint(checkpoint_format=1, job=plan.id, round=0, module_sha256=module_sha256, weights=dict(weights))
    )


def round_checkpoint(plan: JobPlan, module_sha256: str, saved: SavedRound) -> bytes:
    """The model after a round: format 1 in the plan's first rounds, format 2 with everything else."""
    if plan.checkpoint_format(saved.number) == 1:
        return write_checkpoint(
            Checkpoint(
                checkpoint_format=1, job=plan.id, round=saved.number, module_sha256=module_sha256,
                weights=dict(saved.weights),
            )
        )  # fmt: skip
    return write_checkpoint(
        Checkpoint(
            checkpoint_format=2, job=plan.id, round=saved.number, module_sha256=module_sha256,
            weights=dict(saved.weights),
            optimizer=Optimizer(plan.aggregation, saved.state.step, rule_settings(plan.rule)),
            # float64, so that a later reader recomputes the round to the last bit of the float32 weights.
            optimizer_tensors=dict(saved.state.tensors),
            parent_sha256=saved.parent_sha256,
            contributions=[
                Contribution(assignment.id, assignment.participant, result.examples, result.sha256)
                for assignment, result in saved.counted
            ],
            formula=plan.rule.formula,
            metrics=Metrics(as_metrics(saved.scores.training), as_metrics(saved.scores.validation)),
        )
    )  # fmt: skip


def execution_files(package: PackedModule) -> dict[str, dict[str, str]]:
    """Names and digests of the files that run the model, as pages show them."""
    files = {"wasm": ("model.wasm", package.wasm_bytes), "wgsl": ("shaders.wgsl.zip", package.shader_archive_bytes)}
    return {
        kind: {"name": name, "sha256": sha256_hex(data)} for kind, (name, data) in files.items() if data is not None
    }


def as_metrics(scores: Scores) -> dict[str, float | None]:
    """Scores under the metric keys of the module package."""
    return {"loss": scores.loss, "accuracy": scores.accuracy}


def mean_scores(results: list[Result]) -> Scores:
    """Training scores over all counted updates, weighted by examples, in summing order."""
    total = sum(result.examples for result in results)
    return Scores(
        sum(result.examples * result.training.loss for result in results) / total,
        sum(result.examples * result.training.accuracy for result in results) / total,
    )


def validation_file(validation: Examples) -> bytes:
    """The validation artifact: one tensor for the model's input, one for the target of its metrics."""
    return write_tensors({
        "image": validation.images.astype(np.float32),
        "labels": validation.labels.astype(np.int32),
    })  # fmt: skip
