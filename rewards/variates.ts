/** The reward on anomalous variates: how the set that an answer names agrees with the right one, and the form of the response. */
import { DataError } from '../src/ground/errors.ts';
import type { ParsedAnswer, Score, VariatesGold } from '../src/ground/types.ts';
import { formatReward, type Reward } from './reward.ts';

/** Metrics over sets of variates of one series, each in [0, 1]. */
interface VariateMetrics {
  readonly precision: number;
  readonly recall: number;
  readonly f1: number;
  /** 1 when the sets are equal, otherwise 0. */
  readonly exact: number;
}

const NONE: VariateMetrics = { precision: 0, recall: 0, f1: 0, exact: 0 };
const ALL: VariateMetrics = { precision: 1, recall: 1, f1: 1, exact: 1 };

/**
 * Formula: over sets of ids, precision = |P ∩ G| / |P|, recall = |P ∩ G| / |G|, F1 = 2 |P ∩ G| / (|P| + |G|),
 * exact = [P = G].
 * Range: [0, 1] each, exact {0, 1}. Edge cases: order and duplicates do not matter; nothing named and nothing anomalous:
 * all 1; only one of the two, or an answer that could not be read (null): all 0.
 * Example: named {1, 2, 7}, anomalous {2, 7, 8, 11} → precision .6667, recall .5, F1 .5714, exact 0; the other way round,
 * precision .5, recall .6667.
 * Source: VisualTimeAnomaly asks for the ids of the anomalous variates; it passes over unreadable answers, which count here,
 * as 0. Metrics over sets as usual in retrieval.
 * @throws DataError when a gold id is not an integer ≥ 0.
 */
export function variateMetrics(predicted: readonly number[] | null, gold: readonly number[]): VariateMetrics {
  const odd = gold.find((id) => !Number.isInteger(id) || id < 0);
  if (odd !== undefined) {
    throw new DataError(`gold variate ${odd} is not an integer from 0 on: correct the data set`);
  }
  if (predicted === null) return NONE;
  const named = new Set(predicted);
  const truth = new Set(gold);
  if (named.size === 0 && truth.size === 0) return ALL;
  let shared = 0;
  for (const id of named) if (truth.has(id)) shared++;
  if (shared === 0) return NONE;
  return {
    precision: shared / named.size,
    recall: shared / truth.size,
    f1: (2 * shared) / (named.size + truth.size),
    exact: shared === named.size && shared === truth.size ? 1 : 0,
  };
}

/** Weights of the reward on variates; they sum to 1. */
const VARIATES_WEIGHTS = { f1: 0.9, format: 0.1 } as const;

/**
 * Formula: 0.9 · F1 + 0.1 · format, F1 over the sets of variates as in `variateMetrics`.
 * Range: [0, 1]; parts `f1`, `format`, each in [0, 1].
 * Edge cases: none named where none is anomalous earns the full F1; an unreadable list, or none named where some are
 * anomalous, earns 0 for it.
 * Example: named {1, 2, 7}, anomalous {2, 7, 8, 11}, well formed → .9 · .5714 + .1 = .61429.
 * Source: VisualTimeAnomaly asks for the ids; the reward is ours, its weights in line with TimeMaster's 0.9 and 0.1.
 * @throws DataError when a gold id is not an integer ≥ 0.
 */
export function variatesReward(answer: ParsedAnswer, gold: readonly number[]): Score {
  const { f1 } = variateMetrics(answer.variates ?? null, gold);
  const format = formatReward(answer);
  return { total: VARIATES_WEIGHTS.f1 * f1 + VARIATES_WEIGHTS.format * format, parts: { f1, format } };
}

export const variates: Reward<VariatesGold> = {
  name: 'variates',
  weights: VARIATES_WEIGHTS,
  score: (answer, gold) => variatesReward(answer, gold.variates),
};
