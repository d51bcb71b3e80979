/** Samples at an even step from rows with times: sorting, merging, gaps, interpolation. */
import { DAY, wallTime } from './clock.ts';

/** Rows of a table: the time [N] in ms, values [N] of each column, and the source line of each row. */
export interface Rows {
  readonly time: Float64Array;
  readonly values: readonly Float64Array[];
  readonly lines: Int32Array;
}

/** Stretch without samples: the last time before it, the first after it, and the number of missing samples. */
export interface Gap {
  readonly from: number;
  readonly to: number;
  readonly missing: number;
}

/** Gathers the rows at the positions `order`. */
export function rowsAt(rows: Rows, order: ArrayLike<number>): Rows {
  const gather = <T extends Float64Array | Int32Array>(from: T, into: T): T => {
    for (let i = 0; i < order.length; i++) into[i] = from[order[i]!]!;
    return into;
  };
  return {
    time: gather(rows.time, new Float64Array(order.length)),
    values: rows.values.map((column) => gather(column, new Float64Array(order.length))),
    lines: gather(rows.lines, new Int32Array(order.length)),
  };
}

interface Sorted {
  readonly rows: Rows;
  /** Original position of each row. */
  readonly order: Uint32Array;
  /** True if the times of the file descend. */
  readonly descending: boolean;
  /** Rows that come after a later one (in a descending file, after an earlier one), and the first of them; -1 for none. */
  readonly late: number;
  readonly firstLate: number;
  /** Row before the first late one. */
  readonly before: number;
}

/** Counts the values above and below the one before. */
export function directions(values: ArrayLike<number>): { up: number; down: number } {
  let [up, down] = [0, 0];
  for (let i = 1; i < values.length; i++) {
    if (values[i]! > values[i - 1]!) up++;
    else if (values[i]! < values[i - 1]!) down++;
  }
  return { up, down };
}

/** Rows in order of time; rows of one time in order of the file. */
export function sortRows(rows: Rows): Sorted {
  const { time } = rows;
  const { up, down } = directions(time);
  // Every time above, as in a file that only goes down: rows at random go up about as often as down.
  const descending = down > 3 * up;
  const order = Uint32Array.from(time, (_, i) => i);
  if (descending) order.reverse();
  let late = 0;
  let firstLate = -1;
  let latest = Number.NEGATIVE_INFINITY;
  for (const at of order) {
    if (time[at]! >= latest) latest = time[at]!;
    else {
      late++;
      if (firstLate < 0) firstLate = at;
    }
  }
  if (late > 0) order.sort((a, b) => time[a]! - time[b]! || a - b);
  else if (!descending) return { rows, order, descending, late, firstLate, before: -1 };
  const before = firstLate < 0 ? -1 : descending ? firstLate + 1 : firstLate - 1;
  return { rows: rowsAt(rows, order), order, descending, late, firstLate, before };
}

/** The ends of runs of one time: run k is from `ends[k - 1]` (0 for the first) up to `ends[k]`. */
export function runsOf(time: Float64Array): Uint32Array {
  let count = time.length > 0 ? 1 : 0;
  for (let i = 1; i < time.length; i++) if (time[i] !== time[i - 1]) count++;
  const ends = new Uint32Array(count);
  let run = 0;
  for (let i = 1; i <= time.length; i++) if (i === time.length || time[i] !== time[i - 1]) ends[run++] = i;
  return ends;
}

const same = (a: number, b: number): boolean => a === b || (Number.isNaN(a) && Number.isNaN(b));

interface Merged {
  readonly rows: Rows;
  /** Number of dropped rows that repeat another, and the first of them. */
  readonly repeated: number;
  readonly firstRepeated: number;
  /** Number of times with several values, which were averaged, the first row of the first, and that of the last. */
  readonly averaged: number;
  readonly firstAveraged: number;
  readonly lastAveraged: number;
}

