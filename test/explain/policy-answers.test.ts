import { afterAll, describe, expect, test } from 'vitest';
import { torchPolicy } from '../../src/answer/local.ts';
import type { Detection } from '../../src/detect/finding.ts';
import { say } from '../../src/detect/sentence.ts';
import { openTorch } from '../../src/engine/torch/torch.ts';
import {
  askColumn,
  type ColumnAnswers,
  classOf,
  inspectColumn,
  tame,
} from '../../src/explain/policy-answers.ts';
import { shownAnswers } from '../../src/explain/policy-words.ts';
import { policyReader, type Reader } from '../../src/explain/reader.ts';
import { MOST_WINDOWS } from '../../src/explain/windows.ts';
import { ConfigError } from '../../src/ground/errors.ts';
import { ANOMALY_CLASSES } from '../../src/ground/types.ts';
import { figure } from '../../src/plot/figure.ts';
import { renderColumns } from '../../src/plot/raster.ts';
import { Policy } from '../../src/policy/policy.ts';
import { trainBpe } from '../../src/policy/tokenizer.ts';
import type { PolicyCard } from '../../src/tasks/card.ts';
import { makeReference } from '../../src/tasks/reference.ts';
import { corpus } from '../policy/corpus.ts';

const shape = figure('nano');

interface Fake extends Reader {
  readonly shown: Float64Array[];
  /** Windows that were asked again. */
  readonly drawn: Float64Array[];
}

