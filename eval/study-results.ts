/**
 * The results of a study: what each cell leaves, and the table that is made of the cells. Everything follows from the cells' files, so it
 * can be made again at any time, and while cells are missing.
 */
import { z } from 'zod';
import { DataError } from '../src/ground/errors.ts';
import type { EvalRecord } from '../src/ground/types.ts';
import { KIND_NAMES, taskKind } from '../src/tasks/kinds.ts';
import { seriesValues } from './metrics.ts';
import {
  type Column,
  difference,
  holm,
  intervalOf,
  pValue,
  type Resampled,
  SeedBootstrap,
} from './seed-bootstrap.ts';

/** Version of the file that a finished cell leaves, and of study.json. */
export const STUDY_VERSION = 1;

const column = z.array(z.number().nullable()).readonly();
const columns = z.record(z.string(), column).readonly();

/** What a finished cell leaves: values by series, of the policy that its training ended with. */
export const cellResultSchema = z
  .strictObject({
    version: z.literal(STUDY_VERSION),
    /** What was asked; results of another evaluation are not taken for those of this one. */
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
    /** What the cell trained itself, without its start. */
    training: z.strictObject({ samples: z.int(), steps: z.int() }).readonly(),
    seconds: z.strictObject({ training: z.number(), evaluation: z.number() }).readonly(),
  })
  .readonly();
export type CellResult = z.infer<typeof cellResultSchema>;

/** A finished cell with the lines of its reinforcement's log. */
export interface FinishedCell {
  readonly setting: string;
  readonly arm: string;
  readonly seed: number;
  readonly result: CellResult;
  readonly steps: readonly StepLine[];
}

/** The numbers of rl/metrics.jsonl that there are curves of; a dot leads into a record. */
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
    definition: 'Of the next-token distribution, nats per token; a collapse to 0 ends exploration.',
  },
  {
    name: 'marked.predicted',
    title: 'Marked share',
    definition: 'Mean share of the series that answers mark; a rise says that answers widen.',
  },
  {
    name: 'tokens',
    title: 'Length of responses',
    definition: 'Mean number of tokens.',
  },
  {
    name: 'equalRewards',
    title: 'Groups of equal rewards',
    definition: 'Share of prompt groups that tell nothing apart, because all rewards are equal.',
  },
  {
    name: 'similarity',
    title: 'Similarity to the anchors',
    definition: 'Of responses to the expert traces, mean; it is not maximised itself.',
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
    definition: 'Of greedy answers to series of the validation split; up is better.',
  })),
];

/**
 * Whether there is anything to learn from, and whether the similarity to the traces says more than the rewards do: of the same log, means
 * over the steps.
 */
