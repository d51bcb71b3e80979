import { readFileSync } from 'node:fs';
import { join } from 'node:path';
import { expect, test } from 'vitest';
import { responseSeed } from '../../src/answer/each.ts';
import { openTorch } from '../../src/engine/torch/torch.ts';
import { loadAdapter } from '../../src/policy/lora.ts';
import { Policy } from '../../src/policy/policy.ts';
import { relativeDistance } from '../helpers/full-sequence.ts';
import { InferenceServer } from '../helpers/inference-server.ts';
import { temporary } from '../helpers/temporary.ts';
import { timeseer, writeTinyPolicy, writeTinyRecipe } from '../helpers/tiny-run.ts';

const directory = temporary('served');
const SEED = 42;

test('two workers that sample on a server, which dies and comes back, train the adapter that they train alone', async () => {
  const [policy, recipe] = [join(directory, 'policy'), join(directory, 'recipe.yaml')];
  writeTinyPolicy(policy);
  writeTinyRecipe(recipe, policy, 2);
  const engine = openTorch({ threads: 1 });
  const reader = Policy.load(engine, policy);
  const examples = new Map(Array.from({ length: 100 }, (_, index) => [responseSeed(SEED, index, 0), index]));
  const server = new InferenceServer(
    (adapter) => Policy.load(engine, policy, { adapter: (dims) => loadAdapter(engine, dims, adapter) }),
    { seed: SEED, examples },
  );
  await server.start();
  const { url } = server;
  let restarts = 0;
  server.change = () => {
    if (server.answered !== 5 || restarts++ > 0) return;
    setTimeout(() => void server.stop().then(() => server.start(Number(new URL(url).port))), 5);
  };
  const run = async (name: string, ...settings: string[]): Promise<Float32Array> => {
    const out = join(directory, name);
    const set = [`seed=${SEED}`, 'policy.tune=adapter', 'rl.miniBatches=1', ...settings];
    const given = set.flatMap((setting) => ['--set', setting]);
    const ended = await timeseer(
      'train',
      '--policy',
      policy,
      '--recipe',
      recipe,
      ...given,
      '--out',
      out,
      '--quiet',
    );
    expect(ended).toMatchObject({ code: 0 });
    const { dims } = reader;
    return engine.floats(loadAdapter(engine, dims, join(out, 'rl', 'adapter')).flat);
  };
  const alone = await run('alone');
  const served = await run('served', `rl.server.address=${url}`);
  await server.stop();
  expect(restarts).toBeGreaterThan(0);
  expect(relativeDistance(served, alone)).toBeLessThan(1e-4);
  const [line] = readFileSync(join(directory, 'served', 'rl', 'metrics.jsonl'), 'utf8').split('\n');
  expect(JSON.parse(line!).importance).toBeCloseTo(1, 4);
}, 120_000);
