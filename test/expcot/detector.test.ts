import { existsSync } from 'node:fs';
import { join } from 'node:path';
import { describe, expect, it } from 'vitest';
import { nab } from '../../datasets/benchmarks/nab.ts';
import { nano5 } from '../../datasets/generators/nano5.ts';
import { VTA_TYPES, vta } from '../../datasets/generators/vta.ts';
import { EXPCOT_BLIND, expcotBlind } from '../../src/expcot/detector.ts';
import { blindTrace } from '../../src/expcot/expert.ts';

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
