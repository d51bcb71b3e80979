import { mkdtempSync } from 'node:fs';
import { join } from 'node:path';
import { beforeEach, describe, expect, test } from 'vitest';
import { bits, timeseer } from '../helpers/tiny-run.ts';
import { lines, recipe, set, shared, whole } from '../helpers/validated.ts';

let out = '';

beforeEach(() => {
  out = join(mkdtempSync(join(shared, 'one-')), 'run');
});

describe('evaluation while a stage trains', { timeout: 120_000 }, () => {
  test('of an adapter keeps the adapter, and leaves it merged', async () => {
    const settings = [
      'policy.tune=adapter',
      'rl.output=best',
      'rl.steps=2',
      'rl.evalEvery=1',
      'rl.evalSeries=3',
    ];
    const begun = await timeseer(
      'train',
      '--policy',
      whole,
      '--recipe',
      recipe,
      ...set(...settings),
      '--out',
      out,
      '--quiet',
    );
    expect(begun).toMatchObject({ code: 0, err: '' });
    expect(lines(out).map(({ step }) => step)).toEqual([1, 2]);
    const weights = (name: string) => bits(join(out, name, 'adapter_model.safetensors'));
    expect(weights('rl/adapter').equals(weights('rl/best'))).toBe(true);
  });
});
