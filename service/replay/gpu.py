"""Every call of wgpu: adapters, devices, pipelines. The one module that imports it; its callers see plain values."""

from typing import Any

import msgspec
import wgpu

IMPOSSIBLE_BUFFER_BYTES = 2**63 - 1
"""More than any device can address."""


class DeviceRefusal(msgspec.Struct, frozen=True):
    """Why no device was had: the error's own text. `has_gpu` is False for no adapter, and for one that is a CPU."""

    has_gpu: bool
    reason: str


def request_impossible_limit() -> DeviceRefusal:
    """Ask for a device with a limit that none has, and return the refusal. For showing what a refusal looks like."""
    try:
        adapter: Any = wgpu.gpu.request_adapter_sync()
    except RuntimeError as error:
        return DeviceRefusal(False, _one_line(error))
    try:
        adapter.request_device_sync(required_limits={"max-buffer-size": IMPOSSIBLE_BUFFER_BYTES})
    except RuntimeError as error:
        return DeviceRefusal(adapter.info["adapter_type"] != "CPU", _one_line(error))
    raise AssertionError(f"a device with buffers of {IMPOSSIBLE_BUFFER_BYTES} bytes was granted")


def _one_line(error: Exception) -> str:
    """wgpu's messages are several lines, with the cause in the last one."""
    return " ".join(str(error).split())
