"""A WGSL archive at a number of rows on a device: every size and count as a number, held against every limit. Pure.

Nothing is sent to a GPU before this plan exists. Rows that do not fit at once are run in parts of `rows_per_part`.
"""

import math
from collections.abc import Mapping
from typing import NamedTuple

from service.artifacts.expressions import ExpressionError, evaluate
from service.artifacts.module_package import BATCH
from service.artifacts.shader_archive import (
    Access,
    Buffer,
    ConstantBuffer,
    Dispatch,
    Manifest,
    OutputBuffer,
    ScratchBuffer,
    WeightBuffer,
    limits_of,
)
from service.replay.judgement import cannot_run, refused

WORKGROUPS_MAX = 16 * 1024 * 1024
"""How many workgroups one part may dispatch in all: a bound on the work that an archive may ask for."""


class PlannedDispatch(NamedTuple):
    """One dispatch in numbers. `constants` is hashable: a pipeline is known by shader, entry point and constants."""

    shader: str
    entry_point: str
    constants: tuple[tuple[str, float], ...]
    bindings: tuple[tuple[int, int, str, Access], ...]
    workgroups: tuple[int, int, int]

    @property
    def groups(self) -> list[list[tuple[int, str, Access]]]:
        """Binding, buffer and access of every group from 0 on; a group that is left out is empty."""
        count = 1 + max((group for group, *_ in self.bindings), default=-1)
        return [
            [(at, name, access) for group, at, name, access in self.bindings if group == one] for one in range(count)
        ]


class ShaderPlan(NamedTuple):
    """An archive in numbers for `rows_per_part` rows, padded to `batch`. `shapes` are of whole buffers, by name."""

    rows_per_part: int
    batch: int
    shapes: dict[str, tuple[int, ...]]
    dispatches: tuple[PlannedDispatch, ...]
    memory_bytes: int


def plan_shaders(manifest: Manifest, rows: int, device_limits: Mapping[str, int], memory_bytes: int) -> ShaderPlan:
    """The plan with the largest part that fits. Raises ReplayEnded: refused over limits, cannot-run on this device."""
    wanted = limits_of(manifest)
    short = {name: value for name, value in wanted.items() if device_limits.get(name, 0) < value}
    beyond = {name: value for name, value in manifest.requires.limits.items() if name in short}
    if beyond:
        texts = [f"{name} {value}, the device has {device_limits.get(name, 0)}" for name, value in beyond.items()]
        raise cannot_run("device_too_small", f"the shader archive requires {'; '.join(texts)}")
    limits = {name: min(value, device_limits.get(name, 0)) for name, value in wanted.items()}
    unbound = manifest.symbols.keys() - {BATCH}
    if unbound:
        raise refused("unbound_symbol", f"symbols {sorted(unbound)} are bound by no input; only {BATCH!r} is")
    symbol = manifest.symbols.get(BATCH)
    largest = rows if symbol is None else symbol.max // symbol.multiple_of * symbol.multiple_of
    part = min(rows, largest)
    while True:
        plan, excess = _plan_part(manifest, part, limits, memory_bytes)
        if excess is None:
            return plan
        if part == 1:
            raise refused("over_limits", f"{excess}, even for one row")
        part = max(1, part // 2)


def _plan_part(
    manifest: Manifest, rows: int, limits: Mapping[str, int], memory_bytes: int
) -> tuple[ShaderPlan, str | None]:
    """The plan for one part, and what of it is over a limit."""
    symbol = manifest.symbols.get(BATCH)
    batch = rows if symbol is None else _round_up(max(rows, symbol.min), symbol.multiple_of)
    symbols = {} if symbol is None else {BATCH: batch}
    try:
        shapes = {name: _whole_shape(buffer, symbols) for name, buffer in manifest.buffers.items()}
        dispatches = tuple(_plan_dispatch(dispatch, symbols) for dispatch in manifest.dispatches)
    except ExpressionError as error:
        raise refused("malformed_shader_archive", f"at batch {batch}: {error}") from None
    total = sum(4 * math.prod(shape) for shape in shapes.values())
    plan = ShaderPlan(rows, batch, shapes, dispatches, total)
    return plan, _excess(plan, limits, memory_bytes)


def _round_up(value: int, multiple: int) -> int:
    return -(-value // multiple) * multiple


def _whole_shape(buffer: Buffer, symbols: Mapping[str, int]) -> tuple[int, ...]:
    """The shape of the whole buffer in elements of 4 bytes."""
    if isinstance(buffer, WeightBuffer):
        return buffer.pad_to or buffer.shape
    if isinstance(buffer, ScratchBuffer):
        return (evaluate(buffer.size_bytes, symbols) // 4,)
    if isinstance(buffer, ConstantBuffer):
        return (len(buffer.content()) // 4,)
    return tuple(evaluate(size, symbols) for size in buffer.shape)


def cropped_shape(buffer: OutputBuffer, rows: int) -> tuple[int, ...]:
    """The part of an output buffer that is handed out for so many rows."""
    return tuple(evaluate(size, {BATCH: rows}) for size in buffer.crop or buffer.shape)


def _plan_dispatch(dispatch: Dispatch, symbols: Mapping[str, int]) -> PlannedDispatch:
    constants = {
        name: value if isinstance(value, float) else float(evaluate(value, symbols))
        for name, value in dispatch.constants.items()
    }
    x, y, z = (evaluate(count, symbols) for count in dispatch.workgroups)
    bindings = tuple(sorted((one.group, one.binding, one.buffer, one.access) for one in dispatch.bindings))
    return PlannedDispatch(dispatch.shader, dispatch.entry_point, tuple(sorted(constants.items())), bindings, (x, y, z))


def _excess(plan: ShaderPlan, limits: Mapping[str, int], memory_bytes: int) -> str | None:
    """The first thing over a limit as a sentence, None when everything fits."""
    binding_max = min(limits["maxStorageBufferBindingSize"], limits["maxBufferSize"])
    for name, shape in plan.shapes.items():
        size = 4 * math.prod(shape)
        if size > binding_max:
            return f"buffer {name!r} has {size} bytes, wanted at most {binding_max}"
    if plan.memory_bytes > memory_bytes:
        return f"all buffers together have {plan.memory_bytes} bytes, wanted at most {memory_bytes}"
    across = limits["maxComputeWorkgroupsPerDimension"]
    for index, dispatch in enumerate(plan.dispatches):
        if not all(1 <= count <= across for count in dispatch.workgroups):
            return f"dispatch {index} has {list(dispatch.workgroups)} workgroups, wanted 1 to {across} on each axis"
    workgroups = sum(math.prod(dispatch.workgroups) for dispatch in plan.dispatches)
    if workgroups > WORKGROUPS_MAX:
        return f"{workgroups} workgroups are dispatched, wanted at most {WORKGROUPS_MAX}"
    return None
