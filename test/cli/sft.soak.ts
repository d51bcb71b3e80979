import { existsSync, mkdtempSync, readFileSync, rmSync } from 'node:fs';
import { join } from 'node:path';
import { afterEach, beforeAll, beforeEach, describe, expect, test } from 'vitest';
import { REFERENCE_FILE } from '../../src/tasks/reference.ts';
import { readState } from '../../src/train/checkpoint.ts';
import { temporary } from '../helpers/temporary.ts';
import {
  bits,
  Child,
  lineCount,
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
  test('Ctrl-C saves, says how to resume, and ends with code 130; the resumed run is the uninterrupted one', {
    timeout: 120_000,
  }, async () => {
    const child = new Child(['sft', '--recipe', recipe, '--out', out]);
    await until(() => lineCount(join(out, 'sft/metrics.jsonl')) >= 3);
    child.process.kill('SIGINT');
    const { code, err } = await child.ended;
    expect(code).toBe(130);
    expect(err).toMatch(/saving first/);
    const { step } = readState(join(out, 'sft/checkpoint'))!;
    expect(step).toBeGreaterThanOrEqual(3);
    expect(step).toBeLessThan(30);
    expect(err).toContain(`sft: stopped after step ${step} of 30`);
    expect(err).toContain(`resume with: timeseer sft --out ${out} --resume\n`);
    expect(lineCount(join(out, 'sft/metrics.jsonl'))).toBe(step);
    expect(JSON.parse(readFileSync(join(out, 'sft/stage.json'), 'utf8'))).toMatchObject({
      steps: step,
      finished: false,
    });
    expect(existsSync(join(out, 'sft/policy'))).toBe(false);
    expect(temporaries(out)).toEqual([]);

    const resumed = await timeseer('sft', '--out', out, '--resume', '--quiet', '--json');
    expect(resumed.code).toBe(0);
    expect(JSON.parse(resumed.out)).toMatchObject({
      out,
      policy: join(out, 'sft/policy'),
      samples: 118,
      steps: 30,
    });
    expectWhole();
  });
});
