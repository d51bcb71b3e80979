import {
  cpSync,
  existsSync,
  mkdirSync,
  mkdtempSync,
  readFileSync,
  rmSync,
  statSync,
  truncateSync,
  writeFileSync,
} from 'node:fs';
import { join } from 'node:path';
import { afterEach, beforeAll, beforeEach, describe, expect, test } from 'vitest';
import { openExamples } from '../../datasets/source.ts';
import { openTorch } from '../../src/engine/torch/torch.ts';
import { MANIFEST_FILE } from '../../src/ground/manifest.ts';
import { figure } from '../../src/plot/figure.ts';
import { renderColumns } from '../../src/plot/raster.ts';
import { Policy } from '../../src/policy/policy.ts';
import { pictureFeatures } from '../../src/policy/vision.ts';
import { Run } from '../../src/run/run.ts';
import { distanceFrom, REFERENCE_FILE, readReference } from '../../src/tasks/reference.ts';
import { readState } from '../../src/train/checkpoint.ts';
import { PromptEncoder } from '../../src/train/task.ts';
import { temporary } from '../helpers/temporary.ts';
import {
  bits,
  Child,
  edit,
  editListed,
  lineCount,
  listing,
  temporaries,
  timeless,
  timeseer,
  until,
  writeTinyPolicy,
  writeTinyRecipe,
} from '../helpers/tiny-run.ts';

const shared = temporary('sft');
const policy = join(shared, 'policy');
const recipe = join(shared, 'tiny.yaml');
/** An uninterrupted run. */
const whole = join(shared, 'whole');
let out = '';

beforeAll(async () => {
  writeTinyPolicy(policy);
  writeTinyRecipe(recipe, policy);
  const { code, err } = await timeseer('sft', '--recipe', recipe, '--out', whole, '--quiet');
  expect({ code, err }).toEqual({ code: 0, err: '' });
});
beforeEach(() => {
  out = mkdtempSync(join(shared, 'out-'));
  rmSync(out, { recursive: true });
});
afterEach(() => rmSync(out, { recursive: true, force: true }));

const copyWhole = (): void => cpSync(whole, out, { recursive: true });

/** The run in `out` must be the uninterrupted one, bit for bit. */
function expectWhole(): void {
  for (const file of ['sft/policy/model.safetensors', 'sft/checkpoint/optimizer.safetensors']) {
    expect(bits(join(out, file)).equals(bits(join(whole, file)))).toBe(true);
  }
  expect(timeless(join(out, 'sft/metrics.jsonl'))).toEqual(timeless(join(whole, 'sft/metrics.jsonl')));
  expect(readState(join(out, 'sft/checkpoint'))).toEqual(readState(join(whole, 'sft/checkpoint')));
  const reference = join('sft/policy', REFERENCE_FILE);
  expect(readFileSync(join(out, reference)).equals(readFileSync(join(whole, reference)))).toBe(true);
  expect(temporaries(out)).toEqual([]);
}

