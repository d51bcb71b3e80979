import { existsSync, mkdtempSync, readdirSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterEach, beforeEach, describe, expect, test } from 'vitest';
import { type ExampleAddress, openExamples } from '../../datasets/source.ts';
import type { EvalForm, ResponseRequest } from '../../eval/harness.ts';
import { readRecords } from '../../eval/records.ts';
import type { Answerer } from '../../src/answer/answerer.ts';
import { Interrupted } from '../../src/ground/interrupt.ts';
import { changedRecipe } from '../../src/recipe/config.ts';
import { defaultRecipe, type RewardRecipe } from '../../src/recipe/recipe.ts';
import { type CellRequest, evaluateCell } from '../../src/run/eval-cell.ts';
import { foreignCard } from '../../src/run/policy-task.ts';
import { goldResponse } from '../../src/tasks/kinds.ts';

const address: ExampleAddress = { name: 'nano5', split: 'test', seed: 42, length: 200, count: 6 };
const source = openExamples(address);
const form: EvalForm = {
  ...{ numbers: { digits: 3, points: 20 }, shots: null, reasoning: true },
  ...{ reading: 'lenient', maxTokens: 64, seed: 42 },
};

/** Answers from the last question to the first; `before` may throw, or say why there is no response. */
class Backwards implements Answerer {
  readonly given = 'backwards';
  readonly name = 'backwards';
  readonly identity = { program: 'backwards' };
  readonly reads = 'prompt';
  readonly local = null;
  readonly calls: string[] = [];
  before: (call: number) => string | undefined = () => undefined;
  dispose = async () => {};
  answer: Answerer['answer'] = async (requests, { temperature, signal }, report) => {
    const asked = requests.flatMap((request) => request.samples.map((sample) => ({ request, sample })));
    for (const { request, sample } of asked.toReversed()) {
      signal!.throwIfAborted();
      const { text: words, pictures } = await request.prompt();
      expect({ pictures, told: words.includes('The numbers below') }).toEqual({ pictures: [], told: true });
      const failure = this.before(this.calls.length);
      const number = request.key;
      this.calls.push(key({ number, sample, temperature }));
      const text = failure === undefined ? goldResponse(source.at(number).gold, `sample ${sample}`) : '';
      report({
        ...{ key: number, sample, text, usage: { prompt: 100 + number, completion: 7 } },
        ...(failure === undefined ? {} : { failure }),
      });
    }
  };
}

const key = ({ number, sample, temperature }: ResponseRequest): string =>
  `${number}.${sample}@${temperature}`;
const asked = (policy: Answerer, more: Partial<CellRequest> = {}): CellRequest => ({
  ...{ policy, card: foreignCard(source.facts, form.numbers), address, source, form, samples: 2, out },
  ...{ temperatures: [0.7], beginning: { resume: true, force: false }, label: 'test', silent: true },
  ...more,
});

let root = '';
let out = '';
beforeEach(() => {
  root = mkdtempSync(join(tmpdir(), 'eval-cell-'));
  out = join(root, 'out');
});
afterEach(() => rmSync(root, { recursive: true, force: true }));

const records = (): string => readFileSync(join(out, 'records.jsonl'), 'utf8');

