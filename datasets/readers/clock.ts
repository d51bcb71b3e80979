/** Time stamps as programs and people write them, time zones, and times in readable form. */
import { ConfigError } from '../../src/ground/errors.ts';
import { getOrMake } from '../../src/ground/maps.ts';

export const SECOND = 1000;
export const MINUTE = 60 * SECOND;
export const HOUR = 60 * MINUTE;
export const DAY = 24 * HOUR;

interface Stamp {
  /** Written date and clock in ms since 1970-01-01 00:00 of the same clock; NaN for a date that no calendar has. */
  readonly wall: number;
  /** Time where `03/04/2024` is read with the month first; NaN where that is no date. Equal to `wall` for other formats. */
  readonly monthFirst: number;
  /** Minutes east of Greenwich; NaN where no zone is written. */
  readonly offset: number;
  /** True if a date, and a time of day, is written. */
  readonly date: boolean;
  readonly clock: boolean;
  /** True for `Nov 26 14:03:01`, as syslog writes it; `wall` is then of the year 2000, which has all days. */
  readonly yearless?: boolean;
}

/** Maximum length of a time stamp. */
const LONGEST = 64;

const MONTHS: ReadonlyMap<string, number> = new Map(
  [
    ['jan', 'january', 'januar', 'janv', 'janvier', 'ene', 'enero', 'jän', 'jänner'],
    ['feb', 'february', 'februar', 'févr', 'février', 'febrero'],
    ['mar', 'march', 'mär', 'märz', 'mrz', 'mars', 'marzo'],
    ['apr', 'april', 'avr', 'avril', 'abr', 'abril'],
    ['may', 'mai', 'mayo'],
    ['jun', 'june', 'juni', 'juin', 'junio'],
    ['jul', 'july', 'juli', 'juil', 'juillet', 'julio'],
    ['aug', 'august', 'août', 'ago', 'agosto'],
    ['sep', 'sept', 'september', 'septembre', 'septiembre'],
    ['oct', 'october', 'okt', 'oktober', 'octobre', 'octubre'],
    ['nov', 'november', 'novembre', 'noviembre'],
    ['dec', 'december', 'dez', 'dezember', 'déc', 'décembre', 'dic', 'diciembre'],
  ].flatMap((names, i) => names.map((name) => [name, i + 1] as const)),
);

/** Minutes east of Greenwich of abbreviations: those of RFC 2822, and the European ones. */
const ZONES: Readonly<Record<string, number>> = {
  Z: 0,
  UTC: 0,
  GMT: 0,
  WET: 0,
  WEST: 60,
  CET: 60,
  CEST: 120,
  EET: 120,
  EEST: 180,
  EST: -300,
  EDT: -240,
  CST: -360,
  CDT: -300,
  MST: -420,
  MDT: -360,
  PST: -480,
  PDT: -420,
};

const WEEKDAY = /(?:mon|tue|wed|thu|fri|sat|sun)[a-z]{0,6}\.?,? +/iy;
const BETWEEN = /[T_:-]|,? +(?:@ +|at +)?/iy;
const CLOCK = /(\d{1,2}):(\d{2})(?::(\d{2})(?:[.,:](\d{1,9})\d*)?)?(?: ?([ap])\.?m\b\.?)?/iy;
const COMPACT_CLOCK = /(\d{2})(\d{2})(?:(\d{2})(?:[.,](\d{1,9})\d*)?)?(?!\d)/y;
/** Groups of a clock with only the first and the last present. */
const HOUR_ALONE = /(\d{1,2})()()()(?: ?([ap])\.?m\b\.?|$)/iy;
const ZONE = / ?(?:(?:UTC|GMT)?([+-])(\d{2})(?::?(\d{2}))?(?!\d)|([A-Z]{1,4})(?![A-Z]))(?: [A-Z]{3,4}$)?/iy;
const ZONE_ALONE = /^ ?(?:Z|UTC|GMT|[+-]\d\d:?\d\d)$/i;
/** Format of Unix `date`: the year follows the clock and the zone. */
const UNIX_DAY = /(\p{L}{3,10}) +(\d{1,2}) +(?=\d{1,2}:)/iuy;
const UNIX_YEAR = / +(\d{4})$/y;
const UNIX_END = /^ +\d{4}$/;
/** Leap year of stamps without one. */
const YEARLESS = 2000;

const MONTH_DAYS = [31, 29, 31, 30, 31, 30, 31, 31, 30, 31, 30, 31];

