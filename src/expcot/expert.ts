/** The expert trace of an example of any task, in both modes, and how often the blind one is right. */
import { ConfigError } from '../errors.ts';
import { pointF1 } from '../series/intervals.ts';
import type { Example, Gold } from '../types.ts';
import { analyseChannels, blindOf, teacherOf } from './anomaly.ts';
import type { ClassProfile } from './class-profile.ts';
import { blindClass, ClassEvidence, teacherClass } from './class-trace.ts';
import { analyseVariates, blindVariates, teacherVariates } from './variates.ts';

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

/** Both traces of one series, on evidence that is computed once. */
export interface Expert {
  /** The trace of the evidence alone. */
  blind(): ExpertTrace;
  /** The trace that concludes the gold answer. @throws ConfigError for a class that the profile does not know */
  teacher(): ExpertTrace;
}

/** Analyses a series with an answer of this kind; `blind` never looks at `gold`. @throws as `expertTrace` */
export function expertOn(series: Unlabelled, gold: Gold, profile: ClassProfile | null): Expert {
  const { channels, names } = series;
  const told = ({ text, think }: Omit<ExpertTrace, 'answer'>): ExpertTrace => ({ text, think, answer: gold });
  const { kind } = gold;
  if (kind === 'classification') {
    const evidence = new ClassEvidence(needProfile(profile), channels);
    return {
      blind() {
        const { text, think, class: own } = blindClass(evidence);
        return { text, think, answer: { kind, class: own } };
      },
      teacher: () => told(teacherClass(evidence, gold.class)),
    };
  }
  if (kind === 'variates') {
    const evidence = analyseVariates(channels);
    return {
      blind() {
        const { text, think, variates } = blindVariates(evidence);
        return { text, think, answer: { kind, variates } };
      },
      teacher: () => told(teacherVariates(evidence, gold.variates)),
    };
  }
  const evidence = analyseChannels(channels, names);
  return {
    blind() {
      const { text, think, intervals, class: own } = blindOf(evidence, names);
      return { text, think, answer: { kind, class: own, intervals } };
    },
    teacher: () => told(teacherOf(evidence, names, gold.intervals, gold.class)),
  };
}

/** An answer of each kind that says nothing: what a blind trace is handed. */
const NOTHING: { readonly [K in Gold['kind']]: Gold } = {
  classification: { kind: 'classification', class: '' },
  anomaly: { kind: 'anomaly', class: null, intervals: [] },
  variates: { kind: 'variates', variates: [] },
};

/** The blind trace: of an answer of this kind, from values alone. @throws as `expertTrace` */
export function blindTrace(
  series: Unlabelled,
  kind: Gold['kind'],
  profile: ClassProfile | null,
): ExpertTrace {
  return expertOn(series, NOTHING[kind], profile).blind();
}

/** The trace that concludes the gold answer. @throws as `expertTrace` */
export function teacherTrace(
  example: Unlabelled & Pick<Example, 'gold'>,
  profile: ClassProfile | null,
): ExpertTrace {
  return expertOn(example, example.gold, profile).teacher();
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

/** @throws ConfigError where there is none */
export function needProfile(profile: ClassProfile | null): ClassProfile {
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

/** Counts answers beside the gold ones, one by one, up to their score. */
export class BlindTally {
  #count = 0;
  #graded = 0;
  #right = 0;
  #localised = 0;
  #f1 = 0;
  readonly #classes = new Map<string, number>();

  /** One more answer by its agreement; null where the expert had none, which is wrong throughout. */
  add(own: Agreement | null, gold: Gold): void {
    this.#count++;
    if (gold.kind !== 'variates' && gold.class !== null) {
      this.#graded++;
      if (own?.class === true) this.#right++;
      this.#classes.set(gold.class, (this.#classes.get(gold.class) ?? 0) + 1);
    }
    if (gold.kind !== 'classification') {
      this.#localised++;
      this.#f1 += own?.f1 ?? 0;
    }
  }

  /** @throws ConfigError for no answers */
  score(): BlindScore {
    if (this.#count === 0) throw new ConfigError('no examples to score');
    const graded = this.#graded;
    return {
      count: this.#count,
      accuracy: graded === 0 ? null : this.#right / graded,
      chance: graded === 0 ? null : Math.max(...this.#classes.values()) / graded,
      f1: this.#localised === 0 ? null : this.#f1 / this.#localised,
    };
  }
}

/** Scores blind traces. Throws a ConfigError for no examples, and as `expertTrace`. */
export function scoreBlind(examples: Iterable<Example>, profile: ClassProfile | null): BlindScore {
  const tally = new BlindTally();
  for (const example of examples) {
    const { gold } = example;
    tally.add(agreement(blindTrace(example, gold.kind, profile).answer, gold), gold);
  }
  return tally.score();
}
