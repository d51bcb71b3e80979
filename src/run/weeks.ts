/** Hours of the last six weeks of a stream, most of which its window has left: whether earlier weeks departed at the same time. */
import { type Recording, wallTime } from '../../datasets/readers/recording.ts';
import type { FollowedHour, ReportFinding } from '../explain/schema.ts';
import { spanOf } from '../explain/state.ts';
import { mean } from '../ground/numbers.ts';

const HOUR = 3_600_000;
const [DAY, WEEK, WEEKS] = [24, 168, 6];
/** Distance from an earlier week within which a departure is like it, as a share of the departure. */
const ALIKE = 1 / 3;
/** Days of the week, from Sunday, that no working day before them shows: a weekend and the day after it. */
const OTHER_DAYS: ReadonlySet<number> = new Set([6, 0, 1]);

export class Weeks {
  /** Mean, least and largest value of each column by hour of the wall clock; null where all are missing. */
  readonly #hours: Map<number, FollowedHour[1]>;
  #recording: Recording | null = null;

  constructor(kept: readonly FollowedHour[] = []) {
    this.#hours = new Map(kept);
  }

  /** Hours with which a later run goes on. */
  get kept(): FollowedHour[] {
    return [...this.#hours];
  }

  #hourOf(ms: number): number {
    return Math.floor(wallTime(ms, this.#recording!.clockZone) / HOUR);
  }

  /** Takes the hours of a window; of one that it holds in part it knew more before. */
  add(recording: Recording): void {
    this.#recording = recording;
    const hours = Array.from(recording.time!, (ms) => this.#hourOf(ms));
    for (let from = 0, to = 0; from < hours.length; from = to) {
      const hour = hours[from]!;
      while (hours[to] === hour) to++;
      if (from === 0 && this.#hours.has(hour)) continue;
      const columns = recording.columns.map(({ values }) => {
        const known = values
          .subarray(from, to)
          .filter((value) => !Number.isNaN(value))
          .sort();
        if (known.length === 0) return null;
        return [mean(known), known[0]!, known.at(-1)!] as const;
      });
      this.#hours.set(hour, columns as FollowedHour[1]);
    }
    for (const hour of this.#hours.keys()) if (hour < hours.at(-1)! - WEEKS * WEEK) this.#hours.delete(hour);
  }

  /**
   * Returns true if at least half of the earlier weeks show a departure as well: means of its hours like those of then, or a peak of less
   * than an hour like the extremes of then. Null where no earlier week is known.
   */
  show(finding: ReportFinding): boolean | null {
    const { observed, expected, direction } = finding;
    const column = this.#recording!.columns.findIndex(({ name }) => name === finding.column);
    const at = (hour: number) => this.#hours.get(hour)?.[column] ?? null;
    const { from, to } = spanOf(finding);
    const [first, last] = [this.#hourOf(from), this.#hourOf(to)];
    const size = Math.abs(observed.peak! - expected.value!);
    // The latest hour is not over yet.
    const end = last > first && last === [...this.#hours.keys()].at(-1) ? last : last + 1;
    const short = to - from < HOUR;
    const distanceFrom = (back: number): number | null => {
      let [sum, known] = [0, 0];
      let [least, largest] = [Infinity, -Infinity];
      for (let hour = short ? first - 1 : first; hour < (short ? last + 2 : end); hour++) {
        const [now, then] = [at(hour), at(hour - back)];
        if (then !== null) [least, largest] = [Math.min(least, then[1]), Math.max(largest, then[2])];
        if (now === null || then === null) continue;
        sum += Math.abs(now[0] - then[0]);
        known++;
      }
      if (2 * known < end - first) return null;
      if (!short) return sum / known;
      return Math.max(0, direction === 'below' ? least - observed.peak! : observed.peak! - largest);
    };
    const distances = Array.from({ length: WEEKS }, (_, k) => distanceFrom((k + 1) * WEEK)).filter(
      (distance) => distance !== null,
    );
    if (distances.length === 0) return null;
    return 2 * distances.filter((distance) => distance <= ALIKE * size).length >= distances.length;
  }

  /** Returns true if a finding lies on a weekend or the day after it, in a recording with dates. */
  onOtherDay(finding: ReportFinding): boolean {
    if (this.#recording!.origin !== 'calendar') return false;
    const { from, to } = spanOf(finding);
    // 1970 began on a Thursday.
    const dayOf = (ms: number): number => (Math.floor(this.#hourOf(ms) / DAY) + 4) % 7;
    return OTHER_DAYS.has(dayOf(from)) || OTHER_DAYS.has(dayOf(to));
  }
}
