import { expect, test } from 'vitest';
import { openExamples } from '../../datasets/source.ts';
import { runBaselines } from '../../eval/baselines.ts';
import { Random } from '../../src/random.ts';
import { exampleTask, trainingTask } from '../../src/run/task.ts';
import type { PolicyCard } from '../../src/tasks/card.ts';
import type { Example } from '../../src/types.ts';

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
    expect(permuted.records[name]!.map(({ answer }) => answer)).toEqual(records.map(({ answer }) => answer));
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
  for (const one of examples) expect(/scan ([.()#ox]+)/.exec(task.trace(one))![1]).toHaveLength(20);
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
  expect(trainingTask(card, address, 'rl', 'strict').score(text, one)).toEqual(score('strict'));
});
