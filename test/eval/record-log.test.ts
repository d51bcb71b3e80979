import { existsSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterEach, beforeEach, describe, expect, test } from 'vitest';
import { RecordLog } from '../../eval/record-log.ts';
import { evalRecord, writeResponse } from '../helpers/eval-records.ts';

const trend = { intervals: [[100, 150]], class: 'trend' } as const;
const response = writeResponse([[90, 150]], 'trend');
const record = (number: number, sample: number, text = response) => ({
  ...evalRecord(`nano5/test/${number}`, trend, text),
  sample,
});
const numberOf = (id: string): number | undefined => {
  const number = Number(id.split('/').at(-1));
  return number < 3 ? number : undefined;
};

let directory = '';
let file = '';
beforeEach(() => {
  directory = mkdtempSync(join(tmpdir(), 'record-log-'));
  file = join(directory, 'records.jsonl');
});
afterEach(() => rmSync(directory, { recursive: true, force: true }));

describe('records of an evaluation under way', () => {
  test('are on disk as they come, and in the order of the examples at the end', () => {
    const log = new RecordLog(file, 2, numberOf);
    expect(existsSync(file)).toBe(false);
    log.append(2, record(2, 0));
    log.append(0, record(0, 1));
    expect(readFileSync(file, 'utf8')).toBe(
      `${JSON.stringify(record(2, 0))}\n${JSON.stringify(record(0, 1))}\n`,
    );
    log.append(0, record(0, 0));
    expect(log.finish()).toEqual([record(0, 0), record(0, 1), record(2, 0)]);
    expect(readFileSync(file, 'utf8').trimEnd().split('\n')).toEqual(
      [record(0, 0), record(0, 1), record(2, 0)].map((one) => JSON.stringify(one)),
    );
  });

  test('are found again after a kill, but for a torn line, which the next one does not continue', () => {
    const before = new RecordLog(file, 2, numberOf);
    before.append(1, record(1, 1));
    before.close();
    writeFileSync(file, `${readFileSync(file, 'utf8')}{"seriesId":"nano5/te`);
    const log = new RecordLog(file, 2, numberOf);
    expect([log.has(1, 1), log.has(1, 0), log.has(0, 0)]).toEqual([true, false, false]);
    log.append(0, record(0, 0));
    expect(log.finish()).toEqual([record(0, 0), record(1, 1)]);
  });

  test('that failed are asked for again, and replaced by what came then', () => {
    const failed = { ...record(0, 0, ''), failure: 'status 500' };
    const before = new RecordLog(file, 1, numberOf);
    before.append(0, failed);
    before.append(1, record(1, 0));
    expect(before.finish()).toEqual([failed, record(1, 0)]);
    const log = new RecordLog(file, 1, numberOf);
    expect([log.has(0, 0), log.has(1, 0)]).toEqual([false, true]);
    log.append(0, record(0, 0));
    expect(log.finish()).toEqual([record(0, 0), record(1, 0)]);
    expect(readFileSync(file, 'utf8').split('\n')).toHaveLength(3);
  });

  test.each([
    ['of another data set', record(7, 0), /:2: answers sample 0 of nano5\/test\/7, which was not asked for/],
    ['of more samples', record(1, 2), /:2: answers sample 2 of nano5\/test\/1, which was not asked for/],
    ['that are damaged', { seriesId: 4 }, /:2: "seriesId": .*--force/],
  ])('%s are refused, by line', (_, wrong, message) => {
    writeFileSync(file, `${JSON.stringify(record(0, 0))}\n${JSON.stringify(wrong)}\n`);
    expect(() => new RecordLog(file, 2, numberOf)).toThrow(message);
  });

  test('are kept in memory where there is no file', () => {
    const log = new RecordLog(null, 1, numberOf);
    log.append(1, record(1, 0));
    expect(log.finish()).toEqual([record(1, 0)]);
  });
});
