"""From a job's bytes to checked material, and the choice of the engine. Pure: nothing is run, nothing is appended.

Every digest is compared before its bytes are read as anything else. What is missing is named with how to attach it.
"""

from collections.abc import Mapping
from typing import NamedTuple

import msgspec
import numpy as np

from service.artifacts.checkpoint_format import Checkpoint, read_checkpoint
from service.artifacts.module_package import ModulePackage, TensorSpec, read_module
from service.artifacts.package_checks import check_archive_fits, check_wasm_fits
from service.artifacts.shader_archive import ShaderArchive, read_shader_archive
from service.artifacts.tensor_file import Array, read_tensors
from service.domain.canonical import sha256_hex
from service.errors import RetraceError
from service.replay.judgement import EngineName, Rows, Tolerance, cannot_run, refused
from service.replay.verdict import DEFAULT_RELATIVE

ENGINES_ASKED = ("auto", "gpu", "reference", "cpu", "wasm")
DTYPES: dict[str, str] = {"f32": "<f4", "i32": "<i4", "u32": "<u4", "F32": "<f4", "F16": "<f2", "BF16": "<f4"}
"""Module dtypes as they lie in memory; BF16 tensors were widened by the reader."""
ROWS_MAX = 1_000_000
ATTACH = "PUT /v1/artifacts/{sha256}?role=%s&job=JOB"


class ReplayJob(msgspec.Struct, frozen=True, kw_only=True):
    """All bytes that one replay needs. `inputs` (a tensor file) replaces the validation set for ad-hoc inference.

    `auxiliary` holds the bytes of auxiliary weights by their digest. `recorded` are metrics of the state documents.
    """

    checkpoint: bytes
    checkpoint_sha256: str
    module: bytes | None = None
    shader_archive: bytes | None = None
    wasm: bytes | None = None
    validation: bytes | None = None
    inputs: bytes | None = None
    auxiliary: dict[str, bytes] = {}
    recorded: dict[str, float | None] = {}
    engine: str = "auto"
    memory_bytes: int = 4 * 1024 * 1024 * 1024
    wall_s: float = 60.0

    @property
    def limits(self) -> "Limits":
        """What an engine may use for this job."""
        return Limits(self.memory_bytes, self.wall_s)


class Limits(NamedTuple):
    """What one job may use. The parent ends the child beyond either; an engine that can stop before that does."""

    memory_bytes: int
    wall_s: float


class Material(NamedTuple):
    """The job's parts, read and checked against each other. `tensors` are parameters, then auxiliary weights."""

    checkpoint: Checkpoint
    module: ModulePackage
    archive: ShaderArchive | None
    wasm: bytes | None
    tensors: dict[str, Array]
    inputs: dict[str, Array]
    targets: dict[str, Array]
    rows: int
    digests: dict[str, str | None]

    @property
    def tolerance(self) -> Tolerance:
        """The archive's own tolerance, else the default."""
        if self.archive is None:
            return Tolerance(DEFAULT_RELATIVE, "default")
        return Tolerance(self.archive.manifest.tolerance.max_relative, "shader archive")


class EngineRun(NamedTuple):
    """What an engine gave: outputs by name, elements that nothing wrote, the rows in parts, and how long steps took."""

    outputs: dict[str, Array]
    unwritten: dict[str, int]
    rows: Rows
    timings_ms: dict[str, float]


class Choice(NamedTuple):
    """The engine that runs, and why it is not the GPU; None when it is, or when another one was asked for."""

    engine: EngineName
    reason: str | None


def digests_of(job: ReplayJob) -> dict[str, str | None]:
    """SHA-256 of every part that is there; None where it is not."""
    parts = {
        "checkpoint": job.checkpoint, "module": job.module, "shader_archive": job.shader_archive, "wasm": job.wasm,
        "validation": job.validation, "inputs": job.inputs,
    }  # fmt: skip
    return {name: None if data is None else sha256_hex(data) for name, data in parts.items()}


def read_material(job: ReplayJob) -> Material:
    """The job's parts. Raises ReplayEnded: refused for what is malformed or no match of its digest, else cannot-run."""
    if job.engine not in ENGINES_ASKED:
        raise refused("unknown_engine", f"engine: got {job.engine!r}, wanted one of {', '.join(ENGINES_ASKED)}")
    digests = digests_of(job)
    _require_digest("checkpoint", digests["checkpoint"], job.checkpoint_sha256)
    try:
        checkpoint = read_checkpoint(job.checkpoint)
        module = _read_module(job, checkpoint, digests)
        archive = _read_archive(job, module)
        if job.wasm is not None:
            check_wasm_fits(module, job.wasm)
        given = _read_given(job, module)
    except RetraceError as error:
        raise refused(error.code, error.message) from None
    tensors = _tensors(job, checkpoint, module)
    digests["weights"] = sha256_hex(b"".join(_parameter_bytes(module, tensors)))
    inputs = {spec.name: _input(spec, given) for spec in module.forward_inputs}
    rows = _count_rows(inputs)
    targets = {name: array for name, array in given.items() if name not in inputs}
    return Material(checkpoint, module, archive, job.wasm, tensors, inputs, targets, rows, digests)