describe('a policy on a data set', () => {
  test('has its records in the order of the examples, whatever the order of the answers', async () => {
    const policy = new Backwards();
    const { modes } = await evaluateCell(asked(policy));
    expect(policy.calls[0]).toBe('5.1@0.7');
    const ids = readRecords(join(out, 'records.jsonl')).map(
      ({ seriesId, sample }) => `${seriesId} ${sample}`,
    );
    expect(ids).toEqual(Array.from({ length: 12 }, (_, i) => `nano5/test/${Math.floor(i / 2)} ${i % 2}`));
    expect(modes[0]!.metrics!.overall.reward).toMatchObject({ mean: 1, n: 6 });
    expect(modes[0]!.usage).toEqual({
      ...{ asked: 12, missing: 0, tokens: { prompt: 102.5, completion: 7 }, seconds: null, cost: null },
    });
    const again = new Backwards();
    await evaluateCell(asked(again));
    expect(again.calls).toEqual([]);
  });

  test('is gone on with after an interruption without repeating a call, to the same records', async () => {
    await evaluateCell(asked(new Backwards()));
    const whole = records();
    rmSync(out, { recursive: true });
    const first = new Backwards();
    first.before = (call) => {
      if (call === 5) throw new Interrupted();
      return undefined;
    };
    await expect(evaluateCell(asked(first))).rejects.toThrow(Interrupted);
    expect(first.calls).toHaveLength(5);
    expect(records().split('\n')).toHaveLength(6);
    const second = new Backwards();
    await evaluateCell(asked(second));
    expect(second.calls).toHaveLength(7);
    expect(new Set([...first.calls, ...second.calls]).size).toBe(12);
    expect(records()).toBe(whole);
  });

  test('is graded as by one code: a response that other code has graded is graded again, and not asked for', async () => {
    await evaluateCell(asked(new Backwards()));
    const [file, whole] = [join(out, 'eval.json'), records()];
    const manifest = JSON.parse(readFileSync(file, 'utf8'));
    const [first, ...rest] = whole.split('\n');
    const otherwise = JSON.stringify({ ...JSON.parse(first!), score: { total: 0.125, parts: {} } });
    const resumed = async (code: string | undefined): Promise<string> => {
      writeFileSync(join(out, 'records.jsonl'), [otherwise, ...rest].join('\n'));
      writeFileSync(file, JSON.stringify({ ...manifest, code }));
      const again = new Backwards();
      await evaluateCell(asked(again));
      expect(again.calls).toEqual([]);
      return records();
    };
    expect(await resumed(manifest.code)).toContain('0.125');
    for (const code of ['0123456789ab', undefined]) {
      expect(JSON.parse((await resumed(code)).split('\n')[0]!)).toEqual(JSON.parse(first!));
      expect(records().split('\n').slice(1)).toEqual(rest);
      expect(JSON.parse(readFileSync(file, 'utf8')).code).toBe(manifest.code);
    }
  });

  test('of a built-in baseline is answered again by other code, whose own its answers are', async () => {
    const baseline = (): Backwards => Object.assign(new Backwards(), { identity: { baseline: 'one' } });
    await evaluateCell(asked(baseline()));
    const file = join(out, 'eval.json');
    const manifest = JSON.parse(readFileSync(file, 'utf8'));
    for (const [code, calls] of [
      [manifest.code, 0],
      ['0123456789ab', 12],
    ]) {
      writeFileSync(file, JSON.stringify({ ...manifest, code }));
      const again = baseline();
      await evaluateCell(asked(again));
      expect(again.calls).toHaveLength(calls);
      expect(JSON.parse(readFileSync(file, 'utf8')).code).toBe(manifest.code);
    }
  });

  test('counts responses that never came as missing, not as wrong, and asks for them alone again', async () => {
    const policy = new Backwards();
    policy.before = (call) => (call < 3 ? 'status 500 after 6 tries' : undefined);
    const { modes } = await evaluateCell(asked(policy));
    expect(modes[0]!.usage).toMatchObject({ asked: 12, missing: 3 });
    // Of the last example none of both samples, of the one before one of them.
    expect(modes[0]!.metrics!.overall.reward).toMatchObject({ mean: 1, n: 5 });
    const second = new Backwards();
    const whole = await evaluateCell(asked(second));
    expect(second.calls).toEqual(policy.calls.slice(0, 3));
    expect(whole.modes[0]!.usage).toMatchObject({ asked: 12, missing: 0 });
    expect(records()).not.toContain('status 500');
  });

  test('has no metrics where no response came', async () => {
    const policy = new Backwards();
    policy.before = () => 'refused';
    const { modes } = await evaluateCell(asked(policy));
    expect(modes[0]).toMatchObject({ metrics: null, usage: { asked: 12, missing: 12 } });
  });

  test('keeps each temperature in a file of its own, greedy with one response', async () => {
    const policy = new Backwards();
    await evaluateCell(asked(policy, { temperatures: [0, 1] }));
    expect(policy.calls).toHaveLength(18);
    expect(readdirSync(out).sort()).toEqual(['eval.json', 'records.0.jsonl', 'records.1.jsonl']);
    expect(readRecords(join(out, 'records.0.jsonl'))).toHaveLength(6);
  });

  test.each<[string, Partial<CellRequest>, RegExp]>([
    ['temperature', { temperatures: [0.8] }, /temperatures \(was \[0\.7\], is \[0\.8\]\)/],
    ['samples', { samples: 3 }, /samples \(was 2, is 3\)/],
    ['shots', { form: { ...form, shots: { count: 2, seed: 42 } } }, /prompt\.shots \(was 0, is 2\)/],
    ['reasoning', { form: { ...form, reasoning: false } }, /prompt\.reasoning \(was true, is false\)/],
    ['pictures', { form: { ...form, numbers: null } }, /prompt\.input \(was "numbers", is "picture"\)/],
    ['examples', { address: { ...address, seed: 43 } }, /data\.seed \(was 42, is 43\)/],
    [
      'policy',
      { policy: Object.assign(new Backwards(), { identity: { program: 'other' } }) },
      /policy\.program \(was "backwards", is "other"\)/,
    ],
  ])('is not gone on with when the %s changed', async (_, change, message) => {
    await evaluateCell(asked(new Backwards()));
    const before = records();
    const policy = new Backwards();
    await expect(evaluateCell(asked(policy, change))).rejects.toThrow(message);
    expect(policy.calls).toEqual([]);
    expect(records()).toBe(before);
  });

  test('is begun anew with force, and nothing is taken over', async () => {
    await evaluateCell(asked(new Backwards()));
    const policy = new Backwards();
    const force = { beginning: { resume: false, force: true }, temperatures: [0.8] };
    await evaluateCell(asked(policy, force));
    expect(policy.calls).toHaveLength(12);
    expect(JSON.parse(readFileSync(join(out, 'eval.json'), 'utf8')).settings.temperatures).toEqual([0.8]);
  });

  test('leaves records alone of which it is not known what was asked', async () => {
    await evaluateCell(asked(new Backwards()));
    rmSync(join(out, 'eval.json'));
    await expect(evaluateCell(asked(new Backwards()))).rejects.toThrow(
      /holds records\.jsonl without eval\.json/,
    );
    writeFileSync(join(out, 'eval.json'), '{"format": 3}');
    await expect(evaluateCell(asked(new Backwards()))).rejects.toThrow(/eval\.json: "format"/);
  });

  test('writes nothing where its records are not kept', async () => {
    await evaluateCell(asked(new Backwards(), { out: null }));
    expect(existsSync(out)).toBe(false);
  });
});

