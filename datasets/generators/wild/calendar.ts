/** Days that differ: working hours, weekends, and holidays that come again. */
import { DAY, samplesOf } from './clock.ts';
import { chance, type Draft } from './draft.ts';
import { dayProfile } from './profile.ts';

/**
 * Adds days by the clock to the pattern: a profile of working days, another size (and half the time another shape) for the weekend, where
 * the series has whole days. Holidays are days like Sundays: at least three of them, so that none is the only one of its kind.
 */
export function addCalendar(draft: Draft, amplitude: number, jitter: number): void {
  const { random, n, clock, pattern, events } = draft;
  const day = samplesOf(clock, DAY);
  const first = Math.floor(clock.start / DAY);
  const days = Math.ceil(n / day) + 1;
  const work = dayProfile(random);
  const weekly = chance(random, 0.65);
  // A weekend that comes only once is like the other days, and hardly quieter: none who sees the series could tell that it is one.
  const several = days > 11;
  const rest = weekly && several && chance(random, 0.5) ? dayProfile(random) : work;
  const quiet = weekly ? random.between(several ? 0.05 : 0.75, 0.9) : 1;
  const sunday = weekly && chance(random, 0.5) ? quiet * random.between(0.6, 1) : quiet;
  const busiest = weekly && several && chance(random, 0.3) ? random.integer(0, 4) : -1;
  const free = new Uint8Array(days);
  if (weekly && days >= 28 && chance(random, 0.4)) {
    const workdays = Array.from({ length: days - 1 }, (_, k) => k).filter((k) => (first + k) % 7 < 5);
    const count = random.integer(3, Math.max(3, Math.floor(workdays.length / 7)));
    for (const at of random.permutation(workdays.length).subarray(0, count)) free[workdays[at]!] = 1;
    draft.components.add('holidays');
  }
  let today = -1;
  let [size, extra, profile] = [1, 0, work];
  for (let t = 0; t < n; t++) {
    const place = (clock.start + t * clock.step) / DAY;
    const k = Math.floor(place) - first;
    if (k !== today) {
      today = k;
      const weekday = free[k] === 1 ? 6 : (first + k) % 7;
      size = weekday < 5 ? (weekday === busiest ? 1.2 : 1) : weekday === 5 ? quiet : sunday;
      profile = weekday < 5 ? work : rest;
      extra = jitter === 0 ? 0 : jitter * random.normal();
    }
    // One sample a day has no hours: only the days differ.
    const value = amplitude * size * (day < 2 ? 1 : profile(place));
    pattern[t] = pattern[t]! + value;
    events[t] = events[t]! + extra * value;
  }
  draft.components.add('calendar');
  if (day >= 4) draft.periods.add(day);
  if (weekly && 2 * 7 * day <= n) draft.periods.add(7 * day);
}
