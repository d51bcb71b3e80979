/** Series side by side: one table of several, by the times that they share; and earlier samples in front of a recording. */

import { getOrMake } from '../../src/ground/maps.ts';
import { grouped } from '../../src/ground/numbers.ts';
import { firstNames } from '../../src/ground/terminal.ts';
import { median } from '../../src/series/stats.ts';
import { formatDuration } from './clock.ts';
import type { Note } from './quality.ts';
import type { Recording } from './recording.ts';
import { mergeRows, type Rows, sampleEvenly, sortRows } from './sampling.ts';

/** Times of all series together, relative to those of the longest, up to which they share their times. */
const SHARED_TIMES = 1.5;
/** Largest difference of the steps of recordings that share their times, as a share. */
const STEPS_APART = 0.1;
/** Names in a note about several recordings. */
const NAMED = 3;
/** Largest difference of the steps of series that alternate, as a share, and of a sample from its place, in ms. */
const [SAME_STEP, MOST_APART] = [0.01, 1_800_000];

/** Places samples of one step at the even times that most series have; null for other series. */
function aligned(parts: readonly Rows[]): readonly Rows[] | null {
  const all = parts.map((rows) => mergeRows(sortRows(rows).rows).rows);
  if (all.some(({ time }) => time.length < 2)) return null;
  const sampled = all.map((rows) => sampleEvenly(rows, null));
  const { step } = sampled.reduce((a, b) => (b.rows.time.length > a.rows.time.length ? b : a));
  if (sampled.some((one) => one.resampled || Math.abs(one.step / step - 1) > SAME_STEP)) return null;
  const firsts = sampled.map(({ rows }) => rows.time[0]!);
  const sharers = (first: number): number => firsts.filter((ms) => (ms - first) % step === 0).length;
  const first = firsts.reduce((a, b) => (sharers(b) > sharers(a) ? b : a));
  const placeOf = (ms: number): number => first + step * Math.ceil((ms - first) / step - 0.5);
  return parts.map((part) => {
    const off = part.time.map((ms) => ms - placeOf(ms));
    // Half a step may have either sign.
    const phase = median(off.map((ms) => ms - step * Math.round((ms - off[0]!) / step)));
    return { ...part, time: part.time.map((ms) => placeOf(ms - phase)) };
  });
}

/**
 * Joins the rows of several series, in order of appearance: by equal times, else by even ones where the series have the same step; null
 * where they are sampled at different times. A row of its own stands for each repetition of a time within a series: repeated rows are noted
 * and merged as they are elsewhere.
 */
export function joinRows(parts: readonly Rows[]): (Rows & { readonly notes: readonly Note[] }) | null {
  const equal = joinEqual(parts);
  if (equal !== null) return { ...equal, notes: [] };
  const moved = aligned(parts);
  const near = moved === null ? null : joinEqual(moved);
  const off = moved?.map(({ time }, k) => time.map((ms, i) => Math.abs(ms - parts[k]!.time[i]!)));
  const most = off?.reduce((far, some) => some.reduce((a, b) => Math.max(a, b), far), 0) ?? 0;
  if (near === null || most > MOST_APART) return null;
  const text = `The series are sampled at other moments; samples stand at the nearest of even times, up to ${formatDuration(most)} away.`;
  return { ...near, notes: [{ kind: 'aligned', text }] };
}

