/**
 * Rhythm of events: short peaks of jobs that run at equal intervals, or the drops of a sawtooth; and where it breaks. A season predicts values
 * at a phase, and needs every cycle to be as long as the others; here only the times of the events count, whatever their heights and though they
 * come a little early or late.
 */
import { mergeIntervals, runs } from '../series/intervals.ts';
import { bridge } from '../series/missing.ts';
import { median } from '../series/stats.ts';
import { centredMedians } from './departures.ts';
import type { Candidate } from './scan.ts';

export interface Break {
  /** Half-open, in samples. */
  readonly start: number;
  readonly end: number;
  readonly what: NonNullable<Candidate['rhythm']>['what'];
  readonly severity: number;
}

export interface Rhythm {
  /** Usual distance of two events, in samples, and how far it may be off. */
  readonly every: number;
  readonly off: number;
  readonly of: 'peak' | 'drop';
  readonly sign: 1 | -1;
  /** Events that come in time and are no larger than usual. */
  readonly ordinary: readonly (readonly [start: number, end: number])[];
  readonly breaks: readonly Break[];
}

interface Events {
  /** Half-open stretches, in order. */
  readonly stretches: readonly (readonly [start: number, end: number])[];
  /** Size by which a sample is part of an event [N], and the least of an event. */
  readonly size: Float64Array;
  readonly least: number;
  /** Values before a sawtooth drops; null for peaks. */
  readonly top: number | null;
  /** Values in which it drops or peaks upwards. */
  readonly values: Float64Array;
}

/** Samples of the running median from which peaks stand out: twice as many as the longest job that is one. */
const AROUND = 33;
/** Height of an event over the usual noise or step, and as a share of the usual event. */
const [OVER_NOISE, OF_USUAL] = [8, 0.35];
/** Largest share of the samples that events take. */
const MOST_SAMPLES = 0.4;
/** Share of the least size below which a sample is no event, and least share of the due times without one, for events to be missing. */
const [WEAK, MOSTLY] = [0.5, 0.7];
/** Share of the peaks that begin and end within two samples. */
const SHARP = 0.8;
/** Longest drop, in samples. */
const LONGEST_DROP = 4;
/** Fewest events and usual distances of a rhythm, and the least share of the time that is of usual distances. */
const [FEWEST, FEWEST_USUAL, REGULAR] = [6, 4, 0.6];
/** Shortest usual distance, in samples: of a shorter one the tolerance is no share. */
const SHORTEST = 4;
/** Latest first event, in usual distances. */
const LATEST = 2.5;
/** Tolerance of a distance: samples at least, usual scatters, and share of the usual distance at most. */
const [LEAST_OFF, SCATTERS, MOST_OFF] = [1.5, 3, 0.2];
/** Distance from which an event is missing, and up to which one is additional, as shares of the usual. */
const [LONG, SHORT] = [1.5, 0.7];
/** Most breaks of a rhythm: a number, or a share of its events. */
const [MOST_BREAKS, BREAKS_SHARE] = [3, 0.06];
/** Least size of an additional event, as a share of the usual one, and as a multiple of that of any event: noise reaches that size too. */
const [LIKE, CLEARLY] = [0.45, 1.5];
/** Least distance of an additional event from its neighbours, in tolerances. */
const CLEAR = 3;
/** Largest size and length of an ordinary event, as multiples of the usual ones; one sample more is always ordinary. */
const LARGEST = 1.5;
/** Most distances in which events are missing: more are left out at random. */
const MOST_PAUSES = 10;
/** Least ratio of two pauses that are alike; and usual distances from which one is a pause, not a single event that is missing. */
const [ALIKE, PAUSE] = [0.75, 2.5];
/** Weights of a peer of a single event and of a pause in the severity, which is divided by one more than their sum. */
const [OF_SINGLE, OF_PAUSE] = [0.5, 3];
/** Largest distance of a tooth that is due from the usual top, as a share of the usual drop. */
const UNGROWN = 0.25;
/** Largest share of the series in which events are missing: more is usual. */
const MOST_MISSING = 0.4;
/** Fewest short distances in a row that are a faster rhythm. */
const FASTER = 4;
/** Highest severity: a break is rare by its time alone, whatever its size. */
const MOST_SEVERE = 6;

