import { expect, test } from 'vitest';
import { readYaml } from '../../src/ground/yaml.ts';
import { type ModelCardFacts, modelCard } from './model-card.ts';

type Metrics = ModelCardFacts['evaluations'][number]['overall'];
const estimate = (mean: number) => ({ mean, ci95: [mean - 0.05, mean + 0.04] as [number, number], n: 40 });

const FACTS: ModelCardFacts = {
  ...{ name: 'tiny', parameters: 2_345_678, bytes: 4_960_000 },
  card: {
    ...{ version: 1, style: 'nano', figure: 'nano-analysis', length: 560, kind: 'anomaly', task: 'wild' },
    ...{ classes: ['trend', 'normal'], channels: 1, numbers: null, stage: 'rl' },
    limitations: ['It learned from synthetic series alone.'],
  },
  stages: [
    { stage: 'sft', seed: 42, data: 'wild, 560 points', work: '424\u202f000 series', seconds: 4021.6 },
    { stage: 'rl', seed: 43, data: 'wild, 560 points', work: '300 steps', seconds: 900 },
  ],
  evaluations: [
    {
      ...{ command: 'npx timeseer eval --policy tiny --task wild', series: 40, length: 560 },
      overall: { affiliation_f1: estimate(0.712), format: estimate(0.9) } as unknown as Metrics,
      others: {
        'expcot-blind': { affiliation_f1: estimate(0.401), format: estimate(0.95) } as unknown as Metrics,
      },
    },
  ],
  note: 'The supervised stage ran on one GPU.',
  fitted: { data: 'wild, validation, seed 3', intervals: 4899, right: 1639 },
  measured: {
    half: 'report',
    groups: [
      {
        ...{ group: 'injected', series: 24, clean: 2, anomalies: 50, recall: 0.44 },
        sources: { NAB: 14, 'household power': 6, EMG: 4 },
        rows: [
          { contender: 'policy', f1: 0.66, f1AtOwn: 0.7, falsePerThousand: null, less: null },
          {
            ...{ contender: 'STL', f1: 0.71, f1AtOwn: 0.6, falsePerThousand: 2 },
            less: { f1: estimate(-0.05), falsePerThousand: null },
          },
        ],
      },
    ],
  },
};

const given = (changes: Partial<ModelCardFacts> = {}): string => modelCard({ ...FACTS, ...changes });

test('a model card holds the figures that were measured, and the commands that measure them again', () => {
  const text = given();
  const [, head, body] = text.split(/^---$/m);
  const fail = (complaint: string): Error => new Error(complaint);
  expect(readYaml(head!, fail).content).toMatchObject({
    license: 'apache-2.0',
    pipeline_tag: 'image-text-to-text',
  });
  for (const part of [
    '2.3 million parameters',
    '| sft | wild, 560 points | 42 |',
    '| tiny | 0.712 [0.662, 0.752] | 0.900 [0.850, 0.940] |',
    '| expcot-blind | 0.401 [0.351, 0.441] |',
    'On 40 test series of the generator, of 560 points;',
    'npx timeseer eval --policy tiny --task wild',
    'npx timeseer train --out runs/tiny\n    npx timeseer calibrate --policy runs/tiny\n',
    '24 series (14 of NAB, 6 of household power and 4 of EMG) with 50 anomalies',
    'Higher F1 than the policy: STL (0.710).',
    '| policy | 0.660 | 0.700 | never | – | – |',
    '| STL | 0.710 | 0.600 | 2.000 | −0.050 [−0.100, −0.010] | – |',
    "of the policy's own 4\u202f899 intervals in generated series 1\u202f639 are right",
    'The shipped weights are those of the commands above, one run of one recipe.',
    'order. The supervised stage ran on one GPU.',
    '--policy tiny --only injected --half report',
    '- It learned from synthetic series alone.',
  ]) {
    expect(body).toContain(part);
  }
  expect(text).not.toMatch(/undefined|NaN|\[object/);
});

test('the card of a policy that looks closer says so, and what it was begun with', () => {
  const inspect = {
    ...{ turns: 6, tools: ['next'], lengths: [2000], detours: 0, calls: 0, penalty: 0.1, success: 0.8 },
  };
  const text = given({ name: 'closer', card: { ...FACTS.card, inspect }, stages: FACTS.stages.slice(0, 1) });
  expect(text).toContain('in at most 6 responses. `npx timeseer explain FILE --inspect` asks it');
  expect(text).toContain('From the weights of `small`, on generated series alone');
  expect(text).not.toMatch(/npx timeseer train|cuts longer recordings|undefined/);
});
