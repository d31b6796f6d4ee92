"""Shapes through a `reference` list: what each operation makes of its inputs, and what does not fit.

A shape is a tuple of sizes whose axis 0 is the word "batch" for every computed value; tensors of the package have
sizes only. Raises ShapeError with the operation's number and output name.
"""

import math
from collections.abc import Callable, Mapping
from typing import Any

from service.artifacts.reference_ops import (
    Arithmetic,
    BatchNorm,
    Concat,
    Conv2d,
    Dense,
    Flatten,
    GlobalAveragePool,
    LayerNorm,
    Pool,
    ReferenceOp,
    Reshape,
    Softmax,
    Transpose,
)

Shape = tuple[int | str, ...]
BATCH = "batch"
SIZE_MAX = 2**31


class ShapeError(ValueError):
    """An operation whose inputs do not fit; the message names it."""


def infer_shapes(operations: tuple[ReferenceOp, ...], known: Mapping[str, Shape]) -> dict[str, Shape]:
    """Shapes of all values: those `known` (inputs and tensors) and each operation's output, in order."""
    shapes: dict[str, Shape] = dict(known)
    for index, operation in enumerate(operations):
        place = f"reference[{index}] ({operation.output!r})"
        if operation.output in shapes:
            raise ShapeError(f"{place}: a value of this name is there already")
        missing = [name for name in operation.reads if name not in shapes]
        if missing:
            raise ShapeError(f"{place}: reads {missing[0]!r}, which is no input, no tensor and no earlier output")
        try:
            shapes[operation.output] = output_shape(operation, shapes)
        except ShapeError as error:
            raise ShapeError(f"{place}: {error}") from None
    return shapes


def spatial_size(size: int, window: int, stride: int, before: int, after: int) -> int:
    """Positions of a window (its dilated length) along an axis, rounding down; 0 or less when it does not fit."""
    return (size + before + after - window) // stride + 1


def output_shape(operation: ReferenceOp, shapes: Mapping[str, Shape]) -> Shape:
    """Shape of one operation's output. Raises ShapeError when its inputs, all of them known, do not fit."""
    rule: Callable[[Any, Mapping[str, Shape]], Shape] = _RULES.get(type(operation), _unchanged)
    shape = rule(operation, shapes)
    if not shape or shape[0] != BATCH:
        raise ShapeError(f"the result {list(shape)} does not keep the batch as axis 0")
    if math.prod(size for size in shape if isinstance(size, int)) > SIZE_MAX:
        raise ShapeError(f"the result {list(shape)} has more than {SIZE_MAX} elements for each item of the batch")
    return shape


def _unchanged(operation: Any, shapes: Mapping[str, Shape]) -> Shape:
    return shapes[operation.input]


def _dense(operation: Dense, shapes: Mapping[str, Shape]) -> Shape:
    shape, weight = shapes[operation.input], _tensor(shapes[operation.weight], 2, operation.weight)
    if len(shape) < 2 or shape[-1] != weight[0]:
        raise ShapeError(f"input {list(shape)} does not meet weight {list(weight)}: wanted [..., k] and [k, n]")
    if operation.bias is not None:
        _require(shapes[operation.bias], (weight[1],), operation.bias)
    return (*shape[:-1], weight[1])


def _conv2d(operation: Conv2d, shapes: Mapping[str, Shape]) -> Shape:
    height, width, channels = _image(shapes[operation.input], operation.layout)
    weight = _tensor(shapes[operation.weight], 4, operation.weight)
    is_nhwc = operation.layout == "NHWC"
    kernel, per_group, out = (weight[:2], weight[2], weight[3]) if is_nhwc else (weight[2:], weight[1], weight[0])
    if operation.groups < 1 or per_group * operation.groups != channels or out % operation.groups:
        raise ShapeError(f"{channels} channels do not meet weight {list(weight)} in {operation.groups} groups")
    if operation.bias is not None:
        _require(shapes[operation.bias], (out,), operation.bias)
    window = tuple((size - 1) * step + 1 for size, step in zip(kernel, operation.dilation, strict=True))
    return _windows(height, width, out, window, operation)


def _pool(operation: Pool, shapes: Mapping[str, Shape]) -> Shape:
    height, width, channels = _image(shapes[operation.input], operation.layout)
    return _windows(height, width, channels, operation.window, operation)


def _windows(height: int, width: int, channels: int, window: tuple[int, ...], operation: Conv2d | Pool) -> Shape:
    (top, left, bottom, right), stride = operation.padding, operation.stride
    if min(operation.padding) < 0 or min(*window, *stride) < 1:
        raise ShapeError("wanted padding >= 0, and window, stride and dilation >= 1")
    if max(top, bottom) >= window[0] or max(left, right) >= window[1]:
        raise ShapeError(f"padding {list(operation.padding)} is as large as the window {list(window)}")
    rows = spatial_size(height, window[0], stride[0], top, bottom)
    columns = spatial_size(width, window[1], stride[1], left, right)
    if rows < 1 or columns < 1:
        raise ShapeError(f"a window of {list(window)} does not fit into {height} x {width} with its padding")
    return (BATCH, rows, columns, channels) if operation.layout == "NHWC" else (BATCH, channels, rows, columns)


def _global_average_pool(operation: GlobalAveragePool, shapes: Mapping[str, Shape]) -> Shape:
    _, _, channels = _image(shapes[operation.input], operation.layout)
    return (BATCH, 1, 1, channels) if operation.layout == "NHWC" else (BATCH, channels, 1, 1)


