/**
 * Anomalies of wild's kinds in a recording: its samples are taken apart into a draft (level, seasonal pattern, the rest as noise), so that an
 * anomaly changes one part over an exact interval and is judged visible or not by what is usual there.
 */
import { Random } from '../../../src/ground/random.ts';
import type { Example } from '../../../src/ground/types.ts';
import { runs } from '../../../src/series/intervals.ts';
import { bridge } from '../../../src/series/missing.ts';
import { smoothed } from '../../../src/series/point-scores.ts';
import { quantum } from '../../../src/series/quantum.ts';
import { autocorrelation } from '../../../src/series/spectrum.ts';
import { type Draft, emptyDraft } from './draft.ts';
import type { Sensor } from './sensor.ts';
import { usualRange } from './visibility.ts';
import { withAnomalies } from './wild.ts';

/** A recording and what is known about its usual values; the fields are those of a detection. */
export interface Recorded {
  readonly values: Float64Array; // [N], NaN where missing
  /** Expected values, and the band that holds 99 % of the samples [N]. */
  readonly expected: Float64Array;
  readonly low: Float64Array;
  readonly high: Float64Array;
  /** Seasons in samples, shortest first. */
  readonly seasons: readonly number[];
}

/** Correlation of neighbours from which a series without a season wanders. */
const WANDERS = 0.9;
/** Width of a band that holds 99 % of a normal distribution, in its standard deviations. */
const BAND = 2 * 2.576;

function recordedDraft(values: Float64Array, { expected, low, high, seasons }: Recorded): Draft {
  const n = values.length;
  const draft = emptyDraft(new Random(0, 'recorded'), n, { start: 0, step: 1 });
  const season = seasons.at(-1);
  const level = season === undefined ? expected : smoothed(expected, Math.round(season) | 1);
  for (let t = 0; t < n; t++) {
    draft.level[t] = level[t]!;
    draft.pattern[t] = expected[t]! - level[t]!;
    draft.noise[t] = values[t]! - expected[t]!;
    draft.deviation[t] = (high[t]! - low[t]!) / BAND;
  }
  for (const period of seasons) draft.periods.add(period);
  // Traces name the pattern of a series by its components.
  if (season !== undefined) draft.components.add('season');
  else if (autocorrelation(values, { lags: 1 })[1]! > WANDERS) draft.components.add('walk');
  return draft;
}

/** Rounds as the recording is rounded; values do not become negative where none is. */
function recordedSensor(given: Float64Array): Sensor {
  // Between the ends of a gap values lie on a line, not on the steps of the recording.
  const values = given.filter((value) => !Number.isNaN(value));
  const [low, high] = usualRange(values);
  const step = quantum(values, high - low);
  const least = values.reduce((a, b) => Math.min(a, b), Number.POSITIVE_INFINITY);
  const reading = (value: number): number => {
    const rounded = step === 0 ? value : least + Math.round((value - least) / step) * step;
    return least >= 0 ? Math.max(0, rounded) : rounded;
  };
  return {
    read: (latent) => latent.map(reading),
    expected: (latent) => latent,
    spread: (_, deviation) => deviation,
    given: reading,
    quantum: step,
  };
}

/**
 * Puts anomalies into a recording of at least 100 samples; what it holds besides is no part of the gold intervals.
 *
 * @param name of the recording, a part of the example's id
 * @returns one channel [N] with the gaps of the recording
 * @throws DataError for a recording without values
 */
export function recordedExample(seed: number, index: number, name: string, recorded: Recorded): Example {
  const { values } = bridge(recorded.values);
  const gaps = runs(values.length, (t) => Number.isNaN(recorded.values[t]!));
  const random = new Random(seed, `recorded/${name}`, index);
  const draft = recordedDraft(values, recorded);
  return withAnomalies(random, `${name}/${index}`, { draft, sensor: recordedSensor(recorded.values), gaps })
    .example;
}
