/**
 * SIMD kernels of the tfjs engine in AssemblyScript, compiled to WebAssembly by the build. Pointers are bytes in the memory of the
 * TensorFlow.js module; all arrays are dense float32 unless a comment says otherwise. No static data: that memory is not ours.
 */

@external('env', 'log')
declare function log(x: f64): f64;

@inline
function at(base: usize, index: i32): usize {
  return base + ((<usize>index) << 2);
}

/** Sum of the four lanes. */
@inline
function lanes(x: v128): f32 {
  return (
    f32x4.extract_lane(x, 0) + f32x4.extract_lane(x, 1) + (f32x4.extract_lane(x, 2) + f32x4.extract_lane(x, 3))
  );
}

/** exp by range reduction to ±ln 2 / 2 and a polynomial (Cephes); 0 below the normal numbers, NaN of NaN. */
@inline
function exp4(x: v128): v128 {
  const low = f32x4.splat(-87.33654);
  const bounded = f32x4.min(f32x4.max(x, low), f32x4.splat(89));
  const n = f32x4.nearest(f32x4.mul(bounded, f32x4.splat(1.44269504)));
  let r = f32x4.sub(bounded, f32x4.mul(n, f32x4.splat(0.693359375)));
  r = f32x4.add(r, f32x4.mul(n, f32x4.splat(2.12194440e-4)));
  let p = f32x4.splat(1.9875691500e-4);
  p = f32x4.add(f32x4.mul(p, r), f32x4.splat(1.3981999507e-3));
  p = f32x4.add(f32x4.mul(p, r), f32x4.splat(8.3334519073e-3));
  p = f32x4.add(f32x4.mul(p, r), f32x4.splat(4.1665795894e-2));
  p = f32x4.add(f32x4.mul(p, r), f32x4.splat(1.6666665459e-1));
  p = f32x4.add(f32x4.mul(p, r), f32x4.splat(5.0000001201e-1));
  p = f32x4.add(f32x4.add(f32x4.mul(f32x4.mul(p, r), r), r), f32x4.splat(1));
  // 2ⁿ in two factors, since 2¹²⁸ is no float32.
  const k = i32x4.trunc_sat_f32x4_s(n);
  const half = i32x4.shr_s(k, 1);
  const bias = i32x4.splat(127);
  p = f32x4.mul(p, i32x4.shl(i32x4.add(half, bias), 23));
  p = f32x4.mul(p, i32x4.shl(i32x4.add(i32x4.sub(k, half), bias), 23));
  return v128.andnot(p, f32x4.lt(x, low));
}

/** exp of one number, by the lanes' arithmetic. */
@inline
function exp1(x: f32): f32 {
  return f32x4.extract_lane(exp4(f32x4.splat(x)), 0);
}

// ---- movement --------------------------------------------------------------------------------------

/** Copies n elements. */
@inline
function move(dst: usize, src: usize, n: i32): void {
  if (n > 256) {
    memory.copy(dst, src, (<usize>n) << 2);
    return;
  }
  let i = 0;
  for (; i <= n - 4; i += 4) v128.store(at(dst, i), v128.load(at(src, i)));
  for (; i < n; i++) store<u32>(at(dst, i), load<u32>(at(src, i)));
}

/** Copies [n0, n1, n2, n3] 32-bit elements between strides, which are in elements. */
export function copy4(
  n0: i32, n1: i32, n2: i32, n3: i32,
  dst: usize, d0: i32, d1: i32, d2: i32, d3: i32,
  src: usize, s0: i32, s1: i32, s2: i32, s3: i32,
): void {
  for (let i = 0; i < n0; i++) {
    for (let j = 0; j < n1; j++) {
      const to = at(dst, i * d0 + j * d1);
      const from = at(src, i * s0 + j * s1);
      if (d3 === 1 && s3 === 1) {
        for (let k = 0; k < n2; k++) move(at(to, k * d2), at(from, k * s2), n3);
      } else if (d3 === 1 && s2 === 1) transpose(to, d2, from, s3, n2, n3);
      else {
        for (let k = 0; k < n2; k++) {
          let target = at(to, k * d2);
          let source = at(from, k * s2);
          for (let l = 0; l < n3; l++) {
            store<u32>(target, load<u32>(source));
            target = at(target, d3);
            source = at(source, s3);
          }
        }
      }
    }
  }
}