def _batch_norm(operation: BatchNorm, shapes: Mapping[str, Shape]) -> Shape:
    shape = shapes[operation.input]
    size = shape[_axis(operation.axis, shape)]
    for name in (operation.scale, operation.bias, operation.mean, operation.variance):
        _require(shapes[name], (size,), name)
    return shape


def _layer_norm(operation: LayerNorm, shapes: Mapping[str, Shape]) -> Shape:
    shape = shapes[operation.input]
    tail = shape[_axis(operation.axis, shape) :]
    for name in (operation.scale, operation.bias):
        if name is not None:
            _require(shapes[name], tail, name)
    return shape


def _softmax(operation: Softmax, shapes: Mapping[str, Shape]) -> Shape:
    shape = shapes[operation.input]
    _axis(operation.axis, shape)
    return shape


def _arithmetic(operation: Arithmetic, shapes: Mapping[str, Shape]) -> Shape:
    left, right = shapes[operation.left], shapes[operation.right]
    rank = max(len(left), len(right))
    pairs = zip((1,) * (rank - len(left)) + left, (1,) * (rank - len(right)) + right, strict=True)
    result: list[int | str] = []
    for one, other in pairs:
        if one not in (1, other) and other != 1:
            raise ShapeError(f"{list(left)} and {list(right)} cannot be broadcast together")
        result.append(other if one == 1 else one)
    return tuple(result)


def _flatten(operation: Flatten, shapes: Mapping[str, Shape]) -> Shape:
    shape = shapes[operation.input]
    axis = _axis(operation.axis, shape)
    return (*shape[:axis], math.prod(size for size in shape[axis:] if isinstance(size, int)))


def _reshape(operation: Reshape, shapes: Mapping[str, Shape]) -> Shape:
    shape = shapes[operation.input]
    count = math.prod(size for size in shape[1:] if isinstance(size, int))
    open_axes = [axis for axis, size in enumerate(operation.shape) if size == -1]
    fixed = math.prod(size for size in operation.shape if size != -1)
    if len(open_axes) > 1 or any(size < 1 and size != -1 for size in operation.shape):
        raise ShapeError(f"{list(operation.shape)}: wanted sizes >= 1 and at most one -1")
    if (count % fixed if open_axes else count != fixed) != 0:
        raise ShapeError(f"{list(shape)} cannot become [batch, {', '.join(map(str, operation.shape))}]")
    return (shape[0], *(count // fixed if size == -1 else size for size in operation.shape))


def _transpose(operation: Transpose, shapes: Mapping[str, Shape]) -> Shape:
    shape = shapes[operation.input]
    if sorted(operation.permutation) != list(range(len(shape))):
        raise ShapeError(f"{list(operation.permutation)} is no order of the {len(shape)} axes")
    return tuple(shape[axis] for axis in operation.permutation)


def _concat(operation: Concat, shapes: Mapping[str, Shape]) -> Shape:
    parts = [shapes[name] for name in operation.inputs]
    if not parts:
        raise ShapeError("wanted at least one input")
    axis = _axis(operation.axis, parts[0])
    rests = {(*part[:axis], *part[axis + 1 :]) for part in parts if len(part) == len(parts[0])}
    if len(rests) != 1 or any(len(part) != len(parts[0]) for part in parts):
        raise ShapeError(f"{[list(part) for part in parts]} differ in another axis than {axis}")
    total = sum(size for part in parts if isinstance(size := part[axis], int))
    return (*parts[0][:axis], total, *parts[0][axis + 1 :])


def _axis(axis: int, shape: Shape) -> int:
    """The axis counted from the front; never the batch."""
    found = axis + len(shape) if axis < 0 else axis
    if not 1 <= found < len(shape):
        raise ShapeError(f"axis {axis} of {list(shape)}: wanted one behind the batch")
    return found


def _image(shape: Shape, layout: str) -> tuple[int, int, int]:
    """(height, width, channels)."""
    sizes = [size for size in shape[1:] if isinstance(size, int)]
    if len(shape) != 4 or len(sizes) != 3:
        raise ShapeError(f"{list(shape)} is no image of layout {layout}")
    return (sizes[0], sizes[1], sizes[2]) if layout == "NHWC" else (sizes[1], sizes[2], sizes[0])


def _tensor(shape: Shape, rank: int, name: str) -> tuple[int, ...]:
    sizes = tuple(size for size in shape if isinstance(size, int))
    if len(shape) != rank or len(sizes) != rank:
        raise ShapeError(f"{name!r} has shape {list(shape)}, wanted a tensor with {rank} axes")
    return sizes


def _require(shape: Shape, wanted: Shape, name: str) -> None:
    if shape != wanted:
        raise ShapeError(f"{name!r} has shape {list(shape)}, wanted {list(wanted)}")


_RULES: dict[type[Any], Callable[[Any, Mapping[str, Shape]], Shape]] = {
    Dense: _dense, Conv2d: _conv2d, Pool: _pool, GlobalAveragePool: _global_average_pool, BatchNorm: _batch_norm,
    LayerNorm: _layer_norm, Softmax: _softmax, Arithmetic: _arithmetic, Flatten: _flatten, Reshape: _reshape,
    Transpose: _transpose, Concat: _concat,
}  # fmt: skip
