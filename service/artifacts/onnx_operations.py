"""From ONNX nodes to the standard operations of a reference list, one rule for each operator. Pure.

Weights are laid out as the standard operations want them (a transposed Gemm weight is turned around once, here). An
operator, attribute or use that has no rule is refused by name, never approximated.
"""

import math
from collections.abc import Callable
from typing import Literal, TypeVar

import numpy as np

from service.artifacts.onnx_file import Node
from service.artifacts.onnx_translation import Translation, refused
from service.artifacts.reference_ops import (
    Arithmetic,
    BatchNorm,
    Clip,
    Concat,
    Conv2d,
    Dense,
    Flatten,
    Gelu,
    GlobalAveragePool,
    LayerNorm,
    LeakyRelu,
    Pool,
    ReferenceOp,
    Relu,
    Reshape,
    Sigmoid,
    Softmax,
    Tanh,
    Transpose,
)
from service.artifacts.reference_shapes import spatial_size

T = TypeVar("T", int, float, str, list[int])
ArithmeticKind = Literal["add", "subtract", "multiply", "divide"]
Padding = tuple[int, int, int, int]
OPSET_SOFTMAX_BY_AXIS = 13


def translate_node(to: Translation, node: Node) -> None:
    """Translates one node. Raises UnsupportedOperation, which names operator and node."""
    rule = _RULES.get(node.op_type) if node.domain in ("", "ai.onnx") else None
    if rule is None:
        raise refused(node, f"is not imported; imported are {', '.join(sorted(_RULES))}")
    if len([name for name in node.outputs if name]) != 1:
        raise refused(node, f"has {len(node.outputs)} outputs, wanted one")
    operation = rule(to, node)
    if operation is not None:
        to.add(node, operation)


def _attribute(node: Node, name: str, default: T, allowed: tuple[T, ...] | None = None) -> T:
    """The attribute, which has the default's type; refused when it has another or is none of those allowed."""
    value = node.attributes.get(name, default)
    if not isinstance(value, type(default)) or (allowed is not None and value not in allowed):
        wanted = f"one of {list(allowed)}" if allowed is not None else f"a value such as {default!r}"
        raise refused(node, f"has {name} = {value!r}, wanted {wanted}")
    return value


def _gemm(to: Translation, node: Node) -> ReferenceOp:
    _attribute(node, "transA", 0, (0,))
    alpha, beta = _attribute(node, "alpha", 1.0), _attribute(node, "beta", 1.0)
    weight, bias = to.constant(node, 1), to.constant(node, 2)
    if weight is None or weight.ndim != 2:
        raise refused(node, "wanted a weight with 2 axes")
    is_turned = bool(_attribute(node, "transB", 0, (0, 1)))
    with np.errstate(all="ignore"):  # weights may hold NaN and infinities: they are imported as they are
        weight = (weight.T if is_turned else weight) * np.float32(alpha)
    suffix = (".transposed" if is_turned else "") + ("" if alpha == 1.0 else ".scaled")
    bias_name = None
    if bias is not None:
        if (bias.ndim and bias.shape[-1] not in (1, weight.shape[1])) or bias.size not in (1, weight.shape[1]):
            raise refused(node, f"has a bias of shape {list(bias.shape)}, wanted [{weight.shape[1]}]")
        spread = np.broadcast_to(bias.reshape(-1), (weight.shape[1],)) * np.float32(beta)
        is_plain = bias.shape == spread.shape and beta == 1.0
        bias_name = to.tensor(node, 2, spread, "" if is_plain else ".spread")
    return Dense(
        input=to.value(node, 0), weight=to.tensor(node, 1, weight, suffix), bias=bias_name, output=node.outputs[0]
    )


def _matmul(to: Translation, node: Node) -> ReferenceOp:
    return Dense(input=to.value(node, 0), weight=to.tensor(node, 1), output=node.outputs[0])


def _conv(to: Translation, node: Node) -> ReferenceOp:
    weight = to.constant(node, 1)
    if weight is None or weight.ndim != 4:
        raise refused(node, "wanted a weight with 4 axes (a convolution over 2 image axes)")
    kernel = (weight.shape[2], weight.shape[3])
    stride, dilation = _pair(node, "strides"), _pair(node, "dilations")
    window = tuple((size - 1) * step + 1 for size, step in zip(kernel, dilation, strict=True))
    value = to.value(node, 0)
    return Conv2d(
        input=value, weight=to.tensor(node, 1), bias=_optional_tensor(to, node, 2),
        stride=stride, dilation=dilation, padding=_padding(to, node, value, window, stride),
        groups=_attribute(node, "group", 1), layout="NCHW", output=node.outputs[0],
    )  # fmt: skip


