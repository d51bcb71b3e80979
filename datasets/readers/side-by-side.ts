/** Series side by side: one table of several, by the times that they share. */
import { firstNames } from '../../src/ground/terminal.ts';
import { formatDuration } from './clock.ts';
import type { Note } from './quality.ts';
import type { Recording } from './recording.ts';
import { type Rows, sampleEvenly, sortRows } from './sampling.ts';

/** Times of all series together, relative to those of the longest, up to which they share their times. */
const SHARED_TIMES = 1.5;
/** Largest difference of the steps of recordings that share their times, as a share. */
const STEPS_APART = 0.1;
/** Names in a note about several recordings. */
const NAMED = 3;
/** Series that alternate: largest difference of their steps, of a sample from its place, both in steps, and of the series in ms. */
const [SAME_STEP, PLACED, MOST_APART] = [0.01, 0.2, 1_800_000];
/** Least share of samples in their place. */
const REGULAR = 0.9;

const medianOf = (values: Float64Array): number => values.toSorted()[values.length >> 1] ?? Number.NaN;

/** Places samples of the same step at the nearest times of the longest series, half a step or half an hour away at most; null for others. */
function aligned(parts: readonly Rows[]): readonly Rows[] | null {
  const time = parts.reduce((a, b) => (b.time.length > a.time.length ? b : a)).time.toSorted();
  const stepOf = (sorted: Float64Array): number =>
    medianOf(
      sorted
        .subarray(1)
        .map((ms, i) => ms - sorted[i]!)
        .filter((length) => length > 0),
    );
  const step = stepOf(time);
  const nearest = (ms: number): number => {
    let [from, to] = [0, time.length - 1];
    while (to - from > 1) {
      const middle = (from + to) >> 1;
      if (time[middle]! <= ms) from = middle;
      else to = middle;
    }
    return time[to]! - ms < ms - time[from]! ? time[to]! : time[from]!;
  };
  const moved = parts.map((rows): Rows | null => {
    if (!(Math.abs(stepOf(rows.time.toSorted()) - step) <= SAME_STEP * step)) return null;
    // Phases are compared with the first, since those of half a step may have either sign.
    const phases = rows.time.map((ms) => ms - nearest(ms));
    const off = phases.map((phase) => phase - step * Math.round((phase - phases[0]!) / step));
    const apart = medianOf(off);
    const placed = off.filter((ms) => Math.abs(ms - apart) <= PLACED * step).length;
    if (Math.abs(apart) > Math.min((0.5 + PLACED) * step, MOST_APART) || placed < REGULAR * off.length)
      return null;
    const place = (ms: number): number => (Math.abs(nearest(ms) - ms) <= PLACED * step ? nearest(ms) : ms);
    return { ...rows, time: rows.time.map((ms) => place(ms - apart)) };
  });
  return moved.every((rows) => rows !== null) ? moved : null;
}

/** Rows of several series, and the largest distance of a sample from its time, in ms. */
type JoinedRows = Rows & { readonly apart: number };

/**
 * Joins the rows of several series, in order of appearance: by equal times, else by nearest ones where the series have the same step; null
 * where they are sampled at different times. A row of its own stands for each repetition of a time within a series: repeated rows are noted
 * and merged as they are elsewhere.
 */
export function joinRows(parts: readonly Rows[]): JoinedRows | null {
  const equal = joinEqual(parts);
  if (equal !== null) return { ...equal, apart: 0 };
  const moved = aligned(parts);
  const near = moved === null ? null : joinEqual(moved);
  if (near === null) return null;
  const apart = moved!.map(({ time }, k) =>
    time.reduce((most, ms, i) => Math.max(most, Math.abs(ms - parts[k]!.time[i]!)), 0),
  );
  return { ...near, apart: Math.max(...apart) };
}

/** Returns the note on series whose samples were placed at other times; none where all are at their own. */
export const apartNotes = ({ apart }: JoinedRows): Note[] =>
  apart === 0
    ? []
    : [
        {
          kind: 'aligned',
          text: `The series are sampled at other moments; samples stand at the nearest time of the longest series, up to ${formatDuration(apart)} away.`,
        },
      ];

