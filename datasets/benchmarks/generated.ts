/**
 * Generated benchmarks: nano5, wild, AnomLLM (the series that AnomSeer is trained on), and VisualTimeAnomaly, univariate, with missing
 * points, and with grids of variates.
 */

import { ConfigError } from '../../src/ground/errors.ts';
import { ANOMALY_CLASSES } from '../../src/ground/types.ts';
import {
  ANOMLLM_LENGTH,
  ANOMLLM_TASKS,
  anomllm,
  anomllmClass,
  anomllmMixed,
  anomllmParameters,
} from '../generators/anomllm.ts';
import { LAW_NAMES, LAWS_LENGTH, LAWS_MINIMUM_LENGTH, LAWS_PARAMETERS, laws } from '../generators/laws.ts';
import {
  NANO5_CLASSES,
  NANO5_LENGTH,
  NANO5_MINIMUM_LENGTH,
  NANO5_PARAMETERS,
  nano5,
} from '../generators/nano5.ts';
import {
  VTA_LENGTH,
  VTA_MINIMUM_LENGTH,
  VTA_MISSING,
  VTA_TYPES,
  VTA_VARIATE_LENGTH,
  VTA_VARIATES,
  VTA_WAVE_PARAMETERS,
  VTA_WAVES,
  vta,
  vtaClass,
  vtaIrregular,
  vtaMultivariate,
  vtaParameters,
} from '../generators/vta.ts';
import { type Recorded, recordedExample } from '../generators/wild/recorded.ts';
import {
  WILD_LENGTH,
  WILD_LONG_LENGTH,
  WILD_MINIMUM_LENGTH,
  WILD_PARAMETERS,
  wild,
  wildLong,
} from '../generators/wild/wild.ts';
import type { Split } from '../split.ts';
import type { Benchmark } from './benchmark.ts';
import { anomalyPrompt } from './benchmark.ts';
import { type GeneratedBenchmark, generatedBenchmark } from './families.ts';

export const nano5Benchmark = generatedBenchmark({
  name: 'nano5',
  title: 'nano5: five equally frequent classes of anomalies, made for small pictures',
  kind: 'anomaly',
  description: 'The series of the quickstart.',
  citation: null,
  limitations: [
    'It was trained on anomalies of about 20 to 150 samples of 1000: shorter ones, above all single spikes, hardly show in its picture and are easily missed.',
  ],
  shape: `${NANO5_LENGTH} points, 1 channel`,
  figure: { preset: 'nano', missing: 'break' },
  prompt: anomalyPrompt(
    'It is a synthetic series: a regular pattern, such as a wave, noise or a trend, which may change in places.',
  ),
  classes: NANO5_CLASSES,
  counts: { train: 2000, validation: 200, test: 400 },
  length: NANO5_LENGTH,
  minimumLength: NANO5_MINIMUM_LENGTH,
  parameters: NANO5_PARAMETERS,
  at: nano5,
});

export const lawsBenchmark = generatedBenchmark({
  name: 'laws',
  title: 'laws: classification tasks, each by a law of its own, with described classes',
  kind: 'classification',
  description:
    'Shapes, places, waves, speeds, trends, noise laws, bursts, orders and curves; two to six classes with made names, which the prompt describes. 16 examples share a law.',
  citation: null,
  shape: `${LAWS_LENGTH} points, 1 channel`,
  figure: { preset: 'line', missing: 'break' },
  prompt: null,
  classes: LAW_NAMES,
  counts: { train: 16_000, validation: 800, test: 1600 },
  length: LAWS_LENGTH,
  minimumLength: LAWS_MINIMUM_LENGTH,
  parameters: LAWS_PARAMETERS,
  at: laws,
});

const WILD = {
  name: 'wild',
  title: 'wild: series as they are met, with anomalies of ten kinds and many that only look like one',
  kind: 'anomaly',
  description:
    'Made like recordings of people, machines, gauges, counts and signals, in any unit; 35 to 50 % are normal. Every anomaly has exact ends, a kind and a severity.',
  citation: null,
  shape: `${WILD_LENGTH} points, 1 channel`,
  figure: { preset: 'line', missing: 'break' },
  prompt: anomalyPrompt(
    'It is a series as machines, gauges and counters record it: it may repeat by the hour, the day or the week, drift, switch or burst. Whatever it does again and again is normal.',
  ),
  classes: ANOMALY_CLASSES,
  counts: { train: 4000, validation: 400, test: 400 },
  length: WILD_LENGTH,
  minimumLength: WILD_MINIMUM_LENGTH,
  parameters: WILD_PARAMETERS,
  at: wild,
} as const satisfies GeneratedBenchmark;

