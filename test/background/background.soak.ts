import { expect, test } from 'vitest';
import { openEngine } from '../../src/answer/local.ts';
import {
  learnBackground,
  type Method,
  sampleBackground,
  type Windows,
} from '../../src/background/background.ts';
import { Random } from '../../src/ground/random.ts';
import { periodogram } from '../../src/series/spectrum.ts';

const engine = openEngine();
const open = () => engine;

/** Windows of 24 samples: a wave of two or of five cycles at any phase. */
function regimes(count: number, seed: number): Windows {
  const windows = Array.from({ length: count }, (_, i) => {
    const random = new Random(seed, 'regimes', i);
    const [cycles, phase] = [i % 2 === 0 ? 2 : 5, random.uniform()];
    const values = Float64Array.from(
      { length: 24 },
      (_, t) => Math.sin(2 * Math.PI * ((cycles * t) / 24 + phase)) + random.normal(0, 0.05),
    );
    return { start: 0, values };
  });
  return { windows, periods: [] };
}

/** Share of the power outside of the frequency of the nearer regime: spectral distance to it. */
function blur(values: Float64Array): number {
  const { power } = periodogram(values);
  return 1 - Math.max(power[2]!, power[5]!) / power.reduce((sum, value) => sum + value, 0);
}

test('a background of prism keeps two regimes apart that plain flow matching blurs', async () => {
  const { windows, periods } = regimes(200, 1);
  const blurOf = async (method: Method): Promise<number> => {
    const options = { seed: 2, steps: 500, width: 64 };
    const background = await learnBackground(method, 'regimes', { windows, periods }, options, open);
    const samples = sampleBackground(background, 100, 7, open);
    return samples.reduce((sum, values) => sum + blur(values), 0) / samples.length;
  };
  const [flow, prism] = [await blurOf('flow'), await blurOf('prism')];
  expect(flow).toBeGreaterThan(0.15);
  expect(prism).toBeLessThan(0.75 * flow);
});
