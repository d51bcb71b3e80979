/** Commands whose work several processes share, over loopback: what fails, and what is left then. */
import { mkdirSync, writeFileSync } from 'node:fs';
import { createServer } from 'node:net';
import { join } from 'node:path';
import { pathToFileURL } from 'node:url';
import { beforeAll, describe, expect, test } from 'vitest';
import { openSafetensors } from '../../src/policy/safetensors.ts';
import { childrenOf, freePort, hasDistributed, isAlive, ranks } from '../helpers/ranks.ts';
import { readTensor } from '../helpers/safetensors.ts';
import { temporary } from '../helpers/temporary.ts';
import {
  bits,
  Child,
  lineCount,
  timeless,
  until,
  writeTinyPolicy,
  writeTinyRecipe,
} from '../helpers/tiny-run.ts';

const root = temporary('world');
const [policy, recipe] = [join(root, 'policy'), join(root, 'tiny.yaml')];
const path = (name: string): string => join(root, name);
const SHORT = ['sft.samples=40', 'rl.steps=4', 'rl.prompts=4', 'eval.validation=4'].flatMap((key) => [
  '--set',
  key,
]);

beforeAll(() => {
  writeTinyPolicy(policy);
  writeTinyRecipe(recipe, policy, 2);
});

const train = (out: string, ...more: string[]): Child =>
  new Child(['train', '--recipe', recipe, '--out', path(out), ...SHORT, ...more]);

const weights = (out: string): string => path(`${out}/rl/policy/model.safetensors`);

