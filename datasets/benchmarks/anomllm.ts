/** AnomLLM: the series that AnomSeer is trained on. */
import {
  ANOMLLM_LENGTH,
  ANOMLLM_TASKS,
  anomllm,
  anomllmClass,
  anomllmMixed,
  anomllmParameters,
} from '../generators/anomllm.ts';
import { anomalyPrompt } from './benchmark.ts';
import { type GeneratedBenchmark, generatedBenchmark } from './families.ts';

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

/** One task for each kind. */
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
