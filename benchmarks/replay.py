"""`make bench-replay`: the replay's engines beside plain numpy and tinygrad, taken in turns, and what the child adds.

Two networks: an MLP 784-256-128-10 on 1,024 rows, and a CNN (conv 3x3 to 8, pool, conv 3x3 to 16, pool, dense) on 64
images of 28 x 28. Engines are timed with their inputs written and outputs read, weights and pipelines ready. tinygrad
on WebGPU takes part when RETRACE_BENCH_TINYGRAD names a Python that has tinygrad and dawn-python.
"""

import os
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

os.environ["OPENBLAS_NUM_THREADS"] = "1"  # before numpy: as in the replay child

import numpy as np

from benchmarks.table import Row, at_least, at_most, report
from service.artifacts.checkpoint_format import Checkpoint, write_checkpoint
from service.artifacts.module_package import ModulePackage, Parameter, TensorSpec
from service.artifacts.packing import PackedModule, assemble_package
from service.artifacts.reference_ops import Conv2d, Dense, Flatten, Pool, ReferenceOp, Relu
from service.artifacts.shader_archive import (
    Binding,
    Buffer,
    Dispatch,
    InputBuffer,
    Manifest,
    OutputBuffer,
    ScratchBuffer,
    Symbol,
    WeightBuffer,
    read_shader_archive,
    write_shader_archive,
)
from service.artifacts.shader_compiler import compile_module
from service.artifacts.tensor_file import write_tensors
from service.artifacts.wgsl_kernels import conv_stage_shader, dense_shader
from service.domain.canonical import sha256_hex
from service.replay import ReplayEngine, ReplayJob
from service.replay.gpu import Gpu, NoAdapter
from service.replay.reference import run_reference
from service.settings import Settings

Array = np.ndarray[Any, Any]
ROUNDS = 15
CHECKPOINTS = 100
MEMORY_BYTES = 2**31
ROWS = {"mlp": 1024, "cnn": 64}


def parameters(shapes: Mapping[str, tuple[int, ...]]) -> tuple[Parameter, ...]:
    found, offset = [], 0
    for name, shape in shapes.items():
        found.append(Parameter(name, shape, offset))
        offset += found[-1].size_bytes
    return tuple(found)


def module(
    name: str, row: tuple[int, ...], shapes: Mapping[str, tuple[int, ...]], program: tuple[ReferenceOp, ...],
    archive: bytes | None = None,
) -> PackedModule:  # fmt: skip
    owned = parameters(shapes)
    draft = ModulePackage(
        "retrace-module", 1, name, "1", (TensorSpec("image", ("batch", *row)),), (TensorSpec("logits", ("batch", 10)),),
        owned, sum(parameter.size_bytes for parameter in owned), "dataset", reference=program,
    )  # fmt: skip
    return assemble_package(draft, archive or compile_module(draft), None)


def fused_cnn() -> bytes:
    """The CNN's archive with the shipped kernels: convolution, rectifier and maximum in one dispatch."""
    shaders = {"first": conv_stage_shader(True), "second": conv_stage_shader(False), "dense": dense_shader()}
    buffers: dict[str, Buffer] = {
        "image": InputBuffer("image", ("batch", 28, 28, 1)),
        "w1": WeightBuffer("w1", (3, 3, 1, 8)), "b1": WeightBuffer("b1", (8,)),
        "w2": WeightBuffer("w2", (3, 3, 8, 16)), "b2": WeightBuffer("b2", (16,)),
        "w3": WeightBuffer("w3", (784, 10), pad_to=(784, 12)), "b3": WeightBuffer("b3", (10,), pad_to=(12,)),
        "p1": ScratchBuffer("batch * 14 * 14 * 8 * 4"), "p2": ScratchBuffer("batch * 7 * 7 * 16 * 4"),
        "logits": OutputBuffer("logits", ("batch", 12), crop=("batch", 10)),
    }  # fmt: skip

    def dispatch(shader: str, names: str, workgroups: tuple[int | str, int | str, int | str], iterations: int,
                 **constants: int) -> Dispatch:  # fmt: skip
        *reads, written = names.split()
        bindings = [Binding(0, at, name, "read") for at, name in enumerate(reads)]
        bindings.append(Binding(0, len(reads), written, "read_write"))
        return Dispatch(shader, tuple(bindings), workgroups, iterations, constants=dict(constants))

    dispatches = (
        dispatch("first", "image w1 b1 p1", ("ceilDiv(batch * 14 * 14 * 2, 64)", 1, 1), 1, H=28, W=28, N4=2),
        dispatch("second", "p1 w2 b2 p2", ("ceilDiv(batch * 7 * 7 * 4, 64)", 1, 1), 2, H=14, W=14, C4=2, N4=4),
        dispatch("dense", "p2 w3 b3 logits", (1, "ceilDiv(batch / 8, 8)", 1), 196, K4=196, N4=3),
    )
    symbols = {"batch": Symbol(4096, multiple_of=8)}
    return write_shader_archive(Manifest("retrace-wgsl", 1, "cnn", symbols, {}, buffers, dispatches), shaders)


