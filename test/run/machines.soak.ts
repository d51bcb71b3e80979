/** Training by ranks on several machines, which are network namespaces here: a slow network, and one that is cut. */
import { mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import { Machines, machinesProblem } from '../helpers/machines.ts';
import { freePort, hasDistributed, ranks } from '../helpers/ranks.ts';
import { bits, Child, lineCount, until, writeTinyPolicy, writeTinyRecipe } from '../helpers/tiny-run.ts';

const root = mkdtempSync(join(tmpdir(), 'timeseer-machines-'));
const [policy, recipe] = [join(root, 'policy'), join(root, 'tiny.yaml')];
const path = (name: string): string => join(root, name);
const SHORT = ['sft.samples=40', 'rl.steps=4', 'rl.prompts=4', 'eval.validation=4'];
const command = (out: string, ...more: string[]): string[] => [
  ...['train', '--recipe', recipe, '--out', path(out), '--quiet'],
  ...SHORT.flatMap((key) => ['--set', key]),
  ...more,
];
const weights = (out: string): Buffer => bits(path(`${out}/rl/policy/model.safetensors`));
const wait = { TIMESEER_RANK_TIMEOUT: '5' };

const problem = hasDistributed() ? machinesProblem() : 'no libtorch with c10d';
describe.skipIf(problem !== null)(`two machines${problem === null ? '' : ` (${problem})`}`, () => {
  let machines: Machines;
  beforeAll(async () => {
    machines = new Machines(2);
    writeTinyPolicy(policy);
    writeTinyRecipe(recipe, policy, 2);
    expect(await new Child(command('workers')).ended).toMatchObject({ code: 0 });
  }, 300_000);
  afterAll(() => {
    machines?.remove();
    rmSync(root, { recursive: true, force: true });
  });
  const start = async (out: string, ...more: string[]): Promise<Child[]> =>
    ranks(2, await freePort(), () => command(out, ...more), wait, machines);
  const ended = (children: readonly Child[]) => Promise.all(children.map((child) => child.ended));

  test('train the policy of two Workers, bit for bit, over a network of 8 Mbit/s that loses what is more', async () => {
    machines.slow(0, '8mbit');
    machines.slow(1, '8mbit');
    try {
      for (const { code, err } of await ended(await start('slow'))) expect(code, err).toBe(0);
    } finally {
      machines.fast(0);
      machines.fast(1);
    }
    expect(weights('slow').equals(weights('workers'))).toBe(true);
  }, 300_000);

  test('end by themselves when the cable of one is cut, each naming the other, and resume to the same policy', async () => {
    const children = await start('cut');
    await until(() => lineCount(path('cut/rl/metrics.jsonl')) >= 1);
    machines.cable(1, 'down');
    const [leader, follower] = await ended(children);
    machines.cable(1, 'up');
    expect([leader!.code, follower!.code]).toEqual([3, 3]);
    expect(leader!.err).toMatch(/error: rank 1 \(.*\) has not been heard of for 5 s/);
    expect(follower!.err).toMatch(/error: rank 0 \(.*\) has not answered for 5 s/);
    for (const { code, err } of await ended(await start('cut', '--resume'))) expect(code, err).toBe(0);
    expect(weights('cut').equals(weights('workers'))).toBe(true);
  }, 300_000);

  test('go on after the cable was out for less than the time-out', async () => {
    const children = await start('loose');
    await until(() => lineCount(path('loose/sft/metrics.jsonl')) >= 2);
    machines.cable(1, 'down');
    await new Promise((done) => setTimeout(done, 1000));
    expect(children.map((child) => child.process.exitCode)).toEqual([null, null]);
    machines.cable(1, 'up');
    for (const { code, err } of await ended(children)) expect(code, err).toBe(0);
    expect(weights('loose').equals(weights('workers'))).toBe(true);
  }, 300_000);

  test('say who is not there when one never comes', async () => {
    machines.cable(1, 'down');
    const [leader, follower] = await ended(await start('alone'));
    machines.cable(1, 'up');
    expect([leader!.code, follower!.code]).toEqual([3, 3]);
    expect(leader!.err).toMatch(/error: rank 1 of 2 did not come within 5 s/);
    expect(follower!.err).toMatch(/error: store: no answer from the store at [\d.:]+ within 5 s/);
  }, 300_000);
});
