"""Words of wgpu: names of limits and binding types, the loop canary's text, and how its messages read. Pure.

Nothing is called here: `service.replay.gpu` alone imports wgpu.
"""

import re

LOOP_ITERATIONS = 70_000
"""More than a driver that ends loops early allows."""
LIMIT_NAMES = {
    "maxStorageBufferBindingSize": "max-storage-buffer-binding-size",
    "maxBufferSize": "max-buffer-size",
    "maxStorageBuffersPerShaderStage": "max-storage-buffers-per-shader-stage",
    "maxComputeInvocationsPerWorkgroup": "max-compute-invocations-per-workgroup",
    "maxComputeWorkgroupSizeX": "max-compute-workgroup-size-x",
    "maxComputeWorkgroupSizeY": "max-compute-workgroup-size-y",
    "maxComputeWorkgroupSizeZ": "max-compute-workgroup-size-z",
    "maxComputeWorkgroupsPerDimension": "max-compute-workgroups-per-dimension",
}
BINDING_TYPES = {"read": "read-only-storage", "read_write": "storage", "uniform": "uniform"}
LOOP_CANARY = """
@group(0) @binding(0) var<storage, read_write> counted: array<u32>;
@compute @workgroup_size(1)
fn main() {
  var count = 0u;
  for (var i = 0u; i < counted[1]; i++) { count = (count * 3u + i) & 0xffffu; counted[2] += 1u; }
  counted[0] = count;
}
"""


def with_place(text: str) -> str:
    """wgpu's compile error, its `wgsl:LINE:COLUMN` replaced by the shader's own path in the archive."""
    label = re.search(r"label = '([^']+)'", text)
    return text if label is None else re.sub(r"(?<=─ )wgsl(?=:[0-9])", lambda _: label[1], text)


def one_line(error: Exception) -> str:
    """wgpu's messages are several lines, with the cause in the last one."""
    return " ".join(str(error).split())
