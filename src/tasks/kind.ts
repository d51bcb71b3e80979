/**
 * Interface of an answer kind for data sets, training, evaluation and reports. To add a kind: its gold answer
 * in `types.ts`, its file in this folder, and a line in `kinds.ts`.
 */
import type { Reward } from '../../rewards/reward.ts';
import type { ClassProfile } from '../expcot/class-profile.ts';
import type { NanoOptions } from '../expcot/nano.ts';
import type { Place } from '../ground/json-record.ts';
import type { Example, Gold, Interval, ParsedAnswer } from '../ground/types.ts';
import type { Augmentation } from '../series/augment.ts';
import type { Evaluation } from './evaluation.ts';
import type { Reading } from './response.ts';

/** Task-specific words of a prompt; words shared by all tasks belong to the answer kind. */
export interface TaskPrompt {
  /** Name of the task. */
  readonly name: string;
  /** Raised with every change of a word that a policy can see: kept in manifests, since answers depend on it. */
  readonly version: number;
  readonly kind: Gold['kind'];
  /** Origin of the series and meaning of a point: one or more sentences. */
  readonly context: string;
  /** Request: what to find. */
  readonly question: string;
  /** Description of each class by name; classes without one are only listed. */
  readonly hints: Readonly<Record<string, string>>;
  /** Request for the extension; null for tasks without one. */
  readonly advice: string | null;
  /** Advice for each class, which traces give; no policy sees it. Classes without one are told what the series shows alone. */
  readonly advised?: Readonly<Record<string, string>>;
}

/** Facts about a series known in advance; nothing that depends on its label. */
export interface PromptRequest {
  /** Points of the series, N. */
  readonly length: number;
  /** Names of the channels, in the order of the picture: [C]. */
  readonly channels: readonly string[];
  /** Classes to choose from, in order; ignored where the answer has none. */
  readonly classes: readonly string[];
  /** Clause about the picture's axes. Default: the x axis is the index. Unused for variates, whose grid the prompt describes. */
  readonly axes?: string;
  /** Series as numbers, with at most `points` values per channel, instead of a picture (default). */
  readonly numbers?: { readonly text: string; readonly points: number };
  /** True to request an extension, where the task has one. Default: false. */
  readonly extension?: boolean;
  /** True to request reasoning before the answer. Default: true. */
  readonly reasoning?: boolean;
  /** Question of an example that brings its own, with options lettered from A. */
  readonly question?: { readonly text: string; readonly options: readonly string[] };
  /** Classes with their descriptions of an example that brings its own; they replace those of the task. */
  readonly among?: Readonly<Record<string, string>>;
}

/** Form of the requested response; independent of the gold answer. */
export interface Asked {
  readonly kind: Gold['kind'];
  /** Points of the series, N. */
  readonly length: number;
  /** Channels of the series, C. */
  readonly channels: number;
  /** Classes to choose from, which a lenient reading recognises in any case and white space; of classification alone. */
  readonly classes: readonly string[];
  /** Options of the question, by letters from A; of questions alone. */
  readonly options?: readonly string[];
  /** Leniency of parsing. Default: lenient, as in the papers' releases. */
  readonly reading?: Reading;
  /** True if an extension was requested (classification only). Default: false. */
  readonly extension?: boolean;
  /** True if reasoning was requested. Default: true. */
  readonly reasoning?: boolean;
}

export const TRACE_MODES = ['teacher', 'blind'] as const;
/** `teacher` concludes the gold answer, for training; `blind` its own, from values alone. */
export type TraceMode = (typeof TRACE_MODES)[number];

/** Input of the blind expert: an example without its answer. */
export type Unlabelled = Pick<Example, 'channels' | 'names'>;

/** Input of the teacher: an example with its answer. */
export type Labelled = Unlabelled & Pick<Example, 'gold' | 'facts' | 'plotted'>;

export interface ExpertTrace<G extends Gold = Gold> {
  /** The whole response with its tags. */
  readonly text: string;
  /** Text inside the think tags; without '<' and '>'. */
  readonly think: string;
  /** Answer that the trace concludes. */
  readonly answer: G;
}

/** Both traces of one series, on evidence that is computed once. */
export interface Expert<G extends Gold = Gold> {
  /** Evidence of the analyses, as JSON. */
  evidence(): unknown;
  /** The trace of the evidence alone. */
  blind(): ExpertTrace<G>;
  /** The trace that concludes the gold answer. @throws ConfigError for a class that the profile does not know */
  teacher(gold: G): ExpertTrace<G>;
}

/** Agreement of an answer with the gold answer. */
export interface Agreement {
  /** True if the class is right; null where there is none, or the data do not name it. */
  readonly class: boolean | null;
  /** Point F1 of the intervals, or F1 of the variates, in [0, 1]; two empty lists agree. Null where there is none. */
  readonly f1: number | null;
}

/** Marks that show the gold answer in a picture. */
interface Marks {
  readonly intervals: readonly Interval[];
  /** Ids of the channels that are marked; absent: all. */
  readonly channels?: readonly number[];
}

/** Gold answer stated on the command line. */
export interface Statement {
  readonly class: string | undefined;
  readonly intervals: string | undefined;
}

