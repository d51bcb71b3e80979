/** Parts of dates and clocks in columns of their own, such as year, month and hour. */
import { DAY, HOUR, MINUTE, midnight, monday, monthOf, parseStamp, SECOND } from './clock.ts';

interface PartColumn {
  readonly header: string | null;
  readonly cells: readonly string[];
}

const NUMBERED = {
  year: [/^(?:years?|yr|yyyy|jahr|ann[eé]e|año)$/i, 1500, 2200],
  quarter: [/^(?:quarter|qtr|quartal|trimest(?:re|er))$/i, 1, 4],
  month: [/^(?:months?|mon|mo|monat|mois|mes)$/i, 1, 12],
  week: [/^(?:(?:iso[ _]?)?week|wk|kw|woche|semaine|semana)$/i, 1, 53],
  yday: [/^(?:doy|yday|j(?:ul(?:ian)?)?[ _]?day|day[ _]?of[ _]?(?:the[ _]?)?year)$/i, 1, 366],
  day: [/^(?:days?|mday|tag|jour|d[ií]a|day[ _]?of[ _]?(?:the[ _]?)?month)$/i, 1, 31],
  hour: [/^(?:hours?|hr|stunde|heure|hora)$/i, 0, 24],
  minute: [/^(?:minutes?|min|mn)$/i, 0, 59],
  second: [/^(?:seconds?|secs?)$/i, 0, 60],
} as const;

type Numbered = keyof typeof NUMBERED;
/** `clock` is a time of day such as 14:05, or 1405. */
export type Part = Numbered | 'clock';

const isNumbered = (part: Part): part is Numbered => part !== 'clock';
/** Headers of hours beside dates, and of other things elsewhere. */
const HOUR_TOO = /^(?:h|time|uhrzeit)$/i;
const CLOCK = /^(?:time|clock|hhmm|zeit|uhrzeit|heure|hora)$/i;

/** Returns the number of a part of a date, or the ms since midnight of a clock; NaN for any other text. */
export function readPart(cell: string, part: Part): number {
  if (!isNumbered(part)) {
    const stamp = parseStamp(cell);
    if (stamp !== null) return stamp.date ? Number.NaN : stamp.wall;
    const [, hour = '0', minute] = /^(?:(\d{1,2})(?=\d\d$))?(\d{1,2})$/.exec(cell) ?? [];
    return Number(hour) <= 24 && Number(minute) < 60
      ? Number(hour) * HOUR + Number(minute) * MINUTE
      : Number.NaN;
  }
  const month = part === 'month' ? monthOf(cell) : Number.NaN;
  const number = cell === '' ? Number.NaN : Number(cell.replace(/^[QW](?=\d)/i, ''));
  const [, low, high] = NUMBERED[part];
  if (!Number.isNaN(month)) return month;
  return number >= low && number <= high && (part === 'second' || Number.isInteger(number))
    ? number
    : Number.NaN;
}

/** Returns true if a column is named as a part, and its cells hold it. */
export function holdsPart({ header, cells }: PartColumn, part: Part): boolean {
  const pattern = isNumbered(part) ? NUMBERED[part][0] : CLOCK;
  if (!pattern.test(header ?? '') && !(part === 'hour' && HOUR_TOO.test(header ?? ''))) return false;
  const filled = cells.filter((cell) => cell !== '');
  // Clocks up to 24 are hours.
  if (part === 'clock' && filled.every((cell) => Number(cell) <= 24)) return false;
  return filled.length > 0 && filled.every((cell) => !Number.isNaN(readPart(cell, part)));
}

/** Finds columns of a year and a part of it, and of smaller parts; null where there are none. */
export function findParts(columns: readonly PartColumn[]): ReadonlyMap<Part, number> | null {
  const found = new Map<Part, number>();
  const take = (...parts: readonly Part[]): boolean =>
    parts.every((part) => {
      const index = columns.findIndex((column) => holdsPart(column, part));
      if (index >= 0) found.set(part, index);
      return index >= 0;
    });
  if (!take('year')) return null;
  const has = (part: Part): boolean => columns.some((column) => holdsPart(column, part));
  if (has('month') && (has('day') || !has('yday'))) take('month', 'day');
  else if (!take('yday') && !take('week')) take('quarter');
  if (found.size === 1) return null;
  if ((found.has('day') || found.has('yday')) && !take('clock')) take('hour', 'minute', 'second');
  return found;
}

/**
 * Returns the ms since 1970 of the parts of a time, or since midnight without a year; NaN for a date that no calendar has.
 */
export function joinParts(parts: ReadonlyMap<Part, number>): number {
  const part = (name: Part, otherwise = 0): number => parts.get(name) ?? otherwise;
  const ofDay = part('hour') * HOUR + part('minute') * MINUTE + part('second') * SECOND + part('clock');
  const year = parts.get('year');
  if (year === undefined) return ofDay;
  if (parts.has('week')) return monday(year, part('week')) + ofDay;
  const date =
    midnight(year, part('month', 3 * part('quarter', 1) - 2), part('day', 1)) + (part('yday', 1) - 1) * DAY;
  return new Date(date).getUTCFullYear() === year ? date + ofDay : Number.NaN;
}

/** Indices of columns of numbers that are parts of dates by their names and ranges, or count days: no values. */
export function datePartColumns(columns: readonly PartColumn[]): number[] {
  const numbers = columns.map(({ cells }) => cells.filter((cell) => cell !== '').map(Number));
  const within = (part: Numbered, whole: boolean): number =>
    columns.findIndex(({ header }, i) => {
      const [pattern, low, high] = NUMBERED[part];
      const own = numbers[i]!;
      if (!pattern.test(header ?? '') || own.length === 0) return false;
      const days = part === 'day' || part === 'yday';
      const rising = days && own.every((number, k) => k === 0 || number >= own[k - 1]!);
      return own.every(
        (number) => (rising || (number >= low && number <= high)) && (!whole || Number.isInteger(number)),
      );
    });
  // Averages of parts stand beside one of the year.
  const whole = within('year', false) < 0;
  const found = (['year', 'quarter', 'month', 'week', 'yday', 'day'] as const).map((part) =>
    within(part, whole),
  );
  for (const part of ['hour', 'minute', 'second'] as const) {
    const index = within(part, whole);
    if (index < 0) break;
    found.push(index);
  }
  return [...new Set(found.filter((index) => index >= 0))].sort((a, b) => a - b);
}
