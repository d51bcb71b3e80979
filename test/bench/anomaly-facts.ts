/**
 * Whether what a report prints about a series is so: by the product's own check, and once more from the text of the file alone, without
 * any code of the product.
 */
import { basename } from 'node:path';
import { readRecording } from '../../datasets/readers/recording.ts';
import type { Detection } from '../../src/detect/finding.ts';
import { buildReport, reportSource } from '../../src/explain/report.ts';
import type { AnomalyReport } from '../../src/explain/schema.ts';
import { verify } from '../../src/explain/verify.ts';

/** The epoch of files that are made here, and their step. */
const EPOCH = Date.UTC(2025, 2, 3);
const STEP_MINUTES = 5;

/** A series as a file that a user might have. */
export function asCsv(values: Float64Array): string {
  const stamp = (i: number): string =>
    new Date(EPOCH + i * STEP_MINUTES * 60_000).toISOString().slice(0, 19).replace('T', ' ');
  return `timestamp,value\n${Array.from(values, (value, i) => `${stamp(i)},${value}\n`).join('')}`;
}

export interface Facts {
  readonly told: number;
  readonly true: number;
  /** What does not hold, in words. */
  readonly wrong: readonly string[];
}

/** A day with or without a clock time, or a clock time. */
const STAMP = /\d{4}-\d\d-\d\d(?: \d\d:\d\d(?::\d\d)?)?|\d\d:\d\d(?::\d\d)?/g;

/** Facts of a report against the lines of the file that it was made from. */
export function checkFacts(report: AnomalyReport, csv: string, detection: Detection): Facts {
  const lines = csv.trimEnd().split(/\r?\n/);
  const cells = lines.map((line) => line.split(','));
  const cell = (line: number, column: number): string => cells[line - 1]![column]!;
  const ms = (line: number): number => Date.parse(`${cell(line, 0).slice(0, 19).replace(' ', 'T')}Z`);
  const steps = (from: number, to: number): { sum: number; count: number } => {
    let sum = 0;
    for (let line = from + 1; line <= to; line++)
      sum += Math.abs(Number(cell(line, 1)) - Number(cell(line - 1, 1)));
    return { sum, count: to - from };
  };
  let [told, holds] = [0, 0];
  const wrong: string[] = [];
  const check = (what: string, said: number | null, found: number): void => {
    told++;
    if (said !== null && Math.abs(said - found) <= 1e-9 * Math.max(1, Math.abs(found))) holds++;
    else wrong.push(`${what}: told ${said}, found ${found}`);
  };
  for (const one of report.findings) {
    const { first, last } = one.rows!;
    const values: number[] = [];
    for (let line = first; line <= last; line++) values.push(Number(cell(line, 1)));
    const at = `finding ${one.rank}`;
    const mean = values.reduce((sum, value) => sum + value, 0) / values.length;
    const peak = values[one.peak.index - one.start]!;
    check(`${at}: samples`, one.end - one.start, values.length);
    check(`${at}: least`, one.observed.least, Math.min(...values));
    check(`${at}: largest`, one.observed.largest, Math.max(...values));
    check(`${at}: mean`, one.observed.mean, mean);
    check(`${at}: peak`, one.observed.peak, peak);
    check(`${at}: from`, one.from!.ms, ms(first));
    check(`${at}: to`, one.to!.ms, ms(last));
    check(`${at}: from as text`, Date.parse(`${one.from!.iso!.slice(0, 19)}Z`), ms(first));
    check(`${at}: time of the peak`, one.peak.at!.ms, ms(first + one.peak.index - one.start));
    let expected = 0;
    for (let i = one.start; i < one.end; i++) expected += detection.expected[i]! / values.length;
    const own = steps(first, last);
    const all = steps(2, lines.length);
    const known = [
      ...[mean, peak, Math.min(...values), Math.max(...values), values.length, expected],
      ...[one.expected.value!, one.expected.low!, one.expected.high!],
      ...[own.sum / own.count, (all.sum - own.sum) / (all.count - own.count), ...detection.seasons],
    ];
    const { stepped, lasting } = detection.findings.find(
      ({ start, end, kind }) => start === one.start && end === one.end && kind === one.kind,
    )!;
    // Of a level that is said to have stayed, what comes after the extent is nearer to it than to what was before.
    const rest = cells.slice(last).map((line) => Number(line[1]));
    const after = rest.reduce((sum, value) => sum + value, 0) / rest.length;
    const stays = lasting && Math.abs(after - mean) < Math.abs(after - (stepped?.mean ?? mean));
    check(`${at}: ongoing`, Number(one.ongoing), Number(last === lines.length || stays));
    if (stepped !== null) {
      const before = cells
        .slice(first - 1 - (one.start - stepped.since), first - 1)
        .map((line) => Number(line[1]));
      const level = before.reduce((sum, value) => sum + value, 0) / before.length;
      check(`${at}: mean before the step`, stepped.mean, level);
      check(`${at}: rises`, Number(one.stated.some(({ more }) => more !== undefined)), Number(mean > level));
      known.push(before.length, level);
      // A drift is said to have come to the mean of its last samples.
      const late = one.stated.find(({ quantity, end }) => quantity === 'samples' && end === one.end)?.number;
      if (one.kind === 'trend' && late !== undefined && late <= values.length)
        known.push(late, values.slice(-late).reduce((sum, value) => sum + value, 0) / late);
    }
    if (one.before !== null) {
      const single = one.kind === 'spike' || one.kind === 'dip';
      const earlier = one.before.starts.map((sample) => {
        let sum = 0;
        const length = single ? 1 : values.length;
        for (let i = 0; i < length; i++) sum += Number(cell(first - one.start + sample + i, 1));
        return sum / length;
      });
      check(`${at}: least before`, one.before.least, Math.min(...earlier));
      check(`${at}: largest before`, one.before.largest, Math.max(...earlier));
      known.push(earlier.length, Math.min(...earlier), Math.max(...earlier));
    }
    const stamps = [first, last].flatMap((line) => [
      cell(line, 0).slice(0, 16),
      cell(line, 0).slice(0, 10),
      cell(line, 0).slice(11, 16),
    ]);
    for (const { text, quantity, number, tolerance = 0 } of one.stated) {
      // The pace at which a stretch repeats is an estimate that nothing here can repeat.
      if (quantity === 'pace' || (quantity !== 'time' && number === undefined)) continue;
      const written = text.match(STAMP) ?? [];
      told++;
      const isTrue =
        number === undefined
          ? written.every((stamp) => stamps.includes(stamp) || stamps.includes(stamp.replace(/:00$/, '')))
          : known.some((value) => Math.abs(value - number) <= tolerance + 1e-9 * Math.abs(value));
      if (isTrue) holds++;
      else wrong.push(`${at}: "${one.statement}": ${text}`);
    }
  }
  return { told, true: holds, wrong };
}

/**
 * The report of a file about which the detector says this, checked by the product itself (it throws where a number does not hold) and
 * here; null where rows were sorted, merged or filled, so that samples are not lines.
 */
export function factsOf(file: string, csv: string, detection: Detection): Facts | null {
  const recording = readRecording(new TextEncoder().encode(csv), {
    columns: ['value'],
    name: basename(file),
  });
  const lines = csv.trimEnd().split(/\r?\n/).length - 1;
  if (recording.columns[0]!.values.length !== lines || detection.score.length !== lines) return null;
  const source = reportSource(basename(file), recording, [detection]);
  const report = buildReport(source);
  verify(report, source);
  return checkFacts(report, csv, detection);
}
