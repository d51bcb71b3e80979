/**
 * Incidents of a stream: findings of one window after another, which open once the evidence suffices and close when it ends. A window of a
 * few days shows few cycles, so that usual values at a new time may be usual: such a finding has to be news, to be found again for a while,
 * and to be unlike those that later samples explained.
 */
import type { Recording } from '../../datasets/readers/recording.ts';
import type { FollowedFinding, ReportFinding, SeenFinding, WatchedFinding } from '../explain/schema.ts';
import { isSame, spanOf } from '../explain/state.ts';
import type { Weeks } from './weeks.ts';

export type IncidentEvent =
  | ({ readonly event: 'open' } & FollowedFinding)
  | ({
      readonly event: 'closed';
      /**
       * `withdrawn`: later samples show that it is not unusual; `became usual`: the values stay, and are usual by now; `left window`: its
       * beginning is older than the rows that are kept.
       */
      readonly reason: 'over' | 'withdrawn' | 'became usual' | 'left window';
    } & FollowedFinding)
  | { readonly event: 'note'; readonly code: string; readonly text: string };

/** A finding that was reported; open: as it was last seen, absent once it is closed. */
export type Known = SeenFinding & { readonly id: string };

/** Window that was judged. */
export interface Judged {
  /** First and last time in ms. */
  readonly from: number;
  readonly to: number;
  /** Usual time between two samples in ms. */
  readonly step: number;
  /** New samples after which the window is judged. */
  readonly every: number;
  /** True for a window of two weeks or more, which shows the season of a day and of a week. */
  readonly long: boolean;
  /** Times of the samples in ms [N]. */
  readonly time: Float64Array;
  readonly columns: Recording['columns'];
  readonly weeks: Weeks;
}

/** Largest number of judgements between the end of a finding and the first one that finds it: what is found later is no news. */
const NEWS = 3;
/** Time for which findings are remembered that later samples explained, and levels that became usual, in ms. */
const DAY = 86_400_000;
const MEMORY = 14 * DAY;
/** Distance of the same time of day, in ms. */
const SAME_TIME = DAY / 12;
/** Findings that are remembered at most. */
const MOST = 500;
/** Number of explained findings that make another one like them usual; and their size and length, as shares of its own. */
const PEERS = 2;
const [AS_FAR, AS_LONG] = [0.6, 0.5];
/** Distance from all other values of the window from which a value was never seen, as a share of their range. */
const NEVER_SEEN = 0.4;
/** Severity from which values never seen open at once. */
const AT_ONCE = 3.9;
/** Least severity of usual values at an unusual time in a short window. */
const UNUSUAL_TIME = 3;
/** Kinds that need no knowledge of a season. */
const ANY_TIME: ReadonlySet<string> = new Set(['flat', 'cutoff']);
/** Samples for which others must be found, as a share of the window, and at most. */
const [LASTS, MOST_LASTS] = [0.1, 100];
/** Share of the window that an open finding must fill to become usual. */
const FILLS = 0.25;

/** Samples for which usual values at an unusual time must be found in a window of `samples` before they open. */
export const evidenceWanted = (samples: number, every: number): number =>
  Math.max(every, Math.min(MOST_LASTS, Math.ceil(LASTS * samples)));

export function followed(finding: ReportFinding, id: string): FollowedFinding {
  const { column, kind, direction, level, severity, from, to, durationSeconds, duration } = finding;
  const { observed, expected, statement, ongoing, rows } = finding;
  return {
    ...{ id, column, kind, direction, level, severity, from, to, durationSeconds, duration },
    ...{ observed, expected, statement, ongoing, rows },
  };
}

type Stretch = Pick<SeenFinding, 'column' | 'from' | 'to'>;
const shared = (a: Stretch, b: Stretch): number =>
  a.column === b.column ? Math.min(a.to, b.to) - Math.max(a.from, b.from) : -Infinity;

/** Judgements in a row without a finding after which it is lost. */
const LOST = 2;
/** Kinds whose size is the distance of the values from the expected ones. */
const BY_VALUE: ReadonlySet<string> = new Set(['spike', 'dip', 'level', 'trend', 'shape']);

/** Returns true if later samples explained `other`, which was of the same kind, as large and as long. */
function isPeer(other: WatchedFinding, finding: WatchedFinding): boolean {
  return (
    other.misses >= LOST &&
    other.column === finding.column &&
    other.direction === finding.direction &&
    (BY_VALUE.has(other.kind) ? BY_VALUE.has(finding.kind) : other.kind === finding.kind) &&
    shared(other, finding) < 0 &&
    other.size >= AS_FAR * finding.size &&
    other.to - other.from >= AS_LONG * (finding.to - finding.from)
  );
}

