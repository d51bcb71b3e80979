import { describe, expect, it } from 'vitest';
import { nano5 } from '../../datasets/anomaly/nano5.ts';
import { VTA_TYPES, vta } from '../../datasets/anomaly/vta.ts';
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