export const wildBenchmark = generatedBenchmark(WILD);

/** Learned backgrounds: windows of usual values with what is known of them. */
export interface Backgrounds {
  /** Samples of a window. */
  readonly length: number;
  /** Origin of the windows, for the record. */
  readonly parameters: Readonly<Record<string, unknown>>;
  /** A window and its source, or null for a series of wild's own families; the same for the same arguments. */
  readonly at: (
    seed: number,
    split: Split,
    index: number,
  ) => { readonly source: string; readonly recorded: Recorded } | null;
}

/** wild with learned backgrounds in place of its families. */
export const wildOver = (backgrounds: Backgrounds): Benchmark =>
  generatedBenchmark({
    ...WILD,
    title: 'wild over learned backgrounds: windows like those of recordings, with anomalies of ten kinds',
    description:
      'Windows sampled from models of recordings, into which anomalies are put; for an adaptation also series of wild. Every anomaly has exact ends, a kind and a severity.',
    ...{ shape: `${backgrounds.length} points, 1 channel`, length: backgrounds.length },
    parameters: { ...WILD_PARAMETERS, backgrounds: backgrounds.parameters },
    at(seed, split, index, length) {
      if (length !== backgrounds.length) {
        throw new ConfigError(
          `--length: got ${length}, but the learned backgrounds have windows of ${backgrounds.length}; leave it out`,
        );
      }
      const window = backgrounds.at(seed, split, index);
      if (window === null) return wild(seed, split, index, length);
      return recordedExample(seed, index, `wild/${split}/${window.source}`, window.recorded);
    },
  });

export const wildLongBenchmark = generatedBenchmark({
  ...WILD,
  name: 'wild-long',
  title: 'wild-long: long series of wild, whose anomalies have any size',
  description:
    'Series of wild whose anomalies are not longer because the series is: their spans are drawn as for 1000 points, for all points, or for any number between. Most are too short for a picture of the whole.',
  shape: `${WILD_LONG_LENGTH} points, 1 channel`,
  length: WILD_LONG_LENGTH,
  minimumLength: WILD_LENGTH,
  at: wildLong,
});

const SHARED = {
  kind: 'anomaly',
  shape: `${ANOMLLM_LENGTH} points, 1 channel`,
  figure: { preset: 'anomllm', missing: 'break' },
  length: ANOMLLM_LENGTH,
  minimumLength: 2,
  citation:
    'Zhou, Yu: Can LLMs understand time series anomalies?, ICLR 2025; parameters of the training data of AnomSeer',
} as const satisfies Partial<GeneratedBenchmark>;

/** All eight kinds, evenly mixed: 400 of each per split, as published. */
export const anomllmAll = generatedBenchmark({
  ...SHARED,
  name: 'anomllm',
  title: 'AnomLLM: eight kinds of synthetic anomalies, evenly mixed',
  description:
    'Sines, noise and trends with points, ranges, frequencies or slopes changed; three kinds also with noise.',
  prompt: anomalyPrompt(
    'It is a synthetic series: a regular pattern, such as a wave, noise or a trend, which may change in places.',
  ),
  counts: { train: 3200, validation: 320, test: 3200 },
  classes: ['contextual point', 'global point', 'seasonal', 'trend', 'normal'],
  parameters: Object.fromEntries(ANOMLLM_TASKS.map((task) => [task, anomllmParameters(task)])),
  at: anomllmMixed,
});

export const anomllmKinds = ANOMLLM_TASKS.map((kind) =>
  generatedBenchmark({
    ...SHARED,
    name: `anomllm/${kind}`,
    title: `AnomLLM, ${kind} only: anomalies of class '${anomllmClass(kind)}'`,
    description: `Series of the kind ${kind}, with anomalies of class '${anomllmClass(kind)}' or without.`,
    prompt: null,
    counts: { train: 400, validation: 40, test: 400 },
    classes: [anomllmClass(kind), 'normal'],
    parameters: anomllmParameters(kind),
    at: (...address) => anomllm(kind, ...address),
  }),
);

