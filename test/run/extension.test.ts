import { mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterAll, describe, expect, test } from 'vitest';
import { BENCHMARK_PROMPTS, benchmarkPrompt } from '../../datasets/benchmarks/registry.ts';
import type { DataFacts, ExampleSource } from '../../datasets/source.ts';
import { recordOf } from '../../eval/harness.ts';
import { metricsOf } from '../../eval/metrics.ts';
import { readRecords, writeRecords } from '../../eval/records.ts';
import { type Extension, type Judge, judgeByRules, rulesJudge } from '../../rewards/judge.ts';
import type { Answerer } from '../../src/answer/answerer.ts';
import { ConfigError } from '../../src/ground/errors.ts';
import type { Example } from '../../src/ground/types.ts';
import { recipeSchema } from '../../src/recipe/recipe.ts';
import { type CellRequest, evaluateCell } from '../../src/run/eval-cell.ts';
import {
  type JudgeCounts,
  judgedScore,
  judgeRecord,
  judgeRecords,
  openJudge,
  recipeJudge,
} from '../../src/run/judging.ts';
import {
  evaluationCard,
  exampleTask,
  foreignCard,
  nanoCard,
  trainingCard,
  withExtension,
} from '../../src/run/policy-task.ts';
import { writeCard } from '../../src/tasks/card.ts';
import { extensionTrace, hasExtension } from '../../src/tasks/extension.ts';
import { ChatServer } from '../helpers/chat-server.ts';

const root = mkdtempSync(join(tmpdir(), 'extension-'));
afterAll(() => rmSync(root, { recursive: true }));

const facts: DataFacts = {
  task: 'ctu',
  title: 'computers',
  kind: 'classification',
  classes: ['Desktop', 'Laptop'],
  channels: ['value'],
  length: 80,
  rate: 1 / 120,
  figure: { preset: 'ctu', missing: 'break' },
  statement: null,
};
const series: DataFacts = {
  ...facts,
  task: 'nano5',
  kind: 'anomaly',
  classes: ['trend', 'normal'],
  figure: null,
};
const asking = recipeSchema.parse({ extension: { ask: true } });
const example: Example = {
  id: 'ctu/test/0',
  task: 'ctu',
  channels: [Float64Array.from({ length: 80 }, (_, i) => (i >= 24 && i < 32 ? 2.25 : Math.sin(i) / 4))],
  names: ['value'],
  times: null,
  gold: { kind: 'classification', class: 'Desktop' },
  recording: null,
};
const task = exampleTask(withExtension(foreignCard(facts, null), facts), { facts });
const say = (name: string, advice: string): string =>
  `<think>t</think><class>${name}</class><extension>${advice}</extension>`;

/** Scores by the number of characters, in hundredths; `?` is missing. */
function counting(): Judge & { readonly calls: string[][] } {
  const calls: string[][] = [];
  return {
    name: 'counting',
    calls,
    judge: async (extensions: readonly Extension[]) => {
      calls.push(extensions.map(({ text }) => text));
      return extensions.map(({ text }) =>
        text === '?'
          ? { score: null, criteria: null, notes: 'down' }
          : { score: text.length / 100, criteria: null, notes: null },
      );
    },
  };
}

describe('advice is asked for', () => {
  test('where the recipe says so, of data that say which', () => {
    expect(nanoCard(asking, facts).extension).toBe(true);
    expect(nanoCard(recipeSchema.parse({}), facts)).not.toHaveProperty('extension');
    expect(() => nanoCard(asking, series)).toThrow(ConfigError);
    expect(() => withExtension(foreignCard(series, null), series)).toThrow(/take one of .*ctu/);
    const own: DataFacts = {
      ...facts,
      task: 'custom',
      prompt: { description: '', hints: {}, advice: 'advise the baker' },
    };
    expect(withExtension(foreignCard(own, null), own).extension).toBe(true);
    expect(() => withExtension(foreignCard(facts, null), { ...facts, task: 'custom' })).toThrow(
      /no advice is asked for/,
    );
  });

  test('of a policy that was taught to give it, and of none in a stage without it', () => {
    const directory = mkdtempSync(join(root, 'policy-'));
    writeCard(directory, { ...nanoCard(asking, facts), stage: 'sft' });
    expect(evaluationCard(directory, facts).extension).toBe(true);
    expect(evaluationCard(directory, { ...facts, task: 'custom' })).not.toHaveProperty('extension');
    expect(trainingCard(directory, recipeSchema.parse({}), facts)).not.toHaveProperty('extension');
  });

  test('in the prompt, and read in the response', () => {
    expect(task.instruction(example)).toContain('between <extension> and </extension>, advise the household');
    expect(task.parse(say('Desktop', ' Let it sleep. '), example)).toMatchObject({
      extension: 'Let it sleep.',
      wellFormed: true,
    });
    expect(task.parse('<think>t</think><class>Desktop</class>', example).wellFormed).toBe(false);
    const without = exampleTask(foreignCard(facts, null), { facts });
    expect(without.instruction(example)).not.toContain('extension');
    expect(without.traced('trace', example)).toBe('trace');
    expect(without.extension('<think>t</think><class>Desktop</class>', example)).toBeNull();
  });
});