/** Number of explained findings like one; at the same time of day they count twice. */
function peersOf(one: WatchedFinding, all: readonly WatchedFinding[]): number {
  const apart = (other: WatchedFinding): number => Math.abs(one.from - other.from) % DAY;
  return all
    .filter((other) => isPeer(other, one))
    .reduce((sum, other) => sum + (Math.min(apart(other), DAY - apart(other)) <= SAME_TIME ? 2 : 1), 0);
}

/** Returns true if a finding has values beyond all others of the window, apart from those of reported incidents. */
function neverSeen(finding: ReportFinding, known: readonly Known[], { time, columns }: Judged): boolean {
  const { column, start, end, observed } = finding;
  const { values } = columns.find(({ name }) => name === column)!;
  const incidents = known.filter((one) => one.column === column && one.explained === undefined);
  let [low, high] = [Infinity, -Infinity];
  for (let i = 0; i < values.length; i++) {
    if ((i >= start && i < end) || incidents.some(({ from, to }) => time[i]! >= from && time[i]! <= to))
      continue;
    if (values[i]! < low) low = values[i]!;
    if (values[i]! > high) high = values[i]!;
  }
  const margin = NEVER_SEEN * (high - low);
  return observed.largest! > high + margin || observed.least! < low - margin;
}

/**
 * Weighs the findings of a window: those ready to open, and all findings to remember, with how long each has been found and whether it was
 * lost again. A finding that changes its kind, direction or bounds is the same one where it overlaps.
 *
 * @param severity from which a finding opens
 * @param isLast true where no later judgement can confirm what is found
 */
export function weigh(
  findings: readonly ReportFinding[],
  known: readonly Known[],
  watched: readonly WatchedFinding[],
  judged: Judged,
  severity: number,
  isLast: boolean,
): { ready: ReadonlySet<ReportFinding>; watched: WatchedFinding[] } {
  const { from, to, step, every, long, time, weeks } = judged;
  const now = findings.map((finding): WatchedFinding => {
    const { column, kind, direction, observed, expected } = finding;
    const span = spanOf(finding);
    const size = Math.abs((observed.peak ?? 0) - (expected.value ?? 0));
    const one = { ...{ column, kind, direction, size }, ...span, since: to, late: to - span.to, misses: 0 };
    const before = watched
      .filter((other) => other.misses < LOST && shared(other, one) >= 0)
      .sort((a, b) => shared(b, one) - shared(a, one))[0];
    return before === undefined ? one : { ...one, since: before.since, late: before.late };
  });
  const others = watched.filter(
    (other) =>
      other.to >= to - MEMORY &&
      (other.misses >= LOST || other.from >= from) &&
      !now.some((one) => shared(other, one) >= 0),
  );
  const all = [...others.slice(-MOST).map((other) => ({ ...other, misses: other.misses + 1 })), ...now];
  const ready = findings.filter((finding, i) => {
    const one = now[i]!;
    if (finding.severity < severity || one.late > NEWS * every * step) return false;
    const samples = (to - one.since) / step + 0.5;
    const certain = ANY_TIME.has(finding.kind) || neverSeen(finding, known, judged);
    if (!certain && peersOf(one, all) >= PEERS) return false;
    // The way back from a known level is news to nobody, whatever the day.
    const back = known.some((old) => returns(finding, old, judged));
    const usual = BY_VALUE.has(finding.kind) && !back ? weeks.show(finding) : false;
    if (usual === true || (usual === null && !certain && !long && weeks.onOtherDay(finding))) return false;
    if (!certain && !long)
      return finding.severity >= UNUSUAL_TIME && samples >= evidenceWanted(time.length, every);
    return isLast || finding.severity >= AT_ONCE || samples >= every;
  });
  return { ready: new Set(ready), watched: all };
}

/** Returns true if a finding is the way back to the level before a known one: right after it, or from where that became usual. */
function returns(
  finding: ReportFinding,
  { column, from, to, before, explained }: Known,
  judged: Judged,
): boolean {
  const start = spanOf(finding).from;
  if (before === undefined || finding.column !== column || start < from) return false;
  const near = (value: number | null, level: number): boolean =>
    value !== null && Math.abs(value - level) <= Math.abs(before.change) / 2;
  const usual = explained === 'became usual';
  if (
    usual
      ? !near(finding.expected.value, before.level + before.change)
      : start > to + judged.every * judged.step
  )
    return false;
  return (
    finding.direction !== (before.change > 0 ? 'above' : 'below') && near(finding.observed.mean, before.level)
  );
}

/** Returns true if the latest values, those after `end` where it is given, are nearer to a known finding than to the level before it. */
function stays({ column, before }: Known, { time, columns, every }: Judged, end = -Infinity): boolean {
  const { values } = columns.find(({ name }) => name === column)!;
  const latest = values
    .slice(-every)
    .filter((value, i, { length }) => !Number.isNaN(value) && time[time.length - length + i]! > end)
    .sort();
  if (latest.length === 0 || before === undefined) return false;
  return (latest[latest.length >> 1]! - before.level) / before.change > 0.5;
}