/** Threshold over which values are events: many times the usual size, and not much lower than the usual event. */
function threshold(sizes: Float64Array, usual: number): number {
  const large = sizes.filter((size) => size > OVER_NOISE * usual && size > 0);
  return large.length < FEWEST
    ? Number.POSITIVE_INFINITY
    : Math.max(OVER_NOISE * usual, OF_USUAL * median(large));
}

/** Short peaks of [N] above what is around them. */
function peaksOf(values: Float64Array): Events | null {
  const n = values.length;
  const around = centredMedians(values, Math.min(AROUND, n - 1 + (n % 2)));
  const height = values.map((value, i) => value - around[i]!);
  const least = threshold(height, median(height.map(Math.abs)));
  const events = mergeIntervals(
    runs(n, (i) => height[i]! > least),
    1,
  );
  const samples = events.reduce((sum, [start, end]) => sum + end - start, 0);
  // A peak comes at once and goes back to where it came from; the tip of a tooth does not.
  const at = (i: number): number => Math.min(n - 1, Math.max(0, i));
  const low = (i: number): boolean => height[at(i)]! < WEAK * least;
  const sharp = events.filter(
    ([start, end]) =>
      (low(start - 1) || low(start - 2)) &&
      (low(end) || low(end + 1)) &&
      Math.abs(values[at(start - 2)]! - values[at(end + 1)]!) < WEAK * median(height.slice(start, end)),
  );
  return samples > MOST_SAMPLES * n || sharp.length < SHARP * events.length
    ? null
    : {
        stretches: events,
        // A peak that lasts is the median itself: it is above what is around it farther away.
        size: values.map(
          (value, i) => value - Math.min(around[at(i - AROUND)]!, around[i]!, around[at(i + AROUND)]!),
        ),
        least,
        top: null,
        values,
      };
}

/** Sudden drops of [N] that rise again slowly: the first samples after them. */
function dropsOf(values: Float64Array): Events | null {
  const n = values.length;
  const steps = Float64Array.from({ length: n - 1 }, (_, i) => values[i + 1]! - values[i]!);
  const usual = median(steps.map(Math.abs));
  const size = values.map((value, i) => (i === 0 ? 0 : values[i - 1]! - value));
  const least = threshold(size, usual);
  if (!Number.isFinite(least)) return null;
  // The drop of two or three samples is one.
  const falls = runs(n - 1, (i) => steps[i]! < 0).filter(
    ([start, end]) => values[start]! - values[end]! > least,
  );
  const rises = steps.filter((step) => step > least).length;
  if (rises > MOST_BREAKS || falls.some(([start, end]) => end - start > LONGEST_DROP)) return null;
  return {
    stretches: falls.map(([start, end]) => [start + 1, end + 1]),
    size,
    least,
    top: median(Float64Array.from(falls, ([start]) => values[start]!)),
    values,
  };
}

/** Median over time instead of over distances: a faster rhythm of a few cycles has many. */
function atHalfTime(gaps: Float64Array): number {
  const sorted = gaps.slice().sort();
  let left = sorted.reduce((sum, gap) => sum + gap, 0) / 2;
  return sorted.find((gap) => {
    left -= gap;
    return left <= 0;
  })!;
}

/** Times of events, and what is usual of them. */
interface Beat {
  readonly starts: readonly number[];
  /** Distances between neighbouring events, and the usual one with its tolerance, in samples. */
  readonly gaps: Float64Array;
  readonly every: number;
  readonly off: number;
  /** Number of usual distances. */
  readonly usual: number;
}

/** Usual distance of events; null where they come without a rhythm. */
function beatOf({ stretches }: Events): Beat | null {
  if (stretches.length < FEWEST) return null;
  const starts = stretches.map(([start]) => start);
  const gaps = Float64Array.from(starts.slice(1), (start, k) => start - starts[k]!);
  const every = atHalfTime(gaps);
  const scatter = 1.48 * median(gaps.map((gap) => Math.abs(gap - every))); // standard deviation of a normal distribution
  const off = Math.max(LEAST_OFF, Math.min(MOST_OFF * every, SCATTERS * scatter));
  const kept = gaps.filter((gap) => Math.abs(gap - every) <= off);
  const time = (some: Float64Array): number => some.reduce((sum, gap) => sum + gap, 0);
  const steady = kept.length >= FEWEST_USUAL && time(kept) >= REGULAR * time(gaps);
  return every >= SHORTEST && starts[0]! <= LATEST * every && steady
    ? { starts, gaps, every, off, usual: kept.length }
    : null;
}

