// 3x3 convolution, bias, rectifier, 2x2 maximum (NHWC): one invocation makes one pooled pixel x 4 channels.
override H: u32;
override W: u32;
override N4: u32;
@group(0) @binding(0) var<storage, read> x: array<f32>;
@group(0) @binding(1) var<storage, read> w: array<vec4<f32>>;
@group(0) @binding(2) var<storage, read> b: array<vec4<f32>>;
@group(0) @binding(3) var<storage, read_write> y: array<vec4<f32>>;

fn pixel(image: u32, row: u32, column: u32, group: u32) -> f32 {
  // Rows and columns are counted from 1, so that 0 and H + 1 are the zero padding.
  if (row == 0u || column == 0u || row > H || column > W) { return f32(); }
  return x[((image * H + row - 1u) * W + column - 1u) * 1u + group];
}

fn larger(one: vec4<f32>, other: vec4<f32>) -> vec4<f32> {
  // Unlike max, this hands a NaN on; NaN is told by its bits.
  let is_nan = (bitcast<vec4<u32>>(one) & vec4<u32>(0x7fffffffu)) > vec4<u32>(0x7f800000u);
  return select(other, one, (one > other) | is_nan);
}

@compute @workgroup_size(64)
fn main(@builtin(global_invocation_id) id: vec3<u32>) {
  if (id.x >= arrayLength(&y)) { return; }
  let channel = id.x % N4;
  let place = id.x / N4;
  let column = 2u * (place % (W / 2u));
  let row = 2u * ((place / (W / 2u)) % (H / 2u));
  let image = place / ((W / 2u) * (H / 2u));
  let bias = b[channel];
  var s00 = bias;
  var s01 = bias;
  var s10 = bias;
  var s11 = bias;
  for (var group = 0u; group < 1u; group++) {
    let p00 = pixel(image, row + 0u, column + 0u, group);
    let p01 = pixel(image, row + 0u, column + 1u, group);
    let p02 = pixel(image, row + 0u, column + 2u, group);
    let p03 = pixel(image, row + 0u, column + 3u, group);
    let p10 = pixel(image, row + 1u, column + 0u, group);
    let p11 = pixel(image, row + 1u, column + 1u, group);
    let p12 = pixel(image, row + 1u, column + 2u, group);
    let p13 = pixel(image, row + 1u, column + 3u, group);
    let p20 = pixel(image, row + 2u, column + 0u, group);
    let p21 = pixel(image, row + 2u, column + 1u, group);
    let p22 = pixel(image, row + 2u, column + 2u, group);
    let p23 = pixel(image, row + 2u, column + 3u, group);
    let p30 = pixel(image, row + 3u, column + 0u, group);
    let p31 = pixel(image, row + 3u, column + 1u, group);
    let p32 = pixel(image, row + 3u, column + 2u, group);
    let p33 = pixel(image, row + 3u, column + 3u, group);
    let w000 = w[((0u * 1u + group) * 1u + 0u) * N4 + channel];
    s00 = fma(vec4<f32>(p00), w000, s00);
    s01 = fma(vec4<f32>(p01), w000, s01);
    s10 = fma(vec4<f32>(p10), w000, s10);
    s11 = fma(vec4<f32>(p11), w000, s11);
    let w010 = w[((1u * 1u + group) * 1u + 0u) * N4 + channel];
    s00 = fma(vec4<f32>(p01), w010, s00);
    s01 = fma(vec4<f32>(p02), w010, s01);
    s10 = fma(vec4<f32>(p11), w010, s10);
    s11 = fma(vec4<f32>(p12), w010, s11);
    let w020 = w[((2u * 1u + group) * 1u + 0u) * N4 + channel];
    s00 = fma(vec4<f32>(p02), w020, s00);
    s01 = fma(vec4<f32>(p03), w020, s01);
    s10 = fma(vec4<f32>(p12), w020, s10);
    s11 = fma(vec4<f32>(p13), w020, s11);
    let w100 = w[((3u * 1u + group) * 1u + 0u) * N4 + channel];
    s00 = fma(vec4<f32>(p10), w100, s00);
    s01 = fma(vec4<f32>(p11), w100, s01);
    s10 = fma(vec4<f32>(p20), w100, s10);
    s11 = fma(vec4<f32>(p21), w100, s11);
    let w110 = w[((4u * 1u + group) * 1u + 0u) * N4 + channel];
    s00 = fma(vec4<f32>(p11), w110, s00);
    s01 = fma(vec4<f32>(p12), w110, s01);
    s10 = fma(vec4<f32>(p21), w110, s10);
    s11 = fma(vec4<f32>(p22), w110, s11);
    let w120 = w[((5u * 1u + group) * 1u + 0u) * N4 + channel];
    s00 = fma(vec4<f32>(p12), w120, s00);
    s01 = fma(vec4<f32>(p13), w120, s01);
    s10 = fma(vec4<f32>(p22), w120, s10);
    s11 = fma(vec4<f32>(p23), w120, s11);
    let w200 = w[((6u * 1u + group) * 1u + 0u) * N4 + channel];
    s00 = fma(vec4<f32>(p20), w200, s00);
    s01 = fma(vec4<f32>(p21), w200, s01);
    s10 = fma(vec4<f32>(p30), w200, s10);
    s11 = fma(vec4<f32>(p31), w200, s11);
    let w210 = w[((7u * 1u + group) * 1u + 0u) * N4 + channel];
    s00 = fma(vec4<f32>(p21), w210, s00);
    s01 = fma(vec4<f32>(p22), w210, s01);
    s10 = fma(vec4<f32>(p31), w210, s10);
    s11 = fma(vec4<f32>(p32), w210, s11);
    let w220 = w[((8u * 1u + group) * 1u + 0u) * N4 + channel];
    s00 = fma(vec4<f32>(p22), w220, s00);
    s01 = fma(vec4<f32>(p23), w220, s01);
    s10 = fma(vec4<f32>(p32), w220, s10);
    s11 = fma(vec4<f32>(p33), w220, s11);
  }
  let best = larger(larger(s00, s01), larger(s10, s11));
  y[id.x] = select(best, vec4<f32>(), best < vec4<f32>());
}