def packages() -> dict[str, PackedModule]:
    mlp = module(
        "mlp", (784,),
        {"w1": (784, 256), "b1": (256,), "w2": (256, 128), "b2": (128,), "w3": (128, 10), "b3": (10,)},
        (
            Dense(input="image", weight="w1", bias="b1", output="h1"), Relu(input="h1", output="a1"),
            Dense(input="a1", weight="w2", bias="b2", output="h2"), Relu(input="h2", output="a2"),
            Dense(input="a2", weight="w3", bias="b3", output="logits"),
        ),
    )  # fmt: skip
    cnn = module(
        "cnn", (28, 28, 1),
        {"w1": (3, 3, 1, 8), "b1": (8,), "w2": (3, 3, 8, 16), "b2": (16,), "w3": (784, 10), "b3": (10,)},
        (
            Conv2d(input="image", weight="w1", bias="b1", padding=(1, 1, 1, 1), output="c1"),
            Relu(input="c1", output="a1"),
            Pool(input="a1", kind="max", window=(2, 2), stride=(2, 2), output="p1"),
            Conv2d(input="p1", weight="w2", bias="b2", padding=(1, 1, 1, 1), output="c2"),
            Relu(input="c2", output="a2"),
            Pool(input="a2", kind="max", window=(2, 2), stride=(2, 2), output="p2"),
            Flatten(input="p2", output="flat"), Dense(input="flat", weight="w3", bias="b3", output="logits"),
        ),
        fused_cnn(),
    )  # fmt: skip
    return {"mlp": mlp, "cnn": cnn}


def plain_mlp(t: Mapping[str, Array], x: Array) -> Array:
    """What one writes by hand."""
    hidden = np.maximum(x @ t["w1"] + t["b1"], 0)
    scores: Array = np.maximum(hidden @ t["w2"] + t["b2"], 0) @ t["w3"] + t["b3"]
    return scores


