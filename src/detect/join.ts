/** Candidates of several tracks that tell of one event become one stretch. */
import type { Candidate } from './scan.ts';

export interface Joined extends Candidate {
  /** The candidates that it is made of, itself the most severe. */
  readonly members: readonly Candidate[];
}

/** Weaker than this part of the most severe member, a candidate does not stretch a group. */
const WEAK = 0.4;

/** A step that is never taken back stretches a group to the end only where it is as severe. */
const LASTING = 1;

/** Groups with at most this part of the shorter one between them are one change of a season. */
const PART_APART = 0.75;

/** So many groups in a row, so much of a season apart at most, are the peaks of one change. */
const FEWEST_PEAKS = 3;
const NEAR_PEAKS = 0.6;

/** Candidates in a series of `length` samples that overlap or all but touch are one: its extent is that of all of them that are not weak. */
export function join(all: readonly Candidate[], length: number, period: number | null = null): Joined[] {
  const leaks = all.filter(({ drifts }) => drifts);
  const candidates = all.filter(({ drifts }) => !drifts);
  const lasting = (one: Candidate): boolean => one.track === 'step' && one.end === length;
  const groups: { start: number; end: number; members: Candidate[] }[] = [];
  for (const one of candidates) {
    const near = groups.filter(({ start, end, members }) => {
      const gap = Math.max(one.start - end, start - one.end);
      const shorter = Math.min(end - start, one.end - one.start);
      return (
        gap <= Math.min(Math.max(2, 0.5 * shorter), period === null ? 16 : Math.max(2, period / 3)) &&
        one.severity >= (lasting(one) ? LASTING : WEAK) * members[0]!.severity
      );
    });
    const inside = groups.some(({ start, end }) => one.start < end && start < one.end);
    if (near.length === 0) {
      if (!inside) groups.push({ start: one.start, end: one.end, members: [one] });
      continue;
    }
    const first = near[0]!;
    for (const other of near.slice(1)) {
      first.start = Math.min(first.start, other.start);
      first.end = Math.max(first.end, other.end);
      first.members.push(...other.members);
      groups.splice(groups.indexOf(other), 1);
    }
    first.start = Math.min(first.start, one.start);
    first.end = Math.max(first.end, one.end);
    first.members.push(one);
  }
  // A longer stretch that the strong parts all but fill is one event of which they are parts.
  for (const one of candidates) {
    const inside = groups.filter(({ start, end }) => {
      const shared = Math.min(end, one.end) - Math.max(start, one.start);
      return 2 * shared >= end - start;
    });
    if (inside.length === 0 || inside.some(({ members }) => members.includes(one))) continue;
    const covered = inside.reduce((sum, { start, end }) => sum + end - start, 0);
    const hull = Math.max(...inside.map(({ end }) => end)) - Math.min(...inside.map(({ start }) => start));
    const half = 0.5 * (one.end - one.start);
    if (hull < half || (inside.length < 2 && covered < half)) continue;
    const first = inside[0]!;
    for (const other of inside.slice(1)) {
      first.members.push(...other.members);
      groups.splice(groups.indexOf(other), 1);
    }
    first.members.push(one);
    first.start = Math.min(one.start, ...inside.map(({ start }) => start));
    first.end = Math.max(one.end, ...inside.map(({ end }) => end));
  }
  // What lies inside of another stretch is part of it; what reaches beyond it stretches it, unless it is a weak step beside a strong one.
  const apart: typeof groups = [];
  const severityOf = ({ members }: (typeof groups)[number]): number =>
    Math.max(...members.map(({ severity }) => severity));
  // Two parts of a cycle or of several with little between them.
  const sameChange = (one: { start: number; end: number }, next: typeof one, alike: number): boolean => {
    const shorter = Math.min(one.end - one.start, next.end - next.start);
    const gap = next.start - one.end;
    return period !== null && alike >= WEAK && gap <= PART_APART * shorter && gap <= period / 3;
  };
  const stepAlone = ({ members }: (typeof groups)[number]): boolean =>
    members.every(({ track }) => track === 'step');
  for (const one of groups.sort((a, b) => a.start - b.start)) {
    const last = apart.at(-1);
    if (last === undefined) {
      apart.push(one);
      continue;
    }
    const [weak, strong] = severityOf(one) < severityOf(last) ? [one, last] : [last, one];
    if (one.start >= last.end && !sameChange(last, one, severityOf(weak) / severityOf(strong))) {
      apart.push(one);
      continue;
    }
    if (stepAlone(weak) && severityOf(weak) < WEAK * severityOf(strong)) {
      if (weak === last) apart[apart.length - 1] = one;
      continue;
    }
    last.end = Math.max(last.end, one.end);
    last.members.push(...one.members);
  }
  // Every cycle of a change of amplitude or pace departs at its peaks: three and more, closer than a cycle, are one.
  const events: typeof groups = [];
  for (let i = 0; i < apart.length; ) {
    let j = i + 1;
    while (period !== null && j < apart.length && apart[j]!.start - apart[j - 1]!.end <= NEAR_PEAKS * period)
      j++;
    const chain = apart.slice(i, j);
    if (chain.length >= FEWEST_PEAKS) {
      const members = chain.flatMap((one) => one.members);
      events.push({ start: chain[0]!.start, end: chain.at(-1)!.end, members });
    } else events.push(...chain);
    i = j;
  }
  // A shift that lasts to the end is told although something worse happens at its beginning.
  for (const one of candidates) {
    if (!lasting(one) || events.some(({ members }) => members.includes(one))) continue;
    const start = Math.max(one.start, ...events.map(({ end }) => end));
    if (2 * (one.end - start) >= one.end - one.start) events.push({ start, end: one.end, members: [one] });
  }
  // A drift goes on whatever happens meanwhile.
  for (const one of leaks) {
    // Its steps are parts of it.
    const own = events.filter(
      ({ start, members }) => start >= one.start && members.every(({ track }) => track === 'step'),
    );
    for (const part of own) events.splice(events.indexOf(part), 1);
    events.push({ start: one.start, end: one.end, members: [one] });
  }
  return events
    .map(({ start, end, members }): Joined => {
      members.sort((a, b) => b.severity - a.severity);
      const worst = members[0]!;
      // A level that stays is told by its beginning, whatever else the change to it departs from.
      const step = members.find(({ lasting: stays, severity }) => stays && severity >= WEAK * worst.severity);
      if (step !== undefined) return { ...step, severity: worst.severity, members };
      // Where one value begins and ends is exact.
      return worst.track === 'still' ? { ...worst, members } : { ...worst, start, end, members };
    })
    .sort((a, b) => b.severity - a.severity);
}
