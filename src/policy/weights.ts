/** Weights in and out of one flat tensor: random start, Hugging Face checkpoints, saving. */
import type { DType, Engine, Tensor } from '../engine/engine.ts';
import { CheckpointError } from '../ground/errors.ts';
import { Random } from '../ground/random.ts';
import { type Layout, publishedName, type WeightDType } from './layout.ts';
import {
  elements,
  listed,
  readAt,
  STORED_BYTES,
  type StoredDType,
  type StoredTensor,
  type WrittenTensor,
  withFile,
} from './safetensors.ts';

const HEAD = 'lm_head.weight';
const EMBEDDING = 'model.embed_tokens.weight';

/** Random initial weights [P]; equal seeds give equal weights on every engine: a parameter has its own stream. */
export function randomWeights(
  engine: Engine,
  layout: Layout,
  seed: number,
  dtype: WeightDType = 'float32',
): Tensor {
  return engine.scope(() => {
    const flat = engine.zeros([layout.size], dtype); // [P]
    for (const { name, offset, size, start } of layout.parameters) {
      const random = new Random(seed, `weights/${name}`);
      for (const slice of slices(size)) {
        const values = new Float32Array(slice.length);
        if ('value' in start) values.fill(start.value);
        else {
          const std = start.gain / Math.sqrt(start.fanIn);
          for (let i = 0; i < values.length; i++) values[i] = random.normal(0, std);
        }
        engine.scope(() =>
          engine.write(flat, 0, offset + slice.start, engine.tensor(values, [slice.length])),
        );
      }
    }
    return flat;
  });
}

/**
 * The stored tensors under their published names. Of a tied policy, a head that was stored all the same is left out, and
 * one that was stored instead of the embedding stands for it.
 * @throws CheckpointError for a tensor by two names, and a head that differs from the embedding that it should be
 */
export function byPublishedName(
  layout: Layout,
  checkpoint: ReadonlyMap<string, StoredTensor>,
): Map<string, StoredTensor> {
  const stored = new Map<string, StoredTensor>();
  for (const [name, tensor] of checkpoint) {
    const published = publishedName(name);
    const twin = stored.get(published);
    if (twin !== undefined) {
      throw new CheckpointError(
        `${tensor.file}: tensors ${twin.name} and ${name} are the same weights by two names; keep one of them`,
      );
    }
    stored.set(published, tensor);
  }
  const head = stored.get(HEAD);
  const tied = layout.parameters.every(({ parts }) => parts.every(({ name }) => name !== HEAD));
  if (tied && head !== undefined) {
    const embedding = stored.get(EMBEDDING);
    if (embedding !== undefined && !sameTensor(embedding, head)) {
      throw new CheckpointError(
        `${head.file}: tensor ${head.name} differs from the embedding, which config.json says it is; ` +
          "set 'tie_word_embeddings' to false in config.json if the checkpoint was trained so",
      );
    }
    stored.set(EMBEDDING, embedding ?? head);
    stored.delete(HEAD);
  }
  return stored;
}

/** Differences between stored tensors and the parts of a layout. */
interface Mismatch {
  readonly missing: readonly string[];
  readonly unknown: readonly string[];
  /** All of it, for a message. */
  readonly problems: string;
}

/**
 * Compares stored tensors, by the names of a layout's parts, with the layout; null when they fit. `unknown`: further
 * tensors, which are known to have no part; `fileName`: how a part is called in the file.
 */
export function compareParts(
  layout: Layout,
  stored: ReadonlyMap<string, StoredTensor>,
  others: readonly string[] = [],
  fileName: (part: string) => string = (name) => name,
): Mismatch | null {
  const parts = layout.parameters.flatMap((parameter) => parameter.parts);
  const wanted = new Set(parts.map(({ name }) => name));
  const missing = parts.filter(({ name }) => !stored.has(name)).map(({ name }) => fileName(name));
  const unknown = [
    ...others,
    ...[...stored].filter(([name]) => !wanted.has(name)).map(([, { name }]) => name),
  ];
  const misshaped = parts.flatMap(({ name, shape }) => {
    const tensor = stored.get(name);
    return tensor === undefined || tensor.shape.join() === shape.join()
      ? []
      : [`${tensor.name} is [${tensor.shape.join(', ')}] instead of [${shape.join(', ')}]`];
  });
  const problems = [
    ...(missing.length > 0 ? [`${missing.length} missing: ${listed(missing)}`] : []),
    ...(unknown.length > 0 ? [`${unknown.length} not part of this policy: ${listed(unknown)}`] : []),
    ...(misshaped.length > 0 ? [`${misshaped.length} of another shape: ${listed(misshaped)}`] : []),
  ].join('; ');
  return problems === '' ? null : { missing, unknown, problems };
}

/**
 * Loads stored tensors that fit a layout into a flat buffer [P] of `dtype`. @throws CheckpointError for NaN
 * or Infinity
 */