/** Merges rows of one time: equal rows become one, others their mean without missing values. Rows are sorted. */
export function mergeRows(rows: Rows): Merged {
  const ends = runsOf(rows.time);
  if (ends.length === rows.time.length)
    return { rows, repeated: 0, firstRepeated: -1, averaged: 0, firstAveraged: -1, lastAveraged: -1 };
  const starts = ends.map((_, run) => (run === 0 ? 0 : ends[run - 1]!));
  const merged = rowsAt(rows, starts);
  let [repeated, firstRepeated, averaged, firstAveraged, lastAveraged] = [0, -1, 0, -1, -1];
  for (let run = 0; run < ends.length; run++) {
    const [start, end] = [starts[run]!, ends[run]!];
    if (end - start === 1) continue;
    let equal = true;
    for (const [k, column] of rows.values.entries()) {
      // Sorted, so that the mean does not depend on the order of the rows.
      const several = column.slice(start, end).sort();
      if (same(several[0]!, several.at(-1)!)) continue;
      equal = false;
      let [sum, count] = [0, 0];
      for (const value of several) {
        if (Number.isNaN(value)) continue;
        sum += value;
        count++;
      }
      merged.values[k]![run] = sum / count;
    }
    if (equal) {
      repeated += end - start - 1;
      if (firstRepeated < 0) firstRepeated = start + 1;
    } else {
      averaged++;
      if (firstAveraged < 0) firstAveraged = start;
      lastAveraged = start;
    }
  }
  return { rows: merged, repeated, firstRepeated, averaged, firstAveraged, lastAveraged };
}

/** A grid on which samples lie, as whole numbers that count its positions. */
interface Grid {
  /** Step in ms; the median one of a calendar. */
  readonly step: number;
  readonly calendar: 'month' | 'quarter' | 'year' | 'weekday' | null;
}

/** Maximum distance of a sample from its place, in steps. */
const JITTER = 0.1;
/** Minimum share of steps that a grid must explain. */
const EXPLAINED = 0.9;

function medianOf(sorted: Float64Array): number {
  const half = sorted.length >> 1;
  return sorted.length % 2 === 1 ? sorted[half]! : (sorted[half - 1]! + sorted[half]!) / 2;
}

/** Months, or working days, since 1970, by the clock's time. */
function calendarPosition(wall: number, calendar: Grid['calendar']): number {
  if (calendar === 'weekday') {
    const day = Math.floor(wall / DAY) + 3; // since Monday, 29 December 1969
    return 5 * Math.floor(day / 7) + Math.min(4, day - 7 * Math.floor(day / 7));
  }
  const date = new Date(wall);
  const months = 12 * (date.getUTCFullYear() - 1970) + date.getUTCMonth();
  return Math.floor(months / (calendar === 'year' ? 12 : calendar === 'quarter' ? 3 : 1));
}

/** Calendar in which unequal steps of a median length are even, or null. */
function calendarOf(time: Float64Array, zone: string | null, median: number): Grid['calendar'] {
  const days = median / DAY;
  const calendar =
    days >= 27.9 && days <= 31.1
      ? 'month'
      : days >= 89.9 && days <= 92.1
        ? 'quarter'
        : days >= 364.9 && days <= 366.1
          ? 'year'
          : days === 1
            ? 'weekday'
            : null;
  if (calendar === null) return null;
  let last = Number.NEGATIVE_INFINITY;
  let [fits, rest] = [0, 0];
  for (const ms of time) {
    const wall = wallTime(ms, zone);
    const position = calendarPosition(wall, calendar);
    if (calendar === 'weekday') {
      const day = new Date(wall).getUTCDay();
      if (day === 0 || day === 6) return null;
      if (day === 1 && last !== Number.NEGATIVE_INFINITY) rest++;
    }
    if (position > last) fits++;
    last = position;
  }
  if (calendar === 'weekday') return rest > 0 && fits === time.length ? calendar : null;
  return fits >= EXPLAINED * time.length ? calendar : null;
}