describe('traces', () => {
  test('end with the advice for the class and what the series shows, which can be read and is true', () => {
    const text = task.traced('<think>t</think><class>Desktop</class>', example);
    expect(task.score(text, example)).toEqual({ total: 1, parts: { accuracy: 1, format: 1 } });
    const extension = task.extension(text, example)!;
    expect(extension.text).toContain(
      'from 24 to 32, where the level is 2.25; its highest value, 2.25, is at index 24',
    );
    expect(judgeByRules(extension)).toMatchObject({ criteria: { specificity: 1 }, notes: null });
  });

  test('of every class of every benchmark that asks for advice are specific, and relevant', () => {
    const asked = BENCHMARK_PROMPTS.filter(hasExtension);
    expect(asked.map(({ name }) => name).sort()).toEqual(['ctu', 'ecg', 'emg', 'har', 'rcw', 'tee']);
    for (const prompt of asked) {
      const classes = Object.keys(prompt.hints);
      expect(Object.keys(prompt.advised!)).toEqual(classes);
      for (const name of classes) {
        const text = extensionTrace(example, name, prompt, 'full');
        const judged = judgeByRules({
          text,
          asked: prompt.advice!,
          context: '',
          class: name,
          classes,
          example,
        });
        expect([prompt.name, name, judged.notes, judged.criteria!.appropriateness > 0]).toEqual([
          prompt.name,
          name,
          null,
          true,
        ]);
        expect(judged.score).toBeGreaterThan(0.6);
      }
    }
  });

  test('of classes without words tell what the series shows, and in the small style nothing else than the words', () => {
    expect(extensionTrace(example, 'a<b', { advised: {} }, 'full')).toMatch(
      /^This is a b\. In this series begin/,
    );
    expect(extensionTrace(example, 'Laptop', benchmarkPrompt('ctu')!, 'nano')).not.toContain(
      'In this series',
    );
  });
});

describe('the reward of a training step', () => {
  test('adds half the score of right and well-formed answers, and asks the judge once, about those alone', async () => {
    const judge = counting();
    const counts: JudgeCounts = { judged: 0, missing: 0, reason: null };
    const score = judgedScore(task, judge, counts);
    const scores = await Promise.all(
      [
        say('Desktop', 'x'.repeat(80)),
        say('Laptop', 'wrong'),
        say('Desktop', 'ill').slice(0, -3),
        say('Desktop', '?'),
      ].map((text) => score(text, example)),
    );
    expect(scores[0]).toEqual({ total: 1.4, parts: { accuracy: 1, format: 1, extension: 0.8 } });
    expect(scores[1]).toMatchObject({ total: 0.1, parts: { extension: 0 } });
    expect(scores[2]).toMatchObject({ total: 0.9, parts: { extension: 0 } });
    expect(scores[3]).toBeNull();
    expect(judge.calls).toEqual([['x'.repeat(80), '?']]);
    expect(counts).toEqual({ judged: 2, missing: 1, reason: 'down' });
    await score(say('Desktop', 'later'), example);
    expect(judge.calls[1]).toEqual(['later']);
  });

  test('waits for a silent judge no longer than it may, and then has no score', async () => {
    const server = new ChatServer();
    await server.start();
    server.usual = () => {};
    const { judge } = openJudge(`openai:m@${server.url}`, 0.05);
    const score = judgedScore(task, judge);
    const scores = await Promise.all(
      [say('Desktop', 'Let it sleep.'), say('Laptop', 'x')].map((text) => score(text, example)),
    );
    expect(scores).toEqual([null, { total: 0.1, parts: { accuracy: 0, format: 1, extension: 0 } }]);
    await server.stop();
  });

  test('fails where the judge does, instead of waiting', async () => {
    const broken: Judge = { name: 'broken', judge: () => Promise.reject(new Error('stopped')) };
    await expect(judgedScore(task, broken)(say('Desktop', 'a'), example)).rejects.toThrow('stopped');
  });

  test('has the judge that the recipe names', () => {
    const judge = (extension: object) =>
      recipeJudge({ extension: recipeSchema.parse({ extension }).extension });
    expect(judge({ ask: false })).toBeNull();
    expect(judge({ ask: true, judge: 'none' })).toBeNull();
    expect(judge({ ask: true })!.judge.name).toBe('rules');
    expect(
      judge({ ask: true, judge: 'openai:qwen@http://localhost:1/v1', prices: [1, 2] })!.totals()!.cost,
    ).toBe(0);
    expect(() => openJudge('gpt', 1)).toThrow(/got gpt, expected rules, none or openai:MODEL@URL/);
  });
});

