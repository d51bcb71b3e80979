import { describe, expect, it } from 'vitest';
import { ANOMLLM_TASKS } from '../../datasets/generators/anomllm.ts';
import { analyse, type Evidence } from '../../src/expcot/evidence.ts';
import { formatNumber, LONGEST_LIST } from '../../src/expcot/phrase.ts';
import { cite, LEAST_DISTANCE, route } from '../../src/expcot/route.ts';
import { FEWEST_CYCLES } from '../../src/expcot/shape.ts';
import { blind, type Trace, teacher } from '../../src/expcot/trace.ts';
import { Random } from '../../src/ground/random.ts';
import { parseAnswer } from '../../src/tasks/anomaly.ts';
import { anomllm, nano5, type Series } from '../helpers/series.ts';

const SERIES: Series[] = [
  ...Array.from({ length: 20 }, (_, index) => nano5(3407, 'train', index)),
  ...ANOMLLM_TASKS.flatMap((task) => [0, 1].map((index) => anomllm(task, 3407, 'train', index))),
  ...[
    new Float64Array(150).fill(0.1),
    Float64Array.of(5),
    Float64Array.from({ length: 60 }, (_, i) => i % 7),
    ...[0.8, 2.3, 5.3].map((cycles) =>
      Float64Array.from({ length: 800 }, (_, i) => Math.sin((cycles * i) / 127) + ((i * 7919) % 13) / 400),
    ),
    Float64Array.from({ length: 1000 }, (_, i) => Math.sin((5.3 * 2 * Math.PI * i) / 1000 + 1)),
  ].map(
    (values, index): Series => ({
      id: `odd/${index}`,
      task: 'odd',
      values,
      intervals: [],
      class: 'normal',
    }),
  ),
];

/** All numbers of a JSON value, and the lengths of its lists. */
function numbersOf(value: unknown, into: number[] = []): number[] {
  if (typeof value === 'number') into.push(value);
  else if (value !== null && typeof value === 'object') {
    if (Array.isArray(value)) into.push(value.length);
    for (const part of Object.values(value)) numbersOf(part, into);
  }
  return into;
}

/** Numbers of a text, signs kept, as they stand. */
function quoted(text: string): string[] {
  return text.match(/(?<![\w.])-?\d+(?:\.\d+)?(?:e[+-]?\d+)?/g) ?? [];
}

function allowed(evidence: Evidence, series: Series, trace: Trace): Set<string> {
  const facts = [
    evidence.toJSON(),
    cite(evidence, series.intervals),
    series.intervals,
    trace.intervals,
    route(evidence),
    evidence.base.kind === 'slow' ? FEWEST_CYCLES : null,
  ];
  const numbers = facts.flatMap((fact) => numbersOf(fact));
  return new Set(numbers.flatMap((value) => [formatNumber(value), formatNumber(Math.abs(value))]));
}

describe.each(['teacher', 'blind'] as const)('%s trace', (mode) => {
  const told = SERIES.map((series) => {
    const evidence = analyse(series.values);
    const trace = mode === 'teacher' ? teacher(evidence, series.intervals, series.class) : blind(evidence);
    return { series, evidence, trace };
  });

  it('has three parts and an answer that the reward accepts as well formed', () => {
    for (const { series, trace } of told) {
      expect(trace.think).toMatch(/^Observation: .+\nReasoning & Validation: .+\nConclusion: .+$/);
      expect(trace.think).not.toMatch(/[<>]/);
      const answer = parseAnswer(trace.text, series.values.length);
      expect(answer).toMatchObject({ wellFormed: true, class: trace.class, intervals: trace.intervals });
    }
  });

  it('quotes only numbers of the evidence, rounded', () => {
    for (const { series, evidence, trace } of told) {
      const known = allowed(evidence, series, trace);
      for (const number of quoted(trace.think)) expect(known, `${series.id}: ${number}`).toContain(number);
    }
  });

  it('claims that a threshold is passed exactly where the evidence passes it', () => {
    for (const { evidence, trace } of told) {
      const { range, trend, frequency, profile } = evidence;
      expect(trace.think.includes('nothing is outside')).toBe(range.intervals.length === 0);
      if (trend !== null) {
        expect(trace.think.includes('; beyond it: ')).toBe(trend.peak > trend.threshold);
        expect(trace.think.includes('not beyond it')).toBe(trend.intervals.length === 0);
      }
      if (frequency !== null) expect(trace.think.includes(': stable.')).toBe(frequency.std < 1);
      if (profile !== null) {
        expect(trace.think.includes('not above 3.5: no discord')).toBe(profile.z <= 3.5);
        expect(/[^t] above 3\.5: a discord/.test(trace.think)).toBe(profile.z > 3.5);
      }
    }
  });

  it('stays short enough for a prefix of 512 tokens, at three characters a token', () => {
    for (const { trace } of told) expect(trace.think.length).toBeLessThan(1536);
  });
});

