import { mkdtempSync, readdirSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterAll, describe, expect, test } from 'vitest';
import { VTA_TYPES } from '../../datasets/generators/vta.ts';
import { openTorch } from '../../src/engine/torch/torch.ts';
import { ConfigError, DataError } from '../../src/errors.ts';
import { agreement, classOf, explain, MOST_WINDOWS, tame } from '../../src/explain/explain.ts';
import {
  disagrees,
  type ExplainedWindow,
  type Explanation,
  explainPage,
  writeExplanation,
} from '../../src/explain/page.ts';
import { policyReader, type Reader } from '../../src/explain/reader.ts';
import { WriteError } from '../../src/files.ts';
import { figure } from '../../src/plot/figure.ts';
import { renderColumns } from '../../src/plot/raster.ts';
import { trainBpe } from '../../src/policy/bpe.ts';
import { Policy } from '../../src/policy/policy.ts';
import type { PolicyCard } from '../../src/tasks/card.ts';
import { blindTrace } from '../../src/tasks/kinds.ts';
import { ANOMALY_CLASSES } from '../../src/types.ts';
import { vta } from '../helpers/series.ts';
import { corpus } from '../policy/corpus.ts';

const shape = figure('nano');

/** Answers what `say` makes of each window; remembers what it was shown. */
function fake(
  say: (values: Float64Array, index: number) => string,
  change: Partial<Reader> = {},
): Reader & { readonly shown: Float64Array[] } {
  const shown: Float64Array[] = [];
  return {
    name: 'fake',
    length: 100,
    batch: 4,
    record: { parameters: 1 },
    caveats: ['It guesses.'],
    picture: (values) => renderColumns(shape, values),
    answer: async (windows) => windows.map((values) => say(values, shown.push(values) - 1)),
    shown,
    ...change,
  };
}

const reply = (intervals: string, label: string): string =>
  `<think>seen</think><answer>${intervals}</answer><class>${label}</class>`;
const NOTHING = reply('[]', 'normal');

/** Says where its values exceed 1, rounded outwards to tens. */
function threshold(values: Float64Array): string {
  const high = [...values.keys()].filter((i) => values[i]! > 1);
  if (high.length === 0) return NOTHING;
  const [start, end] = [Math.floor(high[0]! / 10) * 10, Math.ceil((high.at(-1)! + 1) / 10) * 10];
  return reply(`[[${start}, ${end}]]`, 'global point');
}

/** Period 4.7: 21 in 100 samples, which is what a policy taught on series of 100 points knows. */
function wave(length: number, bumps: readonly (readonly [number, number])[] = []): Float64Array {
  return Float64Array.from(
    { length },
    (_, i) => 0.6 * Math.sin(i / 0.75) + (bumps.some(([from, to]) => i >= from && i < to) ? 3 : 0),
  );
}

function source(values: Float64Array, time: readonly string[] | null = null) {
  return { file: 'x.csv', column: 'value', values, time };
}

