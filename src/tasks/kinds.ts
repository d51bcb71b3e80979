/** The kinds of answers, and what is done with an answer of any kind. */
import type { RewardOptions } from '../../rewards/reward.ts';
import type { ClassProfile } from '../expcot/class-profile.ts';
import type { NanoOptions } from '../expcot/nano.ts';
import { ConfigError, DataError } from '../ground/errors.ts';
import { checkFields, type Place, show, stringField } from '../ground/json-record.ts';
import type {
  AnomalyClass,
  ClassificationGold,
  Example,
  Gold,
  Interval,
  ParsedAnswer,
  Score,
} from '../ground/types.ts';
import { anomaly } from './anomaly.ts';
import { classification } from './classification.ts';
import type { Metric } from './evaluation.ts';
import type {
  Agreement,
  Asked,
  Expert,
  ExpertTrace,
  Labelled,
  PromptRequest,
  TaskKind,
  Unlabelled,
} from './kind.ts';
import { question } from './question.ts';
import { RESERVED } from './response.ts';
import { variates } from './variates.ts';

/** Kinds by name. Adding one takes its file in this folder and a line here. */
export const KINDS: { readonly [K in Gold['kind']]: TaskKind<Extract<Gold, { kind: K }>> } = {
  anomaly,
  classification,
  variates,
  question,
};

/** Names of the kinds. */
export const KIND_NAMES = Object.keys(KINDS) as [Gold['kind'], ...Gold['kind'][]];

/** A kind by its name. What it is handed must be of this kind. */
export const taskKind = (name: Gold['kind']): TaskKind => KINDS[name];

/** A metric of a kind by its name, the further ones included. */
export function metricNamed(kind: Gold['kind'], name: string): Metric {
  const { metrics, details } = taskKind(kind).evaluation;
  return (metrics[name] ?? details[name])!;
}

/** Returns true if responses choose a class. */
export const choosesClass = (kind: Gold['kind']): boolean => taskKind(kind).classes.length > 0;

/** Returns true if a response of this kind may choose a class. */
export function mayChoose(kind: Gold['kind'], name: string): boolean {
  const { classes } = taskKind(kind);
  return classes === 'data' || classes.length === 0 || classes.includes(name);
}

/** The gold answer of a file. @throws DataError naming the field */
export function readGold(value: unknown, at: Place): Gold {
  const kind = (value as { kind?: unknown } | null)?.kind as Gold['kind'];
  if (!Object.hasOwn(KINDS, kind)) {
    const kinds = KIND_NAMES.join(', ');
    throw new DataError(`gold: got ${show(value)}, expected an object whose kind is one of ${kinds}`, at);
  }
  const { fields, optional = [], read } = taskKind(kind);
  const record = checkFields(value, fields, at, 'gold', [...optional, 'thought']);
  const { thought } = record;
  if (thought === undefined) return read(record, at);
  const gold = { ...read(record, at), thought: thought === null ? null : stringField(record, 'thought', at) };
  if (gold.thought !== null) checkThought(gold.thought, at);
  return gold;
}

/** Characters of a thought. */
const LONGEST_THOUGHT = 20_000;
/** Control character other than tab and line break: left by a damaged file, and no text that a policy should learn. */
const CONTROL = /[^\P{Cc}\t\n\r]/u;

/** @throws DataError for a text that cannot stand between think tags: blank, too long, or with control characters, tags or special tokens */
export function checkThought(text: string, at: Place = {}): void {
  const fail = (what: string): DataError => new DataError(`thought: ${what}`, at);
  if (text.trim() === '') throw fail('blank; leave it out where there is none');
  if (text.length > LONGEST_THOUGHT)
    throw fail(`${text.length} characters; expected at most ${LONGEST_THOUGHT}`);
  const control = CONTROL.exec(text);
  if (control !== null) {
    const code = control[0].charCodeAt(0).toString(16).toUpperCase().padStart(4, '0');
    throw fail(`holds the control character U+${code} at character ${control.index + 1}; remove it`);
  }
  const token = RESERVED.exec(text)?.[0];
  if (token === undefined) return;
  throw fail(
    `holds ${show(token)}, a tag of the answer or a special token; give the text between the think tags alone`,
  );
}

/** The question that an example asks beside its task, and the classes that it brings; none for most. */
export function ownQuestion(gold: Gold): Pick<PromptRequest, 'question' | 'among'> {
  const kind = taskKind(gold.kind);
  const [question, among] = [kind.asks?.(gold), kind.among?.(gold)];
  return { ...(question === undefined ? {} : { question }), ...(among === undefined ? {} : { among }) };
}

/** Trace of the thought that the data state; null where they state none. */
export function statedTrace(gold: Gold): ExpertTrace | null {
  const think = gold.thought?.trim() ?? null;
  return think === null ? null : { text: goldResponse(gold, think), think, answer: gold };
}

/** The gold answer as a whole response. */
export function goldResponse(gold: Gold, think: string): string {
  return `<think>${think}</think>${taskKind(gold.kind).parts(gold, true)}`;
}

/** The class that an example is counted under: of variates, how many are anomalous. */
export const labelOf = (gold: Gold): string => taskKind(gold.kind).label(gold);

/** The gold answer as the parts of a response after the reasoning; a part that the data do not say is left out. */
export const goldParts = (gold: Gold): string => taskKind(gold.kind).parts(gold, false);

/** Strict parsing, for texts that timeseer wrote itself. */
export const EXACT_WORDS = { classes: [], reading: 'strict' } as const satisfies Partial<Asked>;

/**
 * Parses any text as a response. Without requested reasoning the form lacks that part: a response that
 * reasons is read, but not well formed. @throws DataError for an impossible shape
 */
