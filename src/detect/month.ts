/** Days of a month on which a daily series departs month after month: invoices at its end, salaries on the 25th. Weeks do not predict them. */
import { median } from '../series/stats.ts';
import { usualSize } from './departures.ts';

/** Weeks on each side whose same weekday tells what is usual, and fewest of these days. */
const [WEEKS, FEWEST_WEEKS] = [4, 3];
/** Fewest months that show a day, and least share of them in which it departs. */
const [FEWEST_MONTHS, MOSTLY] = [4, 0.75];
/** Least departure of such a day, in usual departures. */
const DEPARTS = 8;
/** Most days of a month that depart, and share of its height by which one may differ from others. */
const [MOST_DAYS, AGREE] = [4, 0.4];
/** Least value, as a share of the middle one, of which departures are shares: days of rest tell nothing. */
const LEAST_OF_MIDDLE = 0.1;

/** Names of a day by which it may come again in each month: counted from the beginning, from the end, and as the first or the last working day. */
function namesOf(ms: number): string[] {
  const date = new Date(ms);
  const [day, weekday] = [date.getUTCDate(), date.getUTCDay()];
  const last = new Date(Date.UTC(date.getUTCFullYear(), date.getUTCMonth() + 1, 0)).getUTCDate();
  const left = last - day;
  const works = weekday >= 1 && weekday <= 5;
  return [
    ...(day <= 28 ? [`day ${day}`] : []),
    ...(left <= 2 ? [`end ${left}`] : []),
    ...(works && (left === 0 || (weekday === 5 && left <= 2)) ? ['last working day'] : []),
    ...(works && (day === 1 || (weekday === 1 && day <= 3)) ? ['first working day'] : []),
  ];
}

/** Expects of each day [N] what the same weekday of the weeks around has; NaN where too few are known. */
function weeklyExpected(values: Float64Array): Float64Array {
  return values.map((_, i) => {
    const others: number[] = [];
    for (let week = -WEEKS; week <= WEEKS; week++) {
      const value = week === 0 ? undefined : values[i + 7 * week];
      if (value !== undefined) others.push(value);
    }
    return others.length < FEWEST_WEEKS ? Number.NaN : median(Float64Array.from(others));
  });
}

/**
 * Returns how much higher the days of a month on which a daily series departs in most months are expected to lie [N]; null without any. Such a
 * day is expected at its own height where that is about as usual, and at the usual height otherwise: then it is missing, or another size.
 *
 * @param dates wall time of each sample, in ms [N], a day apart
 */
export function heightsInMonths(values: Float64Array, dates: Float64Array): Float64Array | null {
  const expected = weeklyExpected(values);
  // Shares of what is expected where no value is negative, as sales are.
  const middle = median(expected.filter(Number.isFinite));
  const isShare = middle > 0 && values.every((value) => value >= 0);
  const scaleOf = (value: number): number => (value > LEAST_OF_MIDDLE * middle ? value : Number.NaN);
  const scales = isShare ? expected.map(scaleOf) : values.map(() => 1);
  const departures = values.map((value, i) => (value - expected[i]!) / scales[i]!);
  const known = [...departures.keys()].filter((i) => Number.isFinite(departures[i]!));
  const usual = usualSize(Float64Array.from(known, (i) => departures[i]!));
  const named = new Map<string, number[]>();
  for (const i of known)
    for (const name of namesOf(dates[i]!)) named.set(name, [...(named.get(name) ?? []), i]);
  const heights = new Float64Array(values.length);
  const taken = new Set<number>();
  for (let round = 0; round < MOST_DAYS; round++) {
    const [strongest] = [...named.values()]
      .map((some) => {
        const days = some.filter((i) => !taken.has(i));
        const height = days.length === 0 ? 0 : median(Float64Array.from(days, (i) => departures[i]!));
        const departs = days.filter((i) => departures[i]! * Math.sign(height) > DEPARTS * usual).length;
        return { days, height, departs };
      })
      .filter(({ days, departs }) => departs >= Math.max(FEWEST_MONTHS, MOSTLY * days.length))
      .sort((a, b) => b.departs * Math.abs(b.height) - a.departs * Math.abs(a.height));
    if (strongest === undefined) break;
    const { days, height } = strongest;
    const spread = usualSize(Float64Array.from(days, (i) => departures[i]! - height));
    const most = Math.max(DEPARTS * usual, DEPARTS * spread, AGREE * Math.abs(height));
    for (const i of days) {
      taken.add(i);
      const off = Math.abs(departures[i]! - height);
      // A day nearer to others of its weekday than to its height did not depart: what should have is missing.
      heights[i] = (off <= most && off <= Math.abs(departures[i]!) ? departures[i]! : height) * scales[i]!;
    }
  }
  return taken.size === 0 ? null : heights;
}
