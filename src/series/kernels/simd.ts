/**
 * SIMD kernels in AssemblyScript, compiled to WebAssembly by the build. Arguments are addresses in the memory that the caller
 * lays out. Each computes, operation by operation, the numbers of its plain form.
 */

/**
 * Squared distances of the window `own` [pieces] to all windows [blocks][pieces][16]: `out` [blocks][16], and the least of each
 * block [blocks].
 */
export function distances(
  features: usize,
  blocks: i32,
  pieces: i32,
  own: usize,
  out: usize,
  least: usize,
): void {
  const last = out + ((<usize>blocks) << 7);
  const size = (<usize>pieces) << 7;
  for (; out < last; out += 128) {
    let smallest = f64x2.splat(Infinity);
    // Eight windows at a time.
    for (let half = 0; half < 128; half += 64) {
      let sum0 = f64x2.splat(0);
      let sum1 = sum0;
      let sum2 = sum0;
      let sum3 = sum0;
      let mine = own;
      for (let at = features + half; at < features + size; at += 128) {
        const value = v128.load64_splat(mine);
        const step0 = f64x2.sub(v128.load(at), value);
        const step1 = f64x2.sub(v128.load(at, 16), value);
        const step2 = f64x2.sub(v128.load(at, 32), value);
        const step3 = f64x2.sub(v128.load(at, 48), value);
        sum0 = f64x2.add(sum0, f64x2.mul(step0, step0));
        sum1 = f64x2.add(sum1, f64x2.mul(step1, step1));
        sum2 = f64x2.add(sum2, f64x2.mul(step2, step2));
        sum3 = f64x2.add(sum3, f64x2.mul(step3, step3));
        mine += 8;
      }
      v128.store(out + half, sum0);
      v128.store(out + half, sum1, 16);
      v128.store(out + half, sum2, 32);
      v128.store(out + half, sum3, 48);
      smallest = f64x2.pmin(f64x2.pmin(smallest, sum0), sum1);
      smallest = f64x2.pmin(f64x2.pmin(smallest, sum2), sum3);
    }
    store<f64>(least, min(f64x2.extract_lane(smallest, 0), f64x2.extract_lane(smallest, 1)));
    features += size;
    least += 8;
  }
}

/** Updates the best correlation of a column and its neighbour. */
function column(best: usize, neighbours: usize, j: i32, row: i32, correlation: f64): void {
  if (correlation < load<f64>(best + ((<usize>j) << 3))) return;
  store<f64>(best + ((<usize>j) << 3), correlation);
  store<i32>(neighbours + ((<usize>j) << 2), row);
}

/**
 * Rows [begin, end) of the diagonals lag … lag + 3 of a matrix profile, as `fourRows` of matrix-profile.ts. `covariances` [4] are
 * those of row `begin`, and become those of the last row.
 */
export function fourRows(
  incoming: usize,
  outgoing: usize,
  inverse: usize,
  best: usize,
  neighbours: usize,
  covariances: usize,
  lag: i32,
  begin: i32,
  end: i32,
): void {
  let cov0 = v128.load(covariances);
  let cov1 = v128.load(covariances, 16);
  let row = (<usize>begin) << 3;
  let at = (<usize>(begin + lag)) << 3;
  for (let i = begin; i < end; i++) {
    if (i !== begin) {
      const entering = v128.load64_splat(incoming + row);
      const leaving = v128.load64_splat(outgoing + row);
      const entering0 = f64x2.mul(entering, v128.load(outgoing + at));
      const entering1 = f64x2.mul(entering, v128.load(outgoing + at, 16));
      cov0 = f64x2.add(cov0, f64x2.add(entering0, f64x2.mul(v128.load(incoming + at), leaving)));
      cov1 = f64x2.add(cov1, f64x2.add(entering1, f64x2.mul(v128.load(incoming + at, 16), leaving)));
    }
    const scale = v128.load64_splat(inverse + row);
    const top = v128.load64_splat(best + row);
    const c0 = f64x2.mul(f64x2.mul(cov0, scale), v128.load(inverse + at));
    const c1 = f64x2.mul(f64x2.mul(cov1, scale), v128.load(inverse + at, 16));
    const higher = v128.or(f64x2.gt(c0, top), f64x2.gt(c1, top));
    const columns = v128.or(f64x2.ge(c0, v128.load(best + at)), f64x2.ge(c1, v128.load(best + at, 16)));
    if (v128.any_true(v128.or(higher, columns))) {
      const j = i + lag;
      const r0 = f64x2.extract_lane(c0, 0);
      const r1 = f64x2.extract_lane(c0, 1);
      const r2 = f64x2.extract_lane(c1, 0);
      const r3 = f64x2.extract_lane(c1, 1);
      let most = load<f64>(best + row);
      let nearest = -1;
      if (r0 > most) {
        most = r0;
        nearest = j;
      }
      if (r1 > most) {
        most = r1;
        nearest = j + 1;
      }
      if (r2 > most) {
        most = r2;
        nearest = j + 2;
      }
      if (r3 > most) {
        most = r3;
        nearest = j + 3;
      }
      if (nearest >= 0) {
        store<f64>(best + row, most);
        store<i32>(neighbours + ((<usize>i) << 2), nearest);
      }
      column(best, neighbours, j, i, r0);
      column(best, neighbours, j + 1, i, r1);
      column(best, neighbours, j + 2, i, r2);
      column(best, neighbours, j + 3, i, r3);
    }
    row += 8;
    at += 8;
  }
  v128.store(covariances, cov0);
  v128.store(covariances, cov1, 16);
}

