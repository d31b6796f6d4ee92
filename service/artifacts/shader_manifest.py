"""`manifest.json` of a WGSL archive as records: shaders, buffers by role, ordered dispatches, limits, tolerance.

Only the shapes of the records are known here; `shader_archive` reads and checks them against the shader texts.
Field list: docs/formats.md, "WGSL archive".
"""

import base64
from typing import ClassVar, Final, Literal

import msgspec

FORMAT: Final = "retrace-wgsl"
FORMAT_VERSION: Final = 1
ITERATIONS_MAX = 60_000
"""Mesa's llvmpipe silently ends every loop of an invocation after 65,535 iterations in total."""
CONSTANT_BYTES_MAX = 4096

Expression = int | str
"""A number, or a text of `service.artifacts.expressions` over the manifest's symbols."""
Access = Literal["read", "read_write", "uniform"]
BufferDtype = Literal["f32", "i32", "u32"]


class _Record(msgspec.Struct, frozen=True, forbid_unknown_fields=True, rename="camel"):
    """A strict record: an unknown field is refused with its path."""


class Symbol(_Record, frozen=True):
    """A free size (`batch`). The host pads with zeros up to a multiple of `multiple_of` and crops the outputs."""

    max: int
    min: int = 1
    multiple_of: int = 1


class Shader(_Record, frozen=True):
    """One WGSL text: its member name in the archive, its digest and its size."""

    path: str
    sha256: str
    size_bytes: int


class Requires(_Record, frozen=True):
    """WebGPU features and limits beyond the defaults, by their WebGPU names (`maxStorageBufferBindingSize`)."""

    features: tuple[str, ...] = ()
    limits: dict[str, int] = {}


class _Buffer(_Record, frozen=True, tag_field="role", tag=""):
    """What every buffer has: nothing but its role."""


class WeightBuffer(_Buffer, frozen=True, tag="weight"):
    """A tensor of the checkpoint, as little-endian float32; `pad_to` appends zeros on each axis. Never writable."""

    role: ClassVar[str] = "weight"
    tensor: str
    shape: tuple[int, ...]
    dtype: Literal["f32"] = "f32"
    pad_to: tuple[int, ...] | None = None


class InputBuffer(_Buffer, frozen=True, tag="input"):
    """A module input (or observation), padded with zeros along the batch. Never writable."""

    role: ClassVar[str] = "input"
    name: str
    shape: tuple[Expression, ...]
    dtype: BufferDtype = "f32"


class OutputBuffer(_Buffer, frozen=True, tag="output"):
    """A module output; `crop` is the shape that is handed out of the larger buffer (same number of axes)."""

    role: ClassVar[str] = "output"
    name: str
    shape: tuple[Expression, ...]
    dtype: BufferDtype = "f32"
    crop: tuple[Expression, ...] | None = None


class ScratchBuffer(_Buffer, frozen=True, tag="scratch"):
    """Working memory of `size_bytes`, zero at the start of every replay."""

    role: ClassVar[str] = "scratch"
    size_bytes: Expression


class ConstantBuffer(_Buffer, frozen=True, tag="constant"):
    """Inline bytes (base64, at most 4 KiB). May be bound as a uniform. Never writable."""

    role: ClassVar[str] = "constant"
    base64: str

    def content(self) -> bytes:
        """The bytes themselves. Raises ValueError for a text that is not base64."""
        return base64.b64decode(self.base64, validate=True)


Buffer = WeightBuffer | InputBuffer | OutputBuffer | ScratchBuffer | ConstantBuffer


class Binding(_Record, frozen=True):
    """One `@group(g) @binding(b)` of the shader, tied to a buffer of the manifest."""

    group: int
    binding: int
    buffer: str
    access: Access


class Dispatch(_Record, frozen=True):
    """One compute dispatch. Dispatches run in order and each sees the writes of those before it.

    `constants` set the shader's `override` values; `max_iterations` bounds all loops of one invocation together.
    """

    shader: str
    bindings: tuple[Binding, ...]
    workgroups: tuple[Expression, Expression, Expression]
    max_iterations: Expression
    entry_point: str = "main"
    constants: dict[str, float | Expression] = {}


class Tolerance(_Record, frozen=True):
    """Largest accepted difference, relative to the largest magnitude of the reference output."""

    max_relative: float = 1e-5


class Manifest(_Record, frozen=True):
    """The whole manifest. Names are keys: `shaders`, `buffers` and `symbols` are looked up by them."""

    format: Literal["retrace-wgsl"]
    format_version: Literal[1]
    name: str
    symbols: dict[str, Symbol]
    shaders: dict[str, Shader]
    buffers: dict[str, Buffer]
    dispatches: tuple[Dispatch, ...]
    requires: Requires = Requires()
    tolerance: Tolerance = Tolerance()
