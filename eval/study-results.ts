/**
 * Results of a study: the file that each finished cell leaves, and the tables computed from these files. They can be rebuilt at any
 * time, also while cells are missing.
 */
import { z } from 'zod';
import { DataError } from '../src/ground/errors.ts';
import { mean } from '../src/ground/numbers.ts';
import type { EvalRecord } from '../src/ground/types.ts';
import {
  holm,
  intervalOf,
  isSignificant,
  type MeanInterval,
  resampledDifference,
  type ScoreColumn,
  SeedBootstrap,
} from '../src/measures/bootstrap.ts';
import { KIND_NAMES, taskKind } from '../src/tasks/kinds.ts';
import { seriesValues } from './metrics.ts';

/** Version of the cell results and of study.json. */
export const STUDY_VERSION = 1;

const column = z.array(z.number().nullable()).readonly();
const columns = z.record(z.string(), column).readonly();

/** Results of a finished cell: values by series, of the last policy of its training. */
export const cellResultSchema = z
  .strictObject({
    version: z.literal(STUDY_VERSION),
    /** Settings of the evaluation; results under other settings are not reused. */
    evaluation: z.json(),
    kind: z.enum(KIND_NAMES),
    series: z.array(z.string()).readonly(),
    /** By temperature, in the order of the evaluation; then by metric. */
    answers: z
      .array(z.strictObject({ temperature: z.number(), values: columns }).readonly())
      .min(1)
      .readonly(),
    /**
     * Per token, at the highest temperature above 0: −log π of the sampled tokens (entropy), and log π − log π_start (KL divergence to the
     * start; absent without one, or with another vocabulary). Both are unbiased estimates. Null: greedy answers alone.
     */
    tokens: z
      .strictObject({ temperature: z.number(), entropy: column, kl: column.nullable() })
      .readonly()
      .nullable(),
    /** Training of the cell itself, without its start. */
    training: z.strictObject({ samples: z.int(), steps: z.int() }).readonly(),
    seconds: z.strictObject({ training: z.number(), evaluation: z.number() }).readonly(),
  })
  .readonly();
export type StudyCellResult = z.infer<typeof cellResultSchema>;

/** A finished cell with its reinforcement log. */
export interface FinishedCell {
  readonly setting: string;
  readonly arm: string;
  readonly seed: number;
  readonly result: StudyCellResult;
  readonly steps: readonly StepLine[];
}

/** Numbers of rl/metrics.jsonl drawn as curves; a dot leads into a record. */
export const CURVES: readonly {
  readonly name: string;
  readonly title: string;
  readonly definition: string;
}[] = [
  {
    name: 'reward',
    title: 'Reward of rollouts',
    definition: 'Mean over the sampled responses of a step; up is better.',
  },
  {
    name: 'parts.format',
    title: 'Format of rollouts',
    definition: 'Share of the sampled responses that are well formed; up is better.',
  },
  {
    name: 'kl',
    title: 'KL to the start',
    definition: 'k3 estimate, nats per token, each at most 10; small is close.',
  },
  {
    name: 'entropy',
    title: 'Entropy',
    definition: 'Entropy of the next-token distribution, nats per token; a collapse to 0 ends exploration.',
  },
  {
    name: 'marked.predicted',
    title: 'Predicted share',
    definition: 'Mean share of the series inside predicted intervals; it rises when answers widen.',
  },
  {
    name: 'tokens',
    title: 'Length of responses',
    definition: 'Mean number of tokens.',
  },
  {
    name: 'equalRewards',
    title: 'Groups of equal rewards',
    definition: 'Share of prompt groups whose rewards are all equal, which give no gradient.',
  },
  {
    name: 'similarity',
    title: 'Similarity to the anchors',
    definition: 'Mean similarity of responses to the expert traces; it is not an objective.',
  },
  {
    name: 'grounding.ratio',
    title: 'Size of the grounded part',
    definition: 'Root mean square of the trace-grounded part of the advantages, over that of the main part.',
  },
  ...(
    [
      ['reward', 'Reward'],
      ['point_precision', 'Point precision'],
      ['point_recall', 'Point recall'],
      ['class_accuracy', 'Class accuracy'],
      ['answer_accuracy', 'Accuracy'],
    ] as const
  ).map(([name, title]) => ({
    name: `validation.metrics.${name}`,
    title: `${title}, validation`,
    definition: 'Greedy answers to the validation split; up is better.',
  })),
];

/**
 * Checks on the training signal, as means over the steps of the same log: whether rewards vary within groups, and whether the
 * similarity to the traces adds to the rewards.
 */
