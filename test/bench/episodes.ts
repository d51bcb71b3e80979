/**
 * A step of episodes against a step of single responses with about as many tokens, in turns: milliseconds a sampled token of reinforcement of
 * `inspect`, as the logs have them: npx tsx test/bench/episodes.ts [--json] [--rounds N]
 *
 * Responses of a group share their prompt, later turns of an episode seldom do: so single responses come in groups as large as the episodes' and in
 * pairs, between which the prompts of episodes lie.
 */
import { execFileSync } from 'node:child_process';
import { join } from 'node:path';
import { parseArgs } from 'node:util';
import { readLog } from '../../src/train/metrics.ts';
import { CLI } from '../helpers/program.ts';
import { median, table } from './measure.ts';
import { withScratch } from './workload.ts';

const PROMPTS = 16;
const GROUP = 8;
const WARM_STEPS = 1;
const SHORT = ['policy.init=inspect', 'sft.samples=0', 'rl.steps=5', 'rl.checkpointEvery=1000'];

interface Logged {
  /** Mean of a response. */
  readonly tokens: number;
  readonly inspection: { readonly turns: number } | null;
  readonly ms: Readonly<Record<string, number>>;
}

interface Step {
  readonly responses: number;
  readonly perToken: number;
}

/** Steps of a run behind the first ones. */
function stepsOf(out: string, episodes: number): Step[] {
  return (readLog(join(out, 'rl', 'metrics.jsonl')) as unknown as Logged[])
    .slice(WARM_STEPS)
    .map(({ tokens, inspection, ms }) => {
      const responses = episodes * (inspection?.turns ?? 1);
      const all = Object.values(ms).reduce((sum, part) => sum + part, 0);
      return { responses, perToken: all / (responses * tokens) };
    });
}

async function main(): Promise<void> {
  const { values } = parseArgs({
    options: { json: { type: 'boolean', default: false }, rounds: { type: 'string', default: '2' } },
  });
  const steps: Record<string, Step[]> = {};
  await withScratch(async (scratch) => {
    const run = (name: string, turns: number, prompts: number, group: number, round: number): void => {
      const out = join(scratch, `${name}-${round}`);
      const set = [...SHORT, `inspect.turns=${turns}`, `rl.prompts=${prompts}`, `rl.group=${group}`];
      const args = [CLI, 'train', '--recipe', 'inspect', '--out', out, '--quiet'];
      execFileSync(process.execPath, [...args, ...set.flatMap((key) => ['--set', key])], {
        stdio: ['ignore', 'ignore', 'inherit'],
      });
      steps[name] = [...(steps[name] ?? []), ...stepsOf(out, prompts * group)];
    };
    for (let round = 0; round < Number(values.rounds); round++) {
      run('episodes', 6, PROMPTS, GROUP, round);
      const responses = median(steps['episodes']!.map((step) => step.responses));
      for (const group of [GROUP, 2])
        run(`single, ${group} a prompt`, 1, Math.round(responses / group), group, round);
    }
  });
  const rows = Object.entries(steps).map(([name, of]) => ({
    name,
    responses: median(of.map(({ responses }) => responses)),
    perToken: median(of.map(({ perToken }) => perToken)),
  }));
  if (values.json) console.log(JSON.stringify(rows, null, 2));
  else
    console.log(
      table(
        ['', 'responses', 'ms a sampled token', 'episodes cost'],
        rows.map(({ name, responses, perToken }) => [
          name,
          responses.toFixed(0),
          perToken.toFixed(4),
          `${(rows[0]!.perToken / perToken).toFixed(2)}×`,
        ]),
      ),
    );
}

await main();
