import { existsSync, readFileSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { beforeAll, expect, test } from 'vitest';
import { openExamples } from '../../datasets/source.ts';
import { openTorch } from '../../src/engine/torch/torch.ts';
import { writeManifestedDirectory } from '../../src/ground/manifest.ts';
import { Policy } from '../../src/policy/policy.ts';
import { loadRecipe } from '../../src/recipe/config.ts';
import { nanoCard, trainingTask } from '../../src/run/policy-task.ts';
import { taskTokenizer } from '../../src/run/run-policy.ts';
import { readCard, writeCard } from '../../src/tasks/card.ts';
import { temporary } from '../helpers/temporary.ts';
import { tinyDims } from '../helpers/tiny-policy.ts';
import { timeseer } from '../helpers/tiny-run.ts';

const directory = temporary('inspect');
const [initial, recipe, out] = ['initial', 'recipe.yaml', 'run'].map((name) => join(directory, name));

/** Writes a policy of tiny sizes with the tokenizer of inspections, and a recipe of seconds over it. */
beforeAll(() => {
  writeFileSync(
    recipe!,
    `data: {name: wild, length: 2000, traces: null, heldOut: 10}
policy: {init: ${JSON.stringify(initial)}}
inspect: {turns: 4, lengths: [600, 2000]}
sft: {samples: 160, batch: 8, warmup: 2, learningRate: 0.01, checkpointEvery: 50, workers: 2}
rl: {advantage: gigpo, steps: 3, prompts: 2, group: 3, kl: 0.001, maxTokens: 60, warmup: 1, checkpointEvery: 2, workers: 2}
eval: {series: 10, samples: 2, transfer: 0, validation: 10, bootstrap: 100, maxTokens: 60}
`,
  );
  const { data, ...rest } = loadRecipe(recipe!);
  const address = { name: 'wild', split: 'train', seed: rest.seed, length: data.length } as const;
  const card = nanoCard({ data, ...rest }, openExamples(address).facts);
  const policy = Policy.create(openTorch({ threads: 1 }), {
    tokenizer: taskTokenizer(trainingTask(card, address)),
    ...{ seed: 4, dims: tinyDims },
  });
  writeManifestedDirectory(initial!, (temporary) => {
    policy.write(temporary);
    writeCard(temporary, card);
  });
  policy.dispose();
});

test('a policy that inspects is trained, evaluated and reported by the command line', {
  timeout: 240_000,
}, async () => {
  const { code, err } = await timeseer('train', '--recipe', recipe!, '--out', out!);
  expect(err).not.toMatch(/error:/);
  expect(code).toBe(0);
  const policy = join(out!, 'rl/policy');
  expect(readCard(policy).inspect).toMatchObject({ turns: 4, lengths: [600, 2000] });
  const lines = readFileSync(join(out!, 'rl/metrics.jsonl'), 'utf8').trim().split('\n');
  for (const line of lines) {
    const { inspection } = JSON.parse(line) as { inspection: { turns: number; answered: number } };
    expect(inspection.turns).toBeGreaterThanOrEqual(1);
    expect(inspection.turns).toBeLessThanOrEqual(4);
  }
  const evaluated = join(directory, 'evaluated');
  const asked = [
    'eval',
    '--policy',
    out!,
    '--task',
    'wild',
    '--length',
    '2000',
    '--count',
    '6',
    '--max-tokens', // of a run, else that of the recipe
    '60',
    '--no-classical',
  ];
  expect((await timeseer(...asked, '--out', evaluated)).code).toBe(0);
  const records = readFileSync(join(evaluated, 'records.jsonl'), 'utf8').trim().split('\n');
  expect(records).toHaveLength(6);
  const { usage } = JSON.parse(records[0]!) as { usage: { prompt: number; completion: number } };
  expect(usage.prompt).toBeGreaterThan(0);
  // The same episodes, whatever the order and the number of workers.
  const again = join(directory, 'again');
  expect((await timeseer(...asked, '--workers', '2', '--out', again)).code).toBe(0);
  expect(readFileSync(join(again, 'metrics.json'), 'utf8')).toBe(
    readFileSync(join(evaluated, 'metrics.json'), 'utf8'),
  );
  expect(existsSync(join(out!, 'rl/completions.html'))).toBe(true);
  // Exported graphs look at the same windows and answer the same.
  const exported = join(directory, 'exported');
  const made = await timeseer('export', '--onnx', '--policy', out!, '--dtype', 'float32', '--out', exported);
  expect(made.err).not.toMatch(/error:/);
  const byGraphs = join(directory, 'by-graphs');
  const told = await timeseer(...asked.map((word) => (word === out ? exported : word)), '--out', byGraphs);
  expect(told.err).not.toMatch(/error:/);
  const answersOf = (at: string) =>
    readFileSync(join(at, 'records.jsonl'), 'utf8')
      .trim()
      .split('\n')
      .map((line) => {
        const { id, response, usage } = JSON.parse(line) as Record<string, unknown>;
        return { id, response, usage };
      });
  expect(answersOf(byGraphs)).toEqual(answersOf(evaluated));
  expect(answersOf(evaluated).every(({ response }) => typeof response === 'string')).toBe(true);
});

test('a small policy that never learned to look closer is not asked to', async () => {
  const { code, err } = await timeseer(
    'eval',
    '--policy',
    'small',
    '--task',
    'wild',
    '--count',
    '2',
    '--inspect',
  );
  expect(code).not.toBe(0);
  expect(err).toMatch(/not trained to look closer/);
});

test('the memory plan covers the turns of episodes', async () => {
  const peakOf = async (turns: number): Promise<number> => {
    const { code, out: text } = await timeseer(
      'plan',
      '--recipe',
      recipe!,
      '--set',
      `inspect.turns=${turns}`,
      '--json',
    );
    expect(code).toBe(0);
    const stages = JSON.parse(text) as { stage: string; peak: number }[];
    return stages.find(({ stage }) => stage === 'rl')!.peak;
  };
  expect(await peakOf(4)).toBeGreaterThan(1.5 * (await peakOf(1)));
});
