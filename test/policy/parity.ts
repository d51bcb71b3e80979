/**
 * The fixtures of test/golden/make_parity.py: random Qwen2.5-VL configurations and what transformers computes with them.
 * Weights, pictures and projection vectors are made here by the formulas of that program.
 */
import { readFileSync } from 'node:fs';
import { fileURLToPath } from 'node:url';
import type { DType, Engine, Tensor } from '../../src/engine/engine.ts';
import { hash32 } from '../../src/ground/random.ts';
import type { Message } from '../../src/policy/chat.ts';
import { layoutOf } from '../../src/policy/layout.ts';
import { parseDims } from '../../src/policy/model-config.ts';
import { Policy } from '../../src/policy/policy.ts';

export interface ParityRow {
  messages: Message[];
  sizes: [width: number, height: number][];
  text: string;
  ids: number[];
  positions: number[][];
  grids: [frames: number, rows: number, columns: number][];
  /** 64 tokens, and the smallest lead of a chosen logit over the next. */
  greedy: number[];
  lead: number;
}

export interface ParityPolicy {
  name: string;
  seed: string;
  /** The embedding is uniform in ±this. */
  embedding: number;
  /** Factor of the patch embedding. */
  patch: number;
  config: Record<string, unknown>;
  preprocessor: Record<string, unknown>;
  rows: ParityRow[];
  loss: number;
  /** Responses behind the prompts, `samples` consecutive ones to each. */
  group?: { samples: number; temperature: number; responses: number[][] };
  /** Relative errors of transformers in bfloat16 against its own float32, ‖a − b‖ / ‖b‖ over the stored pieces. */
  bfloat16?: { states: Record<string, number>; gradients: Record<string, number> };
}

interface Parity {
  made_with: Record<string, string>;
  policies: ParityPolicy[];
}

const file = (path: string): string => fileURLToPath(new URL(`../golden/${path}`, import.meta.url));
const json = (path: string) => JSON.parse(readFileSync(file(path), 'utf8'));

export const parity = json('parity/parity.json') as Parity;

/** The float32 arrays beside it, by name. */
function readArrays(path: string): Map<string, Float32Array> {
  const bytes = readFileSync(file(path));
  const start = 8 + Number(bytes.readBigUInt64LE(0));
  const header = JSON.parse(bytes.toString('utf8', 8, start)) as Record<
    string,
    { data_offsets?: [number, number] }
  >;
  const arrays = new Map<string, Float32Array>();
  for (const [name, { data_offsets: range }] of Object.entries(header)) {
    if (range === undefined) continue; // __metadata__
    arrays.set(
      name,
      new Float32Array(
        bytes.buffer.slice(bytes.byteOffset + start + range[0], bytes.byteOffset + start + range[1]),
      ),
    );
  }
  return arrays;
}

const arrays = readArrays('parity/parity.safetensors');

/** Numbers 0 … count − 1 of a named stream: float32 in [−1, 1), multiples of 2⁻²³. */
export function uniform(stream: string, count: number): Float32Array {
  const key = hash32(stream);
  return Float32Array.from({ length: count }, (_, i) => {
    let x = (Math.imul(i, 0x9e3779b1) + key) | 0;
    x ^= x >>> 16;
    x = Math.imul(x, 0x85ebca6b);
    x ^= x >>> 13;
    x = Math.imul(x, 0xc2b2ae35);
    x ^= x >>> 16;
    return (x >>> 8) * 2 ** -23 - 1;
  });
}

/** Values of a parameter: norms around one, biases around zero, matrices with standard deviation 1.2 / √(inputs). */
function weightsOf(
  name: string,
  shape: readonly number[],
  { seed, embedding, patch }: ParityPolicy,
): Float32Array {
  const size = shape.reduce((a, b) => a * b, 1);
  const values = uniform(`${seed}/${name}`, size);
  const factor = name.includes('patch_embed') ? patch : 1;
  const matrix = name.includes('embed_tokens') ? embedding : 1.2 * Math.sqrt(3 / (size / shape[0]!)) * factor;
  const scale = Math.fround(shape.length === 1 ? 0.4 : matrix);
  const shift = shape.length === 1 && !name.endsWith('bias') ? 1 : 0;
  return values.map((u) => shift + Math.fround(u * scale));
}

/** The policy of a fixture. */
export function parityPolicy(engine: Engine, row: ParityPolicy, dtype: DType = 'float32'): Policy {
  const layout = layoutOf(parseDims(row.config));
  const flat = engine.scope(() => {
    const all = engine.zeros([layout.size], dtype);
    for (const { name, offset, shape } of layout.parameters.flatMap(({ parts }) => parts)) {
      const values = weightsOf(name, shape, row);
      engine.write(all, 0, offset, engine.cast(engine.tensor(values, [values.length]), dtype));
    }
    return all;
  });
  const parts = {
    config: row.config,
    preprocessor: row.preprocessor,
    tokenizer: json('qwen/tokenizer.json'),
    tokenizerConfig: json('qwen/tokenizer_config.json'),
    template: readFileSync(file('qwen/chat_template.jinja'), 'utf8'),
  };
  return new Policy(engine, parts, flat);
}