/** Severity of a time that is `excess` samples off; `peers`: similar ones, weighted. */
const severityOf = ({ usual, off }: Beat, excess: number, peers = 0): number =>
  Math.min(MOST_SEVERE, 1 + Math.log10(usual) + Math.log2(1 + excess / (2 * off))) / (1 + peers);

/** Size of an event. */
const sizeOf = ({ size }: Events, [start, end]: readonly [number, number]): number =>
  Math.max(...size.subarray(start, end));

/** Distances in which events are missing; null where so many are left out that this is usual. */
function missingEvents(events: Events, beat: Beat, given: Float64Array, usualSize: number): Break[] | null {
  const { stretches, size, least, top, values } = events;
  const { starts, gaps, every, off } = beat;
  const n = given.length;
  const length = Math.round(median(Float64Array.from(stretches, ([start, end]) => end - start)));
  const long = Math.max(LONG * every, every + 2 * off);
  const pauses = gaps.filter((gap) => gap > long);
  if (pauses.length > MOST_PAUSES) return null;
  // Pauses as long as others are usual: nights and weekends. Single events that are left out may be two or three.
  const peersOf = (gap: number, last: boolean): number => {
    const alike = pauses.filter((other) =>
      last ? other >= ALIKE * gap : Math.min(gap, other) >= ALIKE * Math.max(gap, other),
    );
    return (alike.length - (last ? 0 : 1)) * (gap < PAUSE * every ? OF_SINGLE : OF_PAUSE);
  };
  return [...gaps, n - starts.at(-1)!].flatMap((gap, k): Break[] => {
    if (gap <= long) return [];
    const next = starts[k + 1];
    const last = next === undefined;
    const cycles = last ? Math.floor(gap / every) : Math.round(gap / every);
    const pace = last ? every : gap / cycles;
    const due = Array.from({ length: cycles - (last ? 0 : 1) }, (_, j) => starts[k]! + (j + 1) * pace);
    // None came, not even a small one, and none may lie among missing samples.
    const absent = due.filter((at) => {
      for (let i = Math.floor(at - off); i < Math.min(n, at + length + off); i++)
        if (Number.isNaN(given[i]!) || size[i]! >= WEAK * least) return false;
      return true;
    });
    if (absent.length === 0 || absent.length < MOSTLY * due.length) return [];
    const start = Math.round(absent[0]!);
    // A tooth that has not grown as far as others is not due, whatever the time.
    if (top !== null && values[Math.min(n - 1, start)]! < top - UNGROWN * usualSize) return [];
    // A tooth is too long until its drop comes; a job is missing at its own time and for its own length.
    const end = last ? n : top !== null ? next : Math.round(absent.at(-1)!) + length;
    const severity = severityOf(beat, gap - every, peersOf(gap, last));
    return [{ start, end: Math.min(n, end), what: 'missing', severity }];
  });
}

/** Events that come too soon: one too many, or several in a row. */
function earlyEvents(events: Events, beat: Beat, usualSize: number): Break[] {
  const stretches = events.stretches.filter((event) => sizeOf(events, event) >= CLEARLY * events.least);
  const starts = stretches.map(([start]) => start);
  const gaps = starts.slice(1).map((start, k) => start - starts[k]!);
  const { every, off } = beat;
  const short = Math.min(SHORT * every, every - 2 * off);
  return runs(gaps.length, (k) => gaps[k]! < short).flatMap(([first, last]): Break[] => {
    const count = last - first;
    if (count >= FASTER) {
      const [start, end] = [starts[first]!, starts[last]!];
      return [{ start, end, what: 'faster', severity: severityOf(beat, count * every - (end - start)) }];
    }
    // One too many: without it the distance is usual.
    const extra = [first + 1, first].find((event) => {
      const [before, after] = [starts[event - 1], starts[event + 1]];
      return before !== undefined && after !== undefined && Math.abs(after - before - every) <= 2 * off;
    });
    if (extra === undefined || sizeOf(events, stretches[extra]!) < LIKE * usualSize) return [];
    const [start, end] = stretches[extra]!;
    const aside = Math.min(start - starts[extra - 1]!, starts[extra + 1]! - start);
    // Where distances vary much, it may be one that came early.
    return aside < CLEAR * off ? [] : [{ start, end, what: 'additional', severity: severityOf(beat, aside) }];
  });
}

