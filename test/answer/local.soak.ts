import { join } from 'node:path';
import { beforeAll, describe, expect, test } from 'vitest';
import { exportPolicy } from '../../src/run/run-policy.ts';
import { inside } from '../helpers/command-line.ts';
import { temporary } from '../helpers/temporary.ts';
import { writeTinyPolicy } from '../helpers/tiny-run.ts';

const root = temporary('answerer');
const policy = join(root, 'policy');
const exported = join(root, 'exported');
beforeAll(() => {
  writeTinyPolicy(policy);
  exportPolicy({ policy, out: exported, dtype: ['float32'], quiet: true });
});

describe('eval', () => {
  test('scores an export as it scores the weights, by onnxruntime in Workers', async () => {
    const run = async (...given: string[]) => {
      const { code, out, err } = await inside(
        'eval',
        ...given,
        '--count',
        '3',
        '--workers',
        '1',
        '--no-classical',
        '--json',
        '--quiet',
        '--max-tokens',
        '12',
      );
      expect([code, err]).toEqual([0, err]);
      return JSON.parse(out);
    };
    const [weights, graphs] = [
      await run('--policy', policy, '--engine', 'torch'),
      await run('--policy', exported),
    ];
    expect(graphs.metrics).toEqual(weights.metrics);
    const refused = await inside('eval', '--policy', exported, '--device', 'cuda', '--count', '1');
    expect([refused.code, refused.err]).toEqual([
      2,
      expect.stringMatching(/--device cuda: is for the torch engine alone/),
    ]);
  });
});
