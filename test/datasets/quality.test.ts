import fc from 'fast-check';
import { describe, expect, it, test } from 'vitest';
import { wildSeries } from '../../datasets/generators/wild/wild.ts';
import { counterOf, FAULTS, rateOf, valueFaults } from '../../datasets/readers/quality.ts';
import { type Note, type RecordingOptions, readRecording } from '../../datasets/readers/recording.ts';
import { Random } from '../../src/ground/random.ts';

const DAY = 288;
const MIDNIGHT = Date.UTC(2025, 2, 3);
/** Stamp of a sample every five minutes, or at a time of its own in minutes. */
const stamp = (minutes: number): string => new Date(MIDNIGHT + minutes * 60_000).toISOString().slice(0, 16);

/** A day's wave with noise, to three decimals. */
function wave(samples = 6 * DAY): number[] {
  const draw = new Random(7, 'wave');
  return Array.from({ length: samples }, (_, i) =>
    Number((50 + 20 * Math.sin((2 * Math.PI * i) / DAY) + draw.normal()).toFixed(3)),
  );
}

/** Values that only rise, by 50 to 150 times `unit`. */
function risen(samples: number, unit = 1): number[] {
  const draw = new Random(8, 'counter');
  let sum = 0;
  return Array.from({ length: samples }, () => {
    sum += unit * draw.integer(50, 150);
    return sum;
  });
}

interface Made {
  readonly name?: string;
  readonly values: readonly (number | string)[];
  /** Minutes of each sample; default: one every five. */
  readonly minutes?: readonly number[];
  readonly head?: string;
  readonly row?: (value: number | string, i: number) => string;
}

function faults({ values, minutes, name = 'v', head, row }: Made, options: RecordingOptions = {}): Note[] {
  const rows = values.map((value, i) => row?.(value, i) ?? `${stamp(minutes?.[i] ?? 5 * i)},${value}`);
  const text = `${head ?? `time,${name}`}\n${rows.join('\n')}\n`;
  const { notes } = readRecording(new TextEncoder().encode(text), options);
  return notes.filter(({ kind }) => FAULTS.has(kind));
}

const calm = wave();
const kept = (wanted: (i: number) => boolean): Made => {
  const places = calm.map((_, i) => i).filter(wanted);
  return { values: places.map((i) => calm[i]!), minutes: places.map((i) => 5 * i) };
};
const atMost = (limit: number): number[] => calm.map((value) => Math.min(limit, value));
const still = (from: number, to: number): number[] =>
  calm.map((value, i) => (i >= from && i < to ? calm[from]! : value));
const german = (value: number): string => value.toLocaleString('de-DE');
const visitors = risen(100).map((_, i) => 300 + ((i * 7919) % 3700));
const germanRow = (value: number | string, i: number): string =>
  `${String((i % 28) + 1).padStart(2, '0')}.${String(Math.floor(i / 28) + 1).padStart(2, '0')}.2024;${value}`;

