/** What a classical baseline is: it learns or chooses on training and validation examples, then answers from values alone. */

import type { Example, Gold } from '../src/ground/types.ts';
import type { Unlabelled } from '../src/tasks/kind.ts';

/** What a baseline may look at before it answers. Held-out examples are not among it. */
export interface BaselineData {
  readonly kind: Gold['kind'];
  /** Null where there are none. */
  readonly training: Iterable<Example> | null;
  /** What thresholds are chosen on; empty where there are none. */
  readonly validation: readonly Example[];
  /** Of everything that is drawn at random. */
  readonly seed: number;
  /** Threads; default one per core. */
  readonly threads?: number | undefined;
  /** Stops preparing and answering with its reason. */
  readonly signal?: AbortSignal | undefined;
  /** Told while it prepares: what is done, and how much of it, in [0, 1]. */
  readonly onProgress?: ((step: string, share: number) => void) | undefined;
}

/** A baseline that is ready to answer. */
export interface PreparedBaseline {
  /** What was learned or chosen, and on what: threshold, window, penalty. */
  readonly settings: Readonly<Record<string, string | number>>;
  /** The answer, or why there is none. Several may be asked for at once. */
  answer(series: Unlabelled): Promise<Gold | string>;
  /** How anomalous each sample of one channel is, higher is more; of detectors that have such scores. */
  readonly scores?: (values: Float64Array) => Float64Array;
  /** Answers that may usefully be asked for at once. */
  readonly parallel: number;
  /** Ends its threads. */
  close(): Promise<void>;
}

export interface Baseline {
  /** Kinds of answers that it gives. */
  readonly kinds: readonly Gold['kind'][];
  /** What it is, in a line. */
  readonly about: string;
  /** @throws DataError or ConfigError where nothing can be learned from what it is given */
  prepare(data: BaselineData): Promise<PreparedBaseline>;
}
