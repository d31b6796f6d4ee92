"""Shaders that fail in every way known: each gets its verdict within its limit, and the next replay works."""

import sys
from pathlib import Path

import pytest

from service.replay import Judgement, ReplayEngine
from service.settings import Settings
from tests.replay.package import shader_job

pytestmark = pytest.mark.needs_adapter

HEAD = """@group(0) @binding(0) var<storage, read> x: array<f32>;
@group(0) @binding(1) var<storage, read_write> y: array<f32>;
"""
MAIN = "@compute @workgroup_size(64)\nfn main(@builtin(global_invocation_id) id: vec3<u32>) "
WRITES_NOTHING = HEAD + MAIN + "{ if (x[0] < 0.0 && y[0] < 0.0) { y[0] = 1.0; } }"
WRITES_HALF = HEAD + MAIN + "{ if (id.x < arrayLength(&y) / 2u) { y[id.x] = 2.0 * x[id.x]; } }"
OUT_OF_BOUNDS = HEAD + MAIN + "{ y[id.x] = 2.0 * x[id.x]; y[id.x + 4000000000u] = x[id.x + 4000000000u]; }"
ENDLESS = (
    HEAD
    + MAIN
    + """{
  var i = id.x; var sum = 0.0;
  loop { sum += x[i % arrayLength(&x)]; i = i * 3u + 1u; if (sum < 0.0) { break; } }
  y[id.x % arrayLength(&y)] = sum;
}"""
)
WRONG_NUMBERS = HEAD + MAIN + "{ if (id.x < arrayLength(&y)) { y[id.x] = 2.001 * x[id.x]; } }"
NO_WGSL = HEAD + MAIN + "{ y[id.x] = 2.0 * x[id.x] + }"
WRONG_TYPES = HEAD + MAIN + "{ y[id.x] = id.x; }"


@pytest.fixture(autouse=True)
def next_replay_works(engine: ReplayEngine) -> object:
    """After each of these tests, an honest shader runs on the same engine."""
    yield
    assert engine.judge(shader_job(engine="gpu")).verdict == "reproduced"


def test_a_shader_that_writes_nothing(engine: ReplayEngine) -> None:
    found = engine.judge(shader_job(WRITES_NOTHING, engine="gpu"))
    assert (found.verdict, found.code, found.unwritten) == ("deviates", "outputs_not_written", {"y": 24})


def test_a_shader_that_writes_half(engine: ReplayEngine) -> None:
    found = engine.judge(shader_job(WRITES_HALF, engine="gpu"))
    assert (found.verdict, found.unwritten) == ("deviates", {"y": 12})
    assert found.reason == "the shaders never wrote 12 elements of y"


def test_a_shader_that_computes_something_else(engine: ReplayEngine) -> None:
    found = engine.judge(shader_job(WRONG_NUMBERS, engine="gpu"))
    assert (found.verdict, found.code) == ("deviates", "outputs_differ")
    assert found.where is not None
    assert found.where.index == (23, 0)
    assert found.max_relative_error == pytest.approx(0.0005, rel=1e-2)


def test_a_shader_that_reads_and_writes_out_of_bounds(engine: ReplayEngine) -> None:
    """WebGPU drops or redirects such accesses within the buffer: the process must survive, the numbers may not."""
    found = engine.judge(shader_job(OUT_OF_BOUNDS, engine="gpu", rows=64))
    assert found.verdict in ("reproduced", "deviates")
    assert found.engine == "gpu"


@pytest.mark.parametrize(
    ("source", "place", "word"),
    [
        (NO_WGSL, "shaders/work.wgsl:4:83", "expected expression"),
        (WRONG_TYPES, "shaders/work.wgsl:4:57", "cannot convert elements of `u32` to `f32`"),
    ],
)
def test_a_shader_that_does_not_compile_is_named_with_its_place(
    engine: ReplayEngine, source: str, place: str, word: str
) -> None:
    found = engine.judge(shader_job(source, engine="gpu"))
    assert (found.verdict, found.code) == ("refused", "shader_refused")
    assert place in (found.reason or "")
    assert word in (found.reason or "")


def test_a_buffer_of_3_gb_is_refused_before_anything_runs(engine: ReplayEngine) -> None:
    source = HEAD + "@group(0) @binding(2) var<storage, read_write> kept: array<f32>;\n" + MAIN + "{ kept[0] = y[0]; }"
    found = engine.judge(shader_job(source, scratch_bytes=3 * 1024**3, engine="gpu"))
    assert (found.verdict, found.code) == ("refused", "over_limits")
    assert "'scratch' has 3221225472 bytes" in (found.reason or "")


def test_more_work_than_allowed_is_refused_before_anything_runs(engine: ReplayEngine) -> None:
    found = engine.judge(shader_job(workgroups=(65535, 300, 1), engine="gpu"))
    assert (found.verdict, found.code) == ("refused", "over_limits")
    assert "19660500 workgroups" in (found.reason or "")


def test_an_endless_loop_over_many_workgroups_is_ended_at_the_wall_limit(tmp_path: Path) -> None:
    impatient = ReplayEngine(Settings(data=str(tmp_path), replay_wall_s=1.0))
    found = impatient.judge(shader_job(ENDLESS, workgroups=(65535, 200, 1), engine="gpu"))
    assert (found.verdict, found.code) in [("refused", "wall_limit"), ("refused", "processor_limit"), LOST]
    impatient.close()


LOST = ("cannot-run", "device_lost")
"""What a real driver says when it resets a device that was busy for too long."""


def test_one_endless_loop_that_the_driver_cuts_short_is_not_believed(engine: ReplayEngine) -> None:
    found: Judgement = engine.judge(shader_job(ENDLESS, engine="gpu"))
    assert (found.verdict, found.code) in [("deviates", "outputs_differ"), ("refused", "wall_limit"), LOST]


def test_a_lost_device_gives_its_verdict_and_a_new_child(tmp_path: Path) -> None:
    program = tmp_path / "child.py"
    program.write_text(
        "from service.replay import child, gpu\n"
        "opened = gpu.Gpu.run\n"
        "def run_without_device(self, *arguments):\n"
        "    self.lose_device()\n"
        "    return opened(self, *arguments)\n"
        "gpu.Gpu.run = run_without_device\n"
        "child.main()\n"
    )
    forgetful = ReplayEngine(Settings(data=str(tmp_path)), command=(sys.executable, str(program)))
    for _ in range(2):
        found = forgetful.judge(shader_job(engine="gpu"))
        assert (found.verdict, found.code) == LOST
        assert "lost" in (found.reason or "")
    forgetful.close()