describe('timeseer sft', () => {
  test('refuses a damaged checkpoint where it is, and takes it once it is repaired: the policy alone', async () => {
    const init = join(shared, 'init');
    cpSync(policy, init, { recursive: true });
    rmSync(join(init, MANIFEST_FILE)); // as one from elsewhere
    const weights = join(init, 'model.safetensors');
    truncateSync(weights, statSync(weights).size - 8);
    for (const extra of ['.git', 'onnx']) mkdirSync(join(init, extra));
    for (const extra of ['.git/object', 'onnx/a.onnx', 'pytorch_model.bin'])
      writeFileSync(join(init, extra), 'x');
    const begin = () =>
      timeseer(
        'sft',
        '--recipe',
        recipe,
        '--set',
        `policy.init=${init}`,
        '--set',
        'sft.samples=4',
        '--out',
        out,
        '--quiet',
      );
    const refused = await begin();
    expect(refused.code).toBe(3);
    expect(refused.err).toContain(`${weights}: `);
    expect(existsSync(join(out, 'initial'))).toBe(false);
    cpSync(join(policy, 'model.safetensors'), weights);
    expect(await begin()).toMatchObject({ code: 0, err: '' });
    expect(listing(join(out, 'initial'))).toEqual(listing(policy));
  });

  test('writes nothing into the checkpoint that it begins with', async () => {
    const before = listing(policy);
    for (const inside of [policy, join(policy, 'run')]) {
      const { code, err } = await timeseer('sft', '--recipe', recipe, '--out', inside, '--quiet');
      expect(err).toContain(`--out ${inside}: lies in ${policy}`);
      expect(code).toBe(2);
    }
    expect(listing(policy)).toEqual(before);
  });

  test('a run that is there goes on with its own recipe', async () => {
    copyWhole();
    const { code, err } = await timeseer('sft', '--out', out, '--quiet');
    expect(err).toMatch(/holds a checkpoint of step 30: add --resume/);
    expect(code).toBe(3);
  });

  test('leaves recipe, environment, policy, checkpoint, metrics and a record', () => {
    expect(listing(whole).filter((name) => !name.includes('/') || name.split('/').length === 2)).toEqual(
      expect.arrayContaining([
        'environment.json',
        'initial',
        'initial/model.safetensors',
        'recipe.json',
        'sft',
        'sft/checkpoint',
        'sft/metrics.jsonl',
        'sft/policy',
        'sft/stage.json',
      ]),
    );
    expect(temporaries(whole)).toEqual([]);
    const record = JSON.parse(readFileSync(join(whole, 'sft/stage.json'), 'utf8'));
    expect(record).toMatchObject({ samples: 118, steps: 30 });
    expect(Date.parse(record.finished)).toBeGreaterThan(0);
    const lines = timeless(join(whole, 'sft/metrics.jsonl')) as { step: number; loss: number }[];
    expect(lines.map(({ step }) => step)).toEqual(Array.from({ length: 30 }, (_, i) => i + 1));
    expect(lines.at(-1)!.loss).toBeLessThan(0.6 * lines[0]!.loss);
    expect(readState(join(whole, 'sft/checkpoint'))).toMatchObject({ stage: 'sft', step: 30, updates: 30 });
    expect(existsSync(join(whole, 'sft/policy/training.json'))).toBe(false);
  });

  test('leaves beside the policy what its training pictures look like, near to validation pictures and far from others', () => {
    const engine = openTorch({ threads: 1 });
    const trained = Policy.load(engine, join(whole, 'sft/policy'));
    const reference = readReference(join(whole, 'sft/policy'), trained.dims.width)!;
    // Of as many examples as the run has trained on.
    expect(reference.examples).toEqual({ training: 118, validation: 118 });
    expect(reference.distance.p50).toBeLessThan(1.5);
    expect(reference.logProbability.p50).toBeLessThan(0);
    const encoder = new PromptEncoder(trained);
    const shape = figure('nano');
    const distanceOf = (values: Float64Array): number =>
      distanceFrom(
        reference,
        pictureFeatures(trained, [encoder.encode(renderColumns(shape, values), 'x')])[0]!,
      );
    const taught = openExamples({ name: 'nano5', split: 'test', seed: 1, length: 400, count: 9 });
    for (const { channels } of taught) {
      expect(distanceOf(channels[0]!)).toBeLessThan(1.5 * reference.distance.p99);
    }
    // A picture that is black from one edge to the other.
    const comb = Float64Array.from({ length: 400 }, (_, i) => i % 2);
    expect(distanceOf(comb)).toBeGreaterThan(2 * reference.distance.p99);
    trained.dispose();
  });

  test('a second Ctrl-C ends at once', async () => {
    const child = new Child(['sft', '--recipe', recipe, '--out', out, '--set', 'sft.samples=4000000']);
    await until(() => lineCount(join(out, 'sft/metrics.jsonl')) >= 1);
    child.process.kill('SIGINT');
    await until(() => child.err.includes('saving first'));
    child.process.kill('SIGINT');
    expect(await child.ended).toMatchObject({ code: null, signal: 'SIGINT' }); // which a shell calls 130
  });

  test('asked to resume what is finished, it leaves everything as it is', async () => {
    const { mtimeMs } = statSync(join(whole, 'sft/policy/model.safetensors'));
    const metrics = readFileSync(join(whole, 'sft/metrics.jsonl'), 'utf8');
    const { code, out: text } = await timeseer('sft', '--out', whole, '--resume', '--quiet');
    expect(code).toBe(0);
    expect(text).toContain(`next: npx timeseer train --out ${whole}`);
    expect(statSync(join(whole, 'sft/policy/model.safetensors')).mtimeMs).toBe(mtimeMs);
    expect(readFileSync(join(whole, 'sft/metrics.jsonl'), 'utf8')).toBe(metrics);
  });

  test('asked to resume what is finished, it writes a damaged policy again, or says that it cannot', async () => {
    copyWhole();
    mkdirSync(join(out, 'eval'));
    writeFileSync(join(out, 'eval/sft.greedy.jsonl'), '');
    const weights = join(out, 'sft/policy/model.safetensors');
    truncateSync(weights, 9000);
    const resume = () => timeseer('sft', '--out', out, '--resume', '--quiet');
    expect(await resume()).toMatchObject({
      code: 0,
      err: expect.stringMatching(
        /sft\/policy\/model\.safetensors: differs from .*; writing the policy again from the checkpoint of step 30\n$/,
      ),
    });
    expectWhole();
    expect(existsSync(join(out, 'eval/sft.greedy.jsonl'))).toBe(true);
    truncateSync(weights, 9000);
    rmSync(join(out, 'sft/checkpoint'), { recursive: true });
    const { code, err } = await resume();
    expect(code).toBe(3);
    expect(err).toMatch(/model\.safetensors: differs from .*; there is no checkpoint .* with --force\n$/);
  });

  test('neither asked to resume nor to start over, it refuses and says both', async () => {
    const { code, err } = await timeseer('sft', '--recipe', recipe, '--out', whole);
    expect(code).toBe(3);
    expect(err).toMatch(
      /sft holds a checkpoint of step 30: add --resume to resume from it, or --force to start over\n$/,
    );
  });

  test('--force starts over to the same bits, and drops what was built on the old stage', async () => {
    copyWhole();
    mkdirSync(join(out, 'rl/policy'), { recursive: true });
    mkdirSync(join(out, 'eval'));
    for (const name of ['initial.greedy', 'sft.greedy', 'rl.sampled'])
      writeFileSync(join(out, 'eval', `${name}.jsonl`), '');
    truncateSync(join(out, 'sft/checkpoint/training.json'), 3); // starting over needs none of it
    const { code } = await timeseer('sft', '--recipe', recipe, '--out', out, '--force', '--quiet');
    expect(code).toBe(0);
    expectWhole();
    expect(existsSync(join(out, 'rl'))).toBe(false);
    expect(listing(join(out, 'eval'))).toEqual(['initial.greedy.jsonl']);
  });
});