export function parseResponse(response: string, asked: Asked): ParsedAnswer {
  const { parse } = taskKind(asked.kind);
  if (asked.reasoning !== false) return parse(response, asked);
  if (/<\/?think>/i.test(response)) {
    const read = parse(response, asked);
    return { ...read, wellFormed: false, problem: read.problem ?? 'reasoning was not asked for' };
  }
  return { ...parse(`<think>none</think>${response}`, asked), think: null };
}

/**
 * Computes the reward of an answer by the kind of its gold answer. `length`: points of the series; `options`:
 * reward in reinforcement, absent in evaluation; `judged`: score of the extension, null without one.
 */
export function scoreAnswer(
  answer: ParsedAnswer,
  gold: Gold,
  length: number,
  options?: RewardOptions,
  judged: number | null = null,
): Score {
  return taskKind(gold.kind).reward.score(answer, gold, length, options, judged);
}

/**
 * Share in [0, 1] of the points that an answer's intervals cover, or of the channels that it names; null if
 * it marks neither.
 */
export function markedShare(
  { intervals, variates = null }: Pick<ParsedAnswer, 'intervals' | 'variates'>,
  shape: { readonly length: number; readonly channels: number },
): number | null {
  if (variates !== null) return variates.length / shape.channels;
  if (intervals === null) return null;
  return intervals.reduce((sum, [start, end]) => sum + end - start, 0) / shape.length;
}

/** The expert on a series, for answers of this kind; it never looks at an answer. @throws as `TaskKind.expert` */
export function expertOn(series: Unlabelled, kind: Gold['kind'], profile: ClassProfile | null): Expert {
  return taskKind(kind).expert(series, profile);
}

/** The blind trace: of an answer of this kind, from values alone. @throws as `TaskKind.expert` */
export function blindTrace(
  series: Unlabelled,
  kind: Gold['kind'],
  profile: ClassProfile | null,
): ExpertTrace {
  return expertOn(series, kind, profile).blind();
}

/** The trace that concludes the gold answer: the thought of the data, or else the expert's. @throws as `TaskKind.expert` and `Expert.teacher` */
export function teacherTrace(example: Labelled, profile: ClassProfile | null): ExpertTrace {
  const { gold } = example;
  return statedTrace(gold) ?? expertOn(example, gold.kind, profile).teacher(gold);
}

/** The short target of a training example, or the thought of the data. @throws as `TaskKind.nanoTrace` */
export function nanoTrace(
  example: Labelled,
  profile: ClassProfile | null,
  options: NanoOptions = {},
): string {
  const { gold } = example;
  return statedTrace(gold)?.text ?? taskKind(gold.kind).nanoTrace(example, gold, profile, options);
}

/** Reasoning in a style that is the same for every series of a kind; no answer follows it. */
export function genericTrace(kind: Gold['kind'], style: 'nano' | 'full'): string {
  return `<think>${taskKind(kind).generic[style]}</think>`;
}

/** Compares answers of one kind. @throws ConfigError for answers of different kinds */
export function agreement(answer: Gold, gold: Gold): Agreement {
  if (answer.kind === gold.kind) return taskKind(gold.kind).agreement(answer, gold);
  throw new ConfigError(`an answer of kind ${answer.kind} beside one of kind ${gold.kind}`);
}

/** Accuracy of the blind expert on a split. */
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

  /** Adds an answer by its agreement; null if the expert had none, which counts as wrong. */
  add(own: Agreement | null, gold: Gold): void {
    this.#count++;
    const kind = taskKind(gold.kind);
    const name = kind.className(gold);
    if (name !== null) {
      this.#graded++;
      if (own?.class === true) this.#right++;
      this.#classes.set(name, (this.#classes.get(name) ?? 0) + 1);
    }
    if (kind.measuresF1) {
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

/** Scores blind traces. @throws ConfigError for no examples, and as `blindTrace` */
export function scoreBlind(examples: Iterable<Example>, profile: ClassProfile | null): BlindScore {
  const tally = new BlindTally();
  for (const example of examples) {
    const { gold } = example;
    tally.add(agreement(blindTrace(example, gold.kind, profile).answer, gold), gold);
  }
  return tally.score();
}

/** Fields of the gold answer by kind, where some may be left out; null counts as absent. Other kinds: all fields. */
interface GoldPartsOf {
  readonly classification: Omit<ClassificationGold, 'kind' | 'thought'>;
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
  };
}

/** Schema of one kind, or of any; with a thought (expert reasoning towards the gold answer, the SFT target) where there is one. */
export type GoldParts<K extends Gold['kind'] = Gold['kind']> = (K extends keyof GoldPartsOf
  ? GoldPartsOf[K]
  : Omit<Extract<Gold, { kind: K }>, 'kind'>) & { readonly thought?: string | null };

/**
 * Builds the gold answer of a kind from its parts, without comparing it with a series. @throws DataError
 * naming the part that is missing or wrong
 */
export function goldFrom<K extends Gold['kind']>(kind: K, parts: GoldParts<K>, at: Place = {}): Gold {
  const given = parts as Readonly<Record<string, unknown>>;
  const { fields, optional = [], fieldsFrom } = taskKind(kind);
  const named = fieldsFrom?.(given, at) ?? given;
  const entries = fields.filter((field) => field !== 'kind').map((field) => [field, named[field]]);
  for (const field of optional) if (named[field] !== undefined) entries.push([field, named[field]]);
  const { thought = null } = given;
  return readGold({ kind, ...Object.fromEntries(entries), ...(thought === null ? {} : { thought }) }, at);
}