export const GATES: readonly {
  readonly name: string;
  readonly label: string;
  readonly definition: string;
}[] = [
  {
    name: 'equalRewards',
    label: 'Equal rewards',
    definition: 'Share of groups whose rewards are all equal, which give no gradient.',
  },
  {
    name: 'grounding.ratio',
    label: 'Grounded part',
    definition: 'Root mean square of the trace-grounded part of the advantages, over that of the main part.',
  },
  {
    name: 'grounding.correlation',
    label: 'Correlation',
    definition:
      'Correlation of similarity and reward within groups; near 1 the similarity repeats the reward.',
  },
  {
    name: 'grounding.tokens',
    label: 'Tokens with mass',
    definition: 'Effective number of response tokens with mass in the transport.',
  },
  {
    name: 'grounding.partners',
    label: 'Partners of a token',
    definition:
      "Effective number of trace tokens that receive a response token's mass; a large number means weak alignment.",
  },
  {
    name: 'grounding.goldFirst',
    label: 'Gold first',
    definition:
      'Share of groups in which no sampled response is nearer to the trace than the gold one; chance is 1 / (G + 1).',
  },
  {
    name: 'grounding.goldNearer',
    label: 'Gold nearer',
    definition:
      'Share of sampled responses that are farther from the trace than the gold one; chance is 1/2.',
  },
];

/** Numbers of a step, by name. */
export type StepLine = Readonly<Record<string, number | null>>;

/** Values of a cell's answers at one temperature. @throws DataError for no record */
export function answersOf(
  temperature: number,
  records: readonly EvalRecord[],
): { readonly ids: readonly string[]; readonly answers: StudyCellResult['answers'][number] } {
  const { ids, values } = seriesValues(records);
  return { ids, answers: { temperature, values } };
}

export interface ResultKey {
  /** `reward@0.5`, `point_f1`, `kl`. */
  readonly key: string;
  readonly label: string;
  readonly definition: string;
  /** True where larger is better; null where neither is. */
  readonly up: boolean | null;
}

export interface StudyDifference extends MeanInterval {
  /** Whether the interval excludes 0. Never for one seed, whose interval covers the series alone. */
  readonly significant: boolean;
  /** Whether it stays significant after Holm's correction over the arms. */
  readonly holm: boolean;
  readonly p: number;
  /** Seeds that both arms have. */
  readonly seeds: number;
}

type By<T> = Readonly<Record<string, T>>;

export interface ArmResult {
  readonly arm: string;
  readonly title: string;
  readonly seeds: readonly number[];
  readonly values: By<MeanInterval>;
  /** Differences from the base; null for the base, the start, and an arm that shares no seed with the base. */
  readonly toBase: By<StudyDifference> | null;
  /** Differences from the start with the same seeds; null for the start, and where there is none. */
  readonly toStart: By<StudyDifference> | null;
  /** Means over steps, then seeds; null without reinforcement. */
  readonly gates: By<number> | null;
  readonly training: StudyCellResult['training'];
  /** Mean over the seeds. */
  readonly seconds: StudyCellResult['seconds'];
}

export interface SettingResult {
  readonly setting: string;
  readonly title: string;
  readonly split: string;
  readonly series: number;
  readonly samples: number;
  readonly keys: readonly ResultKey[];
  readonly arms: readonly ArmResult[];
  readonly curves: readonly StudyCurves[];
}

/** A logged number by step: for each arm the mean over its seeds, the lowest and the highest. */
export interface StudyCurves {
  readonly name: string;
  readonly arms: readonly {
    readonly title: string;
    readonly step: readonly number[];
    readonly mean: readonly (number | null)[];
    readonly low: readonly (number | null)[];
    readonly high: readonly (number | null)[];
  }[];
}

export interface StudyResults {
  readonly version: typeof STUDY_VERSION;
  readonly name: string;
  readonly title: string;
  /** Command that produces it. */
  readonly command: string;
  readonly base: string;
  readonly baseTitle: string;
  readonly seeds: readonly number[];
  readonly bootstrap: number;
  /** Number of finished cells, of all cells, and those that failed with the reason. */
  readonly finished: number;
  readonly cells: number;
  readonly failed: readonly { readonly cell: string; readonly reason: string }[];
  readonly settings: readonly SettingResult[];
}

/** Metrics without a column of their own: another column has or implies them. */
const LEFT_OUT = ['reward', 'format', 'unparsable', 'affiliation_precision', 'affiliation_recall'];