export interface TaskKind<G extends Gold = Gold> {
  /** Name of the answers, plural: `intervals of anomalies`. */
  readonly answers: string;
  /** Short name for tables. */
  readonly column: string;
  /** Classes to choose from: those of the kind, those of the data set (`data`), or none. */
  readonly classes: readonly string[] | 'data';
  // Flags, false by default.
  /** True if traces need class profiles learned from a training split. */
  readonly learnsClasses?: boolean;
  /** True if answers count points, so that pictures need a point axis. */
  readonly countsPoints?: boolean;
  /** True if answers count channels, of which there may be any number. */
  readonly countsChannels?: boolean;
  /** Figure in which a small policy is shown several channels. */
  readonly nanoFigure: string;
  /** True if answers are intervals of a series, as `explain` needs. */
  readonly localises?: boolean;
  /** Random changes of a series that leave its gold answer true. Default: none. */
  readonly augments?: readonly (keyof Augmentation)[];
  /** True if answers are compared with gold by F1. */
  readonly measuresF1?: boolean;
  /** True if each example brings its own question in words, which neither small policies nor analyses can read. */
  readonly readsWords?: boolean;

  // The gold answer.
  /** Fields of the gold answer in a file, `kind` first. */
  readonly fields: readonly string[];
  /**
   * Completes the parts that a program gives to the fields of a gold answer. Default: unchanged. @throws
   * DataError naming the part
   */
  readonly fieldsFrom?: (
    parts: Readonly<Record<string, unknown>>,
    at: Place,
  ) => Readonly<Record<string, unknown>>;
  /** The question that an example brings. Default: none, the task asks. */
  asks?(gold: G): NonNullable<PromptRequest['question']>;
  /** Classes with descriptions that an example brings. Default: none, the data set has them. */
  among?(gold: G): NonNullable<PromptRequest['among']> | undefined;
  /** Optional fields of the gold answer in a file. Default: none. */
  readonly optional?: readonly string[];
  /** The gold answer of a file, field by field. @throws DataError naming the field */
  read(record: Record<string, unknown>, at: Place): G;
  /** @throws DataError naming the field, unless it is an answer to a series of this shape */
  check(gold: G, shape: { readonly length: number; readonly channels: number }, at: Place): void;
  /** The class that is graded; null where there is none, or the data do not name it. */
  className(gold: G): string | null;
  /** Category of an example in metrics. */
  label(gold: G): string;
  /**
   * Writes the gold answer as the response parts after the reasoning. `whole`: with every part of the form,
   * even if unknown and unrewarded.
   */
  parts(gold: G, whole: boolean): string;
  /** Marks in a picture; null for none. */
  marks(gold: G, length: number): Marks | null;
  /**
   * Gold answer stated by a user, which overrides the file's (`found`). Default: the file's, nothing can be stated.
   * @param missing throws that it is not stated, naming the option
   * @throws ConfigError for a wrong statement
   */
  state?(stated: Statement, found: G | null, length: number, missing: (option: string) => never): G;

  // What is asked.
  /** Instruction for small policies, always the same. */
  readonly phrase: string;
  /** The question of a task that has none of its own. */
  readonly question: string;
  /** Meaning of the kind's classes. */
  readonly hints: Readonly<Record<string, string>>;
  /** Sentence that describes what is shown. */
  shown(request: PromptRequest): string;
  /** The form of the answer after the reasoning, in sentences. */
  form(prompt: TaskPrompt, request: PromptRequest): string;

  // The response.
  /** Reads a response; its faults stand in `problem`. @throws DataError for a shape that is none */
  parse(response: string, asked: Asked): ParsedAnswer;
  readonly reward: Reward<G>;

  // The expert.
  /**
   * Analyses a series without its answer. `profile`: learned from the training split, required if
   * `learnsClasses`.
   * @throws ConfigError without a required profile; DataError for values that cannot be analysed (none,
   * infinite, all missing) or do not fit the profile
   */
  expert(series: Unlabelled, profile: ClassProfile | null): Expert<G>;
  /** The short target of a training example. @throws as `expert` and `Expert.teacher` */
  nanoTrace(
    series: Omit<Labelled, 'gold'>,
    gold: G,
    profile: ClassProfile | null,
    options: NanoOptions,
  ): string;
  /**
   * Reasoning of the generic trace, by style: the usual analyses and phrases without any finding. The same
   * for every series, it shows what the content of expert traces is worth.
   */
  readonly generic: Readonly<Record<'nano' | 'full', string>>;
  /** Answer of a response as text; empty where it cannot be read. */
  answerOf(said: ParsedAnswer): G;
  /** Answer for a human reader. @param names of the channels */
  says(said: ParsedAnswer, names: readonly string[]): string;
  agreement(answer: G, gold: G): Agreement;

  /** Metrics, and the words of reports. */
  readonly evaluation: Evaluation<G>;
}

const listed = (names: readonly string[]): string =>
  names.length < 2 ? names.join() : `${names.slice(0, -1).join(', ')} and ${names.at(-1)}`;

/** Describes a series whose channels are named. `countsPoints`: true if the answer counts points, which the x axis may not. */
export function shownSeries(
  { length, channels, axes, numbers }: PromptRequest,
  countsPoints: boolean,
): string {
  const count = channels.length;
  const index = `the x axis is the index, 0 to ${length - 1}`;
  const several = count > 1 ? ` with ${count} channels, ${listed(channels)}` : '';
  if (numbers === undefined) {
    const otherAxis = countsPoints && axes?.endsWith(index) === false;
    const points = otherAxis ? `; the index of a point runs from 0 to ${length - 1}` : '';
    return `The plot shows one time series of ${length} points${several}; ${axes ?? index}${points}.`;
  }
  const blocks =
    numbers.points < length
      ? ` Each of the ${numbers.points} values${count > 1 ? ' of a channel' : ''} is the mean of about ${Math.round(length / numbers.points)} neighbouring points; indices are those of the points.`
      : '';
  return `The numbers below are one time series of ${length} points${several}, in order; their index runs from 0 to ${length - 1}.${blocks}`;
}

/** Asks for one class. */
export const chooseOne = (classes: readonly string[]): string =>
  `Then give one class, spelled as in the list, between <class> and </class>: ${classes.join(', ')}.`;
