"""model.wasm that fails in every way known: wherever its code runs, it is ended and refused, the process lives on."""

import msgspec
import numpy as np
import pytest
import wasmtime

from service.artifacts.checkpoint_format import Checkpoint, write_checkpoint
from service.artifacts.module_package import ModulePackage, TensorSpec
from service.artifacts.packing import assemble_package
from service.artifacts.reference_ops import Arithmetic
from service.artifacts.tensor_file import write_tensors
from service.domain.canonical import sha256_hex
from service.replay import Judgement, ReplayJob, wasm
from service.replay.child import open_engines
from service.replay.judging import judge as judge_with

ENGINES = open_engines(without_gpu="not in this test")
ENDLESS = "(loop $again (br $again)) i32.const 0"
DOUBLES = """
  (local $at i32)
  (loop $next
    (f32.store
      (i32.add (local.get 2) (local.get $at))
      (f32.mul (f32.const 2) (f32.load (i32.add (local.get 1) (local.get $at)))))
    (local.set $at (i32.add (local.get $at) (i32.const 4)))
    (br_if $next (i32.lt_u (local.get $at) (i32.mul (local.get 3) (i32.const 4)))))
  i32.const 0
"""


def wasm_job(
    *, allocate: str = "global.get $free (global.set $free (i32.add (global.get $free) (i32.const 1024)))",
    forward: str = DOUBLES, more: str = "",
) -> ReplayJob:  # fmt: skip
    """Four rows for a module whose reference is y = x + x, with the bodies of its functions in WebAssembly text."""
    text = f"""(module (memory (export "memory") 2) (global $free (mut i32) (i32.const 1024))
      (func (export "allocate") (param i32) (result i32) {allocate})
      (func (export "forward") (param i32 i32 i32 i32) (result i32) {forward}) {more})"""
    draft = ModulePackage(
        "retrace-module", 1, "double", "1", (TensorSpec("x", ("batch",)),), (TensorSpec("y", ("batch",)),), (), 0,
        "dataset", reference=(Arithmetic(kind="add", left="x", right="x", output="y"),),
    )  # fmt: skip
    package = assemble_package(draft, None, bytes(wasmtime.wat2wasm(text)))
    checkpoint = write_checkpoint(
        Checkpoint(checkpoint_format=1, job="j1", round=1, module_sha256=package.module_sha256, weights={})
    )
    return ReplayJob(
        checkpoint=checkpoint, checkpoint_sha256=sha256_hex(checkpoint), module=package.module_bytes,
        wasm=package.wasm_bytes, validation=write_tensors({"x": np.arange(1, 5, dtype="<f4")}), engine="wasm",
    )  # fmt: skip


def judge(job: ReplayJob, wall_s: float = 60.0) -> Judgement:
    return judge_with(msgspec.structs.replace(job, wall_s=wall_s), ENGINES).judgement


def test_an_honest_module_reproduces() -> None:
    assert judge(wasm_job()).verdict == "reproduced"


@pytest.mark.parametrize(
    "job",
    [
        wasm_job(allocate="unreachable"),
        wasm_job(forward="unreachable"),
        wasm_job(more="(func $first unreachable) (start $first)"),
        wasm_job(more='(data (i32.const 999999999) "x")'),
        wasm_job(forward="(i32.load (i32.const 999999999))"),
    ],
    ids=["allocate", "forward", "start", "data", "out-of-bounds"],
)
def test_a_trap_is_refused_wherever_it_happens(job: ReplayJob) -> None:
    found = judge(job)
    assert (found.verdict, found.code) == ("refused", "trap")
    assert "wasm trap" in (found.reason or "")


ENDLESS_JOBS = pytest.mark.parametrize(
    "job",
    [
        wasm_job(allocate=ENDLESS),
        wasm_job(forward=ENDLESS),
        wasm_job(more="(func $first (loop $again (br $again))) (start $first)"),
    ],
    ids=["allocate", "forward", "start"],
)


@ENDLESS_JOBS
def test_an_endless_loop_spends_its_fuel(job: ReplayJob, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(wasm, "FUEL", 1_000_000)
    found = judge(job)
    assert (found.verdict, found.code) == ("refused", "out_of_fuel")


@ENDLESS_JOBS
def test_an_endless_loop_with_fuel_left_is_interrupted(job: ReplayJob, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(wasm, "FUEL", 2**63)
    found = judge(job, wall_s=0.1)
    assert (found.verdict, found.code) == ("refused", "wall_limit")


def test_a_function_named_after_fuel_does_not_decide_the_code() -> None:
    job = wasm_job(forward="(call $fuel) i32.const 0", more='(func $fuel (export "fuel") unreachable)')
    assert judge(job).code == "trap"


def test_a_module_that_writes_nothing_deviates() -> None:
    found = judge(wasm_job(forward="i32.const 0"))
    assert (found.verdict, found.code, found.unwritten) == ("deviates", "outputs_not_written", {"y": 4})


def test_a_status_other_than_zero_is_refused() -> None:
    found = judge(wasm_job(forward="i32.const 7"))
    assert (found.verdict, found.code) == ("refused", "forward_failed")
    assert "gave 7" in (found.reason or "")


@pytest.mark.parametrize(("allocate", "code"), [("i32.const -1", "trap"), ("i32.const 0", "over_limits")])
def test_room_that_is_not_there_is_refused(allocate: str, code: str) -> None:
    found = judge(wasm_job(allocate=allocate))
    assert (found.verdict, found.code) == ("refused", code)


@pytest.mark.parametrize("more", ["(table 100000000 funcref)", "(memory 1)"])
def test_more_than_the_limits_is_refused_before_it_is_made(more: str) -> None:
    found = judge(wasm_job(more=more))
    assert found.verdict == "refused"
    assert found.code in ("malformed_module", "over_limits")
