import { mkdtempSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { describe, expect, test } from 'vitest';
import type { DataFacts } from '../../datasets/source.ts';
import { exampleValues, openExamples } from '../../datasets/source.ts';
import { runBaselines } from '../../eval/baselines.ts';
import { recordOf } from '../../eval/harness.ts';
import { readPredictions } from '../../eval/predictions.ts';
import { learnClasses } from '../../src/expcot/class-profile.ts';
import { Random } from '../../src/ground/random.ts';
import type { AnomalyGold, EvalRecord, Example } from '../../src/ground/types.ts';
import { recipeSchema } from '../../src/recipe/recipe.ts';
import {
  evaluationCard,
  exampleTask,
  mismatches,
  nanoCard,
  sourceTask,
  trainingCard,
  trainingTask,
} from '../../src/run/policy-task.ts';
import { UNCHANGED } from '../../src/series/augment.ts';
import type { PolicyCard } from '../../src/tasks/card.ts';
import { FOREIGN_CARD, writeCard } from '../../src/tasks/card.ts';
import { goldParts } from '../../src/tasks/kinds.ts';
import { temporary } from '../helpers/temporary.ts';

const root = temporary('card');

const facts: DataFacts = {
  task: 'ctu',
  title: 'computers',
  kind: 'classification',
  classes: ['Desktop', 'Laptop'],
  channels: ['value'],
  length: 720,
  rate: 1 / 120,
  figure: { preset: 'ctu', missing: 'break' },
  statement: 'Its own split.',
};
const series: DataFacts = {
  ...facts,
  task: 'nano5',
  kind: 'anomaly',
  classes: ['trend', 'normal'],
  figure: null,
};
const recipe = (more: object = {}) => recipeSchema.parse(more);

/** Series of two classes, of which one has a thought. */
function classified(index: number): Example {
  const even = index % 2 === 0;
  const random = new Random(3, 'classified', index);
  return {
    ...{ id: `ctu/${index}`, task: 'ctu', names: ['value'], times: null, recording: null },
    channels: [Float64Array.from({ length: 60 }, (_, t) => random.normal() + (even ? 0 : t))],
    gold: {
      kind: 'classification',
      ...(even ? { class: 'Desktop', thought: ' It is even.\n' } : { class: 'Laptop' }),
    },
  };
}

function policyOf(card: PolicyCard | null): string {
  const directory = mkdtempSync(join(root, 'policy-'));
  if (card !== null) writeCard(directory, card);
  return directory;
}

describe('a new policy', () => {
  test('is taught what the data ask for, at their length, with the figure of the recipe', () => {
    expect(nanoCard(recipe(), facts)).toEqual({
      version: 1,
      style: 'nano',
      figure: 'nano',
      length: 720,
      kind: 'classification',
      task: 'ctu',
      classes: ['Desktop', 'Laptop'],
      channels: 1,
      numbers: null,
      limitations: [],
      stage: 'initial',
    });
  });

  test('says what a policy should not be trusted with, as its data set says it', () => {
    const { facts } = openExamples({ name: 'nano5', split: 'test', seed: 8, length: 1000, count: 1 });
    expect(nanoCard(recipe(), facts).limitations).toEqual([
      expect.stringContaining('synthetic series alone'),
      expect.stringContaining('about 20 to 150 samples of 1000'),
    ]);
  });

  test("is shown the data set's own figure where the recipe says so, and reads numbers where it says that", () => {
    const card = nanoCard(
      recipe({ figure: 'task', input: 'numbers', numbers: { digits: 2, points: 90 } }),
      facts,
    );
    expect(card).toMatchObject({ figure: 'ctu', numbers: { digits: 2, points: 90 } });
    expect(() => nanoCard(recipe({ figure: 'task' }), series)).toThrow(/names no figure of its own/);
    expect(() => nanoCard(recipe({ figure: 'nanoo' }), facts)).toThrow(/nano/);
  });

  test('of several channels is shown a row for each', () => {
    const three = { ...facts, channels: ['x', 'y', 'z'] };
    expect(nanoCard(recipe(), three)).toMatchObject({ figure: 'nano-channels', channels: 3 });
    expect(nanoCard(recipe(), { ...three, task: 'har' }).figure).toBe('nano-har');
    expect(nanoCard(recipe({ figure: 'ctu' }), three).figure).toBe('ctu');
    const odd: DataFacts = { ...three, task: 'vta/multivariate', kind: 'variates', classes: [] };
    expect(nanoCard(recipe(), odd)).toMatchObject({ figure: 'nano-variates', channels: null });
  });
});

describe('a checkpoint from elsewhere', () => {
  test("is shown the recipe's figure, or the data set's where that is the small one", () => {
    const directory = policyOf(null);
    expect(trainingCard(directory, recipe(), facts)).toMatchObject({
      style: 'full',
      figure: 'ctu',
      task: 'ctu',
    });
    expect(trainingCard(directory, recipe({ figure: 'tee' }), facts).figure).toBe('tee');
    expect(trainingCard(directory, recipe(), series).figure).toBe('anomllm');
    expect(evaluationCard(directory, facts)).toMatchObject({ figure: 'ctu', kind: 'classification' });
  });

  test('reads numbers when it is asked to', () => {
    const directory = policyOf(null);
    expect(trainingCard(directory, recipe({ input: 'numbers' }), facts).numbers).toEqual({
      digits: 3,
      points: 250,
    });
    expect(evaluationCard(directory, facts, { digits: 4, points: 9 }).numbers).toEqual({
      digits: 4,
      points: 9,
    });
  });
});

describe('a policy that was taught here', () => {
  const nano: PolicyCard = { ...nanoCard(recipe(), facts), stage: 'sft' };

  test('keeps its figure, and learns the classes and length of the data it is trained on', () => {
    const other = { ...facts, task: 'custom', classes: ['a', 'b', 'c'], length: 60 };
    expect(trainingCard(policyOf(nano), recipe(), other)).toEqual({
      ...nano,
      task: 'custom',
      classes: ['a', 'b', 'c'],
      length: 60,
    });
  });

  test('keeps the coordinates of its answers where no supervised stage teaches others', () => {
    const rl = recipe({ sft: { ...recipe().sft, samples: 0 } });
    expect(trainingCard(policyOf(nano), rl, { ...facts, length: 60 }).length).toBe(720);
    expect(trainingCard(policyOf(nano), recipe(), { ...facts, length: 60 }).length).toBe(60);
  });

  test('learns another kind of answer in a supervised stage', () => {
    const localiser: PolicyCard = { ...nano, kind: 'anomaly', task: 'wild', classes: ['trend', 'normal'] };
    expect(trainingCard(policyOf(localiser), recipe(), facts)).toEqual({ ...nano });
  });

  test('answers without reasoning once a supervised stage has taught answers alone', () => {
    const directory = policyOf(nano);
    const sft = { traces: 'none' };
    const bare = trainingCard(directory, recipe({ sft, rl: { advantage: 'grpo' } }), facts);
    expect(bare).toEqual({ ...nano, reasoning: false });
    const source = exampleValues([0, 1, 2, 3].map(classified));
    const task = sourceTask(bare, source, { name: 'ctu', seed: 1, stage: 'sft' });
    const one = task.example(0);
    expect(task.trace(one)).toBe(goldParts(one.gold));
    expect(task.parse(task.trace(one), one)).toMatchObject({ think: null, wellFormed: true });
    const reinforced = recipe({ sft: { samples: 0 } });
    expect(trainingCard(policyOf(bare), reinforced, facts).reasoning).toBe(false);
    expect(trainingCard(policyOf(bare), recipe(), facts)).not.toHaveProperty('reasoning');
  });

  test('learns the thought of the data in place of a trace', () => {
    const source = exampleValues([0, 1, 2, 3].map(classified));
    const options = { name: 'ctu', seed: 1, stage: 'sft', profile: () => learnClasses(source) } as const;
    const task = sourceTask(nano, source, options);
    const texts = [0, 1, 2, 3].map((i) => task.trace(task.example(i))).sort();
    expect(texts.filter((text) => text === '<think>It is even.</think><class>Desktop</class>')).toHaveLength(
      2,
    );
    expect(texts.filter((text) => /scan .*<class>Laptop/.test(text))).toHaveLength(2);
  });

  test('sees series of a data set changed, by the number of the draw alone', () => {
    const source = exampleValues([0, 1, 2, 3].map(classified));
    const sft = { augment: { jitter: 0.1, scale: 0.1, warp: 0.2, crop: 0.2, flip: 0 } };
    const options = { name: 'ctu', seed: 1, profile: () => learnClasses(source), ...sft } as const;
    const changed = (index: number, more: object = {}): Example =>
      sourceTask(nano, source, { ...options, stage: 'sft', ...more }).example(index);
    expect(changed(6)).toEqual(changed(6));
    const places = Array.from({ length: 400 }, (_, index) => changed(index));
    const isKept = ({ id, channels }: Example): boolean =>
      channels.every((channel, c) =>
        channel.every((value, t) => value === source.at(Number(id.slice(4))).channels[c]![t]),
      );
    expect(places.filter(isKept).length / places.length).toBeCloseTo(UNCHANGED, 1);
    const [first, again] = places.filter((example) => example.id === 'ctu/1' && !isKept(example));
    expect(first!.channels).not.toEqual(again!.channels);
    const drawn = [1, 2].map((seed) => Array.from({ length: 8 }, (_, i) => changed(i, { seed }).channels));
    expect(drawn[0]).not.toEqual(drawn[1]);
    const reinforced = sourceTask(nano, source, { ...options, stage: 'rl' }).example(0);
    expect(source.at(Number(reinforced.id.slice(4))).channels).toEqual(reinforced.channels);
    const trace = sourceTask(nano, source, { ...options, stage: 'sft' });
    expect(trace.trace(first!)).not.toBe(trace.trace(again!));
  });

  test('is not trained on changes under which its answers do not stay true, or of series that are made anew', () => {
    const address = { name: 'nano5', split: 'train', seed: 1, length: 200 } as const;
    const intervals = nanoCard(recipe(), openExamples(address).facts);
    const augment = { jitter: 0.1, scale: 0, warp: 0, crop: 0, flip: 0 };
    const task =
      (more: object, part: object = {}) =>
      () =>
        trainingTask(intervals, { ...address, ...part }, 'sft', { augment: { ...augment, ...more } });
    expect(task({ crop: 0.1 }, { count: 9 })).toThrow(/sft\.augment\.crop: got 0\.1.*allowed: jitter, flip/);
    expect(task({})).toThrow(/makes every series anew/);
    expect(task({}, { count: 9 })().example(0)).not.toHaveProperty('facts');
  });

  test('is not trained in another figure, or reinforced on another kind of answer, classes that it does not know or more channels', () => {
    const directory = policyOf(nano);
    expect(() => trainingCard(directory, recipe({ sft: { samples: 0 } }), series)).toThrow(
      /answer with classes, but nano5 asks for intervals/,
    );
    expect(() => trainingCard(directory, recipe({ figure: 'ctu' }), facts)).toThrow(/was trained with nano/);
    const other = { ...facts, task: 'tee', classes: ['a', 'b'] };
    expect(() => trainingCard(directory, recipe({ sft: { samples: 0 } }), other)).toThrow(
      /and tee has others/,
    );
    expect(trainingCard(directory, recipe(), other).classes).toEqual(['a', 'b']);
    const two = { ...facts, channels: ['x', 'y'] };
    expect(() => trainingCard(directory, recipe(), two)).toThrow(
      /trained on series of 1 channel, ctu has 2 channels; .* start from policy\.init=small or nano/,
    );
    for (const figure of ['nano-channels', 'nano-analysis']) {
      const rows = policyOf({ ...nano, figure });
      expect(() => trainingCard(rows, recipe({ sft: { samples: 0 } }), two)).toThrow(/timeseer sft/);
      expect(trainingCard(rows, recipe(), two)).toMatchObject({ channels: 2, figure });
    }
  });

  test('says why its answers to other data can mean little', () => {
    const directory = policyOf(nano);
    const told = (own: DataFacts, numbers: PolicyCard['numbers'] = null): string[] =>
      mismatches(directory, evaluationCard(directory, own, numbers), own);
    expect(told(facts)).toEqual([]);
    expect(told({ ...facts, classes: ['Desktop', 'Tablet'] })).toEqual([
      'the policy was never trained on the classes Tablet',
    ]);
    expect(told({ ...facts, channels: ['a', 'b'] }, { digits: 3, points: 9 })).toEqual([
      'the policy was trained on series of 1 channel, these have 2',
      'the policy was trained with pictures, and is asked with numbers',
    ]);
    expect(mismatches(policyOf(null), FOREIGN_CARD, facts)).toEqual([]);
  });

  test('is not trained in another mode than it was taught', () => {
    expect(() => trainingCard(policyOf(nano), recipe({ input: 'numbers' }), facts)).toThrow(
      /trained with pictures/,
    );
    const reader = { ...nano, numbers: { digits: 3, points: 50 } };
    expect(() => trainingCard(policyOf(reader), recipe(), facts)).toThrow(/set input=numbers/);
  });

  test('is not evaluated on questions of another kind, if it is small', () => {
    expect(() => evaluationCard(policyOf(nano), series)).toThrow(
      /answer with classes, but nano5 asks for intervals/,
    );
  });

  test('is shown other data as they say, if it is large', () => {
    const large: PolicyCard = { ...FOREIGN_CARD, figure: 'tee', task: 'tee', stage: 'rl' };
    const other = evaluationCard(policyOf(large), facts);
    expect(other).toMatchObject({ kind: 'classification', task: 'ctu', figure: 'ctu' });
    expect(evaluationCard(policyOf({ ...large, task: 'ctu' }), facts).figure).toBe('tee');
    expect(trainingCard(policyOf(large), recipe(), facts).figure).toBe('ctu');
  });
});

describe('the task of an example', () => {
  const card: PolicyCard = {
    version: 1,
    style: 'nano',
    figure: 'nano',
    length: 1000,
    kind: 'anomaly',
    task: 'nano5',
    channels: 1,
    numbers: null,
    classes: ['contextual point', 'global point', 'seasonal', 'trend', 'normal'],
    limitations: [],
    stage: 'initial',
  };

  const source = openExamples({ name: 'nano5', split: 'test', seed: 8, length: 1000, count: 15 });
  const { facts } = source;
  const examples = [...source];
  const order = new Random(9, 'permutation').permutation(examples.length);
  /** The same values under the id, task name and annotation of another series. */
  const relabelled = examples.map((one, i): Example => ({ ...examples[order[i]!]!, channels: one.channels }));

  test('the permutation moves most labels', () => {
    expect(
      relabelled.filter((one, i) => JSON.stringify(one.gold) !== JSON.stringify(examples[i]!.gold)).length,
    ).toBeGreaterThan(7);
  });

  test('every blind detector answers alike when labels and task names are permuted', async () => {
    const [plain, permuted] = await Promise.all([
      runBaselines(examples, [], null),
      runBaselines(relabelled, [], null),
    ]);
    for (const [name, records] of Object.entries(plain.records)) {
      expect(permuted.records[name]!.map(({ answer }) => answer)).toEqual(
        records.map(({ answer }) => answer),
      );
    }
  });

  test('the score does look at the labels', async () => {
    const [plain, permuted] = await Promise.all([
      runBaselines(examples, [], null),
      runBaselines(relabelled, [], null),
    ]);
    const total = (records: readonly { readonly score: { readonly total: number } }[]): number =>
      records.reduce((sum, { score }) => sum + score.total, 0);
    expect(total(permuted.records[permuted.best]!)).toBeLessThan(total(plain.records[plain.best]!) - 2);
  });

  test('what a policy sees and is asked does not depend on the labels', async () => {
    const task = exampleTask(card, { facts });
    for (const [i, one] of examples.entries()) {
      expect(task.instruction(relabelled[i]!)).toBe(task.instruction(one));
      const [other, own] = [await task.picture(relabelled[i]!), await task.picture(one)];
      expect(Buffer.compare(other!.data, own!.data)).toBe(0);
    }
  });

  test('the teacher does, and writes one scan symbol per visual token', () => {
    const task = exampleTask(card, { facts });
    expect(examples.map((one) => task.trace(one))).not.toEqual(relabelled.map((one) => task.trace(one)));
    for (const one of examples) expect(/scan ([.()#ox\d]+)/.exec(task.trace(one))![1]).toHaveLength(20);
  });

  test('reinforcement grades intervals as it is told to, evaluation as the paper', () => {
    const one = examples.find(({ gold }) => gold.kind === 'anomaly' && gold.class === 'normal')!;
    const text = '<think>t</think><answer>[[10, 20], [30, 90]]</answer><class>normal</class>';
    const address = { name: 'nano5', split: 'train', seed: 8, length: 1000 } as const;
    const reward = { localisation: 'point_f1', normal: 'graded' } as const;
    const trained = trainingTask(card, address, 'rl', { reward }).score(text, one).parts;
    expect(trained).toEqual({ localisation: 1 / 3, class: 1, format: 1 });
    expect(exampleTask(card, { facts }).score(text, one).parts).toEqual({ ...trained, localisation: 0 });
  });

  test('answers are read as the task is told to: leniently, or strictly', () => {
    const one = examples.find(({ gold }) => gold.kind === 'anomaly' && gold.class === 'seasonal')!;
    const { intervals } = one.gold as { readonly intervals: readonly (readonly [number, number])[] };
    const list = intervals.map(([start, end]) => `[${start}.0, ${end}.0]`).join(', ');
    const text = `<think>t</think><answer>[${list}]</answer><class>Seasonal</class>`;
    const score = (reading?: 'strict') =>
      exampleTask(card, { facts, ...(reading === undefined ? {} : { reading }) }).score(text, one);
    expect(score().parts).toEqual({ localisation: 1, class: 1, format: 0 });
    expect(score('strict').parts).toEqual({ localisation: 0, class: 0, format: 0 });
    const address = { name: 'nano5', split: 'train', seed: 8, length: 1000 } as const;
    expect(trainingTask(card, address, 'rl').score(text, one)).toEqual(score());
    expect(trainingTask(card, address, 'rl', { reading: 'strict' }).score(text, one)).toEqual(
      score('strict'),
    );
  });

  test('a figure of single samples has exact coordinates, and the first traces of a stage tell levels', () => {
    const address = { name: 'wild', split: 'train', seed: 8, length: 560 } as const;
    const shown = { ...card, figure: 'nano-analysis', length: 560 };
    const task = trainingTask(shown, address, 'sft', { levels: 12 });
    const examples = Array.from({ length: 40 }, (_, i) => task.example(i));
    for (const [i, one] of examples.entries()) {
      const text = task.trace(one);
      const marks = /scan ([.()#ox0-9]{20})[;<]/.exec(text)![1]!;
      expect(/[0-9]/.test(marks)).toBe(i < 12);
      expect(task.parse(text, one).intervals).toEqual((one.gold as AnomalyGold).intervals);
      expect(task.score(text, one)!.total).toBe(1);
    }
    expect(trainingTask(shown, address, 'rl', { levels: 12 }).trace(task.example(0))).not.toBe(
      task.trace(task.example(0)),
    );
  });

  test.each([
    ['nano5', false],
    ['wild-long', true],
  ] as const)('a policy that looks closer has true traces of %s', (name, isPlotted) => {
    const inspect = { turns: 6, tools: [], lengths: null, detours: 0, calls: 0, penalty: 0.1, success: 0.8 };
    const source = openExamples({ name, split: 'test', seed: 8, length: 2000, count: 20 });
    const shown = { ...card, figure: 'nano-analysis', length: null };
    const task = exampleTask({ ...shown, inspect }, { facts: source.facts });
    for (const one of source) {
      const trace = task.trace(one);
      // Facts of the generator are of the plot, those of analyses of the samples.
      expect(task.asSeen!(one).plotted !== undefined).toBe(isPlotted);
      if (!isPlotted) expect(trace).toBe(exampleTask(shown, { facts: source.facts }).trace(one));
      const { reasoning } = recordOf(task, one, trace);
      expect(reasoning).toMatchObject({ false: 0, f1: 1, agreement: true });
    }
  });

  test.each([280, 4000])(
    'a series of %i points is seen and described as one of the trained length',
    async (length) => {
      const shown = { ...card, figure: 'nano-analysis', length: 560 };
      const source = openExamples({ name: 'wild', split: 'test', seed: 8, length, count: 40 });
      const task = exampleTask(shown, { facts: source.facts });
      const anomalous = Array.from(source).filter(({ gold }) => (gold as AnomalyGold).intervals.length > 0);
      const records: EvalRecord[] = [];
      for (const one of anomalous) {
        const seen = task.asSeen!(one);
        expect(seen.channels[0]).toHaveLength(560);
        expect(await task.picture(one)).toEqual(await task.picture(seen));
        const { intervals } = task.parse(task.trace(one), one);
        const gold = (one.gold as AnomalyGold).intervals;
        expect(intervals!.length).toBeLessThanOrEqual(gold.length);
        expect(intervals!.at(-1)![1]).toBeLessThanOrEqual(length);
        expect(Math.abs(intervals![0]![0] - gold[0]![0])).toBeLessThanOrEqual(length / 560 + 1);
        const record = recordOf(task, one, task.trace(one));
        expect([record.length, record.frame]).toEqual([length, 560]);
        expect(record.reasoning).toMatchObject({ true: record.reasoning!.claims });
        records.push(record);
      }
      // Others that score the records read the responses in the points that they count.
      const file = join(root, `records-${length}.jsonl`);
      writeFileSync(file, records.map((record) => `${JSON.stringify(record)}\n`).join(''));
      const read = readPredictions({ gold: file, pred: file, classes: source.facts.classes }).records;
      expect(read.map(({ answer }) => answer.intervals)).toEqual(
        records.map(({ answer }) => answer.intervals),
      );
      expect(read.map(({ score }) => score)).toEqual(records.map(({ score }) => score));
      const half = '<think>flat line 3 sd</think><answer>[[0, 280]]</answer><class>shapelet</class>';
      expect(task.parse(half, anomalous[0]!).intervals).toEqual([[0, length / 2]]);
    },
  );

  test.each(['nano5', 'wild'] as const)(
    'a statement that a response on %s leaves out of its trace is amended in its place',
    (name) => {
      const source = openExamples({ name, split: 'train', seed: 3, length: 1000, count: 30 });
      const task = exampleTask(card, { facts: source.facts });
      let left = 0;
      for (const one of source) {
        const trace = task.trace(one);
        const items = trace.split('; ');
        expect(task.claims!(trace, one).amendments).toEqual([]);
        for (let k = 1; k < items.length - 1; k++) {
          if (items[k]!.startsWith('scan')) continue;
          const response = items.filter((_, i) => i !== k).join('; ');
          const { amendments = [] } = task.claims!(response, one);
          for (const { span, correction } of amendments) {
            expect(response.slice(0, span[0]) + correction + response.slice(span[1])).toBe(trace);
          }
          left += amendments.length;
        }
      }
      expect(left).toBeGreaterThan(60);
    },
  );
});