/** dst[k · d + l] = src[l · s + k] for k < rows, l < columns. */
function transpose(dst: usize, d: i32, src: usize, s: i32, rows: i32, columns: i32): void {
  const wholeRows = rows & ~3;
  const wholeColumns = columns & ~3;
  for (let k = 0; k < wholeRows; k += 4) {
    for (let l = 0; l < wholeColumns; l += 4) {
      const from = at(src, l * s + k);
      const a = v128.load(from);
      const b = v128.load(at(from, s));
      const c = v128.load(at(from, 2 * s));
      const e = v128.load(at(from, 3 * s));
      const ab = v128.shuffle<i32>(a, b, 0, 4, 1, 5);
      const ce = v128.shuffle<i32>(c, e, 0, 4, 1, 5);
      const AB = v128.shuffle<i32>(a, b, 2, 6, 3, 7);
      const CE = v128.shuffle<i32>(c, e, 2, 6, 3, 7);
      const to = at(dst, k * d + l);
      v128.store(to, v128.shuffle<i64>(ab, ce, 0, 2));
      v128.store(at(to, d), v128.shuffle<i64>(ab, ce, 1, 3));
      v128.store(at(to, 2 * d), v128.shuffle<i64>(AB, CE, 0, 2));
      v128.store(at(to, 3 * d), v128.shuffle<i64>(AB, CE, 1, 3));
    }
    for (let l = wholeColumns; l < columns; l++) {
      for (let m = k; m < k + 4; m++) store<u32>(at(dst, m * d + l), load<u32>(at(src, l * s + m)));
    }
  }
  for (let k = wholeRows; k < rows; k++) {
    for (let l = 0; l < columns; l++) store<u32>(at(dst, k * d + l), load<u32>(at(src, l * s + k)));
  }
}

/** Rows `index` (int32 [count]) of src, each of `width` elements. */
export function gatherRows(dst: usize, src: usize, index: usize, count: i32, width: i32): void {
  const bytes = (<usize>width) << 2;
  for (let i = 0; i < count; i++) {
    move(dst, src + <usize>load<i32>(at(index, i)) * bytes, width);
    dst += bytes;
  }
}

/** Adds rows of src to the rows `index` (int32 [count]) of dst. */
export function scatterRows(dst: usize, src: usize, index: usize, count: i32, width: i32): void {
  const bytes = (<usize>width) << 2;
  for (let i = 0; i < count; i++) {
    const to = dst + <usize>load<i32>(at(index, i)) * bytes;
    binary(0, to, to, src, width);
    src += bytes;
  }
}

// ---- elements --------------------------------------------------------------------------------------

@inline
function combined(op: i32, a: v128, b: v128): v128 {
  if (op === 0) return f32x4.add(a, b);
  if (op === 1) return f32x4.sub(a, b);
  if (op === 2) return f32x4.mul(a, b);
  return f32x4.div(a, b);
}

@inline
function pairs(op: i32, dst: usize, a: usize, b: usize, n: i32): void {
  let i = 0;
  for (; i <= n - 4; i += 4) v128.store(at(dst, i), combined(op, v128.load(at(a, i)), v128.load(at(b, i))));
  for (; i < n; i++) {
    const x = f32x4.splat(load<f32>(at(a, i)));
    store<f32>(at(dst, i), f32x4.extract_lane(combined(op, x, f32x4.splat(load<f32>(at(b, i)))), 0));
  }
}

/** a + b (0), a − b (1), a · b (2) or a / b (3). */
export function binary(op: i32, dst: usize, a: usize, b: usize, n: i32): void {
  if (op === 0) pairs(0, dst, a, b, n);
  else if (op === 1) pairs(1, dst, a, b, n);
  else if (op === 2) pairs(2, dst, a, b, n);
  else pairs(3, dst, a, b, n);
}

/** a · scale + shift */
export function affine(dst: usize, a: usize, scale: f32, shift: f32, n: i32): void {
  const factor = f32x4.splat(scale);
  const offset = f32x4.splat(shift);
  let i = 0;
  for (; i <= n - 4; i += 4) {
    v128.store(at(dst, i), f32x4.add(f32x4.mul(v128.load(at(a, i)), factor), offset));
  }
  for (; i < n; i++) store<f32>(at(dst, i), load<f32>(at(a, i)) * scale + shift);
}

export function exponential(dst: usize, a: usize, n: i32): void {
  let i = 0;
  for (; i <= n - 4; i += 4) v128.store(at(dst, i), exp4(v128.load(at(a, i))));
  for (; i < n; i++) store<f32>(at(dst, i), exp1(load<f32>(at(a, i))));
}