describe('explain', () => {
  test('a series of the taught length is one window, answered once and believed', async () => {
    const reader = fake(() => reply('[[30, 50]]', 'seasonal'));
    const found = await explain(source(wave(100)), reader);
    expect(reader.shown.length).toBe(1);
    expect(reader.shown[0]).toEqual(wave(100));
    expect(found).toMatchObject({ class: 'seasonal', policy: 'fake', length: 100 });
    expect(found.intervals).toMatchObject([{ start: 30, end: 50, from: null, to: null }]);
    expect(found.windows).toMatchObject([{ start: 0, end: 100, intervals: [[30, 50]], problem: null }]);
  });

  test('answers are read as evaluation reads them: leniently, with what is wrong kept', async () => {
    const reader = fake(() => `Well. ${reply('[[30.0, 50.0], [70, 60]]', 'Seasonal')}`);
    const found = await explain(source(wave(100)), reader);
    expect(found).toMatchObject({ class: 'seasonal', intervals: [{ start: 30, end: 50 }] });
    expect(found.windows).toMatchObject([{ intervals: [[30, 50]], problem: 'text before <think>' }]);
  });

  test('a long series is answered in overlapping windows, mapped back and merged', async () => {
    const values = wave(350, [
      [95, 105],
      [240, 260],
    ]);
    const reader = fake(threshold);
    const progress: number[][] = [];
    const found = await explain(source(values), reader, {
      onProgress: (done, total) => progress.push([done, total]),
    });
    expect(found.windows.map(({ start, end }) => [start, end])).toEqual([
      [0, 100],
      [50, 150],
      [100, 200],
      [150, 250],
      [200, 300],
      [250, 350],
    ]);
    expect(progress).toEqual([
      [4, 6],
      [6, 6],
    ]);
    expect(found.intervals.map(({ start, end }) => [start, end])).toEqual([
      [90, 110],
      [240, 260],
    ]);
    expect(found.class).toBe('global point');
  });

  test('missing values are gaps of the plot, bridged for the policy and the analyses, and said', async () => {
    const values = wave(100, [[40, 50]]);
    const gappy = values.map((value, i) => (i === 7 || (i >= 60 && i < 64) ? Number.NaN : value));
    const reader = fake(threshold);
    const found = await explain(source(gappy), reader);
    const shown = reader.shown[0]!;
    expect(shown.every(Number.isFinite)).toBe(true);
    expect(shown[7]).toBeCloseTo((values[6]! + values[8]!) / 2, 12);
    expect(shown[61]).toBeCloseTo(values[59]! + (2 / 5) * (values[64]! - values[59]!), 12);
    expect(found.intervals).toMatchObject([{ start: 40, end: 50 }]);
    expect(found.caveats.join(' ')).toContain(
      '5 values are missing (2 gaps, the longest of 4). The plot leaves them out; for the analyses and the policy straight lines bridge them.',
    );
    expect(found.classical.trace).toContain('5 samples are missing (2 gaps, the longest of 4)');
    const lines = (figure: string): number => figure.split(/[MV]|NaN/).length;
    const whole = await explain(source(values), fake(threshold));
    expect(lines(found.figure)).not.toBe(lines(whole.figure));
    expect(found.figure).not.toContain('NaN');
    expect(whole.caveats.join(' ')).not.toContain('missing');
    await expect(explain(source(new Float64Array(20).fill(Number.NaN)), reader)).rejects.toThrow(DataError);
  });

  test('a short series is resampled to the taught length and its answer mapped back', async () => {
    const reader = fake(threshold);
    const found = await explain(source(wave(25, [[10, 15]])), reader);
    expect(reader.shown.map(({ length }) => length)).toEqual([100]);
    const { start, end } = found.intervals[0]!;
    // The reader's tens are 2.5 samples here.
    expect(Math.abs(start - 10)).toBeLessThanOrEqual(3);
    expect(Math.abs(end - 15)).toBeLessThanOrEqual(3);
    expect(found.caveats.join(' ')).toMatch(/25 samples are few/);
    expect(found.caveats.join(' ')).toMatch(/windows of 25 samples, resampled to 100 points/);
  });

  test('a series on another time scale is seen in windows with as many periods as in training', async () => {
    const slow = Float64Array.from({ length: 6000 }, (_, i) => Math.sin((2 * Math.PI * i) / 60));
    const reader = fake(() => NOTHING);
    const found = await explain(source(slow), reader);
    const width = found.windows[0]!.end - found.windows[0]!.start;
    expect(width).toBeGreaterThan(20 * 60);
    expect(width).toBeLessThan(24 * 60);
    expect(reader.shown.every(({ length }) => length === 100)).toBe(true);
    expect(found.caveats.join(' ')).toMatch(/about 22 periods each/);
    const asked = fake(() => NOTHING);
    await explain(source(slow), asked, { window: 3000, overlap: 0 });
    expect(asked.shown.length).toBe(2);
  });

  test('two samples are enough', async () => {
    const found = await explain(
      source(Float64Array.of(1, 4)),
      fake(() => reply('[[50, 100]]', 'trend')),
    );
    expect(found.intervals).toMatchObject([{ start: 1, end: 2 }]);
    expect(explainPage(found)).toContain('too short');
    await expect(explain(source(Float64Array.of(1)), null)).rejects.toThrow(DataError);
  });

  test('a reader without a taught length sees windows as they are, up to a limit', async () => {
    const any = fake(() => NOTHING, { length: null });
    await explain(source(wave(777)), any);
    expect(any.shown.map(({ length }) => length)).toEqual([777]);
    const long = fake(() => NOTHING, { length: null });
    await explain(source(wave(5000)), long, { overlap: 0 });
    expect(long.shown.map(({ length }) => length)).toEqual([2000, 2000, 2000]);
  });

  test('unreadable windows are counted, kept verbatim, and find nothing', async () => {
    const garbage = '<think>half';
    const reader = fake((values, i) => (i === 1 ? garbage : threshold(values)));
    const found = await explain(source(wave(250, [[120, 130]])), reader);
    expect(found.windows[1]).toMatchObject({ intervals: null, response: garbage });
    expect(found.windows[1]!.problem).not.toBeNull();
    expect(found.intervals).toMatchObject([{ start: 120, end: 130 }]);
    const page = explainPage(found);
    expect(page).toContain('1 of 4 windows got an answer that could not be read');
    expect(page).toContain('&lt;think&gt;half');
  });

  test('a policy that says nothing readable is not called normal', async () => {
    const found = await explain(
      source(wave(250)),
      fake(() => '<script>alert(1)</script>'),
    );
    expect(found).toMatchObject({ class: 'unreadable', intervals: [] });
    expect(found.classical.agreement).toBeUndefined();
    const page = explainPage(found);
    expect(page).toContain('The policy gave no answer that could be read.');
    expect(page).not.toContain('<script>alert');
  });

  test('contradictions between class and intervals are said', async () => {
    const found = await explain(
      source(wave(100)),
      fake(() => reply('[[10, 20]]', 'normal')),
    );
    expect(found.caveats.join(' ')).toMatch(/1 of 1 windows the class and the intervals contradict/);
    expect(found.intervals.length).toBe(1);
  });

  test('a constant series is normal, and nobody is asked', async () => {
    const reader = fake(() => reply('[[10, 20]]', 'trend'));
    const found = await explain(source(new Float64Array(500).fill(7)), reader);
    expect(reader.shown).toEqual([]);
    expect(found).toMatchObject({ class: 'normal', intervals: [], policy: null, windows: [] });
    expect(found.classical).toMatchObject({ class: 'normal', intervals: [] });
    expect(found.caveats.join(' ')).toMatch(/Every value is the same/);
  });

  test('without a policy says what the blind expert says, cycle test included', async () => {
    for (const type of VTA_TYPES) {
      const { values } = vta(type, 3407, 'train', 0);
      const { classical } = await explain(source(values), null);
      const { think, answer } = blindTrace({ channels: [values], names: ['v'] }, 'anomaly', null);
      expect(answer).toMatchObject({ class: classical.class, intervals: classical.intervals });
      expect(classical.trace).toBe(think);
      const cycle = classical.evidence.find(({ name }) => name === 'Cycle test')!;
      expect(cycle.intervals, type).toEqual(classical.intervals);
      expect(cycle.finding).toMatch(/unlike the same phase of the other cycles/);
    }
    const { classical } = await explain(source(wave(600)), null);
    expect(classical.evidence.find(({ name }) => name === 'Cycle test')!.finding).toMatch(/not repeat/);
  });

  test.each([[1e300], [1.5e308], [3e-305]])(
    'values of the order of %s are explained in units that can be squared',
    async (size) => {
      const values = wave(600, [[300, 310]]);
      const scaled = values.map((value) => (value / 4) * size);
      const [plain, extreme] = [await explain(source(values), null), await explain(source(scaled), null)];
      expect(plain.classical.intervals.length).toBeGreaterThan(0);
      expect(extreme.classical.intervals).toEqual(plain.classical.intervals);
      expect(extreme.class).toBe(plain.class);
      expect(extreme.caveats.join(' ')).toContain(`in units of 1e${tame(scaled).exponent}.`);
      const range = extreme.classical.evidence.find(({ name }) => name === 'Range test')!.numbers;
      expect(range['std']).toBeGreaterThan(0.1);
      expect(range['std']).toBeLessThan(10);
    },
  );

  test('a million samples take a bounded number of windows', { timeout: 120_000 }, async () => {
    const values = wave(1_000_000, [[500_000, 500_040]]);
    const reader = fake(threshold, { batch: 64 });
    const found = await explain(source(values), reader);
    expect(found.windows.length).toBeLessThanOrEqual(MOST_WINDOWS);
    expect(found.windows.length).toBeGreaterThan(MOST_WINDOWS - 10);
    expect(reader.shown.every(({ length }) => length === 100)).toBe(true);
    expect(found.intervals.some(({ start, end }) => start < 500_040 && end > 500_000)).toBe(true);
    expect(explainPage(found).length).toBeLessThan(1_000_000);
  });

  test('the classical side stands alone without a reader, and states agreement with one', async () => {
    const values = wave(600, [[300, 310]]);
    const alone = await explain(source(values), null);
    expect(alone).toMatchObject({ policy: null, windows: [], class: alone.classical.class });
    expect(alone.intervals.map(({ start, end }) => [start, end])).toEqual(alone.classical.intervals);
    const [start, end] = alone.classical.intervals[0]!;
    const reader = fake(() => reply(`[[${start}, ${end + 10}]]`, 'global point'), { length: 600 });
    const both = await explain(source(values), reader);
    const covered = alone.classical.intervals.reduce((sum, one) => sum + one[1] - one[0], 0);
    expect(alone.classical.intervals.length).toBe(1);
    expect(both.classical.agreement).toBeCloseTo(covered / (covered + 10), 12);
    expect(both.classical.intervals).toEqual(alone.classical.intervals);
    expect(both.intervals[0]!.confirmed).toBe(true);
    expect(both.caveats).toContain('It guesses.');
    expect(alone.caveats).not.toContain('It guesses.');
    expect(explainPage(both)).toContain('intersection over union');
    await expect(explain(source(values), null, { window: 50 })).rejects.toThrow(ConfigError);
  });

  test('a policy that overlooks what the classical analyses find is contradicted in the lead', async () => {
    const values = wave(600, [[300, 310]]);
    const quiet = await explain(
      source(values),
      fake(() => NOTHING, { length: 600 }),
    );
    const [start, end] = quiet.classical.intervals[0]!;
    expect(quiet.intervals).toEqual([]);
    expect(disagrees(quiet)).toBe(true);
    expect(explainPage(quiet)).toContain(
      `The classical analyses disagree: [${start},\u00a0${end}) ${quiet.classical.class}`,
    );
    const same = await explain(
      source(values),
      fake(() => reply(`[[${start}, ${end}]]`, 'global point'), { length: 600 }),
    );
    expect(disagrees(same)).toBe(false);
    expect(explainPage(same)).not.toContain('disagree');
    const alarmed = await explain(
      source(wave(100)),
      fake(() => reply('[[30, 50]]', 'seasonal')),
    );
    expect(explainPage(alarmed)).toContain('The classical analyses disagree: they find nothing');
    expect(disagrees(await explain(source(values), null))).toBe(false);
  });

  test('intervals carry the time stamps of their first and last sample', async () => {
    const time = Array.from({ length: 100 }, (_, i) => `day ${i}`);
    const found = await explain(
      source(wave(100), time),
      fake(() => reply('[[30, 50]]', 'seasonal')),
    );
    expect(found.intervals[0]).toMatchObject({ from: 'day 30', to: 'day 49' });
    expect(explainPage(found)).toContain('day 49');
  });

  test('what the policy saw is in the page, window by window', async () => {
    const found = await explain(
      source(wave(250)),
      fake(() => NOTHING),
    );
    expect(found.windows.length).toBe(4);
    for (const { seen } of found.windows) expect(seen).toMatch(/^data:image\/png;base64,iVBOR/);
    expect(explainPage(found).match(/as the policy sees it/g)!.length).toBe(4);
  });
});

