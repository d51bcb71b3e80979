/**
 * `timeseer.reference.json` beside a policy's weights: what the features are that it finds in pictures of its own training data, and how
 * sure it is of its answers to validation data. What lies far outside of it is unlike what the policy was taught.
 *
 * The distance is Mahalanobis' under mean and covariance of the training features, divided by √D, so that it is about 1 of what is alike in any
 * number of dimensions. The covariance is shrunk towards a multiple of the identity (Ledoit & Wolf 2004, "A well-conditioned estimator for
 * large-dimensional covariance matrices"), because there are hardly more pictures than dimensions.
 */
import { join } from 'node:path';
import { z } from 'zod';
import { writeJson } from '../ground/files.ts';
import { readSaved } from '../ground/manifest.ts';
import { concatenate } from '../ground/numbers.ts';
import { choleskyInPlace } from '../series/stats.ts';

export const REFERENCE_FILE = 'timeseer.reference.json';

/** Dimensions of features: a file of the largest holds 11 MB. */
export const MOST_DIMENSIONS = 2048;

const quantile = z.number();
const referenceSchema = z.strictObject({
  version: z.literal(1),
  dimensions: z.int().min(1).max(MOST_DIMENSIONS),
  /** Training examples that the features are of, and validation examples that the quantiles are of. */
  examples: z.strictObject({ training: z.int().min(2), validation: z.int().min(1) }),
  /** float32, little-endian, in base64: the mean [D], and row by row the lower triangle of the Cholesky factor of the covariance. */
  mean: z.base64(),
  factor: z.base64(),
  /** Quantiles over the validation examples: of the distance, and of an answer's mean log-probability of a token. */
  distance: z.strictObject({ p50: quantile, p90: quantile, p99: quantile }),
  logProbability: z.strictObject({ p01: quantile, p10: quantile, p50: quantile }),
});

export interface PolicyReference {
  readonly dimensions: number;
  readonly examples: { readonly training: number; readonly validation: number };
  readonly mean: Float32Array; // [D]
  /** Lower triangle, row by row. */
  readonly factor: Float32Array; // [D(D + 1)/2]
  readonly distance: { readonly p50: number; readonly p90: number; readonly p99: number };
  readonly logProbability: { readonly p01: number; readonly p10: number; readonly p50: number };
}

/** The value that a share `p` of the sorted values lies below, without interpolation. */
function quantileOf(values: readonly number[], p: number): number {
  const sorted = [...values].sort((a, b) => a - b);
  return sorted[Math.min(sorted.length - 1, Math.floor(p * sorted.length))]!;
}

/** Mean [D] and shrunk covariance [D·D] of rows [N][D]. */
function shrunkCovariance(rows: readonly Float32Array[]): { mean: Float64Array; covariance: Float64Array } {
  const [n, d] = [rows.length, rows[0]!.length];
  const mean = new Float64Array(d);
  for (const row of rows) for (let i = 0; i < d; i++) mean[i]! += row[i]! / n;
  const centred = rows.map((row) => Float64Array.from(row, (value, i) => value - mean[i]!));
  const covariance = new Float64Array(d * d);
  for (const row of centred) {
    for (let i = 0; i < d; i++)
      for (let j = 0; j <= i; j++) covariance[i * d + j]! += (row[i]! * row[j]!) / n;
  }
  let level = 0;
  for (let i = 0; i < d; i++) {
    level += covariance[i * d + i]! / d;
    for (let j = 0; j < i; j++) covariance[j * d + i] = covariance[i * d + j]!;
  }
  // How far the covariance is from a multiple of the identity, and how much of that is chance. With ‖x·xᵀ − S‖² = ‖x‖⁴ − 2xᵀSx + ‖S‖².
  let size = 0;
  for (const value of covariance) size += value * value;
  let chance = 0;
  for (const row of centred) {
    let [norm, form] = [0, 0];
    for (let i = 0; i < d; i++) {
      norm += row[i]! ** 2;
      let sum = 0;
      for (let j = 0; j < d; j++) sum += covariance[i * d + j]! * row[j]!;
      form += row[i]! * sum;
    }
    chance += (norm * norm - 2 * form + size) / (n * n);
  }
  const spread = size - d * level * level;
  const shrinkage = spread > 0 ? Math.min(1, chance / spread) : 1;
  const least = level > 0 ? 1e-9 * level : 1;
  const shrunk = covariance.map((value, k) => {
    const diagonal = Math.floor(k / d) === k % d;
    return (1 - shrinkage) * value + (diagonal ? shrinkage * level + least : 0);
  });
  return { mean, covariance: shrunk };
}