/** Adds bias [columns] to each row, in place. */
export function addBias(x: usize, bias: usize, rows: i32, columns: i32): void {
  for (let r = 0; r < rows; r++) binary(0, at(x, r * columns), at(x, r * columns), bias, columns);
}

/** 1 if every element is a finite number. */
export function finite(x: usize, n: i32): i32 {
  let sum = f32x4.splat(0);
  let i = 0;
  // 0 · x is 0, or NaN.
  for (; i <= n - 4; i += 4) sum = f32x4.add(sum, f32x4.mul(v128.load(at(x, i)), f32x4.splat(0)));
  let total = lanes(sum);
  for (; i < n; i++) total += load<f32>(at(x, i)) * 0;
  return total === 0 ? 1 : 0;
}

// ---- reductions ------------------------------------------------------------------------------------

/** Sums over the middle axis: src [outer, n, inner] → dst [outer, inner]. */
export function sumAxis(dst: usize, src: usize, outer: i32, n: i32, inner: i32): void {
  if (inner === 1) {
    for (let o = 0; o < outer; o++) store<f32>(at(dst, o), total(at(src, o * n), n));
    return;
  }
  for (let o = 0; o < outer; o++) {
    const to = at(dst, o * inner);
    memory.fill(to, 0, (<usize>inner) << 2);
    for (let k = 0; k < n; k++) binary(0, to, to, at(src, (o * n + k) * inner), inner);
  }
}

/** Sum of n numbers, in blocks that keep the digits of a long sum. */
function total(src: usize, n: i32): f32 {
  let sum: f64 = 0;
  for (let from = 0; from < n; from += 256) {
    const to = min(n, from + 256);
    let part = f32x4.splat(0);
    let i = from;
    for (; i <= to - 4; i += 4) part = f32x4.add(part, v128.load(at(src, i)));
    let rest = lanes(part);
    for (; i < to; i++) rest += load<f32>(at(src, i));
    sum += <f64>rest;
  }
  return <f32>sum;
}

/** Euclidean norm of each row. */
export function normRows(dst: usize, src: usize, rows: i32, columns: i32): void {
  for (let r = 0; r < rows; r++) {
    let sum: f64 = 0;
    const row = at(src, r * columns);
    for (let i = 0; i < columns; i++) {
      const x = <f64>load<f32>(at(row, i));
      sum += x * x;
    }
    store<f32>(at(dst, r), <f32>sqrt(sum));
  }
}

// ---- layers ----------------------------------------------------------------------------------------

@inline
function dot(a: usize, b: usize, n: i32): f32 {
  let sum = f32x4.splat(0);
  let i = 0;
  for (; i <= n - 4; i += 4) sum = f32x4.add(sum, f32x4.mul(v128.load(at(a, i)), v128.load(at(b, i))));
  let all = lanes(sum);
  for (; i < n; i++) all += load<f32>(at(a, i)) * load<f32>(at(b, i));
  return all;
}

/** dst = x / √(mean(x²) + ε) · weight [columns]; `inverse` [rows] keeps 1 / √…. */
export function rmsNorm(
  dst: usize, inverse: usize, x: usize, weight: usize, rows: i32, columns: i32, epsilon: f32,
): void {
  for (let r = 0; r < rows; r++) {
    const row = at(x, r * columns);
    const to = at(dst, r * columns);
    const factor: f32 = 1 / sqrt(dot(row, row, columns) / <f32>columns + epsilon);
    store<f32>(at(inverse, r), factor);
    const factors = f32x4.splat(factor);
    let i = 0;
    for (; i <= columns - 4; i += 4) {
      v128.store(at(to, i), f32x4.mul(f32x4.mul(v128.load(at(row, i)), factors), v128.load(at(weight, i))));
    }
    for (; i < columns; i++) store<f32>(at(to, i), load<f32>(at(row, i)) * factor * load<f32>(at(weight, i)));
  }
}

