/** The nearest-neighbour classifier against the error rates that the UCR archive lists (1NN-ED, default split). */
import { existsSync } from 'node:fs';
import { join } from 'node:path';
import { describe, expect, test } from 'vitest';
import { benchmarkNamed } from '../../datasets/benchmarks/registry.ts';
import { classicalAnswers } from '../../eval/baselines.ts';
import { overallOf } from '../../eval/metrics.ts';

const DATA = join(import.meta.dirname, '../../../shared/data/timerbed');

describe.skipIf(!existsSync(DATA))('1nn-euclid (skipped where the files are absent)', () => {
  test.each([
    ['ctu', 'Computers', 0.424],
    ['tee', 'Lightning7', 0.4247],
  ])('errs on %s as the archive lists it for %s: %d', async (name, _, error) => {
    const loaded = [
      ...benchmarkNamed(name)
        .open({ directory: join(DATA, name) })
        .load(),
    ];
    const of = (split: string) => loaded.flatMap((one) => (one.split === split ? [one.example] : []));
    const { '1nn-euclid': records } = await classicalAnswers(of('test'), of('train'));
    const { class_accuracy } = overallOf(records!, { resamples: 100 });
    expect(1 - class_accuracy!.mean).toBeCloseTo(error, 4);
  });
});
