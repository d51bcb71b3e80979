/** The library refuses what it does not know, and trains with values. */
import { existsSync, readFileSync } from 'node:fs';
import { join } from 'node:path';
import { describe, expect, test } from 'vitest';
import * as timeseer from '../src/index.ts';
import { temporary } from './helpers/temporary.ts';

const root = temporary('library');

/** Options that no type allows. */
const wrong = (options: object): never => options as never;
const { ConfigError, DataError } = timeseer;
const values = Array.from({ length: 40 }, (_, i) => Math.sin(i));

describe('unknown options and wrong values are typed errors', () => {
  test.each([
    [
      'runRecipe',
      () => timeseer.runRecipe(wrong({ out: 'x', onStep() {} })),
      'runRecipe(): unknown option onStep',
    ],
    ['evaluate', () => timeseer.evaluate(wrong({ policy: 'x', tasks: 'nano5' })), 'Did you mean task?'],
    ['explain', () => timeseer.explain('x.csv', wrong({ column: 'x' })), 'Did you mean columns?'],
    ['openPolicy', () => timeseer.openPolicy('x', wrong({ thread: 1 })), 'Did you mean threads?'],
    ['openExamples', () => timeseer.openExamples('nano5', wrong({ spilt: 'test' })), 'Did you mean split?'],
    ['detect', () => timeseer.detect(values, null, wrong({ severty: 3 })), 'Did you mean severity?'],
    [
      'sft',
      () => timeseer.sft(wrong({ examples: 'nano5', sample: 1 })),
      'unknown key sft.sample; did you mean sft.samples?',
    ],
    [
      'sft, a key of runs',
      () => timeseer.sft(wrong({ examples: 'nano5', workers: 2 })),
      'workers: belongs to runs',
    ],
    [
      'sft, a value',
      () => timeseer.sft({ examples: 'nano5', batch: 0 }),
      'sft(): sft.batch: got 0, expected a number ≥ 1',
    ],
    ['sft, examples', () => timeseer.sft(wrong({})), 'sft(): examples: expected'],
    [
      'sft, a callback',
      () => timeseer.sft(wrong({ examples: 'nano5', onStep: 3 })),
      'onStep: expected a function',
    ],
    [
      'rl',
      () => timeseer.rl(wrong({ examples: 'nano5', groups: 2 })),
      'unknown key rl.groups; did you mean rl.group?',
    ],
    [
      'rl, an estimator',
      () => timeseer.rl(wrong({ examples: 'nano5', advantage: { name: 'x' } })),
      'expected a function',
    ],
    ['rl, a reference', () => timeseer.rl({ examples: 'nano5', kl: 0.1 }), 'needs a policy that is trained'],
    [
      'rl, a reward',
      () => timeseer.rl({ examples: 'nano5', steps: 1, reward: 'nonsense' }),
      'no reward called nonsense',
    ],
  ])('%s', async (_, call, message) => {
    const error = await call().then(
      () => null,
      (thrown: unknown) => thrown,
    );
    expect(error).toBeInstanceOf(ConfigError);
    expect((error as Error).message).toContain(message);
  });

  test('a data set is read by one name, its examples are of one task', async () => {
    await expect(timeseer.sft({ examples: [] })).rejects.toThrow(DataError);
    const [a] = await timeseer.openExamples('nano5', { count: 1 });
    const [b] = await timeseer.openExamples('anomllm/trend', { count: 1 });
    await expect(timeseer.sft({ examples: [a!, b!] })).rejects.toThrow('give those of one task');
  });
});

