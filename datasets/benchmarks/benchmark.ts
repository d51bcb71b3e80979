/** Tasks of the registry: the source of their data, their meaning, splits and figures. */

import type { Example, Gold } from '../../src/ground/types.ts';
import { anomaly } from '../../src/tasks/anomaly.ts';
import type { TaskPrompt } from '../../src/tasks/kind.ts';
import type { PromptFacts } from '../example-manifest.ts';
import type { Split, SplitSizes } from '../split.ts';

export interface Address {
  readonly url: string;
  /** Hexadecimal SHA-256 that a download must have, where it is known. */
  readonly sha256: string | null;
  /** Address of the owners' list of SHA-256 hashes (sha256sum format, paths relative to the list). */
  readonly sums?: string;
  /** True for a zip archive to unpack. */
  readonly unpack: boolean;
}

interface BenchmarkSource {
  readonly description: string;
  readonly licence: string;
  readonly citation: string | null;
  /** Downloads; empty where there are none, or where the owners must be asked. */
  readonly addresses: readonly Address[];
}

export interface BenchmarkOptions {
  /** Folder (or, for `custom`, file) that holds the data; null for generated ones. */
  readonly directory: string | null;
  /** Maximum points of an example; longer series are cut, null: never. Default: the task's window. */
  readonly window?: number | null | undefined;
  /** Examples per split: made by generated tasks, selected by others. */
  readonly counts?: Readonly<Partial<Record<Split, number>>> | undefined;
  readonly seed?: number | undefined;
  readonly length?: number | undefined;
  /** Index of the first generated series of each split; default 0. */
  readonly offset?: number | undefined;
  /** Allows a user's split to have examples of one recording on several sides. Default: false. */
  readonly allowSharedRecordings?: boolean | undefined;
}

export type SplitPlan =
  | {
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

/** An example with its split; null where the data give none. */
export interface Loaded {
  readonly split: Split | null;
  readonly example: Example;
  /** Place in the user's files, for messages. */
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
  readonly place: (field: string) => { readonly file: string; readonly line?: number };
}

export interface OpenBenchmark {
  /** Files that `load` reads, in order. */
  readonly files: readonly string[];
  /** Answer kind, where the files decide it. */
  readonly kind?: Gold['kind'];
  /** Classes of the answers in the order of prompts; empty for variates. May be known only after `load`. */
  readonly classes: () => readonly string[];
  readonly plan: SplitPlan;
  /** Options to record in the manifest. */
  readonly parameters: Readonly<Record<string, unknown>>;
  /** User's description of the data, in place of the task's. */
  readonly own?: UserFacts;
  /** Number of generated examples: counts per split are applied already. Absent where files are read. */
  readonly total?: number;
  /** Tolerated faults and parts left out; complete once `load` has finished. Default: none. */
  readonly notes?: () => readonly string[];
  /**
   * All examples, the same in the same order at every call; memory holds one file's record at most.
   * @throws DataError for files that are wrong
   */
  readonly load: () => Iterable<Loaded>;
}

export interface BenchmarkFigure {
  readonly preset: string;
  /** Missing points: the line breaks, or joins their neighbours. */
  readonly missing: 'break' | 'join';
}

/** Text of a prompt; every change needs a new version. */
type BenchmarkPrompt = Omit<TaskPrompt, 'name' | 'kind'>;

/** Prompt of an anomaly benchmark; only the context differs between them. */
export const anomalyPrompt = (context: string): BenchmarkPrompt => ({
  version: 1,
  context,
  question: anomaly.question,
  hints: anomaly.hints,
  advice: null,
});

export interface Generator {
  /** Default and minimum points of an example. */
  readonly length: number;
  readonly minimumLength: number;
  /** Settings of the generator, for the record. */
  readonly parameters: Readonly<Record<string, unknown>>;
  readonly at: (seed: number, split: Split, index: number, length: number) => Example;
}

export interface Benchmark {
  readonly name: string;
  readonly title: string;
  readonly kind: Gold['kind'];
  readonly source: BenchmarkSource;
  /** Classes in the order of prompts; null where the data decide. Empty for variates. */
  readonly classes: readonly string[] | null;
  /** Samples per second; null where there is no single rate. */
  readonly rate: number | null;
  /** Points per example and number of channels, in words. */
  readonly shape: string;
  readonly figure: BenchmarkFigure;
  /** Preset in which a small policy sees several channels. Default: that of the answer kind. */
  readonly nanoFigure?: string;
  /** Limitations of policies trained on it from random weights, one sentence each; part of the model card. */
  readonly limitations?: readonly string[];
  /** Text of the prompt; null where the family's (the name before '/') or the user's applies. */
  readonly prompt: BenchmarkPrompt | null;
  /** Absent where examples are read from files. */
  readonly generator?: Generator;
  /** Requirement for preparing it: nothing, an automatic download, or files of the user. */
  readonly needs: 'nothing' | 'download' | 'files';
  /** Required files, in words, for messages and help. */
  readonly layout: string;
  /**
   * Finds the files and looks at what is needed to say what will come.
   * @throws DataError for files that are missing; ConfigError for an option out of range or that it does not have
   */
  open(options: BenchmarkOptions): OpenBenchmark;
}
