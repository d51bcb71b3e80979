/**
 * Counter-based random numbers: every draw is a pure function of a key and a counter, so a run repeats on any
 * engine, in any order, in any Worker. The block function is Philox-4x32-10 (Salmon et al. 2011, "Parallel
 * random numbers: as easy as 1, 2, 3"), checked against the paper's known-answer vectors.
 */

const M0 = 0xd2511f53;
const M1 = 0xcd9e8d57;
const W0 = 0x9e3779b9;
const W1 = 0xbb67ae85;

/** High 32 bits of a 32 × 32 bit product. */
function mulHigh(a: number, b: number): number {
  const aHigh = a >>> 16;
  const aLow = a & 0xffff;
  const bHigh = b >>> 16;
  const bLow = b & 0xffff;
  const low = aLow * bLow;
  const middle = aHigh * bLow + (low >>> 16);
  const carry = (middle & 0xffff) + aLow * bHigh;
  return (aHigh * bHigh + Math.floor(middle / 0x10000) + Math.floor(carry / 0x10000)) >>> 0;
}

/** Computes a Philox-4x32-10 block: counter [4] and key [2] of uint32, result in `out` [4]. */
export function philox(
  counter: readonly [number, number, number, number],
  key: readonly [number, number],
  out: Uint32Array,
): void {
  // By index: this is the inner loop of all generators, and destructuring walks an iterator.
  let c0 = counter[0];
  let c1 = counter[1];
  let c2 = counter[2];
  let c3 = counter[3];
  let k0 = key[0];
  let k1 = key[1];
  for (let round = 0; round < 10; round++) {
    const high0 = mulHigh(M0, c0);
    const low0 = Math.imul(M0, c0) >>> 0;
    const high1 = mulHigh(M1, c2);
    const low1 = Math.imul(M1, c2) >>> 0;
    c0 = (high1 ^ c1 ^ k0) >>> 0;
    c1 = low1;
    c2 = (high0 ^ c3 ^ k1) >>> 0;
    c3 = low0;
    k0 = (k0 + W0) >>> 0;
    k1 = (k1 + W1) >>> 0;
  }
  out[0] = c0;
  out[1] = c1;
  out[2] = c2;
  out[3] = c3;
}

/** 32-bit FNV-1a of a string: turns stream names into key words. */
export function hash32(text: string): number {
  let hash = 0x811c9dc5;
  for (let i = 0; i < text.length; i++) {
    hash = Math.imul(hash ^ text.charCodeAt(i), 0x01000193);
  }
  return hash >>> 0;
}

/**
 * A stream of random numbers keyed by a seed, a name and up to two indices (step, example, sample …).
 * Streams with different keys are independent; creating one is free.
 */
export class Random {
  readonly #key: readonly [number, number];
  readonly #a: number;
  readonly #b: number;
  readonly #block = new Uint32Array(4);
  #counter = 0;
  #used = 4;
  #spare: number | undefined;

  constructor(seed: number, name: string, a = 0, b = 0) {
    this.#key = [(seed ^ (Math.floor(seed / 0x100000000) * W0)) >>> 0, hash32(name)];
    this.#a = a >>> 0;
    this.#b = b >>> 0;
  }

