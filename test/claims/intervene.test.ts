/** Interventions: what each changes in a reasoning, what it leaves, and when an answer follows. */
import fc from 'fast-check';
import { describe, expect, test } from 'vitest';
import { recordOf } from '../../eval/harness.ts';
import { interventionsOn, openingsOf, relianceOf } from '../../eval/reliance.ts';
import {
  counterfactual,
  followsIntervals,
  INTERVENTION_NAMES,
  intervene,
  type OwnAnswer,
} from '../../src/claims/intervene.ts';
import { ruled, scan } from '../../src/expcot/nano.ts';
import { DataError } from '../../src/ground/errors.ts';
import { Random } from '../../src/ground/random.ts';
import type { EvalRecord, Example, Interval } from '../../src/ground/types.ts';
import { parseResponse } from '../../src/tasks/kinds.ts';

const LENGTH = 1000;
const answer = (think: string, named: string | null, intervals: readonly Interval[] | null): OwnAnswer => ({
  ...{ think, answer: { class: named, intervals }, length: LENGTH, names: ['value'] },
});
const FASTER = answer(
  'scan ..(#)...............; swings faster; sine wave; spread 30; rough line',
  'seasonal',
  [[140, 240]],
);
const SHIFTED = answer(
  'scan ...........().......; shift up 60; noise; spread 20; noisy line',
  'global point',
  [[570, 640]],
);
const SLOWER = answer('scan ............().....o; swings slower; swings faster; sine wave', 'seasonal', [
  [620, 690],
  [960, 990],
]);
const NORMAL = answer('scan ....................; sine wave; spread 30; smooth line', 'normal', []);
const ALL = [FASTER, SHIFTED, SLOWER, NORMAL];

