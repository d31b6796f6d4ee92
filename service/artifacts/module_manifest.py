"""`module.json` as records: what a model is, which tensors it owns, how it is scored and which files run it.

Only the shapes of the records are known here; `module_package` reads and writes them, `module_checks` holds the rules.
Field list: docs/formats.md, "Module package".
"""

import math
from typing import Final, Literal

import msgspec

from service.artifacts.reference_ops import ReferenceOp

FORMAT: Final = "retrace-module"
FORMAT_VERSION: Final = 1
BATCH: Final = "batch"
"""The one symbol a tensor's shape may hold; always axis 0."""

Direction = Literal["min", "max"]
ParameterDtype = Literal["F32", "F16", "BF16"]
ITEM_SIZE_BYTES: dict[str, int] = {"F32": 4, "F16": 2, "BF16": 2}


class _Record(msgspec.Struct, frozen=True, forbid_unknown_fields=True, rename="camel"):
    """A strict record: an unknown field is refused with its path."""


class TensorSpec(_Record, frozen=True):
    """One input, observation or output. `shape` has sizes, and `"batch"` as its first axis."""

    name: str
    shape: tuple[int | Literal["batch"], ...]
    dtype: Literal["f32", "i32", "u32"] = "f32"


class Parameter(_Record, frozen=True):
    """One trained tensor and where it lies in the flat vector that is averaged (`offset` in bytes)."""

    name: str
    shape: tuple[int, ...]
    offset: int
    dtype: ParameterDtype = "F32"

    @property
    def size_bytes(self) -> int:
        """Bytes of the tensor; () is a scalar of one element."""
        return math.prod(self.shape) * ITEM_SIZE_BYTES[self.dtype]


class AuxiliaryWeight(_Record, frozen=True):
    """A frozen or target tensor that takes no part in aggregation; its bytes are known by `sha256`."""

    name: str
    shape: tuple[int, ...]
    sha256: str
    dtype: ParameterDtype = "F32"
    trainable: Literal[False] = False

    @property
    def size_bytes(self) -> int:
        """Bytes of the tensor."""
        return math.prod(self.shape) * ITEM_SIZE_BYTES[self.dtype]


class OptimizerSpec(_Record, frozen=True):
    """The optimizer's kind and the bytes of its state beside the weights (opaque here)."""

    kind: str
    state_bytes: int


class Metric(_Record, frozen=True):
    """A score: its label, which direction is better and, where it can be computed again, how.

    Kinds that the replay knows: cross_entropy, accuracy, mse, mae, perplexity. Any other kind, or none, is shown as
    recorded and not recomputed. `output` names a module output, `target` a tensor of the validation artifact.
    """

    key: str
    label: str
    direction: Direction
    kind: str | None = None
    output: str | None = None
    target: str | None = None


class ModulePackage(_Record, frozen=True):
    """A checked module.json. `inputs` is the literal "none" when no data set feeds the model (reinforcement learning).

    `observations` says what such a model is called with; it is empty unless `inputs` is "none".
    `wasm` and `shader_archive` are digests, None when the package has no such file.
    """

    format: Literal["retrace-module"]
    format_version: Literal[1]
    name: str
    module_version: str
    inputs: tuple[TensorSpec, ...] | Literal["none"]
    outputs: tuple[TensorSpec, ...]
    parameters: tuple[Parameter, ...]
    parameter_bytes: int
    work_source: Literal["dataset", "experience"]
    observations: tuple[TensorSpec, ...] = ()
    optimizer: OptimizerSpec | None = None
    metrics: tuple[Metric, ...] = ()
    auxiliary_weights: tuple[AuxiliaryWeight, ...] = ()
    wasm: str | None = None
    shader_archive: str | None = None
    reference: tuple[ReferenceOp, ...] = ()

    @property
    def forward_inputs(self) -> tuple[TensorSpec, ...]:
        """What a forward pass is called with: the inputs, or the observations when `inputs` is "none"."""
        return self.observations if self.inputs == "none" else self.inputs

    def tensor_shapes(self) -> dict[str, tuple[int, ...]]:
        """Shapes of all tensors of the package by name: parameters, then auxiliary weights."""
        shapes = {parameter.name: parameter.shape for parameter in self.parameters}
        return shapes | {weight.name: weight.shape for weight in self.auxiliary_weights}

    def metric(self, key: str) -> Metric | None:
        """The metric with this key, None when the package has none."""
        return next((metric for metric in self.metrics if metric.key == key), None)