/** Gradients of rmsNorm: dx [rows, columns]; dWeight [columns] is added to. */
export function rmsNormBack(
  dx: usize, dWeight: usize, g: usize, x: usize, weight: usize, inverse: usize, rows: i32, columns: i32,
): void {
  for (let r = 0; r < rows; r++) {
    const row = at(x, r * columns);
    const up = at(g, r * columns);
    const to = at(dx, r * columns);
    const factor = load<f32>(at(inverse, r));
    binary(2, to, up, weight, columns);
    const shared: f32 = (-dot(to, row, columns) * factor * factor * factor) / <f32>columns;
    const factors = f32x4.splat(factor);
    const shareds = f32x4.splat(shared);
    let i = 0;
    for (; i <= columns - 4; i += 4) {
      const value = v128.load(at(row, i));
      const scaled = f32x4.mul(v128.load(at(to, i)), factors);
      v128.store(at(to, i), f32x4.add(scaled, f32x4.mul(value, shareds)));
      const own = f32x4.mul(f32x4.mul(v128.load(at(up, i)), value), factors);
      v128.store(at(dWeight, i), f32x4.add(v128.load(at(dWeight, i)), own));
    }
    for (; i < columns; i++) {
      const value = load<f32>(at(row, i));
      store<f32>(at(to, i), load<f32>(at(to, i)) * factor + value * shared);
      store<f32>(at(dWeight, i), load<f32>(at(dWeight, i)) + load<f32>(at(up, i)) * value * factor);
    }
  }
}

/**
 * Rotates the halves of each head of x [tokens, heads, width], whose tokens stand `stride` elements apart; cos and sin [angles, width]
 * repeat every `angles` tokens. `back`: the transposed rotation, for gradients.
 */
export function rotary(
  dst: usize, x: usize, stride: i32, cos: usize, sin: usize, tokens: i32, angles: i32, heads: i32, width: i32, back: i32,
): void {
  const half = width >> 1;
  for (let t = 0; t < tokens; t++) {
    const c = at(cos, (t % angles) * width);
    const s = at(sin, (t % angles) * width);
    for (let h = 0; h < heads; h++) {
      const from = at(x, t * stride + h * width);
      const to = at(dst, (t * heads + h) * width);
      let i = 0;
      for (; i <= half - 4; i += 4) {
        const a = v128.load(at(from, i));
        const b = v128.load(at(from, half + i));
        const s0 = v128.load(at(s, i));
        const s1 = v128.load(at(s, half + i));
        const ac = f32x4.mul(a, v128.load(at(c, i)));
        const bc = f32x4.mul(b, v128.load(at(c, half + i)));
        if (back !== 0) {
          v128.store(at(to, i), f32x4.add(ac, f32x4.mul(b, s1)));
          v128.store(at(to, half + i), f32x4.sub(bc, f32x4.mul(a, s0)));
        } else {
          v128.store(at(to, i), f32x4.sub(ac, f32x4.mul(b, s0)));
          v128.store(at(to, half + i), f32x4.add(bc, f32x4.mul(a, s1)));
        }
      }
      for (; i < half; i++) {
        const a = load<f32>(at(from, i));
        const b = load<f32>(at(from, half + i));
        const s0 = load<f32>(at(s, i));
        const s1 = load<f32>(at(s, half + i));
        const ac = a * load<f32>(at(c, i));
        const bc = b * load<f32>(at(c, half + i));
        store<f32>(at(to, i), back !== 0 ? ac + b * s1 : ac - b * s0);
        store<f32>(at(to, half + i), back !== 0 ? bc - a * s0 : bc + a * s1);
      }
    }
  }
}

@inline
function sigmoid4(x: v128): v128 {
  const one = f32x4.splat(1);
  return f32x4.div(one, f32x4.add(one, exp4(f32x4.neg(x))));
}

/** silu(gate) · up of rows [gate, up], each of `width`. */
export function swiglu(dst: usize, x: usize, rows: i32, width: i32): void {
  for (let r = 0; r < rows; r++) {
    const gate = at(x, 2 * r * width);
    const up = at(gate, width);
    const to = at(dst, r * width);
    let i = 0;
    for (; i <= width - 4; i += 4) {
      const g = v128.load(at(gate, i));
      v128.store(at(to, i), f32x4.mul(f32x4.mul(g, sigmoid4(g)), v128.load(at(up, i))));
    }
    for (; i < width; i++) {
      const g = load<f32>(at(gate, i));
      store<f32>(at(to, i), (g * load<f32>(at(up, i))) / (1 + exp1(-g)));
    }
  }
}

