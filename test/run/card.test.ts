import { mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterAll, describe, expect, test } from 'vitest';
import type { DataFacts } from '../../datasets/source.ts';
import { recipeSchema } from '../../src/recipe.ts';
import { evaluationCard, mismatches, nanoCard, trainingCard } from '../../src/run/task.ts';
import { FOREIGN_CARD, type PolicyCard, writeCard } from '../../src/tasks/card.ts';

const root = mkdtempSync(join(tmpdir(), 'timeseer-card-'));
afterAll(() => rmSync(root, { recursive: true, force: true }));

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
      stage: 'initial',
    });
  });

  test("is shown the data set's own figure where the recipe says so, and reads numbers where it says that", () => {
    const card = nanoCard(
      recipe({ figure: 'task', input: 'numbers', numbers: { digits: 2, points: 90 } }),
      facts,
    );
    expect(card).toMatchObject({ figure: 'ctu', numbers: { digits: 2, points: 90 } });
    expect(() => nanoCard(recipe({ figure: 'task' }), series)).toThrow(/names no figure of its own/);
    expect(() => nanoCard(recipe({ figure: 'nanoo' }), facts)).toThrow(/nano/);
    expect(() => nanoCard(recipe({ figure: 'rcw-spectrogram' }), facts)).toThrow(/2000 samples per second/);
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

  test('is not trained on another kind of answer, in another figure, or reinforced on classes that it does not know', () => {
    const directory = policyOf(nano);
    expect(() => trainingCard(directory, recipe(), series)).toThrow(
      /answer with classes, but nano5 asks for intervals/,
    );
    expect(() => trainingCard(directory, recipe({ figure: 'ctu' }), facts)).toThrow(/was taught with nano/);
    const other = { ...facts, task: 'tee', classes: ['a', 'b'] };
    expect(() => trainingCard(directory, recipe({ sft: { samples: 0 } }), other)).toThrow(
      /none of which tee has/,
    );
    expect(trainingCard(directory, recipe(), other).classes).toEqual(['a', 'b']);
    expect(() => trainingCard(directory, recipe(), { ...facts, channels: ['x', 'y'] })).toThrow(
      /taught series of 1 channel, ctu has 2 channels/,
    );
  });

  test('says why its answers to other data can mean little', () => {
    const directory = policyOf(nano);
    const told = (own: DataFacts, numbers: PolicyCard['numbers'] = null): string[] =>
      mismatches(directory, evaluationCard(directory, own, numbers), own);
    expect(told(facts)).toEqual([]);
    expect(told({ ...facts, classes: ['Desktop', 'Tablet'] })).toEqual([
      'the policy was never taught the classes Tablet',
    ]);
    expect(told({ ...facts, channels: ['a', 'b'] }, { digits: 3, points: 9 })).toEqual([
      'the policy was taught series of 1 channel, these have 2',
      'the policy was taught with pictures, and is asked with numbers',
    ]);
    expect(mismatches(policyOf(null), FOREIGN_CARD, facts)).toEqual([]);
  });

  test('is not trained in another mode than it was taught', () => {
    expect(() => trainingCard(policyOf(nano), recipe({ input: 'numbers' }), facts)).toThrow(
      /taught with pictures/,
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
