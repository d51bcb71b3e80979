/** The right answer in the parts that a program gives, whatever its kind. */
import type { Place } from '../ground/json-record.ts';
import type { AnomalyClass, Gold, Interval } from '../ground/types.ts';
import { readGold, taskKind } from './kinds.ts';

/** Fields of the gold answer by kind, where some may be left out; null counts as absent. Other kinds: all fields. */
export interface GoldPartsOf {
  readonly classification: { readonly class: string };
  readonly anomaly: {
    /** Half-open [start, end), sorted and disjoint; none where nothing is anomalous. */
    readonly intervals: readonly Interval[];
    /** Their kind, where it is known; `normal`, or absent, where there are none. */
    readonly class?: AnomalyClass | null;
  };
  readonly variates: {
    /** Numbers of the odd channels, ascending. */
    readonly variates: readonly number[];
  };
  readonly question: {
    readonly question: string;
    /** Texts to choose from; none where the answer is free. */
    readonly options?: readonly string[];
    /** The letter or the text of the right option; without options a text of one line, or a number. */
    readonly answer: string | number;
    /** Category for metrics. */
    readonly category?: string | null;
    /** Expert reasoning towards the gold answer; the SFT target. */
    readonly thought?: string | null;
  };
}

/** Schema of one kind, or of any. */
export type GoldParts<K extends Gold['kind'] = Gold['kind']> = K extends keyof GoldPartsOf
  ? GoldPartsOf[K]
  : Omit<Extract<Gold, { kind: K }>, 'kind'>;

/**
 * The gold answer of a kind from its parts, each of its type; whether it fits a series is not looked at.
 * @throws DataError naming the part that is missing or wrong
 */
export function goldFrom<K extends Gold['kind']>(kind: K, parts: GoldParts<K>, at: Place = {}): Gold {
  const given = parts as Readonly<Record<string, unknown>>;
  const { fields, fieldsFrom } = taskKind(kind);
  const named = fieldsFrom?.(given, at) ?? given;
  const own = fields.filter((field) => field !== 'kind').map((field) => [field, named[field]]);
  return readGold({ kind, ...Object.fromEntries(own) }, at);
}
