"""From the `reference` list of a module to a WGSL archive for it: a dispatch for each operation, texts for its shapes.

A rectifier right behind a dense layer or a convolution is computed with it. A dense layer whose sizes are multiples of
4 runs on the blocked kernel; the last one may pad its outputs. Flatten and Reshape move nothing: their output is the
same buffer. What an archive cannot hold (too long loops) is refused when the archive is written.
"""

import math
from collections.abc import Callable
from typing import Any

from service.artifacts import wgsl_operations as text
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
    ReferenceOp,
    Relu,
    Reshape,
    Sigmoid,
    Softmax,
    Tanh,
    Transpose,
)
from service.artifacts.reference_shapes import Shape, infer_shapes
from service.artifacts.shader_archive import (
    Binding,
    Buffer,
    Dispatch,
    Expression,
    InputBuffer,
    Manifest,
    OutputBuffer,
    ScratchBuffer,
    Symbol,
    WeightBuffer,
    write_shader_archive,
)
from service.artifacts.shader_manifest import FORMAT, FORMAT_VERSION
from service.artifacts.wgsl_kernels import ROWS, dense_shader

BATCH_MAX = 4096
BLOCK = 4


def compile_module(module: ModulePackage) -> bytes:
    """The archive's bytes. Raises MalformedShaderArchive for operations beyond an archive's limits."""
    compiler = _Compiler(module)
    for operation in module.reference:
        compiler.add(operation)
    manifest = Manifest(
        format=FORMAT, format_version=FORMAT_VERSION, name=module.name,
        symbols={BATCH: Symbol(max=BATCH_MAX, multiple_of=ROWS)},
        shaders={}, buffers=compiler.buffers, dispatches=tuple(compiler.dispatches),
    )  # fmt: skip
    return write_shader_archive(manifest, {name: source for source, name in compiler.names.items()})


class _Compiler:
    """The growing manifest. `buffer_of`: the buffer that holds a value; `names`: the shader that holds a text."""

    def __init__(self, module: ModulePackage) -> None:
        self.shapes: dict[str, Shape] = infer_shapes(
            module.reference, dict(module.tensor_shapes()) | {spec.name: spec.shape for spec in module.forward_inputs}
        )
        self.module = module
        self.tensors = module.tensor_shapes()
        self.outputs = {spec.name: spec for spec in module.outputs}
        self.inputs = {spec.name: spec for spec in module.forward_inputs}
        self.readers: dict[str, list[ReferenceOp]] = {}
        for operation in module.reference:
            for name in operation.reads:
                self.readers.setdefault(name, []).append(operation)
        self.buffers: dict[str, Buffer] = {}
        self.dispatches: list[Dispatch] = []
        self.names: dict[str, str] = {}
        self.buffer_of: dict[str, str] = {}
        self.done: set[str] = set()

    def add(self, operation: ReferenceOp) -> None:
        """One operation: a dispatch, an alias, or nothing when the one before computed it already."""
        if operation.output in self.done:
            return
        rule: Callable[[Any, Any], None] = _RULES[type(operation)]
        rule(self, operation)

    def item(self, value: str) -> tuple[int, ...]:
        """The shape of one item of a computed value, or of a tensor."""
        return tuple(size for size in self.shapes[value] if isinstance(size, int))

    def count(self, value: str) -> int:
        """How many numbers one item of the value, or the tensor, has."""
        return math.prod(self.item(value))

    def rectified(self, operation: Dense | Conv2d) -> tuple[str, str]:
        """(activation, name of the value made): with the rectifier behind it where that is the only reader."""
        readers = self.readers.get(operation.output, [])
        if operation.output not in self.outputs and len(readers) == 1 and isinstance(readers[0], Relu):
            self.done.add(readers[0].output)
            return text.ACTIVATIONS["relu"], readers[0].output
        return text.ACTIVATIONS["identity"], operation.output

    def read(self, value: str, pad_to: tuple[int, ...] | None = None) -> str:
        """The buffer that holds a value or tensor; inputs and tensors get theirs when they are first read."""
        if value in self.buffer_of and pad_to is None:
            return self.buffer_of[value]
        buffer: Buffer
        if value in self.tensors:
            shape = self.tensors[value] or (1,)
            buffer = WeightBuffer(tensor=value, shape=self.tensors[value], pad_to=pad_to if pad_to != shape else None)
        else:
            buffer = InputBuffer(name=value, shape=self.inputs[value].shape, dtype=self.inputs[value].dtype)
        name = f"{value}.padded" if pad_to is not None else value
        self.buffers[name] = buffer
        if pad_to is None:
            self.buffer_of[value] = name
        return name

    def write(self, value: str, padded: tuple[Expression, ...] | None = None) -> str:
        """A new buffer for a value: an output's own, else scratch. The value may reach an output through aliases."""
        output = next((name for name in self.aliases(value) if name in self.outputs), None)
        if output is not None:
            shape = self.outputs[output].shape
            self.buffers[value] = OutputBuffer(
                name=output,
                shape=padded or shape,
                crop=None if padded is None else shape,
                dtype=self.outputs[output].dtype,
            )
        else:
            self.buffers[value] = ScratchBuffer(size_bytes=f"{BATCH} * {4 * self.count(value)}")
        self.buffer_of[value] = value
        return value

    def aliases(self, value: str) -> list[str]:
        """The value and everything that Flatten and Reshape make of it."""
        found = [value]
        for name in found:
            found += [reader.output for reader in self.readers.get(name, []) if isinstance(reader, Flatten | Reshape)]
        return found

    def dispatch(self, source: str, reads: list[str], output: str, count: int, iterations: int, **changes: Any) -> None:
        """Binds reads from 0 on, the output last. `count` invocations for each item, unless `changes` say otherwise."""
        name = self.names.setdefault(source, f"op{len(self.names):03}")
        bindings = [Binding(group=0, binding=n, buffer=buffer, access="read") for n, buffer in enumerate(reads)]
        bindings.append(Binding(group=0, binding=len(reads), buffer=output, access="read_write"))
        groups: tuple[Expression, Expression, Expression] = (math.ceil(count / text.WORKGROUP), BATCH, 1)
        fields: dict[str, Any] = {"workgroups": groups, "max_iterations": iterations} | changes
        self.dispatches.append(Dispatch(shader=name, bindings=tuple(bindings), **fields))


