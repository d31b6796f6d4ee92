"""Scores computed again from outputs and targets, in float64. Which are known is `KINDS`; pure.

Targets are class indices [rows] for cross_entropy, accuracy and perplexity, and values of the output's shape for mse
and mae. Outputs of a classifier are scores before the softmax, as the demo's and the page's modules give them.
"""

from collections.abc import Callable, Mapping

import numpy as np

from service.artifacts.module_package import Metric, ModulePackage
from service.artifacts.tensor_file import Array
from service.replay.judgement import MetricFound

RELATIVE_TOLERANCE = 1e-4
"""A recorded score may differ by this much of itself: pages sum in float32 and in orders of their own."""
ABSOLUTE_TOLERANCE = 1e-6


class NotRecomputed(ValueError):
    """Why a score cannot be computed here."""


def compare_metrics(
    module: ModulePackage,
    outputs: Mapping[str, Array],
    targets: Mapping[str, Array],
    by_checkpoint: Mapping[str, float | None],
    by_state: Mapping[str, float | None],
) -> list[MetricFound]:
    """Every metric of the module: recorded beside recomputed. The checkpoint's own word comes before the state's."""
    found = []
    for metric in module.metrics:
        in_checkpoint = by_checkpoint.get(metric.key) is not None
        recorded = (by_checkpoint if in_checkpoint else by_state).get(metric.key)
        try:
            recomputed, reason = recompute(metric, outputs, targets), None
        except NotRecomputed as refusal:
            recomputed, reason = None, f"not recomputed: {refusal}"
        source = "checkpoint" if in_checkpoint else "state"
        found.append(_beside(metric, recorded, source if recorded is not None else None, recomputed, reason))
    return found


def recompute(metric: Metric, outputs: Mapping[str, Array], targets: Mapping[str, Array]) -> float:
    """The score of the outputs, NaN included. Raises NotRecomputed with the reason."""
    rule = KINDS.get(metric.kind or "")
    if rule is None:
        raise NotRecomputed(f"kind {metric.kind!r} is none of {', '.join(KINDS)}")
    output, target = outputs.get(metric.output or ""), targets.get(metric.target or "")
    if output is None or target is None:
        missing = f"output {metric.output!r}" if output is None else f"target {metric.target!r}"
        raise NotRecomputed(f"{missing} is not there")
    with np.errstate(all="ignore"):
        return float(rule(output.astype(np.float64), target))


def _beside(metric: Metric, recorded: float | None, source: str | None, recomputed: float | None,
            reason: str | None) -> MetricFound:  # fmt: skip
    difference = tolerance = is_equal = None
    if recorded is not None and recomputed is not None:
        tolerance = max(ABSOLUTE_TOLERANCE, RELATIVE_TOLERANCE * abs(recorded)) if np.isfinite(recorded) else 0.0
        is_same_kind = np.isfinite(recorded) == np.isfinite(recomputed)
        difference = abs(recorded - recomputed) if np.isfinite(recorded) and is_same_kind else None
        is_equal = difference <= tolerance if difference is not None else repr(recorded) == repr(recomputed)
    if recorded is None and reason is None:
        reason = "nothing was recorded for it"
    return MetricFound(
        metric.key, metric.label, metric.direction, metric.kind, recorded, source, recomputed, difference, tolerance,  # type: ignore[arg-type]
        is_equal, reason,
    )  # fmt: skip


def _class_indices(output: Array, target: Array) -> Array:
    if output.ndim != 2 or target.shape != output.shape[:1] or target.dtype.kind not in "iu":
        raise NotRecomputed(f"output {list(output.shape)} and target {list(target.shape)} {target.dtype} do not meet: "
                            "wanted [rows, classes] and whole numbers [rows]")  # fmt: skip
    if target.size and not (target.min() >= 0 and target.max() < output.shape[1]):
        raise NotRecomputed(f"a target lies outside of the {output.shape[1]} classes")
    return target.astype(np.int64)


def _cross_entropy(output: Array, target: Array) -> float:
    classes = _class_indices(output, target)
    highest = output.max(axis=1)
    log_total = highest + np.log(np.exp(output - highest[:, None]).sum(axis=1))
    return float(np.mean(log_total - output[np.arange(len(output)), classes]))


def _accuracy(output: Array, target: Array) -> float:
    classes = _class_indices(output, target)
    return float(np.mean(output.argmax(axis=1) == classes))


def _differences(output: Array, target: Array) -> Array:
    if output.shape != target.shape:
        raise NotRecomputed(f"output {list(output.shape)} and target {list(target.shape)} have different shapes")
    difference: Array = output - target.astype(np.float64)
    return difference


KINDS: dict[str, Callable[[Array, Array], float]] = {
    "cross_entropy": _cross_entropy,
    "accuracy": _accuracy,
    "perplexity": lambda output, target: float(np.exp(_cross_entropy(output, target))),
    "mse": lambda output, target: float(np.mean(np.square(_differences(output, target)))),
    "mae": lambda output, target: float(np.mean(np.abs(_differences(output, target)))),
}
"""How each known kind is computed."""
