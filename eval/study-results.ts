/**
 * Results of a study: the file that each finished cell leaves, and the tables computed from these files. They can be rebuilt at any
 * time, also while cells are missing.
 */
import { z } from 'zod';
import { ConfigError, DataError } from '../src/ground/errors.ts';
import { mean } from '../src/ground/numbers.ts';
import type { EvalRecord, TokenUsage } from '../src/ground/types.ts';
import {
  holm,
  intervalOf,
  isSignificant,
  type MeanInterval,
  resampledDifference,
  type ScoreColumn,
  SeedBootstrap,
} from '../src/measures/bootstrap.ts';
import { type Metrics, REASONING_METRICS } from '../src/tasks/evaluation.ts';
import { KIND_NAMES, taskKind } from '../src/tasks/kinds.ts';
import { loggedName } from '../src/train/glossary.ts';
import { seriesValues } from './metrics.ts';
import { movingMean } from './report-curves.ts';

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
    /** Values by temperature, in the order of the evaluation; then by metric. */
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
    /** Answers from changed reasonings that follow them, by series; null or absent where none were asked for. */
    reliance: columns.nullable().default(null),
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

export interface LoggedCurve {
  readonly name: string;
  readonly title: string;
  readonly definition: string;
}

const loggedCurve = (name: string, title: string): LoggedCurve => ({
  ...{ name, title },
  definition: loggedName('rl', name)!.definition,
});

