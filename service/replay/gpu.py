"""Every call of wgpu: adapters, devices, pipelines. The one module that imports it; its callers see plain values.

WebGPU calls are synchronous and cannot be interrupted from inside the process, so shaders of others are run only in
the replay child. Pipelines and buffers of a plan are kept: a second replay of the same package only writes weights.
"""

from collections import OrderedDict
from collections.abc import Mapping
from time import perf_counter
from typing import Any, Literal, NamedTuple

import msgspec
import numpy as np
import wgpu

from service.artifacts.shader_archive import (
    ConstantBuffer,
    InputBuffer,
    OutputBuffer,
    ScratchBuffer,
    ShaderArchive,
    WeightBuffer,
)
from service.artifacts.tensor_file import Array
from service.replay.judgement import Adapter, DeviceLost, Rows, cannot_run, refused
from service.replay.plan import DTYPES, EngineRun
from service.replay.shader_plan import PlannedDispatch, ShaderPlan, cropped_shape, plan_shaders
from service.replay.wgpu_words import BINDING_TYPES, LIMIT_NAMES, LOOP_CANARY, LOOP_ITERATIONS, one_line, with_place

IMPOSSIBLE_BUFFER_BYTES = 2**63 - 1
"""More than any device can address."""
BACKENDS = ("Vulkan", "Metal", "D3D12")
"""What runs compute shaders as WebGPU wants; an OpenGL adapter may appear in their place and is refused."""
CANARY = 0x7FC5_A5C5
"""Bits of every output element before a replay: a NaN that no arithmetic makes. Still there afterwards: not written."""
SESSIONS_MAX = 4
"""How many plans keep their buffers. The one used longest ago is let go."""


class DeviceRefusal(msgspec.Struct, frozen=True):
    """Why no device was had: the error's own text. `has_gpu` is False for no adapter, and for one that is a CPU."""

    has_gpu: bool
    reason: str


class NoAdapter(Exception):
    """No adapter that a replay accepts; the message is wgpu's own, or names what came instead."""


class _Session(NamedTuple):
    """What a plan keeps on the device: buffers by name, and each dispatch's pipeline with its bind groups."""

    plan: ShaderPlan
    buffers: dict[str, Any]
    steps: list[tuple[Any, list[tuple[int, Any]], tuple[int, int, int]]]


