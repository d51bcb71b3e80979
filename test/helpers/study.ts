/** Finished cells of a study, made up: policies of several seeds on the same series. */
import type { FinishedCell, StudyCellResult, StudyResults } from '../../eval/study-results.ts';
import { CURVES, GATES, STUDY_VERSION, settingResult } from '../../eval/study-results.ts';
import { Random } from '../../src/ground/random.ts';

export interface MadeUp {
  readonly arm: string;
  readonly seeds: readonly number[];
  /** Mean reward of greedy answers. */
  readonly level: number;
  /** Steps of reinforcement; 0: no log. */
  readonly steps?: number;
  readonly grounded?: boolean;
}

const SERIES = 120;
const clip = (value: number): number => Math.min(1, Math.max(0, value));

function result({ arm, level, steps = 0 }: MadeUp, seed: number): StudyCellResult {
  const shared = new Random(1, 'series of made-up cells');
  const own = new Random(seed, `cell ${arm}`);
  const policy = 0.02 * (own.uniform() - 0.5);
  const difficulty = Array.from({ length: SERIES }, () => 0.5 * (shared.uniform() - 0.5));
  const column = (shift: number) =>
    difficulty.map((one) => clip(level + shift + policy + one + 0.1 * (own.uniform() - 0.5)));
  const at = (temperature: number) => ({
    temperature,
    values: {
      unparsable: difficulty.map(() => 0),
      class_accuracy: column(0.1).map((value, c) => (c % 7 === 0 ? null : value > 0.6 ? 1 : 0)),
      point_precision: column(-0.05),
      point_recall: column(0.02),
      point_f1: column(-0.02 - temperature / 20),
      affiliation_precision: column(0.1),
      affiliation_recall: column(0.1),
      affiliation_f1: column(0.1),
      format: column(0.3),
      reward: column(-temperature / 10),
    },
  });
  return {
    version: STUDY_VERSION,
    evaluation: {},
    kind: 'anomaly',
    series: difficulty.map((_, c) => `nano5/test/${c}`),
    answers: [0, 0.5, 1].map(at),
    reliance: null,
    tokens: {
      temperature: 1,
      entropy: difficulty.map(() => 0.4 + 0.1 * own.uniform()),
      kl: difficulty.map(() => (arm === 'start' ? 0 : 0.05 * own.uniform())),
    },
    training: { samples: steps > 0 ? 0 : 4000, steps },
    seconds: { training: 40 + 5 * own.uniform(), evaluation: 12 },
  };
}

function cell(setting: string, one: MadeUp, seed: number): FinishedCell {
  const { arm, level, steps = 0, grounded = false } = one;
  const random = new Random(seed, `steps ${arm}`);
  return {
    ...{ setting, arm, seed, result: result(one, seed) },
    steps: Array.from({ length: steps }, (_, s) => ({
      step: s + 1,
      ...Object.fromEntries(GATES.map(({ name }) => [name, null])),
      ...Object.fromEntries(CURVES.map(({ name }) => [name, null])),
      reward: 0.4 + (level - 0.4) * (1 - Math.exp(-s / 30)) + 0.1 * (random.uniform() - 0.5),
      'parts.format': clip(0.7 + s / 200),
      kl: 0.0005 * s * (0.8 + 0.4 * random.uniform()),
      entropy: 0.5 * Math.exp(-s / 100) + 0.05 * random.uniform(),
      tokens: 43 + random.uniform(),
      equalRewards: 0.2 + 0.1 * random.uniform(),
      'validation.metrics.reward': s % 10 === 9 ? level + 0.05 * (random.uniform() - 0.5) : null,
      'grounding.ratio': grounded ? 0.1 * random.uniform() : null,
      'grounding.goldFirst': grounded && s % 10 === 0 ? random.uniform() : null,
      similarity: grounded ? 0.28 + 0.01 * random.uniform() : null,
    })),
  };
}

/** The results of one setting with these arms; the first one is the base, `start` the start. */
export function madeUpResults(
  arms: readonly MadeUp[],
  {
    resamples = 500,
    title = 'nano5 with few traces',
    primary = null,
    margins = {},
  }: {
    readonly resamples?: number;
    readonly title?: string;
    readonly primary?: string | null;
    readonly margins?: Readonly<Record<string, number>>;
  } = {},
): StudyResults {
  const setting = 'few';
  const base = arms.find(({ arm }) => arm !== 'start')!.arm;
  const cells = arms.flatMap((one) => one.seeds.map((seed) => cell(setting, one, seed)));
  const found = settingResult(
    {
      ...{ setting, title, split: 'test', samples: 4, base, cells },
      named: [...(primary === null ? [] : [primary]), ...Object.keys(margins)],
      start: arms.some(({ arm }) => arm === 'start') ? 'start' : null,
      arms: arms.map(({ arm }) => ({ arm, title: arm === 'start' ? 'Start' : arm.toUpperCase() })),
    },
    resamples,
  );
  return {
    ...{
      version: STUDY_VERSION,
      name: 'made-up',
      title: 'A made-up study',
      command: 'timeseer study made-up',
    },
    ...{ base, baseTitle: base.toUpperCase(), primary, margins, seeds: [1, 2, 3], bootstrap: resamples },
    ...{
      finished: cells.length,
      cells: cells.length + 2,
      failed: [],
      settings: found === null ? [] : [found],
    },
  };
}