/** Numbers of rl/metrics.jsonl drawn as curves; a dot leads into a record. */
export const CURVES: readonly LoggedCurve[] = [
  loggedCurve('reward', 'Reward of rollouts'),
  loggedCurve('parts.format', 'Format of rollouts'),
  loggedCurve('kl', 'KL to the start'),
  loggedCurve('entropy', 'Entropy'),
  loggedCurve('marked.predicted', 'Predicted share'),
  loggedCurve('tokens', 'Length of responses'),
  loggedCurve('equalRewards', 'Groups of equal rewards'),
  loggedCurve('similarity', 'Similarity to the expert traces'),
  loggedCurve('grounding.ratio', 'Size of the grounded part'),
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
export const GATES: readonly LoggedCurve[] = [
  loggedCurve('equalRewards', 'Equal rewards'),
  loggedCurve('grounding.ratio', 'Grounded part'),
  loggedCurve('grounding.correlation', 'Correlation'),
  loggedCurve('grounding.tokens', 'Tokens with mass'),
  loggedCurve('grounding.partners', 'Partners of a token'),
  loggedCurve('grounding.goldFirst', 'Gold first'),
  loggedCurve('grounding.goldNearer', 'Gold nearer'),
];

/** Numbers of a step, by name. */
export type StepLine = Readonly<Record<string, number | null>>;

/** Values of a cell's answers at one temperature. @throws DataError for no record */
export function answersOf(
  temperature: number,
  records: readonly EvalRecord[],
): { readonly ids: readonly string[]; readonly answers: StudyCellResult['answers'][number] } {
  const { ids, values } = seriesValues(records);
  const meanOf = (measure: (usage: TokenUsage) => number | undefined): (number | null)[] => {
    const found = new Map<string, number[]>();
    for (const { seriesId, usage } of records) {
      const value = usage === undefined ? undefined : measure(usage);
      if (value !== undefined) found.set(seriesId, [...(found.get(seriesId) ?? []), value]);
    }
    return ids.map((id) => (found.has(id) ? mean(found.get(id)!) : null));
  };
  const length = meanOf(({ completion }) => completion);
  const turns = meanOf((usage) => usage.turns);
  const inspected = turns.some((value) => value !== null);
  return { ids, answers: { temperature, values: { ...values, length, ...(inspected ? { turns } : {}) } } };
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
  /** True where the interval excludes 0. Never for one seed, whose interval covers the series alone. */
  readonly significant: boolean;
  /** True where it stays significant after Holm's correction over the arms. */
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
interface StudyCurves {
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
  readonly command: string;
  readonly base: string;
  readonly baseTitle: string;
  /** Key of the primary outcome; null: the first column. */
  readonly primary: string | null;
  /** Most by which a column may be lower than that of the base, by key, for an arm to count as equal in it. */
  readonly margins: By<number>;
  readonly seeds: readonly number[];
  readonly bootstrap: number;
  /** Number of finished cells, of all cells, and those that failed with the reason. */
  readonly finished: number;
  readonly cells: number;
  readonly failed: readonly { readonly cell: string; readonly reason: string }[];
  readonly settings: readonly SettingResult[];
}

/** Metrics without a column of their own: another column has or implies them. */
const LEFT_OUT = [
  ...['reward', 'format', 'unparsable', 'affiliation_precision', 'affiliation_recall'],
  ...['claim_coverage', 'reasoning_consistency'],
];

/** Columns of the greedy answers that are no metrics of a kind of answer. */
const MORE: readonly ResultKey[] = [
  {
    key: 'length',
    label: 'Tokens',
    definition: 'Mean number of tokens of a response.',
    up: null,
  },
  {
    key: 'turns',
    label: 'Pictures',
    definition:
      'Mean number of responses of an inspection, each to a picture: the whole, then what was looked at.',
    up: null,
  },
  {
    key: 'follows_moved',
    label: 'Follows a moved scan',
    definition: 'Share of answers whose intervals are those of the own reasoning with its scan moved.',
    up: true,
  },
  {
    key: 'follows_corrupted',
    label: 'Follows a corrupted kind',
    definition:
      'Share of answers with the class of the departures that replace the own ones in the reasoning.',
    up: true,
  },
];

/** Columns of the table, in order. */
function keysOf({ kind, answers, tokens, reliance }: StudyCellResult): ResultKey[] {
  const metrics: Metrics = { ...taskKind(kind).evaluation.metrics, ...REASONING_METRICS };
  const [{ temperature: first, values }] = answers as [StudyCellResult['answers'][number]];
  const keyAt = (name: string, temperature: number): string =>
    temperature === 0 ? name : `${name}@${temperature}`;
  const answersAt = (temperature: number): string =>
    temperature === 0 ? 'greedy answers' : `answers sampled at temperature ${temperature}`;
  const rewards = answers.map(({ temperature }) => ({
    key: keyAt('reward', temperature),
    label: `Reward, ${temperature === 0 ? 'greedy' : `T ${temperature}`}`,
    definition: `Mean reward of ${answersAt(temperature)}.`,
    up: true,
  }));
  const names = Object.keys(metrics).filter((name) => name in values && !LEFT_OUT.includes(name));
  const others: ResultKey[] = ['format', ...names].map((name) => ({
    key: keyAt(name, first),
    label: metrics[name]!.label,
    definition: `${metrics[name]!.definition} Measured on ${answersAt(first)}.`,
    up: true,
  }));
  others.push(...MORE.filter(({ key }) => key in values || (reliance !== null && key in reliance)));
  if (tokens === null) return [...rewards, ...others];
  const sampled = answersAt(tokens.temperature);
  return [
    ...rewards,
    ...others,
    {
      key: 'kl',
      label: 'KL to the start',
      definition: `Mean of log \u03c0 \u2212 log \u03c0_start over the tokens of ${sampled}, in nats per token: unbiased.`,
      up: null,
    },
    {
      key: 'entropy',
      label: 'Entropy',
      definition: `Mean of \u2212log \u03c0 over the tokens of ${sampled}, in nats per token.`,
      up: null,
    },
  ];
}

/** Values of a key by series; null where the cell has none, as where no reasoning could be changed. */
function columnOf({ answers, tokens, reliance }: StudyCellResult, key: string): ScoreColumn | null {
  const [metric, temperature = '0'] = key.split('@') as [string, string?];
  const column =
    reliance?.[key] ??
    tokens?.[key as 'kl' | 'entropy'] ??
    answers.find((mode) => mode.temperature === Number(temperature))?.values[metric];
  return column?.some((value) => value !== null) ? column : null;
}

interface SettingInput extends Pick<SettingResult, 'setting' | 'title' | 'split' | 'samples'> {
  /** Arms in the order of the table, the start first where there is one. */
  readonly arms: readonly Pick<ArmResult, 'arm' | 'title'>[];
  readonly base: string;
  readonly start: string | null;
  /** Columns that the study names: primary outcome and margins. */
  readonly named: readonly string[];
  readonly cells: readonly FinishedCell[];
}

/**
 * Computes the results of a setting; arms without a finished cell are left out. Null where nothing is finished.
 * @throws DataError when two cells answer other series; ConfigError for a named column that is not there
 */
export function settingResult(input: SettingInput, resamples: number): SettingResult | null {
  const { cells, base, start, setting: name, title, split, samples } = input;
  const [first] = cells;
  if (first === undefined) return null;
  const { series } = first.result;
  for (const { setting, arm, seed, result } of cells) {
    if (result.series.length === series.length && result.series.every((id, i) => id === series[i])) continue;
    throw new DataError(
      `${setting}/${arm}/seed-${seed}: answers other series than ${first.arm}/seed-${first.seed}; ` +
        'remove the directory of the older cell and run the study again',
    );
  }
  const bootstrap = new SeedBootstrap(series.length, { resamples });
  const keys = keysOf(first.result);
  for (const wanted of input.named) {
    if (keys.some(({ key }) => key === wanted)) continue;
    throw new ConfigError(
      `${name}: the study names the column ${wanted}, which its results do not have; columns: ${keys.map(({ key }) => key).join(', ')}`,
    );
  }
  const cellsOf = (arm: string): readonly FinishedCell[] => cells.filter((cell) => cell.arm === arm);
  const over = (group: readonly FinishedCell[], key: string) => {
    const columns = group.map(({ result }) => columnOf(result, key)).filter((column) => column !== null);
    return columns.length === 0 || columns.length < group.length ? null : bootstrap.overSeeds(columns);
  };
  /** Differences over the seeds of both arms; Holm's correction needs those of all arms and comes later. */
  const against = (arm: string, reference: string | null): By<StudyDifference> | null => {
    if (reference === null || arm === reference) return null;
    const bySeed = new Map(cellsOf(reference).map((cell) => [cell.seed, cell]));
    const shared = cellsOf(arm).filter(({ seed }) => bySeed.has(seed));
    if (shared.length === 0) return null;
    const partners = shared.map(({ seed }) => bySeed.get(seed)!);
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
  const results = arms.map(({ arm, title: armTitle }): ArmResult => {
    const group = cellsOf(arm);
    const values = keys.flatMap(({ key }) => {
      const value = over(group, key);
      return value === null ? [] : [[key, intervalOf(value)] as const];
    });
    const seconds = (stage: 'training' | 'evaluation'): number =>
      Number(mean(group.map(({ result }) => result.seconds[stage])).toFixed(1));
    return {
      ...{ arm, title: armTitle, seeds: group.map(({ seed }) => seed), values: Object.fromEntries(values) },
      toBase: arm === start ? null : against(arm, base),
      toStart: against(arm, start),
      gates: gatesOf(group),
      training: group[0]!.result.training,
      seconds: { training: seconds('training'), evaluation: seconds('evaluation') },
    };
  });
  return {
    ...{ setting: name, title, split, samples },
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
          const present = values.flatMap((curve) => curve[i] ?? []);
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
  const moving = movingMean(values, 2 * Math.floor(values.length / 16) + 1);
  return values.map((value, i) => (value === null ? null : moving[i]!));
}