/** Columns of the table, in order. */
function keysOf({ kind, answers, tokens }: StudyCellResult): ResultKey[] {
  const { metrics } = taskKind(kind).evaluation;
  const [first] = answers;
  const known = Object.keys(metrics).filter((name) => name in first!.values);
  const at = (temperature: number): string => (temperature === 0 ? 'greedy' : `T ${temperature}`);
  const rewards = answers.map(({ temperature }) => ({
    key: temperature === 0 ? 'reward' : `reward@${temperature}`,
    label: `Reward, ${at(temperature)}`,
    definition:
      temperature === 0
        ? 'Mean reward of greedy answers.'
        : `Mean reward of answers sampled at temperature ${temperature}.`,
    up: true,
  }));
  const others = ['format', ...known.filter((name) => !LEFT_OUT.includes(name))].map((name) => ({
    key: first!.temperature === 0 ? name : `${name}@${first!.temperature}`,
    label: metrics[name]!.label,
    definition: `${metrics[name]!.definition} ${first!.temperature === 0 ? 'Of greedy answers.' : `At temperature ${first!.temperature}.`}`,
    up: true,
  }));
  const measured =
    tokens === null
      ? []
      : [
          {
            key: 'kl',
            label: 'KL to the start',
            definition: `Mean of log \u03c0 \u2212 log \u03c0_start over the tokens of answers sampled at temperature ${tokens.temperature}, in nats per token: unbiased.`,
            up: null,
          },
          {
            key: 'entropy',
            label: 'Entropy',
            definition: `Mean of \u2212log \u03c0 over the same tokens, in nats per token.`,
            up: null,
          },
        ];
  return [...rewards, ...others, ...measured];
}

/** Values of a key by series; null where the cell has none. */
function columnOf({ answers, tokens }: StudyCellResult, key: string): ScoreColumn | null {
  if (key === 'kl') return tokens?.kl ?? null;
  if (key === 'entropy') return tokens?.entropy ?? null;
  const [metric, temperature = '0'] = key.split('@') as [string, string?];
  const column = answers.find((mode) => mode.temperature === Number(temperature))?.values[metric];
  return column?.some((value) => value !== null) ? column : null;
}

export interface SettingInput {
  readonly setting: string;
  readonly title: string;
  readonly split: string;
  readonly samples: number;
  /** In the order of the table, the start first where there is one. */
  readonly arms: readonly { readonly arm: string; readonly title: string }[];
  readonly base: string;
  readonly start: string | null;
  readonly cells: readonly FinishedCell[];
}

/**
 * The table of a setting; arms without a finished cell are left out. Null where nothing is finished.
 * @throws DataError when two cells answer other series
 */
export function settingResult(input: SettingInput, resamples: number): SettingResult | null {
  const { cells, base, start, ...about } = input;
  const [first] = cells;
  if (first === undefined) return null;
  const { series } = first.result;
  for (const { setting, arm, seed, result } of cells) {
    if (result.series.length === series.length && result.series.every((id, i) => id === series[i])) continue;
    throw new DataError(
      `${setting}/${arm}/seed-${seed}: its answers are to other series than those of ${first.arm}/seed-${first.seed}; ` +
        'remove the directory of the older one and run the study again',
    );
  }
  const bootstrap = new SeedBootstrap(series.length, { resamples });
  const keys = keysOf(first.result);
  const cellsOf = (arm: string): readonly FinishedCell[] => cells.filter((cell) => cell.arm === arm);
  const over = (group: readonly FinishedCell[], key: string) => {
    const columns = group.flatMap(({ result }) => {
      const column = columnOf(result, key);
      return column === null ? [] : [column];
    });
    return columns.length === 0 || columns.length < group.length ? null : bootstrap.overSeeds(columns);
  };
  /** Differences over the seeds of both arms; Holm's correction needs those of all arms and comes later. */
  const against = (arm: string, other: string | null): By<StudyDifference> | null => {
    if (other === null || arm === other) return null;
    const theirs = new Map(cellsOf(other).map((cell) => [cell.seed, cell]));
    const shared = cellsOf(arm).filter(({ seed }) => theirs.has(seed));
    if (shared.length === 0) return null;
    const partners = shared.map(({ seed }) => theirs.get(seed)!);
    const entries = keys.flatMap(({ key }): [string, StudyDifference][] => {
      const [a, b] = [over(shared, key), over(partners, key)];
      if (a === null || b === null) return [];
      const difference = resampledDifference(a, b);
      const significant = shared.length > 1 && isSignificant(difference);
      return [[key, { ...difference, significant, holm: false, seeds: shared.length }]];
    });
    return Object.fromEntries(entries);
  };
  const arms = input.arms.filter(({ arm }) => cellsOf(arm).length > 0);
  const results = arms.map(({ arm, title }): ArmResult => {
    const group = cellsOf(arm);
    const values = keys.flatMap(({ key }) => {
      const value = over(group, key);
      return value === null ? [] : [[key, intervalOf(value)] as const];
    });
    const seconds = (stage: 'training' | 'evaluation'): number =>
      Number(mean(group.map(({ result }) => result.seconds[stage])).toFixed(1));
    return {
      ...{ arm, title, seeds: group.map(({ seed }) => seed), values: Object.fromEntries(values) },
      toBase: arm === start ? null : against(arm, base),
      toStart: against(arm, start),
      gates: gatesOf(group),
      training: group[0]!.result.training,
      seconds: { training: seconds('training'), evaluation: seconds('evaluation') },
    };
  });
  return {
    ...{ setting: about.setting, title: about.title, split: about.split, samples: about.samples },
    series: series.length,
    keys: keys.filter(({ key }) => results.some(({ values }) => key in values)),
    arms: corrected(corrected(results, keys, 'toBase'), keys, 'toStart'),
    curves: curvesOf(arms, cellsOf),
  };
}

