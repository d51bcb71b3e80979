/** Sources of backgrounds: columns of the user's recordings, split by time and cut into windows without findings of the detector. */
import { hash } from 'node:crypto';
import { formatDuration, type Recording, readRecording } from '../../datasets/readers/recording.ts';
import { FEWEST_WINDOWS, type Window } from '../background/background.ts';
import { detect } from '../detect/detect.ts';
import { DataError } from '../ground/errors.ts';
import { extent, plural } from '../ground/numbers.ts';
import { say } from '../ground/terminal.ts';
import { bridge } from '../series/missing.ts';
import { calendarOf } from './detect.ts';
import { filesOf, readInputs } from './inputs.ts';

/** Samples of a window: those of the policy small, one for each column of its picture. */
export const LENGTH = 560;
/** Share of a recording that is held out, at its end, and samples that each part has at least. */
const HELD_OUT = 0.3;
const LEAST = { training: 2 * LENGTH, heldOut: 1.25 * LENGTH } as const;
/** Target number of windows per part, and largest number of samples between their starts. */
const MOST_WINDOWS = 120;
const STRIDE = LENGTH / 4;
/** Share of a window that may be missing or part of a finding; it is replaced by expected values. */
const REPLACED = 0.05;

/** One column of a recording, cut by time. */
export interface Source {
  readonly name: string;
  readonly samples: number;
  /** SHA-256 of the samples. */
  readonly sha256: string;
  readonly calendar: readonly number[];
  readonly periods: readonly number[];
  /** Windows of the first part without findings, and of the held-out part. */
  readonly training: readonly Window[];
  readonly heldOut: readonly Window[];
  /** All values, and the index of the first that is held out. */
  readonly values: Float64Array;
  readonly heldOutFrom: number;
  /** Sentences for the page: windows left out, findings replaced, seasons not learned. */
  readonly notes: readonly string[];
}

interface Cut {
  readonly missing: number;
  readonly windows: readonly Window[];
  readonly seasons: readonly number[];
  readonly findings: number;
  /** Windows that were set aside. */
  readonly aside: number;
}

/** A column, its season candidates, and the places where its time jumps over samples that are missing. */
interface Column {
  readonly values: Float64Array;
  readonly calendar: readonly number[];
  readonly jumps: readonly { readonly at: number; readonly missing: number }[];
}

/** Cuts the samples from `offset` to `end` into overlapping windows without long gaps or jumps of time and, unless they are `kept`, without findings. */
function cut({ values: all, calendar, jumps }: Column, offset: number, end: number, kept = false): Cut {
  const part = all.slice(offset, end);
  const { findings, expected, seasons } = detect(part, { calendar });
  const { values } = bridge(part);
  const replaced = Uint8Array.from(part, (value) => Number(Number.isNaN(value)));
  const missing = replaced.filter(Boolean).length;
  for (const { start, end } of kept ? [] : findings) {
    replaced.fill(1, start, end);
    values.set(expected.subarray(start, end), start);
  }
  const stride = Math.max(1, Math.min(STRIDE, Math.floor((part.length - LENGTH) / MOST_WINDOWS)));
  const windows: Window[] = [];
  let aside = 0;
  for (let start = 0; start + LENGTH <= part.length; start += stride) {
    const count = replaced.subarray(start, start + LENGTH).reduce((sum, flag) => sum + flag, 0);
    const from = offset + start;
    const jumped = jumps.filter(({ at }) => at > from && at < from + LENGTH);
    if (count + jumped.reduce((sum, { missing: left }) => sum + left, 0) > REPLACED * LENGTH) aside++;
    else windows.push({ start: from, values: values.slice(start, start + LENGTH) });
  }
  return { windows, seasons, findings: findings.length, aside, missing };
}

/** Cuts off what is not there at both ends: columns of files side by side begin and end at different times. */
function columnOf(values: Float64Array, recording: Recording): Column {
  const isThere = (value: number): boolean => !Number.isNaN(value);
  const first = values.findIndex(isThere);
  const { gaps, time } = recording;
  const length = values.findLastIndex(isThere) + 1 - first;
  // All gaps are filled with missing samples, or none where that would be too many.
  const jumps =
    time === null
      ? []
      : gaps
          .filter(({ from, to }) => time[time.indexOf(to) - 1] === from)
          .map(({ to, missing }) => ({ at: time.indexOf(to) - first, missing }))
          .filter(({ at }) => at > 0 && at < length);
  return {
    values: values.subarray(first, first + length),
    calendar: calendarOf(recording),
    jumps,
  };
}

