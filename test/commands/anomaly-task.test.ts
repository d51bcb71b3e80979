import { expect, test } from 'vitest';
import { open } from '../../datasets/registry.ts';
import { runBaselines } from '../../eval/baselines.ts';
import { anomalyTask } from '../../src/commands/anomaly-task.ts';
import { Random } from '../../src/random.ts';
import type { PolicyCard } from '../../src/train/card.ts';
import type { LabeledSeries } from '../../src/types.ts';

const card: PolicyCard = {
  version: 1,
  style: 'nano',
  figure: 'nano',
  length: 1000,
  classes: ['contextual point', 'global point', 'seasonal', 'trend', 'normal'],
  stage: 'initial',
};

const series = [...open('nano5', { split: 'test', seed: 8, count: 15 })];
const order = new Random(9, 'permutation').permutation(series.length);
/** The same values under the id, task name and annotation of another series. */
const relabelled = series.map((one, i): LabeledSeries => ({ ...series[order[i]!]!, values: one.values }));

test('the permutation moves most labels', () => {
  expect(relabelled.filter((one, i) => one.class !== series[i]!.class).length).toBeGreaterThan(7);
});

test('every blind detector answers alike when labels and task names are permuted', async () => {
  const [plain, permuted] = await Promise.all([runBaselines(series, []), runBaselines(relabelled, [])]);
  for (const [name, records] of Object.entries(plain.records)) {
    expect(permuted.records[name]!.map(({ answer }) => answer)).toEqual(records.map(({ answer }) => answer));
  }
});

test('the score does look at the labels', async () => {
  const [plain, permuted] = await Promise.all([runBaselines(series, []), runBaselines(relabelled, [])]);
  const total = (records: readonly { readonly score: { readonly total: number } }[]): number =>
    records.reduce((sum, { score }) => sum + score.total, 0);
  expect(total(permuted.records[permuted.best]!)).toBeLessThan(total(plain.records[plain.best]!) - 2);
});

test('what a policy sees and is asked does not depend on the labels', async () => {
  const task = anomalyTask(card);
  for (const [i, one] of series.entries()) {
    expect(task.instruction(relabelled[i]!)).toBe(task.instruction(one));
    expect((await task.picture(relabelled[i]!)).data).toEqual((await task.picture(one)).data);
  }
});

test('the teacher does, and writes one scan symbol per visual token', () => {
  const task = anomalyTask(card);
  expect(series.map((one) => task.trace(one))).not.toEqual(relabelled.map((one) => task.trace(one)));
  for (const one of series) expect(/scan ([.()#ox]+)/.exec(task.trace(one))![1]).toHaveLength(20);
});