/** Grid that holds nearly all samples; null where no step explains the differences. Times ascend strictly. */
function gridOf(
  time: Float64Array,
  zone: string | null,
  differences: Float64Array,
  sorted: Float64Array,
): Grid | null {
  const median = medianOf(sorted);
  const calendar = calendarOf(time, zone, median);
  if (calendar !== null) return { step: median, calendar };
  // Stamps that were rounded: each is where an even step would have it, to the unit that they are written in.
  const mean = (time.at(-1)! - time[0]!) / differences.length;
  const unit = [60_000, 1000, 1].find((length) => time.every((ms) => ms % length === 0));
  if (
    unit !== undefined &&
    sorted[0] !== sorted.at(-1) &&
    sorted.at(-1)! - sorted[0]! <= unit &&
    mean > unit
  ) {
    if (time.every((ms, i) => Math.abs(ms - time[0]! - i * mean) <= unit))
      return { step: mean, calendar: null };
  }
  const tenth = sorted[Math.floor(sorted.length / 10)]!;
  for (const step of [median, tenth, sorted[0]!]) {
    let fits = 0;
    let positions = 0;
    for (const difference of differences) {
      const steps = Math.max(1, Math.round(difference / step));
      positions += steps;
      if (Math.abs(difference / step - steps) <= JITTER) fits++;
    }
    if (fits < EXPLAINED * differences.length) continue;
    if (step !== median && positions > 2 * time.length) continue; // a finer step that most places of the grid lack
    return { step: refined(step, differences), calendar: null };
  }
  return null;
}

/** Refines a step that is no whole number of ms: the mean of the steps near it, since the median of jittered steps is one of them. */
function refined(step: number, differences: Float64Array): number {
  let [sum, count, exact] = [0, 0, 0];
  for (const difference of differences) {
    if (Math.abs(difference - step) > JITTER * step) continue;
    sum += difference;
    count++;
    if (difference === step) exact++;
  }
  if (2 * exact >= count) return step;
  const mean = sum / count;
  for (const unit of [60_000, 1000, 1]) {
    const whole = Math.round(mean / unit) * unit;
    if (whole > 0 && Math.abs(whole - mean) <= 0.002 * mean) return whole;
  }
  return mean;
}

export interface Sampled {
  readonly rows: Rows;
  readonly step: number;
  readonly gaps: readonly Gap[];
  readonly calendar: Grid['calendar'];
  /** Number of samples off their place by more than 1 ‰ of the step, and the maximum share of it. */
  readonly jittered: number;
  readonly jitter: number;
  /** True if values were interpolated because no step explains the times; with the shortest and longest step. */
  readonly resampled: boolean;
  readonly shortest: number;
  readonly longest: number;
  /** True if places without a sample were left out, because there would be too many of them. */
  readonly jumps: boolean;
}

/** Maximum rows after places without a sample are added. */
const mostPlaces = (samples: number): number => 2 * samples + 1000;

/**
 * Samples at an even step out of rows at strictly ascending times, N ≥ 2. Where nearly all lie on a grid, or on months, quarters, years
 * or working days, they are kept, and places without one become NaN, with line -1; else values are interpolated at the median
 * step, though not over gaps of more than five steps.
 */
export function sampleEvenly(rows: Rows, zone: string | null): Sampled {
  const { time } = rows;
  const differences = new Float64Array(time.length - 1);
  for (let i = 0; i < differences.length; i++) differences[i] = time[i + 1]! - time[i]!;
  const sorted = differences.slice().sort();
  const extremes = { shortest: sorted[0]!, longest: sorted.at(-1)! };
  const grid = gridOf(time, zone, differences, sorted);
  if (grid === null) return { ...resample(rows, medianOf(sorted)), ...extremes };

  const { step, calendar } = grid;
  const positions = new Float64Array(time.length);
  const gaps: Gap[] = [];
  let [jittered, jitter] = [0, 0];
  let last = calendar === null ? 0 : calendarPosition(wallTime(time[0]!, zone), calendar);
  for (let i = 1; i < time.length; i++) {
    let steps: number;
    if (calendar === null) {
      const ratio = differences[i - 1]! / step;
      steps = Math.max(1, Math.round(ratio));
      const off = Math.abs(ratio - steps);
      if (off > 0.001) jittered++;
      if (off <= JITTER) jitter = Math.max(jitter, off);
    } else {
      const position = calendarPosition(wallTime(time[i]!, zone), calendar);
      steps = Math.max(1, position - last);
      last = position;
    }
    positions[i] = positions[i - 1]! + steps;
    if (steps > 1) gaps.push({ from: time[i - 1]!, to: time[i]!, missing: steps - 1 });
  }
  const places = positions.at(-1)! + 1;
  const found = { step, gaps, calendar, jittered, jitter, resampled: false, ...extremes };
  if (gaps.length === 0) return { ...found, rows, jumps: false };
  if (places > mostPlaces(time.length)) return { ...found, rows, jumps: true };
  const filled: Rows = {
    time: new Float64Array(places),
    values: rows.values.map(() => new Float64Array(places).fill(Number.NaN)),
    lines: new Int32Array(places).fill(-1),
  };
  for (let i = 0; i < time.length; i++) {
    const at = positions[i]!;
    filled.time[at] = time[i]!;
    filled.lines[at] = rows.lines[i]!;
    for (const [k, column] of rows.values.entries()) filled.values[k]![at] = column[i]!;
    if (i === 0) continue;
    const before = positions[i - 1]!;
    for (let place = before + 1; place < at; place++)
      filled.time[place] = between(time[i - 1]!, time[i]!, place - before, at - before, grid);
  }
  return { ...found, rows: filled, jumps: false };
}

