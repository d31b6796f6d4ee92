"""Field reports on GPUs: overflow in half precision (F34), NaN in shaders (F35), sizes beyond a dispatch (F36)."""

import base64

import msgspec
import numpy as np
import pytest

from service.artifacts.checkpoint_format import Checkpoint, write_checkpoint
from service.artifacts.module_package import ModulePackage, Parameter, TensorSpec
from service.artifacts.packing import assemble_package
from service.artifacts.reference_ops import Dense
from service.artifacts.shader_archive import Binding, ConstantBuffer, read_shader_archive, write_shader_archive
from service.artifacts.shader_compiler import compile_module
from service.artifacts.tensor_file import read_tensors, write_tensors
from service.domain.canonical import sha256_hex
from service.replay import ReplayEngine, ReplayJob
from tests.replay.package import DOUBLE, archive_job, shader_job

pytestmark = pytest.mark.needs_adapter
HALF_PRECISION = DOUBLE.replace("x[id.x] + x[id.x]", "unpack2x16float(pack2x16float(vec2<f32>(2.0 * x[id.x], 0.0))).x")
WITH_UNUSED_BINDING = "@group(0) @binding(2) var<storage, read_write> kept: array<f32>;\n" + DOUBLE


def column(*numbers: float) -> bytes:
    return write_tensors({"x": np.array(numbers, dtype="<f4").reshape(-1, 1)})


def test_an_activation_beyond_half_precision_deviates_and_is_flagged_with_its_place(engine: ReplayEngine) -> None:
    """F34: 70,000 is no half-precision number. The single-precision reference says so, with place and tolerance."""
    found = engine.judge(shader_job(HALF_PRECISION, validation=column(1, 30_000, 35_000), engine="gpu"))
    assert (found.verdict, found.code) == ("deviates", "outputs_differ")
    assert found.where is not None
    assert (found.where.output, found.where.index) == ("y", (2, 0))
    assert found.adapter is not None
    assert found.tolerance is not None
    assert found.non_finite == {"outputs": {"y": 1}}


def test_the_same_activation_in_single_precision_reproduces_and_nothing_is_flagged(engine: ReplayEngine) -> None:
    found = engine.judge(shader_job(validation=column(1, 30_000, 35_000), engine="gpu"))
    assert (found.verdict, found.non_finite) == ("reproduced", {})


def test_non_finite_numbers_are_found_after_they_were_read_back(engine: ReplayEngine) -> None:
    """F35: one NaN and two infinities among six numbers; no shader is asked whether a number equals itself."""
    given = column(1, np.nan, np.inf, -np.inf, -0.0, 1e-40)
    judged = engine.run(shader_job(inputs=given, engine="gpu"))
    assert judged.outputs is not None
    outputs = read_tensors(judged.outputs)["y"]
    assert (int(np.isnan(outputs).sum()), int(np.isinf(outputs).sum())) == (1, 2)
    assert (judged.judgement.verdict, judged.judgement.non_finite["outputs"]) == ("reproduced", {"y": 3})


@pytest.mark.parametrize(
    ("rows", "width", "parts"),
    [(65_535, 64, 1), (144_629, 29, 3), (153_754, 64, 5)],
    ids=["4194240", "4194241", "9840256"],
)
def test_elements_beyond_one_dispatch_are_run_in_parts(engine: ReplayEngine, rows: int, width: int, parts: int) -> None:
    """F36: at 64 elements a group, the first fills a dispatch of 65,535 groups and the others do not fit into one."""
    job = shader_job(rows=rows, width=width, workgroups=f"ceilDiv(batch * {width}, 64)", engine="gpu")
    found = engine.judge(job)
    assert (found.verdict, found.unwritten) == ("reproduced", {"y": 0})
    assert found.batch is not None
    assert (found.batch.rows, found.batch.parts) == (rows, parts)


def test_weights_at_an_offset_that_no_binding_could_have_are_right(engine: ReplayEngine) -> None:
    """F36: the bias lies 64 bytes behind the start of the weights; WebGPU binds at multiples of 256."""
    random = np.random.default_rng(5)
    weights = {"w": random.normal(size=(4, 4)).astype("<f4"), "b": random.normal(size=(4,)).astype("<f4")}
    draft = ModulePackage(
        "retrace-module", 1, "one-layer", "1", (TensorSpec("x", ("batch", 4)),), (TensorSpec("y", ("batch", 4)),),
        (Parameter("w", (4, 4), 0), Parameter("b", (4,), 64)), 80, "dataset",
        reference=(Dense(input="x", weight="w", bias="b", output="y"),),
    )  # fmt: skip
    package = assemble_package(draft, compile_module(draft), None)
    checkpoint = write_checkpoint(
        Checkpoint(checkpoint_format=1, job="j1", round=1, module_sha256=package.module_sha256, weights=weights)
    )
    job = ReplayJob(
        checkpoint=checkpoint, checkpoint_sha256=sha256_hex(checkpoint), module=package.module_bytes,
        shader_archive=package.shader_archive_bytes, engine="gpu",
        validation=write_tensors({"x": random.normal(size=(9, 4)).astype("<f4")}),
    )  # fmt: skip
    assert engine.judge(job).verdict == "reproduced"


def test_uniforms_and_groups_with_a_gap_are_bound_where_they_were_declared(engine: ReplayEngine) -> None:
    source = """
    @group(0) @binding(3) var<storage, read> x: array<f32>;
    @group(2) @binding(0) var<uniform> factor: vec4<f32>;
    @group(2) @binding(1) var<storage, read_write> y: array<f32>;
    @compute @workgroup_size(64)
    fn main(@builtin(global_invocation_id) id: vec3<u32>) {
      if (id.x < arrayLength(&y)) { y[id.x] = factor.y * x[id.x]; }
    }
    """
    plain = read_shader_archive(shader_job().shader_archive or b"").manifest
    factor = ConstantBuffer(base64.b64encode(np.array([0, 2, 0, 0], "<f4").tobytes()).decode())
    dispatch = msgspec.structs.replace(
        plain.dispatches[0],
        bindings=(Binding(0, 3, "x", "read"), Binding(2, 0, "factor", "uniform"), Binding(2, 1, "y", "read_write")),
    )
    manifest = msgspec.structs.replace(plain, buffers=plain.buffers | {"factor": factor}, dispatches=(dispatch,))
    assert engine.judge(archive_job(write_shader_archive(manifest, {"work": source}))).verdict == "reproduced"


def test_a_binding_that_the_entry_point_ignores_is_no_reason_to_refuse(engine: ReplayEngine) -> None:
    """A file may hold several entry points, and a constant may switch a binding off."""
    found = engine.judge(shader_job(WITH_UNUSED_BINDING, scratch_bytes="batch * 4", engine="gpu"))
    assert (found.verdict, found.reason) == ("reproduced", None)
