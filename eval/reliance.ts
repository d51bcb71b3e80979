/**
 * Reliance of answers on the reasoning: the policy continues from a changed reasoning (`src/claims/intervene.ts`), and its answers are
 * compared with what that reasoning concludes and with its own answers.
 */
import {
  followsIntervals,
  INTERVENTION_NAMES,
  INTERVENTIONS,
  type Intervention,
  type InterventionName,
  intervene,
  type OwnAnswer,
} from '../src/claims/intervene.ts';
import { DataError } from '../src/ground/errors.ts';
import { columns } from '../src/ground/terminal.ts';
import type { Estimate, EvalRecord, Example } from '../src/ground/types.ts';
import { type BootstrapOptions, estimate, pairedDifference } from '../src/measures/bootstrap.ts';
import { mapBack } from '../src/series/intervals.ts';
import { withInterval } from '../src/tasks/evaluation.ts';
import { reasoningRange } from '../src/tasks/response.ts';
import { NOTHING, type Table, tableTexts } from './table.ts';

/** Effect of one intervention on the answers. */
export interface InterventionEffect {
  /** Number of responses that could be changed so. */
  readonly n: number;
  /** Share of answers with a class implied by the edited reasoning; null if no edit changed the class. */
  readonly followsClass: Estimate | null;
  /** Share of answers with the intervals implied by the edited reasoning; null if no edit changed them. */
  readonly followsIntervals: Estimate | null;
  /** Share of answers with the class of the original one. */
  readonly classStays: Estimate;
  /** Share of well-formed answers: an opening unlike the training data may break the format. */
  readonly format: Estimate;
  /** Mean reward, and its difference from the original responses on the same series. */
  readonly reward: Estimate;
  readonly change: Estimate;
}

/** Effects by intervention; null if no response could be edited so. */
export type Reliance = Readonly<Record<InterventionName, InterventionEffect | null>>;

/** A response with the interventions on its reasoning, by name. */
interface Intervened {
  /** Place of its series in the data set. */
  readonly number: number;
  readonly record: EvalRecord;
  readonly own: OwnAnswer;
  readonly changes: Readonly<Partial<Record<InterventionName, Intervention>>>;
}

/** Returns the answered intervals in points as the reasoning counts them, `length` along the series. */
const intervalsAs = ({ answer: { intervals }, length: points }: EvalRecord, length: number) =>
  intervals === null || length === points ? intervals : mapBack(intervals, points, [0, length]);

/**
 * Plans interventions on greedy responses. Responses without reasoning are left out.
 * @param source examples of the data set, in its order
 * @throws DataError where no response has reasoning
 */
export function interventionsOn(
  records: readonly EvalRecord[],
  source: Iterable<Pick<Example, 'id' | 'names'>>,
): readonly Intervened[] {
  const places = new Map(Array.from(source, ({ id, names }, number) => [id, { number, names }]));
  const reasoned = records.flatMap((record) => {
    const { answer, length: points, frame: length = points } = record;
    const { think, class: named } = answer;
    const intervals = intervalsAs(record, length);
    if (record.failure !== undefined || think === null || think.trim() === '') return [];
    if (reasoningRange(record.response) === null) return [];
    const { number, names } = places.get(record.seriesId)!;
    return [{ number, record, own: { think, answer: { class: named, intervals }, length, names } }];
  });
  if (reasoned.length === 0) {
    throw new DataError(
      `none of the ${records.length} responses has reasoning between <think> and </think>, so there is nothing to intervene on; evaluate a policy that reasons, or leave --intervene out`,
    );
  }
  const answers = reasoned.map(({ own }) => own);
  const planned = INTERVENTION_NAMES.map((name) => [name, intervene(name, answers)] as const);
  return reasoned.map((each, i) => ({
    ...each,
    changes: Object.fromEntries(
      planned.flatMap(([name, list]) => (list[i] == null ? [] : [[name, list[i]]])),
    ),
  }));
}

/** Returns response prefixes to complete, keyed by sample: the index in INTERVENTION_NAMES. */
export function openingsOf({ record: { response }, changes }: Intervened): Readonly<Record<number, string>> {
  const [start, end] = reasoningRange(response)!;
  const tail = /^<\/think>/i.exec(response.slice(end))![0];
  return Object.fromEntries(
    INTERVENTION_NAMES.flatMap((name, sample) => {
      const change = changes[name];
      return change === undefined ? [] : [[sample, response.slice(0, start) + change.think + tail]];
    }),
  );
}

