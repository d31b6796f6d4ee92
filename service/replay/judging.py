"""One replay from bytes to Judgement, in this process. Run in the child for what others wrote; in tests also here.

This is the control flow of a replay: read, choose, run, run the float64 reference, compare, rule.
"""

from collections.abc import Callable
from time import perf_counter
from typing import Any

import msgspec
import numpy as np

from service.artifacts.tensor_file import write_tensors
from service.domain.canonical import sha256_hex
from service.replay.judgement import Adapter, Agreement, EngineName, Judgement, ReplayEnded
from service.replay.metrics import compare_metrics
from service.replay.plan import EngineRun, Limits, Material, ReplayJob, choose_engine, digests_of, read_material
from service.replay.reference import run_reference
from service.replay.verdict import compare_outputs, count_non_finite, rule

RunEngine = Callable[[Material, Limits], EngineRun]
"""Runs a job's material within its limits. Raises ReplayEnded."""


class Engines(msgspec.Struct, frozen=True, kw_only=True):
    """What this process can run besides numpy; `gpu_reason` says why there is no GPU, in the driver's own words."""

    run_gpu: RunEngine | None
    gpu_reason: str | None
    run_wasm: RunEngine
    adapter: Adapter | None
    libraries: dict[str, str]


class Judged(msgspec.Struct, frozen=True, tag=True):
    """A judgement, and for ad-hoc inputs the outputs as a tensor file (None when nothing was run)."""

    judgement: Judgement
    outputs: bytes | None = None


def judge(job: ReplayJob, engines: Engines) -> Judged:
    """The judgement of one job. What a replay may run into is a verdict; other errors are our own and raised."""
    facts: dict[str, Any] = {
        "engine_asked": job.engine, "digests": digests_of(job), "libraries": engines.libraries, "timings_ms": {},
    }  # fmt: skip
    outputs: list[bytes] = []
    started = perf_counter()
    try:
        verdict, code, reason = _judge(job, engines, facts, outputs)
    except ReplayEnded as end:
        verdict, code, reason = end.verdict, end.code, end.reason
    facts["timings_ms"]["total"] = _ms_since(started)
    return Judged(Judgement(verdict=verdict, code=code, reason=reason, **facts), *outputs)


def _judge(
    job: ReplayJob, engines: Engines, facts: dict[str, Any], outputs: list[bytes]
) -> tuple[Any, str, str | None]:
    """Verdict, code and sentence. What becomes known goes into `facts`, also when the replay ends early."""
    timings = facts["timings_ms"]
    started = perf_counter()
    material = read_material(job)
    timings["read"] = _ms_since(started)
    facts |= {"digests": material.digests, "tolerance": material.tolerance}
    facts["non_finite"] = _kept(weights=count_non_finite(material.tensors))
    facts["engine"], facts["engine_reason"] = choose_engine(job.engine, material, engines.gpu_reason)
    if facts["engine"] == "gpu":
        facts["adapter"] = engines.adapter
    run = _run(facts["engine"], material, engines, job.limits)
    timings |= run.timings_ms
    facts |= {
        "batch": run.rows,
        "unwritten": run.unwritten,
        "output_sha256": {name: sha256_hex(array.tobytes()) for name, array in run.outputs.items()},
        "non_finite": facts["non_finite"] | _kept(outputs=count_non_finite(run.outputs)),
    }
    if job.inputs is not None:
        outputs.append(write_tensors(run.outputs))
    agreement = _hold_against_reference(material, run, facts)
    metrics = _metrics(job, material, run)
    facts["metrics"] = metrics
    return rule(run.unwritten, agreement, metrics, material.tolerance)


def _run(engine: EngineName, material: Material, engines: Engines, limits: Limits) -> EngineRun:
    if engine == "gpu":
        assert engines.run_gpu is not None  # choose_engine takes the GPU only without a gpu_reason
        return engines.run_gpu(material, limits)
    if engine == "wasm":
        return engines.run_wasm(material, limits)
    started = perf_counter()
    found = run_reference(material.module, material.tensors, material.inputs, np.float32)
    return EngineRun(found.outputs, {}, found.rows, {"reference_float32": _ms_since(started)})


def _hold_against_reference(material: Material, run: EngineRun, facts: dict[str, Any]) -> Agreement | None:
    """The float64 reference beside the outputs; None when the module has no reference list."""
    if not material.module.reference:
        return None
    started = perf_counter()
    wanted = run_reference(material.module, material.tensors, material.inputs, np.float64)
    agreement = compare_outputs(run.outputs, wanted.outputs, material.tolerance)
    facts["timings_ms"]["judge_float64"] = _ms_since(started)
    facts |= {
        "max_abs_error": agreement.max_abs_error,
        "max_relative_error": agreement.max_relative_error,
        "where": agreement.where,
        "labels": agreement.labels,
        "judged_against": "reference float64",
        "non_finite": facts["non_finite"] | _kept(layers=wanted.non_finite),
    }
    return agreement


def _metrics(job: ReplayJob, material: Material, run: EngineRun) -> list[Any]:
    """Metrics beside the recorded ones; none for ad-hoc inputs, which nothing was recorded for."""
    if job.inputs is not None:
        return []
    own = material.checkpoint.metrics
    by_checkpoint = {} if own is None or own.validation is None else own.validation
    return compare_metrics(material.module, run.outputs, material.targets, by_checkpoint, job.recorded)


def _kept(**counts: dict[str, int]) -> dict[str, dict[str, int]]:
    return {name: found for name, found in counts.items() if found}


def _ms_since(begin_s: float) -> float:
    return round((perf_counter() - begin_s) * 1000, 3)