test.each([
  ['a file stands in the way', 'x.csv/foo'],
  ['the name is too long', 'n'.repeat(250)],
])('what cannot be written is one WriteError, and leaves nothing: %s', async (_, name) => {
  const directory = mkdtempSync(join(tmpdir(), 'explain-'));
  try {
    writeFileSync(join(directory, 'x.csv'), '1\n2\n');
    const found = await explain(source(wave(30)), null);
    expect(() => writeExplanation(join(directory, name), found)).toThrow(WriteError);
    expect(readdirSync(directory)).toEqual(['x.csv']);
  } finally {
    rmSync(directory, { recursive: true });
  }
});

describe('classOf', () => {
  const window = (intervals: ExplainedWindow['intervals'], label: string | null): ExplainedWindow => ({
    start: 0,
    end: 100,
    intervals,
    class: label,
    response: '',
    problem: null,
  });

  test('the class with the most samples that survived the merge', () => {
    const windows = [
      window([[0, 30]], 'trend'),
      window([[40, 50]], 'seasonal'),
      window([[60, 75]], 'seasonal'),
    ];
    expect(classOf(windows, [[0, 80]])).toBe('trend');
    expect(classOf(windows, [[20, 80]])).toBe('seasonal');
  });

  test('normal without anomalies, unreadable without an answer, a named class before a contradiction', () => {
    expect(classOf([window([[0, 9]], 'trend'), window([], 'normal')], [])).toBe('normal');
    expect(classOf([window(null, 'trend'), window(null, null)], [])).toBe('unreadable');
    expect(classOf([window([[0, 90]], 'normal'), window([[5, 9]], 'trend')], [[0, 90]])).toBe('trend');
    expect(classOf([window([[0, 90]], 'normal')], [[0, 90]])).toBe('normal');
  });
});