/** Answers what `say` makes of each window, again and again; remembers what it was shown. */
function fake(say: (values: Float64Array, index: number) => string, change: Partial<Reader> = {}): Fake {
  const shown: Float64Array[] = [];
  const drawn: Float64Array[] = [];
  return {
    name: 'fake',
    length: 100,
    batch: 4,
    record: { parameters: 1 },
    caveats: ['It guesses.'],
    reference: null,
    scales: false,
    confidence: null,
    picture: (values) => renderColumns(shape, values),
    answer: async (windows) =>
      windows.map((values) => ({
        text: say(values, shown.push(values) - 1),
        logProbability: -0.1,
        distance: null,
        input: values.join(),
        cells: null,
      })),
    sample: async (windows, { samples }) =>
      windows.map((values) => Array.from({ length: samples }, () => say(values, drawn.push(values)))),
    shown,
    drawn,
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

const column = (values: Float64Array, season: number | null = null) => ({
  ...{ name: 'value', values },
  detection: {
    ...{ score: new Float64Array(values.length), expected: values, low: values, high: values },
    leftOut: { severity: 0, direction: 0, change: 0, share: 0 },
    ...{ findings: [], structure: say`None.`, seasons: season === null ? [] : [season] },
  } satisfies Detection,
});

describe('asking a policy about a column', () => {
  test('a series of the taught length is one window, answered greedily once and at random four times', async () => {
    const reader = fake(() => reply('[[30, 50]]', 'seasonal'));
    const said = await askColumn(column(wave(100)), reader);
    expect(reader.shown).toEqual([wave(100)]);
    expect(reader.drawn).toHaveLength(4);
    expect(said).toMatchObject({ status: 'answers', class: 'seasonal', window: 100, intervals: [[30, 50]] });
    expect(said.answers).toMatchObject([
      { start: 0, end: 100, intervals: [[30, 50]], problem: null, sampleAgreement: 1, shiftAgreement: null },
    ]);
    expect(said.statement).toBe('Marks one interval, most of it called change of rhythm.');
  });

  test('answers are read as evaluation reads them: leniently, with what is wrong kept', async () => {
    const reader = fake(() => `Well. ${reply('[[30.0, 50.0], [70, 60]]', 'Seasonal')}`);
    const said = await askColumn(column(wave(100)), reader);
    expect(said).toMatchObject({ class: 'seasonal', intervals: [[30, 50]] });
    expect(said.answers).toMatchObject([{ problem: 'text before <think>' }]);
  });

  test('a long series is answered in overlapping windows, mapped back and merged', async () => {
    const values = wave(350, [
      [95, 105],
      [240, 260],
    ]);
    const reader = fake(threshold);
    const progress: number[][] = [];
    const said = await askColumn(column(values), reader, {
      onProgress: (done, total) => progress.push([done, total]),
    });
    expect(said.answers.map(({ start, end }) => [start, end])).toEqual([
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
    expect(said.intervals).toEqual([
      [90, 110],
      [240, 260],
    ]);
    expect(said).toMatchObject({ status: 'answers', doubtful: 0, class: 'global point' });
  });

  test('missing values are bridged for the policy', async () => {
    const values = wave(100, [[40, 50]]);
    const gappy = values.map((value, i) => (i === 7 || (i >= 60 && i < 64) ? Number.NaN : value));
    const reader = fake(threshold);
    const said = await askColumn(column(gappy), reader);
    const shown = reader.shown[0]!;
    expect(shown[7]).toBeCloseTo((values[6]! + values[8]!) / 2, 12);
    expect(shown[61]).toBeCloseTo(values[59]! + (2 / 5) * (values[64]! - values[59]!), 12);
    expect(said.intervals).toEqual([[40, 50]]);
  });

  test('a short series is resampled to the taught length and its answer mapped back', async () => {
    const reader = fake(threshold);
    const said = await askColumn(column(wave(25, [[10, 15]])), reader);
    expect(reader.shown.map(({ length }) => length)).toEqual([100]);
    const [start, end] = said.intervals[0]!;
    // The reader's tens are 2.5 samples here.
    expect(Math.abs(start - 10)).toBeLessThanOrEqual(3);
    expect(Math.abs(end - 15)).toBeLessThanOrEqual(3);
    expect(said.window).toBe(25);
  });

  test('a series on another time scale is seen in windows with as many periods as in training', async () => {
    const slow = Float64Array.from({ length: 6000 }, (_, i) => Math.sin((2 * Math.PI * i) / 60));
    const reader = fake(() => NOTHING);
    const said = await askColumn(column(slow, 60), reader);
    expect(said.window).toBeGreaterThan(20 * 60);
    expect(said.window).toBeLessThan(24 * 60);
    expect(reader.shown.every(({ length }) => length === 100)).toBe(true);
    const asked = fake(() => NOTHING);
    await askColumn(column(slow, 60), asked, { window: 3000, overlap: 0 });
    expect(asked.shown.length).toBe(2);
    await expect(askColumn(column(slow), asked, { window: 1 })).rejects.toThrow(ConfigError);
  });

  test('a reader without a taught length sees windows as they are, up to a limit', async () => {
    const any = fake(() => NOTHING, { length: null });
    await askColumn(column(wave(777)), any);
    expect(any.shown.map(({ length }) => length)).toEqual([777]);
    const long = fake(() => NOTHING, { length: null });
    await askColumn(column(wave(5000)), long, { overlap: 0 });
    expect(long.shown.map(({ length }) => length)).toEqual([2000, 2000, 2000]);
  });

  test('a window that cannot be read is left out, kept verbatim, and the others count', async () => {
    const garbage = '<think>half';
    const bump = wave(650, [[120, 130]]);
    const reader = fake((values, i) => (values[0] === bump[100] || i === 1e9 ? garbage : threshold(values)));
    const said = await askColumn(column(bump), reader);
    expect(said.answers[2]).toMatchObject({ intervals: null, response: garbage });
    expect(said.answers[2]!.doubts).toContain('unreadable');
    expect(said).toMatchObject({ status: 'answers', intervals: [[120, 130]] });
    expect(said.statement).toMatch(
      /1 of 12 windows is left out because .* 1 has an answer that cannot be read/,
    );
  });

  test('a policy that says nothing readable abstains', async () => {
    const said = await askColumn(
      column(wave(250)),
      fake(() => '<script>alert(1)</script>'),
    );
    expect(said).toMatchObject({ status: 'abstains', intervals: [], class: null, doubtful: 4 });
    expect(said.statement).toMatch(
      /^Abstains: 4 of 4 windows \(100 %, limit \d+ %\) cannot be trusted: 4 have an answer/,
    );
  });

  test('a policy that marks the same place of every window whatever is there abstains', async () => {
    const said = await askColumn(
      column(wave(1003)),
      fake(() => reply('[[10, 30]]', 'trend')),
    );
    expect(said).toMatchObject({ status: 'abstains', intervals: [] });
    expect(said.answers.every(({ doubts }) => doubts.includes('repeated') && doubts.includes('shifts'))).toBe(
      true,
    );
    expect(said.answers).toHaveLength(20);
  });

  test('a policy that says something else every time abstains', async () => {
    const reader = fake((_, i) => reply(`[[${(17 * i) % 80}, ${((17 * i) % 80) + 9}]]`, 'trend'));
    const said = await askColumn(column(wave(100)), reader);
    expect(said.answers[0]!.doubts).toEqual(['samples']);
    expect(said.status).toBe('abstains');
  });

  test('windows unlike what was taught have no vote', async () => {
    const values = wave(650, [[620, 630]]);
    const states = Array.from({ length: 60 }, (_, i) => Float32Array.of(Math.sin(i)));
    const reference = makeReference(states, states, [-1]);
    const plain = fake(threshold);
    const reader = fake(threshold, {
      reference,
      answer: async (windows) =>
        (await plain.answer(windows)).map((one, i) => ({
          ...one,
          distance: Math.max(...windows[i]!) > 1 ? 99 : 1,
        })),
    });
    const said = await askColumn(column(values), reader);
    expect(said.answers.filter(({ doubts }) => doubts.includes('unlike'))).toHaveLength(1);
    expect(said).toMatchObject({ status: 'answers', intervals: [] });
    expect(said.statement).toMatch(
      /^Marks nothing; 1 of 12 windows is left out because it .* looks unlike its training data/,
    );
  });

  test('a column of one value, or of none, is not asked about', async () => {
    const reader = fake(() => reply('[[10, 20]]', 'trend'));
    for (const values of [new Float64Array(500).fill(7), new Float64Array(20).fill(Number.NaN)]) {
      expect(await askColumn(column(values), reader)).toMatchObject({
        status: 'not asked',
        intervals: [],
        answers: [],
        window: null,
      });
    }
    expect(reader.shown).toEqual([]);
  });

  test('a million samples take a bounded number of windows, few of which are asked again', async () => {
    const values = wave(1_000_000, [[500_000, 500_040]]);
    const reader = fake(threshold, { batch: 64 });
    const said = await askColumn(column(values), reader);
    expect(said.answers.length).toBeLessThanOrEqual(MOST_WINDOWS);
    expect(said.answers.length).toBeGreaterThan(MOST_WINDOWS - 10);
    expect(reader.drawn.length).toBeLessThanOrEqual(64 * 4);
    expect(reader.shown.every(({ length }) => length === 100)).toBe(true);
    expect(said.intervals.some(([start, end]) => start < 500_040 && end > 500_000)).toBe(true);
    expect(said.seen.size).toBeLessThanOrEqual(12);
  });

  test('what the policy saw is kept of the windows that are shown: those that mark something first', async () => {
    const said = await askColumn(column(wave(1500, [[1420, 1430]])), fake(threshold));
    const shown = shownAnswers(said.answers);
    expect(shown).toHaveLength(12);
    expect(shown.some(({ intervals }) => intervals!.length > 0)).toBe(true);
    expect([...said.seen.keys()]).toEqual(shown.map(({ start, end }) => `${start}-${end}`));
    for (const picture of said.seen.values()) expect(picture).toMatch(/^data:image\/png;base64,iVBOR/);
  });
});

describe('a policy that is shown several scales', () => {
  const fitted = { data: 'x', series: 1, intervals: 1, right: 1 };
  const weights = { own: 1, neighbours: 0.5, scales: 0.5, size: 0.3, windows: 0, rarity: 0 };
  const evidence = { constant: 0, weights: { policy: 1, severity: 0.5, findings: -0.5, marks: -0.1 } };
  const confidence = { version: 2 as const, constant: 0, weights, evidence, fitted };

  /** Ten cells; sees in each whether values exceed 1, and marks the first stretch of such cells. */
  const seer = (change: Partial<Reader> = {}): Fake => {
    const reader: Fake = fake(() => NOTHING, {
      scales: true,
      confidence,
      answer: async (windows) =>
        windows.map((values) => {
          reader.shown.push(values);
          const cells = Array.from({ length: 10 }, (_, c) =>
            values.subarray(10 * c, 10 * c + 10).some((v) => v > 1),
          );
          // Where all is high, nothing departs.
          const high = cells.every(Boolean) ? cells.map(() => false) : cells;
          const [first, last] = [high.indexOf(true), high.lastIndexOf(true)];
          const whole = first >= 0 && high.slice(first, last + 1).every(Boolean);
          return {
            text: whole ? reply(`[[${10 * first}, ${10 * last + 10}]]`, 'trend') : NOTHING,
            logProbability: -0.1,
            distance: 99,
            input: values.join(),
            cells: high.map((one) => (one ? 0.9 : 0.02)),
          };
        }),
      ...change,
    });
    return reader;
  };

  test('is asked at its own scale, a fourth, a sixteenth of it, and never at random', async () => {
    const reader = seer();
    const said = await askColumn(column(wave(900), 30), reader);
    const sizes = said.answers.map(({ start, end }) => end - start);
    expect(new Set(sizes)).toEqual(new Set([100, 400, 900]));
    expect(sizes.filter((size) => size === 100)).toHaveLength(17);
    expect(sizes.filter((size) => size === 400)).toHaveLength(4);
    expect(sizes.filter((size) => size === 900)).toHaveLength(1);
    expect(reader.drawn).toEqual([]);
    expect(reader.shown.every(({ length }) => length === 100)).toBe(true);
    expect(said.window).toBe(100);
  });

  test('finds what is longer than a window by a coarser one, with a confidence', async () => {
    const values = wave(900, [[330, 560]]);
    const said = await askColumn(column(values), seer());
    expect(said.status).toBe('answers');
    const long = said.intervals.find(([start, end]) => end - start > 150);
    expect(long).toBeDefined();
    expect(said.confidences).toHaveLength(said.intervals.length);
    for (const one of said.confidences!) expect(one).toBeGreaterThan(0.4);
    expect([...said.seen.keys()].length).toBeGreaterThan(0);
  });

  test('sees each window without its season too, where its confidence was fitted so', async () => {
    const season = Float64Array.from({ length: 300 }, (_, i) => (i % 40 < 20 ? 2 : 0));
    const values = season.map((value, i) => value + (i >= 212 && i < 228 ? 3 : 0));
    const both = seer({ confidence: { ...confidence, deseasonalised: true } });
    const said = await askColumn(column(values), both, { usual: season });
    const without = said.answers.filter(({ deseasonalised }) => deseasonalised);
    expect(without.map(({ start, end }) => [start, end])).toEqual(
      said.answers.filter(({ deseasonalised }) => !deseasonalised).map(({ start, end }) => [start, end]),
    );
    expect(
      without.some(({ intervals }) => intervals?.some(([start, end]) => start >= 200 && end <= 240)),
    ).toBe(true);
    expect(both.shown.some((window) => window.every((value) => value === 0))).toBe(true);
    expect([...said.seen.keys()]).toContain('200-300 deseasonalised');
    const alone = await askColumn(column(values), seer(), { usual: season });
    expect(alone.answers.some(({ deseasonalised }) => deseasonalised)).toBe(false);
  });

  test('is not asked about what ends before the first sample of interest', async () => {
    const values = wave(900, [
      [120, 140],
      [730, 750],
    ]);
    const said = await askColumn(column(values), seer(), { from: 600 });
    expect(Math.min(...said.answers.map(({ end }) => end))).toBeGreaterThan(600);
    expect(said.answers.length).toBeGreaterThan(5);
    expect(said.intervals.map(([start, end]) => start < 750 && end > 730)).toEqual([true]);
  });

  test('sees what is of interest in as many windows, however much comes before it', async () => {
    const asked = async (length: number) => {
      const options = { limit: 40, from: length - 900 };
      return (await askColumn(column(wave(length, [])), seer(), options)).answers.map(
        ({ start, end }) => end - start,
      );
    };
    const [alone, behind] = [await asked(900), await asked(9000)];
    expect(Math.min(...behind)).toBeLessThanOrEqual(Math.min(...alone));
    expect(behind.length).toBeLessThanOrEqual(40 + 3);
  });

  test('has no confidence to tell where none was measured', async () => {
    const said = await askColumn(column(wave(300, [[130, 150]])), seer({ confidence: null }));
    expect(said.confidences).toBeNull();
    expect(said.intervals.some(([start, end]) => start < 150 && end > 130)).toBe(true);
  });

  test('is not silenced by doubts that confidences weigh', async () => {
    const states = Array.from({ length: 60 }, (_, i) => Float32Array.of(Math.sin(i)));
    const reference = makeReference(states, states, [-1]);
    const said = await askColumn(column(wave(700, [[330, 350]])), seer({ reference }));
    expect(said).toMatchObject({ status: 'answers', doubtful: 0 });
    expect(said.intervals).toHaveLength(1);
    expect(said.signals.find(({ name }) => name === 'unlike')).toMatchObject({ limit: null, value: 99 });
  });
});

describe('classOf', () => {
  test('the class with the most samples that survived the merge, a named one before a contradiction', () => {
    const answers = [
      { intervals: [[0, 30]], class: 'trend' },
      { intervals: [[40, 50]], class: 'seasonal' },
      { intervals: [[60, 75]], class: 'seasonal' },
    ] as { intervals: [number, number][]; class: string }[];
    expect(classOf(answers, [[0, 80]])).toBe('trend');
    expect(classOf(answers, [[20, 80]])).toBe('seasonal');
    expect(classOf(answers, [])).toBeNull();
    expect(
      classOf(
        [
          { intervals: [[0, 90]], class: 'normal' },
          { intervals: [[5, 9]], class: 'trend' },
        ],
        [[0, 90]],
      ),
    ).toBe('trend');
    expect(classOf([{ intervals: null, class: 'trend' }], [[0, 90]])).toBeNull();
  });
});

describe('tame', () => {
  test('leaves ordinary values alone', () => {
    const values = Float64Array.of(0, -3e99, Number.NaN);
    expect(tame(values)).toBe(values);
  });

  test('divides the extremes by a power of ten', () => {
    expect([...tame(Float64Array.of(1e200, Number.NaN, -1e199))]).toEqual([1, Number.NaN, -0.1]);
    const large = tame(Float64Array.of(Number.MAX_VALUE, -1e307));
    expect(large[0]).toBeCloseTo(1.7976931348623157, 12);
    expect(large[1]).toBeCloseTo(-0.1, 12);
    const small = tame(Float64Array.of(5e-310, 2.5e-310));
    expect(small[1]! / small[0]!).toBeCloseTo(0.5, 6);
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
  const states = Array.from({ length: 9 }, (_, i) =>
    Float32Array.from({ length: policy.dims.width }, (_, d) => Math.sin(i * d)),
  );
  const reader = policyReader(torchPolicy(policy), card, {
    name: 'tiny',
    reference: makeReference(states, states, [-1]),
    confidence: null,
    picture: (values) => renderColumns(shape, values),
  });

  test('asks the policy about every window, and repeats itself', async () => {
    const born = engine.live();
    const run = (): Promise<ColumnAnswers> => askColumn(column(wave(500, [[300, 340]])), reader);
    const [first, second] = [await run(), await run()];
    expect(first.answers.length).toBe(9);
    expect(first.answers.every(({ response }) => response.length > 0)).toBe(true);
    expect(second).toEqual(first);
    expect(engine.live()).toBe(born);
  });

  test('tells how sure it is and how far a window is, the same in any batch, and which windows look the same', async () => {
    const windows = [wave(100), wave(100, [[20, 60]]), wave(100)];
    const together = await reader.answer(windows);
    const [alone] = await reader.answer([windows[1]!]);
    for (const { logProbability, distance } of together) {
      expect(logProbability).toBeLessThan(0);
      expect(distance).toBeGreaterThan(0);
    }
    expect(alone!.distance).toBeCloseTo(together[1]!.distance!, 3);
    expect(alone!.distance).not.toBeCloseTo(together[0]!.distance!, 3);
    expect(together[0]!.input).toBe(together[2]!.input);
    expect(together[0]!.input).not.toBe(together[1]!.input);
    const drawn = await reader.sample(windows, { samples: 3, temperature: 0.7 });
    expect(drawn.map((texts) => texts.length)).toEqual([3, 3, 3]);
    expect(new Set(drawn.flat()).size).toBeGreaterThan(1);
  });
});

describe('an inspection', () => {
  const turn = (window: readonly [number, number], response: string, standing: string) => ({
    ...{ window, picture: null, response, problem: null, standing },
  });
  const traced = (departures: string, intervals: string): string =>
    `<think>pattern wave; scan ..o..; ${departures}</think><answer>${intervals}</answer><class>trend</class>`;

  test('describes each interval as the answer that joins its turns does, not as the last turn', async () => {
    const first = traced('level shift up 3 sd', '[[40, 60]]');
    const joined = traced('level shift up 3 sd; spike 9 sd', '[[40, 60], [80, 81]]');
    const look = traced('spike 9 sd; flat line 2 sd', '[[10, 11], [30, 40]]');
    const play = async () => ({
      turns: [turn([0, 100], first, first), turn([75, 100], look, joined)],
      answer: joined,
    });
    const { claims, intervals, answers } = await inspectColumn({ name: 'value', values: wave(100) }, play);
    expect(intervals).toEqual([
      [40, 60],
      [80, 81],
    ]);
    expect(claims).toEqual([
      { class: 'trend', kind: 'level shift', direction: 'up', size: 3 },
      { class: 'trend', kind: 'spike', direction: null, size: 9 },
    ]);
    expect(answers.map((answer) => answer.intervals)).toEqual([[[40, 60]], intervals]);
  });

  test('marks nothing in a gap, and the known part of an interval that reaches into one', async () => {
    const values = wave(100);
    values.fill(Number.NaN, 20, 40);
    const answer = traced('changed shape 2 sd; spike 4 sd', '[[19, 35], [36, 60]]');
    const play = async () => ({ turns: [turn([0, 100], answer, answer)], answer });
    const { claims, intervals, statement } = await inspectColumn({ name: 'value', values }, play);
    expect(intervals).toEqual([[40, 60]]);
    expect(claims).toEqual([{ class: 'trend', kind: 'spike', direction: null, size: 4 }]);
    expect(statement).toContain('one interval');
  });

  test('abstains where the episode ends without an answer that can be read', async () => {
    const play = async () => ({ turns: [turn([0, 100], '<tool>zoom', '')], answer: '' });
    const { status, statement, intervals } = await inspectColumn({ name: 'value', values: wave(100) }, play);
    expect(status).toBe('abstains');
    expect(statement).toBe('Abstains: it ended without an answer that can be read.');
    expect(intervals).toEqual([]);
  });
});

test('a policy without scales marks nothing in a gap either', async () => {
  const values = wave(300, [[20, 30]]);
  values.fill(Number.NaN, 100, 200);
  const isLine = ([a, b, c]: Float64Array): boolean => Math.abs(a! - 2 * b! + c!) < 1e-9;
  const reader = fake((window) => (isLine(window) ? reply('[[0, 100]]', 'shapelet') : threshold(window)), {
    length: null,
  });
  const { answers, intervals } = await askColumn(column(values), reader, { window: 100, overlap: 0 });
  expect(answers[1]!.intervals).toEqual([[100, 200]]);
  expect(intervals).toEqual([[20, 30]]);
});
