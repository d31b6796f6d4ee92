"""The GPU engine on the shipped packages: it agrees with the others, repeats its bits, and splits what is large."""

import numpy as np
import pytest

from service.artifacts.module_package import read_module
from service.artifacts.shader_archive import read_shader_archive
from service.demo.package_builder import PackageName, build_package
from service.replay import ReplayEngine
from service.replay.judgement import ReplayEnded
from service.replay.shader_plan import plan_shaders
from tests.replay.package import demo_job, shader_job, weights_of

pytestmark = pytest.mark.needs_adapter
PACKAGES: list[PackageName] = ["digits-mlp", "digits-cnn"]


@pytest.mark.parametrize("name", PACKAGES)
@pytest.mark.parametrize("rows", [1, 7, 360])
def test_gpu_agrees_with_the_float64_reference(engine: ReplayEngine, name: PackageName, rows: int) -> None:
    found = engine.judge(demo_job(name, rows=rows, engine="gpu"))
    assert (found.verdict, found.engine, found.reason) == ("reproduced", "gpu", None)
    assert found.labels is not None
    assert (found.labels.equal, found.labels.of) == (rows, rows)
    assert found.max_relative_error is not None
    assert found.max_relative_error < 1e-6


def test_auto_takes_the_gpu_and_names_it(engine: ReplayEngine) -> None:
    found = engine.judge(demo_job())
    assert (found.engine, found.engine_reason) == ("gpu", None)
    assert found.adapter == engine.adapters().adapter
    assert found.adapter is not None
    assert found.adapter.is_software == (found.adapter.type == "CPU")
    assert set(found.libraries) >= {"wgpu", "numpy"}


def test_two_replays_on_one_adapter_give_the_same_bits(engine: ReplayEngine) -> None:
    job = demo_job("digits-cnn", rows=33)
    assert engine.judge(job).output_sha256 == engine.judge(job).output_sha256


def test_a_package_without_its_archive_runs_on_the_reference_and_says_why(engine: ReplayEngine) -> None:
    found = engine.judge(demo_job(shader_archive=None))
    assert (found.verdict, found.engine) == ("reproduced", "reference")
    assert "?role=shader-archive" in (found.engine_reason or "")


def test_rows_beyond_the_archives_batch_are_run_in_parts(engine: ReplayEngine) -> None:
    found = engine.judge(demo_job(rows=5000, engine="gpu"))
    assert found.verdict == "reproduced"
    assert found.batch is not None
    assert (found.batch.rows, found.batch.parts, found.batch.rows_per_part) == (5000, 2, 4096)


def test_the_weights_of_another_checkpoint_are_not_left_over(engine: ReplayEngine) -> None:
    module = build_package().module
    for seed in (1, 2, 1):
        assert engine.judge(demo_job(weights=weights_of(module, seed), engine="gpu")).verdict == "reproduced"


def test_a_nan_in_the_weights_agrees_on_both_sides_and_is_counted(engine: ReplayEngine) -> None:
    weights = weights_of(build_package().module)
    weights["dense2.bias"][4] = np.nan
    found = engine.judge(demo_job(weights=weights, engine="gpu"))
    assert found.verdict == "reproduced"
    assert found.non_finite["outputs"] == {"logits": 24}


def test_scratch_is_zero_at_the_start_of_every_replay(engine: ReplayEngine) -> None:
    source = """
    @group(0) @binding(0) var<storage, read> x: array<f32>;
    @group(0) @binding(1) var<storage, read_write> y: array<f32>;
    @group(0) @binding(2) var<storage, read_write> kept: array<f32>;
    @compute @workgroup_size(64)
    fn main(@builtin(global_invocation_id) id: vec3<u32>) {
      if (id.x < arrayLength(&y)) { y[id.x] = 2.0 * x[id.x] + kept[id.x]; kept[id.x] = 1.0; }
    }
    """
    job = shader_job(source, scratch_bytes="batch * 4")
    assert [engine.judge(job).verdict for _ in range(2)] == ["reproduced", "reproduced"]


def test_the_plan_needs_no_gpu_and_fits_the_device() -> None:
    package = build_package()
    assert package.shader_archive_bytes is not None
    manifest = read_shader_archive(package.shader_archive_bytes).manifest
    limits = {
        "maxStorageBufferBindingSize": 64 * 1024,
        "maxBufferSize": 2**28,
        "maxComputeWorkgroupsPerDimension": 65535,
    }
    plan = plan_shaders(manifest, 1000, limits, 2**30)
    assert plan.rows_per_part == 250  # an image buffer of 256 rows of 64 floats is the first that fits
    with pytest.raises(ReplayEnded) as ended:
        plan_shaders(manifest, 1000, limits, 4096)
    assert (ended.value.verdict, ended.value.code) == ("refused", "over_limits")


def test_the_module_is_the_one_that_was_judged(engine: ReplayEngine) -> None:
    job = demo_job()
    assert job.module is not None
    assert engine.judge(job).digests["shader_archive"] == read_module(job.module).shader_archive


def test_many_packages_in_turn_keep_their_own_buffers(engine: ReplayEngine) -> None:
    """More packages and batches than are kept ready at once; the ones let go are simply made again."""
    jobs = [demo_job(name, rows=rows, engine="gpu") for name in PACKAGES for rows in (8, 16, 24, 32)]
    first = [engine.judge(job) for job in jobs]
    second = [engine.judge(job) for job in reversed(jobs)]
    assert {found.verdict for found in first + second} == {"reproduced"}
    assert [f.output_sha256 for f in first] == [f.output_sha256 for f in reversed(second)]