function joinEqual(parts: readonly Rows[]): Rows | null {
  const places = new Map<number | string, number>();
  const time: number[] = [];
  const lines: number[] = [];
  const placed = parts.map((rows) => {
    const repeats = new Map<number, number>();
    return Int32Array.from(rows.time, (ms, i) => {
      const nth = repeats.get(ms) ?? 0;
      repeats.set(ms, nth + 1);
      const key = nth === 0 ? ms : `${ms} ${nth}`;
      let place = places.get(key);
      if (place === undefined) {
        place = time.push(ms) - 1;
        places.set(key, place);
        lines.push(rows.lines[i]!);
      }
      return place;
    });
  });
  const longest = parts.reduce((most, rows) => Math.max(most, rows.time.length), 0);
  if (time.length > SHARED_TIMES * longest) return null;
  const values = parts.flatMap((rows, k) =>
    rows.values.map((given) => {
      const column = new Float64Array(time.length).fill(Number.NaN);
      for (const [i, place] of placed[k]!.entries()) column[place] = given[i]!;
      return column;
    }),
  );
  return { time: Float64Array.from(time), values, lines: Int32Array.from(lines) };
}

/** True for recordings that may stand side by side: both with zones or both without, and of about the same step. */
function mayShareTimes(a: Recording, b: Recording): boolean {
  if (a.time === null || b.time === null || a.origin !== b.origin || a.origin === 'start') return false;
  if ((a.zone === null) !== (b.zone === null) || a.step === null || b.step === null) return false;
  return Math.abs(a.step - b.step) <= STEPS_APART * Math.min(a.step, b.step);
}

/**
 * Makes one recording of recordings of different files, whose column names tell the files apart; null where they share too few times. Its
 * samples have no lines: notes keep those of their files in words.
 */
export function joinRecordings(name: string, parts: readonly Recording[]): Recording | null {
  const joined = joinRows(
    parts.map(({ time, columns, rows }) => ({
      ...{ time: time!, values: columns.map(({ values }) => values), lines: rows },
    })),
  );
  if (joined === null) return null;
  const [{ zone, clockZone, origin }] = parts as [Recording];
  const same = parts.every((part) => part.zone === zone && part.clockZone === clockZone);
  const zones = same ? { zone, clockZone } : { zone: 'UTC', clockZone: 'UTC' };
  const sampled = sampleEvenly(sortRows(joined).rows, zones.clockZone);
  if (sampled.resampled) return null;
  const { time, values } = sampled.rows;
  const places = new Map(Array.from(time, (ms, i) => [ms, i]));
  const notes = new Map<string, { note: Note; files: string[] }>();
  for (const part of parts)
    for (const { lines, ...note } of part.notes) {
      const at = lines?.map((line) => places.get(part.time![part.rows.indexOf(line)] ?? Number.NaN));
      const placed = at?.every((place) => place !== undefined) ? at.map((place) => -2 - place!) : null;
      const key = `${note.column ?? ''} ${note.text}`;
      const entry = notes.get(key) ?? {
        note: { ...note, ...(placed === null ? {} : { lines: [placed[0]!, placed[1]!] as const }) },
        files: [],
      };
      entry.files.push(part.name);
      notes.set(key, entry);
    }
  return {
    ...{ name, key: null, time, step: sampled.step, ...zones, origin, gaps: sampled.gaps },
    columns: parts
      .flatMap(({ columns }) => columns)
      .map((column, k) => ({ name: column.name, values: values[k]! })),
    notes: [
      ...Array.from(notes.values(), ({ note, files }) =>
        files.length === parts.length ? note : { ...note, text: `${firstNames(files, NAMED)}: ${note.text}` },
      ),
      ...apartNotes(joined),
      { kind: 'split', text: `${parts.length} files, side by side.` },
    ],
    rows: Int32Array.from(time, (_, i) => -2 - i),
  };
}

/** Returns true for recordings that share their times. */
export const shareTimes = (a: Recording, b: Recording): boolean =>
  mayShareTimes(a, b) &&
  joinRows([a, b].map(({ time, rows }) => ({ time: time!, values: [], lines: rows }))) !== null;

/** Returns a recording of another name, with which its columns begin. */
export function withFileName({ columns, notes, ...recording }: Recording, name: string): Recording {
  const named = (column: string): string => `${name}: ${column}`;
  return {
    ...{ ...recording, name },
    columns: columns.map(({ name, values }) => ({ name: named(name), values })),
    notes: notes.map((note) => (note.column === undefined ? note : { ...note, column: named(note.column) })),
  };
}