/** A known finding that is open, with the level before it: that of the judgement that saw it change most. */
function opened(old: Omit<Known, 'open' | 'missed'>, finding: ReportFinding): Known {
  const level = finding.stepped?.mean ?? finding.expected.value;
  const change = (finding.observed.mean ?? Number.NaN) - (level ?? Number.NaN);
  const more = BY_VALUE.has(finding.kind) && Math.abs(change) > Math.abs(old.before?.change ?? 0);
  const before = more ? { level: level!, change } : old.before;
  return { ...old, open: followed(finding, old.id), ...(before === undefined ? {} : { before }) };
}

/**
 * Compares the findings of a window with those that were reported: the events, and the findings known from then on. Those that were over
 * before the window began are forgotten.
 *
 * @param ready findings with enough evidence to open; others keep open what is
 */
export function compare(
  findings: readonly ReportFinding[],
  known: readonly Known[],
  ready: ReadonlySet<ReportFinding>,
  judged: Judged,
): { events: IncidentEvent[]; known: Known[] } {
  const events: IncidentEvent[] = [];
  const lasts = judged.long ? judged.every : evidenceWanted(judged.time.length, judged.every);
  const updated = known.map(({ open, missed, explained, ...old }): Known => {
    const here = findings
      .filter((finding) => isSame(finding, old, findings))
      .sort((a, b) => shared({ ...old, ...spanOf(b) }, old) - shared({ ...old, ...spanOf(a) }, old));
    // It may have grown since.
    const seen = {
      ...old,
      from: Math.min(old.from, ...here.map(({ from }) => from!.ms)),
      to: Math.max(old.to, ...here.map(({ to }) => to!.ms)),
    };
    // What is left of another direction, such as the way back from a level, is another finding.
    const same = open === undefined ? here : here.filter(({ direction }) => direction === open.direction);
    const now = same.find(({ ongoing }) => ongoing) ?? same[0];
    // A level that stays is said to go on, also where another one has followed it.
    if (now?.ongoing && (!now.lasting || old.before === undefined || stays(old, judged))) {
      // What was withdrawn, or over for a while, and goes on is the same incident, open again, unless it is part of another.
      const again =
        ready.has(now) &&
        now.to!.ms >= judged.to &&
        !returns(now, seen, judged) &&
        !known.some((other) => other.open !== undefined && isSame(now, other, findings));
      if (open === undefined && again) events.push({ event: 'open', ...followed(now, old.id) });
      if (open !== undefined || again) return opened(seen, now);
    }
    if (open === undefined) return explained === undefined ? seen : { ...seen, explained };
    // Rows that are read once more have not come to it yet.
    if (now === undefined && old.to > judged.to) return { ...old, open };
    // It is not over where the values after its end are still like it, nor withdrawn before such values are usual.
    const still = stays(old, judged, now?.to?.ms);
    const filled = judged.to - old.from >= FILLS * (judged.to - judged.from);
    const soon = now === undefined ? !filled : !now.lasting && judged.to - now.to!.ms < lasts * judged.step;
    if (still && soon) return { ...seen, open };
    // What is over is so twice; what is not found at all was perhaps only lost for a while.
    const wanted = now !== undefined || old.from < judged.from ? judged.every : lasts;
    const since = missed ?? judged.to;
    if (missed === undefined || judged.to - since < (wanted - 0.5) * judged.step)
      return { ...old, open, missed: since };
    if (now !== undefined) {
      events.push({ event: 'closed', reason: 'over', ...followed(now, old.id), ongoing: false });
      return seen;
    }
    const reason = still && filled ? 'became usual' : old.from < judged.from ? 'left window' : 'withdrawn';
    events.push({ event: 'closed', reason, ...open, ongoing: false });
    return reason === 'left window' ? seen : { ...seen, explained: reason };
  });
  const fresh = findings.filter(
    (finding) => ready.has(finding) && !known.some((old) => isSame(finding, old, findings)),
  );
  for (const finding of fresh.sort((a, b) => a.from!.ms - b.from!.ms)) {
    const { id, column, kind, ongoing, statement } = finding;
    const one = { id, column, kind, ...spanOf(finding) };
    const left = updated.find((old) => returns(finding, old, judged));
    if (left !== undefined) {
      const text = `${column} is back at about the level before finding ${left.id}: ${statement}`;
      events.push({ event: 'note', code: 'returned', text });
      updated.push({ ...one, before: left.before! });
      continue;
    }
    const shown = followed(finding, id);
    events.push({ event: 'open', ...shown });
    if (!ongoing) events.push({ event: 'closed', reason: 'over', ...shown });
    const { open, ...ended } = opened(one, finding);
    updated.push(ongoing ? { ...ended, open: shown } : ended);
  }
  const kept = ({ to, open, explained }: Known): boolean =>
    open !== undefined || to >= (explained === 'became usual' ? judged.to - MEMORY : judged.from);
  return { events, known: updated.filter(kept) };
}