describe('records', () => {
  test('keep what the judge said, and their score has it, on disk too; missing scores are left out of the mean', async () => {
    const judge = counting();
    const texts = [say('Desktop', 'x'.repeat(60)), say('Laptop', 'wrong'), say('Desktop', '?')];
    const records = await Promise.all(
      texts.map((text, i) => {
        const own = { ...example, id: `ctu/test/${i}` };
        return judgeRecord(task, judge, own, recordOf(task, own, text));
      }),
    );
    expect(records.map(({ judged }) => judged)).toEqual([
      { by: 'counting', score: 0.6, notes: null },
      { by: 'counting', score: 0, notes: 'the answer is wrong or ill-formed' },
      { by: 'counting', score: null, notes: 'down' },
    ]);
    expect(records.map(({ score }) => score.total)).toEqual([1.3, 0.1, 1]);
    const all = texts.map((_, i) => ({ ...example, id: `ctu/test/${i}` }));
    const plain = texts.map((text, i) => recordOf(task, all[i]!, text));
    expect(await judgeRecords(task, judge, all.toReversed(), plain)).toEqual(records);
    await expect(judgeRecords(task, judge, all.slice(1), plain)).rejects.toThrow(/ctu\/test\/0: answered/);
    const file = join(root, 'records.jsonl');
    writeRecords(file, records);
    expect(readRecords(file)).toEqual(records);
    const { extension } = metricsOf(records, { classes: facts.classes }).overall;
    expect(extension).toMatchObject({ mean: 0.3, n: 2 });
  });

  test('of policies that were asked for no advice, or gave no response, stay as they are', async () => {
    const plain = exampleTask(foreignCard(facts, null), { facts });
    const one = recordOf(plain, example, '<think>t</think><class>Desktop</class>');
    expect(await judgeRecord(plain, rulesJudge, example, one)).toBe(one);
    const failed = recordOf(task, example, '', { failure: 'down' });
    expect(await judgeRecord(task, rulesJudge, example, failed)).toBe(failed);
  });
});

describe('an evaluation with a judge', () => {
  const three: readonly Example[] = [0, 1, 2].map((i) => ({ ...example, id: `ctu/test/${i}` }));
  const source = {
    ...{ facts, set: null, count: 3, at: (i: number) => three[i]! },
    [Symbol.iterator]: () => three[Symbol.iterator](),
  } as unknown as ExampleSource;
  const card = withExtension(foreignCard(facts, { digits: 3, points: 20 }), facts);
  const texts = [say('Desktop', 'x'.repeat(60)), say('Laptop', 'wrong'), say('Desktop', '?')];
  const policy: Answerer = {
    ...{ given: 'p', name: 'p', identity: {}, reads: 'prompt', local: null, dispose: async () => {} },
    async answer(requests, _, report) {
      for (const { key, prompt } of requests) {
        expect((await prompt()).text).toContain('<extension>');
        report({ key, sample: 0, text: texts[key]! });
      }
    },
  };
  const asked = (judge: Judge, out: string | null = null): CellRequest => ({
    ...{ policy, card, source, samples: 1, temperatures: [0], out, label: 'test', silent: true },
    address: { name: 'ctu', split: 'test', seed: 1, length: 80, count: 3 },
    form: {
      numbers: card.numbers,
      shots: null,
      reasoning: true,
      extension: true,
      reading: 'lenient',
      maxTokens: 9,
      seed: 1,
    },
    beginning: { resume: true, force: false },
    judge: { judge, totals: () => null },
  });

  test('keeps every record with what was judged, and tells the mean and what is missing', async () => {
    const out = join(root, 'judged');
    const { judged, modes } = await evaluateCell(asked(counting(), out));
    expect(judged).toMatchObject({
      judge: 'counting',
      scored: 2,
      missing: 1,
      mean: 0.3,
      reason: 'down',
      cost: null,
    });
    expect(modes[0]!.metrics!.overall['extension']).toMatchObject({ mean: 0.3, n: 2 });
    expect(readRecords(join(out, 'records.jsonl'))).toEqual(modes[0]!.records);
    const again = counting();
    expect((await evaluateCell(asked(again, out))).judged).toEqual(judged);
    // What is missing alone.
    expect(again.calls).toEqual([['?']]);
    const up: Judge = {
      name: 'counting',
      judge: async (all) => all.map(() => ({ score: 0.9, criteria: null, notes: null })),
    };
    expect((await evaluateCell(asked(up, out))).judged).toMatchObject({
      scored: judged!.scored + 1,
      missing: 0,
    });
    const last = counting();
    await evaluateCell(asked(last, out));
    expect(last.calls).toEqual([]);
    await expect(evaluateCell(asked({ ...counting(), name: 'other' }, out))).rejects.toThrow(ConfigError);
  });

  test('fails where the judge does', async () => {
    const broken: Judge = { name: 'broken', judge: () => Promise.reject(new Error('no disk')) };
    await expect(evaluateCell(asked(broken))).rejects.toThrow('no disk');
  });
});
