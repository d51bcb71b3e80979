/** Time columns of a table: detection, formats, and the instants they name. */
import { ConfigError, DataError } from '../../src/ground/errors.ts';
import { show } from '../../src/ground/json-record.ts';
import { plural } from '../../src/ground/numbers.ts';
import {
  DAY,
  formatTime,
  HOUR,
  instantsOf,
  MINUTE,
  nearestYear,
  offsetZone,
  parseCompact,
  parseStamp,
  SECOND,
  type TimeOrigin,
} from './clock.ts';
import type { CsvRecords } from './csv-records.ts';
import type { Note } from './quality.ts';
import { Column, NUMBER } from './record.ts';
import { directions } from './sampling.ts';
import { findParts, holdsPart, joinParts, type Part, readPart } from './time-parts.ts';

/** Unit and origin of the numbers of a time column. */
interface NumberForm {
  readonly what:
    | 'epoch'
    | 'compact'
    | 'excel'
    | 'day'
    | 'year'
    | 'decimal-year'
    | 'clock'
    | 'elapsed'
    | 'index';
  /** Milliseconds per unit; samples per year for decimal years. */
  readonly unit: number;
  readonly name: string;
}

export interface TimePlan {
  /** Indices of one column, of one of dates and one of clocks, or of parts of the time. */
  readonly columns: readonly number[];
  readonly names: readonly string[];
  /** Meaning of each of several columns; empty for one. */
  readonly parts: readonly ('date' | Part)[];
  /** Null for time stamps in text form. */
  readonly number: NumberForm | null;
}

export interface SampledColumn {
  readonly name: string;
  readonly header: string | null;
  readonly cells: readonly string[];
}

const WORDS = /(?:^|[^a-z])(?:time|timestamp|date|datetime|epoch|unix|zeit|datum|uhrzeit|hora|fecha|heure)/i;
const NAMES =
  /^[@_]?(?:times?|timestamps?|time[_ ]?stamp|dates?|date[_ ]?time|ds|dt|ts|t|epoch|unix|created[_ ]?at|seconds?|secs?)(?:[^a-z].*)?$/i;
