/** The expert trace of an example of any task, in both modes, and how often the blind one is right. */
import { ConfigError } from '../errors.ts';
import { pointF1 } from '../series/intervals.ts';
import type { Example, Gold } from '../types.ts';
import { blindAnomaly, teacherAnomaly } from './anomaly.ts';
import { ClassEvidence } from './class-evidence.ts';
import { blindClass, teacherClass } from './class-trace.ts';
import type { ClassProfile } from './profile-of-classes.ts';
import { analyseVariates } from './variates.ts';
import { blindVariates, teacherVariates } from './variates-trace.ts';

export const TRACE_MODES = ['teacher', 'blind'] as const;
/** `teacher` concludes the gold answer, for training; `blind` its own, from values alone. */
export type TraceMode = (typeof TRACE_MODES)[number];

export interface ExpertTrace {
  /** The whole response with its tags. */
  readonly text: string;
  /** What stands inside the think tags; without '<' and '>'. */
  readonly think: string;
  /** What the trace concludes. */
  readonly answer: Gold;
}

/** What an expert looks at: an example without its answer. */
export type Unlabelled = Pick<Example, 'channels' | 'names'>;

/** The blind trace: of an answer of this kind, from values alone. @throws as `expertTrace` */
export function blindTrace(
  series: Unlabelled,
  kind: Gold['kind'],
  profile: ClassProfile | null,
): ExpertTrace {
  const { channels, names } = series;
  if (kind === 'classification') {
    const { text, think, class: own } = blindClass(new ClassEvidence(needProfile(profile), channels));
    return { text, think, answer: { kind, class: own } };
  }
  if (kind === 'variates') {
    const { text, think, variates } = blindVariates(analyseVariates(channels));
    return { text, think, answer: { kind, variates } };
  }
  const { text, think, intervals, class: own } = blindAnomaly(channels, names);
  return { text, think, answer: { kind, class: own, intervals } };
}

/** The trace that concludes the gold answer. @throws as `expertTrace` */
export function teacherTrace(
  example: Unlabelled & Pick<Example, 'gold'>,
  profile: ClassProfile | null,
): ExpertTrace {
  const { channels, names, gold } = example;
  if (gold.kind === 'classification') {
    const { text, think } = teacherClass(new ClassEvidence(needProfile(profile), channels), gold.class);
    return { text, think, answer: gold };
  }
  if (gold.kind === 'variates') {
    const { text, think } = teacherVariates(analyseVariates(channels), gold.variates);
    return { text, think, answer: gold };
  }
  const { text, think } = teacherAnomaly(channels, names, gold.intervals, gold.class);
  return { text, think, answer: gold };
}

/**
 * The trace of an example.
 * @param profile what was learned from the training split; needed for classification alone
 * @throws ConfigError without a profile that is needed, or for a class that it does not know; DataError for values that cannot be
 * analysed (none, infinite, all missing) or do not fit the profile
 */
export function expertTrace(example: Example, mode: TraceMode, profile: ClassProfile | null): ExpertTrace {
  return mode === 'teacher'
    ? teacherTrace(example, profile)
    : blindTrace(example, example.gold.kind, profile);
}

function needProfile(profile: ClassProfile | null): ClassProfile {
  if (profile !== null) return profile;
  throw new ConfigError(
    'a trace of a classification needs a profile of classes, learned from the training split',
  );
}

/** How an answer agrees with the gold one. */
export interface Agreement {
  /** Whether the class is right; null where there is none, or the data do not name it. */
  readonly class: boolean | null;
  /** Point F1 of the intervals, or F1 of the variates, in [0, 1]; two empty lists agree. Null where there is none. */
  readonly f1: number | null;
}

/** Compares answers of one kind. @throws ConfigError for answers of different kinds */
export function agreement(answer: Gold, gold: Gold): Agreement {
  if (answer.kind === 'classification' && gold.kind === 'classification') {
    return { class: answer.class === gold.class, f1: null };
  }
  if (answer.kind === 'anomaly' && gold.kind === 'anomaly') {
    const right = gold.class === null ? null : answer.class === gold.class;
    return { class: right, f1: pointF1(answer.intervals, gold.intervals) };
  }
  if (answer.kind === 'variates' && gold.kind === 'variates') {
    const shared = answer.variates.filter((id) => gold.variates.includes(id)).length;
    const total = answer.variates.length + gold.variates.length;
    return { class: null, f1: total === 0 ? 1 : (2 * shared) / total };
  }
  throw new ConfigError(`an answer of kind ${answer.kind} beside one of kind ${gold.kind}`);
}

/** How often the blind expert is right on a split. */
export interface BlindScore {
  readonly count: number;
  /** Share of right classes; null where there is no class. */
  readonly accuracy: number | null;
  /** Accuracy of always naming the most frequent class of these examples. */
  readonly chance: number | null;
  /** Mean F1 of intervals or variates; null where there are none. */
  readonly f1: number | null;
}

/** Scores blind traces. Throws a ConfigError for no examples, and as `expertTrace`. */
export function scoreBlind(examples: Iterable<Example>, profile: ClassProfile | null): BlindScore {
  let count = 0;
  let graded = 0;
  let right = 0;
  let localised = 0;
  let f1 = 0;
  const classes = new Map<string, number>();
  for (const example of examples) {
    const { gold } = example;
    const own = agreement(blindTrace(example, gold.kind, profile).answer, gold);
    count++;
    if (own.class !== null && gold.kind !== 'variates' && gold.class !== null) {
      graded++;
      if (own.class) right++;
      classes.set(gold.class, (classes.get(gold.class) ?? 0) + 1);
    }
    if (own.f1 !== null) {
      localised++;
      f1 += own.f1;
    }
  }
  if (count === 0) throw new ConfigError('no examples to score');
  return {
    count,
    accuracy: graded === 0 ? null : right / graded,
    chance: graded === 0 ? null : Math.max(...classes.values()) / graded,
    f1: localised === 0 ? null : f1 / localised,
  };
}
