import {
  cpSync,
  existsSync,
  mkdtempSync,
  readdirSync,
  readFileSync,
  rmSync,
  statSync,
  writeFileSync,
} from 'node:fs';
import { join } from 'node:path';
import { afterEach, beforeAll, beforeEach, describe, expect, test } from 'vitest';
import { readCard } from '../../src/tasks/card.ts';
import { REFERENCE_FILE } from '../../src/tasks/reference.ts';
import { readState } from '../../src/train/checkpoint.ts';
import { COMPLETION_NAMES, LOG_NAMES, loggedName } from '../../src/train/glossary.ts';
import { type LogLine, readLog } from '../../src/train/metrics.ts';
import { readEvents } from '../helpers/event-file.ts';
import { temporary } from '../helpers/temporary.ts';
import {
  bits,
  lineCount,
  temporaries,
  timeless,
  timeseer,
  until,
  writeTinyPolicy,
  writeTinyRecipe,
} from '../helpers/tiny-run.ts';

const shared = temporary('train');
const policy = join(shared, 'policy');
const recipe = join(shared, 'tiny.yaml');
/** An uninterrupted run of both stages. */
const whole = join(shared, 'whole');
let out = '';

beforeAll(async () => {
  writeTinyPolicy(policy);
  writeTinyRecipe(recipe, policy);
  for (const args of [['sft', '--recipe', recipe, '--set', 'sft.samples=80'], ['train']]) {
    const { code, err } = await timeseer(...args, '--out', whole, '--quiet');
    expect({ code, err }).toEqual({ code: 0, err: '' });
  }
});
beforeEach(() => {
  out = mkdtempSync(join(shared, 'out-'));
  rmSync(out, { recursive: true });
});
afterEach(() => rmSync(out, { recursive: true, force: true }));

/** A run that has done its supervised stage. */
function supervised(): void {
  cpSync(whole, out, { recursive: true });
  rmSync(join(out, 'rl'), { recursive: true });
}

function expectWhole(): void {
  for (const file of ['rl/policy/model.safetensors', 'rl/checkpoint/optimizer.safetensors']) {
    expect(bits(join(out, file)).equals(bits(join(whole, file)))).toBe(true);
  }
  expect(timeless(join(out, 'rl/metrics.jsonl'))).toEqual(timeless(join(whole, 'rl/metrics.jsonl')));
  const reference = (run: string) => readFileSync(join(run, 'rl/policy', REFERENCE_FILE), 'utf8');
  expect(reference(out)).toBe(reference(whole));
  const completions = (run: string) => readFileSync(join(run, 'rl/completions.jsonl'), 'utf8');
  expect(completions(out)).toEqual(completions(whole));
  const page = (run: string) => readFileSync(join(run, 'rl/completions.html'), 'utf8');
  expect(page(out)).toBe(page(whole));
  expect(eventsOf(out, 'rl').map(({ step }) => step)).toEqual(eventsOf(whole, 'rl').map(({ step }) => step));
  expect(temporaries(out)).toEqual([]);
}

/** The event file of a stage; its name has the time at which the stage began. */
function eventsOf(run: string, stage: string): ReturnType<typeof readEvents> {
  const directory = join(run, stage, 'tensorboard');
  const [name, ...others] = readdirSync(directory);
  expect(others).toEqual([]);
  return readEvents(join(directory, name!));
}

describe('what a stage logs', () => {
  const lines = (run: string, file: string): LogLine[] => readLog(join(run, file));

  test.each(['sft', 'rl'] as const)('every name in the metrics of %s is in the glossary', (stage) => {
    const all = lines(whole, `${stage}/metrics.jsonl`);
    // Leaves, without the insides of lists.
    const keys = (value: object, prefix = ''): string[] =>
      Object.entries(value).flatMap(([key, inner]: [string, unknown]) =>
        typeof inner === 'object' && inner !== null && !Array.isArray(inner)
          ? keys(inner, `${prefix}${key}.`)
          : [`${prefix}${key}`],
      );
    const missing = [...new Set(all.flatMap((line) => keys(line)))].filter(
      (key) => loggedName(stage, key) === null,
    );
    expect(missing, 'add them to src/train/glossary.ts').toEqual([]);
    // And nothing else is: a name that no longer is logged goes.
    const logged = new Set(all.flatMap((line) => Object.keys(line)));
    const outer = Object.keys(LOG_NAMES[stage]).map((key) => key.split('.')[0]!);
    expect(outer.filter((key) => !logged.has(key))).toEqual([]);
  });

  test('every key of a completion is in the glossary', () => {
    const keys = new Set(lines(whole, 'rl/completions.jsonl').flatMap((line) => Object.keys(line)));
    expect([...keys].sort()).toEqual(
      Object.keys(COMPLETION_NAMES)
        .filter((name) => name !== 'notes')
        .sort(),
    );
  });

  test.each(['sft', 'rl'] as const)('TensorBoard has every step of %s, at the time of its line', (stage) => {
    const all = lines(whole, `${stage}/metrics.jsonl`) as (LogLine & { loss: number; time: number })[];
    const events = eventsOf(whole, stage).flatMap(({ step, time, scalars }) =>
      scalars === null ? [] : { step, time, loss: scalars['train/loss'] },
    );
    expect(events).toEqual(all.map(({ step, time, loss }) => ({ step, time, loss: Math.fround(loss) })));
  });
});