/** Ms since 1970 of midnight; NaN for a date that no calendar has, or before the year 1000. */
export function midnight(year: number, month: number, day: number): number {
  if (!(year >= 1000 && month >= 1 && month <= 12 && day >= 1 && day <= MONTH_DAYS[month - 1]!))
    return Number.NaN;
  if (day === 29 && month === 2 && (year % 4 !== 0 || (year % 100 === 0 && year % 400 !== 0)))
    return Number.NaN;
  return Date.UTC(year, month - 1, day);
}

/** Ms since midnight; NaN for a time that no clock shows. `24:00` ends a day, `:60` is a leap second. */
function timeOfDay(hour: number, minute: number, second: number, milliseconds: number): number {
  const whole = hour * HOUR + minute * MINUTE + second * SECOND + milliseconds;
  return minute > 59 || second > 60 || hour > 24 || (hour === 24 && whole > DAY) ? Number.NaN : whole;
}

/** Two digits of a text as a number; NaN for anything else. */
function two(text: string, at: number): number {
  const tens = text.charCodeAt(at) - 48;
  const ones = text.charCodeAt(at + 1) - 48;
  return tens >= 0 && tens <= 9 && ones >= 0 && ones <= 9 ? 10 * tens + ones : Number.NaN;
}

/** `2024-03-01 14:05`, also with seconds, milliseconds, `T` and `Z`: most stamps, read without a pattern; null for any other. */
function plainStamp(text: string): Stamp | null {
  const { length } = text;
  const zulu = text.charCodeAt(length - 1) === 90;
  const whole = zulu ? length - 1 : length;
  const end = whole === 23 && text[19] === '.' ? 19 : whole;
  if ((end !== 16 && end !== 19) || text[4] !== '-' || text[7] !== '-' || text[13] !== ':') return null;
  if ((text[10] !== ' ' && text[10] !== 'T') || (end === 19 && text[16] !== ':')) return null;
  const date = midnight(100 * two(text, 0) + two(text, 2), two(text, 5), two(text, 8));
  const thousandths = end === whole ? 0 : 10 * two(text, 20) + (two(text, 21) % 10);
  const seconds = end === 19 ? two(text, 17) : 0;
  // As the decimal fraction of a second is read elsewhere.
  const wall = date + timeOfDay(two(text, 11), two(text, 14), seconds, 1000 * (thousandths / 1000));
  if (Number.isNaN(wall)) return null;
  return { wall, monthFirst: wall, offset: zulu ? 0 : Number.NaN, date: true, clock: true };
}

const fullYear = (text: string): number => {
  const year = Number(text);
  return text.length === 4 ? year : year + (year < 70 ? 2000 : 1900);
};

export const monthOf = (name: string | undefined): number =>
  MONTHS.get(name?.toLowerCase() ?? '') ?? Number.NaN;

/** Midnight of the Monday of a week by ISO 8601: 4 January is in the first one. */
export function monday(year: number, week: number): number {
  const fourth = midnight(year, 1, 4);
  return week >= 1 && week <= 53
    ? fourth - ((new Date(fourth).getUTCDay() + 6) % 7) * DAY + (week - 1) * 7 * DAY
    : Number.NaN;
}

type Groups = readonly (string | undefined)[];

interface DateForm {
  readonly pattern: RegExp;
  readonly date: (groups: Groups) => number;
  /** The date with the month first, where that is another way to read it. */
  readonly monthFirst?: (groups: Groups) => number;
}

