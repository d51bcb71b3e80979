/** Every classical baseline by its name. */

import { setImmediate as breathe } from 'node:timers/promises';
import { EXPCOT_BLIND } from '../src/expcot/anomaly.ts';
import { ConfigError, DataError, suggestion } from '../src/ground/errors.ts';
import type { Gold } from '../src/ground/types.ts';
import { DETECTORS } from '../src/series/detectors.ts';
import type { Unlabelled } from '../src/tasks/kind.ts';
import { KIND_NAMES, taskKind } from '../src/tasks/kinds.ts';
import type { Baseline, BaselineData, PreparedBaseline } from './baseline.ts';
import {
  type Answerer,
  baselineRecord,
  classifiers,
  detectorsFor,
  guessers,
  isPlain,
  sampleTraining,
  type TrainingSample,
} from './baselines.ts';
import { miniRocketClassifier, warpingClassifier } from './classifiers.ts';
import {
  answerAbove,
  comparable,
  POINT_SCORES,
  type PointScore,
  THRESHOLDS,
} from './point-score-baselines.ts';

const at = (answer: Answerer, settings: PreparedBaseline['settings'] = {}): PreparedBaseline => ({
  settings,
  answer: async (series) => answer(series),
  parallel: 1,
  close: async () => {},
});

const NOT_PLAIN = 'has several channels or missing points; this baseline reads one whole channel';

/** What an analysis says against a series is why there is no answer. */
function orWhy(answer: () => Gold): Gold | string {
  try {
    return answer();
  } catch (error) {
    if (error instanceof DataError) return error.message;
    throw error;
  }
}

async function sampleOf({ training, seed }: BaselineData): Promise<TrainingSample> {
  const sample = training === null ? null : await sampleTraining(training, seed);
  if (sample !== null && sample.count > 0) return sample;
  throw new DataError('baselines: classifiers learn from training examples; give some');
}

/** The threshold of the highest mean reward on validation examples, the default or else the lowest of equals. */
async function chooseThreshold(
  name: string,
  score: PointScore,
  { validation, signal, onProgress }: BaselineData,
): Promise<PreparedBaseline['settings'] & { readonly threshold: number }> {
  const plain = validation.filter(isPlain);
  if (plain.length === 0)
    return { threshold: score.threshold, chosen: `published default (${score.source})` };
  const thresholds = [...new Set([score.threshold, ...THRESHOLDS])];
  const rewards = new Float64Array(thresholds.length);
  for (const [k, example] of plain.entries()) {
    const scores = comparable(score, example.channels[0]!);
    for (const [t, threshold] of thresholds.entries()) {
      rewards[t]! +=
        baselineRecord(example, answerAbove(score, scores, threshold)).score.total / plain.length;
    }
    onProgress?.(`threshold of ${name}`, (k + 1) / plain.length);
    await breathe();
    signal?.throwIfAborted();
  }
  const best = rewards.indexOf(Math.max(...rewards));
  return {
    threshold: thresholds[best]!,
    chosen: `highest mean reward on ${plain.length} validation examples`,
    reward: rewards[best]!,
  };
}

function pointScoreBaseline(name: string, score: PointScore): Baseline {
  return {
    kinds: ['anomaly'],
    about: score.about,
    async prepare(data) {
      const settings = await chooseThreshold(name, score, data);
      const answer = (series: Unlabelled): Gold | string =>
        isPlain(series)
          ? orWhy(() => answerAbove(score, comparable(score, series.channels[0]!), settings.threshold))
          : NOT_PLAIN;
      return { ...at(answer, settings), scores: score.scores };
    },
  };
}

const ABOUT_DETECTORS: Readonly<Record<string, string>> = {
  zscore: 'samples more than 3σ from the mean, at that fixed threshold',
  'clipped-zscore': 'the same with moments that outliers do not move, and runs joined',
  iqr: 'samples more than 3 interquartile ranges outside the quartiles (Tukey)',
  gradient: 'stretches whose smoothed slope is beyond 3σ',
  'sliding-period': 'windows whose dominant period is beyond 3σ',
  discord: 'the strongest discord of the matrix profile (window 50), where its z-score exceeds 3.5',
  discords: 'every region unlike the rest, where the strongest discord exceeds 3.5',
};