describe('an intervention', () => {
  test('moves the events of a scan together along its wider side, and nothing else', () => {
    const moved = intervene('moved', ALL);
    expect(moved.map((change) => change?.think ?? null)).toEqual([
      'scan ..........(#).......; swings faster; sine wave; spread 30; rough line',
      'scan .....().............; shift up 60; noise; spread 20; noisy line',
      'scan ......().....o......; swings slower; swings faster; sine wave',
      null,
    ]);
    expect(moved[0]).toMatchObject({ classes: null, moves: true });
  });

  test('moves the events of a ruled scan along its ruler', () => {
    const own = answer('scan 0.(#)..3.o5.6.7.8.9.; noise', 'trend', [
      [110, 240],
      [460, 480],
    ]);
    expect(intervene('moved', [own])[0]!.think).toBe('scan 0.1.2.3(#)5.6.o.8.9.; noise');
  });

  test('moves stated intervals where there is no scan', () => {
    const text = answer('The interval [100, 180] is anomalous. The mean is 3.', 'trend', [[100, 180]]);
    expect(intervene('moved', [text])[0]!.think).toBe('The interval [510, 590] is anomalous. The mean is 3.');
  });

  test('states departures of another class, as many as there are, and keeps scan and facts', () => {
    const [first, second, third, normal] = intervene('corrupted', ALL);
    expect(first).toEqual({ ...first, classes: ['global point'], moves: false });
    expect(first!.think).toBe('scan ..(#)...............; shift up 60; sine wave; spread 30; rough line');
    // No answer stands beside slower swings alone, so that they imply no class.
    expect(second!.think).toBe('scan ...........().......; swings faster; noise; spread 20; noisy line');
    expect(third!.think).toBe('scan ............().....o; shift up 60; shift up 60; sine wave');
    expect(normal).toBeNull();
  });

  test('names another class where the reasoning names its own', () => {
    const own = answer('The class is trend, since the trend (not trendy) changes.', 'trend', [[1, 9]]);
    const other = answer('The class is normal.', 'normal', []);
    expect(intervene('corrupted', [own, other])[0]).toMatchObject({
      think: 'The class is normal, since the normal (not trendy) changes.',
      classes: ['normal'],
    });
  });

  test('asks for the classes of the types that the edited reasoning states, not of all that the donor states', () => {
    const saying = (stated: string, label: string): OwnAnswer => ({
      ...FASTER,
      think: `scan ....(#).............; ${stated}; noise`,
      answer: { ...FASTER.answer, class: label },
    });
    const own = saying('swings faster', 'seasonal');
    const both = saying('step up 30; shift down 20', 'trend');
    const step = saying('step up 40', 'global point');
    expect(intervene('corrupted', [own, both, step])[0]).toMatchObject({
      think: expect.stringContaining('step up 30; noise'),
      classes: ['global point'],
    });
    // Nobody says what a step alone is.
    expect(intervene('corrupted', [own, both])[0]).toBeNull();
  });

  test('knows that one anomaly type may fit several classes, and takes no donor whose types fit the own class', () => {
    const spike = (named: string, at: number) =>
      answer(`cycle; scan ${'.'.repeat(at)}o${'.'.repeat(19 - at)}; spike 20 sd`, named, [
        [50 * at, 50 * at + 9],
      ]);
    const shift = answer('cycle; scan ....().............; level shift up 4 sd', 'trend', [[210, 280]]);
    const answers = [spike('global point', 3), spike('contextual point', 7), shift];
    expect(intervene('corrupted', answers).map((change) => change?.classes)).toEqual([
      ['trend'],
      ['trend'],
      ['global point', 'contextual point'],
    ]);
    expect(intervene('other_class', answers)[0]!.think).toBe(shift.think);
  });

  test('takes the reasoning of the next series with the same answered class, or with another', () => {
    expect(intervene('same_class', ALL).map((change) => change?.think ?? null)).toEqual([
      SLOWER.think,
      null,
      FASTER.think,
      null,
    ]);
    expect(intervene('other_class', ALL).map((change) => change!.classes)).toEqual([
      ['global point'],
      ['seasonal'],
      ['normal'],
      ['seasonal'],
    ]);
  });

  test('on long, foreign or empty reasonings changes what it can, and nothing else', () => {
    const odd = [
      answer('周期は40です。'.repeat(12_000), 'trend', [[1, 9]]),
      answer('scan '.repeat(20_000), 'normal', []),
      answer('scan ()()()()()()()()()()', 'trend', [[0, 1000]]),
    ];
    expect(intervene('moved', odd)).toEqual([null, null, null]);
    expect(intervene('corrupted', odd)).toEqual([null, null, null]);
    expect(intervene('none', odd).map((change) => change!.think)).toEqual(['', '', '']);
  });

  test('leaves nothing of the reasoning, or never takes that of a series of another length', () => {
    expect(intervene('none', ALL).every((change) => change!.think === '')).toBe(true);
    expect(intervene('other_class', [FASTER, { ...SHIFTED, length: 500 }])).toEqual([null, null]);
  });

  test('that moves a scan always concludes other intervals, with as many events as before', () => {
    const interval = fc.tuple(fc.integer({ min: 0, max: 99 }), fc.integer({ min: 1, max: 12 }));
    fc.assert(
      fc.property(fc.array(interval, { minLength: 1, maxLength: 3 }), (drawn) => {
        let at = 0;
        const intervals = drawn.flatMap(([gap, width]): Interval[] => {
          const start = at + 10 + 3 * gap;
          at = start + 10 * width;
          return at > LENGTH ? [] : [[start, at]];
        });
        fc.pre(intervals.length > 0);
        const symbols = scan(intervals, LENGTH, 20);
        const [change] = intervene('moved', [answer(`scan ${symbols}; noise`, 'trend', intervals)]);
        if (change === null) return;
        const moved = /scan (\S+);/.exec(change!.think)![1]!;
        expect(moved).toHaveLength(20);
        expect(moved.replaceAll('.', '')).toBe(symbols.replaceAll('.', ''));
        expect(followsIntervals(change!, intervals, FASTER)).toBe(false);
      }),
    );
  });
});