function joinEqual(parts: readonly Rows[]): Rows | null {
  const places = new Map<number | string, number>();
  const time: number[] = [];
  const lines: number[] = [];
  const placed = parts.map((rows) => {
    const repeats = new Map<number, number>();
    return Int32Array.from(rows.time, (ms, i) => {
      const nth = repeats.get(ms) ?? 0;
      repeats.set(ms, nth + 1);
      return getOrMake(places, nth === 0 ? ms : `${ms} ${nth}`, () => {
        lines.push(rows.lines[i]!);
        return time.push(ms) - 1;
      });
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

/** Returns true for recordings that share their times: both with zones or both without, and of about the same step. */
export function shareTimes(a: Recording, b: Recording): boolean {
  if (a.time === null || b.time === null || a.origin !== b.origin || a.origin === 'start') return false;
  if ((a.zone === null) !== (b.zone === null) || a.step === null || b.step === null) return false;
  if (Math.abs(a.step - b.step) > STEPS_APART * Math.min(a.step, b.step)) return false;
  return joinRows([a, b].map(({ time, rows }) => ({ time: time!, values: [], lines: rows }))) !== null;
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
      const entry = getOrMake(notes, key, () => ({
        note: { ...note, ...(placed === null ? {} : { lines: [placed[0]!, placed[1]!] as const }) },
        files: [],
      }));
      entry.files.push(part.name);
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
      ...joined.notes,
      { kind: 'split', text: `${parts.length} files, side by side.` },
    ],
    rows: Int32Array.from(time, (_, i) => -2 - i),
  };
}

/** Returns a recording of another name, with which its columns begin. */
export function withFileName({ columns, notes, ...recording }: Recording, name: string): Recording {
  const named = (column: string): string => `${name}: ${column}`;
  return {
    ...{ ...recording, name },
    columns: columns.map(({ name, values }) => ({ name: named(name), values })),
    notes: notes.map((note) => (note.column === undefined ? note : { ...note, column: named(note.column) })),
  };
}

/** Recording whose samples may come before those of another. */
export type Earlier = Pick<Recording, 'name' | 'columns' | 'time' | 'step' | 'zone' | 'origin'>;

/** Column of a file: its own name, and that of the file with which `withFileName` lets it begin. */
function partsOf(name: string, file: string): { readonly own: string; readonly file: string } {
  const at = name.lastIndexOf(': ');
  return at < 0 ? { own: name, file } : { own: name.slice(at + 2), file: name.slice(0, at) };
}

/**
 * Finds the earlier column of a name: of several the one of the same file, else the only one whose file name begins that of the column's file
 * (web.csv, web-monday.csv), else the only one. Null where that is none.
 */
function earlierColumn(name: string, file: string, earlier: readonly Earlier[]) {
  const wanted = partsOf(name, file);
  const named = earlier.flatMap((recording) =>
    recording.columns
      .map(({ name, values }) => ({ recording, values, ...partsOf(name, recording.name) }))
      .filter(({ own }) => own === wanted.own),
  );
  const choices = [
    named.filter((one) => one.file === wanted.file),
    named.filter((one) => wanted.file.startsWith(one.file)),
    named,
  ];
  return choices.find(({ length }) => length === 1)?.[0] ?? null;
}

/**
 * Puts earlier samples of all of its columns in front of a recording: what is usual is learned from them. They have no lines, and what is
 * missing between them and the recording stays missing.
 * @param whose words behind "earlier samples" in the note
 * @returns the recording, and the index of its first own sample; or the reason for which it stays alone
 */
export function precede(
  recording: Recording,
  earlier: readonly Earlier[],
  whose = '',
): { readonly recording: Recording; readonly start: number } | string {
  const { time, step, zone, origin, columns, rows } = recording;
  if (time === null || step === null || origin !== 'calendar') return 'the recording has no dates';
  const first = time[0]!;
  const placeOf = (ms: number): number => Math.round((ms - first) / step);
  const placed: { readonly filled: Float64Array; readonly count: number }[] = [];
  const stamps = new Map<number, number>();
  for (const { name } of columns) {
    const found = earlierColumn(name, recording.name, earlier);
    if (found === null) return `they have no column ${name}, or several`;
    const { recording: before, values } = found;
    if (before.time === null || before.step === null || before.origin !== 'calendar')
      return 'they have no dates';
    if ((before.zone === null) !== (zone === null)) return 'only one of both has a time zone';
    if (Math.abs(before.step / step - 1) > SAME_STEP)
      return `they are sampled every ${formatDuration(before.step)}, the recording every ${formatDuration(step)}`;
    const known = before.time
      .map((ms, i) => (Number.isNaN(values[i]!) ? 0 : placeOf(ms)))
      .filter((place) => place < 0);
    if (known.length === 0) return 'none of them comes before the recording';
    // Samples far away tell little: no gap is longer than all that is known on one of its sides.
    let count = 0;
    const gap = (): number => (count === 0 ? 0 : known.at(-count)!) - known.at(-count - 1)! - 1;
    while (count < known.length && gap() <= Math.max(time.length + count, known.length - count)) count++;
    if (count === 0)
      return `they end ${formatDuration(gap() * step)} before the recording, and both are shorter`;
    const start = -known.at(-count)!;
    const filled = new Float64Array(start).fill(Number.NaN);
    for (const [i, ms] of before.time.entries()) {
      const place = start + placeOf(ms);
      if (place < 0 || place >= start) continue;
      filled[place] = values[i]!;
      stamps.set(place - start, ms);
    }
    placed.push({ filled, count });
  }
  const start = Math.max(...placed.map(({ filled }) => filled.length));
  const known = Math.max(...placed.map(({ count }) => count));
  const times = Float64Array.from({ length: start + time.length }, (_, i) =>
    i < start ? (stamps.get(i - start) ?? first + (i - start) * step) : time[i - start]!,
  );
  return {
    start,
    recording: {
      ...recording,
      time: times,
      columns: columns.map(({ name, values }, k) => {
        const { filled } = placed[k]!;
        const all = new Float64Array(start + values.length).fill(Number.NaN);
        all.set(filled, start - filled.length);
        all.set(values, start);
        return { name, values: all };
      }),
      rows: Int32Array.from(times, (_, i) => (i < start ? -1 : rows[i - start]!)),
      notes: [
        {
          ...{ kind: 'history', count: known },
          text: `${grouped(known)} earlier samples${whose} show what is usual; only what ends after them is reported.`,
        },
        ...recording.notes,
      ],
    },
  };
}