describe('detect', () => {
  const HOUR = 3_600_000;
  const times = Float64Array.from({ length: 24 * 14 }, (_, i) => i * HOUR);
  const load = Array.from(times, (_, i) =>
    i === 200 ? 9 : Math.sin((2 * Math.PI * i) / 24) + 0.1 * Math.sin(i * i),
  );

  test('returns findings, and a score and an expected value for each sample', async () => {
    const { findings, score, expected, seasons } = await timeseer.detect(load, times);
    expect(findings[0]).toMatchObject({ start: 200, end: 201, kind: 'spike' });
    expect([score.length, expected.length, seasons]).toEqual([load.length, load.length, [24]]);
  });

  test('takes dates, and does without times', async () => {
    const dates = Array.from(times, (time) => new Date(time));
    const { findings } = await timeseer.detect(load, dates);
    expect((await timeseer.detect(Float64Array.from(load), times)).findings).toEqual(findings);
    expect((await timeseer.detect(load)).findings[0]!.start).toBe(200);
  });

  test.each([
    ['fewer times than values', times.slice(1), 'got 335 for 336 values'],
    ['a gap', times.map((time, i) => (i > 100 ? time + 5 * HOUR : time)), 'entry 101 does not follow'],
    ['times that fall', times.toReversed(), 'evenly spaced, ascending times'],
  ])('refuses %s', async (_, odd, message) => {
    await expect(timeseer.detect(load, odd)).rejects.toThrow(DataError);
    await expect(timeseer.detect(load, odd)).rejects.toThrow(message);
  });

  test('refuses what is no number', async () => {
    await expect(timeseer.detect(undefined as never)).rejects.toThrow(DataError);
    await expect(timeseer.detect([...values, '3'] as never)).rejects.toThrow('values: got 3 at 40');
  });
});

test.each([
  ['no channel', [], 'render(): values: got no channel'],
  ['numbers that are no Float64Array', [1, Number.NaN], 'render(): values: got 1, expected a Float64Array'],
])('render refuses %s', async (_, given, message) => {
  const call = timeseer.render(given as never, 'nano');
  await expect(call).rejects.toThrow(DataError);
  await expect(call).rejects.toThrow(message);
});

describe('training', () => {
  const small = { steps: 2, prompts: 2, group: 2, maxTokens: 6, advantage: 'grpo' } as const;

  test('hands over each step as it comes, stops at a signal and writes policy and metrics to out', async () => {
    const stop = new AbortController();
    const seen: number[] = [];
    const out = join(root, 'stopped');
    const trained = await timeseer.sft({
      examples: 'nano5',
      ...{ samples: 40, batch: 4, out, signal: stop.signal },
      onStep: ({ step, loss }) => {
        seen.push(step);
        expect(loss).toBeGreaterThan(0);
        if (step === 2) setTimeout(() => stop.abort(), 0);
      },
    });
    expect(trained.policy).toBe(join(out, 'sft/policy'));
    expect(trained.steps).toBe(seen.length);
    expect(seen.length).toBeLessThan(10);
    const lines = readFileSync(join(out, 'sft/metrics.jsonl'), 'utf8').trim().split('\n');
    expect(lines.map((line) => (JSON.parse(line) as { step: number }).step)).toEqual(seen);
    expect(existsSync(join(trained.policy, 'model.safetensors'))).toBe(true);
    await expect(timeseer.sft({ examples: 'nano5', out })).rejects.toThrow('exists already');
  });

  test('a faulty reward or estimator is a typed error, and so is what a callback throws', async () => {
    const request = { examples: 'nano5', ...small };
    await expect(timeseer.rl({ ...request, reward: () => Number.NaN })).rejects.toThrow(timeseer.RewardError);
    const short = timeseer.defineAdvantage({ name: 'short', advantages: () => [[1]] });
    await expect(timeseer.rl({ ...request, advantage: short })).rejects.toThrow(timeseer.AdvantageError);
    const onStep = (): void => {
      throw new RangeError('enough');
    };
    await expect(timeseer.rl({ ...request, onStep })).rejects.toThrow(new RangeError('enough'));
  });

  test('a reward that does not apply leaves the response without one', async () => {
    const unrewarded: number[] = [];
    let calls = 0;
    await timeseer.rl({
      examples: 'nano5',
      ...small,
      reward: () => (calls++ % 4 === 0 ? null : calls),
      onStep: (metrics) => unrewarded.push(metrics.unrewarded),
    });
    expect(unrewarded).toEqual([1, 1]);
  });
});