export function swigluBack(dx: usize, g: usize, x: usize, rows: i32, width: i32): void {
  for (let r = 0; r < rows; r++) {
    const gate = at(x, 2 * r * width);
    const up = at(gate, width);
    const grad = at(g, r * width);
    const dGate = at(dx, 2 * r * width);
    const dUp = at(dGate, width);
    let i = 0;
    for (; i <= width - 4; i += 4) {
      const value = v128.load(at(gate, i));
      const given = v128.load(at(grad, i));
      const s = sigmoid4(value);
      const silu = f32x4.mul(value, s);
      const slope = f32x4.add(s, f32x4.mul(silu, f32x4.sub(f32x4.splat(1), s)));
      v128.store(at(dGate, i), f32x4.mul(f32x4.mul(given, v128.load(at(up, i))), slope));
      v128.store(at(dUp, i), f32x4.mul(given, silu));
    }
    for (; i < width; i++) {
      const value = load<f32>(at(gate, i));
      const given = load<f32>(at(grad, i));
      const s: f32 = 1 / (1 + exp1(-value));
      store<f32>(at(dGate, i), given * load<f32>(at(up, i)) * (s + value * s * (1 - s)));
      store<f32>(at(dUp, i), given * value * s);
    }
  }
}

/** Φ(x), the normal distribution function, by Abramowitz & Stegun 7.1.26: within 1e-7. */
@inline
function normal(x: f32): f32 {
  const z: f32 = abs(x) * 0.70710678;
  const t: f32 = 1 / (1 + 0.3275911 * z);
  const p: f32 = t * (0.254829592 + t * (-0.284496736 + t * (1.421413741 + t * (-1.453152027 + t * 1.061405429))));
  const tail: f32 = 0.5 * p * exp1(-z * z);
  return x < 0 ? tail : 1 - tail;
}

export function gelu(dst: usize, x: usize, n: i32): void {
  for (let i = 0; i < n; i++) store<f32>(at(dst, i), load<f32>(at(x, i)) * normal(load<f32>(at(x, i))));
}

export function geluBack(dx: usize, g: usize, x: usize, n: i32): void {
  for (let i = 0; i < n; i++) {
    const value = load<f32>(at(x, i));
    const density: f32 = 0.39894228 * exp1(-0.5 * value * value);
    store<f32>(at(dx, i), load<f32>(at(g, i)) * (normal(value) + value * density));
  }
}

// ---- attention -------------------------------------------------------------------------------------

/** x = x · scale + mask, the mask's elements `step` apart (0 or 1); returns the largest. No mask where `mask` is 0. */
function shifted(x: usize, n: i32, scale: f32, mask: usize, step: i32): f32 {
  let most: f32 = -Infinity;
  for (let i = 0; i < n; i++) {
    let value = load<f32>(at(x, i)) * scale;
    if (mask !== 0) value += load<f32>(at(mask, i * step));
    store<f32>(at(x, i), value);
    most = max(most, value);
  }
  return most;
}

/** x = exp(x − most); returns the sum. */
@inline
function exponentials(x: usize, n: i32, most: f32): f32 {
  const level = f32x4.splat(most);
  let sum = f32x4.splat(0);
  let i = 0;
  for (; i <= n - 4; i += 4) {
    const e = exp4(f32x4.sub(v128.load(at(x, i)), level));
    v128.store(at(x, i), e);
    sum = f32x4.add(sum, e);
  }
  let all = lanes(sum);
  for (; i < n; i++) {
    const e = exp1(load<f32>(at(x, i)) - most);
    store<f32>(at(x, i), e);
    all += e;
  }
  return all;
}

/**
 * Softmax in place over scores own [P, G, H, R, T, S] and before [P, H, G, R, T, S₀] together. mask: strides mB of a row P·G, mT, mS;
 * prefix mask: strides pB of P, pS. No prefix where S₀ is 0.
 */
export function softmax(
  own: usize, S: i32, before: usize, S0: i32, P: i32, G: i32, H: i32, R: i32, T: i32, scale: f32,
  mask: usize, mB: i32, mT: i32, mS: i32, prefixMask: usize, pB: i32, pS: i32,
): void {
  for (let p = 0; p < P; p++) {
    const hidden: usize = prefixMask === 0 ? 0 : at(prefixMask, p * pB);
    for (let g = 0; g < G; g++) {
      for (let h = 0; h < H; h++) {
        for (let r = 0; r < R; r++) {
          for (let t = 0; t < T; t++) {
            const x = at(own, ((((p * G + g) * H + h) * R + r) * T + t) * S);
            const y = at(before, ((((p * H + h) * G + g) * R + r) * T + t) * S0);
            let most = shifted(x, S, scale, mask === 0 ? 0 : at(mask, (p * G + g) * mB + t * mT), mS);
            if (S0 > 0) most = max(most, shifted(y, S0, scale, hidden, pS));
            let sum = exponentials(x, S, most);
            if (S0 > 0) sum += exponentials(y, S0, most);
            affine(x, x, 1 / sum, 0, S);
            if (S0 > 0) affine(y, y, 1 / sum, 0, S0);
          }
        }
      }
    }
  }
}