/** @throws DataError for a column that is constant, too short, or has anomalies or gaps everywhere */
function sourceOf(name: string, column: Column): Source {
  const { values, calendar, jumps } = column;
  const least = LEAST.training + LEAST.heldOut;
  if (values.length < least) {
    throw new DataError(
      `${values.length} samples; at least ${least} are needed, ${LEAST.training} to learn from and ${LEAST.heldOut} held out`,
    );
  }
  const at = values.length - Math.max(LEAST.heldOut, Math.round(HELD_OUT * values.length));
  for (const [part, [low, high]] of Object.entries({
    first: extent(values.subarray(0, at)),
    'held-out': extent(values.subarray(at)),
  })) {
    if (low >= high)
      throw new DataError(`its value never changes in the ${part} part; give a recording in which it does`);
    if (high - low === Number.POSITIVE_INFINITY)
      throw new DataError(`its values from ${low} to ${high} are too far apart; scale them`);
  }
  const first = cut(column, 0, at);
  const clean = cut(column, at, values.length);
  const isClean = clean.windows.length >= FEWEST_WINDOWS;
  const held = isClean ? clean : cut(column, at, values.length, true);
  for (const [part, { windows, findings, missing }] of Object.entries({ first, 'held-out': held })) {
    if (windows.length >= FEWEST_WINDOWS) continue;
    throw new DataError(
      `${windows.length} windows of ${LENGTH} samples without anomalies or gaps in the ${part} part ` +
        `(${plural(findings, 'finding')}, ${plural(missing, 'missing value')}, ${plural(jumps.length, 'jump')} of time); ` +
        `at least ${FEWEST_WINDOWS} are needed: give a longer recording, or one with fewer of both`,
    );
  }
  const found = plural(first.findings, 'finding');
  const season = Math.round(first.seasons.at(-1) ?? 0);
  const unseen = calendar.filter((period) => 2 * period > at);
  const notes = [
    `${first.windows.length} windows of samples 0 to ${at - 1} are learned from; ${held.windows.length} of the rest are held out.`,
    first.findings > 0 && `Replaced ${found} in the first part by expected values.`,
    first.aside > 0 && `Left out ${plural(first.aside, 'window')} with long findings or gaps.`,
    jumps.length > 0 &&
      `Its time jumps ${plural(jumps.length, 'time')}; no window misses more than ${Math.floor(REPLACED * LENGTH)} samples by that.`,
    !isClean && `Its held-out part has ${plural(held.findings, 'finding')}, which count as normal.`,
    unseen.length > 0 &&
      `Seasons of ${unseen.join(' and ')} samples are not learned: the first part covers fewer than two.`,
    season > LENGTH && `Its season of ${season} samples is longer than a window.`,
  ].filter((note) => note !== false);
  const sha256 = hash('sha256', Float64Array.from(values));
  return {
    ...{ name, samples: values.length, sha256, calendar, values, heldOutFrom: at, notes },
    ...{ periods: first.seasons, training: first.windows, heldOut: held.windows },
  };
}

/**
 * Reads the columns of all recordings as sources, and the recordings. Unusable ones are left out, with a line on standard error.
 * @throws ConfigError for files that are not there; DataError for one that cannot be read, and where no column is left
 */
export async function readSources({
  data,
  columns,
}: {
  readonly data: readonly string[];
  readonly columns: readonly string[];
}): Promise<{ readonly sources: readonly Source[]; readonly recordings: readonly Recording[] }> {
  const read = async (file: string): Promise<Recording> =>
    readRecording(file, columns.length === 0 ? {} : { columns });
  const fail = (error: Error): never => {
    throw error;
  };
  const sources: Source[] = [];
  const recordings: Recording[] = [];
  const left: string[] = [];
  const steps = new Set<string>();
  for await (const { recording } of readInputs(await filesOf(data), read, fail)) {
    recordings.push(recording);
    if (recording.step !== null) steps.add(formatDuration(recording.step));
    for (const { name, values } of recording.columns) {
      try {
        sources.push(sourceOf(name, columnOf(values, recording)));
      } catch (error) {
        if (!(error instanceof DataError)) throw error;
        left.push(`${name}: ${error.message}`);
      }
    }
  }
  if (sources.length === 0) throw new DataError(`no column to adapt to: ${left.join('. ')}`);
  for (const reason of left) say(`left out: ${reason}`);
  if (steps.size > 1)
    say(`sampled every ${[...steps].join(', ')}: each source is learned by its own samples`);
  return { sources, recordings };
}

export const valuesOf = (windows: readonly Window[]): Float64Array[] => windows.map(({ values }) => values);
