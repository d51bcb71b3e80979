/** Joins candidates of several tracks that belong to one event. */
import { INSIDE, LEVELS } from './finding.ts';
import type { Candidate } from './scan.ts';

type Stretch = Pick<Candidate, 'start' | 'end'>;

export interface Joined extends Candidate {
  /** Its candidates, most severe first. */
  readonly members: readonly Candidate[];
}

/** Least severity at which a candidate extends a group, as a share of the most severe member. */
const WEAK = 0.4;

/** Least such share for a group that overlaps a worse one, unless it is a high finding by itself. */
const FAINT = 0.125;

/** Least such share for a step that is never taken back, which extends a group to the end of the series. */
const LASTING = 1;

/** Largest gap inside one change of a season, as a share of the shorter group. */
const PART_APART = 0.75;

/** Fewest groups in a row that are the peaks of one change, and the largest gap between them in seasons. */
const FEWEST_PEAKS = 3;
const NEAR_PEAKS = 0.6;
/** Largest distance of the peaks of one change from whole cycles, in cycles. */
const OFF_CYCLE = 0.1;

/** From the first start to the last end. */
const extent = (some: readonly Stretch[]): Stretch => ({
  start: Math.min(...some.map(({ start }) => start)),
  end: Math.max(...some.map(({ end }) => end)),
});

