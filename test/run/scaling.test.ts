import { cpSync, readFileSync } from 'node:fs';
import { join } from 'node:path';
import { beforeAll, expect, test } from 'vitest';
import { forecast } from '../../src/run/scaling.ts';
import { inside } from '../helpers/command-line.ts';
import { temporary } from '../helpers/temporary.ts';
import { edit, timeseer, writeTinyPolicy, writeTinyRecipe } from '../helpers/tiny-run.ts';

const directory = temporary('scaling');

const MS = { data: 10, rollout: 300, transport: 50, reference: 0, update: 140 };
const measured = { ms: MS, lengths: [40], responses: 8, prompts: 2, updates: 3, trained: 1e6 };
const FREE = { bandwidth: 1e300, latency: 0 };

test('equal responses wait for nobody, and what is exchanged is that of the formula', () => {
  const link = { bandwidth: 1e9, latency: 1e-4 };
  const [one, four] = forecast(measured, link, [1, 4]);
  expect(one).toEqual({ ranks: 1, ms: { step: 500, waiting: 0, exchange: 0 }, efficiency: 1, prompts: 4 });
  // 3 updates of 2 · 4 MB · 3/4; 3 hops for each gather, its two counts, 2 for the broadcast; 6 further rings.
  const exchange = 1000 * ((3 * 6e6) / 1e9 + (3 * (3 + 2 + 6) + 18) * 1e-4);
  expect(four!.ms.exchange).toBeCloseTo(exchange, 9);
  expect(four!.ms.waiting).toBe(0);
  expect(four!.efficiency).toBeCloseTo(500 / (500 + exchange), 12);
  expect(four!.prompts).toBeCloseTo((1000 * 8) / (500 + exchange), 9);
});

test('a rollout waits for the longest response of all ranks, the rest for the rank with the most tokens', () => {
  const two = { ...measured, lengths: [10, 20], responses: 1 };
  const [many] = forecast(two, FREE, [4096]);
  // Of one rank the longest of one response has 15 tokens, of so many 20.
  const stretched = 10 + (300 + 190) * (20 / 15);
  expect(Math.abs(many!.ms.step - stretched)).toBeLessThan(25);
  const steps = forecast({ ...two, responses: 4 }, FREE, [1, 2, 8, 64]).map(({ ms }) => ms.step);
  expect(steps.toSorted((a, b) => a - b)).toEqual(steps);
});

test('without rollouts of different length, more ranks are never less efficient than a slower link makes them', () => {
  const [fast, slow] = [1e10, 1e8].map(
    (bandwidth) => forecast(measured, { bandwidth, latency: 2e-5 }, [64])[0]!.efficiency,
  );
  expect(fast).toBeGreaterThan(slow!);
});

beforeAll(async () => {
  const [policy, recipe] = [join(directory, 'policy'), join(directory, 'recipe.yaml')];
  writeTinyPolicy(policy);
  writeTinyRecipe(recipe, policy);
  const set = ['rl.steps=7', 'rl.prompts=4'].flatMap((setting) => ['--set', setting]);
  const out = join(directory, 'run');
  expect(
    await timeseer('train', '--policy', policy, '--recipe', recipe, ...set, '--out', out, '--quiet'),
  ).toMatchObject({ code: 0 });
}, 60_000);

test('the command reads a run, as a table and as JSON', async () => {
  const run = join(directory, 'run');
  const { out, code } = await inside('plan', '--scale', run, '--ranks', '1,16', '--link', '1GB/s');
  expect(code).toBe(0);
  expect(out).toMatch(
    /^measured on 1 rank: a step of \d+ ms \(data \d+, rollout .*\), 4 prompts and 12 responses on each$/m,
  );
  expect(out).toMatch(/^1 +\d+ ms +0\.0 % +0\.0 % +100\.0 % /m);
  const value = JSON.parse((await inside('plan', '--scale', run, '--ranks', '16', '--json')).out);
  expect(value.rows[0].ranks).toBe(16);
  expect(value.measured).toMatchObject({ updates: 2, responses: 12 });
});

test('ranks are those that trained, whatever the recipe says of Workers', async () => {
  const run = join(directory, 'processes');
  cpSync(join(directory, 'run'), run, { recursive: true });
  const file = join(run, 'environment.json');
  expect(JSON.parse(readFileSync(file, 'utf8'))).toMatchObject({ rl_workers: 1 });
  edit(file, (text) => text.replace('"rl_workers": 1', '"rl_workers": 4'));
  const { out } = await inside('plan', '--scale', run, '--ranks', '16');
  expect(out).toMatch(/^measured on 4 ranks: .*, 1 prompt and 3 responses on each$/m);
});

test.each([
  [['--ranks', '2,x'], /--ranks 2,x: expected whole numbers from 1/],
  [['--link', 'fast'], /--link fast: expected an amount/],
  [['--latency', '-1'], /--latency -1: expected microseconds/],
])('refuses %j', async (args, message) => {
  expect((await inside('plan', '--scale', join(directory, 'run'), ...args)).err).toMatch(message);
});

test('a directory without reinforcement is refused with what to name', async () => {
  expect((await inside('plan', '--scale', directory)).err).toMatch(
    /recipe\.json: no such file; name the directory of a run/,
  );
});