export const GATES: readonly {
  readonly name: string;
  readonly label: string;
  readonly definition: string;
}[] = [
  {
    name: 'equalRewards',
    label: 'Equal rewards',
    definition: 'Share of groups whose rewards are all equal: they teach nothing.',
  },
  {
    name: 'grounding.ratio',
    label: 'Grounded part',
    definition: 'Root mean square of the trace-grounded part of the advantages, over that of the main part.',
  },
  {
    name: 'grounding.correlation',
    label: 'Correlation',
    definition: 'Of similarity and reward within groups: near 1, the similarity repeats the reward.',
  },
  {
    name: 'grounding.tokens',
    label: 'Tokens with mass',
    definition: 'Effective number of response tokens that carry mass in the transport.',
  },
  {
    name: 'grounding.partners',
    label: 'Partners of a token',
    definition:
      "Effective number of trace tokens that a response token's mass goes to: many say that little is aligned.",
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

/** The values of a cell's answers in one mode. @throws DataError for no record */
export function answersOf(
  temperature: number,
  records: readonly EvalRecord[],
): { readonly ids: readonly string[]; readonly answers: CellResult['answers'][number] } {
  const { ids, values } = seriesValues(records);
  return { ids, answers: { temperature, values } };
}

export interface ResultKey {
  /** `reward@0.5`, `point_f1`, `kl`. */
  readonly key: string;
  readonly label: string;
  readonly definition: string;
  /** Whether more is better; null: neither. */
  readonly up: boolean | null;
}

/** An estimate of the table. `n`: seeds. */
export interface StudyEstimate {
  readonly mean: number;
  readonly ci95: readonly [lo: number, hi: number];
}

export interface StudyDifference extends StudyEstimate {
  /**
   * Whether the interval leaves out 0, and whether the difference stays significant after Holm's correction over the arms. Never of one
   * seed, whose interval is of the series alone.
   */
  readonly significant: boolean;
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
  readonly values: By<StudyEstimate>;
  /** Against the base; null for the base itself, the start, and an arm that shares no seed with the base. */
  readonly toBase: By<StudyDifference> | null;
  /** Against the start of the same seeds; null for the start, and where there is none. */
  readonly toStart: By<StudyDifference> | null;
  /** Means over steps, then seeds; null without reinforcement. */
  readonly gates: By<number> | null;
  readonly training: CellResult['training'];
  /** Mean over the seeds. */
  readonly seconds: CellResult['seconds'];
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

/** A number of the log by step: of each arm the mean over its seeds, the lowest and the highest. */
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
  /** The command that makes it. */
  readonly command: string;
  readonly base: string;
  readonly baseTitle: string;
  readonly seeds: readonly number[];
  readonly bootstrap: number;
  /** Cells that are finished, of how many; those that failed, with the reason. */
  readonly finished: number;
  readonly cells: number;
  readonly failed: readonly { readonly cell: string; readonly reason: string }[];
  readonly settings: readonly SettingResult[];
}

/** Metrics without a column of their own: told elsewhere in the table, or told by what stands there. */
const LEFT_OUT = ['reward', 'format', 'unparsable', 'affiliation_precision', 'affiliation_recall'];

/** What a table has of cells with these results, in order. */
function keysOf({ kind, answers, tokens }: CellResult): ResultKey[] {
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

/** The column of a key; null where the cell has none. */
function columnOf({ answers, tokens }: CellResult, key: string): Column | null {
  if (key === 'kl') return tokens?.kl ?? null;
  if (key === 'entropy') return tokens?.entropy ?? null;
  const [metric, temperature = '0'] = key.split('@') as [string, string?];
  const found = answers.find((one) => one.temperature === Number(temperature))?.values[metric];
  return found?.some((value) => value !== null) ? found : null;
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
  const of = (arm: string): readonly FinishedCell[] => cells.filter((one) => one.arm === arm);
  const bySeries = new Map<string, Resampled | null>();
  const ofCell = ({ arm, seed, result }: FinishedCell, key: string): Resampled | null => {
    const at = `${arm} ${seed} ${key}`;
    const known = bySeries.get(at);
    if (known !== undefined) return known;
    const found = columnOf(result, key);
    const value = found === null ? null : bootstrap.ofSeries(found);
    bySeries.set(at, value);
    return value;
  };
  const over = (group: readonly FinishedCell[], key: string): Resampled | null => {
    const parts = group.map((one) => ofCell(one, key));
    return parts.length === 0 || parts.includes(null) ? null : bootstrap.overSeeds(parts as Resampled[]);
  };
  /** Differences of the seeds that both have; without the correction, which needs those of all arms. */
  const against = (arm: string, other: string | null): By<StudyDifference> | null => {
    if (other === null || arm === other) return null;
    const [mine, theirs] = [of(arm), of(other)];
    const shared = mine.filter(({ seed }) => theirs.some((one) => one.seed === seed));
    if (shared.length === 0) return null;
    const partners = shared.map(({ seed }) => theirs.find((one) => one.seed === seed)!);
    const entries = keys.flatMap(({ key }): [string, StudyDifference][] => {
      const [a, b] = [over(shared, key), over(partners, key)];
      if (a === null || b === null) return [];
      const apart = difference(a, b);
      const { mean, ci95 } = intervalOf(apart);
      const significant = shared.length > 1 && (ci95[0] > 0 || ci95[1] < 0);
      return [[key, { mean, ci95, significant, holm: false, p: pValue(apart), seeds: shared.length }]];
    });
    return Object.fromEntries(entries);
  };
  const arms = input.arms.filter(({ arm }) => of(arm).length > 0);
  const found = arms.map(({ arm, title }): ArmResult => {
    const group = of(arm);
    const values = keys.flatMap(({ key }) => {
      const value = over(group, key);
      return value === null ? [] : [[key, intervalOf(value)] as const];
    });
    const mean = (pick: (result: CellResult) => number): number =>
      Number((group.reduce((sum, { result }) => sum + pick(result), 0) / group.length).toFixed(1));
    return {
      ...{ arm, title, seeds: group.map(({ seed }) => seed), values: Object.fromEntries(values) },
      toBase: arm === start ? null : against(arm, base),
      toStart: against(arm, start),
      gates: gatesOf(group),
      training: group[0]!.result.training,
      seconds: {
        training: mean(({ seconds }) => seconds.training),
        evaluation: mean(({ seconds }) => seconds.evaluation),
      },
    };
  });
  return {
    ...{ setting: about.setting, title: about.title, split: about.split, samples: about.samples },
    series: series.length,
    keys: keys.filter(({ key }) => found.some(({ values }) => key in values)),
    arms: corrected(corrected(found, keys, 'toBase'), keys, 'toStart'),
    curves: curvesOf(arms, of),
  };
}

/** The arms with Holm's correction, key by key over all arms. */
function corrected(
  arms: readonly ArmResult[],
  keys: readonly ResultKey[],
  which: 'toBase' | 'toStart',
): ArmResult[] {
  const rejected = new Map(
    keys.map(({ key }) => {
      const those = arms.filter((one) => one[which]?.[key] !== undefined);
      const found = holm(those.map((one) => one[which]![key]!.p));
      return [key, new Set(those.filter((_, i) => found[i]).map(({ arm }) => arm))];
    }),
  );
  return arms.map((one) => {
    const before = one[which];
    if (before === null) return one;
    const after = Object.entries(before).map(([key, value]) => [
      key,
      { ...value, holm: value.significant && rejected.get(key)!.has(one.arm) },
    ]);
    return { ...one, [which]: Object.fromEntries(after) };
  });
}

function gatesOf(cells: readonly FinishedCell[]): By<number> | null {
  const meanOf = (values: readonly number[]): number =>
    values.reduce((sum, value) => sum + value, 0) / values.length;
  if (cells.every(({ steps }) => steps.length === 0)) return null;
  return Object.fromEntries(
    GATES.flatMap(({ name }) => {
      const seeds = cells
        .map(({ steps }) => steps.flatMap((line) => line[name] ?? []))
        .filter((values) => values.length > 0);
      return seeds.length === 0 ? [] : [[name, meanOf(seeds.map(meanOf))]];
    }),
  );
}

/** Curves of the numbers that the logs have; those that are the same at every step of every arm say nothing. */
function curvesOf(arms: SettingInput['arms'], of: (arm: string) => readonly FinishedCell[]): StudyCurves[] {
  const logged = arms
    .map(({ arm, title }) => ({ title, cells: of(arm).filter(({ steps }) => steps.length > 0) }))
    .filter(({ cells }) => cells.length > 0);
  return CURVES.flatMap(({ name }) => {
    const curves = logged.map(({ title, cells }) => {
      // Some are measured at some steps alone.
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
        mean: at((present) => present.reduce((sum, value) => sum + value, 0) / present.length),
        low: at((present) => Math.min(...present)),
        high: at((present) => Math.max(...present)),
      };
    });
    const drawn = curves.filter(({ mean }) => mean.some((value) => value !== null));
    const all = drawn.flatMap(({ low, high }) => [...low, ...high]);
    return all.every((value) => value === null || value === all[0]) ? [] : [{ name, arms: drawn }];
  });
}

/** Centred moving mean over about an eighth of the steps: the tasks of single steps differ. Missing values stay missing. */
function smoothed(values: readonly (number | null)[]): (number | null)[] {
  const half = Math.floor(values.length / 16);
  return values.map((own, i) => {
    if (own === null) return null;
    const near = values.slice(Math.max(0, i - half), i + half + 1).filter((value) => value !== null);
    return near.reduce((sum, value) => sum + value, 0) / near.length;
  });
}