describe('a counterfactual', () => {
  const responseOf = (think: string, given: string): Parameters<typeof counterfactual>[0] =>
    `<think>${think}</think><answer>${given}</answer><class>trend</class>`;
  const made = (text: string, seed: number) => {
    const [think, answered] = ['think', 'answer'].map((tag) => {
      const start = text.indexOf(`<${tag}>`) + tag.length + 2;
      return [start, text.indexOf(`</${tag}>`)] as const;
    }) as [readonly [number, number], readonly [number, number]];
    return counterfactual(text, think, answered, FASTER, new Random(seed, 'test'));
  };

  test('moves what the reasoning marks and what is answered alike, to every other place, and nothing else', () => {
    const text = responseOf('scan 0.(#)..3.o5.6.7.8.9.; noise 300', '[[110, 240], [460,480]]');
    const texts = new Set(Array.from({ length: 200 }, (_, seed) => made(text, seed)!.text));
    const expected = Array.from({ length: 13 }, (_, first) => first)
      .filter((first) => first !== 2)
      .map((first) => {
        const symbols = `${'.'.repeat(first)}(#)....o`.padEnd(20, '.');
        const by = 50 * (first - 2);
        return responseOf(
          `scan ${ruled(symbols)}; noise 300`,
          `[[${110 + by}, ${240 + by}], [${460 + by},${480 + by}]]`,
        );
      });
    expect([...texts].sort()).toEqual(expected.sort());
    const { answer: range, text: moved } = made(text, 1)!;
    expect(moved.slice(range[0] - 8, range[1] + 9)).toMatch(/^<answer>\[\[.*\]\]<\/answer>$/);
  });

  test('leaves open which place of its cell an end is, behind its start', () => {
    const text = responseOf('scan 0.(#)..3.o5.6.7.8.9.; noise 300', '[[110, 240], [460,480]]');
    const { text: moved, open } = made(text, 3)!;
    const [by] = /\d+/.exec(moved.slice(moved.indexOf('<answer>')))!.map((start) => Number(start) - 110);
    expect(by).not.toBe(0);
    expect(open.map(({ span, within }) => [moved.slice(...span), within])).toEqual([
      [`${110 + by!}`, [100 + by!, 149 + by!]],
      [`${240 + by!}`, [201 + by!, 250 + by!]],
      [`${460 + by!}`, [450 + by!, 499 + by!]],
      [`${480 + by!}`, [461 + by!, 500 + by!]],
    ]);
  });

  test('leaves intervals apart that lie in one cell or in neighbouring cells', () => {
    const choices = (scanned: string, answer: string): number[][] => {
      const { text, open } = made(responseOf(`scan ${scanned}; noise`, answer), 3)!;
      const by = Number(/\[\[(\d+)/.exec(text)![1]) - 110;
      expect(by).not.toBe(0);
      return open.map(({ within }) => within.map((place) => place - by));
    };
    expect(choices('0.(x).3.4.5.6.7.8.9.', '[[110, 160],[170, 210]]')).toEqual([
      [100, 149],
      [151, 169],
      [161, 199],
      [201, 250],
    ]);
    expect(choices('0.oo2.3.4.5.6.7.8.9.', '[[110, 150],[160, 190]]')).toEqual([
      [100, 149],
      [111, 150],
      [151, 199],
      [161, 200],
    ]);
    expect(choices('0.x.2.3.4.5.6.7.8.9.', '[[110, 120],[140, 145]]')).toEqual([
      [100, 138],
      [111, 139],
      [121, 149],
      [141, 150],
    ]);
  });

  test('leaves open what gives the same scan, where cells are of uneven width too', () => {
    for (const [length, cells] of [
      [200, 24],
      [44, 20],
      [1000, 30],
    ] as const) {
      for (let start = 0; start + 7 <= length; start += 5) {
        const think = `scan ${scan([[start, start + 7]], length, cells)}; noise`;
        const text = responseOf(think, `[[${start}, ${start + 7}]]`);
        const [at, end] = [text.indexOf('<answer>') + 8, text.indexOf('</answer>')];
        const shape = { names: ['value'], length };
        const made = counterfactual(
          text,
          [7, 7 + think.length],
          [at, end],
          shape,
          new Random(start, 'cells'),
        );
        if (made === null) continue;
        const [first, last] = JSON.parse(made.text.slice(...made.answer))[0] as [number, number];
        const symbols = /scan (\S+);/.exec(made.text)![1];
        for (const place of made.open[0]!.within) {
          if (place < last) expect(scan([[place, last]], length, cells)).toBe(symbols);
        }
        for (const place of made.open[1]!.within) expect(scan([[first, place]], length, cells)).toBe(symbols);
      }
    }
  });

  test('moves stated intervals where there is no scan', () => {
    const { text, open } = made(responseOf('The interval [100, 180] is anomalous.', '[[100, 180]]'), 5)!;
    const [, stated, answered] = /\[(\d+, \d+)\] is.*\[\[(.*)\]\]/.exec(text)!;
    expect(answered).toBe(stated);
    expect(stated).not.toBe('100, 180');
    expect(open).toEqual([]);
  });

  test('stays inside the series where more is answered than stated', () => {
    const text = responseOf('The interval [860, 950] is anomalous.', '[[860, 1000]]');
    const ends = Array.from({ length: 60 }, (_, seed) => made(text, seed)).flatMap((moved) =>
      moved === null ? [] : [Number(/, (\d+)\]\]/.exec(moved.text)![1])],
    );
    expect(ends.length).toBeGreaterThan(0);
    expect(Math.max(...ends)).toBeLessThanOrEqual(LENGTH);
  });

  test('is none where the answer is not what is concluded, where nothing is marked, and where there is no room', () => {
    expect(made(responseOf('scan ..(#)...............; noise', '[[640, 740]]'), 1)).toBeNull();
    expect(made(responseOf('scan ..(#)...............; noise', '[]'), 1)).toBeNull();
    expect(made(responseOf('scan ....................; noise', '[]'), 1)).toBeNull();
    expect(made(responseOf('scan (##################); noise', '[[0, 1000]]'), 1)).toBeNull();
    expect(made(responseOf('scan ..(#)...............; noise', '[[14000000000, 240]]'), 1)).toBeNull();
  });
});