/** Lowers a distance to a smaller one. */
function lower(nearest: usize, distance: f64): void {
  if (distance < load<f64>(nearest)) store<f64>(nearest, distance);
}

/**
 * Lowers `nearest` [count + 3], the squared distances of stretches of `window` samples to those they do not overlap, four lags at a time, as
 * the plain form in deviation.ts. Three infinite values behind the series [n + 3] make the lags beyond its end not a number, which is never
 * smaller.
 */
export function stretches(values: usize, nearest: usize, window: i32, count: i32): void {
  const size = f64x2.splat(<f64>window);
  const width = (<usize>window) << 3;
  for (let lag = window; lag < count; lag += 4) {
    let squares0 = f64x2.splat(0);
    let squares1 = squares0;
    let sum0 = squares0;
    let sum1 = squares0;
    let row = values;
    let at = values + ((<usize>lag) << 3);
    for (const end = row + width; row < end; row += 8) {
      const own = v128.load64_splat(row);
      const d0 = f64x2.sub(own, v128.load(at));
      const d1 = f64x2.sub(own, v128.load(at, 16));
      squares0 = f64x2.add(squares0, f64x2.mul(d0, d0));
      squares1 = f64x2.add(squares1, f64x2.mul(d1, d1));
      sum0 = f64x2.add(sum0, d0);
      sum1 = f64x2.add(sum1, d1);
      at += 8;
    }
    row = values;
    at = values + ((<usize>lag) << 3);
    let own = nearest;
    let other = nearest + ((<usize>lag) << 3);
    for (const last = row + ((<usize>(count - lag - 1)) << 3); ; ) {
      const c0 = f64x2.sub(squares0, f64x2.div(f64x2.mul(sum0, sum0), size));
      const c1 = f64x2.sub(squares1, f64x2.div(f64x2.mul(sum1, sum1), size));
      const top = v128.load64_splat(own);
      const rows = v128.or(f64x2.lt(c0, top), f64x2.lt(c1, top));
      const columns = v128.or(f64x2.lt(c0, v128.load(other)), f64x2.lt(c1, v128.load(other, 16)));
      if (v128.any_true(v128.or(rows, columns))) {
        const r0 = f64x2.extract_lane(c0, 0);
        const r1 = f64x2.extract_lane(c0, 1);
        const r2 = f64x2.extract_lane(c1, 0);
        const r3 = f64x2.extract_lane(c1, 1);
        lower(own, r0);
        lower(own, r1);
        lower(own, r2);
        lower(own, r3);
        lower(other, r0);
        lower(other + 8, r1);
        lower(other + 16, r2);
        lower(other + 24, r3);
      }
      if (row === last) break;
      const left = v128.load64_splat(row);
      const came = v128.load64_splat(row + width);
      const gone0 = f64x2.sub(left, v128.load(at));
      const gone1 = f64x2.sub(left, v128.load(at, 16));
      const come0 = f64x2.sub(came, v128.load(at + width));
      const come1 = f64x2.sub(came, v128.load(at + width, 16));
      squares0 = f64x2.add(squares0, f64x2.sub(f64x2.mul(come0, come0), f64x2.mul(gone0, gone0)));
      squares1 = f64x2.add(squares1, f64x2.sub(f64x2.mul(come1, come1), f64x2.mul(gone1, gone1)));
      sum0 = f64x2.add(sum0, f64x2.sub(come0, gone0));
      sum1 = f64x2.add(sum1, f64x2.sub(come1, gone1));
      row += 8;
      at += 8;
      own += 8;
      other += 8;
    }
  }
}

