/** What a report is made of: plain JSON-able records, so that it can be rebuilt from the files of a run. */
import type { Estimate, Gold, ParsedAnswer, Score } from '../src/types.ts';
import type { MetricName, Metrics } from './metrics.ts';

export type Json = string | number | boolean | null | readonly Json[] | { readonly [key: string]: Json };

/** What was run. */
export interface ReportRun {
  readonly name: string;
  /** The command line, as the user typed it. */
  readonly command: string;
  readonly recipe: string;
  /** The resolved recipe, YAML or JSON text. */
  readonly recipeText: string;
  /** When the run ended, ISO 8601. */
  readonly finished: string;
  readonly policy: {
    readonly name: string;
    /** Null when no checkpoint of the run is left to count. */
    readonly parameters: number | null;
    readonly description: string;
  };
  /** Name of the reinforcement method; TimerPO when absent. */
  readonly method?: string;
  readonly seeds: Readonly<Record<string, number>>;
  /** Wall-clock seconds of each stage, in order. */
  readonly seconds: Readonly<Record<string, number>>;
  /** Supervised samples and TimerPO steps; 0 where a stage was skipped. */
  readonly samples: number;
  readonly steps: number;
  readonly trainingData: string;
  readonly heldOutData: string;
  /** Temperature of the sampled responses; absent of pages that were made before it was told. */
  readonly temperature?: number;
}

/** One column of the results: a policy at one point of its training, or a classical detector. */
export interface ReportStage {
  /** Short and unique: `before`, `sft`, `rl`, `classical`. */
  readonly key: string;
  /** Head of the column: `After SFT`. */
  readonly label: string;
  readonly kind: 'policy' | 'detector';
  /** Of greedy responses. */
  readonly metrics: Metrics;
  /** Mean reward of sampled responses; null where nothing is sampled. */
  readonly rewardSampled: Estimate | null;
}

/** A mean that a stage is required to reach. */
export interface ReportFloor {
  readonly stage: string;
  readonly metric: MetricName;
  readonly atLeast: number;
}

/** A paired change between two stages over the same series. */
export interface ReportGain {
  readonly label: string;
  readonly estimate: Estimate;
  /** The lower end of the interval is required to lie above this; null: nothing is required. */
  readonly lowerAbove: number | null;
}

/** One line of a training curve; `null` marks a step without a value. */
export interface Curve {
  readonly name: string;
  readonly x: readonly number[];
  readonly y: readonly (number | null)[];
}

export interface CurvePanel {
  readonly title: string;
  /** One line: what is drawn, and in which direction it should go. */
  readonly definition: string;
  readonly xLabel: string;
  readonly curves: readonly Curve[];
  /** Width in steps of a centred moving mean, drawn over the faint raw curve; absent or 1: none. */
  readonly smooth?: number;
  /** Logarithmic vertical axis. */
  readonly log?: boolean;
}

/** A held-out series with what was said about it. */
export interface ReportExample {
  readonly seriesId: string;
  readonly length: number;
  readonly gold: Gold;
  /** Names of the channels; absent where there is one. */
  readonly channels?: readonly string[];
  /**
   * SVG of the series with its true and predicted intervals, one for each channel (of many the first); checked to be passive
   * before it is inlined. None where what the policy saw says it all.
   */
  readonly figure: string | readonly string[];
  /** data:image/png;base64 of exactly what the policy saw; optional. */
  readonly seen?: string;
  /** Whether that is a whole figure, with axes or panels, to be shown in its own size; absent: a bare strip. */
  readonly seenWhole?: boolean;
  /** Who answered: `After TimerPO, greedy`. */
  readonly by: string;
  /** Why this series is shown: `first of its class`. */
  readonly chosen?: string;
  /** Verbatim. */
  readonly response: string;
  readonly answer: ParsedAnswer;
  readonly score: Score;
  /** The expert trace of the same series. */
  readonly expcot: string;
  /** Head of the trace; `ExpCoT of the same series` when absent. */
  readonly expcotLabel?: string;
}

/** Results on further tasks, or of further answerers, without requirements. */
export interface ReportTransfer {
  readonly title: string;
  readonly note: string;
  /** Head of the first column; `Task` when absent. */
  readonly head?: string;
  /** Columns after the number of series; format, what the kind of answer is summed up by, and reward when absent. */
  readonly columns?: readonly MetricName[];
  /** One row each, in this order. */
  readonly metrics: Pick<Metrics, 'kind' | 'byTask'>;
  /** Share of series without an anomaly by row, shown beside it: what always answering "normal" scores. */
  readonly normalShare?: Readonly<Record<string, number>>;
  /** Rows of detectors, which write no text: nothing stands in their columns about it. */
  readonly detectors?: readonly string[];
}

export interface ReportInput {
  readonly title: string;
  readonly run: ReportRun;
  readonly stages: readonly ReportStage[];
  readonly floors: readonly ReportFloor[];
  readonly gains: readonly ReportGain[];
  readonly curves: readonly CurvePanel[];
  readonly examples: readonly ReportExample[];
  /** How the examples were chosen. */
  readonly exampleRule?: string;
  readonly transfer?: readonly ReportTransfer[];
  readonly environment: Readonly<Record<string, Json>>;
  /** Shell commands that repeat the run. */
  readonly reproduce: readonly string[];
  /** What a reader must know before believing the numbers. */
  readonly caveats: readonly string[];
}
