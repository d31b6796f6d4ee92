"""The process that runs what others wrote: `python -m service.replay.child`, killable at any moment by its parent.

Frames on stdin and stdout: eight bytes of length (little-endian), then msgpack. The first frame out is a Hello; then
one Judged for each ReplayJob, in order. It ends at the end of its input, when its parent is gone and when the device
is lost. Whatever drivers print goes to stderr, so that nothing else ever reaches the pipe.
"""

import argparse
import os
import sys
import threading
import time
from time import perf_counter
from typing import BinaryIO

import msgspec
import numpy as np

from service.replay import wasm
from service.replay.frames import PREFIX_BYTES, Hello, LostDevice
from service.replay.judgement import DeviceLost
from service.replay.judging import Engines, Judged, judge
from service.replay.plan import EngineRun, Limits, Material, ReplayJob

PARENT_LOOK_EVERY_S = 1.0
DEVICE_LOST_EXIT = 75
"""Exit code after a lost device: the parent starts another child."""


def open_engines(without_gpu: str | None = None) -> Engines:
    """Everything that can run here. `without_gpu` is the reason not to look for an adapter."""
    libraries = {"numpy": np.__version__, **wasm.library_words()}
    if without_gpu is not None:
        return Engines(run_gpu=None, gpu_reason=without_gpu, run_wasm=wasm.run_wasm, adapter=None, libraries=libraries)
    try:
        from service.replay import gpu
    except (ImportError, OSError) as error:
        reason = f"wgpu cannot be loaded: {error}"
        return Engines(run_gpu=None, gpu_reason=reason, run_wasm=wasm.run_wasm, adapter=None, libraries=libraries)
    libraries |= gpu.library_words()
    try:
        opened = gpu.Gpu.open()
    except gpu.NoAdapter as error:
        return Engines(run_gpu=None, gpu_reason=str(error), run_wasm=wasm.run_wasm, adapter=None, libraries=libraries)

    def run_gpu(material: Material, limits: Limits) -> EngineRun:
        assert material.archive is not None  # choose_engine asked for it
        return opened.run(material.archive, material.tensors, material.inputs, material.rows, limits.memory_bytes)

    return Engines(
        run_gpu=run_gpu, gpu_reason=None, run_wasm=wasm.run_wasm, adapter=opened.adapter, libraries=libraries
    )


def serve(jobs: BinaryIO, answers: BinaryIO, without_gpu: str | None, cpu_s: float | None) -> int:
    """Answer jobs until they end: the exit code."""
    started = perf_counter()
    engines = open_engines(without_gpu)
    start_ms = round((perf_counter() - started) * 1000, 3)
    _write_frame(answers, Hello(engines.adapter, engines.gpu_reason, engines.libraries, start_ms))
    while (frame := _read_frame(jobs)) is not None:
        _limit_processor_time(cpu_s)
        try:
            judged = judge(msgspec.msgpack.decode(frame, type=ReplayJob), engines)
        except DeviceLost as loss:
            _write_frame(answers, LostDevice(str(loss)))
            return DEVICE_LOST_EXIT
        _write_frame(answers, judged)
    return 0


def _read_frame(stream: BinaryIO) -> bytes | None:
    prefix = stream.read(PREFIX_BYTES)
    if len(prefix) < PREFIX_BYTES:
        return None
    size = int.from_bytes(prefix, "little")
    frame = stream.read(size)
    return frame if len(frame) == size else None


def _write_frame(stream: BinaryIO, message: Hello | Judged | LostDevice) -> None:
    content = msgspec.msgpack.encode(message)
    stream.write(len(content).to_bytes(PREFIX_BYTES, "little"))
    stream.write(content)
    stream.flush()


def _limit_processor_time(cpu_s: float | None) -> None:
    """Let the kernel end this process when one job uses more: the last line behind the parent's wall limit."""
    if cpu_s is None or sys.platform == "win32":
        return
    import resource

    used = sum(resource.getrusage(resource.RUSAGE_SELF)[:2])
    _, hard = resource.getrlimit(resource.RLIMIT_CPU)
    soft = int(used + cpu_s) + 1
    resource.setrlimit(resource.RLIMIT_CPU, (soft if hard == resource.RLIM_INFINITY else min(soft, hard), hard))


def _forbid_core_dumps() -> None:
    if sys.platform != "win32":
        import resource

        resource.setrlimit(resource.RLIMIT_CORE, (0, 0))


def _end_with_parent() -> None:
    """A parent that was killed cannot end its child; the child's driver calls let other threads run, so one looks."""
    parent = os.getppid()

    def look() -> None:
        while os.getppid() == parent:
            time.sleep(PARENT_LOOK_EVERY_S)
        os._exit(0)

    threading.Thread(target=look, daemon=True).start()


def main() -> int:
    """The process's life."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--without-gpu", help="do not look for an adapter, for this reason")
    parser.add_argument("--cpu-s", type=float, help="processor seconds that one job may use")
    arguments = parser.parse_args()
    _forbid_core_dumps()
    _end_with_parent()
    answers = os.fdopen(os.dup(1), "wb")
    os.dup2(2, 1)  # a driver that prints must not end up between two frames
    code = serve(sys.stdin.buffer, answers, arguments.without_gpu, arguments.cpu_s)
    answers.close()
    # Drivers have been seen to crash while a process is torn down; everything that matters is flushed.
    os._exit(code)


if __name__ == "__main__":
    main()