class Gpu:
    """One adapter and one device. Used by one thread only."""

    def __init__(self, adapter: Any, device: Any, loop_budget: Literal["full", "truncated"]) -> None:
        self._device = device
        info = adapter.info
        self.adapter = Adapter(
            name=info["device"], type=info["adapter_type"], backend=info["backend_type"], driver=info["description"],
            is_software=info["adapter_type"] == "CPU", loop_budget=loop_budget,
        )  # fmt: skip
        self.limits = {ours: int(device.limits[theirs]) for ours, theirs in LIMIT_NAMES.items()}
        self._modules: dict[str, Any] = {}
        self._pipelines: dict[tuple[Any, ...], Any] = {}
        self._sessions: OrderedDict[tuple[str, int], _Session] = OrderedDict()

    @classmethod
    def open(cls) -> "Gpu":
        """The adapter that the system prefers, with explicit limits. Raises NoAdapter with the reason."""
        try:
            adapter: Any = wgpu.gpu.request_adapter_sync(power_preference="high-performance")
        except RuntimeError as error:
            raise NoAdapter(one_line(error)) from None
        backend = adapter.info["backend_type"]
        if backend not in BACKENDS:
            accepted = ", ".join(BACKENDS)
            raise NoAdapter(
                f"the only adapter is {adapter.info['device']!r} through {backend}, wanted one through {accepted}: "
                "install a driver (on Debian: libvulkan1 mesa-vulkan-drivers)"
            )
        # All that the adapter has, said explicitly: the plan keeps an archive to WebGPU's defaults or what it requires.
        limits = {name: int(adapter.limits[name]) for name in LIMIT_NAMES.values()}
        try:
            device = adapter.request_device_sync(required_limits=limits)
        except RuntimeError as error:
            raise NoAdapter(one_line(error)) from None
        return cls(adapter, device, _probe_loop_budget(device))

    def run(self, archive: ShaderArchive, tensors: Mapping[str, Array], inputs: Mapping[str, Array], rows: int,
            memory_bytes: int) -> EngineRun:  # fmt: skip
        """The outputs for the rows, part by part. Raises ReplayEnded for what cannot be done, DeviceLost."""
        missing = sorted(set(archive.manifest.requires.features) - set(self._device.features))
        if missing:
            raise cannot_run("device_too_small", f"the shader archive requires the features {missing}")
        plan = plan_shaders(archive.manifest, rows, self.limits, memory_bytes)
        try:
            self._make_room(plan, archive, memory_bytes)
            return self._run_plan(plan, archive, tensors, inputs, rows)
        except wgpu.GPUError as error:
            raise self._translated(error) from None

    def lose_device(self) -> None:
        """Destroy the device, so that every later call fails as after a driver's reset."""
        self._device.destroy()

    def _run_plan(self, plan: ShaderPlan, archive: ShaderArchive, tensors: Mapping[str, Array],
                  inputs: Mapping[str, Array], rows: int) -> EngineRun:  # fmt: skip
        started = perf_counter()
        session = self._session(plan, archive)
        prepared = perf_counter()
        self._write_weights(session, archive, tensors)
        written = perf_counter()
        outputs = {b.name: b for b in archive.manifest.buffers.values() if isinstance(b, OutputBuffer)}
        parts: dict[str, list[Array]] = {name: [] for name in outputs}
        unwritten = dict.fromkeys(outputs, 0)
        for start in range(0, rows, plan.rows_per_part):
            here = {name: array[start : start + plan.rows_per_part] for name, array in inputs.items()}
            for name, found in self._run_part(session, archive, here, min(plan.rows_per_part, rows - start)).items():
                unwritten[name] += int(np.count_nonzero(found.view("<u4") == CANARY))
                parts[name].append(found)
        ended = perf_counter()
        timings = {
            "pipelines": _ms(started, prepared), "weights": _ms(prepared, written), "shaders": _ms(written, ended),
        }  # fmt: skip
        whole = {name: np.concatenate(found) for name, found in parts.items()}
        return EngineRun(whole, unwritten, Rows(rows, -(-rows // plan.rows_per_part), plan.rows_per_part), timings)

    def _make_room(self, plan: ShaderPlan, archive: ShaderArchive, memory_bytes: int) -> None:
        """Let go of the sessions used longest ago until this plan and what stays fit together."""
        if (archive.sha256, plan.batch) in self._sessions:
            return
        while self._sessions and (
            len(self._sessions) >= SESSIONS_MAX
            or sum(one.plan.memory_bytes for one in self._sessions.values()) + plan.memory_bytes > memory_bytes
        ):
            _, old = self._sessions.popitem(last=False)
            for buffer in old.buffers.values():
                buffer.destroy()

    def _session(self, plan: ShaderPlan, archive: ShaderArchive) -> _Session:
        """Buffers, pipelines and bind groups of the plan, made once. Compile errors name file, line and column."""
        key = (archive.sha256, plan.batch)
        if key in self._sessions:
            self._sessions.move_to_end(key)
            return self._sessions[key]
        pipelines = [self._pipeline(archive, dispatch) for dispatch in plan.dispatches]
        buffers = {}
        for name, shape in plan.shapes.items():
            usage = wgpu.BufferUsage.STORAGE | wgpu.BufferUsage.COPY_SRC | wgpu.BufferUsage.COPY_DST
            declared = archive.manifest.buffers[name]
            if isinstance(declared, ConstantBuffer):
                usage |= wgpu.BufferUsage.UNIFORM
            buffers[name] = self._device.create_buffer(size=4 * int(np.prod(shape)), usage=usage, label=name)
            if isinstance(declared, ConstantBuffer):
                self._device.queue.write_buffer(buffers[name], 0, declared.content())
        steps = [
            (pipeline, self._bind_groups(pipeline, dispatch, buffers), dispatch.workgroups)
            for pipeline, dispatch in zip(pipelines, plan.dispatches, strict=True)
        ]
        self._sessions[key] = _Session(plan, buffers, steps)
        return self._sessions[key]

    def _pipeline(self, archive: ShaderArchive, dispatch: PlannedDispatch) -> Any:
        shader = archive.manifest.shaders[dispatch.shader]
        key = (shader.sha256, dispatch.entry_point, dispatch.constants)
        if key not in self._pipelines:
            if shader.sha256 not in self._modules:
                self._modules[shader.sha256] = self._device.create_shader_module(
                    code=archive.sources[dispatch.shader], label=shader.path
                )
            compute = {
                "module": self._modules[shader.sha256], "entry_point": dispatch.entry_point,
                "constants": dict(dispatch.constants),
            }  # fmt: skip
            self._pipelines[key] = self._device.create_compute_pipeline(
                layout=self._layout(dispatch), compute=compute, label=f"{shader.path} {dispatch.entry_point}"
            )
        return self._pipelines[key]

    def _layout(self, dispatch: PlannedDispatch) -> Any:
        """All bindings that the shader declares: an automatic layout would leave out those its entry point ignores."""
        layouts = [
            self._device.create_bind_group_layout(
                entries=[
                    {"binding": at, "visibility": wgpu.ShaderStage.COMPUTE, "buffer": {"type": BINDING_TYPES[access]}}
                    for at, _, access in group
                ]
            )
            for group in dispatch.groups
        ]
        return self._device.create_pipeline_layout(bind_group_layouts=layouts)

    def _bind_groups(
        self, pipeline: Any, dispatch: PlannedDispatch, buffers: Mapping[str, Any]
    ) -> list[tuple[int, Any]]:
        groups = []
        for number, group in enumerate(dispatch.groups):
            entries = [
                {"binding": at, "resource": {"buffer": buffers[name], "offset": 0, "size": buffers[name].size}}
                for at, name, _ in group
            ]
            layout = pipeline.get_bind_group_layout(number)
            groups.append((number, self._device.create_bind_group(layout=layout, entries=entries)))
        return groups

    def _write_weights(self, session: _Session, archive: ShaderArchive, tensors: Mapping[str, Array]) -> None:
        for name, buffer in archive.manifest.buffers.items():
            if isinstance(buffer, WeightBuffer):
                self._write_padded(session, name, tensors[buffer.tensor].astype("<f4", copy=False))

    def _run_part(
        self, session: _Session, archive: ShaderArchive, inputs: Mapping[str, Array], rows: int
    ) -> dict[str, Array]:
        """One part: inputs in, canaries out, one command buffer, one pass, then the outputs are read."""
        encoder = self._device.create_command_encoder()
        for name, buffer in archive.manifest.buffers.items():
            if isinstance(buffer, InputBuffer):
                self._write_padded(session, name, inputs[buffer.name])
            elif isinstance(buffer, ScratchBuffer):
                encoder.clear_buffer(session.buffers[name])
            elif isinstance(buffer, OutputBuffer):
                canaries = np.full(session.plan.shapes[name], CANARY, dtype="<u4")
                self._device.queue.write_buffer(session.buffers[name], 0, canaries)
        work = encoder.begin_compute_pass()
        for pipeline, groups, workgroups in session.steps:
            work.set_pipeline(pipeline)
            for group, bound in groups:
                work.set_bind_group(group, bound)
            work.dispatch_workgroups(*workgroups)
        work.end()
        self._device.queue.submit([encoder.finish()])
        return {
            buffer.name: self._read_cropped(session, name, buffer, rows)
            for name, buffer in archive.manifest.buffers.items()
            if isinstance(buffer, OutputBuffer)
        }

    def _write_padded(self, session: _Session, name: str, content: Array) -> None:
        shape = session.plan.shapes[name]
        if content.shape != shape:
            padded = np.zeros(shape, dtype=content.dtype)
            padded[tuple(slice(size) for size in content.shape)] = content
            content = padded
        self._device.queue.write_buffer(session.buffers[name], 0, np.ascontiguousarray(content))

    def _read_cropped(self, session: _Session, name: str, buffer: OutputBuffer, rows: int) -> Array:
        whole = np.frombuffer(self._device.queue.read_buffer(session.buffers[name]), DTYPES[buffer.dtype])
        cut = tuple(slice(size) for size in cropped_shape(buffer, rows))
        return np.ascontiguousarray(whole.reshape(session.plan.shapes[name])[cut])

    def _translated(self, error: Exception) -> Exception:
        text = one_line(error)
        if "lost" in text.lower():
            return DeviceLost(text)
        if isinstance(error, wgpu.GPUOutOfMemoryError):
            return cannot_run("out_of_memory", text)
        return refused("shader_refused", with_place(str(error).strip()))


def library_words() -> dict[str, str]:
    """Versions of what runs here."""
    return {"wgpu": wgpu.__version__, "numpy": np.__version__}


def request_impossible_limit() -> DeviceRefusal:
    """Ask for a device with a limit that none has, and return the refusal. For showing what a refusal looks like."""
    try:
        adapter: Any = wgpu.gpu.request_adapter_sync()
    except RuntimeError as error:
        return DeviceRefusal(False, one_line(error))
    try:
        adapter.request_device_sync(required_limits={"max-buffer-size": IMPOSSIBLE_BUFFER_BYTES})
    except RuntimeError as error:
        return DeviceRefusal(adapter.info["adapter_type"] != "CPU", one_line(error))
    raise AssertionError(f"a device with buffers of {IMPOSSIBLE_BUFFER_BYTES} bytes was granted")


def _probe_loop_budget(device: Any) -> Literal["full", "truncated"]:
    """Whether a loop of 70,000 iterations is run to its end; some drivers end it early and say nothing."""
    usage = wgpu.BufferUsage.STORAGE | wgpu.BufferUsage.COPY_SRC
    counted = device.create_buffer_with_data(data=np.array([0, LOOP_ITERATIONS, 0], dtype="<u4"), usage=usage)
    module = device.create_shader_module(code=LOOP_CANARY, label="loop canary")
    pipeline = device.create_compute_pipeline(layout="auto", compute={"module": module, "entry_point": "main"})
    entries = [{"binding": 0, "resource": {"buffer": counted, "offset": 0, "size": counted.size}}]
    group = device.create_bind_group(layout=pipeline.get_bind_group_layout(0), entries=entries)
    encoder = device.create_command_encoder()
    work = encoder.begin_compute_pass()
    work.set_pipeline(pipeline)
    work.set_bind_group(0, group)
    work.dispatch_workgroups(1)
    work.end()
    device.queue.submit([encoder.finish()])
    done = int(np.frombuffer(device.queue.read_buffer(counted), "<u4")[2])
    return "full" if done == LOOP_ITERATIONS else "truncated"


def _ms(begin_s: float, end_s: float) -> float:
    return round((end_s - begin_s) * 1000, 3)