def _dense(to: _Compiler, operation: Dense) -> None:
    inner, outer = to.tensors[operation.weight]
    rows = to.count(operation.input) // inner
    activation, made = to.rectified(operation)
    may_pad = rows == 1 and made in to.outputs and not to.readers.get(made)
    if inner % BLOCK == 0 and operation.bias is not None and (outer % BLOCK == 0 or may_pad):
        _blocked_dense(to, operation, made, activation, rows)
        return
    names = [operation.input, operation.weight] + ([] if operation.bias is None else [operation.bias])
    source = text.dense(inner, outer, rows, operation.bias is not None, activation)
    to.dispatch(source, [to.read(name) for name in names], to.write(made), rows * outer, inner)


def _blocked_dense(to: _Compiler, operation: Dense, made: str, activation: str, rows: int) -> None:
    """8 rows by 4 or 8 outputs in each invocation; outputs that are no multiple of 4 are padded and cropped."""
    inner, outer = to.tensors[operation.weight]
    wide = math.ceil(outer / BLOCK) * BLOCK
    columns = 2 if wide % 8 == 0 else 1
    padded = None if wide == outer else (wide,)
    reads = [
        to.read(operation.input),
        to.read(operation.weight, None if padded is None else (inner, wide)),
        to.read(operation.bias or "", padded),
    ]
    output = to.write(made, None if padded is None else (BATCH, wide))
    to.dispatch(
        dense_shader(columns), reads, output, 0, inner // BLOCK,
        constants={"K4": inner // BLOCK, "N4": wide // BLOCK, "RELU": int(activation != text.ACTIVATIONS["identity"])},
        workgroups=(math.ceil(wide / BLOCK / columns / 8), f"ceilDiv({BATCH} / {ROWS} * {rows}, 8)", 1),
    )  # fmt: skip


def _conv2d(to: _Compiler, operation: Conv2d) -> None:
    activation, made = to.rectified(operation)
    weight = to.tensors[operation.weight]
    is_nhwc = operation.layout == "NHWC"
    kernel, outputs = (weight[:2], weight[3]) if is_nhwc else (weight[2:], weight[0])
    window = _window(to, operation, (kernel[0], kernel[1]), operation.dilation)
    names = [operation.input, operation.weight] + ([] if operation.bias is None else [operation.bias])
    source = text.conv2d(window, outputs, operation.groups, operation.bias is not None, activation)
    count = to.count(made) // text.conv_block(outputs, operation.groups)
    iterations = window.channels // operation.groups * kernel[0] * kernel[1]
    to.dispatch(source, [to.read(name) for name in names], to.write(made), count, iterations)


def _pool(to: _Compiler, operation: Pool) -> None:
    window = _window(to, operation, operation.window, (1, 1))
    source = text.pool(window, operation.kind, operation.counts_padding)
    iterations = operation.window[0] * operation.window[1]
    to.dispatch(source, [to.read(operation.input)], to.write(operation.output), to.count(operation.output), iterations)


def _global_average_pool(to: _Compiler, operation: GlobalAveragePool) -> None:
    sizes = to.item(operation.input)
    is_nhwc = operation.layout == "NHWC"
    (height, width), channels = (sizes[:2], sizes[2]) if is_nhwc else (sizes[1:], sizes[0])
    window = text.WindowShape(
        channels, height, width, 1, 1, (height, width), (1, 1), (0, 0, 0, 0), (1, 1), is_nhwc
    )  # fmt: skip
    source = text.pool(window, "average", counts_padding=False)
    to.dispatch(source, [to.read(operation.input)], to.write(operation.output), channels, height * width)


def _window(
    to: _Compiler, operation: Conv2d | Pool, window: tuple[int, int], dilation: tuple[int, int]
) -> text.WindowShape:
    sizes, result = to.item(operation.input), to.item(operation.output)
    is_nhwc = operation.layout == "NHWC"
    (height, width), channels = (sizes[:2], sizes[2]) if is_nhwc else (sizes[1:], sizes[0])
    rows, columns = result[:2] if is_nhwc else result[1:]
    return text.WindowShape(
        channels, height, width, rows, columns, window, operation.stride, operation.padding, dilation, is_nhwc
    )


def _batch_norm(to: _Compiler, operation: BatchNorm) -> None:
    sizes, axis = to.item(operation.input), operation.axis
    before, channels, inner = _around(sizes, axis)
    reads = [to.read(name) for name in operation.reads]
    source = text.batch_norm(channels, inner, before, operation.epsilon)
    to.dispatch(source, reads, to.write(operation.output), to.count(operation.output), 0)


def _layer_norm(to: _Compiler, operation: LayerNorm) -> None:
    sizes = to.item(operation.input)
    axis = operation.axis if operation.axis < 0 else operation.axis - 1 - len(sizes)
    length = math.prod(sizes[axis:])
    rows = math.prod(sizes) // length
    source = text.layer_norm(length, rows, operation.epsilon, operation.bias is not None)
    to.dispatch(source, [to.read(name) for name in operation.reads], to.write(operation.output), rows, 3 * length)


def _softmax(to: _Compiler, operation: Softmax) -> None:
    before, length, inner = _around(to.item(operation.input), operation.axis)
    source = text.softmax(length, inner, before)
    to.dispatch(source, [to.read(operation.input)], to.write(operation.output), before * inner, 3 * length)


def _unary(expression: Callable[[Any], str]) -> Callable[[_Compiler, Any], None]:
    def rule(to: _Compiler, operation: Any) -> None:
        count = to.count(operation.output)
        source = text.unary(count, expression(operation))
        to.dispatch(source, [to.read(operation.input)], to.write(operation.output), count, 0)

    return rule


def _clip_expression(operation: Clip) -> str:
    low = "v" if operation.lowest is None else f"select(v, {operation.lowest!r}, v < {operation.lowest!r})"
    return low if operation.highest is None else f"select({low}, {operation.highest!r}, v > {operation.highest!r})"


def _arithmetic(to: _Compiler, operation: Arithmetic) -> None:
    names = [operation.left, operation.right]
    shape = to.item(operation.output)
    # A tensor may spell out the batch axis as a leading 1, which an item does not have.
    operands = [(to.item(name)[-len(shape) :] if shape else (), name not in to.tensors) for name in names]
    source = text.arithmetic(operation.kind, shape, operands)
    reads = [to.read(name) for name in names]
    to.dispatch(source, reads, to.write(operation.output), to.count(operation.output), 0)


def _transpose(to: _Compiler, operation: Transpose) -> None:
    order = [axis - 1 for axis in operation.permutation[1:]]
    source = text.transpose(to.item(operation.input), order)
    count = to.count(operation.output)
    to.dispatch(source, [to.read(operation.input)], to.write(operation.output), count, 0)


def _concat(to: _Compiler, operation: Concat) -> None:
    outer, total, inner = _around(to.item(operation.output), operation.axis)
    output, before = to.write(operation.output), 0
    for name in operation.inputs:
        part = _around(to.item(name), operation.axis)[1]
        source = text.concat_part(part, before, total, inner, outer)
        to.dispatch(source, [to.read(name)], output, to.count(name), 0)
        before += part


def _alias(to: _Compiler, operation: Flatten | Reshape) -> None:
    to.buffer_of[operation.output] = to.read(operation.input)


def _around(sizes: tuple[int, ...], axis: int) -> tuple[int, int, int]:
    """(values before, length of, values behind) an axis that counts the batch when it counts from the front."""
    at = axis - 1 if axis > 0 else axis + len(sizes)
    return math.prod(sizes[:at]), sizes[at], math.prod(sizes[at + 1 :])


_RULES: dict[type[Any], Callable[[_Compiler, Any], None]] = {
    Dense: _dense, Conv2d: _conv2d, Pool: _pool, GlobalAveragePool: _global_average_pool, BatchNorm: _batch_norm,
    LayerNorm: _layer_norm, Softmax: _softmax, Arithmetic: _arithmetic, Transpose: _transpose, Concat: _concat,
    Flatten: _alias, Reshape: _alias, Clip: _unary(_clip_expression),
    Relu: _unary(lambda _: text.ACTIVATIONS["relu"]),
    Sigmoid: _unary(lambda _: text.ACTIVATIONS["sigmoid"]),
    Tanh: _unary(lambda _: text.ACTIVATIONS["tanh"]),
    LeakyRelu: _unary(lambda operation: f"select(v, {operation.alpha!r} * v, v < 0.0)"),
    Gelu: _unary(lambda operation: text.ACTIVATIONS[f"gelu_{operation.approximate}"]),
}  # fmt: skip
