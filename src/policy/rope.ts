/**
 * M-RoPE: three position ids per token (temporal, height, width). Text counts all three up together; the tokens
 * of an image share one temporal position and spread over its grid; what follows continues from the largest id
 * plus one. Source: `get_rope_index` of transformers, still images.
 */
import type { Tensor } from '../engine/engine.ts';
import { CheckpointError, DataError } from '../ground/errors.ts';
import type { EncodedPrompt } from './batch.ts';
import type { Grid } from './image-processor.ts';
import type { Dims } from './model-config.ts';
import type { Policy } from './policy.ts';

interface RopeIndex {
  /** [3 · T], row after row. */
  readonly positions: Int32Array;
  /** Position of the token that follows: the largest plus one. */
  readonly next: number;
}

/**
 * Position ids of one prompt.
 * @param ids tokens with the image placeholders expanded; @param grids patch grids of its images, in order.
 * @throws CheckpointError when the number of image tokens does not match the grids; DataError when the prompt is longer
 * than the context.
 */
export function ropeIndex(ids: Int32Array, grids: readonly Grid[], dims: Dims): RopeIndex {
  const { merge } = dims.vision;
  const length = ids.length;
  if (length > dims.maxPositions) {
    const visual = ids.reduce((sum, id) => sum + (id === dims.special.image ? 1 : 0), 0);
    throw new DataError(
      `the prompt has ${length} tokens${visual === 0 ? '' : `, ${visual} of them of images`}, and the checkpoint's context ends at ` +
        `${dims.maxPositions} (max_position_embeddings); give ${visual === 0 ? 'less text' : 'less text, or fewer or smaller images'}`,
    );
  }
  const positions = new Int32Array(3 * length);
  let next = 0;
  let image = 0;
  for (let t = 0; t < length; ) {
    if (ids[t] !== dims.special.image) {
      positions[t] = positions[length + t] = positions[2 * length + t] = next++;
      t++;
      continue;
    }
    const grid = grids[image++];
    let run = 0;
    while (t + run < length && ids[t + run] === dims.special.image) run++;
    const rows = (grid?.rows ?? 0) / merge;
    const columns = (grid?.columns ?? 0) / merge;
    if (run !== rows * columns) {
      throw new CheckpointError(
        `image ${image} has ${rows * columns} visual tokens but the prompt holds ${run} image tokens for it; ` +
          'expand the placeholders with the same image processor that cuts the patches',
      );
    }
    for (let i = 0; i < run; i++) {
      positions[t + i] = next;
      positions[length + t + i] = next + Math.floor(i / columns);
      positions[2 * length + t + i] = next + (i % columns);
    }
    t += run;
    next += Math.max(rows, columns);
  }
  if (image !== grids.length) {
    throw new CheckpointError(
      `${grids.length} images for a prompt with room for ${image}; give one placeholder per image`,
    );
  }
  return { positions, next };
}

interface FrequencyTable {
  limit: number;
  cos: Float32Array; // [limit, headDim / 2]
  sin: Float32Array;
}

const tables = new WeakMap<Dims, FrequencyTable>();

/** cos and sin of position · frequency, for all positions below `limit` (or more). */
function frequencyTable(dims: Dims, limit: number): FrequencyTable {
  const known = tables.get(dims);
  if (known !== undefined && known.limit >= limit) return known;
  const half = dims.headDim / 2;
  const size = Math.max(256, 2 ** Math.ceil(Math.log2(limit)));
  const made: FrequencyTable = {
    limit: size,
    cos: new Float32Array(size * half),
    sin: new Float32Array(size * half),
  };
  for (let j = 0; j < half; j++) {
    const frequency = dims.theta ** (-j / half);
    for (let p = 0; p < size; p++) {
      made.cos[p * half + j] = Math.cos(p * frequency);
      made.sin[p * half + j] = Math.sin(p * frequency);
    }
  }
  tables.set(dims, made);
  return made;
}

/**
 * Rotary tables [N, headDim] of N tokens: frequency j follows the temporal, height or width position by its
 * section, and the second half of a head repeats the first.
 * @param positions [3 · N], row after row, each ≥ 0.
 */
export function rotaryTables(dims: Dims, positions: Int32Array): { cos: Float32Array; sin: Float32Array } {
  const count = positions.length / 3;
  let largest = 0;
  for (let i = 0; i < positions.length; i++) if (positions[i]! > largest) largest = positions[i]!;
  const table = frequencyTable(dims, largest + 1);
  const half = dims.headDim / 2;
  const cos = new Float32Array(count * dims.headDim);
  const sin = new Float32Array(count * dims.headDim);
  const [temporal, height] = dims.sections;
  for (let n = 0; n < count; n++) {
    const at = n * dims.headDim;
    for (let j = 0; j < half; j++) {
      const row = j < temporal ? 0 : j < temporal + height ? 1 : 2;
      const from = positions[row * count + n]! * half + j;
      cos[at + j] = cos[at + half + j] = table.cos[from]!;
      sin[at + j] = sin[at + half + j] = table.sin[from]!;
    }
  }
  return { cos, sin };
}

/** Rotary tables of all positions that responses can stand at, by position minus `base`. */
export interface RopeTables {
  readonly base: number;
  /** Positions of responses; the tables are longer. */
  readonly count: number;
  readonly cos: Tensor; // [N, d]
  readonly sin: Tensor;
}

/**
 * Tables for responses of `maxTokens` tokens to these prompts. Behind them stand `beyond` more, for complete rows that
 * run on until the batch changes.
 */
export function ropeTablesFor(
  policy: Policy,
  prompts: readonly EncodedPrompt[],
  maxTokens: number,
  beyond: number,
): RopeTables {
  const nexts = prompts.map(({ next }) => next);
  const base = nexts.reduce((a, b) => Math.min(a, b));
  const count = nexts.reduce((a, b) => Math.max(a, b)) - base + maxTokens;
  const rows = count + beyond;
  const positions = Int32Array.from({ length: 3 * rows }, (_, i) => base + (i % rows));
  const { cos, sin } = rotaryTables(policy.dims, positions);
  const shape = [rows, policy.dims.headDim];
  return { base, count, cos: policy.engine.tensor(cos, shape), sin: policy.engine.tensor(sin, shape) };
}

/**
 * Rows of the tables for the tokens of slots that stand at a column, each shifted by its own: [B]. Slots without a row may
 * be past all responses.
 */
export function ropeRowsAt({ count }: RopeTables, shift: Int32Array, column: number): Int32Array {
  return shift.map((offset) => Math.min(offset + column, count));
}