def choose_engine(asked: str, material: Material, gpu_reason: str | None) -> Choice:
    """The engine for the job. `gpu_reason` says why there is no GPU here, None when there is one.

    `auto` takes the GPU when there is one and the package has its archive, then the reference, then WebAssembly.
    Raises ReplayEnded (cannot-run) when what was asked for, or every engine, is impossible.
    """
    reasons: dict[EngineName, str | None] = {
        "gpu": gpu_reason or _why_no_archive(material),
        "reference": None if material.module.reference else "module.json has no `reference` list",
        "wasm": _why_no_wasm(material),
    }
    for engine, reason in reasons.items():
        is_asked = asked == engine or (asked == "cpu" and engine == "reference")
        if is_asked and reason is not None:
            raise cannot_run(f"no_{engine}", f"the {engine} engine cannot run: {reason}")
        if is_asked or (asked == "auto" and reason is None):
            return Choice(engine, reasons["gpu"] if asked == "auto" else None)
    raise cannot_run("no_engine", "no engine can run: " + "; ".join(f"{name}: {why}" for name, why in reasons.items()))


def _why_no_archive(material: Material) -> str | None:
    if material.module.shader_archive is None:
        return "the module package names no shader archive"
    if material.archive is None:
        digest = material.module.shader_archive
        return f"shader archive {digest} is not kept; attach it with " + ATTACH % "shader-archive"
    return None


def _why_no_wasm(material: Material) -> str | None:
    if material.module.wasm is None:
        return "the module package names no model.wasm"
    if material.wasm is None:
        return f"model.wasm {material.module.wasm} is not kept; attach it with " + ATTACH % "wasm"
    return None


def _require_digest(part: str, got: str | None, wanted: str) -> None:
    if got != wanted:
        raise refused("digest_mismatch", f"the {part} has SHA-256 {got}, wanted {wanted}")


def _read_module(job: ReplayJob, checkpoint: Checkpoint, digests: Mapping[str, str | None]) -> ModulePackage:
    if job.module is None:
        raise cannot_run(
            "no_module",
            f"module.json {checkpoint.module_sha256} is not kept; attach it with " + ATTACH % "module",
        )
    _require_digest("module", digests["module"], checkpoint.module_sha256)
    return read_module(job.module)


def _read_archive(job: ReplayJob, module: ModulePackage) -> ShaderArchive | None:
    if job.shader_archive is None:
        return None
    archive = read_shader_archive(job.shader_archive)
    check_archive_fits(module, archive)
    return archive


def _read_given(job: ReplayJob, module: ModulePackage) -> dict[str, Array]:
    """The tensors that the model is called with, and the targets beside them."""
    data = job.inputs if job.inputs is not None else job.validation
    if data is not None:
        return read_tensors(data)
    if module.inputs == "none":
        raise cannot_run(
            "no_observations",
            "the module takes no data set (inputs: none); its checkpoint and files were checked and fit together, and "
            f"nothing was run: send observations {[spec.name for spec in module.observations]} to POST "
            "/v1/checkpoints/{sha256}/infer, or attach them as a tensor file with " + ATTACH % "validation",
        )
    raise cannot_run(
        "no_validation",
        f"no validation file is kept for the job; attach a tensor file with {[s.name for s in module.inputs]} with "
        + ATTACH % "validation",
    )


def _tensors(job: ReplayJob, checkpoint: Checkpoint, module: ModulePackage) -> dict[str, Array]:
    """Every tensor of the package: parameters from the checkpoint, auxiliary weights from it or by their digest."""
    tensors = {}
    for parameter in module.parameters:
        found = checkpoint.weights.get(parameter.name)
        wanted = f"{DTYPES[parameter.dtype]} {list(parameter.shape)}"
        got = "nothing" if found is None else f"{found.dtype.str} {list(found.shape)}"
        if found is None or got != wanted:
            raise refused("weights_do_not_fit", f"tensor {parameter.name!r}: got {got}, wanted {wanted} by module.json")
        tensors[parameter.name] = found
    for weight in module.auxiliary_weights:
        data = job.auxiliary.get(weight.sha256)
        found = checkpoint.weights.get(weight.name)
        if found is None and data is not None:
            found = read_tensors(data).get(weight.name)
        if found is None:
            raise cannot_run("no_auxiliary_weights", f"auxiliary tensor {weight.name!r} ({weight.sha256}) is not kept")
        if found.shape != weight.shape:
            raise refused("weights_do_not_fit", f"tensor {weight.name!r}: got {found.shape}, wanted {weight.shape}")
        tensors[weight.name] = found
    return tensors


def _parameter_bytes(module: ModulePackage, tensors: Mapping[str, Array]) -> list[bytes]:
    """Parameters as they lie in a checkpoint, in the module's order: BF16 is narrowed back to its 16 bits."""
    return [
        (tensors[p.name].view("<u4") >> 16).astype("<u2").tobytes() if p.dtype == "BF16" else tensors[p.name].tobytes()
        for p in module.parameters
    ]


def _input(spec: TensorSpec, given: Mapping[str, Array]) -> Array:
    found = given.get(spec.name)
    wanted = f"{DTYPES[spec.dtype]} {list(spec.shape)}"
    if found is None:
        raise cannot_run("no_input", f"tensor {spec.name!r} is not among {sorted(given)}; the model wants {wanted}")
    fits = len(found.shape) == len(spec.shape) and found.shape[1:] == spec.shape[1:]
    if not fits or found.dtype.str != DTYPES[spec.dtype]:
        got = f"{found.dtype.str} {list(found.shape)}"
        raise refused("inputs_do_not_fit", f"tensor {spec.name!r}: got {got}, wanted {wanted} by module.json")
    return np.ascontiguousarray(found)


def _count_rows(inputs: Mapping[str, Array]) -> int:
    counts = {name: len(array) for name, array in inputs.items()}
    if len(set(counts.values())) != 1 or not 1 <= max(counts.values()) <= ROWS_MAX:
        raise refused("inputs_do_not_fit", f"rows: got {counts}, wanted one number from 1 to {ROWS_MAX} for all")
    return max(counts.values())
