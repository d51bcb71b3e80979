/** Instants and durations as reports write them: ISO 8601, in words, and the clock of a time zone. */
import { formatDuration } from '../../datasets/readers/clock.ts';

/** Clock of a zone from a moment on: what is added to milliseconds since 1970 in UTC. */
export interface ZoneOffset {
  readonly from: number; // ms
  readonly offset: number; // ms
}

const DAY = 86_400_000;

/** Offset of a fixed zone: "UTC", "Z", "+02:00", "-0530"; null for a name of the time zone database. */
function fixedOffset(zone: string): number | null {
  if (/^(?:utc|gmt|z)$/i.test(zone)) return 0;
  const [, sign, hours, minutes] = /^(?:utc|gmt)?([+-])(\d{2}):?(\d{2})$/i.exec(zone) ?? [];
  if (sign === undefined) return null;
  return (sign === '-' ? -1 : 1) * (Number(hours) * 60 + Number(minutes)) * 60_000;
}

const clocks = new Map<string, Intl.DateTimeFormat>();

/** The parts of the clock of a zone; making one takes longer than reading it many times. */
function clockOf(zone: string): Intl.DateTimeFormat {
  const format =
    clocks.get(zone) ??
    new Intl.DateTimeFormat('en-US', {
      timeZone: zone,
      ...{ year: 'numeric', month: 'numeric', day: 'numeric', era: 'short' },
      ...{ hour: 'numeric', minute: 'numeric', second: 'numeric', hourCycle: 'h23' },
    });
  clocks.set(zone, format);
  return format;
}

/**
 * What the clock of a zone is ahead of UTC between two instants, one entry for each change, the first from `start` on.
 *
 * @param zone name of the IANA time zone database or a fixed offset such as "+02:00"; null for stamps without a zone, which count as UTC
 * @param start @param end in ms since 1970
 * @throws RangeError for an unknown name
 */
export function zoneOffsets(zone: string | null, start: number, end: number): ZoneOffset[] {
  const fixed = zone === null ? 0 : fixedOffset(zone);
  if (fixed !== null) return [{ from: start, offset: fixed }];
  const format = clockOf(zone!);
  const offsetAt = (ms: number): number => {
    const part = Object.fromEntries(format.formatToParts(ms).map(({ type, value }) => [type, value]));
    const year = part['era'] === 'BC' ? 1 - Number(part['year']) : Number(part['year']);
    const clock = new Date(0);
    clock.setUTCFullYear(year, Number(part['month']) - 1, Number(part['day']));
    clock.setUTCHours(Number(part['hour']), Number(part['minute']), Number(part['second']));
    return clock.getTime() - Math.floor(ms / 1000) * 1000;
  };
  const found = [{ from: start, offset: offsetAt(start) }];
  // No zone changes its clock twice within a week.
  for (let at = start; at < end; at += 7 * DAY) {
    let [low, high] = [at, Math.min(at + 7 * DAY, end)];
    const [before, after] = [offsetAt(low), offsetAt(high)];
    if (before === after) continue;
    while (high - low > 1) {
      const middle = Math.floor((low + high) / 2);
      if (offsetAt(middle) === before) low = middle;
      else high = middle;
    }
    found.push({ from: high, offset: after });
  }
  return found;
}

/** The offset at an instant. */
export function offsetAt(offsets: readonly ZoneOffset[], ms: number): number {
  return (offsets.findLast(({ from }) => from <= ms) ?? offsets[0]!).offset;
}

/** "2025-03-04T14:00:00+01:00"; milliseconds where there are any; no offset where the file names no zone. */
export function isoTime(ms: number, zone: string | null): string {
  const whole = Math.round(ms);
  const offset = zoneOffsets(zone, whole, whole)[0]!.offset;
  const text = new Date(whole + offset).toISOString().replace(/(?:\.000)?Z$/, '');
  if (zone === null) return text;
  if (offset === 0) return `${text}Z`;
  const minutes = Math.round(Math.abs(offset) / 60_000);
  const two = (n: number): string => String(n).padStart(2, '0');
  return `${text}${offset < 0 ? '-' : '+'}${two(Math.floor(minutes / 60))}:${two(minutes % 60)}`;
}

/** 9300 → "2 h 35 min". */
export const durationWords = (seconds: number): string => formatDuration(1000 * seconds);

/** "2025-03-04 14:00 to 16:30 +01:00": the day and the zone of both stamps are told once; one stamp where they are the same. */
export function spanWords(from: string, to: string, between = 'to'): string {
  if (from === to) return from;
  const [[day, clock, zone], [lastDay, lastClock, lastZone]] = [from.split(' '), to.split(' ')];
  if (clock === undefined || lastClock === undefined || day !== lastDay) return `${from} ${between} ${to}`;
  const tail = lastZone === undefined ? lastClock : `${lastClock} ${lastZone}`;
  return zone === lastZone ? `${day} ${clock} ${between} ${tail}` : `${from} ${between} ${tail}`;
}
