import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import { areAxes, CHANNEL_KINDS, featureNames, features, MOST_CHANNELS } from '../../src/expcot/features.ts';
import { DataError } from '../../src/ground/errors.ts';
import { Random } from '../../src/ground/random.ts';

function table(
  channels: readonly Float64Array[],
  names = channels.map((_, c) => `c${c}`),
): Record<string, number> {
  const values = features(channels);
  const list = featureNames(names);
  expect(values.length).toBe(list.length);
  return Object.fromEntries(list.map(({ key }, f) => [key, values[f]!]));
}

const of = (...values: number[]): Float64Array => Float64Array.from(values);
const make = (n: number, at: (i: number) => number): Float64Array =>
  Float64Array.from({ length: n }, (_, i) => at(i));

describe('features of one channel', () => {
  it('measure level, spread and shares in a worked example', () => {
    // 12 zeros and a plateau of four: mean 2.5, variance 18.75.
    const f = table([of(0, 0, 0, 0, 0, 0, 10, 10, 10, 10, 0, 0, 0, 0, 0, 0)]);
    expect(f['level']).toBe(2.5);
    expect(f['spread']).toBeCloseTo(Math.sqrt(18.75), 12);
    expect(f['range']).toBe(10);
    expect(f['zeros']).toBe(0.75);
    expect(f['floor']).toBe(0.75);
    expect(f['ceiling']).toBe(0.25);
    expect(f['duty']).toBe(0.25);
    expect(f['plateaus']).toBe(13 / 16);
    expect(f['quiet']).toBe(6 / 16);
    expect(f['top']).toBeCloseTo(10 / Math.sqrt(18.75), 12);
    expect(f['bottom']).toBe(0);
    expect(f['skew']).toBeCloseTo(1.1547, 4);
    expect(f['jumps']).toBeCloseTo(12.5, 12);
    expect(f['crossings']).toBeCloseTo(12.5, 12);
    expect(f['pulses']).toBeCloseTo(62.5, 12);
    expect(f['pulseWidth']).toBe(4);
    expect(f['pulseRhythm']).toBeNaN();
    expect(f['peakAt']).toBe(6 / 16);
    expect(f['attack']).toBe(1);
    expect(f['decay']).toBe(4);
    expect(f['missing']).toBe(0);
  });

  it('find the period of a wave, its place in the bands, and its rhythm', () => {
    const f = table([make(600, (i) => 3 + 2 * Math.sin((2 * Math.PI * i) / 24 + 0.4))]);
    expect(f['period']).toBeCloseTo(24, 9);
    expect(f['line']).toBeGreaterThan(0.999);
    expect(f['repeat']).toBeCloseTo(1 - 24 / 600, 2);
    // Bands run from long periods to short ones: 16 to 32 samples is the fourth.
    expect(f['band3']).toBeGreaterThan(0.999);
    expect(f['centroid']).toBeCloseTo(100 / 24, 6);
    expect(f['crossings']).toBeCloseTo((100 * 50) / 600, 6);
    expect(f['turns']).toBeCloseTo((100 * 50) / 600, 6);
    expect(f['pulseRhythm']).toBeCloseTo(0, 6);
    expect(f['burst']).toBeLessThan(0.2);
  });

  it('find trends, and where in time the energy lies', () => {
    const rising = table([make(160, (i) => 5 * i)]);
    expect(rising['tau']).toBe(1);
    expect(rising['rise']).toBeGreaterThan(3);
    expect(rising['level0']).toBeLessThan(rising['level7']!);
    const late = table([make(160, (i) => (i >= 120 ? Math.sin(i) : 0))]);
    expect(late['centre']).toBeGreaterThan(0.8);
    expect(late['spread0']).toBeLessThan(0.1);
    expect(late['spread6']).toBeGreaterThan(1);
    expect(table([make(160, (i) => (i >= 40 ? 0 : Math.sin(i)))])['centre']).toBeLessThan(0.2);
  });

  it('tell a sudden start from a sudden end', () => {
    const decaying = make(200, (i) => (i < 60 ? 0 : Math.exp(-(i - 60) / 15)));
    const f = table([decaying]);
    const g = table([decaying.toReversed()]);
    expect(f['asymmetry']).toBeGreaterThan(3);
    expect(g['asymmetry']).toBeCloseTo(-f['asymmetry']!, 9);
    expect(f['attack']).toBeLessThan(f['decay']!);
    expect(g['attack']).toBe(f['decay']);
  });

  it('are finite or undefined, and scale-free but for level, spread and range', () => {
    const free = CHANNEL_KINDS.filter(({ key }) => !['level', 'spread', 'range', 'zeros'].includes(key));
    fc.assert(
      fc.property(
        fc.array(fc.integer({ min: -30, max: 30 }), { minLength: 1, maxLength: 60 }),
        fc.integer({ min: 1, max: 5 }),
        (list, power) => {
          const f = table([Float64Array.from(list)]);
          const g = table([Float64Array.from(list, (value) => value * 2 ** power)]);
          for (const { key } of free) {
            expect(Number.isFinite(f[key]!) || Number.isNaN(f[key]!), key).toBe(true);
            expect(Object.is(f[key], g[key]) || Math.abs(f[key]! - g[key]!) < 1e-9, key).toBe(true);
          }
        },
      ),
      { numRuns: 60 },
    );
  });
});

