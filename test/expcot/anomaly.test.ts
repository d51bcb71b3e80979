import { existsSync } from 'node:fs';
import { join } from 'node:path';
import { describe, expect, it } from 'vitest';
import { nab } from '../../datasets/benchmarks/archives.ts';
import { VTA_TYPES } from '../../datasets/generators/vta.ts';
import {
  analyseChannels,
  blindAnomaly,
  cycleOf,
  EXPCOT_BLIND,
  expcotBlind,
} from '../../src/expcot/anomaly.ts';
import { analyse } from '../../src/expcot/evidence.ts';
import { formatNumber } from '../../src/expcot/phrase.ts';
import { blindTrace } from '../../src/tasks/kinds.ts';
import { load, NORMAL, series, type Value, weekday } from '../helpers/everyday.ts';
import { nano5, vta } from '../helpers/series.ts';

describe(`detector ${EXPCOT_BLIND}`, () => {
  const series = [
    ...Array.from({ length: 10 }, (_, index) => nano5(3407, 'train', index).values),
    ...VTA_TYPES.map((type) => vta(type, 3407, 'train', 0).values),
  ];

  it('answers what the blind trace concludes, with a score of 1 inside its intervals', () => {
    for (const values of series) {
      const { intervals, score, class: label } = expcotBlind(values);
      const { answer } = blindTrace({ channels: [values], names: ['v'] }, 'anomaly', null);
      expect({ kind: 'anomaly', class: label, intervals }).toEqual(answer);
      for (let i = 0; i < values.length; i++) {
        expect(score[i]).toBe(intervals.some(([start, end]) => i >= start && i < end) ? 1 : 0);
      }
    }
  });

  it('names anomalies of less than a cycle, which only the cycle test sees', () => {
    const named = VTA_TYPES.map((type) => expcotBlind(vta(type, 3407, 'train', 0).values).class);
    expect(named).toEqual(['global point', 'contextual point', 'seasonal', 'trend', 'shapelet']);
  });

  it('bridges missing points', () => {
    const values = nano5(3407, 'train', 0).values.slice();
    values[500] = Number.NaN;
    expect(expcotBlind(values).score).toHaveLength(1000);
  });
});

describe('traces of series with missing points', () => {
  it('tell the mean and spread of the points that are there, not of the lines that bridge the others', () => {
    const values = Float64Array.from({ length: 200 }, (_, i) => (i === 120 || i === 161 ? 8.5 : (i % 5) / 2));
    values.fill(Number.NaN, 121, 161);
    const { think } = blindAnomaly(analyseChannels([values], ['load']), ['load']);
    const known = values.filter((value) => !Number.isNaN(value));
    const mean = known.reduce((sum, value) => sum + value, 0) / 160;
    expect(mean).toBeLessThan(1.2);
    const std = Math.sqrt(known.reduce((sum, value) => sum + (value - mean) ** 2, 0) / 160);
    expect(think).toContain(`mean ${formatNumber(mean)}, standard deviation ${formatNumber(std)}.`);
  });
});

/** Series of five metrics of servers, of which 26 of 35 windows hold no anomaly. */
const NAB = join(import.meta.dirname, '../../../shared/data/nab');

describe.skipIf(!existsSync(NAB))(`detector ${EXPCOT_BLIND} on real recordings`, () => {
  it('leaves most normal windows alone: heavy tails and daily jobs are no anomalies', () => {
    let [normal, alarms] = [0, 0];
    for (const { example } of nab.open({ directory: NAB }).load()) {
      if (example.gold.kind !== 'anomaly' || example.gold.intervals.length > 0) continue;
      normal++;
      if (expcotBlind(example.channels[0]!).intervals.length > 0) alarms++;
    }
    expect(normal).toBe(26);
    expect(alarms).toBeLessThanOrEqual(6);
  });
});

describe('the expert on everyday series without anomalies', () => {
  it.each(NORMAL)('%s', (_, length, expected, value, most = 0) => {
    let alarms = 0;
    for (let seed = 0; seed < 6; seed++) {
      const analysed = analyseChannels([series(length, value, seed)], ['value']);
      const { period } = analysed[0]!.evidence.base;
      if (expected === null) expect(period).toBeNull();
      else expect(Math.abs((period ?? 0) / expected - 1)).toBeLessThan(0.01);
      alarms += blindAnomaly(analysed, ['value']).intervals.length > 0 ? 1 : 0;
    }
    expect(alarms).toBeLessThanOrEqual(most);
  });

  it('says of weekends that they are a longer pattern', () => {
    const values = series(840, (i, r) => load(i, Math.floor(i / 24)) + 3 * r.normal(), 1);
    expect(cycleOf(analyse(values), values)).toMatchObject({ recurs: 168, intervals: [] });
  });
});

describe('the expert on everyday series with an anomaly', () => {
  it.each([
    [
      'a working day like a weekend',
      840,
      24 * 14,
      24 * 15,
      (i, r) => load(i, Math.floor(i / 24) === 14 ? 5 : Math.floor(i / 24)) + 3 * r.normal(),
    ],
    [
      'a day of twice the counts',
      730,
      400,
      401,
      (i, r) => (i === 400 ? 2 : 1) * (1000 + (weekday(i) ? 300 : 0)) + 30 * r.normal(),
    ],
    [
      'a nightly job that did not run',
      288 * 8,
      288 * 4,
      288 * 4 + 9,
      (i, r) => (i % 288 < 9 && Math.floor(i / 288) !== 4 ? 60 : 10) + r.normal(),
    ],
  ] as [string, number, number, number, Value][])('finds %s', (_, length, from, to, value) => {
    for (let seed = 0; seed < 4; seed++) {
      const { intervals } = blindAnomaly(analyseChannels([series(length, value, seed)], ['value']), [
        'value',
      ]);
      expect(intervals.some(([start, end]) => start < to && end > from)).toBe(true);
    }
  });
});