describe('reliance', () => {
  const example = (i: number): Example => ({
    ...{ id: `made/test/${i}`, task: 'made', names: ['value'], times: null, recording: null },
    channels: [Float64Array.from({ length: LENGTH }, (_, t) => Math.sin(t / 8) + i)],
    gold: { kind: 'anomaly', class: 'seasonal', intervals: [[140, 240]] },
  });
  const record = (i: number, own: OwnAnswer, sample?: number) =>
    recordOf(
      {
        parse: (response) =>
          parseResponse(response, { kind: 'anomaly', length: LENGTH, channels: 1, classes: [], options: [] }),
        score: (response) => ({ total: /<answer>\[\[140, /.test(response) ? 1 : 0, parts: {} }),
      },
      example(i),
      `<think>${own.think}</think><answer>${JSON.stringify(own.answer.intervals).replaceAll(',', ', ')}</answer><class>${own.answer.class}</class>`,
      { sample: sample ?? 0 },
    );
  const own = ALL.map((each, i) => record(i, each));
  const source = own.map(({ seriesId: id }) => ({ id, names: ['value'] }));
  const planned = interventionsOn(own, source);

  test('continues responses behind their changed reasoning', () => {
    expect(planned.map((each) => Object.keys(openingsOf(each)).length)).toEqual([5, 4, 5, 2]);
    expect(openingsOf(planned[0]!)[0]).toBe(
      '<think>scan ..........(#).......; swings faster; sine wave; spread 30; rough line</think>',
    );
    expect(openingsOf(planned[0]!)[4]).toBe('<think></think>');
  });

  /** Answers of a policy that does what the changed reasoning says, or what its own said. */
  const continued = (follows: boolean) =>
    planned.flatMap(({ own: before, changes }, i) =>
      INTERVENTION_NAMES.flatMap((name, sample) => {
        const change = changes[name];
        if (change === undefined) return [];
        const donor = ALL.find(({ think }) => think === change.think);
        const moved = /scan (\S+);/.exec(change.think)?.[1] ?? '';
        const first = moved.search(/[(#)ox]/);
        const last =
          moved.length -
          [...moved]
            .reverse()
            .join('')
            .search(/[(#)ox]/);
        const intervals: readonly Interval[] | null =
          donor?.answer.intervals ??
          (name === 'moved' ? [[50 * first + 10, 50 * last - 10]] : before.answer.intervals);
        const after = follows
          ? { class: change.classes?.[0] ?? before.answer.class, intervals }
          : before.answer;
        return [record(i, { ...before, think: change.think, answer: after }, sample)];
      }),
    );

  test('is 1 for answers that say what the changed reasoning says, and 0 for those that stay', () => {
    const rests = relianceOf(planned, continued(true), { resamples: 100 });
    expect(rests.corrupted).toMatchObject({ n: 3, followsClass: { mean: 1, n: 3 }, followsIntervals: null });
    expect(rests.other_class).toMatchObject({ followsClass: { mean: 1 }, followsIntervals: { mean: 1 } });
    // The third series has two events, which one interval does not follow.
    expect(rests.moved).toMatchObject({ n: 3, followsClass: null, classStays: { mean: 1 } });
    expect(rests.moved!.followsIntervals!.mean).toBeCloseTo(2 / 3);
    expect(rests.moved!.change.mean).toBeCloseTo(-1 / 3);
    const stays = relianceOf(planned, continued(false), { resamples: 100 });
    expect(stays.other_class).toMatchObject({ followsClass: { mean: 0 }, classStays: { mean: 1 } });
    expect(stays.moved).toMatchObject({ followsIntervals: { mean: 0 }, change: { mean: 0 } });
  });

  test('counts points as the policy was shown them, where series are of another length', () => {
    const longer = (each: EvalRecord): EvalRecord => {
      const intervals = each.answer.intervals!.map(([start, end]): Interval => [2 * start, 2 * end]);
      return { ...each, length: 2 * LENGTH, frame: LENGTH, answer: { ...each.answer, intervals } };
    };
    const options = { resamples: 100 };
    const long = interventionsOn(own.map(longer), source);
    expect(relianceOf(long, continued(true).map(longer), options)).toEqual(
      relianceOf(planned, continued(true), options),
    );
  });

  test('leaves out failed continuations, and is null where there are none', () => {
    const failed = continued(true).map((each) => ({ ...each, failure: 'gone' }));
    expect(Object.values(relianceOf(planned, failed))).toEqual([null, null, null, null, null]);
  });

  test('cannot be measured on responses without reasoning', () => {
    const bare = own.map((each) => ({ ...each, answer: { ...each.answer, think: null } }));
    expect(() => interventionsOn(bare, source)).toThrow(DataError);
    expect(() => interventionsOn(bare, source)).toThrow(/none of the 4 responses has reasoning/);
  });
});
