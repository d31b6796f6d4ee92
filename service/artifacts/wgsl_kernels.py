"""Writers of WGSL texts for the layers that dominate small networks: dense blocks and a fused convolution stage.

Both keep a block of outputs in registers and read storage as vec4, because loads cost most on software adapters and
much on real ones; neither uses a barrier or workgroup memory. The number of rows comes from the bound buffer, so one
pipeline serves every batch. NaN passes through the rectifier (`x < 0` is false for it), so it stays visible.
"""

ROWS = 8
"""Rows (items of the batch) that one invocation of a dense kernel computes; a manifest pads the batch to it."""


def dense_shader(columns: int = 1) -> str:
    """`y = x @ w + b`, rectified when RELU: 8 rows by `columns` vec4 of outputs for each invocation.

    x is [rows, 4*K4], w is [4*K4, 4*N4], b is [4*N4], y is [rows, 4*N4]; rows is a multiple of 8 and N4 of `columns`.
    Workgroups: ceilDiv(N4 / columns, 8), ceilDiv(rows / 8, 8), 1. Loop iterations of one invocation: K4.
    """
    lines = [
        f"// y = x @ w + b: one invocation makes 8 rows x {4 * columns} outputs; RELU rectifies. K4, N4 count vec4.",
        "override K4: u32;",
        "override N4: u32;",
        "override RELU: bool = false;",
        "@group(0) @binding(0) var<storage, read> x: array<vec4<f32>>;",
        "@group(0) @binding(1) var<storage, read> w: array<vec4<f32>>;",
        "@group(0) @binding(2) var<storage, read> b: array<vec4<f32>>;",
        "@group(0) @binding(3) var<storage, read_write> y: array<vec4<f32>>;",
        "",
        "fn rectified(v: vec4<f32>) -> vec4<f32> {",
        "  return select(v, vec4<f32>(), vec4<bool>(RELU) & (v < vec4<f32>()));",
        "}",
        "",
        "@compute @workgroup_size(8, 8)",
        "fn main(@builtin(global_invocation_id) id: vec3<u32>) {",
        f"  let column = id.x * {columns}u;",
        "  let row = id.y * 8u;",
        "  if (column >= N4 || row >= arrayLength(&y) / N4) { return; }",
    ]
    lines += [f"  let bias{c} = b[column + {c}u];" for c in range(columns)]
    lines += [f"  var s{r}_{c} = bias{c};" for r in range(ROWS) for c in range(columns)]
    lines += ["  for (var k = 0u; k < K4; k++) {"]
    lines += [f"    let w{i}_{c} = w[(4u * k + {i}u) * N4 + column + {c}u];" for i in range(4) for c in range(columns)]
    for r in range(ROWS):
        lines += [f"    let x{r} = x[(row + {r}u) * K4 + k];"]
        lines += [
            f"    s{r}_{c} = fma(vec4<f32>(x{r}.{part}), w{i}_{c}, s{r}_{c});"
            for i, part in enumerate("xyzw")
            for c in range(columns)
        ]
    lines += ["  }"]
    lines += [
        f"  y[(row + {r}u) * N4 + column + {c}u] = rectified(s{r}_{c});" for r in range(ROWS) for c in range(columns)
    ]
    return "\n".join([*lines, "}", ""])


def conv_stage_shader(is_single_channel: bool) -> str:
    """3x3 convolution (stride 1, padding 1), bias, rectifier and 2x2 maximum, fused: one pooled pixel x 4 channels.

    x is [batch, H, W, C] with C = 1 (`is_single_channel`) or 4*C4, w is [3, 3, C, 4*N4], b is [4*N4],
    y is [batch, H/2, W/2, 4*N4]; H and W are even. Workgroups: ceilDiv(batch * H/2 * W/2 * N4, 64), 1, 1.
    Loop iterations of one invocation: 1 for C = 1, else C4.
    """
    item, parts = ("f32", ("",)) if is_single_channel else ("vec4<f32>", (".x", ".y", ".z", ".w"))
    groups = "1u" if is_single_channel else "C4"
    lines = [
        "// 3x3 convolution, bias, rectifier, 2x2 maximum (NHWC): one invocation makes one pooled pixel x 4 channels.",
        "override H: u32;",
        "override W: u32;",
        *([] if is_single_channel else ["override C4: u32;"]),
        "override N4: u32;",
        f"@group(0) @binding(0) var<storage, read> x: array<{item}>;",
        "@group(0) @binding(1) var<storage, read> w: array<vec4<f32>>;",
        "@group(0) @binding(2) var<storage, read> b: array<vec4<f32>>;",
        "@group(0) @binding(3) var<storage, read_write> y: array<vec4<f32>>;",
        "",
        f"fn pixel(image: u32, row: u32, column: u32, group: u32) -> {item} {{",
        "  // Rows and columns are counted from 1, so that 0 and H + 1 are the zero padding.",
        f"  if (row == 0u || column == 0u || row > H || column > W) {{ return {item}(); }}",
        f"  return x[((image * H + row - 1u) * W + column - 1u) * {groups} + group];",
        "}",
        "",
        "fn larger(one: vec4<f32>, other: vec4<f32>) -> vec4<f32> {",
        "  // Unlike max, this hands a NaN on; NaN is told by its bits.",
        "  let is_nan = (bitcast<vec4<u32>>(one) & vec4<u32>(0x7fffffffu)) > vec4<u32>(0x7f800000u);",
        "  return select(other, one, (one > other) | is_nan);",
        "}",
        "",
        "@compute @workgroup_size(64)",
        "fn main(@builtin(global_invocation_id) id: vec3<u32>) {",
        "  if (id.x >= arrayLength(&y)) { return; }",
        "  let channel = id.x % N4;",
        "  let place = id.x / N4;",
        "  let column = 2u * (place % (W / 2u));",
        "  let row = 2u * ((place / (W / 2u)) % (H / 2u));",
        "  let image = place / ((W / 2u) * (H / 2u));",
        "  let bias = b[channel];",
        "  var s00 = bias;",
        "  var s01 = bias;",
        "  var s10 = bias;",
        "  var s11 = bias;",
        f"  for (var group = 0u; group < {groups}; group++) {{",
    ]
    lines += [f"    let p{r}{c} = pixel(image, row + {r}u, column + {c}u, group);" for r in range(4) for c in range(4)]
    for r in range(3):
        for c in range(3):
            for i, part in enumerate(parts):
                name = f"w{r}{c}{i}"
                lines += [
                    f"    let {name} = w[(({3 * r + c}u * {groups} + group) * {len(parts)}u + {i}u) * N4 + channel];"
                ]
                lines += [
                    f"    s{dr}{dc} = fma(vec4<f32>(p{r + dr}{c + dc}{part}), {name}, s{dr}{dc});"
                    for dr in range(2)
                    for dc in range(2)
                ]
    lines += [
        "  }",
        "  let best = larger(larger(s00, s01), larger(s10, s11));",
        "  y[id.x] = select(best, vec4<f32>(), best < vec4<f32>());",
        "}",
        "",
    ]
    return "\n".join(lines)