describe('teacher', () => {
  it('states gold intervals and class in all three parts', () => {
    const series = SERIES.find(({ intervals }) => intervals.length === 2)!;
    const { think } = teacher(analyse(series.values), series.intervals, series.class);
    const where = series.intervals.map(([start, end]) => `${start} to ${end}`).join(' and ');
    for (const part of think.split('\n')) {
      expect(part).toContain(where);
      expect(part).toContain(series.class);
    }
  });

  it('cites the family that covers the gold best, and says so when none does', () => {
    for (const series of SERIES) {
      const evidence = analyse(series.values);
      const { family, dissent } = cite(evidence, series.intervals);
      const trace = teacher(evidence, series.intervals, series.class);
      expect(trace.cited).toBe(family);
      if (series.intervals.length > 0)
        expect(trace.think.includes('evidence disagrees')).toBe(family === null);
      else expect(trace.think.includes('Against the evidence')).toBe(dissent.length > 0);
    }
  });

  it('lists a few intervals of many and gives their number, but answers with all', () => {
    const values = Float64Array.from({ length: 400 }, (_, i) => Math.sin(i / 5));
    const intervals = Array.from({ length: 12 }, (_, k) => [30 * k, 30 * k + 7] as const);
    const trace = teacher(analyse(values), intervals, 'contextual point');
    expect(trace.think).toContain('and others, 12 in all');
    expect(trace.think).not.toContain(`${30 * LONGEST_LIST} to`);
    expect(trace.text.match(/\[\d+, \d+\]/g)?.length).toBe(12);
  });
});

describe('blind', () => {
  it('accepts nothing but evidence, and evidence nothing but values', () => {
    expect(blind.length).toBe(1);
    expect(route.length).toBe(1);
  });

  it('reads most preset series rightly', () => {
    let classes = 0;
    for (let index = 0; index < 100; index++) {
      const series = nano5(42, 'test', index);
      if (route(analyse(series.values)).class === series.class) classes++;
    }
    expect(classes).toBeGreaterThan(85);
  });

  it('calls a repeating series normal, whose discord is rounding', () => {
    const clean = analyse(Float64Array.from({ length: 1000 }, (_, i) => Math.sin(0.06 * Math.PI * i)));
    expect(clean.profile?.distance).toBeLessThan(LEAST_DISTANCE);
    expect(route(clean)).toMatchObject({ family: null, class: 'normal', intervals: [] });
  });

  it.each([25, 40, 63, 150])('calls a noisy sine normal, whose discord is chance (period %i)', (period) => {
    for (let run = 0; run < 3; run++) {
      const random = new Random(run, 'noisy sine', period);
      const values = Float64Array.from(
        { length: 2000 },
        (_, i) => Math.sin((2 * Math.PI * i) / period) + random.normal(0, 0.05),
      );
      expect(route(analyse(values))).toMatchObject({ family: null, intervals: [] });
      expect(blind(analyse(values)).class).toBe('normal');
    }
  });

  it('does not let a profile decide that compared hardly any pairs', () => {
    const evidence = analyse(Float64Array.from({ length: 1_000_000 }, (_, i) => Math.sin(i / 10)));
    expect(evidence.profile?.share).toBeLessThan(0.001);
    expect(evidence.profile?.intervals.length).toBe(1);
    expect(route(evidence)).toMatchObject({ family: null, intervals: [] });
    expect(blind(evidence).think).toContain('which chance reaches too');
  });

  it('marks a spike itself, not the slopes that smoothing makes of it', () => {
    const values = Float64Array.from(
      { length: 1000 },
      (_, i) => Math.sin((2 * Math.PI * i) / 63) + (i >= 500 && i < 503 ? 3 : 0),
    );
    const evidence = analyse(values);
    expect(evidence.intervals('trend').length).toBeGreaterThan(0);
    expect(route(evidence)).toMatchObject({
      family: 'range',
      intervals: [[500, 503]],
      class: 'global point',
    });
    expect(blind(evidence).think).toContain('spike');
  });
});
