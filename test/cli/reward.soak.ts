import { readFileSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { beforeAll, describe, expect, test } from 'vitest';
import { openHeldOut } from '../../eval/harness.ts';
import { RunDirectory } from '../../eval/run-directory.ts';
import { caveatsOf } from '../../eval/run-facts.ts';
import { moduleHash } from '../../src/ground/user-module.ts';
import { temporary } from '../helpers/temporary.ts';
import { timeseer, writeTinyPolicy, writeTinyRecipe } from '../helpers/tiny-run.ts';

const shared = temporary('own-reward');
const recipe = join(shared, 'tiny.yaml');
const policy = join(shared, 'policy');
const mine = join(shared, 'mine.ts');
const out = join(shared, 'run');
const set = (...keys: string[]): string[] => keys.flatMap((key) => ['--set', key]);
const SMALL = set('rl.steps=2', 'rl.workers=2', 'rl.advantage=gdpo', 'rl.miniBatches=1');
const readLines = (file: string) =>
  readFileSync(file, 'utf8')
    .trim()
    .split('\n')
    .map((line) => JSON.parse(line));
const recorded = () => JSON.parse(readFileSync(join(out, 'recipe.json'), 'utf8')).recipe.reward;

const MINE = `import { defineReward } from 'timeseer';

export default defineReward({
  name: 'mine',
  score: ({ text, example }) =>
    example.id.endsWith('1') ? null : { total: 1 / (1 + text.length), parts: { letters: text.length }, notes: 'n=' + text.length },
});
`;

beforeAll(() => {
  writeTinyPolicy(policy);
  writeTinyRecipe(recipe, policy);
  writeFileSync(mine, MINE);
  const text = readFileSync(recipe, 'utf8');
  writeFileSync(recipe, `${text}reward: [{use: task}, {use: ./mine.ts, weight: 0.5}]\n`);
});

describe('a reward in a recipe', { timeout: 120_000 }, () => {
  test('with a fault is found before anything is written', async () => {
    const broken = join(shared, 'broken.ts');
    writeFileSync(broken, 'export default {\n');
    const begin = (...more: string[]) =>
      timeseer('train', '--policy', policy, '--recipe', recipe, '--out', out, '--quiet', ...more);
    const { code, err } = await begin('--reward', broken);
    expect({ code, err }).toMatchObject({
      code: 2,
      err: expect.stringMatching(/broken\.ts:2:\d+: Unexpected/),
    });
    expect((await begin('--reward', 'tusk')).err).toMatch(/no reward called tusk.*Did you mean task\?/);
    expect((await begin('--reward', './nowhere.ts')).err).toMatch(/reward: .*nowhere\.ts: cannot be read/);
    expect((await timeseer('runs', shared)).out).not.toContain('run');
  });

  test('is maximised and logged beside the task, and its module is known by its contents', async () => {
    const begun = await timeseer(
      'train',
      '--policy',
      policy,
      '--recipe',
      recipe,
      ...SMALL,
      '--out',
      out,
      '--quiet',
    );
    expect(begun).toMatchObject({ code: 0, err: '' });
    expect(recorded()).toEqual([
      { use: 'task', weight: 1, sha256: null },
      { use: mine, weight: 0.5, sha256: moduleHash(mine) },
    ]);
    const [line] = readLines(join(out, 'rl/metrics.jsonl'));
    expect(Object.keys(line.parts)).toEqual(['class', 'format', 'localisation', 'mine', 'mine.letters']);
    expect(line.parts['mine.letters']).toBeGreaterThan(1);
    expect(line.unrewarded).toBe(0);
    const completions = readLines(join(out, 'rl/completions.jsonl'));
    for (const { response, parts, reward, notes, seriesId } of completions) {
      const own = 0.7 * parts.localisation + 0.2 * parts.class + 0.1 * parts.format;
      if (seriesId.endsWith('1')) expect([notes, reward]).toEqual([undefined, expect.closeTo(own, 12)]);
      else {
        expect(notes).toBe(`mine: n=${response.length}`);
        expect(parts.mine).toBe(1 / (1 + response.length));
        expect(reward).toBeCloseTo((own + 0.5 * parts.mine) / 1.5, 12);
      }
    }
    expect(readFileSync(join(out, 'rl/completions.html'), 'utf8')).toContain('mine: n=');
    const run = new RunDirectory(out);
    const { facts, series } = openHeldOut(run.recipe);
    expect(caveatsOf(run, null, { facts, series, available: null })).toContain(
      'Reinforcement maximised the weighted mean of task (weight 1), mine.ts (weight 0.5); the tables show the reward of the task.',
    );
  });

  test('is refused when a run is resumed and its module has changed, unless it may', async () => {
    writeFileSync(mine, `${MINE}// another one\n`);
    const resume = [
      'train',
      '--out',
      out,
      '--resume',
      '--quiet',
      ...set('rl.steps=3'),
      '--allow-change',
      'rl.steps',
    ];
    const refused = await timeseer(...resume);
    expect(refused).toMatchObject({
      code: 2,
      err: expect.stringMatching(/other values of reward;.*--allow-change reward/),
    });
    const allowed = await timeseer(...resume, '--allow-change', 'reward');
    expect(allowed.code).toBe(0);
    expect(recorded()[1].sha256).toBe(moduleHash(mine));
  });

  test('that fails ends the stage with its name, and the run can be resumed', async () => {
    const odd = join(shared, 'odd.mjs');
    writeFileSync(odd, "export default { name: 'odd', score: () => [1, 2] };\n");
    const failed = await timeseer(
      ...['train', '--policy', policy, '--recipe', recipe, ...SMALL, '--reward', odd],
      ...['--out', join(shared, 'odd'), '--quiet'],
    );
    expect(failed.code).not.toBe(0);
    expect(failed.err).toMatch(
      /odd\.mjs: reward odd on a response to nano5\/.* returned \[1,2\]: return one finite number/,
    );
  });
});