/** dw becomes the gradient of the scores: w · (dw − Σ w·dw) · scale; shapes as in softmax, with R·T in N. */
export function softmaxBack(
  dOwn: usize, own: usize, S: i32, dBefore: usize, before: usize, S0: i32, P: i32, G: i32, H: i32, N: i32, scale: f32,
): void {
  for (let p = 0; p < P; p++) {
    for (let g = 0; g < G; g++) {
      for (let h = 0; h < H; h++) {
        for (let n = 0; n < N; n++) {
          const x = (((p * G + g) * H + h) * N + n) * S;
          const y = (((p * H + h) * G + g) * N + n) * S0;
          let sum = dot(at(dOwn, x), at(own, x), S);
          if (S0 > 0) sum += dot(at(dBefore, y), at(before, y), S0);
          slope(at(dOwn, x), at(own, x), S, sum, scale);
          if (S0 > 0) slope(at(dBefore, y), at(before, y), S0, sum, scale);
        }
      }
    }
  }
}

@inline
function slope(d: usize, w: usize, n: i32, sum: f32, scale: f32): void {
  const level = f32x4.splat(sum);
  const factor = f32x4.splat(scale);
  let i = 0;
  for (; i <= n - 4; i += 4) {
    const weight = f32x4.mul(v128.load(at(w, i)), factor);
    v128.store(at(d, i), f32x4.mul(weight, f32x4.sub(v128.load(at(d, i)), level)));
  }
  for (; i < n; i++) store<f32>(at(d, i), load<f32>(at(w, i)) * scale * (load<f32>(at(d, i)) - sum));
}

/** Products of a query [D] with keys [n, D], four keys at a time where D is whole vectors. */
function scores(dst: usize, query: usize, keys: usize, n: i32, D: i32): void {
  let s = 0;
  if ((D & 3) === 0) {
    for (; s <= n - 4; s += 4) {
      const key = at(keys, s * D);
      let a = f32x4.splat(0);
      let b = a;
      let c = a;
      let d = a;
      for (let i = 0; i < D; i += 4) {
        const q = v128.load(at(query, i));
        a = f32x4.add(a, f32x4.mul(q, v128.load(at(key, i))));
        b = f32x4.add(b, f32x4.mul(q, v128.load(at(key, D + i))));
        c = f32x4.add(c, f32x4.mul(q, v128.load(at(key, 2 * D + i))));
        d = f32x4.add(d, f32x4.mul(q, v128.load(at(key, 3 * D + i))));
      }
      const ab = f32x4.add(v128.shuffle<i32>(a, b, 0, 4, 1, 5), v128.shuffle<i32>(a, b, 2, 6, 3, 7));
      const cd = f32x4.add(v128.shuffle<i32>(c, d, 0, 4, 1, 5), v128.shuffle<i32>(c, d, 2, 6, 3, 7));
      v128.store(at(dst, s), f32x4.add(v128.shuffle<i64>(ab, cd, 0, 2), v128.shuffle<i64>(ab, cd, 1, 3)));
    }
  }
  for (; s < n; s++) store<f32>(at(dst, s), dot(query, at(keys, s * D), D));
}

/** dst [D] += Σ weights [n] · values [n, D], sixteen features at a time. */
function mix(dst: usize, weights: usize, values: usize, n: i32, D: i32): void {
  let d = 0;
  for (; d <= D - 16; d += 16) {
    const to = at(dst, d);
    let a = v128.load(to);
    let b = v128.load(to, 16);
    let c = v128.load(to, 32);
    let e = v128.load(to, 48);
    for (let s = 0; s < n; s++) {
      const weight = v128.load32_splat(at(weights, s));
      const value = at(values, s * D + d);
      a = f32x4.add(a, f32x4.mul(weight, v128.load(value)));
      b = f32x4.add(b, f32x4.mul(weight, v128.load(value, 16)));
      c = f32x4.add(c, f32x4.mul(weight, v128.load(value, 32)));
      e = f32x4.add(e, f32x4.mul(weight, v128.load(value, 48)));
    }
    v128.store(to, a);
    v128.store(to, b, 16);
    v128.store(to, c, 32);
    v128.store(to, e, 48);
  }
  for (; d < D; d++) {
    let sum = load<f32>(at(dst, d));
    for (let s = 0; s < n; s++) sum += load<f32>(at(weights, s)) * load<f32>(at(values, s * D + d));
    store<f32>(at(dst, d), sum);
  }
}