/** Runs a command line that must fail with one line, and returns it. */
async function failure(code: number, ...args: string[]): Promise<string> {
  const ending = await timeseer(...args);
  expect(ending.code, ending.err).toBe(code);
  expect(ending.out).toBe('');
  const lines = ending.err
    .trimEnd()
    .split('\n')
    .filter((line) => !line.startsWith('see timeseer'));
  expect(lines, ending.err).toHaveLength(1);
  expect(lines[0]).toMatch(/^error: /);
  expect(lines[0]).not.toContain('unexpected');
  return lines[0]!;
}

describe('bad input: one clear line', () => {
  test('an unknown key, on the command line and in a recipe with its line', async () => {
    expect(await failure(2, 'sft', '--set', 'sft.sample=3', '--out', out)).toMatch(
      /--set sft\.sample=3: unknown key sft\.sample; did you mean sft\.samples\?/,
    );
    const file = join(shared, 'typo.yaml');
    writeFileSync(file, '# a comment\nsft:\n  samples: 9\n  learningrate: 1\n');
    expect(await failure(2, 'sft', '--recipe', file, '--out', out)).toContain(
      `${file}:4: unknown key sft.learningrate; did you mean sft.learningRate?`,
    );
    expect(existsSync(out)).toBe(false);
  });

  test('a device that is not there, before anything is written', async () => {
    expect(await failure(3, 'sft', '--recipe', recipe, '--out', out, '--device', 'cuda:99')).toMatch(
      /device 'cuda:99' asked for, but this libtorch .* --device cpu/,
    );
    expect(existsSync(out)).toBe(false);
  });

  test('--resume without a run, and together with --force', async () => {
    expect(await failure(2, 'sft', '--out', out, '--resume')).toMatch(
      /no run there to resume .* leave --resume out/,
    );
    expect(await failure(2, 'sft', '--recipe', recipe, '--out', out, '--resume')).toMatch(/no run there/);
    expect(await failure(2, 'sft', '--out', out, '--resume', '--force')).toMatch(
      /--resume resumes and --force starts over/,
    );
    expect(existsSync(out)).toBe(false);
  });

  test('a file where the run should be, or on the way to it', async () => {
    writeFileSync(out, 'mine');
    expect(await failure(2, 'sft', '--recipe', recipe, '--out', out)).toMatch(
      /is a file; choose a directory/,
    );
    expect(await failure(3, 'sft', '--recipe', recipe, '--out', join(out, 'below'))).toMatch(
      /below: not written \(a part of the path is a file/,
    );
    expect(readFileSync(out, 'utf8')).toBe('mine');
  });

  test('other values than the run began with, by name', async () => {
    expect(
      await failure(
        2,
        'sft',
        '--recipe',
        recipe,
        '--set',
        'sft.batch=5',
        '--set',
        'seed=1',
        '--out',
        whole,
        '--resume',
      ),
    ).toMatch(/this run was started with other values of seed, sft\.batch; choose a new --out/);
  });

  test('a policy that is not there, a figure or changes of the series, before anything is written', async () => {
    expect(await failure(3, 'sft', '--recipe', recipe, '--set', 'policy.init=nowhere', '--out', out)).toMatch(
      /nowhere: no such directory/,
    );
    expect(await failure(2, 'sft', '--set', 'figure=cubist', '--out', out)).toMatch(/cubist/);
    expect(await failure(2, 'sft', '--recipe', recipe, '--set', 'data.name=nano6', '--out', out)).toMatch(
      /nano6/,
    );
    const changed = ['sft', '--recipe', recipe, '--set', 'sft.augment.crop=0.1', '--out', out];
    expect(await failure(2, ...changed)).toMatch(/sft\.augment\.crop: got 0\.1, expected 0 for nano5/);
    expect(existsSync(out)).toBe(false);
  });

  test('a directory with other files', async () => {
    mkdirSync(out);
    writeFileSync(join(out, 'notes.txt'), 'mine');
    for (const command of ['sft', 'train', 'quickstart'])
      expect(await failure(2, command, '--recipe', recipe, '--out', out)).toContain(
        `${out}: holds notes.txt, but no run (no recipe.json); choose another --out`,
      );
    expect(listing(out)).toEqual(['notes.txt']);
  });

  test('a stage without samples, before anything is written', async () => {
    expect(await failure(2, 'sft', '--recipe', recipe, '--set', 'sft.samples=0', '--out', out)).toMatch(
      /sft\.samples is 0: this run has no supervised stage/,
    );
    expect(existsSync(out)).toBe(false);
  });

  test('no other values where no stage has begun: the run starts anew', async () => {
    Run.open(out, { recipe, set: ['sft.samples=0'] });
    const corrected = ['sft', '--set', 'sft.samples=4', '--set', 'seed=7', '--out', out, '--quiet'];
    expect(await timeseer(...corrected)).toMatchObject({
      code: 0,
      err: `${out}: nothing was trained yet; starts anew with other seed, sft.samples\n`,
    });
    const { name, recipe: now, changes } = JSON.parse(readFileSync(join(out, 'recipe.json'), 'utf8'));
    expect({ name, seed: now.seed, batch: now.sft.batch, changes }).toEqual({
      name: 'tiny',
      seed: 7,
      batch: 4,
    });
    expect(await failure(2, ...corrected, '--set', 'seed=8', '--resume')).toMatch(/other values of seed;/);
  });

  test('parts of a run without its recipe', async () => {
    copyWhole();
    rmSync(join(out, 'recipe.json'));
    expect(await failure(2, 'sft', '--recipe', recipe, '--out', out, '--resume')).toMatch(/no run there/);
    expect(await failure(2, 'sft', '--recipe', recipe, '--out', out)).toMatch(
      /holds environment\.json, initial, sft.*, but no run \(no recipe\.json\); choose another --out/,
    );
  });

  test.each([
    [
      'recipe.json',
      (text: string) => text.slice(0, 80),
      /recipe\.json: not JSON .*; the file is damaged: restore it from a copy, or/,
    ],
    [
      'recipe.json',
      (text: string) => text.replace('"samples": 118', '"samples": "many"'),
      /recipe\.json: "recipe\.sft\.samples"/,
    ],
    ['recipe.json', () => '[]', /recipe\.json: .*expected object/],
    ['environment.json', (text: string) => text.slice(0, 20), /environment\.json: not JSON/],
    ['environment.json', () => '7', /environment\.json: .*expected record/],
    ['sft/stage.json', (text: string) => text.slice(0, 20), /stage\.json: not JSON/],
    ['sft/stage.json', (text: string) => text.replace('"seconds"', '"secs"'), /stage\.json: "seconds"/],
    [
      'sft/metrics.jsonl',
      (text: string) => text.replace('{"step":2,', '{"step":'),
      /metrics\.jsonl:2:18: not a JSON line/,
    ],
  ])('a damaged %s', async (name, damage, message) => {
    copyWhole();
    rmSync(join(out, 'sft/policy'), { recursive: true }); // so that there is something to do
    edit(join(out, name), damage);
    expect(await failure(3, 'sft', '--out', out, '--resume', '--quiet')).toMatch(message);
  });

  test.each([
    [
      'model.safetensors',
      (file: string) => truncateSync(file, 9000),
      /model\.safetensors: differs from what was saved there .*--force/,
    ],
    ['optimizer.safetensors', (file: string) => rmSync(file), /optimizer\.safetensors: no such file/],
    [
      'training.json',
      (file: string) => truncateSync(file, 10),
      /training\.json: not a training state; .*--force/,
    ],
    ['training.json', (file: string) => rmSync(file), /training\.json: no such file; .*--force/],
    [
      'timeseer.json',
      (file: string) => rmSync(file),
      /timeseer\.json: no such file, but timeseer\.sha256 lists it; .*--force/,
    ],
    [MANIFEST_FILE, (file: string) => rmSync(file), /timeseer\.sha256: no such file; .*--force/],
  ])('a checkpoint with a damaged %s', async (name, damage, message) => {
    copyWhole();
    rmSync(join(out, 'sft/policy'), { recursive: true });
    damage(join(out, 'sft/checkpoint', name));
    expect(await failure(3, 'sft', '--out', out, '--resume', '--quiet')).toMatch(message);
  });

  /** Changes what a checkpoint says of itself. */
  // biome-ignore lint/suspicious/noExplicitAny: what a test changes is of any shape
  const restate = (change: (state: any) => void): void =>
    editListed(join(out, 'sft/checkpoint/training.json'), (text) => {
      const state = JSON.parse(text);
      change(state);
      return JSON.stringify(state);
    });
  test.each<[string, () => void, RegExp]>([
    [
      'of another stage',
      () =>
        restate((state) => {
          state.stage = 'rl';
        }),
      /checkpoint: belongs to stage rl, not sft; .*--force/,
    ],
    [
      'of a step beyond the last',
      () =>
        restate((state) => {
          state.step = 31;
        }),
      /checkpoint: is at step 31, but the recipe has 30 steps; .*--force/,
    ],
    [
      'of another recipe',
      () =>
        edit(join(out, 'recipe.json'), (text) =>
          text.replace('"learningRate": 0.01', '"learningRate": 0.02'),
        ),
      /checkpoint: was trained with other values of sft\.learningRate than .*recipe\.json has; .*--force/,
    ],
    [
      'of other data',
      () =>
        restate((state) => {
          state.origin.data.about.parameters = {};
        }),
      /checkpoint: was trained on data that has changed since: nano5 \(parameters\)/,
    ],
    [
      'of a run that began with another policy',
      () => editListed(join(out, 'initial/generation_config.json'), (text) => `${text}\n`),
      /checkpoint: started from a policy that has changed since: .*initial \(generation_config\.json\)/,
    ],
  ])('a checkpoint %s', async (_name, change, message) => {
    copyWhole();
    rmSync(join(out, 'sft/policy'), { recursive: true });
    change();
    expect(await failure(3, 'sft', '--out', out, '--resume', '--quiet')).toMatch(message);
    expect(existsSync(join(out, 'sft/policy'))).toBe(false);
  });

  test('a policy whose tokenizer has more ids than its weights', async () => {
    const other = join(shared, 'other');
    cpSync(policy, other, { recursive: true });
    rmSync(join(other, MANIFEST_FILE)); // as one from elsewhere
    edit(join(other, 'tokenizer.json'), (text) => {
      const json = JSON.parse(text);
      const added = json.added_tokens.at(-1);
      json.added_tokens.push({ ...added, id: added.id + 1, content: '<|one_more|>' });
      return JSON.stringify(json);
    });
    expect(
      await failure(3, 'sft', '--recipe', recipe, '--set', `policy.init=${other}`, '--out', out, '--quiet'),
    ).toMatch(/tokenizer\.json has \d+ ids, config\.json's vocab_size is \d+/);
  });
});
