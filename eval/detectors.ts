/**
 * What answers without learning a language, by the kind of answer; all of it from values alone.
 *
 * Intervals of anomalies. `expcot-blind`, the blind expert reading, reads its class off the evidence. The other detectors
 * find but do not name, so each says the class of what it is made to find (AnomSeer's assignment of analyses to
 * classes), whatever the series is, and `normal` where it finds nothing. They need one channel without missing points;
 * where any series is otherwise, `expcot-blind` answers alone:
 *
 *  zscore, clipped-zscore, iqr   extreme values              global point
 *  gradient                      a steep stretch             trend
 *  sliding-period                another dominant period     seasonal
 *  discord, discords             a shape unlike any other    contextual point
 *
 * Classes, learned from the training split: `expcot-blind` (statistics of features by class), `1nn-euclid` (the nearest
 * training series) where all series have one length, `majority` (the most frequent class). Variates: `expcot-blind`.
 */
import { scoreAnswer } from '../rewards/response.ts';
import { DataError } from '../src/errors.ts';
import { EXPCOT_BLIND, expcotBlind } from '../src/expcot/detector.ts';
import { blindTrace, type Unlabelled } from '../src/expcot/expert.ts';
import { type ClassProfile, learnClasses } from '../src/expcot/profile-of-classes.ts';
import { DETECTORS } from '../src/series/detectors.ts';
import type { AnomalyClass, EvalRecord, Example, Gold, Interval, ParsedAnswer } from '../src/types.ts';
import { nearestNeighbour, type TrainingSample } from './nearest.ts';

/** Answers a series from its values; a text says why it cannot. */
export type Answerer = (series: Unlabelled) => Gold | string;

/** What a detector calls whatever it finds. */
const FINDS: Readonly<Record<string, AnomalyClass>> = {
  zscore: 'global point',
  'clipped-zscore': 'global point',
  iqr: 'global point',
  gradient: 'trend',
  'sliding-period': 'seasonal',
  discord: 'contextual point',
  discords: 'contextual point',
};

interface Reading {
  readonly intervals: readonly Interval[];
  readonly class: AnomalyClass;
}

/** Every classical detector of one whole channel with its class, from values alone. */
export const BASELINES: ReadonlyMap<string, (values: Float64Array) => Reading> = new Map([
  ...Object.entries(DETECTORS).map(([name, detector]): [string, (values: Float64Array) => Reading] => {
    const found = FINDS[name];
    if (found === undefined) throw new DataError(`detector ${name}: no class is assigned to what it finds`);
    return [
      name,
      (values) => {
        const { intervals } = detector(values);
        return { intervals, class: intervals.length === 0 ? 'normal' : found };
      },
    ];
  }),
  [EXPCOT_BLIND, expcotBlind],
]);

/** Whether a series is one channel without missing points. */
export function isPlain({ channels }: Unlabelled): boolean {
  return channels.length === 1 && !channels[0]!.some(Number.isNaN);
}

/** The blind expert as an answerer: a series that it cannot analyse (a channel without any point) goes unanswered. */
function blindExpert(kind: Gold['kind'], profile: ClassProfile | null): Answerer {
  return (series) => {
    try {
      return blindTrace(series, kind, profile).answer;
    } catch (error) {
      if (error instanceof DataError) return error.message;
      throw error;
    }
  };
}

/** Detectors of a kind that needs no learning, for examples like these. */
export function detectorsFor(
  kind: Exclude<Gold['kind'], 'classification'>,
  examples: readonly Unlabelled[],
): ReadonlyMap<string, Answerer> {
  if (kind === 'variates' || !examples.every(isPlain))
    return new Map([[EXPCOT_BLIND, blindExpert(kind, null)]]);
  return new Map(
    [...BASELINES].map(([name, read]): [string, Answerer] => [
      name,
      ({ channels }) => {
        const { intervals, class: named } = read(channels[0]!);
        return { kind, intervals, class: named };
      },
    ]),
  );
}

/** The most frequent class; of equally frequent ones the first by name. */
function majorityOf(classes: ReadonlyMap<string, number>): string {
  const sorted = [...classes].sort(([a, m], [b, n]) => n - m || (a < b ? -1 : 1));
  return sorted[0]![0];
}

/** Classifiers that learned from training examples, at least one. @throws DataError as `learnClasses` */
export function classifiers(sample: TrainingSample): ReadonlyMap<string, Answerer> {
  const kind = 'classification';
  const profile = learnClasses(sample.examples);
  const nearest = nearestNeighbour(sample.examples);
  const majority = majorityOf(sample.classes);
  const all: [string, Answerer][] = [[EXPCOT_BLIND, blindExpert(kind, profile)]];
  if (nearest !== null) {
    all.push([
      '1nn-euclid',
      ({ channels }) => {
        const found = nearest(channels);
        return found === null ? 'of another length than the training examples' : { kind, class: found };
      },
    ]);
  }
  all.push(['majority', () => ({ kind, class: majority })]);
  return new Map(all);
}

/** The parts of an answer without text. */
function answerOf(own: Gold | string, kind: Gold['kind']): ParsedAnswer {
  const failed = typeof own === 'string';
  const state = { think: null, wellFormed: !failed, problem: failed ? own : null };
  if (failed)
    return { ...state, intervals: null, class: null, ...(kind === 'variates' ? { variates: null } : {}) };
  if (own.kind === 'variates') return { ...state, intervals: null, class: null, variates: own.variates };
  return { ...state, intervals: own.kind === 'anomaly' ? own.intervals : null, class: own.class };
}

/** The record of a detector's answer: no text, well formed unless there is none, the reward of a policy. */
export function baselineRecord(example: Example, own: Gold | string): EvalRecord {
  const { id, task, gold } = example;
  const length = example.channels[0]!.length;
  const answer = answerOf(own, gold.kind);
  return { seriesId: id, task, length, gold, response: '', answer, score: scoreAnswer(answer, gold, length) };
}
