/** Tasks of the registry: the source of their data, their meaning, splits and figures. */

import type { Example, Gold } from '../../src/ground/types.ts';
import { anomaly } from '../../src/tasks/anomaly.ts';
import type { TaskPrompt } from '../../src/tasks/kind.ts';
import type { PromptFacts } from '../example-manifest.ts';
import type { Split, SplitSizes } from '../split.ts';

/** A file to download. */
export interface Address {
  readonly url: string;
  /** Hexadecimal SHA-256 that a download must have, where it is known. */
  readonly sha256: string | null;
  /** Address of the owners' list of SHA-256 hashes, in the format of sha256sum, with paths relative to the list. */
  readonly sums?: string;
  /** True for a zip archive to unpack. */
  readonly unpack: boolean;
}

interface BenchmarkSource {
  /** Description of the recordings or of the generator. */
  readonly description: string;
  /** Terms of use as their owners state them. */
  readonly licence: string;
  readonly citation: string | null;
  /** Downloads; empty where there are none, or where the owners must be asked. */
  readonly addresses: readonly Address[];
}

/** Options for opening a task. */
export interface BenchmarkOptions {
  /** Folder (or, for `custom`, file) that holds the data; null for generated ones. */
  readonly directory: string | null;
  /** Most points of an example: longer series are cut. Null: never cut. Undefined: as the task has it. */
  readonly window?: number | null | undefined;
  /** Examples per split; tasks that are generated make as many, others choose among those that there are. */
  readonly counts?: Readonly<Partial<Record<Split, number>>> | undefined;
  readonly seed?: number | undefined;
  /** Points of generated series. */
  readonly length?: number | undefined;
  /** Index of the first generated series of each split; default 0. */
  readonly offset?: number | undefined;
  /** Allows a user's split to have examples of one recording on several sides. Default: false. */
  readonly allowSharedRecordings?: boolean | undefined;
}

/** Assignment of examples to splits. */
export type SplitPlan =
  | {
      /** The split is given with each example. */
      readonly by: 'given';
      readonly statement: string;
      readonly recordingsApart: boolean | null;
      /** Unit by which a validation split may be taken from training, or the reason why it may not. */
      readonly validation: 'example' | 'recording' | { readonly refused: string };
    }
  | {
      /** A seeded split of our own, by recordings or by single examples, stratified by class. */
      readonly by: 'recording' | 'example';
      /** Default sizes; only their proportions count. */
      readonly sizes: SplitSizes;
      /** Statement about the split; it follows a sentence with sizes and seed. */
      readonly statement: string;
      readonly recordingsApart: boolean | null;
    };

/** An example with the split that the data give it; null where they give none. */
export interface Loaded {
  readonly split: Split | null;
  readonly example: Example;
  /** Place where the user named it, for messages. */
  readonly place?: { readonly file: string; readonly line?: number; readonly column?: number };
}

/** User's description of the data; absent fields were not given. */
export interface UserFacts {
  readonly title?: string | undefined;
  readonly licence?: string | undefined;
  readonly citation?: string | undefined;
  readonly rate?: number | undefined;
  readonly figure?: BenchmarkFigure | undefined;
  readonly prompt?: PromptFacts | undefined;
  /** Returns the place of a field, for messages. */
  readonly place: (field: string) => { readonly file: string; readonly line?: number };
}

/** A task whose files were found. */
export interface OpenBenchmark {
  /** Files that `load` reads, in order. */
  readonly files: readonly string[];
  /** Answer kind, where the files decide it. */
  readonly kind?: Gold['kind'];
  /** Classes of the answers in the order of prompts; empty for variates. May be known only after `load`. */
  readonly classes: () => readonly string[];
  readonly plan: SplitPlan;
  /** Options it was opened with, for the manifest. */
  readonly parameters: Readonly<Record<string, unknown>>;
  /** User's description of the data, in place of the task's. */
  readonly own?: UserFacts;
  /** Examples that `load` yields, where that is known before; then counts per split are kept already. */
  readonly total: number | null;
  /** Notes on faults tolerated and parts left out; complete once `load` has finished. */
  readonly notes: () => readonly string[];
  /**
   * All examples, the same in the same order at every call; memory holds one file's record at most.
   * @throws DataError for files that are wrong
   */
  readonly load: () => Iterable<Loaded>;
}

export interface BenchmarkFigure {
  /** Name of a figure preset. */
  readonly preset: string;
  /** Drawing of missing points: the line breaks, or joins their neighbours. */
  readonly missing: 'break' | 'join';
}

/** Words of the prompt; every change needs a new version. */
type BenchmarkPrompt = Omit<TaskPrompt, 'name' | 'kind'>;

/** The prompt of a benchmark of anomalies: they all ask the same. */
export const anomalyPrompt = (context: string): BenchmarkPrompt => ({
  version: 1,
  context,
  question: anomaly.question,
  hints: anomaly.hints,
  advice: null,
});

/** Generator of any series of a benchmark by its address. */
export interface Generator {
  /** Points of an example unless asked otherwise, and the least that make one. */
  readonly length: number;
  readonly minimumLength: number;
  /** Numbers of the generator, for the record. */
  readonly parameters: Readonly<Record<string, unknown>>;
  readonly at: (seed: number, split: Split, index: number, length: number) => Example;
}

export interface Benchmark {
  /** Name on the command line. */
  readonly name: string;
  /** Title for people. */
  readonly title: string;
  readonly kind: Gold['kind'];
  readonly source: BenchmarkSource;
  /** Classes in the order of prompts; null where the data decide. Empty for variates. */
  readonly classes: readonly string[] | null;
  /** Samples per second; null where there is no one rate. */
  readonly rate: number | null;
  /** Points per example and channels as the benchmark has them, in words. */
  readonly shape: string;
  readonly figure: BenchmarkFigure;
  /** Preset in which a small policy is shown several channels; absent: that of the kind of answer. */
  readonly nanoFigure?: string;
  /** Limitations of policies trained on it from random weights, one sentence each; they go into the card. */
  readonly limitations?: readonly string[];
  /** Words of the prompt; null where those of the family (the name before '/') or of the user hold. */
  readonly prompt: BenchmarkPrompt | null;
  /** Null where examples are read from files. */
  readonly generator: Generator | null;
  /** Requirement for preparing it: nothing, an automatic download, or files of the user. */
  readonly needs: 'nothing' | 'download' | 'files';
  /** Files that are read, in words, for messages and help. */
  readonly layout: string;
  /**
   * Finds the files and looks at what is needed to say what will come.
   * @throws DataError for files that are missing; ConfigError for an option out of range or that it does not have
   */
  open(options: BenchmarkOptions): OpenBenchmark;
}
