"""The standard operations that a module package may list under `reference`, as typed records; nothing is computed here.

The list is a program in single-assignment form: an operation reads values by name (module inputs, parameters,
auxiliary weights, outputs of earlier operations) and names its one output. The numpy engine (`service.replay`)
executes it; `service.artifacts.reference_shapes` checks it. Every operation is float32 and row-major, the batch is
axis 0 of every computed value.
"""

from typing import ClassVar, Literal

import msgspec

Layout = Literal["NHWC", "NCHW"]
"""Axis order of image values. NHWC weights are [kh, kw, in/groups, out]; NCHW weights are [out, in/groups, kh, kw]."""


class Operation(
    msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True, rename="camel", tag_field="op", tag=""
):
    """What every operation has: one output, whose name no other value bears."""

    output: str

    @property
    def reads(self) -> tuple[str, ...]:
        """Names of the values and tensors read, in the order of the fields; absent optional ones left out."""
        names = (getattr(self, field) for field in self._read_fields)
        return tuple(name for name in names if name is not None)

    _read_fields: ClassVar[tuple[str, ...]] = ("input",)


class Dense(Operation, frozen=True, tag="dense"):
    """`input @ weight + bias`: the last axis of input [..., k] meets weight [k, n]; bias [n] or absent."""

    input: str
    weight: str
    bias: str | None = None
    _read_fields: ClassVar[tuple[str, ...]] = ("input", "weight", "bias")


class Conv2d(Operation, frozen=True, tag="conv2d"):
    """Cross-correlation over an image. `padding` is (top, left, bottom, right), zeros; output size rounds down."""

    input: str
    weight: str
    bias: str | None = None
    stride: tuple[int, int] = (1, 1)
    padding: tuple[int, int, int, int] = (0, 0, 0, 0)
    dilation: tuple[int, int] = (1, 1)
    groups: int = 1
    layout: Layout = "NHWC"
    _read_fields: ClassVar[tuple[str, ...]] = ("input", "weight", "bias")


class Pool(Operation, frozen=True, tag="pool"):
    """Largest or mean value of each window. Padding never wins a maximum; a mean counts it when `counts_padding`."""

    input: str
    kind: Literal["max", "average"]
    window: tuple[int, int]
    stride: tuple[int, int]
    padding: tuple[int, int, int, int] = (0, 0, 0, 0)
    counts_padding: bool = False
    layout: Layout = "NHWC"


class GlobalAveragePool(Operation, frozen=True, tag="global_average_pool"):
    """Mean over both image axes, which stay as axes of length 1."""

    input: str
    layout: Layout = "NHWC"


class BatchNorm(Operation, frozen=True, tag="batch_norm"):
    """`(input - mean) / sqrt(variance + epsilon) * scale + bias` for each index of `axis` (inference form)."""

    input: str
    scale: str
    bias: str
    mean: str
    variance: str
    epsilon: float = 1e-5
    axis: int = 1
    _read_fields: ClassVar[tuple[str, ...]] = ("input", "scale", "bias", "mean", "variance")


class LayerNorm(Operation, frozen=True, tag="layer_norm"):
    """Normalisation over the axes from `axis` to the last (variance divides by n), then `* scale + bias`."""

    input: str
    scale: str
    bias: str | None = None
    epsilon: float = 1e-5
    axis: int = -1
    _read_fields: ClassVar[tuple[str, ...]] = ("input", "scale", "bias")


class Relu(Operation, frozen=True, tag="relu"):
    """`max(input, 0)`."""

    input: str


class LeakyRelu(Operation, frozen=True, tag="leaky_relu"):
    """`input` where it is >= 0, else `alpha * input`."""

    input: str
    alpha: float = 0.01


class Sigmoid(Operation, frozen=True, tag="sigmoid"):
    """`1 / (1 + exp(-input))`."""

    input: str


class Tanh(Operation, frozen=True, tag="tanh"):
    """`tanh(input)`."""

    input: str


class Gelu(Operation, frozen=True, tag="gelu"):
    """`input * Phi(input)`: exact by the error function, or the tanh approximation."""

    input: str
    approximate: Literal["none", "tanh"] = "none"


class Clip(Operation, frozen=True, tag="clip"):
    """`min(max(input, lowest), highest)`; an absent limit does not limit."""

    input: str
    lowest: float | None = None
    highest: float | None = None


class Softmax(Operation, frozen=True, tag="softmax"):
    """`exp(x - max) / sum(exp(x - max))` along one axis."""

    input: str
    axis: int = -1


class Arithmetic(Operation, frozen=True, tag="arithmetic"):
    """Element by element with numpy's broadcasting. Either side may be a computed value or a tensor of the package."""

    kind: Literal["add", "subtract", "multiply", "divide"]
    left: str
    right: str
    _read_fields: ClassVar[tuple[str, ...]] = ("left", "right")


class Flatten(Operation, frozen=True, tag="flatten"):
    """Axes from `axis` on become one: [batch, a, b] gives [batch, ab]. `axis` >= 1, so the batch stays axis 0."""

    input: str
    axis: int = 1


class Reshape(Operation, frozen=True, tag="reshape"):
    """New axes after the batch: `shape` lists the sizes without axis 0 (one of them may be -1)."""

    input: str
    shape: tuple[int, ...]


class Transpose(Operation, frozen=True, tag="transpose"):
    """Axes in another order; `permutation` keeps axis 0, the batch, in front."""

    input: str
    permutation: tuple[int, ...]


class Concat(Operation, frozen=True, tag="concat"):
    """Joins values along one axis (never the batch)."""

    inputs: tuple[str, ...]
    axis: int = -1

    @property
    def reads(self) -> tuple[str, ...]:
        """The joined values, in order."""
        return self.inputs


ReferenceOp = (
    Dense | Conv2d | Pool | GlobalAveragePool | BatchNorm | LayerNorm | Relu | LeakyRelu | Sigmoid | Tanh | Gelu
    | Clip | Softmax | Arithmetic | Flatten | Reshape | Transpose | Concat
)  # fmt: skip
