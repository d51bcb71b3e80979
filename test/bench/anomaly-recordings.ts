/**
 * Recordings that are at hand: those of the Numenta Anomaly Benchmark with their labelled windows, and real series without labels into which
 * textbook anomalies are put.
 */
import { existsSync, readdirSync, readFileSync } from 'node:fs';
import { basename, join } from 'node:path';
import { readRecording } from '../../datasets/readers/recording.ts';
import { Random } from '../../src/ground/random.ts';
import type { Interval } from '../../src/ground/types.ts';
import { calendarOf } from '../../src/run/detect.ts';
import { bridge } from '../../src/series/missing.ts';
import { type Case, compose, type Half } from './anomaly-shapes.ts';

export interface RecordingCase extends Case {
  readonly file: string;
}

const halfOf = (index: number): Half => (index % 2 === 0 ? 'choose' : 'report');
const instantOf = (stamp: string): number => Date.parse(`${stamp.slice(0, 19).replace(' ', 'T')}Z`);

/** Samples of a stamp window, both ends included; null where it holds none. */
export function samplesOf(time: Float64Array, from: number, to: number): Interval | null {
  const start = time.findIndex((at) => at >= from);
  const behind = time.findIndex((at) => at > to);
  const end = behind < 0 ? time.length : behind;
  return start < 0 || start >= end ? null : [start, end];
}

/** Every recording below `directory`/nab that has labels, by name; alternate ones for choosing and for reporting. */
export function nabCases(directory: string): RecordingCase[] {
  const root = join(directory, 'nab');
  const labels = join(root, 'combined_windows.json');
  if (!existsSync(labels)) return [];
  const windows = new Map(
    Object.entries(JSON.parse(readFileSync(labels, 'utf8')) as Record<string, [string, string][]>).map(
      ([key, list]) => [basename(key), list],
    ),
  );
  const files = readdirSync(root, { recursive: true, encoding: 'utf8' })
    .filter((file) => windows.has(basename(file)))
    .sort((a, b) => (basename(a) < basename(b) ? -1 : 1));
  const seen = { anomalous: 0, clean: 0 };
  return files.map((file) => {
    const recording = readRecording(join(root, file), { columns: ['value'] });
    const truth = windows.get(basename(file))!.flatMap(([from, to]): Interval[] => {
      const samples = samplesOf(recording.time!, instantOf(from), instantOf(to));
      return samples === null ? [] : [samples];
    });
    const base = basename(file, '.csv');
    return {
      ...{ name: `nab/${base}`, base, kind: truth.length === 0 ? 'clean' : 'recorded', truth },
      half: halfOf(truth.length === 0 ? seen.clean++ : seen.anomalous++),
      values: bridge(recording.columns[0]!.values).values,
      calendar: calendarOf(recording),
      file: join(root, file),
    };
  });
}

export interface Real {
  readonly name: string;
  readonly values: Float64Array;
  readonly calendar: readonly number[];
  /** Samples of a cycle, about; null without one. */
  readonly period: number | null;
  readonly half: Half;
}

const LONGEST = 2500;
const SHORTEST = 700;

/** The longest stretch between labelled windows. */
function unlabelled({ values, truth }: Case): Float64Array {
  const edges = [0, ...truth.flat(), values.length];
  let best = values.subarray(0, 0);
  for (let i = 0; i < edges.length; i += 2) {
    if (edges[i + 1]! - edges[i]! > best.length) best = values.subarray(edges[i]!, edges[i + 1]!);
  }
  return best.slice(0, LONGEST);
}

/** The power that a household's computer draws on one day, every two minutes. */
function households(directory: string): Real[] {
  const file = join(directory, 'timerbed', 'ctu', 'Computers_TRAIN.ts');
  if (!existsSync(file)) return [];
  const lines = readFileSync(file, 'utf8').split(/\r?\n/);
  const first = lines.findIndex((line) => line.toLowerCase().startsWith('@data')) + 1;
  return [0, 25, 175, 225].flatMap((row, i): Real[] => {
    const line = lines[first + row];
    if (line === undefined || line === '') return [];
    const values = Float64Array.from(line.split(':')[0]!.split(','), Number);
    return [{ name: `household-${row}`, values, calendar: [], period: null, half: halfOf(i) }];
  });
}

/** Muscles at 4 kHz, lines that are damaged left out. */
function muscles(directory: string): Real[] {
  return ['healthy', 'neuropathy'].flatMap((name, i): Real[] => {
    const file = join(directory, 'timerbed', 'emg', `emg_${name}.txt`);
    if (!existsSync(file)) return [];
    const numbers = readFileSync(file, 'latin1')
      .split('\n')
      .map((line) => Number(line.trim().split(/\s+/)[1]))
      .filter(Number.isFinite);
    const values = Float64Array.from(numbers.slice(8000, 8000 + LONGEST));
    return [{ name: `muscle-${name}`, values, calendar: [], period: null, half: halfOf(i) }];
  });
}

export const INJECTED = ['spike', 'dip', 'flat', 'level-shift', 'drift', 'variance', 'several'] as const;

/** Real series of at most 2500 samples: NAB's between the labelled windows, households, muscles. */
export function realSeries(directory: string, nab: readonly Case[]): Real[] {
  return [
    ...nab.map(
      (one): Real => ({
        ...{ name: one.base, values: unlabelled(one), calendar: one.calendar },
        ...{ period: one.calendar[1] ?? null, half: one.half },
      }),
    ),
    ...households(directory),
    ...muscles(directory),
  ].filter(({ values }) => values.length >= SHORTEST);
}

/** Textbook anomalies in real series, one each; what a recording without labels holds beside them is not known. */
export function injectedCases(directory: string, nab: readonly Case[], seed: number): Case[] {
  return realSeries(directory, nab).flatMap(({ name, values, calendar, period, half }) =>
    INJECTED.flatMap((kind): Case[] => {
      const random = new Random(seed, `injected/${name}/${kind}`);
      const wave = { ...smoothWave(values), period, asymmetric: true, scale: 1, offset: 0 };
      const kinds = kind === 'several' ? ['spike', 'level-shift', 'dip'] : [kind];
      const { values: after, truth } = compose(random, wave, values.length, kinds);
      if (truth.length === 0) return [];
      return [
        {
          ...{ name: `injected/${name}/${kind}`, base: name, kind, half },
          ...{ values: after, truth, calendar },
        },
      ];
    }),
  );
}

/** Signal and noise that add up to the values: running means of nine samples, and what is left of them. */
export function smoothWave(values: Float64Array): { signal: (t: number) => number; noise: Float64Array } {
  const n = values.length;
  const mean = values.map((_, i) => {
    const [from, to] = [Math.max(0, i - 4), Math.min(n, i + 5)];
    let sum = 0;
    for (let k = from; k < to; k++) sum += values[k]!;
    return sum / (to - from);
  });
  return { signal: (t) => mean[t]!, noise: values.map((value, i) => value - mean[i]!) };
}