/**
 * Largest |a − b| / max |b| over a stored tensor, float32 against float32. Measured with libtorch 1.13 and 2.15: pixels 2e-7,
 * visual tokens, states and logits 4e-6, log-probabilities 2e-6, gradients 2.4e-5. Our rotary angles are float64 before the
 * cosine, the reference's float32: cosines differ by 7e-5 at position 1000 and, beyond what is tested here, by 3e-4 at
 * 4000 and 2e-3 at 32 000, where the reference is the one that is rounded.
 */
export const TOLERANCE = 1e-4;

const SAMPLES = 48;

type Pieces = ReadonlyMap<string, Float32Array>;

/** The pieces that make_parity.py stores of a tensor of `rows` rows, under the names that the fixture has. */
function sketch(name: string, values: Float32Array, rows: number): Pieces {
  if (arrays.has(name)) return new Map([[name, values]]);
  const columns = values.length / rows;
  const right = uniform('right', columns);
  const left = uniform('left', rows);
  const byRow = new Float64Array(rows);
  const byColumn = new Float64Array(columns);
  for (let r = 0; r < rows; r++) {
    let sum = 0;
    for (let c = 0; c < columns; c++) {
      const value = values[r * columns + c]!;
      sum += value * right[c]!;
      byColumn[c]! += left[r]! * value;
    }
    byRow[r] = sum;
  }
  const places = uniform('places', SAMPLES).map((u) => Math.floor(((u + 1) / 2) * values.length));
  return new Map([
    [`${name}#rows`, Float32Array.from(byRow)],
    [`${name}#columns`, Float32Array.from(byColumn)],
    [`${name}#some`, places.map((place) => values[place]!)],
  ]);
}

function wanted(name: string, got: Float32Array): Float32Array {
  const want = arrays.get(name);
  if (want?.length !== got.length) {
    throw new Error(`${name}: ${got.length} numbers against ${want?.length ?? 'none'} of the reference`);
  }
  return want;
}

/** Largest |a − b| / max |b| over the stored pieces of a tensor [rows, …] of the fixture. */
export function worst(name: string, values: Float32Array, rows: number): number {
  let most = 0;
  for (const [piece, got] of sketch(name, values, rows)) {
    const want = wanted(piece, got);
    let scale = 0;
    let error = 0;
    for (let i = 0; i < want.length; i++) {
      scale = Math.max(scale, Math.abs(want[i]!));
      const d = Math.abs(got[i]! - want[i]!);
      if (!(d <= error)) error = d; // NaN stays
    }
    const share = error === 0 ? 0 : error / scale;
    if (!(share <= most)) most = share;
  }
  return most;
}

/** ‖a − b‖ / ‖b‖ over the stored pieces. */
export function relative(name: string, values: Float32Array, rows: number): number {
  let difference = 0;
  let norm = 0;
  for (const [piece, got] of sketch(name, values, rows)) {
    const want = wanted(piece, got);
    for (let i = 0; i < want.length; i++) {
      difference += (got[i]! - want[i]!) ** 2;
      norm += want[i]! ** 2;
    }
  }
  return Math.sqrt(difference / norm);
}

/** −Σ w · log p / K, the weights between ½ and 1½ and all different. */
export function weighted(engine: Engine, logProbs: Tensor): Tensor {
  const count = logProbs.shape[0]!;
  const weights = uniform('loss', count).map((u) => 1 + u / 2);
  return engine.div(engine.sum(engine.mul(logProbs, engine.tensor(weights, [count]))), -count);
}

/** Gradients by published names, each a tensor of so many rows. */
export type Gradients = ReadonlyMap<string, { readonly values: Float32Array; readonly rows: number }>;

/** Tensors given in the order of a policy's parameters, by published names. */
export function named({ engine, layout }: Policy, tensors: readonly Tensor[]): Gradients {
  return new Map(
    layout.parameters.flatMap(({ offset, parts }, i) => {
      const values = engine.floats(tensors[i]!);
      return parts.map((part) => {
        const from = part.offset - offset;
        const size = part.shape.reduce((a, b) => a * b, 1);
        return [part.name, { values: values.subarray(from, from + size), rows: part.shape[0]! }] as const;
      });
    }),
  );
}

/** Gradients of a scalar with respect to every parameter. */
export function gradientsOf(policy: Policy, output: Tensor): Gradients {
  return named(policy, policy.engine.grad(output, policy.parameters));
}

/** Names of the parameters that the fixture has gradients of. */
export function gradientNames(prefix: string): string[] {
  const all = [...arrays.keys()].filter((name) => name.startsWith(prefix));
  return [...new Set(all.map((name) => name.slice(prefix.length).split('#')[0]!))].sort();
}