export function loadFlat(
  engine: Engine,
  layout: Layout,
  stored: ReadonlyMap<string, StoredTensor>,
  dtype: WeightDType,
): Tensor {
  const order = layout.parameters
    .flatMap(({ parts }) => parts)
    .map(({ name, offset }) => ({ tensor: stored.get(name)!, at: offset }))
    .sort(
      (a, b) =>
        (a.tensor.file < b.tensor.file ? -1 : a.tensor.file > b.tensor.file ? 1 : 0) ||
        a.tensor.offset - b.tensor.offset,
    );
  return engine.scope(() => {
    const flat = engine.zeros([layout.size], dtype); // [P]
    for (const { tensor, at } of order) loadTensor(engine, tensor, flat, at);
    return flat;
  });
}

/**
 * Loads the weights [P] of a checkpoint, in either naming scheme, converted to `dtype` as transformers does.
 * @throws CheckpointError listing the tensors that are missing, unknown or of another shape, or naming one
 * that holds NaN or Infinity
 */
export function loadWeights(
  engine: Engine,
  layout: Layout,
  directory: string,
  checkpoint: ReadonlyMap<string, StoredTensor>,
  dtype: WeightDType = 'float32',
): Tensor {
  const stored = byPublishedName(layout, checkpoint);
  const mismatch = compareParts(layout, stored);
  if (mismatch === null) return loadFlat(engine, layout, stored, dtype);
  const hint = mismatch.missing.includes(HEAD)
    ? "; a policy whose head is its embedding has 'tie_word_embeddings': true"
    : '';
  throw new CheckpointError(
    `${directory}: tensors and config.json differ; ${mismatch.problems}. Take both from one checkpoint${hint}`,
  );
}

/** The tensors of a flat buffer [P] in its own dtype, to be written under the names that `fileName` gives its parts. */
export function flatTensors(
  engine: Engine,
  layout: Layout,
  flat: Tensor,
  fileName: (part: string) => string = (name) => name,
): WrittenTensor[] {
  const dtype = flat.dtype === 'bfloat16' ? 'BF16' : 'F32';
  return layout.parameters.flatMap(({ parts }) =>
    parts.map(({ name, shape, offset }) => ({
      name: fileName(name),
      shape,
      dtype,
      bytes: () => tensorBytes(engine, flat, offset, elements(shape)),
    })),
  );
}

/** Elements that move between file, host and device at once: 32 MiB of float32. */
const SLICE = 2 ** 23;

const ENGINE_DTYPES: Readonly<Record<StoredDType, DType>> = {
  F64: 'float64',
  F32: 'float32',
  F16: 'float16',
  BF16: 'bfloat16',
};

/** Ranges of at most SLICE elements that cover `size`. */
export function* slices(size: number): Generator<{ readonly start: number; readonly length: number }> {
  for (let start = 0; start < size; start += SLICE) yield { start, length: Math.min(SLICE, size - start) };
}

/** Part of a stored tensor as a vector. */
function part(engine: Engine, { file, offset, dtype }: StoredTensor, start: number, length: number): Tensor {
  return engine.fromFile(file, offset + start * STORED_BYTES[dtype], [length], ENGINE_DTYPES[dtype]);
}

/**
 * Copies a stored tensor, or its `count` elements from `from` on, into `flat` from element `at` on, converting dtypes slice by slice.
 * @throws CheckpointError when it holds NaN or Infinity, or values beyond the range of `flat`
 */
export function loadTensor(
  engine: Engine,
  stored: StoredTensor,
  flat: Tensor,
  at: number,
  from = 0,
  count = elements(stored.shape),
): void {
  for (const { start, length } of slices(count)) {
    engine.scope(() => {
      engine.write(flat, 0, at + start, part(engine, stored, from + start, length));
      if (!engine.allFinite(engine.narrow(flat, 0, at + start, length))) {
        throw new CheckpointError(
          `${stored.file}: tensor ${stored.name} holds NaN or Infinity (as ${flat.dtype}); use an earlier checkpoint`,
        );
      }
    });
  }
}

/** The bytes of `size` elements of `flat` from `offset` on, a slice at a time. */
export function* tensorBytes(
  engine: Engine,
  flat: Tensor,
  offset: number,
  size: number,
): Generator<Uint8Array> {
  for (const { start, length } of slices(size)) {
    yield engine.scope(() => engine.bytes(engine.narrow(flat, 0, offset + start, length)));
  }
}

/** Returns true if two stored tensors hold the same bytes. */
function sameTensor(a: StoredTensor, b: StoredTensor): boolean {
  if (a.dtype !== b.dtype || a.shape.join() !== b.shape.join()) return false;
  const size = STORED_BYTES[a.dtype];
  return Array.from(slices(elements(a.shape))).every(({ start, length }) => {
    const [x, y] = [a, b].map(({ file, offset }) =>
      withFile(file, (handle) => readAt(handle, file, offset + start * size, length * size)),
    );
    return Buffer.compare(x!, y!) === 0;
  });
}
