"""Replay jobs made for tests: the demo's packages with weights from a seed, and small packages around one shader."""

from typing import Any, Literal

import msgspec
import numpy as np

from service.artifacts.checkpoint_format import Checkpoint, Metrics, write_checkpoint
from service.artifacts.module_package import ModulePackage, TensorSpec
from service.artifacts.packing import PackedModule, assemble_package
from service.artifacts.reference_ops import Arithmetic
from service.artifacts.shader_archive import (
    Binding,
    Dispatch,
    InputBuffer,
    Manifest,
    OutputBuffer,
    ScratchBuffer,
    Symbol,
    write_shader_archive,
)
from service.artifacts.tensor_file import write_tensors
from service.demo.package_builder import PackageName, build_package
from service.domain.canonical import sha256_hex
from service.replay import ReplayJob

Array = np.ndarray[Any, Any]
ROWS = 24
DOUBLE = """
@group(0) @binding(0) var<storage, read> x: array<f32>;
@group(0) @binding(1) var<storage, read_write> y: array<f32>;
@compute @workgroup_size(64)
fn main(@builtin(global_invocation_id) id: vec3<u32>) {
  if (id.x < arrayLength(&y)) { y[id.x] = x[id.x] + x[id.x]; }
}
"""
"""A shader that is as it should be: the package of `shader_job` says that y = x + x."""


def weights_of(module: ModulePackage, seed: int = 7) -> dict[str, Array]:
    random = np.random.default_rng(seed)
    return {p.name: np.asarray(random.normal(size=p.shape) * 0.3, dtype="<f4") for p in module.parameters}


def inputs_of(module: ModulePackage, rows: int = ROWS) -> dict[str, Array]:
    [spec] = module.forward_inputs
    sizes = [int(size) for size in spec.shape[1:]]
    return {spec.name: np.random.default_rng(rows).uniform(0, 16, size=(rows, *sizes)).astype("<f4")}


def demo_job(name: PackageName = "digits-mlp", *, weights: dict[str, Array] | None = None,
             metrics: Metrics | None = None, rows: int = ROWS, **changes: Any) -> ReplayJob:  # fmt: skip
    """A job that reproduces, with random labels; `changes` replace fields of the job."""
    package = build_package(name)
    labels = np.random.default_rng(3).integers(0, 10, rows).astype("<i4")
    validation = write_tensors(inputs_of(package.module, rows) | {"labels": labels})
    checkpoint = Checkpoint(
        checkpoint_format=2, job="j1", round=1, module_sha256=package.module_sha256,
        weights=weights_of(package.module) if weights is None else weights, metrics=metrics,
    )  # fmt: skip
    return _job(package, write_checkpoint(checkpoint), validation, changes)


def shader_job(source: str = DOUBLE, *, rows: int = ROWS, workgroups: Any = "ceilDiv(batch, 64)", width: int = 1,
               scratch_bytes: Any = None, **changes: Any) -> ReplayJob:  # fmt: skip
    """A package without parameters whose reference is y = x + x, and whose only shader is `source`."""
    shape: tuple[int | Literal["batch"], ...] = ("batch", width)
    buffers: dict[str, Any] = {"x": InputBuffer("x", shape), "y": OutputBuffer("y", shape)}
    bindings = [Binding(0, 0, "x", "read"), Binding(0, 1, "y", "read_write")]
    if scratch_bytes is not None:
        buffers["scratch"] = ScratchBuffer(scratch_bytes)
        bindings.append(Binding(0, 2, "scratch", "read_write"))
    counts = workgroups if isinstance(workgroups, tuple) else (workgroups, 1, 1)
    dispatch = Dispatch("work", tuple(bindings), counts, 60_000)
    manifest = Manifest(
        "retrace-wgsl", 1, "hostile", {"batch": Symbol(65536)}, {}, buffers, (dispatch,)
    )  # fmt: skip
    return archive_job(write_shader_archive(manifest, {"work": source}), rows=rows, width=width, **changes)


def archive_job(archive: bytes, *, rows: int = ROWS, width: int = 1, **changes: Any) -> ReplayJob:
    """A package without parameters whose reference is y = x + x, with a shader archive for it."""
    shape: tuple[int | Literal["batch"], ...] = ("batch", width)
    draft = ModulePackage(
        "retrace-module", 1, "double", "1", (TensorSpec("x", shape),), (TensorSpec("y", shape),), (), 0, "dataset",
        reference=(Arithmetic(kind="add", left="x", right="x", output="y"),),
    )  # fmt: skip
    package = assemble_package(draft, archive, None)
    checkpoint = Checkpoint(checkpoint_format=1, job="j1", round=1, module_sha256=package.module_sha256, weights={})
    x = np.arange(1, rows * width + 1, dtype="<f4").reshape(rows, width)
    return _job(package, write_checkpoint(checkpoint), write_tensors({"x": x}), changes)


def _job(package: PackedModule, checkpoint: bytes, validation: bytes, changes: dict[str, Any]) -> ReplayJob:
    job = ReplayJob(
        checkpoint=checkpoint, checkpoint_sha256=sha256_hex(checkpoint), module=package.module_bytes,
        shader_archive=package.shader_archive_bytes, wasm=package.wasm_bytes, validation=validation,
    )  # fmt: skip
    return msgspec.structs.replace(job, **changes)