def _pool(kind: Literal["max", "average"]) -> "Rule":
    def rule(to: Translation, node: Node) -> ReferenceOp:
        _attribute(node, "storage_order", 0, (0,))
        _attribute(node, "dilations", [1, 1], ([1, 1],))
        window, stride, value = _pair(node, "kernel_shape"), _pair(node, "strides"), to.value(node, 0)
        padding = _padding(to, node, value, window, stride)
        if _attribute(node, "ceil_mode", 0):
            sizes = [size + padding[axis] + padding[2 + axis] for axis, size in enumerate(_image_size(to, node, value))]
            if any((size - length) % step for size, length, step in zip(sizes, window, stride, strict=True)):
                raise refused(node, "has ceil_mode = 1 where the windows do not fit exactly")
        return Pool(
            input=value, kind=kind, window=window, stride=stride, padding=padding,
            counts_padding=bool(_attribute(node, "count_include_pad", 0)), layout="NCHW", output=node.outputs[0],
        )  # fmt: skip

    return rule


def _global_average_pool(to: Translation, node: Node) -> ReferenceOp:
    return GlobalAveragePool(input=to.value(node, 0), layout="NCHW", output=node.outputs[0])


def _batch_norm(to: Translation, node: Node) -> ReferenceOp:
    _attribute(node, "training_mode", 0, (0,))
    scale, bias, mean, variance = (to.tensor(node, index) for index in range(1, 5))
    epsilon = _attribute(node, "epsilon", 1e-5)
    return BatchNorm(
        input=to.value(node, 0), scale=scale, bias=bias, mean=mean, variance=variance, epsilon=epsilon, axis=1,
        output=node.outputs[0],
    )  # fmt: skip


def _layer_norm(to: Translation, node: Node) -> ReferenceOp:
    return LayerNorm(
        input=to.value(node, 0), scale=to.tensor(node, 1),
        bias=_optional_tensor(to, node, 2),
        epsilon=_attribute(node, "epsilon", 1e-5), axis=_attribute(node, "axis", -1), output=node.outputs[0],
    )  # fmt: skip


def _unary(operation: type[Relu] | type[Sigmoid] | type[Tanh]) -> "Rule":
    def rule(to: Translation, node: Node) -> ReferenceOp:
        return operation(input=to.value(node, 0), output=node.outputs[0])

    return rule


def _leaky_relu(to: Translation, node: Node) -> ReferenceOp:
    return LeakyRelu(input=to.value(node, 0), alpha=_attribute(node, "alpha", 0.01), output=node.outputs[0])


def _gelu(to: Translation, node: Node) -> ReferenceOp:
    is_tanh = _attribute(node, "approximate", "none", ("none", "tanh")) == "tanh"
    return Gelu(input=to.value(node, 0), approximate="tanh" if is_tanh else "none", output=node.outputs[0])


def _softmax(to: Translation, node: Node) -> ReferenceOp:
    value = to.value(node, 0)
    rank = len(to.shapes[value])
    axis = _attribute(node, "axis", -1 if to.opset >= OPSET_SOFTMAX_BY_AXIS else 1)
    if to.opset < OPSET_SOFTMAX_BY_AXIS and axis not in (-1, rank - 1):
        raise refused(node, f"of operator set {to.opset} flattens its input from axis {axis} on, which is not imported")
    return Softmax(input=value, axis=axis, output=node.outputs[0])


def _clip(to: Translation, node: Node) -> ReferenceOp:
    limits = [node.attributes.get(name) for name in ("min", "max")]
    for index in (1, 2):
        given = to.constant(node, index)
        if given is not None and given.size != 1:
            raise refused(node, f"has a limit of shape {list(given.shape)}, wanted one number")
        limits[index - 1] = limits[index - 1] if given is None else float(given.reshape(-1)[0])
    # An infinite limit does not limit.
    lowest, highest = (limit if isinstance(limit, float) and math.isfinite(limit) else None for limit in limits)
    return Clip(input=to.value(node, 0), lowest=lowest, highest=highest, output=node.outputs[0])


def _arithmetic(kind: ArithmeticKind) -> "Rule":
    def rule(to: Translation, node: Node) -> ReferenceOp:
        sides = [
            to.tensor(node, index) if to.is_constant(to.name(node, index)) else to.value(node, index)
            for index in range(2)
        ]
        return Arithmetic(kind=kind, left=sides[0], right=sides[1], output=node.outputs[0])

    return rule


def _flatten(to: Translation, node: Node) -> ReferenceOp:
    _attribute(node, "axis", 1, (1,))
    return Flatten(input=to.value(node, 0), output=node.outputs[0])


def _reshape(to: Translation, node: Node) -> ReferenceOp:
    value, wanted = to.value(node, 0), to.constant(node, 1)
    shape = to.shapes[value]
    if wanted is None or wanted.dtype.kind != "i" or wanted.ndim != 1 or wanted.size < 1:
        raise refused(node, "wanted a constant list of sizes")
    sizes = [int(size) for size in wanted]
    allows_zero = bool(_attribute(node, "allowzero", 0))
    sizes = [
        int(shape[axis]) if size == 0 and axis and not allows_zero and axis < len(shape) else size
        for axis, size in enumerate(sizes)
    ]
    # The first size is the batch: -1, 0 (copied), or the 1 of a model that was exported for a single item.
    if sizes[0] not in (-1, 0, 1) or len(sizes) < 2:
        raise refused(node, f"to {sizes} moves the batch, wanted [batch, …]")
    return Reshape(input=value, shape=tuple(sizes[1:]), output=node.outputs[0])


