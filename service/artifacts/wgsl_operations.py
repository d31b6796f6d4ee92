"""Writers of WGSL texts for single operations, for shapes known when they are written. Pure text.

One invocation makes one value (a row for normalisations, four channels for convolutions); x counts within one item of
the batch, y is the item, so a text serves every batch. Inputs are bound from 0 on in the order given, the output last.
NaN is told by its bits, because a shader compiler may take `x != x` for false.
"""

import math
from collections.abc import Sequence
from typing import NamedTuple

WORKGROUP = 64
ACTIVATIONS = {
    "identity": "v",
    "relu": "select(v, 0.0, v < 0.0)",
    "sigmoid": "1.0 / (1.0 + exp(-v))",
    "tanh": "select(tanh(clamp(v, -15.0, 15.0)), v, is_nan(v))",
    "gelu_none": "0.5 * v * (1.0 + erf(v * 0.70710678))",
    "gelu_tanh": "0.5 * v * (1.0 + tanh(clamp(0.79788456 * (v + 0.044715 * v * v * v), -15.0, 15.0)))",
}
"""Expressions over v."""
_OPERATORS = {"add": "+", "subtract": "-", "multiply": "*", "divide": "/"}
_IS_NAN = """fn is_nan(v: f32) -> bool {
  return (bitcast<u32>(v) & 0x7fffffffu) > 0x7f800000u;
}
"""
_ERF = """fn erf(v: f32) -> f32 {
  // Abramowitz and Stegun 7.1.26: absolute error below 1.5e-7.
  let t = 1.0 / (1.0 + 0.3275911 * abs(v));
  let p = ((((1.061405429 * t - 1.453152027) * t + 1.421413741) * t - 0.284496736) * t + 0.254829592) * t;
  return sign(v) * (1.0 - p * exp(-v * v));
}
"""


class WindowShape(NamedTuple):
    """A window sliding over images: sizes of input and output, and how it moves."""

    channels: int
    height: int
    width: int
    rows: int
    columns: int
    window: tuple[int, int]
    stride: tuple[int, int]
    padding: tuple[int, int, int, int]
    dilation: tuple[int, int]
    is_nhwc: bool

    def pixel(self, channel: str, y: str, x: str) -> str:
        """Index of an input value within its item."""
        if self.is_nhwc:
            return f"(u32({y}) * {self.width}u + u32({x})) * {self.channels}u + {channel}"
        return f"({channel} * {self.height}u + u32({y})) * {self.width}u + u32({x})"

    def place(self, channels: int) -> list[str]:
        """Lines that split the index i into channel (or channel block), row and column of the output."""
        if self.is_nhwc:
            return [f"let channel = i % {channels}u; let spot = i / {channels}u;",
                    f"let row = spot / {self.columns}u; let column = spot % {self.columns}u;"]  # fmt: skip
        spots = self.rows * self.columns
        return [f"let channel = i / {spots}u; let spot = i % {spots}u;",
                f"let row = spot / {self.columns}u; let column = spot % {self.columns}u;"]  # fmt: skip

    def corner(self) -> list[str]:
        """Lines for the input place under the window's first corner; may lie in the padding."""
        return [
            f"let top = i32(row * {self.stride[0]}u) - {self.padding[0]};",
            f"let left = i32(column * {self.stride[1]}u) - {self.padding[1]};",
        ]

    def inside(self, y: str, x: str) -> str:
        """Whether the place lies within the image."""
        return f"{y} >= 0 && {x} >= 0 && {y} < {self.height} && {x} < {self.width}"


def unary(count: int, expression: str) -> str:
    """`expression` over v for each of `count` values of an item."""
    return _kernel(1, count, ["let v = a0[base0 + i];", f"y[base + i] = {expression};"], [count], count)


def arithmetic(kind: str, shape: Sequence[int], operands: Sequence[tuple[Sequence[int], bool]]) -> str:
    """Element by element over one item's `shape`; an operand is (its shape without the batch, whether it has items)."""
    sizes = [math.prod(sizes) for sizes, _ in operands]
    lines = []
    for index, (sizes_of, has_items) in enumerate(operands):
        base = f"base{index}" if has_items else "0u"
        lines.append(f"let v{index} = a{index}[{base} + {_strided_index(shape, _broadcast_strides(shape, sizes_of))}];")
    lines.append(f"y[base + i] = v0 {_OPERATORS[kind]} v1;")
    return _kernel(2, math.prod(shape), lines, sizes, math.prod(shape))


