"""WGSL archive: a deterministic ZIP of `manifest.json` and `shaders/*.wgsl`. Read in memory, never extracted.

The digest of the ZIP's bytes is the archive's identity. This module joins container, manifest and shader texts and
checks them against each other; it touches no GPU. Byte map: docs/formats.md, "WGSL archive".
"""

import msgspec

from service.artifacts.shader_manifest import (
    Access,
    Binding,
    Buffer,
    ConstantBuffer,
    Dispatch,
    Expression,
    InputBuffer,
    Manifest,
    OutputBuffer,
    Requires,
    ScratchBuffer,
    Shader,
    Symbol,
    Tolerance,
    WeightBuffer,
)

__all__ = [
    "Access", "Binding", "Buffer", "ConstantBuffer", "Dispatch", "Expression", "InputBuffer", "Manifest",
    "OutputBuffer", "Requires", "ScratchBuffer", "Shader", "ShaderArchive", "Symbol", "Tolerance", "WeightBuffer",
]  # fmt: skip


class ShaderArchive(msgspec.Struct, frozen=True, kw_only=True):
    """A checked archive: its manifest, the WGSL texts by shader name, and the digest of its bytes."""

    manifest: Manifest
    sources: dict[str, str]
    sha256: str
