/**
 * Two processes against two Workers, in turns: milliseconds of the supervised and the reinforcement steps of the quickstart, as their logs have them:
 * npx tsx test/bench/processes.ts [--json] [--rounds N]
 */
import { execFileSync } from 'node:child_process';
import { join } from 'node:path';
import { pathToFileURL } from 'node:url';
import { parseArgs } from 'node:util';
import { readLog } from '../../src/train/metrics.ts';
import { CLI } from '../helpers/program.ts';
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

async function main(): Promise<void> {
  const { values } = parseArgs({
    options: { json: { type: 'boolean', default: false }, rounds: { type: 'string', default: '3' } },
  });
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