/** The detectors of AnomSeer's analyses, at fixed thresholds. */
const fixed = Object.keys(DETECTORS).map((name): [string, Baseline] => [
  name,
  {
    kinds: ['anomaly'],
    about: ABOUT_DETECTORS[name] ?? name,
    async prepare() {
      const read = detectorsFor('anomaly', []).get(name)!;
      return {
        ...at((series) => (isPlain(series) ? read(series) : NOT_PLAIN), { chosen: 'fixed' }),
        scores: (values) => DETECTORS[name]!(values).score,
      };
    },
  },
]);

/** One of the classifiers that learn in no time. */
const quick = (name: string, about: string): [string, Baseline] => [
  name,
  {
    kinds: ['classification'],
    about,
    async prepare(data) {
      const found = classifiers(await sampleOf(data)).get(name);
      if (found === undefined) throw new DataError(`${name}: needs training examples of one length`);
      return at(found);
    },
  },
];

/**
 * All of them. Detectors whose threshold is chosen choose it on validation examples by mean reward; the window of time warping and the
 * penalty of ridge are chosen on the training split by leave-one-out. Nothing is chosen on what is answered.
 */
export const BASELINES: ReadonlyMap<string, Baseline> = new Map<string, Baseline>([
  [
    EXPCOT_BLIND,
    {
      kinds: KIND_NAMES.filter((name) => !taskKind(name).readsWords),
      about: "the expert's analyses read without the answer",
      async prepare(data) {
        if (taskKind(data.kind).learnsClasses)
          return at(classifiers(await sampleOf(data)).get(EXPCOT_BLIND)!);
        const blind = detectorsFor(data.kind, []).get(EXPCOT_BLIND);
        const any = detectorsFor(data.kind, [{ channels: [], names: [] }]).get(EXPCOT_BLIND)!;
        return at((series) => (blind !== undefined && isPlain(series) ? blind(series) : any(series)));
      },
    },
  ],
  quick('1nn-euclid', 'the class of the nearest training example, each channel standardised (1NN-ED)'),
  [
    '1nn-dtw',
    {
      kinds: ['classification'],
      about: 'the nearest by dynamic time warping, window learned by leave-one-out as in the UCR archive',
      prepare: async (data) => warpingClassifier((await sampleOf(data)).examples, 'learned', data),
    },
  ],
  [
    '1nn-dtw-full',
    {
      kinds: ['classification'],
      about: 'the same with an unlimited window',
      prepare: async (data) => warpingClassifier((await sampleOf(data)).examples, 'full', data),
    },
  ],
  [
    'minirocket',
    {
      kinds: ['classification'],
      about: 'ridge on 9996 features of MiniRocket (Dempster et al. 2021)',
      prepare: async (data) => miniRocketClassifier((await sampleOf(data)).examples, data),
    },
  ],
  [
    'majority',
    {
      kinds: ['classification', 'question'],
      about: 'the most frequent class of the training examples, or the most frequent answer',
      async prepare(data) {
        const sample = await sampleOf(data);
        const found = taskKind(data.kind).readsWords
          ? guessers(data.kind, sample.examples)
          : classifiers(sample);
        return at(found.get('majority')!);
      },
    },
  ],
  [
    'first-option',
    {
      kinds: ['question'],
      about: 'the letter A, whatever is asked',
      prepare: async ({ kind }) => at(guessers(kind, []).get('first-option')!),
    },
  ],
  ...fixed,
  ...Object.entries(POINT_SCORES).map(([name, score]): [string, Baseline] => [
    name,
    pointScoreBaseline(name, score),
  ]),
]);

/** Names of the baselines that answer with a kind. */
export const baselinesOf = (kind: Gold['kind']): string[] =>
  [...BASELINES].filter(([, { kinds }]) => kinds.includes(kind)).map(([name]) => name);

/**
 * A baseline by its name.
 * @param data what it is to answer, for the message
 * @throws ConfigError for a name that there is not, or of another kind of answers
 */
export function baselineNamed(name: string, kind: Gold['kind'], data: string): Baseline {
  const found = BASELINES.get(name);
  const known = baselinesOf(kind);
  if (found?.kinds.includes(kind) === true) return found;
  const problem =
    found === undefined
      ? `no baseline named '${name}' for ${data}.${suggestion(name, known)}`
      : `baseline ${name} answers with ${found.kinds.join(', ')}, ${data} asks for ${kind}.`;
  throw new ConfigError(`${problem} Known: ${known.join(', ')}`);
}