const VTA_CLASSES = VTA_TYPES.map(vtaClass);
const UNIVARIATE = Object.fromEntries(VTA_TYPES.map((type) => [type, vtaParameters(type)]));
const VTA = {
  kind: 'anomaly',
  citation: 'Xu et al.: Can multimodal LLMs perform time series anomaly detection?, 2025',
  shape: `${VTA_LENGTH} points, 1 channel`,
  figure: { preset: 'vta', missing: 'break' },
  length: VTA_LENGTH,
  minimumLength: VTA_MINIMUM_LENGTH,
} as const satisfies Partial<GeneratedBenchmark>;

/** Digits of an index in a mixed radix, lowest first; the last one counts the rounds through all combinations. */
function turn(index: number, ...sizes: readonly number[]): number[] {
  let rest = index;
  const places = sizes.map((size) => {
    const place = rest % size;
    rest = Math.floor(rest / size);
    return place;
  });
  return [...places, rest];
}

export const vtaUnivariate = generatedBenchmark({
  ...VTA,
  name: 'vta',
  title: 'VisualTimeAnomaly, univariate: five kinds, evenly mixed',
  description: 'A sine with anomalous points or segments; every series has some.',
  prompt: anomalyPrompt(
    'It is a synthetic series: a sine wave with a little noise, which may change in places.',
  ),
  classes: VTA_CLASSES,
  counts: { train: 2000, validation: 200, test: 500 },
  parameters: UNIVARIATE,
  at(seed, split, index, length) {
    const [type, round] = turn(index, VTA_TYPES.length) as [number, number];
    return vta(VTA_TYPES[type]!, seed, split, round, length);
  },
});

export const vtaKinds = VTA_TYPES.map((type) =>
  generatedBenchmark({
    ...VTA,
    name: `vta/${type}`,
    title: `VisualTimeAnomaly, ${type} only: every series has anomalies of class '${vtaClass(type)}'`,
    description: `A sine with anomalies of the kind ${type}; every series has some.`,
    prompt: null,
    classes: [vtaClass(type)],
    counts: { train: 400, validation: 40, test: 100 },
    parameters: vtaParameters(type),
    at: (...address) => vta(type, ...address),
  }),
);

export const vtaMissing = generatedBenchmark({
  ...VTA,
  name: 'vta/irregular',
  title: 'VisualTimeAnomaly, irregular: 5 to 25 % of the points missing',
  description: 'The univariate series with points left out; shares and kinds evenly mixed.',
  pairing: `Within a split every series comes ${VTA_MISSING.length} times, each time with another share of its points missing.`,
  figure: { preset: 'vta', missing: 'join' },
  prompt: anomalyPrompt(
    'It is a synthetic series: a sine wave with a little noise, which may change in places. Some of its points are missing; what is missing is no anomaly.',
  ),
  // A series without a single point left of its anomalies is normal.
  classes: [...VTA_CLASSES, 'normal'],
  counts: { train: 2000, validation: 200, test: 500 },
  parameters: { ...UNIVARIATE, missing: VTA_MISSING },
  at(seed, split, index, length) {
    const [type, share, round] = turn(index, VTA_TYPES.length, VTA_MISSING.length) as [
      number,
      number,
      number,
    ];
    return vtaIrregular(VTA_TYPES[type]!, VTA_MISSING[share]!, seed, split, round, length);
  },
});

export const vtaVariates = generatedBenchmark({
  ...VTA,
  name: 'vta/multivariate',
  title: 'VisualTimeAnomaly, multivariate: which of 4 to 36 variates are anomalous',
  kind: 'variates',
  description:
    'Sines and cosines, some of them replaced by a triangle, a square, a sawtooth or a random walk.',
  shape: `${VTA_VARIATE_LENGTH} points, ${VTA_VARIATES.join(', ')} channels`,
  figure: { preset: 'vta-grid', missing: 'break' },
  prompt: {
    version: 1,
    context:
      'They are synthetic: most variates are smooth waves of similar speed that differ in size, level and phase, with a little noise.',
    question:
      'Find the variates whose wave has another shape than that of the others, such as corners, jumps or a wandering level. There are fewer of them than of the others.',
    hints: {},
    advice: null,
  },
  classes: [],
  counts: { train: 2000, validation: 200, test: 500 },
  length: VTA_VARIATE_LENGTH,
  parameters: { ...VTA_WAVE_PARAMETERS, waves: VTA_WAVES, variates: VTA_VARIATES },
  at(seed, split, index, length) {
    const [wave, size, round] = turn(index, VTA_WAVES.length, VTA_VARIATES.length) as [
      number,
      number,
      number,
    ];
    const variates = VTA_VARIATES[size]!;
    return vtaMultivariate(VTA_WAVES[wave]!, seed, split, round, { variates, length });
  },
});