/**
 * Attention of one query per row, q [B, H, R, D] → dst: keys and values [B, H, …, D] whose rows stand kB and heads kH elements apart,
 * and of a prefix pB and pH, G rows to each; masks with strides mB, mS and nB, nS. `room`: S₀ + S floats.
 */
export function attend(
  dst: usize, q: usize, B: i32, H: i32, R: i32, D: i32, scale: f32, room: usize,
  key: usize, value: usize, S: i32, kB: i32, kH: i32, mask: usize, mB: i32, mS: i32,
  beforeKey: usize, beforeValue: usize, S0: i32, pB: i32, pH: i32, G: i32, prefixMask: usize, nB: i32, nS: i32,
): void {
  for (let b = 0; b < B; b++) {
    for (let h = 0; h < H; h++) {
      const own = b * kB + h * kH;
      const shared = (b / G) * pB + h * pH;
      for (let r = 0; r < R; r++) {
        const query = at(q, ((b * H + h) * R + r) * D);
        const before = room;
        const after = at(before, S0);
        scores(before, query, at(beforeKey, shared), S0, D);
        scores(after, query, at(key, own), S, D);
        let most: f32 = -Infinity;
        if (S0 > 0) most = shifted(before, S0, scale, prefixMask === 0 ? 0 : at(prefixMask, (b / G) * nB), nS);
        most = max(most, shifted(after, S, scale, mask === 0 ? 0 : at(mask, b * mB), mS));
        const inverse: f32 = 1 / exponentials(before, S0 + S, most);
        const to = at(dst, ((b * H + h) * R + r) * D);
        memory.fill(to, 0, (<usize>D) << 2);
        mix(to, before, at(beforeValue, shared), S0, D);
        mix(to, after, at(value, own), S, D);
        affine(to, to, inverse, 0, D);
      }
    }
  }
}

// ---- vocabulary ------------------------------------------------------------------------------------

/** z = (z + mask) / temperature in place (no mask where it is 0); returns the largest. */
@inline
function tempered(z: usize, n: i32, mask: usize, temperature: f32): f32 {
  const divisor = f32x4.splat(temperature);
  let most = f32x4.splat(-Infinity);
  let i = 0;
  for (; i <= n - 4; i += 4) {
    let value = v128.load(at(z, i));
    if (mask !== 0) value = f32x4.add(value, v128.load(at(mask, i)));
    value = f32x4.div(value, divisor);
    v128.store(at(z, i), value);
    most = f32x4.max(most, value);
  }
  let largest = max(
    max(f32x4.extract_lane(most, 0), f32x4.extract_lane(most, 1)),
    max(f32x4.extract_lane(most, 2), f32x4.extract_lane(most, 3)),
  );
  for (; i < n; i++) {
    let value = load<f32>(at(z, i));
    if (mask !== 0) value += load<f32>(at(mask, i));
    value /= temperature;
    store<f32>(at(z, i), value);
    largest = max(largest, value);
  }
  return largest;
}

/**
 * Log-probabilities [rows] of `targets` (int32) and, unless 0, entropies. Logits z [rows, V] become (z + mask) / temperature; `level`
 * [rows] keeps their log-sum-exps.
 */
export function tokenLogProbs(
  z: usize, rows: i32, V: i32, targets: usize, mask: usize, temperature: f32, level: usize, logProb: usize, entropy: usize,
): void {
  for (let r = 0; r < rows; r++) {
    const row = at(z, r * V);
    const most = tempered(row, V, mask, temperature);
    const top = f32x4.splat(most);
    let sum = f32x4.splat(0);
    let moment = f32x4.splat(0);
    let i = 0;
    for (; i <= V - 4; i += 4) {
      const under = f32x4.sub(v128.load(at(row, i)), top);
      const e = exp4(under);
      sum = f32x4.add(sum, e);
      if (entropy !== 0) moment = f32x4.add(moment, f32x4.mul(e, under));
    }
    let all = lanes(sum);
    let mean = lanes(moment);
    for (; i < V; i++) {
      const under = load<f32>(at(row, i)) - most;
      const e = exp1(under);
      all += e;
      mean += e * under;
    }
    const above: f32 = <f32>log(<f64>all);
    store<f32>(at(level, r), most + above);
    store<f32>(at(logProb, r), load<f32>(at(row, load<i32>(at(targets, r)))) - most - above);
    if (entropy !== 0) store<f32>(at(entropy, r), above - mean / all);
  }
}

