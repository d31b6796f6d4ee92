"""From outputs, reference and metrics to a verdict with its reason. Pure: plain arrays in, words out."""

from collections.abc import Mapping
from typing import NamedTuple

import numpy as np

from service.artifacts.tensor_file import Array
from service.domain.events import Verdict
from service.replay.judgement import Agreement, Labels, MetricFound, Place, Tolerance, cannot_run

DEFAULT_RELATIVE = 1e-5


class Ruling(NamedTuple):
    """A verdict, its stable code and a sentence; the sentence is None when everything agreed."""

    verdict: Verdict
    code: str
    reason: str | None


def compare_outputs(
    outputs: Mapping[str, Array], reference: Mapping[str, Array], tolerance: Tolerance
) -> Agreement:  # fmt: skip
    """The outputs against the reference's. An error is accepted up to `max_relative` of the output's max|reference|.

    Where both are the same non-finite number they agree; where only one is, the error is infinite.
    """
    found = [_compare_one(name, outputs[name], wanted, tolerance.max_relative) for name, wanted in reference.items()]
    worst = max(found, key=lambda one: one.worst_ratio)
    counted = [one.labels for one in found if one.labels is not None]
    labels = Labels(sum(one.equal for one in counted), sum(one.of for one in counted)) if counted else None
    return Agreement(
        max(one.max_abs_error for one in found), max(one.max_relative_error for one in found), worst.worst_ratio,
        worst.where, labels,
    )  # fmt: skip


def rule(unwritten: Mapping[str, int], agreement: Agreement | None, metrics: list[MetricFound],
         tolerance: Tolerance) -> Ruling:  # fmt: skip
    """The verdict: outputs left unwritten, then outputs that differ, then recorded metrics that differ."""
    left = {name: count for name, count in unwritten.items() if count}
    if left:
        texts = [f"{count} elements of {name}" for name, count in left.items()]
        return Ruling("deviates", "outputs_not_written", f"the shaders never wrote {' and '.join(texts)}")
    if agreement is not None and agreement.worst_ratio > 1:
        return Ruling("deviates", "outputs_differ", _difference_sentence(agreement, tolerance))
    differing = [metric for metric in metrics if metric.is_equal is False]
    if differing:
        texts = [f"{m.key}: recorded {m.recorded}, recomputed {m.recomputed}" for m in differing]
        return Ruling("deviates", "metrics_differ", f"recorded metrics differ: {'; '.join(texts)}")
    if agreement is None and not any(metric.is_equal for metric in metrics):
        raise cannot_run(
            "nothing_to_judge_by",
            "the module has no reference list and no recorded metric could be recomputed: nothing tells right from "
            "wrong; add `reference` to module.json, or archive the validation file and record its metrics",
        )
    return Ruling("reproduced", "reproduced", None)


def count_non_finite(arrays: Mapping[str, Array]) -> dict[str, int]:
    """How many NaN and infinities each array holds; arrays without any are left out."""
    counts = {
        name: int(array.size - np.count_nonzero(np.isfinite(array)))
        for name, array in arrays.items()
        if array.dtype.kind == "f"
    }
    return {name: count for name, count in counts.items() if count}


def _compare_one(name: str, output: Array, wanted: Array, max_relative: float) -> Agreement:
    got, wanted = output.astype(np.float64), wanted.astype(np.float64)
    finite = np.isfinite(wanted)
    with np.errstate(invalid="ignore"):
        errors = np.where(_is_same_non_finite(got, wanted), 0.0, np.abs(got - wanted))
    errors = np.where(np.isnan(errors), np.inf, errors)
    scale = float(np.abs(wanted[finite]).max(initial=0.0))
    flat = int(errors.argmax()) if errors.size else 0
    error = float(errors.max(initial=0.0))
    relative = error / scale if scale else (0.0 if error == 0 else np.inf)
    index = tuple(int(part) for part in np.unravel_index(flat, errors.shape)) if errors.size else ()
    where = Place(name, index) if error else None
    return Agreement(error, float(relative), float(relative / max_relative), where, _count_labels(got, wanted))


def _is_same_non_finite(got: Array, wanted: Array) -> Array:
    """Where both are NaN, or infinite with the same sign."""
    same: Array = (np.isnan(got) & np.isnan(wanted)) | (np.isinf(got) & (got == wanted))
    return same


def _count_labels(got: Array, wanted: Array) -> Labels | None:
    """Rows with the same largest score, for outputs that look like scores of classes."""
    if got.ndim != 2 or got.shape[1] < 2:
        return None
    return Labels(int(np.count_nonzero(got.argmax(axis=1) == wanted.argmax(axis=1))), len(got))


def _difference_sentence(agreement: Agreement, tolerance: Tolerance) -> str:
    place = "" if agreement.where is None else f" at {agreement.where.output}{list(agreement.where.index)}"
    return (
        f"the outputs differ from the float64 reference{place}: largest difference {agreement.max_abs_error:.3g}, "
        f"{agreement.max_relative_error:.3g} of the largest reference, wanted at most {tolerance.max_relative:.3g} "
        f"({tolerance.source})"
    )
