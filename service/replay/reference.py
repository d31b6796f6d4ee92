"""The numpy engine: a module's `reference` list run in float32 (an engine) or float64 (the judge of all engines).

Rows are run in parts, so that the values of all layers stay within a budget. Every value of a finished part is counted
for non-finite numbers. Shapes were checked by `service.artifacts.reference_shapes` when the module was read.
"""

import math
from collections.abc import Callable, Mapping
from typing import Any, NamedTuple

import numpy as np

from service.artifacts.module_package import BATCH, ModulePackage
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
    Relu,
    Reshape,
    Sigmoid,
    Softmax,
    Tanh,
    Transpose,
)
from service.artifacts.reference_shapes import Shape, infer_shapes
from service.artifacts.tensor_file import Array
from service.replay.judgement import Rows, refused

VALUES_MAX = 32 * 1024 * 1024
"""How many numbers the layers of one part may hold together."""

Values = Mapping[str, Array]


class ReferenceRun(NamedTuple):
    """Outputs by name, in the dtype asked for, and non-finite numbers by layer (only layers that have any)."""

    outputs: dict[str, Array]
    non_finite: dict[str, int]
    rows: Rows


def run_reference(
    module: ModulePackage, tensors: Values, inputs: Values, dtype: type[np.floating[Any]]
) -> ReferenceRun:
    """The module's outputs for the inputs, each [rows, …]. Raises ReplayEnded (refused) for a row over the budget."""
    rows = len(next(iter(inputs.values())))
    rows_per_part = _rows_per_part(module, rows)
    fixed = {name: np.asarray(tensor, dtype=dtype) for name, tensor in tensors.items()}
    names = [output.name for output in module.outputs]
    parts: dict[str, list[Array]] = {name: [] for name in names}
    non_finite: dict[str, int] = {}
    for start in range(0, rows, rows_per_part):
        values = dict(fixed)
        for name, whole in inputs.items():
            values[name] = np.asarray(whole[start : start + rows_per_part], dtype=dtype)
        with np.errstate(all="ignore"):  # NaN and infinities are findings here, not accidents
            for operation in module.reference:
                value = _RULES[type(operation)](operation, values)
                values[operation.output] = value
                bad = int(value.size - np.count_nonzero(np.isfinite(value)))
                if bad:
                    non_finite[operation.output] = non_finite.get(operation.output, 0) + bad
        for name in names:
            parts[name].append(values[name])
    outputs = {name: np.concatenate(found) for name, found in parts.items()}
    return ReferenceRun(outputs, non_finite, Rows(rows, -(-rows // rows_per_part), rows_per_part))


def _rows_per_part(module: ModulePackage, rows: int) -> int:
    known: dict[str, Shape] = {spec.name: spec.shape for spec in module.forward_inputs}
    shapes = infer_shapes(module.reference, known | dict(module.tensor_shapes()))
    per_row = sum(
        math.prod(size for size in shape if isinstance(size, int)) for shape in shapes.values() if shape[:1] == (BATCH,)
    )
    if per_row > VALUES_MAX:
        raise refused("over_limits", f"one row needs {per_row} numbers in all layers, wanted at most {VALUES_MAX}")
    return max(1, min(rows, VALUES_MAX // max(per_row, 1)))


def _dense(op: Dense, v: Values) -> Array:
    y: Array = v[op.input] @ v[op.weight]
    return y if op.bias is None else y + v[op.bias]


def _conv2d(op: Conv2d, v: Values) -> Array:
    """Every window as a row (im2col), met with the weights of its group by one matrix product for each group."""
    x, w = v[op.input], v[op.weight]
    if op.layout == "NCHW":
        x, w = x.transpose(0, 2, 3, 1), w.transpose(2, 3, 1, 0)
    kh, kw, per_group, out = w.shape
    windows = _windows(x, (kh, kw), op, fill=0.0)
    n, rows, columns = windows.shape[:3]
    of_group = out // op.groups
    y = np.empty((n, rows, columns, out), dtype=x.dtype)
    for group in range(op.groups):
        patch = windows[..., group * per_group : (group + 1) * per_group]
        flat = patch.reshape(n * rows * columns, kh * kw * per_group)
        place = slice(group * of_group, (group + 1) * of_group)
        y[..., place] = (flat @ w[..., place].reshape(-1, of_group)).reshape(n, rows, columns, of_group)
    if op.bias is not None:
        y += v[op.bias]
    return y.transpose(0, 3, 1, 2) if op.layout == "NCHW" else y


def _windows(x: Array, window: tuple[int, int], op: Conv2d | Pool, fill: float) -> Array:
    """[n, rows, columns, window rows, window columns, channels] of an NHWC image, padded with `fill`."""
    top, left, bottom, right = op.padding
    dilation = op.dilation if isinstance(op, Conv2d) else (1, 1)
    if any(op.padding):
        x = np.pad(x, ((0, 0), (top, bottom), (left, right), (0, 0)), constant_values=fill)
    span = tuple((size - 1) * step + 1 for size, step in zip(window, dilation, strict=True))
    view = np.lib.stride_tricks.sliding_window_view(x, span, axis=(1, 2))
    picked = view[:, :: op.stride[0], :: op.stride[1], :, :: dilation[0], :: dilation[1]]
    found: Array = picked.transpose(0, 1, 2, 4, 5, 3)
    return found


def _pool(op: Pool, v: Values) -> Array:
    x = v[op.input].transpose(0, 2, 3, 1) if op.layout == "NCHW" else v[op.input]
    if op.kind == "max":
        y: Array = _windows(x, op.window, op, fill=-np.inf).max(axis=(3, 4))
    else:
        y = _windows(x, op.window, op, fill=0.0).sum(axis=(3, 4))
        y = y / _window_sizes(x, op)
    return y.transpose(0, 3, 1, 2) if op.layout == "NCHW" else y


def _window_sizes(x: Array, op: Pool) -> Array:
    """By how much each window's sum is divided: its whole size, or the part of it that is no padding."""
    if op.counts_padding or not any(op.padding):
        return np.asarray(math.prod(op.window), dtype=x.dtype)
    inside = np.ones((1, *x.shape[1:3], 1), dtype=x.dtype)
    sizes: Array = _windows(inside, op.window, op, fill=0.0).sum(axis=(3, 4))
    return sizes


def _global_average_pool(op: GlobalAveragePool, v: Values) -> Array:
    y: Array = v[op.input].mean(axis=(1, 2) if op.layout == "NHWC" else (2, 3), keepdims=True)
    return y


def _batch_norm(op: BatchNorm, v: Values) -> Array:
    x = v[op.input]
    shape = [-1 if axis == op.axis % x.ndim else 1 for axis in range(x.ndim)]
    mean, variance, scale, bias = (v[name].reshape(shape) for name in (op.mean, op.variance, op.scale, op.bias))
    y: Array = (x - mean) / np.sqrt(variance + x.dtype.type(op.epsilon)) * scale + bias
    return y


def _layer_norm(op: LayerNorm, v: Values) -> Array:
    x = v[op.input]
    axes = tuple(range(op.axis % x.ndim, x.ndim))
    centred = x - x.mean(axis=axes, keepdims=True)
    variance = np.square(centred).mean(axis=axes, keepdims=True)
    y: Array = centred / np.sqrt(variance + x.dtype.type(op.epsilon)) * v[op.scale]
    return y if op.bias is None else y + v[op.bias]


def _leaky_relu(op: LeakyRelu, v: Values) -> Array:
    x = v[op.input]
    return np.where(x < 0, x * x.dtype.type(op.alpha), x)


def _gelu(op: Gelu, v: Values) -> Array:
    x = v[op.input]
    if op.approximate == "tanh":
        inner = x.dtype.type(math.sqrt(2 / math.pi)) * (x + x.dtype.type(0.044715) * x**3)
        y: Array = x.dtype.type(0.5) * x * (1 + np.tanh(inner))
        return y
    # numpy has no error function; the standard library's is exact to the last digits of float64.
    scaled = (x.astype(np.float64) / math.sqrt(2)).ravel()
    erf = np.fromiter(map(math.erf, scaled.tolist()), np.float64, scaled.size).reshape(x.shape)
    exact: Array = (x * (0.5 * (1 + erf))).astype(x.dtype)
    return exact


def _clip(op: Clip, v: Values) -> Array:
    x = v[op.input]
    low = x if op.lowest is None else np.maximum(x, x.dtype.type(op.lowest))
    y: Array = low if op.highest is None else np.minimum(low, x.dtype.type(op.highest))
    return y


def _softmax(op: Softmax, v: Values) -> Array:
    x = v[op.input]
    powers = np.exp(x - x.max(axis=op.axis, keepdims=True))
    y: Array = powers / powers.sum(axis=op.axis, keepdims=True)
    return y


def _arithmetic(op: Arithmetic, v: Values) -> Array:
    return _ARITHMETIC[op.kind](v[op.left], v[op.right])


def _reshape(op: Reshape, v: Values) -> Array:
    return v[op.input].reshape(len(v[op.input]), *op.shape)


def _flatten(op: Flatten, v: Values) -> Array:
    x = v[op.input]
    return x.reshape(*x.shape[: op.axis], math.prod(x.shape[op.axis :]))


_ARITHMETIC: dict[str, Callable[[Array, Array], Array]] = {
    "add": np.add, "subtract": np.subtract, "multiply": np.multiply, "divide": np.divide,
}  # fmt: skip
_RULES: dict[type, Callable[[Any, Values], Array]] = {
    Dense: _dense,
    Conv2d: _conv2d,
    Pool: _pool,
    GlobalAveragePool: _global_average_pool,
    BatchNorm: _batch_norm,
    LayerNorm: _layer_norm,
    Relu: lambda op, v: np.maximum(v[op.input], 0),
    LeakyRelu: _leaky_relu,
    Sigmoid: lambda op, v: 1 / (1 + np.exp(-v[op.input])),
    Tanh: lambda op, v: np.tanh(v[op.input]),
    Gelu: _gelu,
    Clip: _clip,
    Softmax: _softmax,
    Arithmetic: _arithmetic,
    Flatten: _flatten,
    Reshape: _reshape,
    Transpose: lambda op, v: v[op.input].transpose(op.permutation),
    Concat: lambda op, v: np.concatenate([v[name] for name in op.inputs], axis=op.axis),
}
