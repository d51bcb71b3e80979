/**
 * The multivariate generator of VisualTimeAnomaly: every variate is a sine or a cosine (even odds) with a frequency of
 * its own; 1 … ⌊√d⌋ − 1 of them, one kind a series, are replaced by another wave. The answer is which ones: ids count
 * from 0, row by row through the grid of the picture.
 *
 * Each wave w(f·t) is scaled to a·(w + noise·N(0, 1)) + offset with f in U(0.03, 0.05), a in U(0.5, 2), offset in U(−1, 1)
 * and noise in U(0.05, 0.2); the random walk sums steps of N(0, noise) instead. The triangle spans [−1, 0] as in the published
 * generator, the other waves [−1, 1].
 */
import { ConfigError } from '../../src/ground/errors.ts';
import { Random } from '../../src/ground/random.ts';
import type { Example } from '../../src/ground/types.ts';
import { checkAddress, type Split } from '../split.ts';
import { standardNormal } from './gaussian.ts';
import { checkMissing, missingPositions, VTA_MINIMUM_LENGTH, type VtaWave } from './vta.ts';

/** Points per multivariate series in the publication. */
export const VTA_VARIATE_LENGTH = 200;
/** Numbers of variates in the publication. */
export const VTA_VARIATES = [4, 9, 16, 25, 36] as const;

/** Ranges of the waves' parameters, for the record. */
export const VTA_WAVE_PARAMETERS = {
  frequency: [0.03, 0.05],
  amplitude: [0.5, 2],
  offset: [-1, 1],
  noise: [0.05, 0.2],
} as const;

/** One period of each wave over a phase in [0, 1). */
const SHAPES: Readonly<
  Record<Exclude<VtaWave, 'random walk'> | 'sine' | 'cosine', (phase: number) => number>
> = {
  sine: (phase) => Math.sin(2 * Math.PI * phase),
  cosine: (phase) => Math.cos(2 * Math.PI * phase),
  triangle: (phase) => 2 * Math.abs(phase - 0.5) - 1,
  square: (phase) => (phase < 0.5 ? 1 : -1),
  sawtooth: (phase) => 2 * phase - 1,
};

function drawWave(random: Random, wave: VtaWave | 'sine' | 'cosine', length: number): Float64Array {
  const frequency = random.between(...VTA_WAVE_PARAMETERS.frequency);
  const amplitude = random.between(...VTA_WAVE_PARAMETERS.amplitude);
  const offset = random.between(...VTA_WAVE_PARAMETERS.offset);
  const noise = random.between(...VTA_WAVE_PARAMETERS.noise);
  const values = new Float64Array(length); // [N]
  let walk = 0;
  for (let t = 0; t < length; t++) {
    const draw = noise * standardNormal(random);
    walk += draw;
    values[t] =
      offset + amplitude * (wave === 'random walk' ? walk : SHAPES[wave]((frequency * t) % 1) + draw);
  }
  return values;
}

export interface VariateOptions {
  /** Number of variates, 4 … 36; default 9. */
  readonly variates?: number;
  /** Share of points missing in each variate, drawn for each on its own, in [0, 0.5]; default 0. */
  readonly missing?: number;
  /** Points, N ≥ 20; default 200. */
  readonly length?: number;
}

/**
 * One multivariate series, a pure function of its arguments. At one address, series with missing points are the whole
 * one with ⌊missing · N⌋ points of each variate left out.
 *
 * @returns gold: ids of the replaced variates, ascending
 * @throws ConfigError for a seed, index, length, number of variates or share out of range
 */
export function vtaMultivariate(
  wave: VtaWave,
  seed: number,
  split: Split,
  index: number,
  options: VariateOptions = {},
): Example {
  const { variates: count = 9, missing = 0, length = VTA_VARIATE_LENGTH } = options;
  checkAddress(seed, index, length, VTA_MINIMUM_LENGTH);
  checkMissing(missing);
  if (!Number.isInteger(count) || count < 4 || count > 36) {
    throw new ConfigError(`variates: got ${count}, expected an integer from 4 to 36`);
  }
  const name = `vta/${wave.replace(' ', '-')}/${count}`;
  const random = new Random(seed, `${name}/${split}`, index);
  const most = Math.floor(Math.sqrt(count)) - 1;
  const replaced = random.permutation(count).subarray(0, random.integer(1, most)).sort();
  const gaps = new Random(seed, `${name}/${split}/missing`, index);
  const channels = Array.from({ length: count }, (_, id) => {
    const normal = random.uniform() < 0.5 ? 'sine' : 'cosine';
    const values = drawWave(random, replaced.includes(id) ? wave : normal, length);
    for (const t of missingPositions(gaps, missing, length)) values[t] = Number.NaN;
    return values;
  });
  const task = missing === 0 ? name : `${name}/missing-${missing}`;
  return {
    id: `${task}/${split}/${index}`,
    task,
    channels,
    names: channels.map((_, id) => String(id)),
    times: null, // the points that are there stand at whole indices
    gold: { kind: 'variates', variates: [...replaced] },
    recording: null,
  };
}
