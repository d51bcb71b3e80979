/** A report of a made-up run: series, answers and curves are drawn at random, every number is computed from them. */

import { metricsOf, pairedGain } from '../../eval/metrics.ts';
import type { CurvePanel, ReportExample, ReportInput } from '../../eval/report.ts';
import { Random } from '../../src/ground/random.ts';
import type { AnomalyClass, EvalRecord, Interval } from '../../src/ground/types.ts';
import { figure } from '../../src/plot/figure.ts';
import { encodePng } from '../../src/plot/png.ts';
import { renderColumns } from '../../src/plot/raster.ts';
import { figureSvg } from '../../src/plot/svg.ts';
import { evalRecord, writeResponse } from './eval-records.ts';

const CLASSES = ['contextual point', 'global point', 'seasonal', 'trend', 'normal'] as const;
const N = 1000;

interface Drawn {
  readonly id: string;
  readonly class: AnomalyClass;
  readonly intervals: readonly Interval[];
  readonly values: Float64Array;
}

function drawSeries(index: number): Drawn {
  const random = new Random(11, 'series', index);
  const label = CLASSES[index % CLASSES.length]!;
  const intervals: Interval[] = [];
  if (label !== 'normal') {
    const count = 1 + random.weighted([0.5, 0.3, 0.2]);
    for (let i = 0; i < count; i++) {
      const start = Math.round((60 + (i * 900) / count + random.between(0, 120)) / 10) * 10;
      intervals.push([start, start + 10 * random.integer(4, 12)]);
    }
  }
  const period = random.between(30, 70);
  let phase = 0;
  let drift = 0;
  const values = Float64Array.from({ length: N }, (_, i) => {
    const inside = intervals.some(([start, end]) => start <= i && i < end);
    phase += ((2 * Math.PI) / period) * (inside && label === 'seasonal' ? 3 : 1);
    if (inside && label === 'trend') drift += 0.03;
    const base = label === 'global point' ? random.normal(0, 0.1) : Math.sin(phase) + random.normal(0, 0.05);
    if (inside && label === 'global point') return base + 0.65;
    if (inside && label === 'contextual point') return random.normal(0, 0.4);
    return base + drift;
  });
  return { id: `nano5/test/${index}`, class: label, intervals, values };
}

/** An answer of a policy that is right with probability `skill`, off by a few tens otherwise. */
function answer(series: Drawn, skill: number, random: Random): string {
  if (random.uniform() < 0.04 * (1 - skill)) return '<think>sine wave; period 6</think><answer>[[140, 2';
  const label = random.uniform() < skill ? series.class : random.pick(CLASSES);
  const intervals: Interval[] = [];
  for (const [start, end] of series.intervals) {
    if (random.uniform() > skill + 0.1) continue;
    const shift = 10 * Math.round(random.normal(0, 1 - skill + 0.4));
    intervals.push([Math.max(0, start + shift), Math.min(N, end + shift)]);
  }
  const think = `sine wave; period ${random.integer(30, 70)}; scan ..(#)...()......(##)..`;
  return writeResponse(intervals, label, think);
}

function evaluate(series: readonly Drawn[], skill: number, seed: number): EvalRecord[] {
  return series.map((one, i) =>
    evalRecord(one.id, one, answer(one, skill, new Random(seed, 'answer', i)), N),
  );
}

function curve(seed: number, steps: number, from: number, to: number, noise: number, scale: number) {
  const random = new Random(seed, 'curve');
  const x = Array.from({ length: steps }, (_, i) => i + 1);
  const y = x.map((step) => to + (from - to) * Math.exp(-step / scale) + random.normal(0, noise));
  return { x, y };
}