def _transpose(to: Translation, node: Node) -> ReferenceOp:
    value = to.value(node, 0)
    order = _attribute(node, "perm", list(reversed(range(len(to.shapes[value])))))
    if not all(isinstance(axis, int) for axis in order):
        raise refused(node, f"has perm = {order!r}, wanted axes")
    return Transpose(input=value, permutation=tuple(order), output=node.outputs[0])


def _concat(to: Translation, node: Node) -> ReferenceOp:
    values = tuple(to.value(node, index) for index in range(len(node.inputs)))
    return Concat(inputs=values, axis=_attribute(node, "axis", 0), output=node.outputs[0])


def _identity(to: Translation, node: Node) -> None:
    if to.is_constant(to.name(node, 0)):
        to.set_constant(node.outputs[0], to.constant(node, 0))  # type: ignore[arg-type]  # it is there
        return
    to.renamed[node.outputs[0]] = to.value(node, 0)


def _constant(to: Translation, node: Node) -> None:
    value = node.attributes.get("value", node.attributes.get("value_float", node.attributes.get("value_int")))
    value = node.attributes.get("value_ints", node.attributes.get("value_floats")) if value is None else value
    if value is None or isinstance(value, str):
        raise refused(node, "holds neither a tensor nor numbers")
    array = np.asarray(value)
    to.set_constant(
        node.outputs[0], array.astype("<f4") if array.dtype == np.float64 and not _is_tensor(value) else array
    )


def _is_tensor(value: object) -> bool:
    return isinstance(value, np.ndarray)


def _optional_tensor(to: Translation, node: Node, index: int) -> str | None:
    return to.tensor(node, index) if to.name(node, index) else None


def _pair(node: Node, name: str) -> tuple[int, int]:
    default = None if name == "kernel_shape" else [1, 1]
    sizes = node.attributes.get(name, default)
    if not isinstance(sizes, list) or len(sizes) != 2:
        raise refused(node, f"has {name} = {sizes!r}, wanted two sizes")
    return int(sizes[0]), int(sizes[1])


def _padding(to: Translation, node: Node, value: str, window: tuple[int, ...], stride: tuple[int, int]) -> Padding:
    """(top, left, bottom, right): as written, or computed for auto_pad."""
    mode = _attribute(node, "auto_pad", "NOTSET", ("NOTSET", "VALID", "SAME_UPPER", "SAME_LOWER"))
    if mode == "NOTSET":
        pads = node.attributes.get("pads", [0, 0, 0, 0])
        if not isinstance(pads, list) or len(pads) != 4:
            raise refused(node, f"has pads = {pads!r}, wanted four")
        return int(pads[0]), int(pads[1]), int(pads[2]), int(pads[3])
    if mode == "VALID":
        return 0, 0, 0, 0
    sizes = _image_size(to, node, value)
    totals = [_same_total(sizes[axis], window[axis], stride[axis]) for axis in range(2)]
    before = [total // 2 if mode == "SAME_UPPER" else total - total // 2 for total in totals]
    return before[0], before[1], totals[0] - before[0], totals[1] - before[1]


def _image_size(to: Translation, node: Node, value: str) -> tuple[int, int]:
    shape = to.shapes[value]
    if len(shape) != 4:
        raise refused(node, f"reads {list(shape)}, wanted an image with 4 axes")
    return int(shape[2]), int(shape[3])


def _same_total(size: int, window: int, stride: int) -> int:
    """Padding of both ends together that makes ceil(size / stride) positions."""
    total = max(0, (-(-size // stride) - 1) * stride + window - size)
    assert spatial_size(size, window, stride, total, 0) == -(-size // stride)
    return total


Rule = Callable[[Translation, Node], ReferenceOp | None]
_RULES: dict[str, Rule] = {
    "Gemm": _gemm, "MatMul": _matmul, "Conv": _conv, "MaxPool": _pool("max"), "AveragePool": _pool("average"),
    "GlobalAveragePool": _global_average_pool, "BatchNormalization": _batch_norm, "LayerNormalization": _layer_norm,
    "Relu": _unary(Relu), "Sigmoid": _unary(Sigmoid), "Tanh": _unary(Tanh), "LeakyRelu": _leaky_relu, "Gelu": _gelu,
    "Softmax": _softmax, "Clip": _clip, "Add": _arithmetic("add"), "Sub": _arithmetic("subtract"),
    "Mul": _arithmetic("multiply"), "Div": _arithmetic("divide"), "Flatten": _flatten, "Reshape": _reshape,
    "Transpose": _transpose, "Concat": _concat, "Identity": _identity, "Dropout": _identity, "Constant": _constant,
}  # fmt: skip