def transpose(shape: Sequence[int], permutation: Sequence[int]) -> str:
    """Axes of one item in another order; `permutation` counts without the batch."""
    strides = _strides(shape)
    result = [shape[axis] for axis in permutation]
    index = _strided_index(result, [strides[axis] for axis in permutation])
    return _kernel(1, math.prod(shape), [f"y[base + i] = a0[base0 + {index}];"], [math.prod(shape)], math.prod(shape))


def concat_part(part: int, before: int, total: int, inner: int, outer: int) -> str:
    """Copies one part (its length on the joined axis) behind `before` others into a result of length `total`."""
    count, block = part * inner * outer, part * inner
    target = f"(i / {block}u) * {total * inner}u + {before * inner}u + i % {block}u"
    return _kernel(1, count, [f"y[base + {target}] = a0[base0 + i];"], [count], total * inner * outer)


def softmax(length: int, inner: int, outer: int) -> str:
    """Along one axis, for each of outer * inner lines of an item."""
    lines = [
        f"let start = base0 + (i / {inner}u) * {length * inner}u + i % {inner}u;",
        "var most = a0[start];",
        f"for (var k = 1u; k < {length}u; k++) {{ most = max(most, a0[start + k * {inner}u]); }}",
        "var sum = 0.0;",
        f"for (var k = 0u; k < {length}u; k++) {{ sum += exp(a0[start + k * {inner}u] - most); }}",
        f"for (var k = 0u; k < {length}u; k++) {{",
        f"  y[start + k * {inner}u] = exp(a0[start + k * {inner}u] - most) / sum;",
        "}",
    ]
    return _kernel(1, inner * outer, lines, [length * inner * outer], length * inner * outer)


def layer_norm(length: int, outer: int, epsilon: float, has_bias: bool) -> str:
    """Over the last `length` values of each of `outer` rows; inputs: values, scale, bias when there is one."""
    bias = " + a2[k]" if has_bias else ""
    lines = [
        f"let start = base0 + i * {length}u;",
        "var sum = 0.0;",
        f"for (var k = 0u; k < {length}u; k++) {{ sum += a0[start + k]; }}",
        f"let mean = sum / {float(length)};",
        "var squares = 0.0;",
        f"for (var k = 0u; k < {length}u; k++) {{ let d = a0[start + k] - mean; squares += d * d; }}",
        f"let scale = 1.0 / sqrt(squares / {float(length)} + {epsilon!r});",
        f"for (var k = 0u; k < {length}u; k++) {{ y[start + k] = (a0[start + k] - mean) * scale * a1[k]{bias}; }}",
    ]
    return _kernel(2 + has_bias, outer, lines, [length * outer] + [0] * (1 + has_bias), length * outer)


def batch_norm(channels: int, inner: int, outer: int, epsilon: float) -> str:
    """By channel with stored mean and variance; inputs: values, scale, bias, mean, variance."""
    count = channels * inner * outer
    lines = [
        f"let c = (i / {inner}u) % {channels}u;",
        f"y[base + i] = (a0[base0 + i] - a3[c]) / sqrt(a4[c] + {epsilon!r}) * a1[c] + a2[c];",
    ]
    return _kernel(5, count, lines, [count, 0, 0, 0, 0], count)


def dense(inner: int, outer: int, rows: int, has_bias: bool, activation: str) -> str:
    """`x @ w + b` where sizes are no multiples of 4: one output for each invocation; inputs: values, weight, bias."""
    lines = [
        f"let column = i % {outer}u; let start = base0 + (i / {outer}u) * {inner}u;",
        f"var v = {'a2[column]' if has_bias else '0.0'};",
        f"for (var k = 0u; k < {inner}u; k++) {{ v = fma(a0[start + k], a1[k * {outer}u + column], v); }}",
        f"y[base + i] = {activation};",
    ]
    return _kernel(2 + has_bias, rows * outer, lines, [rows * inner] + [0] * (1 + has_bias), rows * outer)