describe('a fault of the data', () => {
  const wrapped = risen(1000, 40_000_000 / 100).map((value) => value % 2 ** 32);
  const restarted = risen(1000).map((value, i) => (i < 600 ? value : value - risen(1000)[599]!));
  test.each<[string, Made, Partial<Note> & { readonly text: string }]>([
    [
      'a counter that wraps',
      { values: wrapped, name: 'bytes' },
      {
        kind: 'counter',
        column: 'bytes',
        count: 9,
        option: '--rate bytes',
        text: 'begins again 9 times, first in',
      },
    ],
    [
      'a counter that is reset',
      { values: restarted },
      { kind: 'counter', count: 1, lines: [602, 602], text: 'begins again 1 time, first in line 602' },
    ],
    [
      'a counter by its name',
      { values: risen(100), name: 'http_requests_total' },
      { kind: 'counter', count: 0, text: 'it only rises.' },
    ],
    [
      'a missing day',
      kept((i) => i < 3 * DAY || i >= 4 * DAY),
      { kind: 'gaps', count: DAY, lines: [865, 866], text: 'from 2025-03-05 23:55 to 2025-03-07 00:00' },
    ],
    [
      'a value that is repeated until the end',
      { values: still(6 * DAY - 40, 6 * DAY) },
      { kind: 'stuck', count: 40, lines: [1690, 1729], text: 'since 2025-03-08 20:40 (40 samples)' },
    ],
    [
      'a value that is stuck for hours',
      { values: still(700, 760) },
      { kind: 'stuck', count: 60, text: 'from 2025-03-05 10:20 to 2025-03-05 15:15' },
    ],
    [
      'a maximum that cuts',
      { values: atMost(65) },
      { kind: 'clipped', column: 'v', text: 'is clipped at its maximum 65 from' },
    ],
    [
      'a maximum that cuts rounded values',
      { values: atMost(65).map((value) => Math.round(10 * value) / 10) },
      { kind: 'clipped', column: 'v', text: 'is clipped at its maximum 65 from' },
    ],
    [
      'another interval',
      kept((i) => i < 1000 || i % 3 === 0),
      { kind: 'interval', count: 1, lines: [1001, 1001], text: 'from 5 min to 15 min at 2025-03-06 11:' },
    ],
    [
      'repeated stamps',
      { values: calm, minutes: calm.map((_, i) => 5 * (i === 100 ? 99 : i)) },
      { kind: 'duplicates', count: 1, lines: [101, 101], text: 'several rows of different values' },
    ],
    [
      'stamps that go back',
      { values: calm, minutes: calm.map((_, i) => 5 * i - (i >= 500 && i < 600 ? 602 : 0)) },
      { kind: 'sorted', count: 100, lines: [502, 502], text: 'out of order, the first in line 502' },
    ],
    [
      'points that may group thousands, in a German table',
      { values: visitors.map((value) => german(1000 + value)), head: 'Datum;Besucher', row: germanRow },
      {
        kind: 'ambiguous-number',
        column: 'Besucher',
        count: 100,
        option: '--decimal ,',
        text: 'reads "1.300" as 1300',
      },
    ],
    [
      'points that may group thousands, beside whole numbers below 1000',
      { values: visitors.map(german) },
      { kind: 'ambiguous-number', count: 82, text: 'in line' },
    ],
  ])('%s is told', (_, made, { text, ...expected }) => {
    const found = faults(made);
    const note = found.find(({ kind }) => kind === expected.kind);
    expect(note).toMatchObject(expected);
    expect(note!.text).toContain(text);
  });

  test.each<[string, Made]>([
    ['an ordinary series', { values: calm }],
    ['a gauge that rises', { values: calm.map((value, i) => value + i) }],
    ['a gauge that only rises', { values: risen(1000), name: 'disk' }],
    [
      'a gauge that rises and falls to 0 once',
      { values: risen(400).map((value, i) => (i === 300 ? 0 : value)) },
    ],
    [
      'whole numbers with many equal maxima',
      { values: calm.map((value) => Math.min(65, Math.round(value))) },
    ],
    ['a percentage that reaches 100', { values: calm.map((value) => Math.min(100, value + 40)) }],
    ['a column that rests most of the time', { values: calm.map((value) => Math.max(60, value)) }],
    ['on and off', { values: calm.map((value) => Number(value > 60)) }],
    ['a machine that is off at night', { values: calm.map((value, i) => (i % DAY < 90 ? 0 : value)) }],
    ['a step that is seldom changed', { values: calm.map((_, i) => Math.floor(i / 100)) }],
    ['a ramp of eight samples', { values: calm.map((_, i) => i % 8) }],
    [
      'a value that is renewed every tenth sample, once much later',
      { values: calm.map((_, i) => (Math.floor((i >= 500 && i < 600 ? 500 : i) / 10) * 7919) % 1000) },
    ],
    [
      'three decimals beside thousands',
      { values: calm.map((_, i) => (i % 2 === 0 ? `${1 + (i % 9)}.${100 + ((i * 37) % 900)}` : 2345 + i)) },
    ],
    ['seven equal samples', { values: still(700, 707) }],
    ['jittered stamps', { values: calm, minutes: calm.map((_, i) => 5 * i + (i % 7 === 0 ? 0.2 : 0)) }],
    ['rows from the last to the first', { values: calm, minutes: calm.map((_, i) => 5 * (calm.length - i)) }],
    ['three decimals', { values: calm.map((value) => value.toFixed(3)) }],
    [
      'German numbers with decimal commas',
      {
        values: calm.slice(0, 28).map((value) => String(value).replace('.', ',')),
        head: 'Datum;v',
        row: germanRow,
      },
    ],
    [
      'times since 1970 under a name that says it, or evenly spaced',
      { values: calm, head: 'clock,v', row: (value, i) => `${1_741_000_000 + 300 * i},${value}` },
    ],
  ])('%s is none', (_, made) => {
    expect(faults(made)).toEqual([]);
  });

  it('is found in few ordinary series', () => {
    const series = Array.from({ length: 200 }, (_, i) => wildSeries(42, 'test', i, 600));
    const wrong = series.filter(({ unmodified, example }) => {
      const saturated = example.facts!.components.includes('saturated');
      const found = valueFaults(unmodified).filter(({ kind }) => !(saturated && kind === 'clipped'));
      return counterOf(unmodified, 'v') !== null || found.length > 0;
    });
    expect(wrong.length).toBeLessThanOrEqual(1);
  });
});

