"""A slow, plain evaluator of `reference` lists in float64, written from docs/formats.md alone: it judges the importers.

It shares no code with the replay's engine, so that both can be held against each other and against onnxruntime.
"""

import math
from collections.abc import Callable, Mapping
from typing import Any

import numpy as np

from service.artifacts.reference_ops import ReferenceOp

Array = np.ndarray[Any, np.dtype[np.float64]]


def evaluate(operations: tuple[ReferenceOp, ...], given: Mapping[str, np.ndarray[Any, Any]]) -> dict[str, Array]:
    """All values by name, from the inputs and tensors given."""
    values: dict[str, Array] = {name: array.astype(np.float64) for name, array in given.items()}
    for operation in operations:
        values[operation.output] = _RULES[type(operation).__name__](operation, values)
    return values


def _conv2d(op: Any, v: Mapping[str, Array]) -> Array:
    x, w = v[op.input], v[op.weight]
    if op.layout == "NHWC":
        x, w = x.transpose(0, 3, 1, 2), w.transpose(3, 2, 0, 1)
    top, left, bottom, right = op.padding
    x = np.pad(x, ((0, 0), (0, 0), (top, bottom), (left, right)))
    (sy, sx), (dy, dx) = op.stride, op.dilation
    kh, kw = w.shape[2:]
    rows = (x.shape[2] - (kh - 1) * dy - 1) // sy + 1
    columns = (x.shape[3] - (kw - 1) * dx - 1) // sx + 1
    y = np.zeros((x.shape[0], w.shape[0], rows, columns))
    per_in, per_out = w.shape[1], w.shape[0] // op.groups
    for o in range(w.shape[0]):
        first = o // per_out * per_in
        for row in range(rows):
            for column in range(columns):
                place = x[:, first : first + per_in, row * sy :, column * sx :]
                patch = place[:, :, : (kh - 1) * dy + 1 : dy, : (kw - 1) * dx + 1 : dx]
                y[:, o, row, column] = (patch * w[o]).sum(axis=(1, 2, 3))
    if op.bias is not None:
        y += v[op.bias][:, None, None]
    return y.transpose(0, 2, 3, 1) if op.layout == "NHWC" else y


def _pool(op: Any, v: Mapping[str, Array]) -> Array:
    x = v[op.input]
    if op.layout == "NHWC":
        x = x.transpose(0, 3, 1, 2)
    top, left, bottom, right = op.padding
    x = np.pad(x, ((0, 0), (0, 0), (top, bottom), (left, right)), constant_values=np.nan)
    rows = (x.shape[2] - op.window[0]) // op.stride[0] + 1
    columns = (x.shape[3] - op.window[1]) // op.stride[1] + 1
    y = np.zeros((*x.shape[:2], rows, columns))
    for row in range(rows):
        for column in range(columns):
            at = (row * op.stride[0], column * op.stride[1])
            place = x[:, :, at[0] : at[0] + op.window[0], at[1] : at[1] + op.window[1]]
            if op.kind == "max":
                y[:, :, row, column] = np.nanmax(place, axis=(2, 3))
            elif op.counts_padding:
                y[:, :, row, column] = np.nansum(place, axis=(2, 3)) / math.prod(op.window)
            else:
                y[:, :, row, column] = np.nanmean(place, axis=(2, 3))
    return y.transpose(0, 2, 3, 1) if op.layout == "NHWC" else y


def _layer_norm(op: Any, v: Mapping[str, Array]) -> Array:
    x = v[op.input]
    axes = tuple(range(op.axis % x.ndim, x.ndim))
    centred = x - x.mean(axis=axes, keepdims=True)
    y: Array = centred / np.sqrt((centred**2).mean(axis=axes, keepdims=True) + op.epsilon) * v[op.scale]
    return y if op.bias is None else y + v[op.bias]


def _batch_norm(op: Any, v: Mapping[str, Array]) -> Array:
    x = v[op.input]
    shape = [-1 if axis == op.axis % x.ndim else 1 for axis in range(x.ndim)]
    mean, variance, scale, bias = (v[name].reshape(shape) for name in (op.mean, op.variance, op.scale, op.bias))
    y: Array = (x - mean) / np.sqrt(variance + op.epsilon) * scale + bias
    return y


def _softmax(op: Any, v: Mapping[str, Array]) -> Array:
    powers: Array = np.exp(v[op.input] - v[op.input].max(axis=op.axis, keepdims=True))
    y: Array = powers / powers.sum(axis=op.axis, keepdims=True)
    return y


def _gelu(op: Any, v: Mapping[str, Array]) -> Array:
    x = v[op.input]
    if op.approximate == "tanh":
        y: Array = 0.5 * x * (1 + np.tanh(np.sqrt(2 / np.pi) * (x + 0.044715 * x**3)))
    else:
        y = 0.5 * x * (1 + np.vectorize(math.erf)(x / math.sqrt(2)))
    return y


def _clip(op: Any, v: Mapping[str, Array]) -> Array:
    low = -np.inf if op.lowest is None else op.lowest
    return np.minimum(np.maximum(v[op.input], low), np.inf if op.highest is None else op.highest)


_ARITHMETIC: dict[str, Callable[[Array, Array], Array]] = {
    "add": np.add, "subtract": np.subtract, "multiply": np.multiply, "divide": np.divide,
}  # fmt: skip
_RULES: dict[str, Callable[[Any, Mapping[str, Array]], Array]] = {
    "Dense": lambda op, v: v[op.input] @ v[op.weight] + (0 if op.bias is None else v[op.bias]),
    "Conv2d": _conv2d,
    "Pool": _pool,
    "GlobalAveragePool": lambda op, v: v[op.input].mean(axis=(1, 2) if op.layout == "NHWC" else (2, 3), keepdims=True),
    "BatchNorm": _batch_norm,
    "LayerNorm": _layer_norm,
    "Relu": lambda op, v: np.maximum(v[op.input], 0),
    "LeakyRelu": lambda op, v: np.where(v[op.input] >= 0, v[op.input], op.alpha * v[op.input]),
    "Sigmoid": lambda op, v: 1 / (1 + np.exp(-v[op.input])),
    "Tanh": lambda op, v: np.tanh(v[op.input]),
    "Gelu": _gelu,
    "Clip": _clip,
    "Softmax": _softmax,
    "Arithmetic": lambda op, v: _ARITHMETIC[op.kind](v[op.left], v[op.right]),
    "Flatten": lambda op, v: v[op.input].reshape(*v[op.input].shape[: op.axis], -1),
    "Reshape": lambda op, v: v[op.input].reshape(len(v[op.input]), *op.shape),
    "Transpose": lambda op, v: v[op.input].transpose(op.permutation),
    "Concat": lambda op, v: np.concatenate([v[name] for name in op.inputs], axis=op.axis),
}