const DATES: readonly DateForm[] = [
  {
    pattern: /(\d{4})([-/.])(\d{1,2})\2(\d{1,2})(?!\d)/y,
    date: ([, year, , month, day]) => midnight(Number(year), Number(month), Number(day)),
  },
  {
    pattern: /(\d{1,2})\.(\d{1,2})\.(\d{4}|\d{2})(?!\d)/y,
    date: ([, day, month, year]) => midnight(fullYear(year!), Number(month), Number(day)),
  },
  {
    pattern: /(\d{1,2})([-/])(\d{1,2})\2(\d{4}|\d{2})(?!\d)/y,
    date: ([, first, , second, year]) => midnight(fullYear(year!), Number(second), Number(first)),
    monthFirst: ([, first, , second, year]) => midnight(fullYear(year!), Number(first), Number(second)),
  },
  {
    pattern: /(\d{1,2})(?:st|nd|rd|th|\.)?[-/ ]{0,2}(\p{L}{3,10})\.?,?[-/ ]{1,2}(\d{4}|\d{2})(?!\d)/iuy,
    date: ([, day, month, year]) => midnight(fullYear(year!), monthOf(month), Number(day)),
  },
  {
    pattern: /(\p{L}{3,10})\.?[- ](\d{1,2})(?:st|nd|rd|th)?,?[- ](\d{4})(?!\d)/iuy,
    date: ([, month, day, year]) => midnight(Number(year), monthOf(month), Number(day)),
  },
  {
    pattern: /(\d{4})(\d{2})(\d{2})(?=[T _-]\d{2})/iy,
    date: ([, year, month, day]) => midnight(Number(year), Number(month), Number(day)),
  },
  {
    pattern: /(\d{4})(?:[-/]|[- ]?M)(\d{1,2})$/iy,
    date: ([, year, month]) => midnight(Number(year), Number(month), 1),
  },
  {
    pattern: /(\p{L}{3,10})\.?[- ]'?(\d{4}|\d{2})$/iuy,
    date: ([, month, year]) => midnight(fullYear(year!), monthOf(month), 1),
  },
  {
    pattern: /(\d{4})[-/ ]?(\p{L}{3,10})\.?$/iuy,
    date: ([, year, month]) => midnight(Number(year), monthOf(month), 1),
  },
  {
    pattern: /(\d{4})[- ]?Q([1-4])$/iy,
    date: ([, year, quarter]) => midnight(Number(year), 3 * Number(quarter) - 2, 1),
  },
  {
    pattern: /Q([1-4])[- /](\d{4})$/iy,
    date: ([, quarter, year]) => midnight(Number(year), 3 * Number(quarter) - 2, 1),
  },
  { pattern: /(\d{4})[- ]?W(\d{2})$/iy, date: ([, year, week]) => monday(Number(year), Number(week)) },
  {
    pattern: /(\d{4})-?W(\d{2})-?([1-7])$/iy,
    date: ([, year, week, day]) => monday(Number(year), Number(week)) + (Number(day) - 1) * DAY,
  },
];

/**
 * Reads one time stamp: ISO 8601 with T or blank, `2024/03/01`, `1.3.2024`, `03/04/2024` (day first, and month first beside it),
 * `1 Mar 2024`, `March 1, 2024`, `Fri Mar  1 14:05:00 UTC 2024`, `[01/Mar/2024:14:05:00 +0100]`, `Mar  1 14:05:00` (without a year), `20240301T1405`, `2024-03`, `2024M03`, `Mar 2024`, `2024-Mar`, `2024-Q1`,
 * `2024-W09`, each
 * with or without a clock (`14:05`, `14:05:30.25`, `2:05 PM`) and a zone (`Z`, `+02:00`, `+0200`, `UTC`, `CET`); or a clock alone.
 * Years of two digits are those from 1970 to 2069.
 * @returns null for any other text, and for dates and clocks that do not exist
 */
export function parseStamp(cell: string): Stamp | null {
  const plain = plainStamp(cell);
  if (plain !== null || cell.length > LONGEST) return plain;
  const text = cell.trim().replace(/^\[(.*)\]$/, '$1');
  let at = 0;
  const take = (pattern: RegExp): RegExpExecArray | null => {
    pattern.lastIndex = at;
    const match = pattern.exec(text);
    if (match !== null) at = pattern.lastIndex;
    return match;
  };
  const digit = text.charCodeAt(0) >= 48 && text.charCodeAt(0) <= 57;
  const weekday = !digit && take(WEEKDAY) !== null;
  let date = Number.NaN;
  let monthFirst = Number.NaN;
  let dated = false;
  for (const form of DATES) {
    const match = take(form.pattern);
    if (match === null) continue;
    date = form.date(match);
    monthFirst = form.monthFirst?.(match) ?? date;
    dated = true;
    if (at < text.length && !ZONE_ALONE.test(text.slice(at)) && take(BETWEEN) === null) return null;
    break;
  }
  const unix = dated || digit ? null : take(UNIX_DAY);

  let time = 0;
  const clock = take(CLOCK) ?? (dated ? (take(COMPACT_CLOCK) ?? take(HOUR_ALONE)) : null);
  if (clock !== null) {
    const [, hour, minute, second, fraction, half] = clock;
    time = timeOfDay(
      Number(hour),
      Number(minute || 0),
      Number(second || 0),
      1000 * Number(`.${fraction || 0}`),
    );
    if (half !== undefined) {
      if (Number(hour) < 1 || Number(hour) > 12) return null;
      time += ((Number(hour) % 12) + (half.toLowerCase() === 'p' ? 12 : 0) - Number(hour)) * HOUR;
    }
  } else if (!dated) return null;
  if (!dated && unix === null && weekday) return null;

  let offset = Number.NaN;
  if (at < text.length && (unix === null || !UNIX_END.test(text.slice(at)))) {
    const zone = take(ZONE);
    if (zone === null) return null;
    const [, sign, hours, minutes = '0', name] = zone;
    if (name !== undefined) offset = ZONES[name.toUpperCase()] ?? Number.NaN;
    else offset = (sign === '-' ? -1 : 1) * (60 * Number(hours) + Number(minutes));
    if (!(Math.abs(offset) <= 14 * 60)) return null;
  }
  const year = unix === null ? null : take(UNIX_YEAR);
  const yearless = unix !== null && year === null;
  if (unix !== null) {
    date = midnight(Number(year?.[1] ?? YEARLESS), monthOf(unix[1]), Number(unix[2]));
    monthFirst = date;
    dated = true;
  }
  if (at < text.length || Number.isNaN(time)) return null;
  if (!dated) return { wall: time, monthFirst: time, offset, date: false, clock: true };
  if (Number.isNaN(date) && Number.isNaN(monthFirst)) return null;
  const wall = date + time;
  return { wall, monthFirst: monthFirst + time, offset, date: true, clock: clock !== null, yearless };
}