describe('the option that treats a fault', () => {
  it('reads a counter as a rate per second over wraps; the rate at a reset is not known', () => {
    const made = { values: [10, 40, 70, 5, 65], minutes: [0, 1, 2, 3, 4] };
    const rates = (values: readonly (number | string)[], options: RecordingOptions): number[] => {
      const rows = values.map((value, i) => `${stamp(i)},${value}`);
      const text = `time,v\n${rows.join('\n')}\n`;
      return [...readRecording(new TextEncoder().encode(text), options).columns[0]!.values];
    };
    expect(rates(made.values, { rate: ['v'] })).toEqual([Number.NaN, 0.5, 0.5, Number.NaN, 1]);
    const wrap = [60_000, 63_000, 464, 3464].map((value) => value);
    expect(rates(wrap, { rate: [2] })).toEqual([Number.NaN, 50, 50, 50]);
    const all = risen(100).map((value) => value % 4096);
    expect(
      rates(all, { rate: ['auto'] })
        .slice(1)
        .every((rate, i) => (all[i + 1]! < all[i]! ? Number.isNaN(rate) : rate >= 0 && rate <= 150 / 60)),
    ).toBe(true);
    expect(rates(wave(50), { rate: ['auto'] })).toEqual(wave(50));
  });

  it('gives back the increases of any counter below its size', () => {
    const increases = fc.array(fc.integer({ min: 51, max: 1000 }), { minLength: 2, maxLength: 300 });
    fc.assert(
      fc.property(increases, fc.constantFrom(2 ** 16, 2 ** 32), fc.nat(1000), (steps, size, before) => {
        let sum = size - before - 1;
        const values = [sum, ...steps.map((step) => (sum += step))].map((value) => value % size);
        // A wrap is known by the usual increases, of which there must be one.
        fc.pre(values[1]! > values[0]!);
        expect([...rateOf(Float64Array.from(values), null)].slice(1)).toEqual(steps);
      }),
    );
  });

  it('reads points and commas as it says', () => {
    const text = 'time,v\n2025-03-01,1.234\n2025-03-02,987\n2025-03-03,2.345\n';
    const read = (decimal?: '.' | ','): number[] => [
      ...readRecording(new TextEncoder().encode(text), { decimal }).columns[0]!.values,
    ];
    expect(read(',')).toEqual([1234, 987, 2345]);
    expect(read('.')).toEqual([1.234, 987, 2.345]);
    expect(faults({ values: ['1.234', 987, '2.345'] }, { decimal: '.' })).toEqual([]);
    const decimals = new TextEncoder().encode(text.replace('987', '9.8'));
    expect(() => readRecording(decimals, { decimal: ',' })).toThrow(
      /"9.8" .* is not a number with --decimal ,/,
    );
  });

  it('names the columns where another is to be a rate', () => {
    expect(() => faults({ values: calm }, { rate: ['time'] })).toThrow(/--rate time: not among .* "v"/);
  });
});