def plain_cnn(t: Mapping[str, Array], x: Array) -> Array:
    """The same by hand: windows as rows, one product for each layer."""
    for w, b in (("w1", "b1"), ("w2", "b2")):
        n, height, width, channels = x.shape
        padded = np.pad(x, ((0, 0), (1, 1), (1, 1), (0, 0)))
        windows = np.lib.stride_tricks.sliding_window_view(padded, (3, 3), axis=(1, 2)).transpose(0, 1, 2, 4, 5, 3)
        flat = windows.reshape(-1, 9 * channels) @ t[w].reshape(9 * channels, -1) + t[b]
        image = np.maximum(flat.reshape(n, height, width, -1), 0)
        x = image.reshape(n, height // 2, 2, width // 2, 2, -1).max(axis=(2, 4))
    scores: Array = x.reshape(len(x), -1) @ t["w3"] + t["b3"]
    return scores


class Peer:
    """tinygrad in a Python of its own."""

    def __init__(self, python: str) -> None:
        self._process = subprocess.Popen(
            [python, str(Path(__file__).parent / "tinygrad_peer.py")], stdin=subprocess.PIPE, stdout=subprocess.PIPE,
            text=True,
        )  # fmt: skip
        ready = self._answer()
        assert ready == "ready", ready

    def milliseconds(self, model: str) -> float:
        assert self._process.stdin is not None
        print(model, file=self._process.stdin, flush=True)
        return float(self._answer())

    def close(self) -> None:
        self._process.kill()
        self._process.wait()

    def _answer(self) -> str:
        assert self._process.stdout is not None
        return self._process.stdout.readline().strip()


def timed(work: Callable[[], Any]) -> float:
    started = time.perf_counter()
    work()
    return (time.perf_counter() - started) * 1000


def in_turns(works: Mapping[str, Callable[[], float]]) -> dict[str, float]:
    """Median milliseconds of each, one round of all after the other."""
    found: dict[str, list[float]] = {name: [] for name in works}
    for work in works.values():
        work()
    for _ in range(ROUNDS):
        for name, work in works.items():
            found[name].append(work())
    return {name: statistics.median(times) for name, times in found.items()}


def bench_engines(model: str, package: PackedModule, gpu: Gpu | None, peer: Peer | None) -> list[Row]:
    random = np.random.default_rng(1)
    tensors = {p.name: (random.normal(size=p.shape) * 0.1).astype("<f4") for p in package.module.parameters}
    spec = package.module.forward_inputs[0]
    x = random.normal(size=(ROWS[model], *(int(size) for size in spec.shape[1:]))).astype("<f4")
    plain = plain_mlp if model == "mlp" else plain_cnn
    works: dict[str, Callable[[], float]] = {
        "numpy": lambda: timed(lambda: plain(tensors, x)),
        "reference": lambda: timed(lambda: run_reference(package.module, tensors, {"image": x}, np.float32)),
    }
    if gpu is not None:
        assert package.shader_archive_bytes is not None
        archive = read_shader_archive(package.shader_archive_bytes)
        works["gpu"] = lambda: gpu.run(archive, tensors, {"image": x}, len(x), MEMORY_BYTES).timings_ms["shaders"]
    if peer is not None:
        works["tinygrad"] = lambda: peer.milliseconds(model)
    ms = in_turns(works)
    rows = [
        at_least(
            f"{model}: plain numpy, reference as fast",
            ms["numpy"],
            "ms",
            beside="reference",
            other=ms["reference"],
            ratio=1 / 1.2,
        )
    ]
    if gpu is not None:
        rows.append(at_least(f"{model}: gpu engine", ms["gpu"], "ms", beside="plain numpy", other=ms["numpy"]))
    if gpu is not None and peer is not None:
        rows.append(
            at_least(f"{model}: tinygrad WEBGPU", ms["tinygrad"], "ms", beside="gpu engine", other=ms["gpu"], ratio=2)
        )
    return rows


def jobs(package: PackedModule, rows: int) -> list[ReplayJob]:
    """One job for each of the checkpoints, as `--round all` gives them."""
    random = np.random.default_rng(1)
    spec = package.module.forward_inputs[0]
    validation = write_tensors({"image": random.normal(size=(rows, *(int(s) for s in spec.shape[1:]))).astype("<f4")})
    made = []
    for number in range(CHECKPOINTS):
        weights = {p.name: (random.normal(size=p.shape) * 0.1).astype("<f4") for p in package.module.parameters}
        data = write_checkpoint(
            Checkpoint(checkpoint_format=1, job="b", round=number, module_sha256=package.module_sha256, weights=weights)
        )
        made.append(ReplayJob(
            checkpoint=data, checkpoint_sha256=sha256_hex(data), module=package.module_bytes,
            shader_archive=package.shader_archive_bytes, validation=validation,
        ))  # fmt: skip
    return made


def bench_child(package: PackedModule) -> list[Row]:
    """A hundred checkpoints through the warm child: what it adds, and whether later ones find everything ready."""
    with tempfile.TemporaryDirectory() as folder:
        engine = ReplayEngine(Settings(data=folder))
        start_ms = timed(engine.adapters)
        added, preparing = [], []
        started = time.perf_counter()
        for job in jobs(package, 64):
            before = time.perf_counter()
            found = engine.judge(job)
            assert found.verdict == "reproduced", found.reason
            added.append((time.perf_counter() - before) * 1000 - found.timings_ms["total"])
            preparing.append(found.timings_ms.get("pipelines", 0.0))
        seconds = time.perf_counter() - started
        engine.close()
    return [
        Row("child: start to hello", start_ms, "ms"),
        at_most("child: added to a replay, median", statistics.median(added), "ms", 50),
        Row(f"child: {CHECKPOINTS} checkpoints", seconds, "s"),
        at_most("child: making pipelines and buffers, median", statistics.median(preparing), "ms", 1),
    ]


def main() -> int:
    try:
        gpu: Gpu | None = Gpu.open()
    except NoAdapter as error:
        sys.stderr.write(f"no GPU takes part: {error}\n")
        gpu = None
    python = os.environ.get("RETRACE_BENCH_TINYGRAD")
    peer = Peer(python) if python else None
    if peer is None:
        sys.stderr.write("tinygrad takes no part: RETRACE_BENCH_TINYGRAD names no Python that has it\n")
    made = packages()
    rows = [row for model, package in made.items() for row in bench_engines(model, package, gpu, peer)]
    if peer is not None:
        peer.close()
    return report("replay", rows + bench_child(made["mlp"]))


if __name__ == "__main__":
    sys.exit(main())