/** The time of a stamp without a year that is nearest to a reference; NaN for 29 February in other years. */
export function nearestYear(wall: number, reference: number): number {
  const [day, year] = [new Date(wall), new Date(reference).getUTCFullYear()];
  return (
    [year - 1, year, year + 1]
      .map((near) => midnight(near, day.getUTCMonth() + 1, day.getUTCDate()) + (wall % DAY))
      .filter((ms) => Math.abs(ms - reference) <= 184 * DAY)
      .sort((a, b) => Math.abs(a - reference) - Math.abs(b - reference))[0] ?? Number.NaN
  );
}

/**
 * Returns the ms since 1970 of `20240301`, `202403011405` or `20240301140530`; of months such as `202403` or `03/2024`, and of ISO weeks
 * such as `202409` or `09/2024`; NaN for any other text.
 */
export function parseCompact(cell: string, unit = 'dates'): number {
  if (unit !== 'dates') {
    const [, year, part, first, last] = /^(\d{4})(\d{2})$|^(\d{1,2})[-/](\d{4})$/.exec(cell) ?? [];
    const [number, of] = [Number(part ?? first), Number(year ?? last)];
    return unit === 'weeks' ? monday(of, number) : midnight(of, number, 1);
  }
  if (!/^\d{8}(?:\d{4}(?:\d{2})?)?$/.test(cell)) return Number.NaN;
  const date = midnight(Number(cell.slice(0, 4)), two(cell, 4), two(cell, 6));
  if (cell.length === 8) return date;
  return date + timeOfDay(two(cell, 8), two(cell, 10), cell.length === 14 ? two(cell, 12) : 0, 0);
}

/** Ms east of Greenwich at an instant. */
type OffsetAt = (ms: number) => number;

const offsets = new Map<string, OffsetAt>();

/** Resolution of offset changes: within this time a zone changes its clock at most once, and at its beginning. */
const CHANGE = 15 * MINUTE;

const offsetOfZone = (zone: string): OffsetAt => getOrMake(offsets, zone, () => offsetIn(zone));

function offsetIn(zone: string): OffsetAt {
  const fixed = /^([+-])(\d{2}):(\d{2})$/.exec(zone);
  if (zone === 'UTC') return () => 0;
  if (fixed !== null) {
    const offset = (fixed[1] === '-' ? -1 : 1) * (Number(fixed[2]) * HOUR + Number(fixed[3]) * MINUTE);
    return () => offset;
  }
  const format = new Intl.DateTimeFormat('en-US', {
    timeZone: zone,
    hourCycle: 'h23',
    era: 'short',
    year: 'numeric',
    month: 'numeric',
    day: 'numeric',
    hour: 'numeric',
    minute: 'numeric',
    second: 'numeric',
  });
  const asked = (ms: number): number => {
    const part: Record<string, number> = {};
    for (const { type, value } of format.formatToParts(ms)) part[type] = Number(value);
    const { year = 0, month = 1, day = 1, hour = 0, minute = 0, second = 0 } = part;
    const wall = Date.UTC(year, month - 1, day, hour, minute, second);
    // Before about 1900 offsets have seconds, which ISO 8601 cannot write.
    return Math.round((wall - Math.floor(ms / SECOND) * SECOND) / MINUTE) * MINUTE;
  };
  // Asking takes microseconds, and a recording has a million instants: an offset is asked for once a day, and on a day that
  // changes it, once a quarter of an hour.
  const cache = new Map<number, number>();
  const at = (ms: number): number => getOrMake(cache, ms, () => asked(ms));
  return (ms) => {
    const day = Math.floor(ms / DAY) * DAY;
    const first = at(day);
    return first === at(day + DAY) ? first : at(Math.floor(ms / CHANGE) * CHANGE);
  };
}