function curvePanels(): CurvePanel[] {
  const rl = (name: string, seed: number, from: number, to: number, noise: number) => ({
    name,
    ...curve(seed, 60, from, to, noise, 25),
  });
  return [
    {
      title: 'Supervised loss',
      definition: 'Mean negative log-likelihood of the expert trace per token; down is better.',
      xLabel: 'samples / 8',
      curves: [{ name: 'loss', ...curve(1, 3750, 3.9, 0.21, 0.05, 420) }],
      smooth: 41,
      log: true,
    },
    {
      title: 'Reward of rollouts',
      definition: 'Mean over the responses of a step, and its parts; up is better.',
      xLabel: 'TimerPO step',
      curves: [
        rl('total', 2, 0.82, 0.85, 0.008),
        rl('localisation', 3, 0.76, 0.8, 0.01),
        rl('class', 4, 0.95, 0.96, 0.008),
        rl('format', 5, 0.985, 0.99, 0.003),
      ],
      smooth: 7,
    },
    {
      title: 'KL to the reference',
      definition: 'k3 estimate per token against the supervised policy; small is close.',
      xLabel: 'TimerPO step',
      curves: [rl('KL', 6, 0, 0.004, 0.0003)],
    },
    {
      title: 'Entropy',
      definition: 'Mean entropy of the next-token distribution in nats; a collapse to 0 ends exploration.',
      xLabel: 'TimerPO step',
      curves: [rl('entropy', 7, 0.31, 0.27, 0.006)],
    },
    {
      title: 'Clip fraction',
      definition: 'Share of tokens whose probability ratio leaves 1 ± 0.2; 0 while on policy.',
      xLabel: 'TimerPO step',
      curves: [rl('clipped', 8, 0.002, 0.006, 0.0008)],
    },
    {
      title: 'Groups without an advantage',
      definition: 'Share of prompt groups whose final advantage is 0 for every response; they teach nothing.',
      xLabel: 'TimerPO step',
      curves: [
        rl('equal rewards', 9, 0.2, 0.24, 0.03),
        { name: 'zero advantage', x: [1, 20, 40, 41, 60], y: [0, 0.01, 0, null, 0.02] },
      ],
    },
  ];
}

/** The picture that a nano policy sees. */
function strip(values: Float64Array): string {
  return `data:image/png;base64,${encodePng(renderColumns(figure('nano'), values)).toString('base64')}`;
}

async function example(series: Drawn, record: EvalRecord): Promise<ReportExample> {
  const found = record.answer.intervals ?? [];
  const mean = series.values.reduce((sum, value) => sum + value, 0) / N;
  return {
    seriesId: series.id,
    length: N,
    gold: record.gold,
    figure: await figureSvg(series.values, {
      gold: series.intervals,
      predicted: found,
      width: 960,
      height: 190,
    }),
    seen: strip(series.values),
    by: 'After TimerPO, greedy',
    response: record.response,
    answer: record.answer,
    score: record.score,
    expcot: `Observation. ${N} points, mean ${mean.toFixed(2)}.\n\nReasoning & Validation. The dominant period leaves its band of 3 sigma in ${series.intervals.length} places.\n\nConclusion. ${JSON.stringify(series.intervals)}, class ${series.class}.`,
  };
}

