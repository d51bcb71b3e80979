/** Maintenance once a week, on a load that repeats by the day. */
import { expect, test } from 'vitest';
import { jitterOf } from '../../src/detect/departures.ts';
import { detect } from '../../src/detect/detect.ts';
import { Random } from '../../src/ground/random.ts';

const CALENDAR = [4, 96, 672] as const;
const SUNDAY = 6 * 96 + 8;

/** Requests of five weeks by the quarter of an hour; two hours of maintenance each Sunday, `hours` in the fourth week. */
function requests(seed: number, spread: number, hours = 2): Float64Array {
  const draw = new Random(seed, 'maintenance');
  let error = 0;
  return Float64Array.from({ length: 5 * 672 }, (_, i) => {
    error = 0.6 * error + 0.8 * spread * draw.normal();
    const rest = (i % 672) - SUNDAY;
    const load = 130 - 60 * Math.cos((2 * Math.PI * ((i % 96) - 16)) / 96) + error;
    return rest >= 0 && rest < 4 * (Math.floor(i / 672) === 3 ? hours : 2) ? draw.normal(2, 0.3) : load;
  });
}

test('maintenance at the same hours of each week is usual', () => {
  for (const seed of [1, 2, 3, 4])
    for (const spread of [2, 5, 9]) {
      const { findings, seasons } = detect(requests(seed, spread), { calendar: CALENDAR });
      expect([seed, spread, seasons, findings]).toEqual([seed, spread, [672], []]);
    }
});

test('maintenance that takes three hours longer than each week is found', () => {
  for (const seed of [1, 2, 3, 4]) {
    const start = 3 * 672 + SUNDAY + 8;
    const { findings } = detect(requests(seed, 5, 5), { calendar: CALENDAR });
    expect(findings.length).toBe(1);
    expect([seed, findings[0]!.start >= start - 8 && findings[0]!.end <= start + 13]).toEqual([seed, true]);
  }
});

test('outliers of single days are no season of weeks', () => {
  for (const seed of [1, 2, 3, 4]) {
    const draw = new Random(seed, 'single days');
    const values = Float64Array.from(
      { length: 5 * 672 },
      (_, i) => 130 - 60 * Math.cos((2 * Math.PI * ((i % 96) - 16)) / 96) + 5 * draw.normal(),
    );
    for (const day of [5, 11, 20, 28]) values.fill(0, 96 * day + 8, 96 * day + 16);
    const { findings, seasons } = detect(values, { calendar: CALENDAR });
    expect([seed, seasons, findings.length]).toEqual([seed, [96], 4]);
  }
});

test('edges of a week are expected no farther off than from the week before', () => {
  const values = new Float64Array(4000);
  for (let k = 0; k < 40; k++) values.fill(50, 100 * k + 3 * (k % 2), 100 * k + 3 * (k % 2) + 10);
  expect(jitterOf(values, 100, 0, true)).toBeLessThanOrEqual(jitterOf(values, 100, 0));
});
