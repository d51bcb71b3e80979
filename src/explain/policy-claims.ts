/** What a policy claims of a stretch that it marks: of all its answers that count, from the one that marks nearly the same. */
import { z } from 'zod';
import { fixed } from '../ground/numbers.ts';
import { DEPARTURE_KINDS, type DepartureKind, type Interval } from '../ground/types.ts';
import { coverage, overlap } from '../series/intervals.ts';
import type { PolicyAnswer } from './policy-section.ts';

export const CLAIM = z.strictObject({
  /** Of the whole answer. */
  class: z.string().nullable(),
  /** What departs, in which direction, and by how many standard deviations of what cannot be foretold; null where its reasoning does not say. */
  kind: z.enum(DEPARTURE_KINDS).nullable(),
  direction: z.enum(['up', 'down']).nullable(),
  size: z.number().positive().nullable(),
});
export type Claim = z.infer<typeof CLAIM>;

const NOTHING = { kind: null, direction: null, size: null } as const;
const CLAUSE = new RegExp(`^(${DEPARTURE_KINDS.join('|')})(?: (up|down))? ([1-9]\\d{0,2}) sd$`);

/** The departures that a reasoning names behind its scan, as `nanoFactsTeacher` writes them; words of another form are nothing. */
export function claimedDepartures(response: string): Omit<Claim, 'class'>[] {
  const think = /^\s*<think>([^<]*)<\/think>/.exec(response)?.[1] ?? '';
  const clauses = think.trim().split('; ');
  const scan = clauses.findIndex((clause) => clause.startsWith('scan '));
  if (scan < 0) return [];
  return clauses.slice(scan + 1).map((clause) => {
    const [, kind, direction, size] = CLAUSE.exec(clause) ?? [];
    if (kind === undefined) return NOTHING;
    return {
      kind: kind as DepartureKind,
      direction: (direction as 'up' | 'down' | undefined) ?? null,
      size: Number(size),
    };
  });
}

/** What is claimed of a stretch. Departures are told apart only where an answer names as many as it marks intervals. */
export function claimOf(stretch: Interval, answers: readonly PolicyAnswer[]): Claim {
  let best: { answer: PolicyAnswer; index: number; count: number } | null = null;
  let most = 0;
  for (const answer of answers) {
    if (answer.doubts.length > 0 || answer.intervals === null) continue;
    for (const [index, own] of answer.intervals.entries()) {
      const common = overlap([own], [stretch]);
      const share = common / (coverage([own]) + coverage([stretch]) - common);
      if (share <= most) continue;
      most = share;
      best = { answer, index, count: answer.intervals.length };
    }
  }
  if (best === null) return { class: null, ...NOTHING };
  const departures = claimedDepartures(best.answer.response);
  const own = departures.length === best.count ? departures[best.index]! : NOTHING;
  return { class: best.answer.class, ...own };
}

/** "level shift up, about 4 standard deviations"; the class where the reasoning names no kind. */
export function claimWords(claim: Claim): string {
  const { kind, direction, size } = claim;
  if (kind === null) return claim.class === null ? 'unusual' : claim.class;
  const unit = size === 1 ? 'standard deviation' : 'standard deviations';
  return `${kind}${direction === null ? '' : ` ${direction}`}${size === null ? '' : `, about ${size} ${unit}`}`;
}

/** A share of one as it is told: .83; a dash where none is known. */
export const confidenceWords = (confidence: number | null): string =>
  confidence === null ? '\u2013' : fixed(Math.min(0.99, confidence), 2).replace(/^0/, '');
