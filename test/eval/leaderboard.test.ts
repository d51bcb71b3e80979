import { describe, expect, test } from 'vitest';
import {
  type LeaderboardRow,
  leaderboardCsv,
  leaderboardMarkdown,
  leaderboardOf,
  leaderboardPage,
  leaderboardTable,
  rowsOf,
} from '../../eval/leaderboard.ts';
import { overallOf } from '../../eval/metrics.ts';
import { usageOf } from '../../eval/usage.ts';
import type { EvalRecord } from '../../src/ground/types.ts';
import { classResponse, evalRecord, recordOf, writeResponse } from '../helpers/eval-records.ts';

/** Classifications of which `right` of 4 are right. */
const classified = (task: string, right: number): EvalRecord[] =>
  [0, 1, 2, 3].map((i) =>
    recordOf(`${task}/${i}`, { kind: 'classification', class: 'A' }, classResponse(i < right ? 'A' : 'B')),
  );

function row(task: string, policy: string, records: readonly EvalRecord[], more = {}): LeaderboardRow {
  const answered = records.filter(({ failure }) => failure === undefined);
  return {
    ...{ task, policy, kind: records[0]!.gold.kind, temperature: 0, seconds: 6 },
    metrics: answered.length === 0 ? null : overallOf(answered, { resamples: 50 }),
    usage: usageOf(records),
    ...more,
  };
}

const tasks = [
  { name: 'emg', kind: 'classification', title: 'muscles' },
  { name: 'ctu', kind: 'classification', title: 'computers' },
  { name: 'nano5', kind: 'anomaly', title: 'series' },
] as const;
const found = evalRecord(
  'nano5/0',
  { intervals: [[10, 50]], class: 'trend' },
  writeResponse([[10, 50]], 'trend'),
);
const failed = { ...classified('ctu', 0)[0]!, response: '', failure: 'status 500' };
const rows = [
  row('emg', 'quick', classified('emg', 4)),
  row('ctu', 'quick', [...classified('ctu', 1).slice(0, 3), failed]),
  row('emg', '=evil|<b>', classified('emg', 2)),
  row('ctu', '=evil|<b>', classified('ctu', 4)),
  row('nano5', '=evil|<b>', [{ ...found, usage: { prompt: 30, completion: 11 }, cost: 0.25 }]),
  row('ctu', 'gone', [failed]),
];
const board = leaderboardOf(tasks, rows, ['Asked nicely.']);

describe('a leaderboard', () => {
  test('ranks by the mean over the tasks of one metric, where all of them were answered', () => {
    expect(
      board.contenders.map(({ name, means }) => [name, means.map(({ mean, tasks: n }) => [mean, n])]),
    ).toEqual([
      ['=evil|<b>', [[0.75, 2]]],
      ['quick', [[(1 + 1 / 3) / 2, 2]]],
      ['gone', [[null, 2]]],
    ]);
    expect(rowsOf(board, 'emg').map(([name]) => name)).toEqual(['quick', '=evil|<b>']);
  });

  test('tells responses that never came beside the means of the others', () => {
    const markdown = leaderboardMarkdown(board);
    expect(markdown).toMatch(/^\| quick \| 3 \| 1 \| 100\.0 % \| 0\.333 \[/m);
    expect(markdown).toMatch(/^\| gone \| 0 \| 1 \| – \| – \| /m);
    expect(markdown).toContain('| =evil\\|<b> |');
    expect(markdown).toContain('Asked nicely.');
    expect(markdown).toMatch(
      /## nano5\n\nSeries\.\n\n\| Policy \| n \| Answered .* \| Tokens \| Seconds \| Cost \|/,
    );
  });

  test('has all numbers as CSV, and no formula', () => {
    const [head, ...lines] = leaderboardCsv(board).trimEnd().split('\n');
    const columns = head!.split(',');
    const cells = lines.map((line) => line.split(','));
    const of = (name: string, line: number): string => cells[line]![columns.indexOf(name)]!;
    expect(cells.map((line) => line.slice(0, 6).join())).toEqual([
      'emg,classification,quick,0,4,0',
      "emg,classification,'=evil|<b>,0,4,0",
      "ctu,classification,'=evil|<b>,0,4,0",
      'ctu,classification,quick,0,3,1',
      'ctu,classification,gone,0,0,1',
      "nano5,anomaly,'=evil|<b>,0,1,0",
    ]);
    expect([of('class_accuracy', 0), of('class_accuracy', 1), of('class_accuracy', 4)]).toEqual([
      '1',
      '0.5',
      '',
    ]);
    expect([of('completion_tokens', 5), of('cost', 5), of('seconds_per_response', 0)]).toEqual([
      '11',
      '0.25',
      '1.5',
    ]);
  });

  test('is a page that shows names as they are, and underlines the best', () => {
    const page = leaderboardPage(board);
    expect(page).toContain('=evil|&lt;b&gt;');
    expect(page).not.toContain('<b>');
    expect(page.match(/class="best"/g)!.length).toBeGreaterThanOrEqual(3);
  });

  test('tells temperatures of one policy apart', () => {
    const hot = row('emg', 'quick', classified('emg', 3), { temperature: 0.7 });
    const both = leaderboardOf([tasks[0]], [rows[0]!, hot]);
    expect(both.contenders.map(({ name }) => name)).toEqual(['quick at 0', 'quick at 0.7']);
    expect(leaderboardTable(both).split('\n')[1]).toMatch(/^quick at 0 +1\.000 \[.* 100\.0 % +1\.50$/);
  });
});
