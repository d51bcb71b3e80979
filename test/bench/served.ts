/**
 * Rollouts on an inference server of this machine against decoding in this process, in turns: 16 prompts of 16 responses by a small policy with an
 * adapter. The same engine stands behind the server, in a process of its own, so the ratio is what the protocol and reading the responses
 * again cost: npx tsx test/bench/served.ts [--json] [--rounds N] [--policy DIR]
 */
import { fork } from 'node:child_process';
import { once } from 'node:events';
import { fileURLToPath, pathToFileURL } from 'node:url';
import { openExamples } from '../../datasets/source.ts';
import { responseSeed } from '../../src/answer/each.ts';
import { openTorch } from '../../src/engine/torch/torch.ts';
import { createAdapter, loadAdapter } from '../../src/policy/lora.ts';
import { Policy } from '../../src/policy/policy.ts';
import { exampleTask } from '../../src/run/policy-task.ts';
import { openRolloutServer } from '../../src/run/rollout-server.ts';
import { readCard } from '../../src/tasks/card.ts';
import { startRollout } from '../../src/train/rollout.ts';
import { PromptEncoder } from '../../src/train/task.ts';
import { WorkerGroup } from '../../src/train/worker-group.ts';
import { InferenceServer } from '../helpers/inference-server.ts';
import { benchOptions, median, table } from './measure.ts';
import { quickstart, withPolicy, withScratch } from './workload.ts';

const PROMPTS = 16;
const GROUP = 16;

/** Program of the server: sends its address to the process that forked it. */
async function serve(policy: string, seed: number): Promise<void> {
  const engine = openTorch({ threads: 1 });
  const examples = new Map(
    Array.from({ length: PROMPTS }, (_, index) => [responseSeed(seed, index, 0), index]),
  );
  const server = new InferenceServer(
    (directory) => Policy.load(engine, policy, { adapter: (dims) => loadAdapter(engine, dims, directory) }),
    { seed, examples },
  );
  await server.start();
  process.send!(server.url);
}

async function main(): Promise<void> {
  const options = benchOptions(5);
  const { data, seed, policy: asked, rl } = quickstart();
  const rows = await withPolicy(options.policy, 'cpu', (directory) =>
    withScratch(async (scratch) => {
      const child = fork(fileURLToPath(import.meta.url), ['--serve', directory, String(seed)], {
        execArgv: ['--import', 'tsx'],
      });
      const [address] = (await once(child, 'message')) as [string];
      const engine = openTorch({ threads: 1 });
      const policy = Policy.load(engine, directory, {
        adapter: (dims) => createAdapter(engine, dims, asked.adapter, seed),
      });
      const source = openExamples({ name: data.name, split: 'train', seed, length: data.length });
      const task = exampleTask(readCard(directory), { facts: source.facts });
      const series = Array.from({ length: PROMPTS }, (_, i) => source.at(i));
      const encoder = new PromptEncoder(policy);
      const prompts = await Promise.all(series.map((one) => encoder.encodeExample(task, one)));
      const remote = openRolloutServer({
        ...{ policy, workers: WorkerGroup.single(), seed, directory: scratch, say: console.error },
        task: { ...task, example: (index) => series[index]!, score: () => null },
        server: { ...rl.server, address },
      })!;
      const { temperature, topP, maxTokens } = rl;
      const times: Record<string, number[]> = { 'this process': [], 'a server': [] };
      const texts: Record<string, string[]> = {};
      for (let round = 0; round <= options.rounds; round++) {
        for (const way of Object.keys(times)) {
          const began = performance.now();
          if (way === 'a server') await remote.update(round);
          const { groups } = await startRollout(
            policy,
            series,
            prompts,
            series.map((_, i) => i),
            { score: () => null },
            {
              ...{ group: GROUP, temperature, topP, maxTokens, seed, hidden: false },
              ...(way === 'a server' ? { remote } : {}),
            },
          );
          if (round > 0) times[way]!.push(performance.now() - began);
          texts[way] = groups.flatMap(({ responses }) => responses.map(({ text }) => text));
        }
      }
      await remote.close();
      child.kill();
      const [own, served] = Object.values(texts) as [string[], string[]];
      const equal = own.filter((text, i) => text === served[i]).length;
      if (equal < own.length) console.error(`${equal} of ${own.length} responses are equal`);
      return Object.entries(times).map(([way, ms]) => ({ way, ms: median(ms) }));
    }),
  );
  const ratio = rows[1]!.ms / rows[0]!.ms;
  if (options.json) console.log(JSON.stringify({ rows, ratio }));
  else {
    const shown = rows.map(({ way, ms }) => [way, ms.toFixed(0)]);
    console.log(table(['sampled by', 'ms a step'], [...shown, ['cost of a server', `${ratio.toFixed(2)}×`]]));
  }
}

if (import.meta.url === pathToFileURL(process.argv[1] ?? '').href) {
  const [, , flag, policy, seed] = process.argv;
  if (flag === '--serve') await serve(policy!, Number(seed));
  else await main();
}
