/**
 * Whether what a report prints about a series is so: by the product's own check, and once more from the text of the file alone, without
 * any code of the product.
 */
import { basename } from 'node:path';
import { readRecording } from '../../datasets/readers/recording.ts';
import type { Detection } from '../../src/detect/finding.ts';
import { type AnomalyReport, buildReport, reportSource } from '../../src/explain/report.ts';
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

/** Four significant digits, as statements print them. */
const printed = (value: number): number => Number(value.toPrecision(4));

/** Facts of a report against the lines of the file that it was made from. */
export function checkFacts(report: AnomalyReport, csv: string, detection: Detection): Facts {
  const lines = csv.trimEnd().split(/\r?\n/);
  const cell = (line: number, column: number): string => lines[line - 1]!.split(',')[column]!;
  const ms = (line: number): number => Date.parse(`${cell(line, 0).slice(0, 19).replace(' ', 'T')}Z`);
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
    check(`${at}: ongoing`, Number(one.ongoing), Number(last === lines.length));
    let steps = 0;
    for (let i = 1; i < values.length; i++) steps += Math.abs(values[i]! - values[i - 1]!);
    let expected = 0;
    for (let i = one.start; i < one.end; i++) expected += detection.expected[i]! / values.length;
    const known = [
      ...[mean, peak, Math.min(...values), Math.max(...values), values.length, expected],
      ...[one.expected.value!, one.expected.low!, one.expected.high!],
      ...(values.length > 1 ? [steps / (values.length - 1)] : []),
    ].map(printed);
    for (const number of one.statement.match(/-?\d+(?:\.\d+)?(?:e[+-]?\d+)?/gi) ?? []) {
      told++;
      // The last digit of four may be rounded the other way.
      const near = known.some(
        (value) => Math.abs(value - Number(number)) <= 1.01e-3 * Math.max(Math.abs(value), 1e-300),
      );
      if (near || known.includes(Number(number))) holds++;
      else wrong.push(`${at}: "${one.statement}": ${number}`);
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