/** z becomes the gradient of the logits, from those of log-probabilities g and, unless 0, of entropies gEntropy. */
export function tokenLogProbsBack(
  z: usize, rows: i32, V: i32, targets: usize, temperature: f32, level: usize, g: usize, gEntropy: usize, entropy: usize,
): void {
  for (let r = 0; r < rows; r++) {
    const row = at(z, r * V);
    const height = f32x4.splat(load<f32>(at(level, r)));
    const given: f32 = g === 0 ? 0 : load<f32>(at(g, r)) / temperature;
    const weight = f32x4.splat(-given);
    const forEntropy: f32 = gEntropy === 0 ? 0 : load<f32>(at(gEntropy, r)) / temperature;
    const forEntropies = f32x4.splat(-forEntropy);
    const level4 = f32x4.splat(gEntropy === 0 ? 0 : load<f32>(at(entropy, r)));
    const target = at(row, load<i32>(at(targets, r)));
    let i = 0;
    for (; i < V; i += 4) {
      const room = min(4, V - i);
      let value: v128;
      if (room === 4) value = v128.load(at(row, i));
      else {
        value = f32x4.splat(-Infinity);
        value = f32x4.replace_lane(value, 0, load<f32>(at(row, i)));
        if (room > 1) value = f32x4.replace_lane(value, 1, load<f32>(at(row, i + 1)));
        if (room > 2) value = f32x4.replace_lane(value, 2, load<f32>(at(row, i + 2)));
      }
      const under = f32x4.sub(value, height);
      const p = exp4(under);
      let out = f32x4.mul(p, weight);
      if (gEntropy !== 0) out = f32x4.add(out, f32x4.mul(f32x4.mul(p, forEntropies), f32x4.add(under, level4)));
      if (room === 4) v128.store(at(row, i), out);
      else {
        store<f32>(at(row, i), f32x4.extract_lane(out, 0));
        if (room > 1) store<f32>(at(row, i + 1), f32x4.extract_lane(out, 1));
        if (room > 2) store<f32>(at(row, i + 2), f32x4.extract_lane(out, 2));
      }
    }
    store<f32>(target, load<f32>(target) + given);
  }
}

/** Draws int32 ids [rows] by inverting the cumulative distribution at `uniforms`, summed in float64; z [rows, V] is overwritten. */
export function drawTokens(
  z: usize, rows: i32, V: i32, mask: usize, temperature: f32, uniforms: usize, ids: usize, logProbs: usize,
): void {
  for (let r = 0; r < rows; r++) {
    const row = at(z, r * V);
    const most = tempered(row, V, mask, temperature);
    exponentials(row, V, most);
    let sum: f64 = 0;
    for (let i = 0; i < V; i++) sum += <f64>load<f32>(at(row, i));
    const goal = min(max(<f64>load<f32>(at(uniforms, r)), 0), 1 - 1 / 4294967296.0) * sum;
    let id = V - 1;
    let below: f64 = 0;
    for (let i = 0; i < V; i++) {
      below += <f64>load<f32>(at(row, i));
      if (below > goal) {
        id = i;
        break;
      }
    }
    store<i32>(at(ids, r), id);
    store<f32>(at(logProbs, r), <f32>log(<f64>load<f32>(at(row, id)) / sum));
  }
}

// ---- optimiser -------------------------------------------------------------------------------------

/** AdamW in place; `decay` [n] or one `factor`. `step`: learning rate / (1 − β₁ᵗ), `root`: √(1 − β₂ᵗ). */
export function adamW(
  p: usize, g: usize, m: usize, v: usize, decay: usize, factor: f32, n: i32, scale: f32,
  rate: f32, keep1: f32, keep2: f32, beta2: f32, epsilon: f32, step: f32, root: f32,
): void {
  for (let i = 0; i < n; i++) {
    const gradient = load<f32>(at(g, i)) * scale;
    const weight = load<f32>(at(p, i));
    const first = load<f32>(at(m, i));
    const moved: f32 = first + (gradient - first) * keep1;
    // The factor first: the square of a gradient that float32 holds may be none that it holds.
    const second: f32 = load<f32>(at(v, i)) * beta2 + gradient * (gradient * keep2);
    store<f32>(at(m, i), moved);
    store<f32>(at(v, i), second);
    const shrunk: f32 = weight - weight * (decay === 0 ? factor : load<f32>(at(decay, i))) * rate;
    store<f32>(at(p, i), shrunk - (step * moved) / (sqrt(second) / root + epsilon));
  }
}