def conv2d(shape: WindowShape, outputs: int, groups: int, has_bias: bool, activation: str) -> str:
    """Direct convolution; each invocation makes one place of `conv_block(…)` output channels."""
    block, per_group = conv_block(outputs, groups), shape.channels // groups
    window = shape.window[0] * shape.window[1]
    lines = [*shape.place(outputs // block), f"let first = channel * {block}u;", *shape.corner()]
    lines.append(f"let group = first / {outputs // groups}u;")
    lines += [f"var s{b} = {f'a2[first + {b}u]' if has_bias else '0.0'};" for b in range(block)]
    lines += [
        f"for (var k = 0u; k < {per_group * window}u; k++) {{",
        f"  let c = k / {window}u; let ky = (k % {window}u) / {shape.window[1]}u; let kx = k % {shape.window[1]}u;",
        f"  let y_in = top + i32(ky * {shape.dilation[0]}u); let x_in = left + i32(kx * {shape.dilation[1]}u);",
        f"  if ({shape.inside('y_in', 'x_in')}) {{",
        f"    let value = a0[base0 + {shape.pixel(f'(group * {per_group}u + c)', 'y_in', 'x_in')}];",
    ]
    for b in range(block):
        weight = f"k + (first + {b}u) * {per_group * window}u"
        if shape.is_nhwc:
            weight = f"((ky * {shape.window[1]}u + kx) * {per_group}u + c) * {outputs}u + first + {b}u"
        lines.append(f"    s{b} = fma(value, a1[{weight}], s{b});")
    lines += ["  }", "}"]
    step = "1u" if shape.is_nhwc else f"{shape.rows * shape.columns}u"
    start = f"spot * {outputs}u + first" if shape.is_nhwc else f"first * {shape.rows * shape.columns}u + spot"
    lines += [f"{{ let v = s{b}; y[base + {start} + {b}u * {step}] = {activation}; }}" for b in range(block)]
    count = shape.rows * shape.columns * (outputs // block)
    sizes = [shape.channels * shape.height * shape.width] + [0] * (1 + has_bias)
    return _kernel(2 + has_bias, count, lines, sizes, shape.rows * shape.columns * outputs)


def conv_block(outputs: int, groups: int) -> int:
    """How many output channels one invocation makes: 4 where they share a group, else 1."""
    return 4 if (outputs // groups) % 4 == 0 else 1


def pool(shape: WindowShape, kind: str, counts_padding: bool) -> str:
    """Largest or mean value of each window."""
    window = shape.window[0] * shape.window[1]
    take = "best = select(best, v, count == 0u || v > best || is_nan(v));" if kind == "max" else "best += v;"
    divisor = f"{float(window)}" if counts_padding else "f32(count)"
    lines = [
        *shape.place(shape.channels), *shape.corner(), "var best = 0.0;", "var count = 0u;",
        f"for (var k = 0u; k < {window}u; k++) {{",
        f"  let y_in = top + i32(k / {shape.window[1]}u); let x_in = left + i32(k % {shape.window[1]}u);",
        f"  if ({shape.inside('y_in', 'x_in')}) {{",
        f"    let v = a0[base0 + {shape.pixel('channel', 'y_in', 'x_in')}];",
        f"    {take}",
        "    count++;",
        "  }",
        "}",
        f"y[base + i] = {'best' if kind == 'max' else f'best / {divisor}'};",
    ]  # fmt: skip
    count = shape.rows * shape.columns * shape.channels
    return _kernel(1, count, lines, [shape.channels * shape.height * shape.width], count)


def _kernel(inputs: int, count: int, lines: Sequence[str], sizes: Sequence[int], output_size: int) -> str:
    """A whole text: `count` invocations for each item; `sizes` are the inputs' values in an item (0: a tensor)."""
    body = "\n".join(f"  {line}" for line in lines)
    helpers = (_IS_NAN if "is_nan(" in body else "") + (_ERF if "erf(" in body else "")
    bindings = "\n".join(f"@group(0) @binding({n}) var<storage, read> a{n}: array<f32>;" for n in range(inputs))
    bases = "".join(f"  let base{n} = id.y * {size}u;\n" for n, size in enumerate(sizes) if f"base{n}" in body)
    return (
        f"{bindings}\n@group(0) @binding({inputs}) var<storage, read_write> y: array<f32>;\n\n{helpers}"
        f"@compute @workgroup_size({WORKGROUP})\nfn main(@builtin(global_invocation_id) id: vec3<u32>) {{\n"
        f"  let i = id.x;\n  if (i >= {count}u) {{ return; }}\n  let base = id.y * {output_size}u;\n{bases}{body}\n}}\n"
    )


def _strides(shape: Sequence[int]) -> list[int]:
    """Row-major distances between neighbours on each axis."""
    return [math.prod(shape[axis + 1 :]) for axis in range(len(shape))]


def _broadcast_strides(shape: Sequence[int], operand: Sequence[int]) -> list[int]:
    """Distances in an operand for a step on each axis of the result: 0 where the operand has one value."""
    padded = [1] * (len(shape) - len(operand)) + list(operand)
    return [0 if size == 1 else stride for size, stride in zip(padded, _strides(padded), strict=True)]


def _strided_index(shape: Sequence[int], strides: Sequence[int]) -> str:
    """An index of the operand from the index i of the result."""
    terms = [
        f"(i / {step}u) % {size}u * {stride}u"
        for size, step, stride in zip(shape, _strides(shape), strides, strict=True)
        if stride and size > 1
    ]
    return " + ".join(terms) or "0u"
