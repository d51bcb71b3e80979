import { mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import { findPolicy } from '../../src/answer/reference.ts';
import { openTorch } from '../../src/engine/torch/torch.ts';
import { exportOnnx } from '../../src/onnx/export.ts';
import { exportedWeights, isExport } from '../../src/onnx/exported.ts';
import { Policy } from '../../src/policy/policy.ts';
import { copyPolicy } from '../../src/run/run-policy.ts';
import { writeTinyPolicy } from '../helpers/tiny-run.ts';

const root = mkdtempSync(join(tmpdir(), 'timeseer-exported-'));
const policy = join(root, 'policy');
const engine = openTorch({ threads: 1 });
beforeAll(() => writeTinyPolicy(policy));
afterAll(() => rmSync(root, { recursive: true, force: true }));

const weightsOf = (directory: string): Float32Array => {
  const loaded = Policy.load(engine, directory, { tuning: 'none' });
  const weights = engine.floats(loaded.flat);
  loaded.dispose();
  return weights;
};

describe('the weights of an export', () => {
  test.each([
    [['float32'], 0],
    [['float16'], 1e-3],
    [['float16', 'float32'], 0],
  ] as const)('in %j are those of the policy, rounded by at most %d', (types, most) => {
    const out = join(root, types.join('-'));
    exportOnnx(policy, out, { types, version: '1' });
    expect([isExport(out), isExport(policy)]).toEqual([true, false]);
    copyPolicy(out, `${out}-trainable`);
    const [trained, read] = [weightsOf(policy), weightsOf(`${out}-trainable`)];
    expect(read).toHaveLength(trained.length);
    expect(Math.max(...trained.map((value, i) => Math.abs(value - read[i]!)))).toBeLessThanOrEqual(most);
  });

  test('in 8 bits alone are refused', () => {
    const out = join(root, 'int8');
    exportOnnx(policy, out, { types: ['int8'], version: '1' });
    expect(() => exportedWeights(out)).toThrow(/cannot be trained: start from an export in 16 or 32 bits/);
  });

  test('are there in the policy that ships, which recipes call shipped', () => {
    expect(findPolicy('shipped')).toBe(findPolicy('small'));
    expect(exportedWeights(findPolicy('shipped')).length).toBeGreaterThan(40);
  });
});