describe('areAxes', () => {
  it.each([
    [['x', 'y', 'z']],
    [['X', 'Z']],
    [['acc_x', 'acc_y', 'acc_z']],
    [['gyroY', 'gyroX']],
    [['total acc z', 'total acc x']],
    [['mag2X', 'mag2Y', 'mag2Z']],
  ])('takes %j for axes of one vector', (names) => {
    expect(areAxes(names)).toBe(true);
  });

  it.each([
    [['temperature', 'pressure', 'flow']],
    [['x']],
    [['acc_x', 'gyro_y']],
    [['x', 'y', 'temperature']],
    [['x', 'X']],
    [['flux', 'flex']],
    [['a', 'b']],
  ])('does not take %j for them', (names) => {
    expect(areAxes(names)).toBe(false);
  });
});

describe('features of several channels', () => {
  const random = new Random(5, 'features', 0);
  const noise = (): number => random.uniform() - 0.5;

  it('say which axis carries gravity, which moves, and what moves together', () => {
    const x = make(128, () => 0.97 + 0.01 * noise());
    const y = make(128, (i) => 0.2 + 0.3 * Math.sin(i / 3));
    const z = y.map((value) => -0.5 * value);
    const f = table([x, y, z], ['x', 'y', 'z']);
    expect(f['x.tilt']).toBeGreaterThan(0.9);
    expect(f['y.tilt']! ** 2 + f['x.tilt']! ** 2 + f['z.tilt']! ** 2).toBeCloseTo(1, 9);
    expect(f['y.activity']).toBeCloseTo(0.8, 3);
    expect(f['y~z.correlation']).toBeCloseTo(-1, 9);
    expect(f['the magnitude.level']).toBeGreaterThan(f['x.level']!);
  });

  it('are averages and spreads over channels where there are many', () => {
    const channels = Array.from({ length: MOST_CHANNELS + 1 }, (_, c) => make(50, (i) => c + (i % 5)));
    const f = table(channels);
    expect(f['all.level']).toBeCloseTo(2 + MOST_CHANNELS / 2, 9);
    expect(f['spread.level']).toBeCloseTo(2, 9);
    expect(f['all.period']).toBeCloseTo(5, 9);
  });

  it('bridge missing points and count them', () => {
    const whole = make(60, (i) => i / 7);
    const holed = whole.slice();
    holed.fill(Number.NaN, 10, 22);
    const [f, g] = [table([whole]), table([holed])];
    expect(g['missing']).toBe(0.2);
    expect(g['level']).toBeCloseTo(f['level']!, 9);
    expect(g['tau']).toBe(1);
  });

  it('refuse unequal lengths, nothing, and names that come twice', () => {
    expect(() => features([of(1, 2), of(1)])).toThrow(/equally long, got 2 and 1/);
    expect(() => features([])).toThrow(DataError);
    expect(() => featureNames(['a', 'a'])).toThrow(/different names/);
  });
});