/** A response from a changed reasoning, beside the one that was changed. */
interface Pair {
  readonly own: OwnAnswer;
  readonly change: Intervention;
  readonly before: EvalRecord;
  readonly after: EvalRecord;
}

/** Pairs of an intervention; failed continuations are left out. */
function pairsOf(
  name: InterventionName,
  planned: readonly Intervened[],
  continued: readonly EvalRecord[],
): Pair[] {
  const sample = INTERVENTION_NAMES.indexOf(name);
  const answered = new Map(
    continued.flatMap((record) => (record.sample === sample ? [[record.seriesId, record]] : [])),
  );
  return planned.flatMap(({ record, own, changes }) => {
    const [change, after] = [changes[name], answered.get(record.seriesId)];
    if (change === undefined || after === undefined || after.failure !== undefined) return [];
    return [{ own, change, before: record, after }];
  });
}

/** True if the answer has a class implied by the edit; null if the edit does not change the class. */
const hasClass = ({ change, after }: Pair): boolean | null =>
  change.classes === null ? null : change.classes.includes(after.answer.class ?? '');

/** True if the answer has the intervals implied by the edit; null if the edit does not change them. */
const hasIntervals = ({ own, change, after }: Pair): boolean | null =>
  change.moves ? followsIntervals(change, intervalsAs(after, own.length), own) : null;

/**
 * Computes the effect of each intervention.
 * @param continued responses from changed reasonings; sample: place in INTERVENTION_NAMES
 */
export function relianceOf(
  planned: readonly Intervened[],
  continued: readonly EvalRecord[],
  options: BootstrapOptions = {},
): Reliance {
  const effectOf = (name: InterventionName): InterventionEffect | null => {
    const pairs = pairsOf(name, planned, continued);
    if (pairs.length === 0) return null;
    const share = (list: readonly (boolean | null)[]): Estimate | null => {
      const known = list.filter((value) => value !== null);
      return known.length === 0 ? null : estimate(known.map(Number), options);
    };
    const rewards = pairs.map(({ after }) => after.score.total);
    return {
      n: pairs.length,
      followsClass: share(pairs.map(hasClass)),
      followsIntervals: share(pairs.map(hasIntervals)),
      classStays: share(pairs.map(({ own, after }) => after.answer.class === own.answer.class))!,
      format: share(pairs.map(({ after }) => after.answer.wellFormed))!,
      reward: estimate(rewards, options),
      change: pairedDifference(
        rewards,
        pairs.map(({ before }) => before.score.total),
        options,
      ),
    };
  };
  const effects = INTERVENTION_NAMES.map((name) => [name, effectOf(name)] as const);
  return Object.fromEntries(effects) as unknown as Reliance;
}

/** Returns by series 1 if the answer followed the edit, 0 if not, null if no edit was possible; one column per edit. */
export function reliedOn(
  planned: readonly Intervened[],
  continued: readonly EvalRecord[],
  ids: readonly string[],
): Readonly<Record<'follows_moved' | 'follows_corrupted', readonly (number | null)[]>> {
  const column = (name: InterventionName, follows: (pair: Pair) => boolean | null) => {
    const bySeries = new Map(
      pairsOf(name, planned, continued).map((pair) => [pair.before.seriesId, follows(pair)]),
    );
    return ids.map((id) => {
      const value = bySeries.get(id) ?? null;
      return value === null ? null : Number(value);
    });
  };
  return {
    follows_moved: column('moved', hasIntervals),
    follows_corrupted: column('corrupted', hasClass),
  };
}

/** Effects as a table. */
function relianceRows(reliance: Reliance): Table {
  return {
    head: [
      'continued from',
      'n',
      'class follows',
      'intervals follow',
      'class stays',
      'format',
      'reward',
      'change',
    ],
    rows: INTERVENTION_NAMES.flatMap((name) => {
      const effect = reliance[name];
      if (effect === null)
        return [[INTERVENTIONS[name].label, '0', ...Array.from({ length: 6 }, () => NOTHING)]];
      const { n, followsClass, followsIntervals: moved, classStays, format, reward, change } = effect;
      const shown = [followsClass, moved, classStays, format, reward, change].map((value) =>
        value === null ? NOTHING : withInterval(value),
      );
      return [[INTERVENTIONS[name].label, String(n), ...shown]];
    }),
  };
}

/** Writes the effects for a terminal. Ends with a line end. */
export const relianceTable = (reliance: Reliance): string =>
  `${columns(tableTexts(relianceRows(reliance)))}\nfollows: the answer is what the edited reasoning implies; n: responses that could be edited so; change: reward minus that of the original response\n`;
