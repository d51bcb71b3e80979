import { existsSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { describe, expect, test } from 'vitest';
import { openTorch } from '../../src/engine/torch/torch.ts';
import { readConfidence } from '../../src/explain/confidence.ts';
import { ConfigError } from '../../src/ground/errors.ts';
import { writeManifestedDirectory } from '../../src/ground/manifest.ts';
import { ANOMALY_CLASSES } from '../../src/ground/types.ts';
import { calibratePolicy } from '../../src/run/calibrate.ts';
import { type PolicyCard, writeCard } from '../../src/tasks/card.ts';
import { temporary } from '../helpers/temporary.ts';
import { tinyPolicy } from '../helpers/tiny-policy.ts';

const root = temporary('calibrate');

/** The directory of a policy with random weights. */
function untrained(name: string, change: Partial<PolicyCard>): string {
  const engine = openTorch({ threads: 1 });
  const policy = tinyPolicy(engine, 5, { tuning: 'none' });
  const directory = join(root, name);
  writeManifestedDirectory(directory, (temporary) => {
    policy.write(temporary);
    writeCard(temporary, {
      ...{ version: 1, style: 'nano', figure: 'nano-analysis', length: 112, kind: 'anomaly', task: 'wild' },
      ...{ channels: 1, numbers: null, classes: [...ANOMALY_CLASSES], limitations: [], stage: 'initial' },
      ...change,
    } as PolicyCard);
  });
  policy.dispose();
  return directory;
}

describe('confidences are not fitted', () => {
  const rest = { count: 2, seed: 3, device: undefined } as const;

  test.each([
    ['to a policy that is shown one scale', { figure: 'nano' }, /sees one scale only and has no confidence/],
    ['to one that was taught no generator', { task: 'har' }, /trained on har; expected a generator/],
    [
      'where too little is marked to learn from',
      {},
      /predicted \d+ intervals? in \d+ series, \d+ of them correct/,
    ],
  ] as const)('%s', async (name, change, message) => {
    const policy = untrained(name.replaceAll(' ', '-'), change);
    const asked = calibratePolicy({ ...rest, policy });
    await expect(asked).rejects.toThrow(ConfigError);
    await expect(asked).rejects.toThrow(message);
    expect(readConfidence(policy)).toBeNull();
  });

  test('to recordings whose values never change, and their files are named', async () => {
    const file = join(root, 'flat.csv');
    writeFileSync(file, `value\n${'5\n'.repeat(400)}`);
    const policy = untrained('flat', {});
    const asked = calibratePolicy({ ...rest, policy, data: [file], out: join(root, 'copy') });
    await expect(asked).rejects.toThrow(/flat\.csv: no column has a value that changes/);
    expect(existsSync(join(root, 'copy'))).toBe(false);
  });
});