/** Rhythm of events in a series [N], NaN where missing, and its breaks; null where they have none. */
function rhythmOf(events: Events, given: Float64Array, of: Rhythm['of'], sign: 1 | -1): Rhythm | null {
  const { stretches } = events;
  const beat = beatOf(events);
  if (beat === null) return null;
  const { gaps, every, off } = beat;
  const usualSize = median(Float64Array.from(stretches, (event) => sizeOf(events, event)));
  const missing = missingEvents(events, beat, given, usualSize);
  if (missing === null) return null;
  const breaks = [...missing, ...earlyEvents(events, beat, usualSize)];
  const without = missing.reduce((sum, { start, end }) => sum + end - start, 0);
  const many = breaks.length > Math.max(MOST_BREAKS, BREAKS_SHARE * stretches.length);
  if (many || without > MOST_MISSING * given.length) return null;
  const inTime = (gap = 0): boolean => Math.abs(gap - every) <= off;
  const usualLength = median(Float64Array.from(stretches, ([start, end]) => end - start));
  const ordinary = stretches.filter(
    (event, k) =>
      sizeOf(events, event) <= LARGEST * usualSize &&
      event[1] - event[0] <= Math.max(usualLength + 1, LARGEST * usualLength) &&
      (inTime(gaps[k - 1]) || inTime(gaps[k])),
  );
  return { every, off, of, sign, ordinary, breaks };
}

/** Finds the rhythm of peaks or of drops, up or down, of [N] values, NaN where missing; null without one. */
export function findRhythm(given: Float64Array): Rhythm | null {
  const { values } = bridge(given);
  const negated = values.map((value) => -value);
  for (const [of, eventsOf] of [
    ['peak', peaksOf],
    ['drop', dropsOf],
  ] as const) {
    for (const sign of [1, -1] as const) {
      const events = eventsOf(sign > 0 ? values : negated);
      const rhythm = events === null ? null : rhythmOf(events, given, of, sign);
      if (rhythm !== null) return rhythm;
    }
  }
  return null;
}

/** Returns true if a departure is one of a rhythm's peaks, which comes when it is due. */
export function isOnBeat(
  rhythm: Rhythm | null,
  { start, end, sign }: Pick<Candidate, 'start' | 'end' | 'sign'>,
): boolean {
  if (rhythm === null || rhythm.of !== 'peak' || sign !== rhythm.sign) return false;
  const inBreak = rhythm.breaks.some((other) => other.start < end && start < other.end);
  return !inBreak && rhythm.ordinary.some(([from, to]) => from <= start + 1 && end - 1 <= to);
}

/** Share of a break that other candidates cover where they already report it. */
const REPORTED = 0.3;

/** Breaks of a rhythm as candidates, but for those that `others` report. */
export function breaksOf(
  rhythm: Rhythm | null,
  others: readonly Pick<Candidate, 'start' | 'end'>[],
): Candidate[] {
  if (rhythm === null) return [];
  const { every, off, of } = rhythm;
  const margin = Math.ceil(off);
  return rhythm.breaks
    .filter(({ start, end }) => {
      const shared = others.map(
        (other) => Math.min(end + margin, other.end) - Math.max(start - margin, other.start),
      );
      return shared.reduce((sum, samples) => sum + Math.max(0, samples), 0) < REPORTED * (end - start);
    })
    .map(({ start, end, severity, what }) => ({
      ...{ start, end, severity, track: 'rhythm', sign: what === 'missing' ? -1 : 1, peak: start },
      rhythm: { what, every, of },
    }));
}