describe.skipIf(!hasDistributed())('processes', () => {
  beforeAll(async () => {
    expect(await train('workers', '--quiet').ended).toMatchObject({ code: 0 });
  }, 300_000);

  test('train as as many Workers do, bit for bit', async () => {
    expect(await train('processes', '--quiet', '--processes', '2').ended).toMatchObject({ code: 0 });
    expect(bits(weights('processes')).equals(bits(weights('workers')))).toBe(true);
    for (const log of ['sft/metrics.jsonl', 'rl/metrics.jsonl', 'rl/completions.jsonl']) {
      expect(timeless(path(`processes/${log}`))).toEqual(timeless(path(`workers/${log}`)));
    }
  }, 300_000);

  test('train alike where layers are computed again: gradients are sent meanwhile, and with ZeRO 2 and 3 each rank keeps its share', async () => {
    const again = ['memory.recompute=always', 'memory.tokens=100'].flatMap((key) => ['--set', key]);
    const three = [...again, '--processes', '3'];
    const zero = [...three, '--set', 'memory.zero=2'];
    const workers = [...again, '--set', 'sft.workers=3', '--set', 'rl.workers=3'];
    expect(await train('again', '--quiet', ...workers).ended).toMatchObject({ code: 0 });
    expect(await train('sent', '--quiet', ...three).ended).toMatchObject({ code: 0 });
    expect(bits(weights('sent')).equals(bits(weights('again')))).toBe(true);
    expect(await train('zero', '--quiet', ...zero).ended).toMatchObject({ code: 0 });
    // Every micro-batch is added up over ranks, instead of every rank over micro-batches.
    const values = (out: string): number[] => {
      const stored = openSafetensors(path(`${out}/sft/policy/model.safetensors`));
      return [...stored.values()].flatMap((tensor) => [...readTensor(tensor)]);
    };
    const [sent, sharded] = [values('sent'), values('zero')];
    const differences = sharded.map((value, i) => Math.abs(value - sent[i]!));
    expect(Math.max(...differences)).toBeLessThan(1e-4);
    expect(Math.max(...differences)).toBeGreaterThan(0);

    // With ZeRO 3 the weights are shared out too, and gathered exactly.
    const shards = [...three, '--set', 'memory.zero=3'];
    const killed = train('shards', ...shards);
    await until(() => lineCount(path('shards/rl/metrics.jsonl')) >= 2);
    process.kill(childrenOf(killed.process.pid!)[0]!, 'SIGKILL');
    expect(await killed.ended).toMatchObject({ code: 3 });
    const resumed = await train('shards', '--quiet', '--resume', ...shards).ended;
    expect(resumed, resumed.err).toMatchObject({ code: 0 });
    expect(bits(weights('shards')).equals(bits(weights('zero')))).toBe(true);
  }, 300_000);

  test('resume what Workers began, in another number', async () => {
    expect(await train('begun', '--quiet').ended).toMatchObject({ code: 0 });
    const three = await train(
      'begun',
      '--quiet',
      '--processes',
      '3',
      '--resume',
      '--allow-change',
      'rl',
      '--set',
      'rl.steps=6',
    ).ended;
    expect(three, three.err).toMatchObject({ code: 0 });
    expect(lineCount(path('begun/rl/metrics.jsonl'))).toBe(6);
  }, 300_000);

  test('a rank that is killed ends the job with its name, leaves no process, and the job resumes to the same policy', async () => {
    const started = train('killed', '--processes', '2');
    await until(() => lineCount(path('killed/rl/metrics.jsonl')) >= 2);
    const [child] = childrenOf(started.process.pid!);
    process.kill(child!, 'SIGKILL');
    const { code, err } = await started.ended;
    expect(err).toMatch(new RegExp(`error: rank 1 \\(process ${child}\\) ended with SIGKILL`));
    expect(code).toBe(3);
    expect(isAlive(child!)).toBe(false);
    const again = await train('killed', '--quiet', '--processes', '2', '--resume').ended;
    expect(again, again.err).toMatchObject({ code: 0 });
    expect(bits(weights('killed')).equals(bits(weights('workers')))).toBe(true);
  }, 300_000);

  test('ranks end when rank 0 is killed, and when a rank is stopped', async () => {
    const wait = { TIMESEER_RANK_TIMEOUT: '5' };
    const args = (out: string) => () => [
      'train',
      '--recipe',
      recipe,
      '--out',
      path(out),
      ...SHORT,
      '--set',
      'rl.steps=400',
    ];
    const first = ranks(2, await freePort(), args('orphans'), wait);
    await until(() => lineCount(path('orphans/sft/metrics.jsonl')) >= 2);
    first[0]!.process.kill('SIGKILL');
    const left = await first[1]!.ended;
    expect(left.err).toMatch(/error: rank 0 \(127\.0\.0\.1:\d+\) is gone/);
    expect(left.code).toBe(3);
    const second = ranks(2, await freePort(), args('stopped'), wait);
    await until(() => lineCount(path('stopped/sft/metrics.jsonl')) >= 2);
    second[1]!.process.kill('SIGSTOP');
    const leader = await second[0]!.ended;
    expect(leader.err).toMatch(/error: rank 1 \(.*, process \d+\) has not been heard of for 5 s/);
    expect(leader.code).toBe(3);
    second[1]!.process.kill('SIGCONT');
    expect((await second[1]!.ended).code).toBe(3);
    const third = ranks(2, await freePort(), args('frozen'), wait);
    await until(() => lineCount(path('frozen/sft/metrics.jsonl')) >= 2);
    third[0]!.process.kill('SIGSTOP');
    expect((await third[1]!.ended).err).toMatch(
      /error: rank 0 \(127\.0\.0\.1:\d+\) has not answered for 5 s/,
    );
    third[0]!.process.kill('SIGCONT');
    const frozen = await third[0]!.ended;
    expect(frozen.err).toMatch(
      /error: rank 0 \(process \d+\) stood still for \d+ s, and the others gave it up/,
    );
    expect(frozen.code).toBe(3);
  }, 300_000);

  test('Ctrl-C saves on all ranks', async () => {
    const started = train('stopping', '--processes', '2', '--set', 'rl.steps=400');
    await until(() => lineCount(path('stopping/rl/metrics.jsonl')) >= 1);
    const children = childrenOf(started.process.pid!);
    started.process.kill('SIGINT');
    const { code, err } = await started.ended;
    expect(err).toMatch(/rl: stopped after step \d+ of 400/);
    expect(code).toBe(130);
    expect(children.filter(isAlive)).toEqual([]);
  }, 300_000);

  const reward = (value: number): string =>
    `import { defineReward } from ${JSON.stringify(pathToFileURL(join(import.meta.dirname, '../../dist/src/index.js')).href)};
export default defineReward({ name: 'constant', score: () => ${value} });
`;
  const evaluation = ['eval', '--no-classical', '--max-tokens', '8', '--quiet'];
  test.each<[string, (out: string, seed: number) => unknown, (at: string) => string[]]>([
    [
      'examples',
      async (out, seed) => {
        const prepare = ['data', 'prepare', 'nano5', '--length', '400', '--seed', `${seed}`, '--out', out];
        expect(await new Child([...prepare, '--count', '4']).ended).toMatchObject({ code: 0 });
      },
      (at) => [...evaluation, '--policy', policy, '--data', at],
    ],
    ['policy files', writeTinyPolicy, (at) => [...evaluation, '--policy', at, '--count', '4']],
    [
      'modules',
      (out, seed) => {
        mkdirSync(out);
        writeFileSync(join(out, 'reward.mjs'), reward(seed));
      },
      (at) => ['train', '--recipe', recipe, '--out', path('rewarded'), '--reward', join(at, 'reward.mjs')],
    ],
  ])(
    'ranks with other %s at the same path are refused at the start',
    async (name, make, args) => {
      const port = await freePort();
      const directories = [path(`${name}-0`), path(`${name}-1`)];
      for (const [rank, directory] of directories.entries()) await make(directory, rank);
      // Descriptor 3 is another directory on each rank, as a path is on machines that share no disk.
      const started = directories.map((directory, rank) => {
        const place = { RANK: `${rank}`, WORLD_SIZE: '2', MASTER_ADDR: '127.0.0.1', MASTER_PORT: `${port}` };
        const through = ['bash', '-c', `exec "$@" 3< '${directory}'`, 'bash'];
        return new Child(args('/proc/self/fd/3'), undefined, place, through);
      });
      for (const { code, err } of await Promise.all(started.map(({ ended }) => ended))) {
        expect(err).toMatch(new RegExp(`rank 1 reads other ${name} than rank 0: they must be the same`));
        expect(code).toBe(3);
      }
    },
    300_000,
  );

  test('ranks that run other commands, a port in use, and more processes than examples are refused with what to do', async () => {
    const port = await freePort();
    const other = ranks(2, port, (rank) => ['train', '--recipe', recipe, '--out', path(`other-${rank}`)]);
    const [leader, follower] = await Promise.all(other.map(({ ended }) => ended));
    expect(leader!.err).toMatch(
      /error: rank 1 \(.*\) differs from rank 0 in the command: train .*other-1; rank 0: train .*other-0/,
    );
    expect([leader!.code, follower!.code]).toEqual([3, 3]);
    expect(follower!.err).toMatch(/differs from rank 0 in the command/);
    const sized = { MASTER_ADDR: '127.0.0.1', MASTER_PORT: `${await freePort()}` };
    const sizes = ['2', '3'].map(
      (WORLD_SIZE, rank) =>
        new Child(['train', '--recipe', recipe, '--out', path('sizes')], undefined, {
          ...{ ...sized, RANK: `${rank}`, WORLD_SIZE },
        }),
    );
    for (const { code, err } of await Promise.all(sizes.map(({ ended }) => ended))) {
      expect(err).toMatch(/rank 1 \(.*\) differs from rank 0 in WORLD_SIZE: 3; rank 0: 2/);
      expect(code).toBe(3);
    }
    const server = createServer().listen(0, '127.0.0.1');
    await new Promise((done) => server.once('listening', done));
    const busy = ranks(
      2,
      (server.address() as { port: number }).port,
      () => ['train', '--recipe', recipe, '--out', path('busy')],
      {
        TIMESEER_RANK_TIMEOUT: '5',
      },
    );
    const [taken] = await Promise.all(busy.map(({ ended }) => ended));
    server.close();
    expect(taken!.err).toMatch(/another process listens on port \d+/);
    const many = await train('many', '--processes', '5').ended;
    expect(many.err).toMatch(
      /sft: 5 processes share 4 examples per step: start at most 4, or raise sft\.batch/,
    );
    expect(many.code).toBe(2);
  }, 300_000);

  test('a reward of the user that throws on one rank ends all, and a second job at the port leaves the first alone', async () => {
    writeFileSync(
      path('throw.mjs'),
      `import { defineReward } from ${JSON.stringify(pathToFileURL(join(import.meta.dirname, '../../dist/src/index.js')).href)};
export default defineReward({ name: 'throws', score: () => { if (process.env.RANK === '1') throw new Error('no luck on rank 1'); return 1; } });
`,
    );
    const thrown = await train('thrown', '--processes', '2', '--reward', path('throw.mjs')).ended;
    expect(thrown.err).toMatch(/no luck on rank 1/);
    expect(thrown.code).not.toBe(0);
    const port = await freePort();
    const first = ranks(2, port, () => [
      'train',
      '--recipe',
      recipe,
      '--out',
      path('first'),
      ...SHORT,
      '--set',
      'rl.steps=60',
    ]);
    await until(() => lineCount(path('first/rl/metrics.jsonl')) >= 1);
    const [, stranger] = ranks(2, port, () => [
      'train',
      '--recipe',
      recipe,
      '--out',
      path('second'),
      ...SHORT,
    ]);
    const refused = await stranger!.ended;
    expect(refused.err).toMatch(/rank 1 at 127\.0\.0\.1:\d+ is another process already/);
    expect(refused.code).toBe(3);
    for (const { code, err } of await Promise.all(first.map(({ ended }) => ended))) expect(code, err).toBe(0);
    for (const count of ['0', '1.5', 'x']) {
      const { code, err } = await train('counted', '--processes', count).ended;
      expect(err).toMatch(/--processes: (?:expected|got)/);
      expect(code).toBe(2);
    }
  }, 300_000);
});
