import { describe, expect, it } from 'vitest';
import { moved } from '../../src/detect/moved.ts';
import { statementOf } from '../../src/detect/sentence.ts';
import { Random } from '../../src/ground/random.ts';
import { madeCase, ranked } from '../bench/moved.ts';

const DAY = 144;
const WINDOW = [1500, 1560] as const;

/** A daily season with noise of 1, to which `change` is added. */
function series(change: (i: number, value: number) => number = () => 0): Float64Array {
  const random = new Random(4, 'moved-test');
  return Float64Array.from({ length: 2000 }, (_, i) => {
    const value = 50 + 10 * Math.sin((2 * Math.PI * i) / DAY) + random.normal();
    return value + change(i, value);
  });
}

const inside = (i: number): boolean => i >= WINDOW[0] && i < WINDOW[1];
const judge = (values: Float64Array, severity = 2) =>
  moved(values, WINDOW, { calendar: [6, DAY, 7 * DAY], severity });

describe('a window', () => {
  it('ranks the changed series of eight kinds before the others', () => {
    const list = ranked(madeCase(5, { series: 64, changed: 5, window: [1900, 1960] }), [1900, 1960]);
    expect(list.slice(0, 8).filter(({ change }) => change !== null)).toHaveLength(5);
  });

  it('of a usual series has no finding', () => {
    expect(judge(series()).findings).toEqual([]);
  });

  it('with another level is a level shift of the whole window, by as much', () => {
    const { findings } = judge(series((i) => (inside(i) ? -6 : 0)));
    expect(findings).toMatchObject([{ kind: 'level', direction: 'below', start: 1500, end: 1560 }]);
    const [{ observed, says }] = findings as [(typeof findings)[number]];
    expect(observed.mean).toBeLessThan(50);
    expect(statementOf(says)).toMatch(/^fell to [\d.]+ on average \(expected about [\d.]+; observed/);
  });

  it('with other noise, a burst, or a standstill is told as that', () => {
    const random = new Random(9, 'noise');
    expect(judge(series((i) => (inside(i) ? 5 * random.normal() : 0))).findings).toMatchObject([
      { kind: 'variance', direction: 'above' },
    ]);
    expect(judge(series((i) => (i === 1530 ? 20 : 0))).findings).toMatchObject([
      { kind: 'spike', start: 1530, end: 1531 },
    ]);
    expect(judge(series((i, value) => (inside(i) ? 44 - value : 0))).findings).toMatchObject([
      { kind: 'flat', start: 1500, end: 1560 },
    ]);
  });

  it('is not judged by what comes later', () => {
    const findings = (values: Float64Array) => judge(values, 1).findings.map(({ severity }) => severity);
    const usual = series((i) => (inside(i) ? 6 : 0));
    expect(findings(series((i) => (inside(i) ? 6 : i >= WINDOW[1] ? 300 : 0)))).toEqual(findings(usual));
  });

  it('without values, or with none before it, is not judged', () => {
    for (const missing of [inside, (i: number) => i < WINDOW[0]]) {
      const { findings, structure } = judge(series((i) => (missing(i) ? Number.NaN : 0)));
      expect(findings).toEqual([]);
      expect(structure.text).toMatch(/missing/);
    }
  });

  it('is left out by a filter, which is counted', () => {
    const values = series((i) => (inside(i) ? 6 : 0));
    const { findings, leftOut } = moved(values, WINDOW, { calendar: [6, DAY], direction: 'below' });
    expect(findings).toEqual([]);
    expect(leftOut).toMatchObject({ direction: 1 });
    expect(() => moved(values, WINDOW, { severity: 0.5 })).toThrow(/severity/);
  });
});