  /** Next uint32. */
  uint32(): number {
    if (this.#used === 4) {
      const high = Math.floor(this.#counter / 0x100000000) >>> 0;
      philox([this.#counter >>> 0, high, this.#a, this.#b], this.#key, this.#block);
      this.#counter++;
      this.#used = 0;
    }
    return this.#block[this.#used++]!;
  }

  /** Uniform in [0, 1) with 53 bits. */
  uniform(): number {
    const high = this.uint32() >>> 5;
    const low = this.uint32() >>> 6;
    return (high * 67108864 + low) / 9007199254740992;
  }

  /** Uniform in [lo, hi). */
  between(lo: number, hi: number): number {
    return lo + (hi - lo) * this.uniform();
  }

  /** Integer in [lo, hi], both ends included. */
  integer(lo: number, hi: number): number {
    return lo + Math.floor(this.uniform() * (hi - lo + 1));
  }

  /** Normal with the given mean and standard deviation (Box–Muller, both halves used). */
  normal(mean = 0, std = 1): number {
    if (this.#spare !== undefined) {
      const z = this.#spare;
      this.#spare = undefined;
      return mean + std * z;
    }
    const radius = Math.sqrt(-2 * Math.log(1 - this.uniform()));
    const angle = 2 * Math.PI * this.uniform();
    this.#spare = radius * Math.sin(angle);
    return mean + std * radius * Math.cos(angle);
  }

  /** Exponential with the given mean. */
  exponential(mean: number): number {
    return -mean * Math.log(1 - this.uniform());
  }

  /** Element of a non-empty list. */
  pick<T>(items: readonly T[]): T {
    return items[Math.floor(this.uniform() * items.length)]!;
  }

  /** Index drawn with the given non-negative weights. */
  weighted(weights: readonly number[]): number {
    let remaining = this.uniform() * weights.reduce((sum, w) => sum + w, 0);
    for (let i = 0; i < weights.length - 1; i++) {
      remaining -= weights[i]!;
      if (remaining < 0) return i;
    }
    return weights.length - 1;
  }

  /** Permutation of 0 … n−1 (Fisher–Yates). */
  permutation(n: number): Int32Array {
    const order = Int32Array.from({ length: n }, (_, i) => i);
    for (let i = n - 1; i > 0; i--) {
      const j = this.integer(0, i);
      const kept = order[i]!;
      order[i] = order[j]!;
      order[j] = kept;
    }
    return order;
  }
}

/*
 * Normal draws by the thousand: Marsaglia and Tsang's ziggurat (2000) with 128 layers. One 32-bit word a draw almost always, about a
 * third of the time of Box–Muller. Layer, sign and magnitude come from disjoint bits of the word (Doornik 2005).
 */
const LAYERS = 128;
/** Start of the tail, and the area of each layer, for 128 layers. */
const TAIL = 3.442619855899;
const AREA = 9.91256303526217e-3;
const MAGNITUDE = 2 ** -24;

const density = (x: number): number => Math.exp(-0.5 * x * x);

const edge = new Float64Array(LAYERS + 1); // [129] right edges, falling from the base layer to 0
const height = new Float64Array(LAYERS + 1); // [129] density at the edges
edge[0] = AREA / density(TAIL);
edge[1] = TAIL;
for (let i = 2; i < LAYERS; i++) {
  edge[i] = Math.sqrt(-2 * Math.log(AREA / edge[i - 1]! + density(edge[i - 1]!)));
}
edge[LAYERS] = 0;
for (let i = 0; i <= LAYERS; i++) height[i] = density(edge[i]!);

function tail(random: Random): number {
  for (;;) {
    const x = -Math.log(1 - random.uniform()) / TAIL;
    const y = -Math.log(1 - random.uniform());
    if (2 * y >= x * x) return TAIL + x;
  }
}

/** Draws from N(0, 1); the magnitude within a layer has 24 bits. */
export function standardNormal(random: Random): number {
  for (;;) {
    const word = random.uint32();
    const layer = word & 127;
    const sign = (word & 128) === 0 ? 1 : -1;
    const x = (word >>> 8) * MAGNITUDE * edge[layer]!;
    if (x < edge[layer + 1]!) return sign * x;
    if (layer === 0) return sign * tail(random);
    const low = height[layer]!;
    if (low + random.uniform() * (height[layer + 1]! - low) < density(x)) return sign * x;
  }
}

/** Adds N(0, std) to values[start … end). */
export function addNoise(
  random: Random,
  values: Float64Array,
  std: number,
  start: number,
  end: number,
): void {
  for (let t = start; t < end; t++) values[t] = values[t]! + std * standardNormal(random);
}

/** Item at an index: each block of as many indices as there are items is a permutation of them, from a stream of its own. */
export function balanced<T>(items: readonly T[], seed: number, stream: string, index: number): T {
  const size = items.length;
  const order = new Random(seed, stream, Math.floor(index / size)).permutation(size);
  return items[order[index % size]!]!;
}
