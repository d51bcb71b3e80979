import { mkdirSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import { openExamples } from '../../datasets/source.ts';
import { type ComparedAnswers, compareAnswers, compareSeeds } from '../../eval/comparison.ts';
import { answersPage } from '../../eval/comparison-page.ts';
import { writeRecords } from '../../eval/records.ts';
import { ConfigError, DataError } from '../../src/ground/errors.ts';
import type { AnomalyGold, EvalRecord } from '../../src/ground/types.ts';
import { mcnemar } from '../../src/measures/bootstrap.ts';
import { inside } from '../helpers/command-line.ts';
import { classResponse, evalRecord, recordOf, writeResponse } from '../helpers/eval-records.ts';

let folder = '';
beforeAll(() => {
  folder = mkdtempSync(join(tmpdir(), 'comparison-'));
});
afterAll(() => rmSync(folder, { recursive: true }));

const side = (name: string, records: readonly EvalRecord[]): ComparedAnswers => ({
  name,
  records,
  data: null,
});
const classified = (id: string, gold: string, said: string): EvalRecord =>
  recordOf(id, { kind: 'classification', class: gold }, said === '' ? 'no tags' : classResponse(said), 100);

/** Six series, gold a a a b b b: A has two right, B five. */
const GOLD = ['a', 'a', 'a', 'b', 'b', 'b'];
const answered = (said: readonly string[]): EvalRecord[] =>
  said.map((one, i) => classified(`t/${i}`, GOLD[i]!, one));
const first = side('one', answered(['a', 'b', '', 'b', 'a', 'a']));
const second = side('other', answered(['b', 'a', 'a', 'b', 'b', 'b']));

describe('two sets of answers', () => {
  const found = compareAnswers(first, second);

  test('differ by what was won and lost, with McNemar’s p where values are 0 or 1', () => {
    const [accuracy] = found.metrics;
    expect(accuracy).toMatchObject({ metric: 'class_accuracy', won: 4, lost: 1, same: 1, test: 'McNemar' });
    expect(accuracy!.p).toBe(mcnemar(1, 4));
    expect(accuracy!.difference.mean).toBeCloseTo(3 / 6, 12);
    expect(found.flips.map(({ id, outcome }) => `${id} ${outcome}`)).toEqual([
      't/0 lost',
      't/1 won',
      't/2 won',
      't/4 won',
      't/5 won',
    ]);
  });

  test('differ by type', () => {
    expect(found.byType['a']).toMatchObject({ a: expect.closeTo(1 / 3), b: expect.closeTo(2 / 3) });
    expect(found.byType['b']?.difference).toMatchObject({ mean: expect.closeTo(2 / 3), n: 3 });
  });

  test('change sides with their order', () => {
    const turned = compareAnswers(second, first);
    expect(turned.metrics[0]).toMatchObject({ won: 1, lost: 4, p: found.metrics[0]!.p });
    expect(turned.metrics[0]!.difference.mean).toBeCloseTo(-3 / 6, 12);
  });

  test('are paired by series, whatever their order; those of one side alone are left out', () => {
    const more = side('other', [classified('t/9', 'a', 'a'), ...second.records].reverse());
    const { series, onlyA, onlyB, metrics } = compareAnswers(first, more);
    expect({ series, onlyA, onlyB }).toEqual({ series: 6, onlyA: 0, onlyB: 1 });
    expect(metrics[0]!.p).toBe(found.metrics[0]!.p);
  });

  test('of intervals are tested by permutation, and flips are of the metric asked for', () => {
    const gold = { intervals: [[100, 150]] as const, class: 'trend' as const };
    const told = (end: number, i: number): EvalRecord =>
      evalRecord(`s/${i}`, gold, writeResponse([[100, end]], 'trend'));
    const [a, b] = [
      [150, 170, 180],
      [150, 150, 190],
    ].map((ends) => ends.map(told));
    const { metrics, metric, flips } = compareAnswers(side('a', a!), side('b', b!), 'point_f1');
    expect(metric).toBe('point_f1');
    expect(metrics.find((one) => one.metric === 'point_f1')).toMatchObject({
      test: 'permutation',
      won: 1,
      lost: 1,
      p: 1,
    });
    expect(flips.map(({ id }) => id)).toEqual(['s/1', 's/2']);
  });

  test('without a series in common, with other gold answers, or without the metric are refused', () => {
    const other = side('x', [classified('u/0', 'a', 'a')]);
    expect(() => compareAnswers(first, other)).toThrow('one and x answer no series in common');
    const changed = side('x', [classified('t/0', 'b', 'a')]);
    expect(() => compareAnswers(first, changed)).toThrow(DataError);
    expect(() => compareAnswers(first, second, 'point_f1')).toThrow(ConfigError);
  });
});

describe('the page', () => {
  test('shows both answers to a flipped series, and escapes what they say', async () => {
    const source = openExamples({ name: 'nano5', split: 'test', seed: 42, length: 200, count: 2 });
    const examples = [...source];
    const told = (label: string): EvalRecord[] =>
      examples.map(({ id, gold }) => recordOf(id, gold, writeResponse([[20, 40]], label), 200));
    const [a, b] = [
      side('<b>a</b>', told('<i>x</i>')),
      side(
        'b',
        examples.map(({ id, gold }) => {
          const own = gold as AnomalyGold;
          return recordOf(id, gold, writeResponse(own.intervals, own.class!), 200);
        }),
      ),
    ];
    const text = await answersPage(compareAnswers(a, b), source);
    expect(text.includes('&lt;b&gt;a&lt;/b&gt;')).toBe(true);
    expect(text.includes('<i>x')).toBe(false);
    expect(text.match(/<svg/g)).toHaveLength(4);
    expect(text.includes('Class accuracy differs on 2 series')).toBe(true);
    const unknown = await answersPage(compareAnswers(a, b), null);
    expect(unknown.includes('<svg')).toBe(false);
    expect(unknown.includes('name it with --data to see pictures')).toBe(true);
  });
});

describe('timeseer compare', () => {
  const evaluation = (name: string, records: readonly EvalRecord[]): string => {
    const path = join(folder, name);
    mkdirSync(path);
    writeRecords(join(path, 'records.jsonl'), records);
    return path;
  };

  test('reads directories of evaluations, prints a table and writes a page', async () => {
    const [a, b] = [evaluation('before', first.records), evaluation('after', second.records)];
    const page = join(folder, 'flips.html');
    const { code, out } = await inside('compare', a, b, '--html', page);
    expect(code).toBe(0);
    expect(out).toMatch(/Class accuracy +0\.333 +0\.833 +\+0\.500 .* 0\.375 +McNemar +4 +1 +1/);
    expect(out).toContain('5 series differ:');
    expect(readFileSync(page, 'utf8')).toContain('<h1>Two sets of answers compared</h1>');
  });

  test('reads predictions against gold answers, and prints JSON', async () => {
    const lines = (name: string, list: readonly object[]): string => {
      const path = join(folder, name);
      writeFileSync(path, list.map((one) => `${JSON.stringify(one)}\n`).join(''));
      return path;
    };
    const gold = lines(
      'gold.jsonl',
      GOLD.map((label, i) => ({ id: `t/${i}`, class: label })),
    );
    const a = lines(
      'a.jsonl',
      ['a', 'b', 'b', 'b', 'a', 'a'].map((label, i) => ({ id: `t/${i}`, class: label })),
    );
    const b = lines(
      'b.jsonl',
      ['b', 'a', 'a', 'b', 'b', 'b'].map((label, i) => ({ id: `t/${i}`, class: label })),
    );
    const { out } = await inside('compare', a, b, '--gold', gold, '--json');
    const found = JSON.parse(out);
    expect(found).toMatchObject({ series: 6, metrics: [{ won: 4, lost: 1, p: 0.375 }, {}] });
    expect(found.flips[0]).toEqual({ id: 't/0', task: 'all', label: 'a', outcome: 'lost', a: 1, b: 0 });
  });

  test('says how many series each side answers where predictions are missing', async () => {
    const [gold, some, all] = ['gold-40', 'some-10', 'all-40'].map((name) => join(folder, `${name}.jsonl`));
    const write = (path: string, count: number): void =>
      writeFileSync(
        path,
        Array.from({ length: count }, (_, i) => `{"id":"t/${i}","class":"${'ab'[i % 2]}"}\n`).join(''),
      );
    write(gold!, 40);
    write(some!, 10);
    write(all!, 40);
    const given = ['compare', some!, all!, '--gold', gold!];
    const { out } = await inside(...given);
    expect(out).toContain('40 series: A answers 10 of them, B 40; a missing answer counts as unreadable');
    const { answered, metrics } = JSON.parse((await inside(...given, '--json')).out);
    expect(answered).toEqual([10, 40]);
    expect(metrics[0]).toMatchObject({ a: 0.25, b: 1 });
    const seeds = await inside('compare', `${some},${all}`, all!, '--gold', gold!);
    expect(seeds.out).toContain('40 series: A answers 10 of them, B 40');
  });

  test('says what a path should be', async () => {
    const { code, err } = await inside('compare', folder, join(folder, 'none'));
    expect(code).toBe(2);
    expect(err).toContain('holds neither records.jsonl nor a run');
  });
});

describe('runs of several seeds', () => {
  const third = side('third', answered(['a', 'b', 'b', 'b', 'b', 'a']));

  test('differ by their means, with an interval over seeds and series', () => {
    const { metrics, series, names } = compareSeeds([first, third], [second]);
    expect({ series, names }).toEqual({ series: 6, names: [['one', 'third'], ['other']] });
    const accuracy = metrics.find(({ metric }) => metric === 'class_accuracy')!;
    expect(accuracy.a.mean).toBeCloseTo((2 / 6 + 3 / 6) / 2, 12);
    expect(accuracy.b.mean).toBeCloseTo(5 / 6, 12);
    expect(accuracy.difference.mean).toBeCloseTo(5 / 6 - 5 / 12, 12);
    const [low, high] = accuracy.difference.ci95;
    expect(low).toBeLessThan(accuracy.difference.mean);
    expect(high).toBeGreaterThan(accuracy.difference.mean);
    const turned = compareSeeds([second], [first, third]).metrics.find(
      ({ metric }) => metric === 'class_accuracy',
    )!;
    expect(turned.difference.mean).toBeCloseTo(-accuracy.difference.mean, 12);
    expect(turned.p).toBe(accuracy.p);
  });

  test('have more spread than one run where the seeds differ', () => {
    const good = side('good', answered(GOLD));
    const bad = side('bad', answered(['b', 'b', 'b', 'a', 'a', 'a']));
    const width = (runs: ComparedAnswers[]): number => {
      const [low, high] = compareSeeds(runs, [second]).metrics[0]!.a.ci95;
      return high - low;
    };
    expect(width([good])).toBe(0);
    expect(width([good, bad, good])).toBeGreaterThan(0.4);
  });

  test('with other gold answers, or no series in common, are refused', () => {
    const other = side('gold', [classified('t/0', 'b', 'a')]);
    expect(() => compareSeeds([first], [second, other])).toThrow(
      /t\/0: the gold answers of one and gold differ/,
    );
    expect(() => compareSeeds([first], [side('far', [classified('t/9', 'a', 'a')])])).toThrow(DataError);
  });

  test('are named between commas on the command line', async () => {
    const file = (name: string, { records }: ComparedAnswers): string => {
      const path = join(folder, `${name}.jsonl`);
      writeRecords(path, records);
      return path;
    };
    const [a, b, c] = [file('seed-a', first), file('seed-b', third), file('seed-c', second)];
    const { code, out } = await inside('compare', `${a},${b}`, c);
    expect(code).toBe(0);
    expect(out).toMatch(/6 series, answered by both sides; 95 % intervals over seeds and series/);
    expect(out).toMatch(/^Class accuracy +0\.417 \[.*0\.833 \[/m);
    expect((await inside('compare', `${a},${b}`, c, '--html', join(folder, 'x.html'))).err).toMatch(
      /--html: .* name one run for A and one for B/,
    );
  });
});
