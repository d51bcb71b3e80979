/** From a response to its score, for every kind of task: what training and evaluation both go through. */
import type { Gold, ParsedAnswer, Score } from '../src/types.ts';
import { parseAnswer, parseClassification, parseVariates, type Reading } from './answer.ts';
import { anomalyReward, classificationReward, variatesReward } from './combine.ts';

export type RewardName = 'anomseer' | 'timemaster' | 'variates';

/** The reward that grades each kind of task, by name. */
export const REWARD_OF: Readonly<Record<Gold['kind'], RewardName>> = {
  anomaly: 'anomseer',
  classification: 'timemaster',
  variates: 'variates',
};

/** Names of the parts that scores of each kind may have; one without a named class has no such part. */
export const PARTS_OF: Readonly<Record<Gold['kind'], readonly string[]>> = {
  anomaly: ['class', 'format', 'localisation'],
  classification: ['accuracy', 'format'],
  variates: ['f1', 'format'],
};

/** What a response was asked for; nothing here depends on the right answer. */
export interface Asked {
  readonly kind: Gold['kind'];
  /** Points of the series, N. */
  readonly length: number;
  /** Channels of the series, C. */
  readonly channels: number;
  /** Classes to choose from, which a lenient reading recognises in any case and white space; of classification alone. */
  readonly classes: readonly string[];
  /** How much is overlooked; default lenient, as in the papers' releases. */
  readonly reading?: Reading;
  /** Whether an extension was asked for, which classification alone can be; default false. */
  readonly extension?: boolean;
}

/** For texts of our own, which nothing has to be overlooked in. */
export const EXACT_WORDS = { classes: [], reading: 'strict' } as const satisfies Partial<Asked>;

/**
 * What a response says. Any text is read: its faults stand in `problem`.
 *
 * @throws DataError when the length (of an anomaly task) or the number of channels (of variates) is not a positive integer.
 */
export function parseResponse(response: string, asked: Asked): ParsedAnswer {
  const { kind, length, channels, classes, reading = 'lenient', extension = false } = asked;
  switch (kind) {
    case 'anomaly':
      return parseAnswer(response, length, reading);
    case 'classification':
      return parseClassification(response, { extension, classes, reading });
    case 'variates':
      return parseVariates(response, channels, reading);
  }
}

/**
 * Formula: the reward that `REWARD_OF` names for the kind of the gold answer: `anomalyReward`, `classificationReward`
 * without a judge, `variatesReward`.
 * Range: [0, 1]. Edge cases: a part that the answer lacks, or that its kind does not have, earns nothing.
 * Example: `<think>t</think><answer>[2, 7]</answer>` where variate 7 alone is anomalous → .9 · .6667 + .1 = .7.
 *
 * @param answer of `parseResponse` for the same kind
 * @param length points of the series
 * @throws DataError when the gold answer is none of a series of `length` points
 */
export function scoreAnswer(answer: ParsedAnswer, gold: Gold, length: number): Score {
  switch (gold.kind) {
    case 'anomaly':
      return anomalyReward(answer, gold, length);
    case 'classification':
      return classificationReward(answer, gold.class);
    case 'variates':
      return variatesReward(answer, gold.variates);
  }
}