/** Builds the reference from features [N][D] of training and [M][D] of validation examples, and log-probabilities [M]. */
export function makeReference(
  training: readonly Float32Array[],
  validation: readonly Float32Array[],
  logProbabilities: readonly number[],
): PolicyReference {
  const dimensions = training[0]!.length;
  const { mean, covariance } = shrunkCovariance(training);
  choleskyInPlace(covariance, dimensions);
  const rows = Array.from({ length: dimensions }, (_, i) =>
    Float32Array.from(covariance.subarray(i * dimensions, i * dimensions + i + 1)),
  );
  const model = { dimensions, mean: Float32Array.from(mean), factor: concatenate(rows) };
  const distances = validation.map((features) => distanceFrom(model, features));
  return {
    ...model,
    examples: { training: training.length, validation: validation.length },
    distance: {
      p50: quantileOf(distances, 0.5),
      p90: quantileOf(distances, 0.9),
      p99: quantileOf(distances, 0.99),
    },
    logProbability: {
      p01: quantileOf(logProbabilities, 0.01),
      p10: quantileOf(logProbabilities, 0.1),
      p50: quantileOf(logProbabilities, 0.5),
    },
  };
}

/** Distance of features [D] from those of training, ≥ 0. */
export function distanceFrom(
  { dimensions: d, mean, factor }: Pick<PolicyReference, 'dimensions' | 'mean' | 'factor'>,
  features: Float32Array,
): number {
  const solved = new Float64Array(d);
  let sum = 0;
  for (let i = 0, at = 0; i < d; i++) {
    let value = features[i]! - mean[i]!;
    for (let k = 0; k < i; k++, at++) value -= factor[at]! * solved[k]!;
    solved[i] = value / factor[at++]!;
    sum += solved[i]! ** 2;
  }
  return Math.sqrt(sum / d);
}

function encoded(values: Float32Array): string {
  return Buffer.from(values.buffer, values.byteOffset, values.byteLength).toString('base64');
}

export function writeReference(directory: string, reference: PolicyReference): void {
  const { dimensions, examples, mean, factor, distance, logProbability } = reference;
  const record: z.infer<typeof referenceSchema> = {
    version: 1,
    ...{ dimensions, examples, mean: encoded(mean), factor: encoded(factor), distance, logProbability },
  };
  writeJson(join(directory, REFERENCE_FILE), record);
}

/** Numbers of a field, as many as `count`, all finite. @throws Error that names the field */
function decoded(text: string, count: number, field: string): Float32Array {
  const bytes = Buffer.from(text, 'base64');
  if (bytes.length !== 4 * count)
    throw new Error(`${field}: expected ${count} numbers, got ${bytes.length / 4}`);
  const values = Float32Array.from({ length: count }, (_, i) => bytes.readFloatLE(4 * i));
  if (!values.every(Number.isFinite)) throw new Error(`${field}: holds a number that is not finite`);
  return values;
}

/**
 * Reads the reference of a policy with `dimensions` features; null if it has none (foreign, or not trained to
 * mark intervals).
 * @throws CheckpointError for a damaged file, another version, or a policy of another size
 */
export function readReference(directory: string, dimensions: number): PolicyReference | null {
  const remedy = 'remove it to use the policy without, or train again';
  return readSaved(directory, REFERENCE_FILE, { what: 'reference', remedy }, (content) => {
    const record = referenceSchema.parse(content);
    if (record.dimensions !== dimensions) {
      throw new Error(`dimensions: ${record.dimensions}, the policy has ${dimensions}`);
    }
    const mean = decoded(record.mean, dimensions, 'mean');
    const factor = decoded(record.factor, (dimensions * (dimensions + 1)) / 2, 'factor');
    for (let i = 0, at = 0; i < dimensions; i++, at += i + 1) {
      if (!(factor[at]! > 0)) throw new Error(`factor: row ${i} does not end with a positive number`);
    }
    const { examples, distance, logProbability } = record;
    return { dimensions, examples, mean, factor, distance, logProbability };
  });
}
