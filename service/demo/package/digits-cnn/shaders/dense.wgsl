// y = x @ w + b: one invocation makes 8 rows x 4 outputs; RELU rectifies. K4, N4 count vec4.
override K4: u32;
override N4: u32;
override RELU: bool = false;
@group(0) @binding(0) var<storage, read> x: array<vec4<f32>>;
@group(0) @binding(1) var<storage, read> w: array<vec4<f32>>;
@group(0) @binding(2) var<storage, read> b: array<vec4<f32>>;
@group(0) @binding(3) var<storage, read_write> y: array<vec4<f32>>;

fn rectified(v: vec4<f32>) -> vec4<f32> {
  return select(v, vec4<f32>(), vec4<bool>(RELU) & (v < vec4<f32>()));
}

@compute @workgroup_size(8, 8)
fn main(@builtin(global_invocation_id) id: vec3<u32>) {
  let column = id.x * 1u;
  let row = id.y * 8u;
  if (column >= N4 || row >= arrayLength(&y) / N4) { return; }
  let bias0 = b[column + 0u];
  var s0_0 = bias0;
  var s1_0 = bias0;
  var s2_0 = bias0;
  var s3_0 = bias0;
  var s4_0 = bias0;
  var s5_0 = bias0;
  var s6_0 = bias0;
  var s7_0 = bias0;
  for (var k = 0u; k < K4; k++) {
    let w0_0 = w[(4u * k + 0u) * N4 + column + 0u];
    let w1_0 = w[(4u * k + 1u) * N4 + column + 0u];
    let w2_0 = w[(4u * k + 2u) * N4 + column + 0u];
    let w3_0 = w[(4u * k + 3u) * N4 + column + 0u];
    let x0 = x[(row + 0u) * K4 + k];
    s0_0 = fma(vec4<f32>(x0.x), w0_0, s0_0);
    s0_0 = fma(vec4<f32>(x0.y), w1_0, s0_0);
    s0_0 = fma(vec4<f32>(x0.z), w2_0, s0_0);
    s0_0 = fma(vec4<f32>(x0.w), w3_0, s0_0);
    let x1 = x[(row + 1u) * K4 + k];
    s1_0 = fma(vec4<f32>(x1.x), w0_0, s1_0);
    s1_0 = fma(vec4<f32>(x1.y), w1_0, s1_0);
    s1_0 = fma(vec4<f32>(x1.z), w2_0, s1_0);
    s1_0 = fma(vec4<f32>(x1.w), w3_0, s1_0);
    let x2 = x[(row + 2u) * K4 + k];
    s2_0 = fma(vec4<f32>(x2.x), w0_0, s2_0);
    s2_0 = fma(vec4<f32>(x2.y), w1_0, s2_0);
    s2_0 = fma(vec4<f32>(x2.z), w2_0, s2_0);
    s2_0 = fma(vec4<f32>(x2.w), w3_0, s2_0);
    let x3 = x[(row + 3u) * K4 + k];
    s3_0 = fma(vec4<f32>(x3.x), w0_0, s3_0);
    s3_0 = fma(vec4<f32>(x3.y), w1_0, s3_0);
    s3_0 = fma(vec4<f32>(x3.z), w2_0, s3_0);
    s3_0 = fma(vec4<f32>(x3.w), w3_0, s3_0);
    let x4 = x[(row + 4u) * K4 + k];
    s4_0 = fma(vec4<f32>(x4.x), w0_0, s4_0);
    s4_0 = fma(vec4<f32>(x4.y), w1_0, s4_0);
    s4_0 = fma(vec4<f32>(x4.z), w2_0, s4_0);
    s4_0 = fma(vec4<f32>(x4.w), w3_0, s4_0);
    let x5 = x[(row + 5u) * K4 + k];
    s5_0 = fma(vec4<f32>(x5.x), w0_0, s5_0);
    s5_0 = fma(vec4<f32>(x5.y), w1_0, s5_0);
    s5_0 = fma(vec4<f32>(x5.z), w2_0, s5_0);
    s5_0 = fma(vec4<f32>(x5.w), w3_0, s5_0);
    let x6 = x[(row + 6u) * K4 + k];
    s6_0 = fma(vec4<f32>(x6.x), w0_0, s6_0);
    s6_0 = fma(vec4<f32>(x6.y), w1_0, s6_0);
    s6_0 = fma(vec4<f32>(x6.z), w2_0, s6_0);
    s6_0 = fma(vec4<f32>(x6.w), w3_0, s6_0);
    let x7 = x[(row + 7u) * K4 + k];
    s7_0 = fma(vec4<f32>(x7.x), w0_0, s7_0);
    s7_0 = fma(vec4<f32>(x7.y), w1_0, s7_0);
    s7_0 = fma(vec4<f32>(x7.z), w2_0, s7_0);
    s7_0 = fma(vec4<f32>(x7.w), w3_0, s7_0);
  }
  y[(row + 0u) * N4 + column + 0u] = rectified(s0_0);
  y[(row + 1u) * N4 + column + 0u] = rectified(s1_0);
  y[(row + 2u) * N4 + column + 0u] = rectified(s2_0);
  y[(row + 3u) * N4 + column + 0u] = rectified(s3_0);
  y[(row + 4u) * N4 + column + 0u] = rectified(s4_0);
  y[(row + 5u) * N4 + column + 0u] = rectified(s5_0);
  y[(row + 6u) * N4 + column + 0u] = rectified(s6_0);
  y[(row + 7u) * N4 + column + 0u] = rectified(s7_0);
}
