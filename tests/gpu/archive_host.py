"""A small WebGPU host for WGSL archives, written from docs/formats.md alone: an independent judge of archives.

No limits, no splitting, no safety: it runs archives that these tests made themselves. The replay has its own host.
"""

import os
from collections.abc import Mapping
from functools import cache
from typing import Any

import numpy as np
import pytest

from service.artifacts.expressions import evaluate
from service.artifacts.shader_archive import (
    ConstantBuffer,
    Dispatch,
    InputBuffer,
    OutputBuffer,
    ScratchBuffer,
    ShaderArchive,
    WeightBuffer,
)

Array = np.ndarray[Any, Any]
DTYPES = {"f32": "<f4", "i32": "<i4", "u32": "<u4"}


@cache
def device() -> Any:
    """A device; the test is skipped where there is no adapter, where RETRACE_REQUIRE_ADAPTER=1 makes it fail."""
    import wgpu

    try:
        adapter = wgpu.gpu.request_adapter_sync()
    except RuntimeError as error:
        if os.environ.get("RETRACE_REQUIRE_ADAPTER") == "1":
            raise
        pytest.skip(f"no adapter: {error}")
    if adapter.info["backend_type"] not in ("Vulkan", "Metal", "D3D12"):
        assert os.environ.get("RETRACE_REQUIRE_ADAPTER") != "1", adapter.info
        pytest.skip(f"only an adapter of backend {adapter.info['backend_type']}")
    return adapter.request_device_sync()


def run_archive(
    archive: ShaderArchive, tensors: Mapping[str, Array], inputs: Mapping[str, Array], batch: int
) -> dict[str, Array]:
    """The outputs by name for one batch."""
    multiple = archive.manifest.symbols["batch"].multiple_of
    symbols = {"batch": -(-batch // multiple) * multiple}
    contents = {
        name: np.ascontiguousarray(_content(buffer, tensors, inputs, symbols))
        for name, buffer in archive.manifest.buffers.items()
    }
    held = {name: _upload(content) for name, content in contents.items()}
    modules = {name: device().create_shader_module(code=source, label=name) for name, source in archive.sources.items()}
    encoder = device().create_command_encoder()
    work = encoder.begin_compute_pass()
    for dispatch in archive.manifest.dispatches:
        _encode(work, modules[dispatch.shader], dispatch, held, symbols)
    work.end()
    device().queue.submit([encoder.finish()])
    outputs = {}
    for name, buffer in archive.manifest.buffers.items():
        if isinstance(buffer, OutputBuffer):
            whole = np.frombuffer(device().queue.read_buffer(held[name]), DTYPES[buffer.dtype])
            crop = [evaluate(size, {"batch": batch}) for size in buffer.crop or buffer.shape]
            outputs[buffer.name] = whole.reshape(contents[name].shape)[tuple(slice(size) for size in crop)]
    return outputs


def _content(buffer: Any, tensors: Mapping[str, Array], inputs: Mapping[str, Array], symbols: dict[str, int]) -> Array:
    if isinstance(buffer, WeightBuffer):
        content = np.zeros(buffer.pad_to or buffer.shape, dtype="<f4")
        content[tuple(slice(size) for size in buffer.shape)] = tensors[buffer.tensor]
        return content
    if isinstance(buffer, InputBuffer):
        content = np.zeros([evaluate(size, symbols) for size in buffer.shape], dtype=DTYPES[buffer.dtype])
        content[: len(inputs[buffer.name])] = inputs[buffer.name]
        return content
    if isinstance(buffer, OutputBuffer):
        return np.full([evaluate(size, symbols) for size in buffer.shape], -12345, dtype=DTYPES[buffer.dtype])
    if isinstance(buffer, ScratchBuffer):
        return np.zeros(evaluate(buffer.size_bytes, symbols) // 4, dtype="<f4")
    assert isinstance(buffer, ConstantBuffer)
    return np.frombuffer(buffer.content(), dtype="<u4")


def _upload(content: Array) -> Any:
    import wgpu

    usage = wgpu.BufferUsage.STORAGE | wgpu.BufferUsage.COPY_SRC | wgpu.BufferUsage.UNIFORM
    return device().create_buffer_with_data(data=content, usage=usage)


def _encode(work: Any, module: Any, dispatch: Dispatch, held: Mapping[str, Any], symbols: dict[str, int]) -> None:
    constants = {
        name: value if isinstance(value, float) else evaluate(value, symbols)
        for name, value in dispatch.constants.items()
    }
    compute = {"module": module, "entry_point": dispatch.entry_point, "constants": constants}
    pipeline = device().create_compute_pipeline(layout="auto", compute=compute)
    work.set_pipeline(pipeline)
    for group in {binding.group for binding in dispatch.bindings}:
        entries = [
            {"binding": binding.binding, "resource": {"buffer": held[binding.buffer]}}
            for binding in dispatch.bindings
            if binding.group == group
        ]
        layout = pipeline.get_bind_group_layout(group)
        work.set_bind_group(group, device().create_bind_group(layout=layout, entries=entries))
    work.dispatch_workgroups(*(evaluate(count, symbols) for count in dispatch.workgroups))
