/** A made-up run on a made-up prepared data set of any kind: examples drawn at random, answers right with some probability. */

import { mkdirSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { type ExampleOrigin, ExampleSet, writeExamples } from '../../datasets/example-set.ts';
import { SPLITS, type Split } from '../../datasets/split.ts';
import { writeRecords } from '../../eval/records.ts';
import { RUN_VERSION } from '../../eval/run-directory.ts';
import { Random } from '../../src/ground/random.ts';
import type { EvalRecord, Example, Gold } from '../../src/ground/types.ts';
import { type Recipe, recipeSchema } from '../../src/recipe/recipe.ts';
import { goldResponse, labelOf } from '../../src/tasks/kinds.ts';
import { recordOf } from './eval-records.ts';

const CLASSES = ['slow', 'quick', 'very quick'] as const;
const LENGTH = 120;
const COUNTS: Readonly<Record<Split, number>> = { train: 45, validation: 18, test: 24 };

/** `split` of the manifest, as every result must repeat it. */
export const STATEMENT = 'A seeded split by recording, 45 / 18 / 24, made for this test.';

type Draw = (random: Random) => Pick<Example, 'channels' | 'names' | 'gold'>;

const wave = (random: Random, period: number, noise: number): Float64Array => {
  const phase = random.between(0, 7);
  return Float64Array.from(
    { length: LENGTH },
    (_, i) => Math.sin(phase + (2 * Math.PI * i) / period) + random.normal(0, noise),
  );
};

const DRAWS: Readonly<Record<Gold['kind'], Draw>> = {
  // Unequal classes, which overlap a little.
  classification: (random) => {
    const k = random.weighted([6, 3, 2]);
    const values = wave(random, [40, 24, 15][k]! * random.between(0.75, 1.3), 0.35);
    return { channels: [values], names: ['value'], gold: { kind: 'classification', class: CLASSES[k]! } };
  },
  variates: (random) => {
    const wrong = [0, 1, 2, 3].filter(() => random.uniform() < 0.3);
    const channels = Array.from({ length: 4 }, (_, c) => {
      const values = wave(random, 30, 0.05);
      return wrong.includes(c) ? values.map((value) => Math.sign(value)) : values;
    });
    return { channels, names: ['0', '1', '2', '3'], gold: { kind: 'variates', variates: wrong } };
  },
  question: (random) => {
    const rises = random.uniform() < 0.6;
    const values = wave(random, 25, 0.1).map((value, i) => value + (rises ? i : -i) / 20);
    const gold: Gold = {
      ...{ kind: 'question', question: 'Where does it go?', options: ['up', 'down', 'nowhere'] },
      ...{
        answer: rises ? 'A' : 'B',
        category: random.uniform() < 0.5 ? 'trend' : null,
        thought: 'The ends differ.',
      },
    };
    return { channels: [values], names: ['value'], gold };
  },
  // Two channels with missing points; the kind of the anomalies is not named.
  anomaly: (random) => {
    const start = random.integer(20, 80);
    const quiet = random.uniform() < 0.3;
    const channels = [wave(random, 20, 0.05), wave(random, 33, 0.05)];
    if (!quiet) channels[1]!.fill(6, start, start + 5);
    channels[0]!.fill(Number.NaN, 90, 96);
    const gold: Gold = quiet
      ? { kind: 'anomaly', class: 'normal', intervals: [] }
      : { kind: 'anomaly', class: null, intervals: [[start, start + 5]] };
    return { channels, names: ['load', 'pressure'], gold };
  },
};

const FIGURES: Readonly<Record<Gold['kind'], string>> = {
  classification: 'ctu',
  variates: 'vta-grid',
  anomaly: 'line',
  question: 'line',
};

function* examplesOf(kind: Gold['kind']): Generator<readonly [Split, Example]> {
  for (const split of SPLITS) {
    for (let i = 0; i < COUNTS[split]; i++) {
      const id = `made/${split}/${i}`;
      const example = { id, task: 'made', times: null, recording: `${split} ${i % 9}` };
      yield [split, { ...example, ...DRAWS[kind](new Random(3, `${kind} ${split}`, i)) }];
    }
  }
}

/** Writes a prepared data set. */
export async function writeMadeSet(directory: string, kind: Gold['kind']): Promise<void> {
  const origin: ExampleOrigin = {
    task: 'made',
    title: `Made ${kind}`,
    kind,
    source: { description: 'made here', licence: 'none', citation: null, addresses: [], files: [] },
    parameters: {},
    split: { statement: STATEMENT, recordingsApart: true },
    classes: kind === 'classification' ? [...CLASSES] : kind === 'anomaly' ? ['trend', 'normal'] : [],
    rate: null,
    figure: { preset: FIGURES[kind], missing: 'break' },
    notes: [],
  };
  await writeExamples(directory, () => origin, examplesOf(kind));
}

/** Answers that are the gold ones with probability `skill`, otherwise those of another series, or no answer at all. */
function pretendAnswers(examples: readonly Example[], skill: number, seed: number): EvalRecord[] {
  return examples.map((one, i) => {
    const random = new Random(seed, 'pretended answers', i);
    const gold = random.uniform() < skill ? one.gold : random.pick(examples).gold;
    const response =
      random.uniform() < 0.06 ? '<think>a wave' : goldResponse(gold, `It looks ${labelOf(gold)}.`);
    return { ...recordOf(one.id, one.gold, response, LENGTH), task: one.task };
  });
}

export interface MadeRun {
  readonly recipe: Recipe;
  /** The held-out examples, in order. */
  readonly examples: readonly Example[];
  /** By name of the answers: `initial.greedy`, `sft.sampled` … */
  readonly records: Readonly<Record<string, readonly EvalRecord[]>>;
}

/** Fills `directory` as a run of two policies on the data set in `data`, without training files. */
export function writeMadeRun(directory: string, data: string): MadeRun {
  const recipe = recipeSchema.parse({
    seed: 7,
    data: { name: data },
    figure: 'task',
    sft: { samples: 320 },
    rl: { steps: 0 },
    eval: { bootstrap: 200, samples: 2 },
  });
  const set = new ExampleSet(data);
  const examples = [...set.read('test')];
  const twice = (skill: number, seed: number): EvalRecord[] => {
    const [a, b] = [pretendAnswers(examples, skill, seed), pretendAnswers(examples, skill, seed + 1)];
    return a.flatMap((record, i) => [record, b[i]!]);
  };
  const records = {
    'initial.greedy': pretendAnswers(examples, 0, 10),
    'initial.sampled': twice(0, 11),
    'sft.greedy': pretendAnswers(examples, 0.8, 20),
    'sft.sampled': twice(0.7, 21),
  };
  mkdirSync(join(directory, 'eval'), { recursive: true });
  mkdirSync(join(directory, 'sft'), { recursive: true });
  const header = {
    version: RUN_VERSION,
    name: 'made',
    recipe,
    command: 'timeseer quickstart --recipe made.yaml',
  };
  writeFileSync(join(directory, 'recipe.json'), JSON.stringify(header));
  const stage = { seconds: 12, samples: 320, steps: 20, finished: true };
  writeFileSync(join(directory, 'sft/stage.json'), JSON.stringify(stage));
  for (const [name, list] of Object.entries(records)) {
    writeRecords(join(directory, 'eval', `${name}.jsonl`), list);
  }
  return { recipe, examples, records };
}