/** Computes the value less the level at a place between two samples. */
function departure(values: usize, level: usize, place: f64, between: bool): f64 {
  const left = Math.floor(place);
  const at = (<usize>left) << 3;
  const part = between ? place - left : 0;
  const value =
    part === 0
      ? load<f64>(values + at)
      : (1 - part) * load<f64>(values + at) + part * load<f64>(values + at, 8);
  return value - load<f64>(level + at);
}

/**
 * Level plus median departure of the eight places `cycles` + `phases` [8] around every `stride`-th sample. Computes `places` results
 * from sample `first` on, two at a time.
 * @param between true where places may lie between two samples
 */
export function medians(
  values: usize,
  level: usize,
  cycles: usize,
  phases: usize,
  between: bool,
  first: i32,
  stride: i32,
  places: i32,
  out: usize,
): void {
  let v0 = f64x2.splat(0);
  let v1 = v0;
  let v2 = v0;
  let v3 = v0;
  let v4 = v0;
  let v5 = v0;
  let v6 = v0;
  let v7 = v0;
  for (let place = 0; place < places; place += 2) {
    const i = first + place * stride;
    for (let c = 0; c < 64; c += 8) {
      const cycle = load<f64>(cycles + c);
      const phase = load<f64>(phases + c);
      let pair = f64x2.splat(departure(values, level, <f64>i + cycle + phase, between));
      pair = f64x2.replace_lane(
        pair,
        1,
        departure(values, level, <f64>(i + stride) + cycle + phase, between),
      );
      v0 = v1;
      v1 = v2;
      v2 = v3;
      v3 = v4;
      v4 = v5;
      v5 = v6;
      v6 = v7;
      v7 = pair;
    }
    // Sorting network for eight values, as far as the middle two depend on it.
    const a0 = f64x2.pmin(v0, v2);
    const a2 = f64x2.pmax(v0, v2);
    const a1 = f64x2.pmin(v1, v3);
    const a3 = f64x2.pmax(v1, v3);
    const a4 = f64x2.pmin(v4, v6);
    const a6 = f64x2.pmax(v4, v6);
    const a5 = f64x2.pmin(v5, v7);
    const a7 = f64x2.pmax(v5, v7);
    const b0 = f64x2.pmin(a0, a4);
    const b4 = f64x2.pmax(a0, a4);
    const b1 = f64x2.pmin(a1, a5);
    const b5 = f64x2.pmax(a1, a5);
    const b2 = f64x2.pmin(a2, a6);
    const b6 = f64x2.pmax(a2, a6);
    const b3 = f64x2.pmin(a3, a7);
    const b7 = f64x2.pmax(a3, a7);
    const c1 = f64x2.pmax(b0, b1);
    const c2 = f64x2.pmin(b2, b3);
    const c3 = f64x2.pmax(b2, b3);
    const c4 = f64x2.pmin(b4, b5);
    const c5 = f64x2.pmax(b4, b5);
    const c6 = f64x2.pmin(b6, b7);
    const upper = f64x2.pmax(c1, f64x2.pmax(c2, c4));
    const lower = f64x2.pmin(c6, f64x2.pmin(c3, c5));
    const middle = f64x2.div(f64x2.add(lower, upper), f64x2.splat(2));
    const at = (<usize>i) << 3;
    const base = f64x2.replace_lane(
      v128.load64_splat(level + at),
      1,
      load<f64>(level + at + ((<usize>stride) << 3)),
    );
    v128.store(out + ((<usize>place) << 3), f64x2.add(base, middle));
  }
}