test('the page of completions is complete when the stage is', () => {
  const text = readFileSync(join(whole, 'rl/completions.html'), 'utf8');
  // 3 responses to the first prompt each, in 6 steps.
  expect(text.match(/<section class="step"/g)).toHaveLength(6);
  expect(text.match(/class="completion"/g)).toHaveLength(18);
  expect(text.match(/src="data:image\/png/g)).toHaveLength(6);
});

describe('timeseer train', () => {
  test('leaves policy, checkpoint, metrics, completions and a record', () => {
    expect(readCard(join(whole, 'rl/policy')).stage).toBe('rl');
    expect(bits(join(whole, 'rl/policy/model.safetensors'))).not.toEqual(
      bits(join(whole, 'sft/policy/model.safetensors')),
    );
    const lines = timeless(join(whole, 'rl/metrics.jsonl')) as {
      step: number;
      samplerGap: number;
      kl: number;
    }[];
    expect(lines.map(({ step }) => step)).toEqual([1, 2, 3, 4, 5, 6]);
    for (const { samplerGap } of lines) expect(samplerGap).toBeLessThan(1e-5);
    expect(lines[0]!.kl).toBeLessThan(lines[5]!.kl);
    // 3 responses to the first prompt each, in 6 steps.
    expect(lineCount(join(whole, 'rl/completions.jsonl'))).toBe(18);
    expect(JSON.parse(readFileSync(join(whole, 'rl/stage.json'), 'utf8'))).toMatchObject({
      steps: 6,
      samples: 12,
    });
  });

  test('says when it begins that a nucleus biases the gradient', async () => {
    const settings = ['--set', 'rl.topP=0.9', '--set', 'rl.steps=1'];
    const { code, err } = await timeseer('train', '--policy', whole, ...settings, '--out', out);
    expect(code).toBe(0);
    expect(err).toContain('warning: rl.topP is 0.9: responses are sampled from the nucleus, but');
  });

  test('--policy takes recipe and data of the run that the policy is of, and says so', async () => {
    for (const from of [whole, join(whole, 'sft/policy')]) {
      const { code, err } = await timeseer('train', '--policy', from, '--set', 'rl.steps=1', '--out', out);
      expect(code).toBe(0);
      expect(err).toContain(`train: recipe of ${whole}; data nano5 (--recipe and --set choose others)\n`);
      const { name, recipe: began } = JSON.parse(readFileSync(join(out, 'recipe.json'), 'utf8'));
      const { recipe: before } = JSON.parse(readFileSync(join(whole, 'recipe.json'), 'utf8'));
      expect(name).toBe('tiny');
      expect(began).toEqual({
        ...before,
        sft: { ...before.sft, samples: 0 },
        rl: { ...before.rl, steps: 1 },
        policy: { ...before.policy, init: from },
      });
      rmSync(out, { recursive: true });
    }
  });

  test('--policy of no run says that the quickstart is its recipe, and which data it has', async () => {
    const small = ['--set', 'rl.steps=1', '--set', 'rl.prompts=2', '--set', 'rl.maxTokens=4'];
    const { err } = await timeseer('train', '--policy', policy, ...small, '--out', out);
    expect(err).toContain(`train: recipe quickstart, since ${policy} is not of a run; data nano5 (`);
  });

  test('takes other values for reinforcement that has not begun, such as a corrected reward', async () => {
    supervised();
    const reward = join(out, 'mine.ts');
    const write = (body: string) =>
      writeFileSync(
        reward,
        `import { defineReward } from 'timeseer';\nexport default defineReward({ name: 'mine', score: () => { ${body} } });\n`,
      );
    write("throw new Error('not yet')");
    const train = () => timeseer('train', '--reward', reward, '--set', 'rl.steps=1', '--out', out, '--quiet');
    expect((await train()).err).toContain('not yet');
    write('return 1;');
    const { code, err } = await train();
    expect({ code, err }).toMatchObject({
      code: 0,
      err: expect.stringMatching(/^changed: reward from .*, after step 20 of sft\n$/),
    });
    const { recipe: now, changes } = JSON.parse(readFileSync(join(out, 'recipe.json'), 'utf8'));
    expect([now.rl.steps, now.reward.length, changes]).toEqual([1, 1, []]);
    const again = await timeseer('sft', '--out', out, '--resume', '--quiet');
    expect(again).toMatchObject({ code: 0, err: '' });
  });

  test('makes as many updates as the recipe has mini-batches, however the ranks share the prompts', () => {
    expect(readState(join(whole, 'rl/checkpoint'))).toMatchObject({ stage: 'rl', step: 6, updates: 12 });
  });

  test('Ctrl-C saves, says how to resume, and ends with code 130; the resumed run is the uninterrupted one', {
    timeout: 120_000,
  }, async () => {
    supervised();
    const running = timeseer('train', '--out', out);
    await until(() => lineCount(join(out, 'rl/metrics.jsonl')) >= 2);
    process.emit('SIGINT');
    const { code, err } = await running;
    expect(code).toBe(130);
    const { step } = readState(join(out, 'rl/checkpoint'))!;
    expect(step).toBeGreaterThanOrEqual(2);
    expect(err).toContain(`rl: stopped after step ${step} of 6`);
    expect(err).toContain(`resume with: timeseer train --out ${out} --resume\n`);
    expect(existsSync(join(out, 'rl/policy'))).toBe(false);
    const resumed = await timeseer('train', '--out', out, '--resume', '--quiet');
    expect(resumed.code).toBe(0);
    expectWhole();
  });

  test('asked to resume what is finished, it leaves everything as it is', async () => {
    const file = join(whole, 'rl/policy/model.safetensors');
    const { mtimeMs } = statSync(file);
    const { code, out: text } = await timeseer('train', '--out', whole, '--resume', '--quiet');
    expect(code).toBe(0);
    expect(text).toContain(`next: npx timeseer eval --policy ${whole}`);
    expect(statSync(file).mtimeMs).toBe(mtimeMs);
  });

  test('--policy begins a run at this stage; of a checkpoint it takes the policy alone', async () => {
    const from = join(whole, 'rl/checkpoint');
    const set = ['--set', 'rl.steps=2', '--set', 'rl.advantage=grpo', '--set', 'rl.kl=0'];
    const { code } = await timeseer(
      'train',
      '--policy',
      from,
      '--recipe',
      recipe,
      ...set,
      '--out',
      out,
      '--quiet',
    );
    expect(code).toBe(0);
    expect(bits(join(out, 'initial/model.safetensors')).equals(bits(join(from, 'model.safetensors')))).toBe(
      true,
    );
    expect(existsSync(join(out, 'initial/training.json'))).toBe(false);
    const lines = timeless(join(out, 'rl/metrics.jsonl')) as { step: number; kl: null; similarity: null }[];
    expect(lines.map(({ step, kl, similarity }) => [step, kl, similarity])).toEqual([
      [1, null, null],
      [2, null, null],
    ]);
    expect(existsSync(join(out, 'sft'))).toBe(false);
  });
});

describe('bad input: one clear line', () => {
  async function failure(code: number, ...args: string[]): Promise<string> {
    const ending = await timeseer('train', ...args);
    expect(ending.code, ending.err).toBe(code);
    expect(ending.err.trimEnd().split('\n')).toHaveLength(1);
    return ending.err;
  }

  test('no run, no policy, or a policy that is not there', async () => {
    expect(await failure(2, '--out', out)).toMatch(/no run there \(no recipe\.json\); begin one/);
    expect(await failure(2, '--out', out, '--resume')).toMatch(/no run there to resume/);
    expect(await failure(3, '--out', out, '--policy', 'nowhere')).toMatch(/nowhere: no such directory/);
    expect(existsSync(out)).toBe(false);
  });

  test('--policy with --resume', async () => {
    expect(await failure(2, '--out', whole, '--policy', policy, '--resume')).toMatch(/leave --policy out/);
  });

  test('other values than the run began with, by name', async () => {
    expect(
      await failure(2, '--out', whole, '--recipe', recipe, '--set', 'rl.timerpo.alpha=0', '--resume'),
    ).toMatch(/other values of sft\.samples, rl\.timerpo\.alpha/);
    expect(await failure(2, '--out', whole, '--set', 'rl.timerpo.alpha=0', '--resume')).toMatch(
      /other values of rl\.timerpo\.alpha; .* --allow-change rl\.timerpo\.alpha$/m,
    );
  });

  test('a supervised stage that is not finished', async () => {
    supervised();
    rmSync(join(out, 'sft/policy'), { recursive: true });
    expect(await failure(3, '--out', out)).toContain(`run npx timeseer sft --out ${out} --resume first`);
  });

  test('a stage without steps', async () => {
    const set = ['--set', 'rl.steps=0'];
    expect(await failure(2, '--policy', policy, '--recipe', recipe, ...set, '--out', out)).toMatch(
      /rl\.steps is 0: this run has no reinforcement stage/,
    );
    expect(existsSync(out)).toBe(false);
  });

  test('a stage without steps behind one that is still to be done, which does not begin', async () => {
    expect(await failure(2, '--recipe', recipe, '--set', 'rl.steps=0', '--out', out)).toMatch(
      /rl\.steps is 0.*train the other with `timeseer sft`/,
    );
    expect(existsSync(join(out, 'sft'))).toBe(false);
  });

  test('a device that is not there, before anything is written', async () => {
    expect(await failure(3, '--policy', policy, '--out', out, '--device', 'cuda:99')).toMatch(
      /device 'cuda:99'/,
    );
    expect(existsSync(out)).toBe(false);
  });
});