test('agreement is intersection over union', () => {
  expect(agreement([[10, 20]], [[15, 40]])).toBeCloseTo(5 / 30, 12);
  expect(agreement([[10, 20]], [])).toBe(0);
  expect(agreement([], [])).toBe(1);
});

describe('tame', () => {
  test('leaves ordinary values alone and refuses what is not finite', () => {
    const values = Float64Array.of(0, -3e99, 2);
    expect(tame(values)).toEqual({ values, exponent: 0 });
    expect(tame(values).values).toBe(values);
    expect([...tame(Float64Array.of(1, Number.NaN)).values]).toEqual([1, Number.NaN]);
    expect([...tame(Float64Array.of(1e200, Number.NaN, -1e199)).values]).toEqual([1, Number.NaN, -0.1]);
    expect(() => tame(Float64Array.of(1, Number.NEGATIVE_INFINITY))).toThrow(DataError);
  });

  test('divides the extremes by a power of ten', () => {
    const large = tame(Float64Array.of(Number.MAX_VALUE, -1e307));
    expect(large.exponent).toBe(308);
    expect(large.values[0]).toBeCloseTo(1.7976931348623157, 12);
    expect(large.values[1]).toBeCloseTo(-0.1, 12);
    const small = tame(Float64Array.of(5e-310, 2.5e-310));
    expect(small.exponent).toBe(-310);
    expect(small.values[1]! / small.values[0]!).toBeCloseTo(0.5, 6);
  });
});

describe('policyReader', () => {
  const engine = openTorch({ threads: 1 });
  const policy = Policy.create(engine, { tokenizer: trainBpe(corpus(200)), seed: 11 });
  afterAll(() => policy.dispose());
  const card: PolicyCard = {
    version: 1,
    style: 'nano',
    figure: 'nano',
    length: 100,
    kind: 'anomaly',
    task: 'nano5',
    channels: 1,
    numbers: null,
    classes: [...ANOMALY_CLASSES],
    limitations: [],
    stage: 'initial',
  };
  const reader = policyReader(policy, card, {
    name: 'tiny',
    picture: (values) => renderColumns(shape, values),
  });

  test('asks the policy about every window, and repeats itself', async () => {
    const born = engine.live();
    const run = (): Promise<Explanation> => explain(source(wave(500, [[300, 340]])), reader);
    const [first, second] = [await run(), await run()];
    expect(first.windows.length).toBe(9);
    expect(first.windows.every(({ response }) => response.length > 0)).toBe(true);
    expect(second).toEqual(first);
    expect(first.environment).toMatchObject({ policy: { parameters: policy.layout.size, figure: 'nano' } });
    expect(engine.live()).toBe(born);
  });
});
