;; digits-mlp: 64 inputs, 32 rectified units, 10 logits. Weights as module.json lays them out:
;; dense1.weight [64,32] at 0, dense1.bias [32] at 8192, dense2.weight [32,10] at 8320, dense2.bias [10] at 9600.
;; No imports. Bytes 0..4095 are ours: the hidden row lies at 1024; memory handed out begins at 4096.
(module
  (memory (export "memory") 1)
  (global $next (mut i32) (i32.const 4096))

  ;; allocate(size) -> pointer, a multiple of 16, or 0 when memory cannot grow.
  (func (export "allocate") (param $size i32) (result i32)
    (local $begin i32) (local $end i64) (local $missing i64)
    (local.set $begin (global.get $next))
    (local.set $end
      (i64.and
        (i64.add (i64.add (i64.extend_i32_u (local.get $begin)) (i64.extend_i32_u (local.get $size))) (i64.const 15))
        (i64.const -16)))
    (local.set $missing
      (i64.sub (local.get $end) (i64.shl (i64.extend_i32_u (memory.size)) (i64.const 16))))
    (if (i64.gt_u (local.get $end) (i64.const 0xffff0000)) (then (return (i32.const 0))))
    (if (i64.gt_s (local.get $missing) (i64.const 0))
      (then
        (if (i32.eq
              (memory.grow (i32.wrap_i64 (i64.shr_u (i64.add (local.get $missing) (i64.const 65535)) (i64.const 16))))
              (i32.const -1))
          (then (return (i32.const 0))))))
    (global.set $next (i32.wrap_i64 (local.get $end)))
    (local.get $begin))

  ;; y[j] = b[j] + sum over k of x[k] * w[k, j]; rectified when $rectify is 1.
  (func $dense (param $x i32) (param $w i32) (param $b i32) (param $y i32)
               (param $inputs i32) (param $outputs i32) (param $rectify i32)
    (local $j i32) (local $k i32) (local $sum f32) (local $at i32)
    (loop $each_output
      (local.set $sum (f32.load (i32.add (local.get $b) (i32.shl (local.get $j) (i32.const 2)))))
      (local.set $at (i32.add (local.get $w) (i32.shl (local.get $j) (i32.const 2))))
      (local.set $k (i32.const 0))
      (loop $each_input
        (local.set $sum
          (f32.add
            (local.get $sum)
            (f32.mul
              (f32.load (i32.add (local.get $x) (i32.shl (local.get $k) (i32.const 2))))
              (f32.load (local.get $at)))))
        (local.set $at (i32.add (local.get $at) (i32.shl (local.get $outputs) (i32.const 2))))
        (local.set $k (i32.add (local.get $k) (i32.const 1)))
        (br_if $each_input (i32.lt_u (local.get $k) (local.get $inputs))))
      ;; NaN < 0 is false, so NaN is handed on and stays visible.
      (if (i32.and (local.get $rectify) (f32.lt (local.get $sum) (f32.const 0)))
        (then (local.set $sum (f32.const 0))))
      (f32.store (i32.add (local.get $y) (i32.shl (local.get $j) (i32.const 2))) (local.get $sum))
      (local.set $j (i32.add (local.get $j) (i32.const 1)))
      (br_if $each_output (i32.lt_u (local.get $j) (local.get $outputs)))))

  ;; forward(weights, inputs, outputs, batch) -> 0, or 1 when there is nothing to do.
  (func (export "forward") (param $weights i32) (param $inputs i32) (param $outputs i32) (param $batch i32) (result i32)
    (if (i32.le_s (local.get $batch) (i32.const 0)) (then (return (i32.const 1))))
    (loop $each_item
      (call $dense
        (local.get $inputs) (local.get $weights) (i32.add (local.get $weights) (i32.const 8192)) (i32.const 1024)
        (i32.const 64) (i32.const 32) (i32.const 1))
      (call $dense
        (i32.const 1024) (i32.add (local.get $weights) (i32.const 8320)) (i32.add (local.get $weights) (i32.const 9600))
        (local.get $outputs) (i32.const 32) (i32.const 10) (i32.const 0))
      (local.set $inputs (i32.add (local.get $inputs) (i32.const 256)))
      (local.set $outputs (i32.add (local.get $outputs) (i32.const 40)))
      (local.set $batch (i32.sub (local.get $batch) (i32.const 1)))
      (br_if $each_item (local.get $batch)))
    (i32.const 0)))
