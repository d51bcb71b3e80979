/** Generated anomalies: nano5, wild and AnomLLM (the series that AnomSeer is trained on). */
import { ANOMALY_CLASSES } from '../../src/ground/types.ts';
import {
  ANOMLLM_LENGTH,
  ANOMLLM_TASKS,
  anomllm,
  anomllmClass,
  anomllmMixed,
  anomllmParameters,
} from '../generators/anomllm.ts';
import {
  NANO5_CLASSES,
  NANO5_LENGTH,
  NANO5_MINIMUM_LENGTH,
  NANO5_PARAMETERS,
  nano5,
} from '../generators/nano5.ts';
import { WILD_LENGTH, WILD_MINIMUM_LENGTH, WILD_PARAMETERS, wild } from '../generators/wild/wild.ts';
import { anomalyPrompt } from './benchmark.ts';
import { type GeneratedBenchmark, generatedBenchmark } from './families.ts';

export const nano5Benchmark = generatedBenchmark({
  name: 'nano5',
  title: 'nano5: five equally frequent classes of anomalies, made for small pictures',
  kind: 'anomaly',
  description: 'The series of the quickstart.',
  citation: null,
  limitations: [
    'It was taught anomalies of about 20 to 150 samples of 1000: shorter ones, a single spike above all, hardly show in its picture and are easily missed.',
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

export const wildBenchmark = generatedBenchmark({
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