/**
 * A zone by the name that `wallTime` and others take: an IANA name, `UTC`, or an offset such as `+02:00`.
 * @throws ConfigError for a zone that is not known
 */
export function checkZone(zone: string): string {
  if (/^(?:utc|z|gmt|[+-]00:?00)$/i.test(zone)) return 'UTC';
  const offset = /^([+-](?:0\d|1[0-4])):?([0-5]\d)$/.exec(zone);
  if (offset !== null) return `${offset[1]}:${offset[2]}`;
  try {
    return new Intl.DateTimeFormat('en-US', { timeZone: zone }).resolvedOptions().timeZone;
  } catch {
    throw new ConfigError(
      `--tz ${zone}: no such time zone; write an IANA name such as Europe/Berlin, UTC, or an offset such as +02:00`,
    );
  }
}

/** An offset in minutes as a zone: `UTC`, `+02:00`. */
export function offsetZone(minutes: number): string {
  if (minutes === 0) return 'UTC';
  const [hours, rest] = [Math.floor(Math.abs(minutes) / 60), Math.abs(minutes) % 60];
  return `${minutes < 0 ? '-' : '+'}${String(hours).padStart(2, '0')}:${String(rest).padStart(2, '0')}`;
}

/**
 * Wall-clock time of an instant in a zone, as ms since 1970-01-01 00:00 of the same clock: `new Date(…).getUTCHours()` of it is the
 * local hour. Days and weeks of a recording follow it, even where a day has 23 or 25 hours.
 */
export function wallTime(ms: number, zone: string | null): number {
  return zone === null ? ms : ms + offsetOfZone(zone)(ms);
}

/**
 * Instants of a wall-clock time in a zone: two, in order, in the hour that occurs twice when clocks are set back. A time that is
 * skipped when they are set forward gives one instant, shown an hour later on the clock.
 */
export function instantsOf(wall: number, zone: string | null): readonly [number] | readonly [number, number] {
  if (zone === null) return [wall];
  const offsetAt = offsetOfZone(zone);
  const [before, after] = [offsetAt(wall - DAY), offsetAt(wall + DAY)];
  if (before === after) return [wall - before];
  const early = wall - Math.max(before, after);
  const late = wall - Math.min(before, after);
  const [isEarly, isLate] = [offsetAt(early) === wall - early, offsetAt(late) === wall - late];
  if (isEarly && isLate) return [early, late];
  if (isEarly) return [early];
  return isLate ? [late] : [wall - before];
}

/** Meaning of 0 ms of a recording's time: 1970-01-01 UTC, midnight of its first day, or its beginning. */
export type TimeOrigin = 'calendar' | 'midnight' | 'start';

interface TimeForm {
  readonly zone: string | null;
  readonly step: number | null;
  readonly origin?: TimeOrigin;
}

const pad = (value: number): string => String(value).padStart(2, '0');

/** `14:05`; with seconds where they are not 0 or `fine`, with milliseconds where the step is below a second. */
function clockText(ofDay: number, fine: boolean, milliseconds: boolean): string {
  const whole = Math.floor(ofDay / SECOND);
  let text = `${pad(Math.floor(whole / 3600))}:${pad(Math.floor(whole / 60) % 60)}`;
  if (fine || milliseconds || whole % 60 !== 0) text += `:${pad(whole % 60)}`;
  if (milliseconds) text += `.${String(Math.floor(ofDay - whole * SECOND)).padStart(3, '0')}`;
  return text;
}

/**
 * Formats an instant in the recording's zone: `2024-03-01 14:05 UTC`, `2024-03-01 14:05:30.250`; the date
 * alone for midnight at steps of days, the year alone for its first day at steps of years; `14:05` or `day 2, 14:05` where the file has no
 * dates; `1:02:03` since the start where it has no clock. Seconds are shown where the step is below a minute, or they are not 0;
 * milliseconds where it is below a second.
 */
