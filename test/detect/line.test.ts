/** Incidents on a line that rises or falls, whose height depends on the length of the series. */
import { expect, test } from 'vitest';
import { detect } from '../../src/detect/detect.ts';
import { statementOf } from '../../src/detect/sentence.ts';
import { Random } from '../../src/ground/random.ts';

const SEEDS = [1, 2, 3, 4, 5, 6];

/** Noise of a standard deviation of about 2. */
const NOISES: Readonly<Record<string, (draw: Random) => number>> = {
  normal: (draw) => draw.normal(0, 2),
  uniform: (draw) => draw.between(-3.5, 3.5),
  'double exponential': (draw) => 1.4 * Math.log(draw.between(0.001, 1)) * (draw.uniform() < 0.5 ? -1 : 1),
  lognormal: (draw) => 3.2 * Math.exp(0.5 * draw.normal()),
};

/** Values that rise by `slope` each sample, with noise and `change` in [start, end). */
function line(
  seed: number,
  [start, end, change]: readonly [number, number, number],
  { slope = 0.5, noise = NOISES.normal! } = {},
): Float64Array {
  const draw = new Random(seed, 'line');
  return Float64Array.from(
    { length: 2000 },
    (_, i) => 100 + slope * i + noise(draw) + (i >= start && i < end ? change : 0),
  );
}

test.each(Object.entries(NOISES))(
  'a few samples off a line with %s noise are found as on a level',
  (_, noise) => {
    for (const seed of SEEDS)
      for (const [slope, length, change] of [
        [0.5, 5, -50],
        [-0.5, 1, 60],
        [0.2, 3, 45],
      ] as const) {
        const start = 300 + 200 * seed;
        const [onLine, onLevel] = [slope, 0].map((rise) =>
          detect(line(seed, [start, start + length, change], { slope: rise, noise })).findings.map(
            (finding) => [finding.start, finding.end],
          ),
        );
        expect([seed, slope, onLine]).toEqual([seed, slope, onLevel]);
        expect(onLine).toContainEqual([start, start + length]);
      }
  },
);

test('a level that begins on a line is compared with the line, not with the mean before', () => {
  for (const seed of SEEDS) {
    const { findings } = detect(line(seed, [1100, 2000, -40]));
    expect(findings[0]).toMatchObject({ kind: 'level', direction: 'below', stepped: null, ongoing: true });
    expect(Math.abs(findings[0]!.start - 1100)).toBeLessThanOrEqual(4);
    expect(statementOf(findings[0]!.says)).toMatch(/^fell to .*expected about/);
  }
});

test('noise on a line, curves and walks have no finding', () => {
  for (const seed of SEEDS) {
    expect([seed, detect(line(seed, [0, 0, 0])).findings]).toEqual([seed, []]);
    const draw = new Random(seed, 'curves');
    let walk = 0;
    for (const values of [
      Float64Array.from({ length: 1500 }, (_, i) => i ** 1.6 / 100 + draw.normal()),
      Float64Array.from({ length: 1500 }, (_, i) => 10 * Math.exp(i / 500) * (1 + 0.02 * draw.normal())),
      Float64Array.from({ length: 1500 }, () => (walk += 0.3 + draw.normal())),
    ])
      expect([seed, detect(values).findings]).toEqual([seed, []]);
  }
});

test('a standstill of a line is found', () => {
  for (const seed of SEEDS) {
    const values = line(seed, [0, 0, 0]);
    values.fill(values[900]!, 900, 925);
    expect(detect(values).findings).toMatchObject([{ kind: 'flat', start: 900, end: 925 }]);
  }
});

test('a leak that lasts for most of the series is found, and is no line', () => {
  for (const seed of SEEDS)
    for (const [length, from] of [
      [2000, 0.25],
      [2000, 0.35],
    ] as const) {
      const draw = new Random(seed, 'leak');
      const start = from * length;
      const values = Float64Array.from(
        { length },
        (_, i) => 40 + draw.normal() + (14 * Math.max(0, i - start)) / (length - start),
      );
      const { findings } = detect(values);
      expect([seed, length, findings.some(({ end }) => end > length / 2)]).toEqual([seed, length, true]);
    }
});
