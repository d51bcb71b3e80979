/** Missing values, which are bridged by lines. */
import { expect, test } from 'vitest';
import { detect } from '../../src/detect/detect.ts';
import { Random } from '../../src/ground/random.ts';

/** Values around 120 with three long gaps, and some single values missing. */
function withGaps(seed: number, law: number): Float64Array {
  const draw = new Random(seed, 'gaps');
  let last = 0;
  const values = Float64Array.from({ length: 2000 }, () => {
    last = 0.5 * last + draw.normal();
    return 120 + [draw.normal(), last, Math.exp(0.4 * draw.normal()), draw.between(-2, 2)][law]!;
  });
  for (let i = 0; i < values.length; i++) if (draw.uniform() < 0.02) values[i] = Number.NaN;
  for (const length of [30, 50, 80]) {
    const at = draw.integer(100, 1850);
    values.fill(Number.NaN, at, at + length);
  }
  return values;
}

test.each([0, 1, 2, 3])('gaps do not vary less than usual, with noise of law %i', (law) => {
  for (let seed = 1; seed <= 10; seed++) {
    const { findings } = detect(withGaps(seed, law));
    expect([seed, findings.filter(({ kind }) => kind === 'variance')]).toEqual([seed, []]);
  }
});

test('a quiet stretch beside gaps is found', () => {
  for (let seed = 1; seed <= 4; seed++) {
    const draw = new Random(seed, 'quiet');
    const quiet = withGaps(seed, 0).map((value, i) => (i >= 700 && i < 780 ? draw.normal(120, 0.05) : value));
    const { findings } = detect(quiet);
    expect([seed, findings.some(({ start, end }) => start < 780 && end > 700)]).toEqual([seed, true]);
  }
});