export function formatTime(ms: number, { zone, step, origin = 'calendar' }: TimeForm): string {
  if (!Number.isFinite(ms)) return String(ms);
  const milliseconds = step !== null && step < SECOND;
  const fine = step !== null && step < MINUTE;
  // Steps of a few microseconds leave remainders; they belong to the millisecond that is shown.
  const shown = Math.round(milliseconds ? ms : ms / SECOND) * (milliseconds ? 1 : SECOND);
  if (origin === 'start') {
    const whole = Math.abs(shown);
    const hours = Math.floor(whole / HOUR);
    const rest = clockText(whole % HOUR, true, milliseconds).slice(3);
    return `${shown < 0 ? '-' : ''}${hours}:${rest}`;
  }
  if (origin === 'midnight') {
    const day = Math.floor(shown / DAY);
    const clock = clockText(shown - day * DAY, fine, milliseconds);
    return day === 0 ? clock : `day ${day + 1}, ${clock}`;
  }
  const wall = wallTime(shown, zone);
  const date = new Date(wall);
  if (Number.isNaN(date.getTime())) return `${ms} ms`;
  const day = date.toISOString().slice(0, date.toISOString().indexOf('T'));
  const ofDay = wall - Math.floor(wall / DAY) * DAY;
  // Clock changes shift a daily stamp that is UTC, and then the hour is worth showing.
  if (ofDay === 0 && step !== null && step >= 0.95 * DAY) {
    return step >= 364 * DAY && day.endsWith('-01-01') ? day.slice(0, -6) : day;
  }
  const offset = zone === null ? '' : ` ${offsetZone((wall - shown) / MINUTE)}`;
  return `${day} ${clockText(ofDay, fine, milliseconds)}${offset}`;
}

/** Units, longest first; a duration is written in two of them. */
const UNITS = [
  [DAY, 'd'],
  [HOUR, 'h'],
  [MINUTE, 'min'],
  [SECOND, 's'],
  [1, 'ms'],
] as const;

/** Formats a duration in its two largest units: `2 h 30 min`, `45 s`, `250 ms`, `31.6 ms`. */
export function formatDuration(ms: number): string {
  const length = Math.abs(ms);
  if (length < 100) return `${Number(ms.toPrecision(3))} ms`;
  const from = UNITS.findIndex(([unit]) => length >= unit);
  const [unit, name] = UNITS[from]!;
  const [small, smallName] = UNITS[from + 1] ?? [1, ''];
  const parts = Math.round(length / small);
  if (from > 0 && parts * small >= UNITS[from - 1]![0]) return formatDuration(Math.sign(ms) * parts * small);
  const whole = Math.floor((parts * small) / unit);
  const rest = Math.round((parts * small - whole * unit) / small);
  const text = `${whole} ${name}${rest === 0 || smallName === '' ? '' : ` ${rest} ${smallName}`}`;
  return ms < 0 ? `-${text}` : text;
}

const DURATION = /^(\d{1,9}(?:\.\d{1,9})?) ?(ms|s|min|m|h|d|w)$/i;
const LENGTHS: Readonly<Record<string, number>> = {
  ms: 1,
  s: SECOND,
  m: MINUTE,
  min: MINUTE,
  h: HOUR,
  d: DAY,
  w: 7 * DAY,
};

/** `90min`, `2h`, `7d`, `1.5 h` in ms; null for any other text. */
export function parseDuration(text: string): number | null {
  const match = DURATION.exec(text.trim());
  return match === null ? null : Number(match[1]) * LENGTHS[match[2]!.toLowerCase()]!;
}

/**
 * The instant that an option names, in ms: a stamp (in `zone` where it names none of its own), or a duration such as `2h` before `last`.
 * @throws ConfigError for any other text
 */
export function parseInstant(text: string, option: string, zone: string | null, last: number): number {
  const duration = parseDuration(text);
  if (duration !== null) return last - duration;
  const stamp = parseStamp(text);
  if (stamp === null || stamp.yearless || Number.isNaN(stamp.wall) || stamp.wall !== stamp.monthFirst) {
    throw new ConfigError(
      `${option} ${text}: neither a time such as 2024-03-01T14:00 nor a duration such as 2h or 7d`,
    );
  }
  return Number.isNaN(stamp.offset) ? instantsOf(stamp.wall, zone)[0] : stamp.wall - stamp.offset * MINUTE;
}