/** Time of the `k`th of `steps` steps between two samples. */
function between(from: number, to: number, k: number, steps: number, { calendar }: Grid): number {
  const even = from + ((to - from) * k) / steps;
  if (calendar === null) return even;
  if (calendar === 'weekday') {
    let day = from;
    for (let left = k; left > 0; ) {
      day += DAY;
      const weekday = new Date(day).getUTCDay();
      if (weekday !== 0 && weekday !== 6) left--;
    }
    return day < to ? day : even;
  }
  const date = new Date(from);
  const month = date.getUTCMonth() + k * (calendar === 'year' ? 12 : calendar === 'quarter' ? 3 : 1);
  const days = new Date(Date.UTC(date.getUTCFullYear(), month + 1, 0)).getUTCDate();
  const placed = Date.UTC(date.getUTCFullYear(), month, Math.min(date.getUTCDate(), days)) + (from % DAY);
  return placed > from && placed < to ? placed : even;
}

/** Maximum length of an interpolated gap, in steps. */
const BRIDGED = 5;

function resample(rows: Rows, median: number): Omit<Sampled, 'shortest' | 'longest'> {
  const { time, lines } = rows;
  const [first, last] = [time[0]!, time.at(-1)!];
  // Bursts between long pauses have a median step of their own, at which the pauses would take more places than can be held.
  const step =
    (last - first) / median + 1 <= mostPlaces(time.length) ? median : (last - first) / (time.length - 1);
  const places = Math.floor((last - first) / step + 1e-9) + 1;
  const even: Rows = {
    time: new Float64Array(places),
    values: rows.values.map(() => new Float64Array(places)),
    lines: new Int32Array(places).fill(-1),
  };
  const gaps: Gap[] = [];
  for (let i = 1; i < time.length; i++) {
    const length = time[i]! - time[i - 1]!;
    if (length > BRIDGED * step)
      gaps.push({ from: time[i - 1]!, to: time[i]!, missing: Math.round(length / step) - 1 });
  }
  let i = 0;
  for (let place = 0; place < places; place++) {
    const ms = Math.min(last, first + place * step);
    even.time[place] = ms;
    while (i < time.length - 2 && time[i + 1]! <= ms) i++;
    const length = time[i + 1]! - time[i]!;
    const part = (ms - time[i]!) / length;
    const nearest = part < 0.5 ? i : i + 1;
    if (Math.abs(time[nearest]! - ms) <= step / 2) even.lines[place] = lines[nearest]!;
    const exact = part === 0 ? i : part === 1 ? i + 1 : -1;
    for (const [k, column] of rows.values.entries()) {
      even.values[k]![place] =
        exact >= 0
          ? column[exact]!
          : length > BRIDGED * step
            ? Number.NaN
            : column[i]! + part * (column[i + 1]! - column[i]!);
    }
  }
  return { rows: even, step, gaps, calendar: null, jittered: 0, jitter: 0, resampled: true, jumps: false };
}