/** Applies Holm's correction to the arms, key by key over all of them. */
function corrected(
  arms: readonly ArmResult[],
  keys: readonly ResultKey[],
  which: 'toBase' | 'toStart',
): ArmResult[] {
  const rejected = new Map(
    keys.map(({ key }) => {
      const tested = arms.filter((arm) => arm[which]?.[key] !== undefined);
      const verdicts = holm(tested.map((arm) => arm[which]![key]!.p));
      return [key, new Set(tested.filter((_, i) => verdicts[i]).map(({ arm }) => arm))];
    }),
  );
  return arms.map((result) => {
    const differences = result[which];
    if (differences === null) return result;
    const after = Object.entries(differences).map(([key, value]) => [
      key,
      { ...value, holm: value.significant && rejected.get(key)!.has(result.arm) },
    ]);
    return { ...result, [which]: Object.fromEntries(after) };
  });
}

function gatesOf(cells: readonly FinishedCell[]): By<number> | null {
  if (cells.every(({ steps }) => steps.length === 0)) return null;
  return Object.fromEntries(
    GATES.flatMap(({ name }) => {
      const seeds = cells
        .map(({ steps }) => steps.flatMap((line) => line[name] ?? []))
        .filter((values) => values.length > 0);
      return seeds.length === 0 ? [] : [[name, mean(seeds.map(mean))]];
    }),
  );
}

/** Curves of the logged numbers; a number that is the same at every step of every arm is left out. */
function curvesOf(
  arms: SettingInput['arms'],
  cellsOf: (arm: string) => readonly FinishedCell[],
): StudyCurves[] {
  const logged = arms
    .map(({ arm, title }) => ({ title, cells: cellsOf(arm).filter(({ steps }) => steps.length > 0) }))
    .filter(({ cells }) => cells.length > 0);
  return CURVES.flatMap(({ name }) => {
    const curves = logged.map(({ title, cells }) => {
      // Some numbers are logged at some steps only.
      const measured = cells.flatMap(({ steps }) => steps.filter((line) => typeof line[name] === 'number'));
      const step = [...new Set(measured.map((line) => line['step']!))].sort((a, b) => a - b);
      const values = cells.map(({ steps }) => {
        const byStep = new Map(steps.map((line) => [line['step'], line[name] ?? null]));
        return smoothed(step.map((at) => byStep.get(at) ?? null));
      });
      const at = (combine: (present: number[]) => number): (number | null)[] =>
        step.map((_, i) => {
          const present = values.flatMap((one) => one[i] ?? []);
          return present.length === 0 ? null : Number(combine(present).toPrecision(5));
        });
      return {
        ...{ title, step },
        mean: at(mean),
        low: at((present) => Math.min(...present)),
        high: at((present) => Math.max(...present)),
      };
    });
    const drawn = curves.filter(({ mean }) => mean.some((value) => value !== null));
    const all = drawn.flatMap(({ low, high }) => [...low, ...high]);
    return all.every((value) => value === null || value === all[0]) ? [] : [{ name, arms: drawn }];
  });
}

/** Centred moving mean over about an eighth of the steps; missing values stay missing. */
function smoothed(values: readonly (number | null)[]): (number | null)[] {
  const half = Math.floor(values.length / 16);
  return values.map((value, i) =>
    value === null
      ? null
      : mean(values.slice(Math.max(0, i - half), i + half + 1).filter((near) => near !== null)),
  );
}