const INDEX = /^(?:index|idx|steps?|t|n|no|nr|#|row|id|sample|unnamed: 0)?$/i;
const DATE = /(?:^|[^a-z])(?:date|datum|fecha|day|tag)(?:[^a-z]|$)/i;
const WEEK = /week|yyyyww|(?:^|[^a-z])(?:wk|kw|woche|semaine|semana)(?:[^a-z]|$)/i;
const MONTH =
  /month|monat|yyyymm|(?:^|[^a-z])(?:ym|mois|mes|periode?|date|datum|fecha|time|ds|t|index)(?:[^a-z]|$)/i;
/** Headers of calendar units whose texts may be times. */
const CALENDAR =
  /(?:^|[^a-z])(?:years?|quarters?|qtr|months?|weeks?|days?|periods?|year(?:mon|month|qtr|week))(?:[^a-z]|$)/i;
/** Headers of years, and of dates in general. */
const NAMED_YEAR = /year|(?:^|[^a-z])(?:yr|jahr|ann[eé]e|date|period)(?:[^a-z]|$)/i;
const YEAR = /(?:^|[^a-z])(?:years?|yr|jahr|ann[eé]e|date|time|period)(?:[^a-z]|$)/i;
/** Headers that name a unit of elapsed time. */
const SHORT_UNIT =
  /(?:^|[^a-z])(?:[nmuµ]?s|m?secs?|(?:nano|micro|milli)?seconds?|mins?|minutes?|h|hrs?|hours?|d|days?|epoch|unix)[^a-z]*$/i;
const UNIT_OF_HEADER: readonly (readonly [RegExp, number, string])[] = [
  [/(?:^|[^a-z])(?:ns|nanoseconds?)[^a-z]*$/i, 1e-6, 'nanoseconds'],
  [/(?:^|[^a-z])(?:us|µs|microseconds?)[^a-z]*$/i, 1e-3, 'microseconds'],
  [/(?:^|[^a-z])(?:ms|msecs?|milliseconds?)[^a-z]*$/i, 1, 'milliseconds'],
  [/(?:^|[^a-z])(?:min|mins|minutes?)[^a-z]*$/i, MINUTE, 'minutes'],
  [/(?:^|[^a-z])(?:h|hr|hrs|hours?)[^a-z]*$/i, HOUR, 'hours'],
  [/(?:^|[^a-z])(?:d|days?)[^a-z]*$/i, DAY, 'days'],
];
const EPOCHS: readonly (readonly [number, string])[] = [
  [SECOND, 'seconds'],
  [1, 'milliseconds'],
  [1e-3, 'microseconds'],
  [1e-6, 'nanoseconds'],
];
const EARLIEST = Date.UTC(1980, 0, 1);
const LATEST = Date.UTC(2100, 0, 1);
/** Unit in which a number is a time since 1970, by its size; undefined for other numbers. */
export const epochOf = (number: number) =>
  EPOCHS.find(([unit]) => number * unit >= EARLIEST && number * unit <= LATEST);
/** 1 January 1970 in the day count of spreadsheets. */
const EXCEL_EPOCH = 25_569;
/** Days since 1970 up to 2030; spreadsheets count those from 20 000 on as 1954 to 1960. */
const LAST_DAY = 22_280;

/**
 * Returns true for days or weeks since 1970, as R counts dates: from 1980, or from 1950 if before 1970. Smaller numbers may count
 * from anywhere.
 */
function countsDays(numbers: readonly number[]): boolean {
  const days = [...new Set(numbers)].sort((a, b) => a - b);
  const [low, high] = [days[0]!, days.at(-1)!];
  if (low * DAY < Date.UTC(1950, 0, 1) || (low >= 0 && low * DAY < EARLIEST) || high > LAST_DAY) return false;
  const steps = days.slice(1).map((day, i) => day - days[i]!);
  const step = Math.min(...steps);
  return (
    (step === 1 || step === 7) &&
    steps.every((length) => length % step === 0) &&
    steps.filter((length) => length === step).length >= 0.75 * steps.length
  );
}

/** First and last year that a number names. */
const YEARS = [1500, 2200] as const;
const yearOf = (ms: number): number => new Date(ms).getUTCFullYear();
const namesYear = (year: number): boolean => year >= YEARS[0] && year < YEARS[1] + 1;
/** Samples per year of common series: years, months, weeks, trading days, days. */
const PER_YEAR = [1, 2, 3, 4, 6, 12, 13, 24, 26, 48, 52, 365.25 / 7, 252, 260, 261, 365, 365.25, 366];

/**
 * Samples per year of decimal years such as 1998.25, which may be rounded to 2 to 4 decimals; null for other numbers. Some samples
 * may be missing.
 */
function samplesPerYear(numbers: readonly number[]): number | null {
  const years = [...new Set(numbers)].sort((a, b) => a - b);
  if (years.length < 3 || !years.every(namesYear) || years.every(Number.isInteger)) return null;
  const fits = (perYear: number): boolean => {
    let [last, single] = [-1, 0];
    for (const year of years) {
      const exact = (year - years[0]!) * perYear;
      const place = Math.round(exact);
      if (place <= last || Math.abs(exact - place) > Math.min(0.0055 * perYear, 0.3)) return false;
      if (place === last + 1) single++;
      last = place;
    }
    return single >= 0.9 * years.length;
  };
  return PER_YEAR.find(fits) ?? null;
}

/** Returns the ms since 1970 of a decimal year: the first day of its month, or a date within the year. */
function decimalYear(value: number, perYear: number): number {
  const year = Math.floor(value + 0.1 / perYear);
  const share = value - year;
  // The middle of a month is in that month; a rounded beginning is not in the one before.
  if (perYear <= 12) return Date.UTC(year, Math.floor(12 * share + 0.1), 1);
  const start = Date.UTC(year, 0, 1);
  const unit = perYear < 53 || Number.isInteger(perYear / 365) ? DAY : MINUTE;
  return start + unit * Math.round((share * (Date.UTC(year + 1, 0, 1) - start)) / unit);
}

/** Fewest numbers that look like times by themselves. */
const FEWEST_STAMPS = 8;

/** Returns true if nearly all numbers rise, or nearly all fall, as row numbers and times do. */
function counts(numbers: readonly number[]): boolean {
  const { up, down } = directions(numbers);
  return numbers.length > 1 && Math.max(up, down) >= 0.9 * (numbers.length - 1);
}

/** Returns true if nearly all numbers rise by the same step, as the stamps of samples do. */
function risesEvenly(numbers: readonly number[]): boolean {
  const steps = numbers.slice(1).map((number, i) => number - numbers[i]!);
  const [short, long] = [0.1, 0.9].map(
    (share) => steps.toSorted((a, b) => a - b)[Math.floor(share * steps.length)]!,
  );
  return short! > 0 && long! <= 1.1 * short!;
}

/**
 * Returns true for clock times in figures, such as 840 for 8:40: even by the clock and, as numbers, either uneven or falling at
 * midnight.
 */
function holdsClocks(column: SampledColumn, numbers: readonly number[]): boolean {
  if (numbers.length < FEWEST_STAMPS || !holdsPart(column, 'clock')) return false;
  const clocks = column.cells.filter((cell) => cell !== '').map((cell) => readPart(cell, 'clock'));
  const steps = clocks.slice(1).map((clock, i) => (clock - clocks[i]! + DAY) % DAY);
  let sum = 0;
  const elapsed = [0, ...steps].map((step) => (sum += step));
  const typical = steps.toSorted((a, b) => a - b)[steps.length >> 1]!;
  const midnights = steps.filter((_, i) => numbers[i + 1]! < numbers[i]!);
  return (
    risesEvenly(elapsed) &&
    (!risesEvenly(numbers) || midnights.length > 0) &&
    midnights.every((step) => step <= 2 * typical)
  );
}

/**
 * Time format of the numbers of a column; null where neither their size nor the header suggests one.
 * @param meant true where the user named the column as time
 */
function numberForm(column: SampledColumn, index: number, meant = false): NumberForm | null {
  const { header } = column;
  const filled = column.cells.filter((cell) => cell !== '');
  const unnamed = index === 0 && !header;
  const period = WEEK.test(header ?? '') ? 'weeks' : unnamed || MONTH.test(header ?? '') ? 'months' : null;
  const isPeriod = (cell: string): boolean => namesYear(yearOf(parseCompact(cell, period!)));
  if (period !== null && filled.length > 0 && filled.every(isPeriod))
    return { what: 'compact', unit: 1, name: period };
  const cells = filled.filter((cell) => NUMBER.test(cell));
  if (cells.length === 0 || 2 * cells.length <= filled.length) return null;
  const numbers = cells.map(Number);
  const name = header ?? '';
  const named = meant || NAMES.test(name) || WORDS.test(name);
  const [low, high] = [Math.min(...numbers), Math.max(...numbers)];
  const whole = numbers.every(Number.isInteger);
  // Without a header only the first column, and only numbers that hardly are anything else.
  if (named || unnamed) {
    if (cells.every((cell) => !Number.isNaN(parseCompact(cell))))
      return { what: 'compact', unit: 1, name: 'dates' };
  }
  const stamps = numbers.length >= FEWEST_STAMPS && risesEvenly(numbers);
  if (named || stamps || unnamed) {
    const epoch = epochOf(low);
    const same = epoch !== undefined && epochOf(high) === epoch;
    // Several units in one column are told apart by the size of each number.
    if (same || (named && numbers.every((number) => epochOf(number) !== undefined)))
      return { what: 'epoch', unit: epoch![0], name: epoch![1] };
  }
  const byOne = numbers.length > 1 && numbers.every((number, i) => number === low + i);
  const isYearly = (YEAR.test(name) && !SHORT_UNIT.test(name)) || unnamed;
  if (whole && namesYear(low) && namesYear(high) && low !== high && isYearly) {
    if (byOne || /year|yr|jahr|ann/i.test(name)) return { what: 'year', unit: 1, name: 'years' };
  }
  const mayBeYears = (named || YEAR.test(name) || INDEX.test(name)) && !SHORT_UNIT.test(name);
  const perYear = mayBeYears ? samplesPerYear(numbers) : null;
  // Halves and quarters may be seconds, unless the header says years or the years are recent ones.
  const isSure =
    perYear !== null &&
    (perYear === 1 || perYear > 4 || NAMED_YEAR.test(name) || (low >= 1750 && high <= 2100));
  if (perYear !== null && isSure) return { what: 'decimal-year', unit: perYear, name: 'decimal years' };
  // Days with a clock, as spreadsheets of this century export them: whole minutes, which have long fractions, unlike counted seconds.
  const minutes = (days: number): boolean => Math.abs(days * 1440 - Math.round(days * 1440)) < 0.02;
  const long = cells.some((cell) => /\.\d{4}/.test(cell));
  const clocks = named && long && low >= 36_526 && high <= 55_000 && numbers.every(minutes);
  if (DATE.test(name) && whole && countsDays(numbers))
    return { what: 'day', unit: DAY, name: 'days since 1970-01-01' };
  if (clocks || (DATE.test(name) && low >= 20_000 && high <= 80_000))
    return { what: 'excel', unit: DAY, name: 'days since 1899-12-30' };
  if (holdsClocks(column, numbers)) return { what: 'clock', unit: 1, name: 'clock times' };
  const rows = byOne && (low === 0 || low === 1) && (numbers.length > 2 || header === '');
  if ((rows && INDEX.test(name)) || (header && INDEX.test(name) && whole && counts(numbers)))
    return { what: 'index', unit: 1, name: 'row numbers' };
  if (!meant && !(NAMES.test(name) && counts(numbers))) return null;
  const [, unit, unitName] = UNIT_OF_HEADER.find(([pattern]) => pattern.test(name)) ?? [
    null,
    SECOND,
    'seconds',
  ];
  return { what: 'elapsed', unit, name: unitName };
}

type Kind = 'stamp' | 'date' | 'clock' | 'none';

function kindOfCells(cells: readonly string[]): Kind {
  let filled = 0;
  const counts = { stamp: 0, date: 0, clock: 0 };
  for (const cell of cells) {
    if (cell === '') continue;
    filled++;
    const stamp = NUMBER.test(cell) ? null : parseStamp(cell);
    if (stamp !== null) counts[stamp.date ? (stamp.clock ? 'stamp' : 'date') : 'clock']++;
  }
  const all = counts.stamp + counts.date + counts.clock;
  if (all === 0 || 2 * all < filled) return 'none';
  if (counts.stamp > 0 || (counts.date > 0 && counts.clock > 0)) return 'stamp';
  return counts.date > 0 ? 'date' : 'clock';
}

const isHours = (cells: readonly string[]): boolean =>
  cells.every((cell) => cell === '' || !Number.isNaN(readPart(cell, 'hour')));

export const isTimeName = (header: string | null): boolean =>
  header !== null && header !== '' && (NAMES.test(header) || WORDS.test(header));

/** Returns true for headers of times and of calendar units, such as weeks. */
export const isCalendarName = (header: string | null): boolean =>
  isTimeName(header) || CALENDAR.test(header ?? '');

/**
 * Columns that hold the time. The first of dates with a clock; else the first of dates, joined with the first of clocks, or
 * of whole hours; else clocks alone; else numbers that count time: since 1970 by their size, or as the header says; else row numbers.
 */
export function findTime(columns: readonly SampledColumn[]): TimePlan | null {
  const kinds = columns.map(({ cells }) => kindOfCells(cells));
  const [stamp, date, clock] = [kinds.indexOf('stamp'), kinds.indexOf('date'), kinds.indexOf('clock')];
  if (stamp >= 0) return planOf(columns, [stamp]);
  const withClock = (day: number): TimePlan => {
    const repeats = new Set(columns[day]!.cells).size < columns[day]!.cells.length;
    const holdsClock = (column: SampledColumn): boolean =>
      holdsPart(column, 'hour') || holdsPart(column, 'clock');
    const second = clock < 0 && repeats ? columns.findIndex(holdsClock) : clock;
    return planOf(columns, second >= 0 ? [day, second] : [day]);
  };
  if (date >= 0) return withClock(date);
  const forms = columns.map((column, i) => numberForm(column, i));
  const compact = forms.findIndex((form) => form?.what === 'compact');
  if (compact >= 0 && (clock >= 0 || !forms.some((form) => form?.what === 'epoch')))
    return withClock(compact);
  const isDated = forms.some((form) => ['epoch', 'compact', 'excel', 'day'].includes(form?.what ?? ''));
  const parts = isDated ? null : findParts(columns);
  if (parts !== null) return planOf(columns, [...parts.values()]);
  if (clock >= 0) return planOf(columns, [clock]);
  const byRank = (
    ['epoch', 'compact', 'excel', 'day', 'year', 'decimal-year', 'clock', 'elapsed', 'index'] as const
  )
    .map((what) => forms.findIndex((form) => form?.what === what))
    .find((i) => i >= 0);
  // The only column of a file is its values.
  return byRank === undefined || columns.length === 1 ? null : planOf(columns, [byRank]);
}

/**
 * Format of time columns.
 * @param meant true where the user named them
 * @throws ConfigError for several columns that give no time together
 */
export function planOf(
  columns: readonly SampledColumn[],
  chosen: readonly number[],
  meant = false,
): TimePlan {
  const first = columns[chosen[0]!]!;
  const names = chosen.map((i) => columns[i]!.name);
  const parts = chosen.length > 1 ? findParts(chosen.map((i) => columns[i]!)) : null;
  if (parts !== null && parts.size === chosen.length) {
    const indices = [...parts.values()].map((k) => chosen[k]!);
    const ordered = indices.map((i) => columns[i]!.name);
    return { columns: indices, names: ordered, number: null, parts: [...parts.keys()] };
  }
  const number = kindOfCells(first.cells) === 'none' ? numberForm(first, chosen[0]!, meant) : null;
  if (chosen.length === 1) return { columns: chosen, names, number, parts: [] };
  const { cells } = columns[chosen[1]!]!;
  if (chosen.length > 2 || (number !== null && number.what !== 'compact'))
    throw new ConfigError(
      `--time ${names.join(',')}: these columns give no time together; name one column, a date and a clock as date,clock, or a year and parts of it as year,month,day,hour,minute,second (or year,quarter; year,week; year,doy), each under such a name`,
    );
  return { columns: chosen, names, number, parts: ['date', isHours(cells) ? 'hour' : 'clock'] };
}

/** Returns true for numbers that may be time; beside a time column they are no values. */
export function countsTime(column: SampledColumn, index: number): boolean {
  const form = numberForm(column, index);
  return form !== null && (form.what !== 'year' || /year|jahr/i.test(column.header ?? ''));
}

/** Decisions about a column of time that hold for later rows of the same table. */
interface TimeDecisions {
  /** True for stamps with a date, and for those without a year. */
  readonly dated: boolean;
  readonly yearless: boolean;
  /** Order of day and month; null where no stamp so far is ambiguous. */
  readonly monthFirst: boolean | null;
  /** Last instant so far; after it, the second pass of a repeated hour begins. */
  readonly last: number;
}

export interface ReadTimes {
  readonly decided: TimeDecisions;
  /** Instants in file order [N]. */
  readonly time: Float64Array;
  readonly zone: string | null;
  /** Zone whose clock the stamps follow; another one than `zone` where that only says how to show them. */
  readonly clockZone: string | null;
  readonly origin: TimeOrigin;
  /** True for row numbers, which order the rows but name no time. */
  readonly ordinal: boolean;
  readonly notes: readonly Note[];
}

/** Times before decisions are added; a clock of their own only where it is another one than `zone`. */
type FoundTimes = Omit<ReadTimes, 'decided' | 'clockZone'> & Partial<Pick<ReadTimes, 'clockZone'>>;

/** Step back that means the next day, for a clock without a date. */
const NEXT_DAY = 6 * HOUR;

export class TimeColumn {
  readonly #plan: TimePlan;
  #lines: Int32Array = new Int32Array(0);
  readonly #wall = new Column();
  /** Month-first reading of `03/04/2024`; null until a stamp is ambiguous. */
  #monthFirst: Column | null = null;
  readonly #offset = new Column();
  readonly #decided: TimeDecisions | null;
  #usesMonthFirst: boolean | null;
  #dated: boolean;
  #yearless: boolean;
  #example: { cell: string; line: number } | null = null;
  /** Numbers since 1970 in another unit than most: the first of them, and how many there are. */
  #otherUnit: { readonly line: number; readonly name: string; count: number } | null = null;
  /** First date whose day and month may be exchanged. */
  #exchangeable = '';

  /** @param decided decisions about earlier rows of the table, which apply to these */
  constructor(plan: TimePlan, decided: TimeDecisions | null = null) {
    this.#plan = plan;
    this.#decided = decided;
    this.#dated = decided?.dated ?? false;
    this.#yearless = decided?.yearless ?? false;
    this.#usesMonthFirst = decided?.monthFirst ?? null;
  }

  /** @throws DataError with line and column for a cell that is no time */
  add(records: CsvRecords): void {
    const { columns, parts, number } = this.#plan;
    if (parts.length > 0) {
      this.#join(records);
      return;
    }
    const cell = records.field(columns[0]!);
    if (number !== null) {
      const value =
        number.what === 'compact'
          ? parseCompact(cell, number.name)
          : NUMBER.test(cell)
            ? Number(cell)
            : Number.NaN;
      let ms = value * number.unit;
      if (number.what === 'clock') ms = readPart(cell, 'clock');
      if (number.what === 'year') ms = Date.UTC(value, 0, 1);
      if (number.what === 'decimal-year') ms = value; // converted once all are known
      if (number.what === 'epoch' && (ms < EARLIEST || ms > LATEST)) {
        const other = epochOf(value);
        if (other !== undefined) {
          this.#otherUnit ??= { line: records.line, name: other[1], count: 0 };
          this.#otherUnit.count++;
          ms = value * other[0];
        }
      }
      if (number.what === 'excel') ms = Math.round((value - EXCEL_EPOCH) * DAY);
      if (!(Math.abs(ms) <= 8.64e15)) throw this.#wrong(records, 0, cell);
      this.#push(ms, ms, Number.NaN, cell, records);
      return;
    }
    const stamp = parseStamp(cell);
    if (stamp === null) throw this.#wrong(records, 0, cell);
    const { date, yearless = false } = stamp;
    if (this.#wall.length === 0 && this.#decided === null) [this.#dated, this.#yearless] = [date, yearless];
    else if (date !== this.#dated || yearless !== this.#yearless) throw this.#wrong(records, 0, cell);
    this.#push(stamp.wall, stamp.monthFirst, stamp.offset, cell, records);
  }

  /** Adds the time that several columns give together. */
  #join(records: CsvRecords): void {
    const { columns, parts, number } = this.#plan;
    const cells = columns.map((i) => records.field(i));
    const values = new Map<Part, number>();
    let [wall, monthFirst, offset] = [0, 0, Number.NaN];
    for (const [k, part] of parts.entries()) {
      const cell = cells[k]!;
      const isStamp = part === 'clock' || (part === 'date' && number === null);
      const stamp = isStamp ? parseStamp(cell) : null;
      if (Number.isNaN(offset)) offset = stamp?.offset ?? Number.NaN;
      if (part === 'date') {
        wall = stamp?.wall ?? parseCompact(cell, number?.name);
        monthFirst = stamp?.monthFirst ?? wall;
        if (Number.isNaN(wall) && Number.isNaN(monthFirst)) throw this.#wrong(records, k, cell);
        continue;
      }
      const value = stamp === null ? readPart(cell, part) : stamp.date ? Number.NaN : stamp.wall;
      if (Number.isNaN(value)) throw this.#wrong(records, k, cell);
      values.set(part, value);
    }
    const joined = joinParts(values);
    if (Number.isNaN(joined)) {
      const day = parts.findLastIndex((part) => part === 'day' || part === 'yday' || part === 'week');
      throw this.#wrong(records, day, cells[day]!);
    }
    this.#dated = true;
    this.#push(wall + joined, monthFirst + joined, offset, cells[0]!, records);
  }

  #push(wall: number, monthFirst: number, offset: number, cell: string, records: CsvRecords): void {
    this.#example ??= { cell, line: records.line };
    if (this.#monthFirst === null && wall !== monthFirst) {
      this.#monthFirst = new Column();
      this.#exchangeable = cell;
      for (let i = 0; i < this.#wall.length; i++) this.#monthFirst.push(this.#wall.at(i)!);
    }
    this.#wall.push(wall);
    this.#offset.push(offset);
    this.#monthFirst?.push(monthFirst);
  }

  #wrong(records: CsvRecords, at: number, cell: string): DataError {
    const { columns, names, number, parts } = this.#plan;
    const what = cell === '' ? 'empty cell' : show(cell);
    const example = this.#example;
    const like = example === null ? '' : ` written like ${show(example.cell)} of line ${example.line}`;
    const part = parts[at] ?? 'date';
    const noun =
      part === 'clock'
        ? 'time of day such as 14:05'
        : part !== 'date'
          ? `${part === 'yday' ? 'day of the year' : part} in figures`
          : `${number !== null ? `number of ${number.name}` : 'time'}${like}`;
    return new DataError(
      `${what} in the time column ${show(names[at]!)}; expected a ${noun}; correct the cell or remove the row`,
      records.place(columns[at]!),
    );
  }

  /**
   * The instants of all rows; `lines` [N] of the file, for messages.
   * @throws DataError where some dates exist with the day first alone, and others with the month first alone
   */
  finish(lines: Int32Array, file: string, tz: string | null): ReadTimes {
    const times = this.#finish(lines, file, tz);
    const last = times.time.reduce((latest, ms) => Math.max(latest, ms), this.#decided?.last ?? -Infinity);
    const decided = { dated: this.#dated, yearless: this.#yearless, monthFirst: this.#usesMonthFirst, last };
    return { clockZone: times.zone, ...times, decided };
  }

  #finish(lines: Int32Array, file: string, tz: string | null): FoundTimes {
    this.#lines = lines;
    const notes: Note[] = [];
    const { number } = this.#plan;
    const offset = this.#offset.take();
    const time = this.#dates(this.#wall.take(), file, notes);
    const { names, parts } = this.#plan;
    if (parts.includes('year') && time.length > 0)
      notes.push({
        kind: 'time-columns',
        text: `Columns ${names.map(show).join(', ')} together are read as the time; line ${lines[0]} is ${formatTime(time[0]!, { zone: null, step: DAY })}.`,
      });
    if (number?.what === 'compact' && number.name !== 'dates')
      notes.push({
        kind: 'period',
        text: `Column ${show(this.#plan.names[0]!)} is read as ${number.name}, written like ${show(this.#example?.cell ?? '')}.`,
      });
    const isClock = number === null || number.what === 'clock';
    if (number !== null && number.what !== 'compact' && !isClock)
      return this.#numbers(time, offset, number, tz, notes);
    if (!this.#dated && isClock) {
      const days = rollOver(time);
      notes.push({
        kind: 'time-of-day',
        text: `Column ${show(this.#plan.names[0]!)} holds times of day${number === null ? '' : ` such as ${this.#example?.cell} in hours and minutes`} without a date; ${days === 0 ? 'all are read as one day' : `a new day begins where the clock goes back (${days === 1 ? 'once' : `${days} times`})`}.`,
      });
      return { time, zone: null, origin: 'midnight', ordinal: false, notes };
    }
    if (this.#yearless && time.length > 0) {
      addYears(time, this.#decided?.last ?? null);
      const years = [time[0]!, time.at(-1)!].map((ms) => new Date(ms).getUTCFullYear());
      notes.push({
        kind: 'no-year',
        text: `Column ${show(this.#plan.names[0]!)} names no year; its stamps are read as of ${[...new Set(years)].join(' to ')}, the latest that is not in the future.`,
      });
    }
    const seen = new Set<number>();
    let naive = 0;
    for (const minutes of offset) {
      if (Number.isNaN(minutes)) naive++;
      else seen.add(minutes);
    }
    for (let i = 0; i < time.length; i++) if (!Number.isNaN(offset[i]!)) time[i]! -= offset[i]! * MINUTE;
    if (naive > 0 && tz !== null) this.#localize(time, offset, tz, notes);
    const zones = [...seen];
    if (naive === time.length) {
      if (tz === null) {
        notes.push({
          kind: 'naive-time',
          text: 'The time stamps have no time zone and are shown as written; set their zone with --tz.',
        });
      }
      return { time, zone: tz, origin: 'calendar', ordinal: false, notes };
    }
    if (naive > 0) {
      const first = offset.findIndex(Number.isNaN);
      notes.push({
        kind: 'naive-time',
        text: `${naive} of ${time.length} time stamps have no time zone, the first in line ${this.#lines[first]}; they are read as ${tz ?? 'UTC'}.`,
      });
    }
    if (zones.length > 1) {
      const names = zones.slice(0, 4).map(offsetZone).join(', ');
      notes.push({
        kind: 'mixed-offsets',
        text: `The time stamps have ${zones.length} offsets (${names}); all are shown in ${tz ?? 'UTC; choose another zone with --tz'}.`,
      });
    }
    const own = zones.length === 1 && naive === 0 ? offsetZone(zones[0]!) : 'UTC';
    const zone = tz ?? own;
    return { time, zone, clockZone: naive > 0 ? zone : own, origin: 'calendar', ordinal: false, notes };
  }

  #numbers(
    time: Float64Array,
    offset: Float64Array,
    number: NumberForm,
    tz: string | null,
    notes: Note[],
  ): FoundTimes {
    const name = show(this.#plan.names[0]!);
    const calendar = { time, origin: 'calendar' as const, ordinal: false, notes };
    if (number.what === 'index') return { time, zone: null, origin: 'start', ordinal: true, notes };
    if (number.what === 'epoch') {
      notes.push({
        kind: 'epoch-unit',
        text: `Column ${name} is read as ${number.name} since 1970 (UTC), judging by the size of its numbers.`,
      });
      if (this.#otherUnit !== null) {
        const { count, line, name: other } = this.#otherUnit;
        notes.push({
          ...{ kind: 'mixed-units', count, lines: [line, line] },
          text: `${count} of ${time.length} numbers in column ${name} are in another unit, the first, in ${other}, in line ${line}; each is read by its size.`,
        });
      }
      return { ...calendar, zone: tz ?? 'UTC', clockZone: 'UTC' };
    }
    if (number.what === 'excel' || number.what === 'day') {
      notes.push(
        number.what === 'excel'
          ? { kind: 'excel-date', text: `Column ${name} is read as spreadsheet dates (${number.name}).` }
          : { kind: 'day-number', text: `Column ${name} is read as ${number.name}, as R counts dates.` },
      );
      if (tz !== null) this.#localize(time, offset, tz, notes);
      return { ...calendar, zone: tz };
    }
    if (number.what === 'decimal-year' && time.every(namesYear)) {
      const { cell, line } = this.#example!;
      for (let i = 0; i < time.length; i++) time[i] = decimalYear(time[i]!, number.unit);
      notes.push({
        kind: 'decimal-year',
        text: `Column ${name} is read as decimal years, ${plural(Math.round(number.unit), 'sample')} a year: ${cell} in line ${line} is ${new Date(time[0]!).toISOString().slice(0, 10)}.`,
      });
    } else if (number.what !== 'year') {
      const seconds = number.what === 'decimal-year';
      if (seconds) for (let i = 0; i < time.length; i++) time[i]! *= SECOND;
      notes.push({
        kind: 'elapsed',
        text: `Column ${name} holds no dates; it is read as ${seconds ? 'seconds' : number.name} since the start.`,
      });
      return { time, zone: null, origin: 'start', ordinal: false, notes };
    }
    return { ...calendar, zone: null };
  }

  /** Decides between day and month first over the whole column. */
  #dates(dayFirst: Float64Array, file: string, notes: Note[]): Float64Array {
    const monthFirst = this.#monthFirst?.take();
    if (monthFirst === undefined) return dayFirst;
    if (this.#usesMonthFirst !== null) {
      const chosen = this.#usesMonthFirst ? monthFirst : dayFirst;
      const wrong = chosen.findIndex(Number.isNaN);
      if (wrong < 0) return chosen;
      const order = this.#usesMonthFirst ? 'month' : 'day';
      throw new DataError(`the date does not have the ${order} first, unlike those before it`, {
        ...{ file, line: this.#lines[wrong]! },
      });
    }
    const noDay = dayFirst.findIndex(Number.isNaN);
    const noMonth = monthFirst.findIndex(Number.isNaN);
    if (noDay >= 0 && noMonth >= 0) {
      throw new DataError(
        `column ${show(this.#plan.names[0]!)} mixes two date formats: day first in line ${this.#lines[noMonth]}, month first in line ${this.#lines[noDay]}; use one of them, preferably 2024-03-01`,
        { file, line: this.#lines[Math.max(noDay, noMonth)]! },
      );
    }
    this.#usesMonthFirst = noDay >= 0;
    if (noDay >= 0) return monthFirst;
    if (noMonth >= 0) return dayFirst;
    const [a, b] = [regularity(dayFirst), regularity(monthFirst)];
    const difference = a.even - b.even || a.exact - b.exact || b.backward - a.backward;
    const order = difference > 0 ? 'day' : 'month';
    const why =
      difference === 0
        ? 'the file does not show which is right'
        : `this way the rows are ${a.even === b.even && a.exact === b.exact ? 'in order' : 'more evenly spaced'}`;
    notes.push({
      kind: 'day-order',
      text: `Dates such as ${show(this.#exchangeable)} are read with the ${order} first; ${why}.`,
    });
    this.#usesMonthFirst = difference <= 0;
    return difference > 0 ? dayFirst : monthFirst;
  }

  /** Converts local times without an offset to instants, in place. */
  #localize(time: Float64Array, offset: Float64Array, tz: string, notes: Note[]): void {
    let twice = 0;
    let first = -1;
    // The second pass of a repeated hour begins where the clock goes back, or where a stamp comes once more than usual.
    let usual = 1;
    let same = 0;
    let last = this.#decided?.last ?? Number.NaN;
    for (const i of inOrder(time)) {
      if (!Number.isNaN(offset[i]!)) continue;
      const wall = time[i]!;
      const [early, late] = instantsOf(wall, tz);
      let instant = early;
      if (late !== undefined) {
        twice++;
        if (first < 0 || i < first) first = i;
        if (early < last || (early === last && same >= usual)) instant = late;
      }
      if (instant === last) same++;
      else {
        same = 1;
        last = instant;
      }
      if (late === undefined) usual = same;
      time[i] = instant;
    }
    if (twice > 0) {
      notes.push({
        kind: 'ambiguous-hour',
        text: `${twice} time stamps are in an hour that occurs twice in ${tz}, because clocks are set back, the first in line ${this.#lines[first]}; they are read in row order.`,
      });
    }
  }
}

/**
 * Gives stamps without a year the one that is nearest to the next stamp, and the last the newest so that none is in the future; later rows go
 * on from the last instant before them.
 */
function addYears(time: Float64Array, last: number | null): void {
  const walls = time.slice();
  if (last !== null) {
    for (const [i, wall] of walls.entries()) time[i] = nearestYear(wall, i === 0 ? last : time[i - 1]!);
    return;
  }
  const latest = Date.now() + DAY; // in any zone
  // Every fourth year has all days, but for some.
  for (let year = new Date().getUTCFullYear() + 1, tries = 0; tries < 10; tries++, year--) {
    for (let i = walls.length - 1; i >= 0; i--)
      time[i] = nearestYear(walls[i]!, time[i + 1] ?? (Date.UTC(year, 0) + Date.UTC(year + 1, 0)) / 2);
    if (time.every((ms) => ms <= latest)) return;
  }
}

/** Number of differences near the median and equal to it, and steps back in file order. */
function regularity(time: Float64Array): { even: number; exact: number; backward: number } {
  const { down } = directions(time);
  const sorted = time.slice().sort();
  const steps = new Float64Array(Math.max(0, sorted.length - 1));
  for (let i = 0; i < steps.length; i++) steps[i] = sorted[i + 1]! - sorted[i]!;
  const median = steps.slice().sort()[steps.length >> 1] ?? 0;
  let [near, equal] = [0, 0];
  for (const step of steps) {
    if (Math.abs(step - median) <= 0.1 * median) near++;
    if (step === median) equal++;
  }
  return { even: near, exact: equal, backward: Math.min(down, time.length - 1 - down) };
}

/** Row indices in order of time: those of a file that mostly descends are reversed. */
function inOrder(time: Float64Array): Uint32Array {
  const { up, down } = directions(time);
  const order = Uint32Array.from(time, (_, i) => i);
  return down > up ? order.reverse() : order;
}

/** Adds a day wherever the clock goes back by hours. @returns the number of days added. Rows may be in descending order. */
function rollOver(time: Float64Array): number {
  let days = 0;
  let last = Number.NaN;
  for (const i of inOrder(time)) {
    const clock = time[i]!;
    if (last - clock >= NEXT_DAY) days++;
    last = clock;
    time[i] = clock + days * DAY;
  }
  return days;
}
