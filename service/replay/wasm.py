"""The WebAssembly engine: a package's model.wasm under wasmtime, the optional extra `wasm`.

No imports are given, memory is capped, fuel ends what does not end by itself, and a deadline ends what goes on for long
within its fuel, so that the warm child need not be killed for either. The ABI is written in
docs/formats.md: memory, allocate(size) and forward(weights, inputs, outputs, batch).
"""

import importlib.metadata
import importlib.util
from collections.abc import Iterator
from contextlib import contextmanager
from threading import Timer
from time import perf_counter
from typing import Any

import numpy as np

from service.artifacts.module_package import BATCH
from service.artifacts.tensor_file import Array
from service.replay.judgement import Rows, cannot_run, refused
from service.replay.plan import DTYPES, EngineRun, Limits, Material

FUEL = 20_000_000_000
"""Instructions that one part may use: about ten seconds of the demo's module."""
PART_BYTES_MAX = 64 * 1024 * 1024
"""Inputs and outputs of one part together."""
WALL_PART = 0.9
"""Part of the job's wall limit after which a module is stopped here, before the parent would end the whole child."""
TABLE_ELEMENTS_MAX = 1_000_000
_PAGE = 65_536
_CANARY = b"\xc5\xa5\xc5\x7f"
_CANARY_BITS = 0x7FC5_A5C5


def is_installed() -> bool:
    """Whether wasmtime can be imported."""
    return importlib.util.find_spec("wasmtime") is not None


def library_words() -> dict[str, str]:
    """The version of wasmtime; nothing where it is not installed."""
    return {"wasmtime": importlib.metadata.version("wasmtime")} if is_installed() else {}


def run_wasm(material: Material, limits: Limits) -> EngineRun:
    """The outputs, part by part. Raises ReplayEnded for a trap, spent fuel or time, or memory beyond the limit."""
    if not is_installed():
        raise cannot_run(
            "no_wasm", "the wasm engine needs wasmtime, which is not installed: pip install 'retrace[wasm]'"
        )
    import wasmtime

    started = perf_counter()
    config = wasmtime.Config()
    config.consume_fuel = True
    config.epoch_interruption = True
    engine = wasmtime.Engine(config)
    with _refusing_traps(wasmtime), _deadline(engine, WALL_PART * limits.wall_s):
        machine = _Machine(wasmtime, engine, material, limits.memory_bytes)
        compiled = perf_counter()
        per_row = sum(array[0].nbytes for array in material.inputs.values()) + sum(machine.output_bytes)
        rows_per_part = max(1, min(material.rows, PART_BYTES_MAX // max(per_row, 1)))
        parts: dict[str, list[Array]] = {spec.name: [] for spec in material.module.outputs}
        for start in range(0, material.rows, rows_per_part):
            for name, found in machine.run(start, min(rows_per_part, material.rows - start)).items():
                parts[name].append(found)
    outputs = {name: np.concatenate(found) for name, found in parts.items()}
    unwritten = {name: int(np.count_nonzero(array.view("<u4") == _CANARY_BITS)) for name, array in outputs.items()}
    timings = {"compile": _ms(started, compiled), "wasm": _ms(compiled, perf_counter())}
    return EngineRun(
        outputs, unwritten, Rows(material.rows, -(-material.rows // rows_per_part), rows_per_part), timings
    )


@contextmanager
def _refusing_traps(wasmtime: Any) -> Iterator[None]:
    """Turns a trap into a refusal, wherever the module's code runs: its start, `allocate` and `forward`."""
    codes = {wasmtime.TrapCode.OUT_OF_FUEL: "out_of_fuel", wasmtime.TrapCode.INTERRUPT: "wall_limit"}
    try:
        yield
    except wasmtime.Trap as trap:
        # The backtrace in between holds names that the module chose; the cause is the last line.
        cause = str(trap.message).strip().splitlines()[-1].strip()
        raise refused(codes.get(trap.trap_code, "trap"), f"model.wasm trapped: {cause}") from None
    except wasmtime.WasmtimeError as error:
        raise refused("trap", f"model.wasm: {error}") from None


@contextmanager
def _deadline(engine: Any, after_s: float) -> Iterator[None]:
    """Interrupts whatever runs in the engine after so long."""
    timer = Timer(after_s, engine.increment_epoch)
    timer.daemon = True
    timer.start()
    try:
        yield
    finally:
        timer.cancel()


class _Machine:
    """One instance with the weights in its memory; the room for a part is allocated once and used again."""

    def __init__(self, wasmtime: Any, engine: Any, material: Material, memory_bytes: int) -> None:
        self._material = material
        self._store = wasmtime.Store(engine)
        self._store.set_limits(
            memory_size=min(memory_bytes, 2**32 - _PAGE), table_elements=TABLE_ELEMENTS_MAX, memories=1, tables=8
        )
        self._store.set_fuel(FUEL)
        self._store.set_epoch_deadline(1)
        try:
            module = wasmtime.Module(self._store.engine, material.wasm)
            exports = wasmtime.Instance(self._store, module, []).exports(self._store)
        except wasmtime.WasmtimeError as error:
            raise refused("malformed_module", f"model.wasm cannot be compiled: {error}") from None
        self._memory, self._allocate, self._forward = exports["memory"], exports["allocate"], exports["forward"]
        self._places: dict[str, tuple[int, int]] = {}
        self._fill("weights", b"".join(array.tobytes() for array in material.tensors.values()))
        self.output_bytes = [
            4 * int(np.prod([size for size in spec.shape if size != BATCH])) for spec in material.module.outputs
        ]

    def run(self, start: int, rows: int) -> dict[str, Array]:
        """The outputs of the rows from `start` on."""
        self._store.set_fuel(FUEL)
        inputs = b"".join(array[start : start + rows].tobytes() for array in self._material.inputs.values())
        sizes = [size * rows for size in self.output_bytes]
        weights = self._places["weights"][0]
        given = self._fill("inputs", inputs)
        taken = self._fill("outputs", _CANARY * (sum(sizes) // 4))
        code = self._forward(self._store, weights, given, taken, rows)
        if code != 0:
            raise refused("forward_failed", f"model.wasm: forward gave {code}, wanted 0")
        raw = bytes(self._memory.read(self._store, taken, taken + sum(sizes)))
        outputs, at = {}, 0
        for spec, size in zip(self._material.module.outputs, sizes, strict=True):
            shape = [rows if axis == BATCH else axis for axis in spec.shape]
            outputs[spec.name] = np.frombuffer(raw[at : at + size], DTYPES[spec.dtype]).reshape(shape)
            at += size
        return outputs

    def _fill(self, name: str, content: bytes) -> int:
        """Writes into the room of this name, allocated when it is new or too small; where it begins."""
        begin, room = self._places.get(name, (0, -1))
        if len(content) > room:
            begin = self._allocate(self._store, len(content)) & 0xFFFF_FFFF
            if begin == 0:
                raise refused("over_limits", f"model.wasm has no room for {len(content)} bytes of {name}")
            self._places[name] = (begin, len(content))
        if begin + len(content) > self._memory.data_len(self._store):
            raise refused("trap", f"model.wasm: allocate gave {begin}, which leaves no {len(content)} bytes for {name}")
        self._memory.write(self._store, content, begin)
        return begin


def _ms(begin_s: float, end_s: float) -> float:
    return round((end_s - begin_s) * 1000, 3)