describe('rewards beside the one of the task', () => {
  const own = (text: string): readonly RewardRecipe[] => {
    const file = join(root, 'mine.ts');
    writeFileSync(file, text);
    return changedRecipe(defaultRecipe(), [`reward=${JSON.stringify(['format', file])}`]).reward!;
  };
  // Of the text "<think>sample 0</think>…", for the examples with an even number.
  const HALF = `export default { name: 'half', score: ({ text, example }) =>
    Number(example.id.at(-1)) % 2 === 1 ? null : 2 + Number(/sample (\\d)/.exec(text)[1]) };`;

  test('score every response that they apply to, in the records and over series', async () => {
    const { modes } = await evaluateCell(asked(new Backwards(), { rewards: own(HALF) }));
    expect(readRecords(join(out, 'records.jsonl')).map(({ rewards }) => rewards)).toEqual(
      Array.from({ length: 12 }, (_, i) =>
        Math.floor(i / 2) % 2 === 1 ? { format: 1 } : { format: 1, half: 2 + (i % 2) },
      ),
    );
    const { rewards, overall } = modes[0]!.metrics!;
    expect(rewards['half']).toMatchObject({ mean: 2.5, n: 3 });
    expect(rewards['format']).toMatchObject({ mean: 1, n: 6 });
    expect(overall.reward).toMatchObject({ mean: 1, n: 6 });
  });

  test('that other code computed are computed again', async () => {
    const rewards = own(HALF);
    await evaluateCell(asked(new Backwards(), { rewards }));
    const [file, whole] = [join(out, 'eval.json'), readRecords(join(out, 'records.jsonl'))];
    const manifest = JSON.parse(readFileSync(file, 'utf8'));
    writeFileSync(join(out, 'records.jsonl'), records().replaceAll('"half":2', '"half":9'));
    writeFileSync(file, JSON.stringify({ ...manifest, code: '0123456789ab' }));
    const again = new Backwards();
    await evaluateCell(asked(again, { rewards }));
    expect(again.calls).toEqual([]);
    expect(readRecords(join(out, 'records.jsonl'))).toEqual(whole);
  });

  test('are part of what an evaluation is resumed under', async () => {
    await evaluateCell(asked(new Backwards(), { rewards: own(HALF) }));
    const again = new Backwards();
    await evaluateCell(asked(again, { rewards: own(HALF) }));
    expect(again.calls).toEqual([]);
    await expect(evaluateCell(asked(again, { rewards: own(HALF.replace('2 +', '3 +')) }))).rejects.toThrow(
      /rewards\.?/,
    );
    await expect(evaluateCell(asked(again))).rejects.toThrow(/rewards/);
  });

  test('that fail end the evaluation by the name of the function, with the responses that were scored', async () => {
    const text = HALF.replace('null', 'Number.NaN');
    await expect(evaluateCell(asked(new Backwards(), { rewards: own(text) }))).rejects.toThrow(
      /mine\.ts: reward half on a response to nano5.* returned NaN/s,
    );
    expect(records().trimEnd().split('\n')).toHaveLength(6);
  });
});
