import { describe, expect, it } from 'vitest';
import { analyse } from '../../src/expcot/evidence.ts';
import { cite } from '../../src/expcot/route.ts';
import { DataError } from '../../src/ground/errors.ts';
import type { Interval } from '../../src/ground/types.ts';
import { profileTest } from '../../src/series/analyses.ts';
import { pointF1 } from '../../src/series/intervals.ts';
import golden from '../golden/expcot.json' with { type: 'json' };
import { anomllm, nano5 } from '../helpers/series.ts';

describe('evidence', () => {
  it.each(golden.cases.map((row) => [row.task, row] as const))(
    'has the reference numbers of a %s series, and smooths when the reference does, without being told',
    (_, row) => {
      const evidence = analyse(Float64Array.from(row.x));
      expect(evidence.denoised).toBe(row.denoised);
      expect(evidence.fullPeriod).toBeCloseTo(row.full_period, 7);
      const { range, trend, frequency, profile } = evidence;
      expect(range.maxAbsZ).toBeCloseTo(row.max_abs_z, 7);
      expect(range.mean).toBeCloseTo(row.range.mean, 7);
      expect(range.std).toBeCloseTo(row.range.std, 7);
      expect(range.upper).toBeCloseTo(row.range.upper, 7);
      expect(range.lower).toBeCloseTo(row.range.lower, 7);
      expect(range.intervals).toEqual(row.range.intervals);
      expect(trend?.mean).toBeCloseTo(row.trend.grad_mean, 7);
      expect(trend?.std).toBeCloseTo(row.trend.grad_std, 7);
      expect(trend?.threshold).toBeCloseTo(row.trend.threshold, 7);
      expect(trend?.intervals).toEqual(row.trend.intervals);
      expect(frequency?.mean).toBeCloseTo(row.frequency.period_mean, 7);
      expect(frequency?.std).toBeCloseTo(row.frequency.period_std, 7);
      expect(frequency?.stable).toBe('note' in row.frequency);
      expect(frequency?.intervals).toEqual(row.frequency.intervals);
      expect(profile?.discord).toBe(row.matrix_profile.discord_idx);
      expect(profile?.distance).toBeCloseTo(row.matrix_profile.discord_value, 7);
      // Distances near 0 are roots of rounding errors: their mean agrees to six digits after the point.
      expect(profile?.mean).toBeCloseTo(row.matrix_profile.profile_mean, 6);
      expect(profile?.std).toBeCloseTo(row.matrix_profile.profile_std, 6);
      expect(profile?.z).toBeCloseTo(row.matrix_profile.discord_z, 5);
      expect(profile?.intervals).toEqual(row.matrix_profile.intervals);
    },
  );

  it('keeps the discord of a smoothed series off the ends, which smoothing bends and the release flags', () => {
    let bent = 0;
    for (let index = 0; index < 20; index++) {
      const { values } = anomllm('noisy-point', 42, 'test', index);
      const { analysed, profile, denoised } = analyse(values);
      expect(denoised).toBe(true);
      expect(profile?.discord).toBeGreaterThanOrEqual(15);
      expect(profile?.discord).toBeLessThanOrEqual(1000 - 50 - 15);
      const release = profileTest(analysed);
      expect([release?.mean, release?.std]).toEqual([profile?.mean, profile?.std]);
      if (release?.discord === profile?.discord) expect(profile?.intervals).toEqual(release?.intervals);
      else if (release?.intervals.length === 1) bent++;
    }
    expect(bent).toBeGreaterThan(4);
  });

  it('moves a discord just inside the margin by a sample or two, and none of a series that is not smoothed', () => {
    const { values } = anomllm('noisy-freq', 42, 'train', 19);
    const { analysed, profile } = analyse(values);
    expect([profileTest(analysed)?.discord, profile?.discord]).toEqual([13, 15]);
    const raw = analyse(values, { denoise: false });
    expect(raw.profile).toEqual(profileTest(values));
  });

  it('smooths, or does not, when told', () => {
    const [clean, noisy] = [golden.cases[1]!, golden.cases[5]!];
    expect(analyse(Float64Array.from(clean.x), { denoise: true }).denoised).toBe(true);
    const raw = analyse(Float64Array.from(noisy.x), { denoise: false });
    expect(raw.denoised).toBe(false);
    expect([...raw.analysed]).toEqual(noisy.x);
  });

  it('computes a part when it is first read, and then keeps it', () => {
    const values = Float64Array.from(golden.cases[0]!.x);
    const evidence = analyse(values, { denoise: false });
    const range = evidence.range;
    values.fill(0.5);
    // What was read stands; what was not sees the values as they are now.
    expect(evidence.range).toBe(range);
    expect(evidence.trend).toMatchObject({ mean: 0, std: 0 });
    expect(evidence.profile).toMatchObject({ mean: 0, std: 0 });
    expect(evidence.profile).toBe(evidence.profile);
  });

  it('leaves the values unchanged', () => {
    const values = Float64Array.from(golden.cases[6]!.x);
    analyse(values).toJSON();
    expect([...values]).toEqual(golden.cases[6]!.x);
  });

  it('describes the base of every preset series: waves with their period, noise without', () => {
    let periods = 0;
    for (let index = 0; index < 60; index++) {
      const { values, class: label } = nano5(3407, 'train', index);
      const { base } = analyse(values);
      if (label === 'global point') expect(base).toMatchObject({ kind: 'noise', period: null });
      if (label === 'seasonal' || label === 'contextual point' || label === 'trend') {
        expect(base.kind).toBe('sine');
        periods += base.period !== null && base.period > 28 && base.period < 73 ? 1 : 0;
      }
      if (label === 'seasonal' || label === 'contextual point') expect(base.trending).toBe(false);
    }
    expect(periods).toBeGreaterThan(34);
  });

  it('finds the period and the rise of a wave on a line', () => {
    for (const task of ['trend', 'flat-trend', 'noisy-trend'] as const) {
      const { base } = analyse(anomllm(task, 42, 'test', 3).values);
      expect(base.kind).toBe('sine');
      expect(base.trending).toBe(true);
      expect(base.period).toBeCloseTo(50, 0);
    }
  });

  it('calls constants and lines flat', () => {
    expect(analyse(new Float64Array(200).fill(-0.3)).base).toMatchObject({ kind: 'flat', trending: false });
    const ramp = Float64Array.from({ length: 200 }, (_, i) => 5 - i / 7);
    expect(analyse(ramp).base).toMatchObject({ kind: 'flat', trending: true });
  });

  it('works on one value, and reports tests that need more as absent', () => {
    const evidence = analyse(Float64Array.of(4));
    expect(evidence.range).toMatchObject({ mean: 4, std: 0, intervals: [] });
    expect([evidence.trend, evidence.frequency, evidence.profile]).toEqual([null, null, null]);
    expect(evidence.intervals('profile')).toEqual([]);
    expect(() => JSON.stringify(evidence)).not.toThrow();
  });

  it('refuses an empty series and names the first value that is not finite', () => {
    expect(() => analyse(new Float64Array(0))).toThrow(DataError);
    expect(() => analyse(Float64Array.of(1, 2, Number.NaN, Number.NaN))).toThrow(
      /value 2 of the series is NaN/,
    );
    expect(() => analyse(Float64Array.of(Number.NEGATIVE_INFINITY))).toThrow(/value 0/);
  });
});

