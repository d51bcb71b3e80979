/**
 * Two processes against two Workers, in turns: milliseconds of the supervised and the reinforcement steps of the quickstart, as their logs have them:
 * npx tsx test/bench/processes.ts [--json] [--rounds N]
 *
 * With --link RATE (such as 1gbit; root and iproute2): supervised steps of 48 M parameters on two machines, which are network namespaces, over such a
 * link and over one without limit. Where layers are computed again the gradients go out during the backward pass, else behind it: the share of
 * their time that this hides.
 */
import { execFileSync } from 'node:child_process';
import { join } from 'node:path';
import { pathToFileURL } from 'node:url';
import { parseArgs } from 'node:util';
import { openTorch } from '../../src/engine/torch/torch.ts';
import { writeManifestedDirectory } from '../../src/ground/manifest.ts';
import { type PolicyCard, writeCard } from '../../src/tasks/card.ts';
import { readLog } from '../../src/train/metrics.ts';
import { Machines } from '../helpers/machines.ts';
import { CLI } from '../helpers/program.ts';
import { freePort, ranks } from '../helpers/ranks.ts';
import { largePolicy, SIZES } from './large-policy.ts';
import { median, table } from './measure.ts';
import { withScratch } from './workload.ts';

const SHORT = ['sft.samples=960', 'rl.steps=20', 'sft.checkpointEvery=1000', 'rl.checkpointEvery=1000'];
const WARM_STEPS = 5;
const STAGES = ['sft', 'rl'] as const;

interface Logged {
  readonly ms: Readonly<Record<string, number>>;
}

/** Milliseconds of the steps after the first ones, by stage. */
function stepsOf(out: string): number[][] {
  return STAGES.map((stage) =>
    (readLog(join(out, stage, 'metrics.jsonl')) as unknown as Logged[])
      .slice(WARM_STEPS)
      .map(({ ms }) => Object.values(ms).reduce((sum, part) => sum + part, 0)),
  );
}

const LINKED = [
  'data.length=400',
  'sft.samples=24',
  'sft.batch=4',
  'sft.checkpointEvery=1000',
  'sft.warmup=1',
];
const CARD: PolicyCard = {
  ...{ version: 1, style: 'nano', figure: 'nano', length: 400, kind: 'anomaly', task: 'nano5', channels: 1 },
  ...{ numbers: null, classes: ['contextual point', 'global point', 'seasonal', 'trend', 'normal'] },
  ...{ limitations: [], stage: 'initial' },
};

/** Median milliseconds of a supervised step's gradient and update on rank 0, without and with layers computed again, by link. */
async function overLink(rate: string, rounds: number): Promise<void> {
  const machines = new Machines(2);
  const steps = new Map<string, { gradient: number[]; update: number[] }>();
  try {
    await withScratch(async (scratch) => {
      const policy = join(scratch, 'policy');
      const made = largePolicy(openTorch({ threads: 1 }), SIZES['50m'], 1, 'float32');
      writeManifestedDirectory(policy, (temporary) => {
        made.write(temporary);
        writeCard(temporary, CARD);
      });
      made.dispose();
      for (let round = 0; round < rounds; round++) {
        for (const limit of [null, rate]) {
          for (const k of [0, 1]) if (limit !== null) machines.slow(k, limit);
          for (const recompute of ['never', 'always']) {
            const out = join(scratch, `${round}-${limit ?? 'free'}-${recompute}`);
            const set = [`policy.init=${policy}`, `memory.recompute=${recompute}`, ...LINKED];
            const args = ['sft', '--recipe', 'quickstart', '--out', out, '--quiet'];
            const port = await freePort();
            const children = ranks(
              2,
              port,
              () => [...args, ...set.flatMap((key) => ['--set', key])],
              {},
              machines,
            );
            for (const { code, err } of await Promise.all(children.map((child) => child.ended)))
              if (code !== 0) throw new Error(err);
            const log = (readLog(join(out, 'sft', 'metrics.jsonl')) as unknown as Logged[]).slice(1);
            const key = `${limit ?? 'no limit'}, ${recompute}`;
            const of = steps.get(key) ?? { gradient: [], update: [] };
            of.gradient.push(...log.map(({ ms }) => ms['gradient']!));
            of.update.push(...log.map(({ ms }) => ms['update']!));
            steps.set(key, of);
          }
          for (const k of [0, 1]) if (limit !== null) machines.fast(k);
        }
      }
    });
  } finally {
    machines.remove();
  }
  const rows = [...steps].map(([key, of]) => [key, median(of.gradient), median(of.update)] as const);
  console.log(
    table(
      ['link, recompute', 'gradient, ms', 'update, ms'],
      rows.map(([key, ...of]) => [key, ...of.map((value) => value.toFixed(0))]),
    ),
  );
  const [free, freeAgain, slow, slowAgain] = rows as [(typeof rows)[0], ...(typeof rows)[0][]];
  // The wait for what is still under way is a part of the gradient's time; the parameters come back in the update.
  const exchange = slow![1] - free[1];
  const left = slowAgain![1] - freeAgain![1];
  console.log(
    `exchange of gradients ${exchange.toFixed(0)} ms, hidden ${(100 * (1 - left / exchange)).toFixed(0)} %`,
  );
}

async function main(): Promise<void> {
  const { values } = parseArgs({
    options: {
      json: { type: 'boolean', default: false },
      rounds: { type: 'string', default: '3' },
      link: { type: 'string' },
    },
  });
  if (values.link !== undefined) return overLink(values.link, Number(values.rounds));
  const ways = { '2 Workers': [], '2 processes': ['--processes', '2'] };
  const steps = Object.fromEntries(Object.keys(ways).map((way) => [way, STAGES.map((): number[] => [])]));
  await withScratch(async (scratch) => {
    for (let round = 0; round < Number(values.rounds); round++) {
      for (const [way, more] of Object.entries(ways)) {
        const out = join(scratch, `${round}-${more.length}`);
        const set = SHORT.flatMap((key) => ['--set', key]);
        const args = [CLI, 'train', '--recipe', 'quickstart', '--out', out, '--quiet', ...set, ...more];
        execFileSync(process.execPath, args, { stdio: ['ignore', 'ignore', 'inherit'] });
        stepsOf(out).forEach((of, s) => {
          steps[way]![s]!.push(...of);
        });
      }
    }
  });
  const rows = Object.entries(steps).map(([way, of]) => ({ way, ms: of.map(median) }));
  const [workers, processes] = rows as [(typeof rows)[0], (typeof rows)[0]];
  const ratios = workers.ms.map((ms, s) => ms / processes.ms[s]!);
  if (values.json) console.log(JSON.stringify({ rows, ratios }));
  else {
    const shown = rows.map(({ way, ms }) => [way, ...ms.map((of) => of.toFixed(1))]);
    console.log(
      table(
        ['', ...STAGES.map((stage) => `${stage}, ms a step`)],
        [...shown, ['speed of processes', ...ratios.map((of) => `${of.toFixed(2)}×`)]],
      ),
    );
  }
}

if (import.meta.url === pathToFileURL(process.argv[1] ?? '').href) await main();