/** Joins candidates that overlap or almost touch, in a series of `length` samples; weak ones do not extend the stretch. */
export function join(all: readonly Candidate[], length: number, period: number | null = null): Joined[] {
  const leaks = all.filter(({ drifts }) => drifts);
  const candidates = all.filter(({ drifts }) => !drifts);
  const lasting = (candidate: Candidate): boolean => candidate.track === 'step' && candidate.end === length;
  const groups: { start: number; end: number; members: Candidate[] }[] = [];
  for (const candidate of candidates) {
    const near = groups.filter(({ start, end, members }) => {
      const gap = Math.max(candidate.start - end, start - candidate.end);
      const shorter = Math.min(end - start, candidate.end - candidate.start);
      return (
        gap <= Math.min(Math.max(2, 0.5 * shorter), period === null ? 16 : Math.max(2, period / 3)) &&
        candidate.severity >= (lasting(candidate) ? LASTING : WEAK) * members[0]!.severity
      );
    });
    const inside = groups.some(({ start, end }) => candidate.start < end && start < candidate.end);
    if (near.length === 0) {
      if (!inside) groups.push({ start: candidate.start, end: candidate.end, members: [candidate] });
      continue;
    }
    // Between two incidents lies the way back from the first, which is no part of either.
    if (
      near.length > 1 &&
      candidate.track === 'step' &&
      near.every(
        ({ start, end, members }) =>
          members[0]!.sign !== candidate.sign && (end <= candidate.start || candidate.end <= start),
      )
    )
      continue;
    const first = near[0]!;
    for (const other of near.slice(1)) {
      first.start = Math.min(first.start, other.start);
      first.end = Math.max(first.end, other.end);
      first.members.push(...other.members);
      groups.splice(groups.indexOf(other), 1);
    }
    first.start = Math.min(first.start, candidate.start);
    first.end = Math.max(first.end, candidate.end);
    first.members.push(candidate);
  }
  // A longer stretch that is almost filled by strong groups is one event.
  for (const candidate of candidates) {
    const inside = groups.filter(({ start, end }) => {
      const shared = Math.min(end, candidate.end) - Math.max(start, candidate.start);
      return 2 * shared >= end - start;
    });
    if (inside.length === 0 || inside.some(({ members }) => members.includes(candidate))) continue;
    const covered = inside.reduce((sum, { start, end }) => sum + end - start, 0);
    const hull = Math.max(...inside.map(({ end }) => end)) - Math.min(...inside.map(({ start }) => start));
    const half = 0.5 * (candidate.end - candidate.start);
    if (hull < half || (inside.length < FEWEST_PEAKS && covered < half)) continue;
    const first = inside[0]!;
    for (const other of inside.slice(1)) {
      first.members.push(...other.members);
      groups.splice(groups.indexOf(other), 1);
    }
    first.members.push(candidate);
    first.start = Math.min(candidate.start, ...inside.map(({ start }) => start));
    first.end = Math.max(candidate.end, ...inside.map(({ end }) => end));
  }
  // A group inside another is part of it; one that reaches beyond extends it, unless it is faint, or a weak step, beside a strong group.
  const separate: typeof groups = [];
  const severityOf = ({ members }: (typeof groups)[number]): number =>
    Math.max(...members.map(({ severity }) => severity));
  // Two parts of a cycle or of several with a small gap.
  const sameChange = (group: { start: number; end: number }, next: typeof group, alike: number): boolean => {
    const shorter = Math.min(group.end - group.start, next.end - next.start);
    const gap = next.start - group.end;
    return period !== null && alike >= WEAK && gap <= PART_APART * shorter && gap <= period / 3;
  };
  const stepAlone = ({ members }: (typeof groups)[number]): boolean =>
    members.every(({ track }) => track === 'step');
  const beside = (group: (typeof groups)[number], other: typeof group): boolean =>
    group.start < other.end &&
    other.start < group.end &&
    severityOf(group) < Math.min(LEVELS.high, FAINT * severityOf(other));
  const told = groups.filter((group) => !groups.some((other) => beside(group, other)));
  for (const group of told.sort((a, b) => a.start - b.start)) {
    const last = separate.at(-1);
    if (last === undefined) {
      separate.push(group);
      continue;
    }
    const [weak, strong] = severityOf(group) < severityOf(last) ? [group, last] : [last, group];
    if (group.start >= last.end && !sameChange(last, group, severityOf(weak) / severityOf(strong))) {
      separate.push(group);
      continue;
    }
    if (stepAlone(weak) && severityOf(weak) < WEAK * severityOf(strong)) {
      if (weak === last) separate[separate.length - 1] = group;
      continue;
    }
    last.end = Math.max(last.end, group.end);
    last.members.push(...group.members);
  }
  const peakOf = ({ members }: (typeof groups)[number]): number =>
    members.reduce((most, member) => (member.severity > most.severity ? member : most)).peak;
  // Number of groups with an earlier one whole cycles before: what departs at any time is several events.
  const inStep = (chain: typeof groups): number =>
    chain.filter((group, k) =>
      chain.slice(0, k).some((earlier) => {
        const cycles = (peakOf(group) - peakOf(earlier)) / period!;
        return cycles > 0.5 && Math.abs(cycles - Math.round(cycles)) <= OFF_CYCLE;
      }),
    ).length;
  // A change of amplitude or pace departs at the peaks of every cycle: three or more, closer than a cycle, are one event.
  const events: typeof groups = [];
  for (let i = 0; i < separate.length; ) {
    let j = i + 1;
    while (
      period !== null &&
      j < separate.length &&
      separate[j]!.start - separate[j - 1]!.end <= NEAR_PEAKS * period
    )
      j++;
    const chain = separate.slice(i, j);
    if (chain.length >= FEWEST_PEAKS && 2 * inStep(chain) >= chain.length - 1) {
      const members = chain.flatMap((group) => group.members);
      events.push({ start: chain[0]!.start, end: chain.at(-1)!.end, members });
    } else events.push(...chain);
    i = j;
  }
  // A shift that lasts to the end is kept although a worse event happens at its beginning; what is less severe and lies in it is a part of it.
  for (const candidate of candidates) {
    if (!lasting(candidate) || events.some(({ members }) => members.includes(candidate))) continue;
    let { start } = candidate;
    const isPart = (event: (typeof events)[number]): boolean =>
      event.start >= start && severityOf(event) <= candidate.severity;
    // A long worse departure the same way is the same shift, which goes on.
    const same = events.find(
      (event) =>
        !isPart(event) &&
        event.end > candidate.start &&
        INSIDE * (event.end - event.start) >= candidate.end - candidate.start &&
        event.members.every(({ sign }) => sign === candidate.sign),
    );
    if (same !== undefined) {
      same.start = Math.min(same.start, candidate.start);
      same.end = candidate.end;
      same.members.unshift({ ...candidate, severity: severityOf(same) });
      continue;
    }
    for (const event of events.toSorted((a, b) => a.start - b.start))
      if (event.start <= start && event.end > start && !isPart(event)) start = event.end;
    if (2 * (candidate.end - start) < candidate.end - candidate.start) continue;
    if (events.some((event) => event.end >= candidate.end && !isPart(event))) continue;
    const parts = events.filter(isPart);
    for (const part of parts) events.splice(events.indexOf(part), 1);
    const members = [candidate, ...parts.flatMap((part) => part.members)];
    events.push({ start, end: candidate.end, members });
  }
  // A short departure the other way from a level is another event than the level around it, which it may cut in two.
  for (const event of [...events]) {
    const worst = event.members.reduce((most, member) => (member.severity > most.severity ? member : most));
    const size = worst.end - worst.start;
    const levels = events
      .flatMap(({ members }) => members)
      .filter(
        ({ track, sign, start, end, severity }) =>
          track === 'step' &&
          sign === -worst.sign &&
          severity >= LEVELS.medium &&
          end - start >= INSIDE * size &&
          start <= worst.end + INSIDE * size &&
          end >= worst.start - INSIDE * size,
      );
    if (levels.length === 0 || !events.includes(event)) continue;
    const around = event.members.filter(({ track, sign }) => sign === -worst.sign && track !== 'still');
    const { start: from, end: to } = extent([...levels, ...around]);
    if (from > worst.start || to < worst.end) continue;
    const isOf = ({ track, sign, start, end }: Candidate): boolean =>
      (sign === worst.sign || track === 'still') &&
      start < worst.end &&
      worst.start < end &&
      end - start < INSIDE * size;
    const whole = events.filter(
      (one) => one === event || one.members.some((member) => levels.includes(member)),
    );
    for (const one of whole) events.splice(events.indexOf(one), 1);
    const members = whole.flatMap((one) => one.members);
    const inside = members.filter(isOf);
    events.push({ ...extent(inside), members: inside });
    events.push({ ...extent(whole), members: members.filter((member) => !isOf(member)) });
  }
  // Inside a level its own neighbours tell a spike or a dip.
  for (const event of [...events]) {
    const isInside = ({ track, start, end, severity }: Candidate): boolean =>
      track === 'local' &&
      severity >= LEVELS.medium &&
      event.members.some(
        (level) =>
          level.track === 'step' &&
          level.severity >= LEVELS.medium &&
          start - level.start >= end - start &&
          end <= level.end &&
          INSIDE * (end - start) <= level.end - level.start,
      );
    for (const worst of candidates.filter(isInside)) {
      const isOf = ({ track, start, end }: Candidate): boolean =>
        track !== 'step' &&
        start < worst.end &&
        worst.start < end &&
        end - start < INSIDE * (worst.end - worst.start);
      if (events.some((other) => other !== event && other.start < worst.end && worst.start < other.end))
        continue;
      const inside = candidates.filter(isOf);
      event.members = event.members.filter((member) => !inside.includes(member));
      events.push({ ...extent(inside), members: inside });
    }
  }
  // A drift goes on through other events; its steps, and what is left of it over a quarter of its length, are parts of it.
  for (const leak of leaks) {
    const parts = events.filter(
      ({ start, end, members }) =>
        2 * (Math.min(end, leak.end) - Math.max(start, leak.start)) >= end - start &&
        (members.every(({ track }) => track === 'step') || 4 * (end - start) > leak.end - leak.start),
    );
    for (const part of parts) events.splice(events.indexOf(part), 1);
    events.push({ start: leak.start, end: leak.end, members: [leak] });
  }
  return events
    .map(({ start, end, members }): Joined => {
      members.sort((a, b) => b.severity - a.severity);
      const worst = members[0]!;
      // A level that stays is described by its beginning, whatever else departs there.
      const step = members.find(({ lasting: stays, severity }) => stays && severity >= WEAK * worst.severity);
      if (step !== undefined)
        return { ...step, start: Math.max(step.start, start), severity: worst.severity, members };
      // The ends of a standstill are exact, unless it lies in a level.
      const size = INSIDE * (worst.end - worst.start);
      const isPart = members.some(
        ({ track, severity, ...one }) =>
          track === 'step' && severity >= WEAK * worst.severity && one.end - one.start >= size,
      );
      return worst.track === 'still' && !isPart ? { ...worst, members } : { ...worst, start, end, members };
    })
    .sort((a, b) => b.severity - a.severity);
}