describe('citation', () => {
  const range = analyse(Float64Array.from(golden.cases[0]!.x));

  it('names the family whose intervals agree best, with their point F1', () => {
    const steep: Interval[] = [
      [470, 482],
      [484, 490],
    ];
    const citation = cite(range, steep);
    expect(citation).toMatchObject({ family: 'trend', clipped: false, dissent: [] });
    expect(citation.agreement).toBeCloseTo(pointF1(range.intervals('trend'), steep), 12);
    expect(citation.agreement).toBeGreaterThan(pointF1(range.intervals('range'), steep));
  });

  it('cites the range test with clipped moments where these agree better', () => {
    const gold: Interval[] = [[476, 487]];
    expect(pointF1(range.intervals('range'), gold)).toBeLessThan(1);
    expect(range.outliers.intervals).toEqual(gold);
    expect(cite(range, gold)).toMatchObject({ family: 'range', agreement: 1, clipped: true });
  });

  it('names none where none overlaps, and lists who dissents', () => {
    const away: Interval[] = [[10, 60]];
    expect(cite(range, away)).toEqual({
      family: null,
      agreement: 0,
      clipped: false,
      dissent: ['range', 'trend'],
    });
    expect(cite(range, [])).toEqual({
      family: null,
      agreement: 0,
      clipped: false,
      dissent: ['range', 'trend'],
    });
  });
});