/** `change` may replace parts, for example by hostile text. */
export async function sampleReport(change: Partial<ReportInput> = {}): Promise<ReportInput> {
  const series = Array.from({ length: 400 }, (_, i) => drawSeries(i));
  const untrained = evaluate(series, 0.02, 1);
  const sft = evaluate(series, 0.86, 2);
  const rl = evaluate(series, 0.9, 3);
  const sampledBefore = evaluate(series, 0.78, 4);
  const sampledAfter = evaluate(series, 0.86, 5);
  const detector = evaluate(series, 0.42, 6);
  const reward = (records: readonly EvalRecord[]) => metricsOf(records).overall.reward;
  const examples = await Promise.all(Array.from({ length: 12 }, (_, i) => example(series[i]!, rl[i]!)));
  return {
    title: 'Reasoning about anomalies from a plot',
    run: {
      name: 'quickstart',
      command: 'npm run quickstart',
      recipe: 'quickstart',
      recipeText: 'seed: 42\ndata:\n  name: nano5\n  length: 1000\nsft:\n  samples: 30000\n',
      finished: '2026-02-03T16:20:11.482Z',
      policy: {
        name: 'Qwen2.5-VL nano',
        parameters: 930_112,
        description:
          'The Qwen2.5-VL architecture with 2 vision and 3 decoder layers, started from random weights.',
      },
      seeds: { run: 42, bootstrap: 0 },
      seconds: { install: 101.2, supervised: 117.6, TimerPO: 55.9, evaluation: 31.4, report: 1.9 },
      samples: 30_000,
      steps: 60,
      trainingData: 'nano5, fresh series of 1000 points, each seen once (seed 42, split train)',
      heldOutData: 'nano5, 400 series of another split, never seen in training',
      temperature: 1,
    },
    stages: [
      {
        key: 'before',
        label: 'Before SFT',
        kind: 'policy',
        metrics: metricsOf(untrained),
        rewardSampled: null,
      },
      {
        key: 'sft',
        label: 'After SFT',
        kind: 'policy',
        metrics: metricsOf(sft),
        rewardSampled: reward(sampledBefore),
      },
      {
        key: 'rl',
        label: 'After TimerPO',
        kind: 'policy',
        metrics: metricsOf(rl),
        rewardSampled: reward(sampledAfter),
      },
      {
        key: 'classical',
        label: 'Classical detector',
        kind: 'detector',
        metrics: metricsOf(detector),
        rewardSampled: null,
      },
    ],
    floors: [
      { stage: 'sft', metric: 'format', atLeast: 0.98 },
      { stage: 'sft', metric: 'class_accuracy', atLeast: 0.95 },
      { stage: 'sft', metric: 'point_f1', atLeast: 0.6 },
      { stage: 'sft', metric: 'affiliation_f1', atLeast: 0.8 },
    ],
    gains: [
      {
        key: 'reward_sampled',
        label: 'Reward sampled at temperature 1',
        estimate: pairedGain(sampledBefore, sampledAfter, 'reward'),
        lowerAbove: 0,
        notLower: false,
      },
      {
        key: 'reward_greedy',
        label: 'Greedy reward',
        estimate: pairedGain(sft, rl, 'reward'),
        lowerAbove: -0.02,
        notLower: false,
      },
    ],
    curves: curvePanels(),
    examples,
    transfer: [
      {
        title: 'AnomLLM types',
        note: 'Trained on nano5 only; nothing is required here.',
        metrics: metricsOf(
          [
            'point',
            'range',
            'freq',
            'trend',
            'flat-trend',
            'noisy-point',
            'noisy-freq',
            'noisy-trend',
          ].flatMap((task, t) =>
            evaluate(series.slice(40 * t, 40 * t + 40), 0.3 + 0.05 * t, 50 + t).map((r) => ({ ...r, task })),
          ),
        ),
      },
    ],
    environment: {
      timeseer: '0.1.0',
      node: 'v20.19.0',
      machine: { cpu: 'a processor', cores: 2, memory_gb: 7.8 },
      engine: { name: 'torch', version: '1.13.1', blas: 'OpenBLAS (openmp)', threads: 2 },
      calibration: { matmul_512_ms: 2.9, gflops: 92 },
      gpus: [],
    },
    reproduce: ['npm ci', 'npm run quickstart'],
    caveats: [
      'The series are synthetic and clean; real recordings are harder.',
      'The scan in the trace is privileged supervision: it tells the policy in which patch the anomaly lies.',
      'Percentile bootstrap intervals cover the sampling of series, not the seed of the training run.',
    ],
    ...change,
  };
}

const HOSTILE = `</pre></script><img src=x onerror="document.title='owned'"><script>document.title='owned'</script>`;

/** The report with markup, which a page must show as text, wherever text of others comes in. */
export const hostileReport = (input: ReportInput): ReportInput => ({
  ...input,
  run: { ...input.run, name: HOSTILE, command: HOSTILE, recipeText: HOSTILE },
  environment: { [HOSTILE]: HOSTILE },
  examples: input.examples.map((example) => ({
    ...example,
    seriesId: HOSTILE,
    response: HOSTILE,
    reasoning: {
      ...{ claims: 3, true: 1, false: 1, unchecked: 1, truth: 0.5, coverage: 1, agreement: null },
      ...{ contradictions: 0, wrong: [{ text: HOSTILE, quantity: 'period', why: `it is ${HOSTILE}` }] },
    },
    expcot: HOSTILE,
    answer: { ...example.answer, class: HOSTILE, think: HOSTILE, problem: HOSTILE },
  })),
  curves: input.curves.map((panel) => ({ ...panel, title: HOSTILE, xLabel: HOSTILE })),
});
