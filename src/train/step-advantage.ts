/**
 * Step-level advantage estimators: pure functions that map groups of episodes from the same start to one advantage per step, shared by the
 * tokens of its response. `STEP_ADVANTAGES` lists them by name; to add one, add a record to that table.
 *
 * Departures from the releases (verl-agent: `core_gigpo.py`, `core_hgpo.py`, `core_graph.py`):
 *
 *  | release | here |
 *  |---|---|
 *  | duplicates steps to fill the batch before it computes means and deviations | statistics of the real steps alone |
 *  | takes the order of an episode's steps from the batch, which may have been balanced over ranks | an episode is a list |
 *  | gives a group of a single step its raw score, which has no baseline | 0, as GRPO does for a single response |
 *  | float32: the mean of equal values can differ from them; HGPO counts the remainder as a non-zero part | exactly 0 for values within 1e-12 of the mean |
 *  | success is the state text "success", which an observation can repeat or resemble | a node of its own |
 *  | any positive reward is a success | the environment says which episodes succeed |
 *  | similar states are equal in GiGPO's groups and GraphGPO's graph only, not in HGPO's and GraphGPO's groups | equal wherever states are compared |
 *  | statistics over all agents | over the steps of the same role (Dr. MAS, arXiv 2602.08847) |
 */
import type { Choice } from '../ground/choice.ts';
import { ConfigError, DataError } from '../ground/errors.ts';
import { getOrMake } from '../ground/maps.ts';
import { mean, sum } from '../ground/numbers.ts';

export interface EpisodeStep {
  /** State before the action; equal texts are the same state. */
  readonly state: string;
  /** State after the action. */
  readonly next: string;
  /** Reward of the environment, without the penalty of invalid actions. */
  readonly reward: number;
  readonly isValid: boolean;
  /** Reward of the step alone, such as that of AgentOCR's compression: part of its score beside that of the episode, not of returns. Default: 0. */
  readonly bonus?: number;
  /** Agent that acted; statistics are per role. */
  readonly role?: string;
}

export interface Episode {
  readonly steps: readonly EpisodeStep[];
  readonly success: boolean;
}

export interface StepAdvantageOptions {
  /** Discount factor γ in (0, 1]: of the returns (GiGPO and HGPO), or per step of distance to success (GraphGPO). Default: the estimator's. */
  readonly gamma?: number;
  /** Weight ω of the step part beside the episode part (GiGPO and GraphGPO). Default: 1. */
  readonly stepWeight?: number;
  /** x − mean, or that over the standard deviation + 1e-6. Default: the estimator's. */
  readonly normaliser?: 'mean' | 'mean_std';
  /** Least similarity of texts (difflib's ratio, in (0, 1]) that count as the same state; the releases use 0.95. Default: 1, equal texts. */
  readonly similarity?: number;
  /** Number K of earlier states that HGPO compares at most. Default: 2. */
  readonly history?: number;
  /** Exponent α of HGPO's weights: higher ones favour groups with a longer common history. Default: 1. */
  readonly alpha?: number;
  /** True adds the advantage of the episode: GiGPO's and GraphGPO's first part, HGPO's k = 0. Default: the estimator's. */
  readonly episode?: boolean;
  /** True takes GraphGPO's value from the change of distance by the step, false from the distance after it. Default: false. */
  readonly normalizeDistance?: boolean;
  /** Cost of an invalid action. Default: 0.1. */
  readonly invalidPenalty?: number;
}

type Defaults = Required<Pick<StepAdvantageOptions, 'gamma' | 'normaliser' | 'episode'>>;
type Settings = Required<StepAdvantageOptions>;

const STD_EPSILON = 1e-6;
const WEIGHT_EPSILON = 1e-6;
/** Differences from the mean below this, relative to the largest value, are rounding noise. */
const ROUNDING = 1e-12;
/** GraphGPO's value of a step into success. */
const SUCCESS_VALUE = 10;

// ---- states --------------------------------------------------------------------------------------------------------

/**
 * Ratio 2·M / T of Python's `difflib.SequenceMatcher(None, a, b)`: M characters in matching blocks, T characters in all. Asymmetric, as
 * difflib is: where ties are, the earliest block wins, and characters that make up over 1 % of a `b` of 200 or more start no block.
 */
export function textSimilarity(first: string, second: string): number {
  const [a, b] = [Array.from(first), Array.from(second)];
  const places = new Map<string, number[]>();
  b.forEach((letter, j) => {
    getOrMake(places, letter, () => []).push(j);
  });
  if (b.length >= 200) {
    const limit = Math.floor(b.length / 100) + 1;
    for (const [letter, found] of places) if (found.length > limit) places.delete(letter);
  }
  let matches = 0;
  const ranges = [[0, a.length, 0, b.length]];
  for (let range = ranges.pop(); range !== undefined; range = ranges.pop()) {
    const [aLow, aHigh, bLow, bHigh] = range as [number, number, number, number];
    let [i, j, size] = [aLow, bLow, 0];
    let lengths = new Map<number, number>(); // length of the match that ends before b's j, for the present row of a
    for (let row = aLow; row < aHigh; row++) {
      const next = new Map<number, number>();
      for (const column of places.get(a[row]!) ?? []) {
        if (column < bLow || column >= bHigh) continue;
        const length = (lengths.get(column - 1) ?? 0) + 1;
        next.set(column, length);
        if (length > size) [i, j, size] = [row - length + 1, column - length + 1, length];
      }
      lengths = next;
    }
    while (i > aLow && j > bLow && a[i - 1] === b[j - 1]) [i, j, size] = [i - 1, j - 1, size + 1];
    while (i + size < aHigh && j + size < bHigh && a[i + size] === b[j + size]) size++;
    if (size === 0) continue;
    matches += size;
    ranges.push([aLow, i, bLow, j], [i + size, aHigh, j + size, bHigh]);
  }
  return a.length + b.length === 0 ? 1 : (2 * matches) / (a.length + b.length);
}

/** Returns a function from texts to state numbers. A text belongs to the first earlier state that it is similar to, else to a new one. */
function stateNumbers(similarity: number): (text: string) => number {
  const numbers = new Map<string, number>();
  const states: string[] = [];
  return (text) =>
    getOrMake(numbers, text, () => {
      const like =
        similarity < 1 ? states.findIndex((state) => textSimilarity(text, state) >= similarity) : -1;
      return like < 0 ? states.push(text) - 1 : like;
    });
}

interface StateGraph {
  readonly numberOf: (text: string) => number;
  /** Steps to success; for a state without a path, the largest finite distance + 1. */
  readonly distanceOf: (text: string) => number;
}

function stateGraph(episodes: readonly Episode[], similarity: number): StateGraph {
  const numberOf = stateNumbers(similarity);
  const before = new Map<number, number[]>();
  let frontier: number[] = [];
  for (const { steps, success } of episodes) {
    steps.forEach(({ state, next }, t) => {
      const from = numberOf(state);
      if (success && t === steps.length - 1) frontier.push(from);
      else getOrMake(before, numberOf(next), () => []).push(from);
    });
  }
  const distances = new Map<number, number>();
  let distance = 0;
  while (frontier.length > 0) {
    distance++;
    const reached = new Set(frontier.filter((state) => !distances.has(state)));
    for (const state of reached) distances.set(state, distance);
    frontier = [...reached].flatMap((state) => before.get(state) ?? []);
  }
  const far = Math.max(0, ...distances.values()) + 1;
  return { numberOf, distanceOf: (text) => distances.get(numberOf(text)) ?? far };
}

/**
 * GraphGPO's estimate of the number of steps from each state of a task group to success: the shortest path in the graph of all its
 * episodes. States without a path get the largest finite distance + 1 (1 if no episode succeeds).
 */
export function estimatedDistances(episodes: readonly Episode[]): Map<string, number> {
  const { distanceOf } = stateGraph(episodes, 1);
  const texts = episodes.flatMap(({ steps, success }) =>
    steps.flatMap(({ state, next }, t) => (success && t === steps.length - 1 ? [state] : [state, next])),
  );
  return new Map(texts.map((text) => [text, distanceOf(text)]));
}

// ---- statistics ----------------------------------------------------------------------------------------------------

/** x − mean; exactly 0 for values that equal the mean but for rounding. */
function centred(values: readonly number[]): number[] {
  const centre = mean(values);
  const noise = ROUNDING * values.reduce((most, value) => Math.max(most, Math.abs(value)), 0);
  return values.map((value) => (Math.abs(value - centre) <= noise ? 0 : value - centre));
}

/** Normalises the values with the same key together; a value alone gets 0. `freedom` is subtracted from the count in the variance. */
function normalisedBy(
  keys: readonly string[],
  values: readonly number[],
  normaliser: Settings['normaliser'],
  freedom = 1,
): number[] {
  const members = new Map<string, number[]>();
  keys.forEach((key, i) => {
    getOrMake(members, key, () => []).push(i);
  });
  const out = values.map(() => 0);
  for (const indices of members.values()) {
    const differences = centred(indices.map((i) => values[i]!));
    const variance = sum(differences.map((value) => value * value)) / Math.max(1, indices.length - freedom);
    const scale = normaliser === 'mean' ? 1 : Math.sqrt(variance) + STD_EPSILON;
    indices.forEach((i, k) => {
      out[i] = differences[k]! / scale;
    });
  }
  return out;
}

// ---- estimators ----------------------------------------------------------------------------------------------------

/** Step of a group, in the order of its episodes. */
interface Sample {
  readonly step: EpisodeStep;
  readonly role: string;
  readonly episode: number;
  /** Place in the episode. */
  readonly at: number;
  /** Penalty of the step: 0 if valid. */
  readonly penalty: number;
  readonly bonus: number;
}

const key = (...parts: readonly (string | number)[]): string => JSON.stringify(parts);
const total = ({ steps }: Episode): number => sum(steps.map(({ reward }) => reward));

/**
 * Advantage of the episode on each of its steps: its total reward, less the penalty of that step and with its bonus, normalised over the
 * steps of the group, so that long episodes weigh more.
 */
function episodePart(samples: readonly Sample[], group: readonly Episode[], settings: Settings): number[] {
  const totals = group.map(total);
  return normalisedBy(
    samples.map(({ role }) => key(role)),
    samples.map(({ episode, penalty, bonus }) => totals[episode]! - penalty + bonus),
    settings.normaliser,
  );
}

/** Discounted return R_t = Σ_{k ≥ t} γ^{k−t} r_k of each step, less its penalty. */
function returns(samples: readonly Sample[], { gamma }: Settings): number[] {
  const out: number[] = [];
  for (let i = samples.length - 1; i >= 0; i--) {
    const isLast = samples[i + 1]?.episode !== samples[i]!.episode;
    out[i] = samples[i]!.step.reward + (isLast ? 0 : gamma * out[i + 1]!);
  }
  return out.map((value, i) => value - samples[i]!.penalty);
}

/** A^E + ω·A^S, with the values of the steps normalised among those in the same state. */
function withStepPart(
  samples: readonly Sample[],
  group: readonly Episode[],
  settings: Settings,
  numberOf: (text: string) => number,
  values: readonly number[],
): number[] {
  const keys = samples.map(({ role, step }) => key(role, numberOf(step.state)));
  const stepPart = normalisedBy(keys, values, settings.normaliser);
  const base = settings.episode ? episodePart(samples, group, settings) : samples.map(() => 0);
  return base.map((value, i) => value + settings.stepWeight * stepPart[i]!);
}

type Estimate = (samples: readonly Sample[], group: readonly Episode[], settings: Settings) => number[];

/** Normalises the reward of an episode, less its penalties and with its mean bonus, over the episodes in which the role acts: each counts once. */
const grpo: Estimate = (samples, group, { normaliser }) => {
  const scores = group.map(total);
  for (const { episode, penalty, bonus } of samples) {
    scores[episode]! += bonus / group[episode]!.steps.length - penalty;
  }
  const turns = new Map(samples.map((sample) => [key(sample.role, sample.episode), sample]));
  const acting = [...turns.values()];
  const advantages = normalisedBy(
    acting.map(({ role }) => key(role)),
    acting.map(({ episode }) => scores[episode]!),
    normaliser,
  );
  const byTurn = new Map([...turns.keys()].map((turn, i) => [turn, advantages[i]!]));
  return samples.map(({ role, episode }) => byTurn.get(key(role, episode))!);
};

const gigpo: Estimate = (samples, group, settings) =>
  withStepPart(samples, group, settings, stateNumbers(settings.similarity), returns(samples, settings));

/**
 * Weighted mean over k of the returns normalised among the steps with the same last k states, k = 1 … min(K, t) + 1, standard deviation of n:
 * w_k ∝ (k + 1)^α over the k whose value is not 0.
 */
const hgpo: Estimate = (samples, group, settings) => {
  const { history, alpha, normaliser, similarity } = settings;
  const values = returns(samples, settings);
  const numberOf = stateNumbers(similarity);
  const states = samples.map(({ step }) => numberOf(step.state));
  const levels = settings.episode ? [{ weight: 1, part: episodePart(samples, group, settings) }] : [];
  for (let k = 1; k <= history + 1; k++) {
    // A step with fewer than k states has a key of its own, and thus no part.
    const keys = samples.map(({ role, at }, i) =>
      at + 1 < k ? key('', i, 'short') : key(role, ...states.slice(i + 1 - k, i + 1)),
    );
    levels.push({ weight: (k + 1) ** alpha, part: normalisedBy(keys, values, normaliser, 0) });
  }
  return samples.map((_, i) => {
    const present = levels.filter(({ part }) => part[i] !== 0);
    const weights = sum(present.map(({ weight }) => weight)) + WEIGHT_EPSILON;
    return sum(present.map(({ weight, part }) => (weight / weights) * part[i]!));
  });
};

/** Values 10·γ^d(next), or 10·γ^(d(next) − d(state) + 1), less the penalty, in the place of GiGPO's returns. */
const graphgpo: Estimate = (samples, group, settings) => {
  const { numberOf, distanceOf } = stateGraph(group, settings.similarity);
  const values = samples.map(({ step, episode, at, penalty }) => {
    const { steps, success } = group[episode]!;
    const after = success && at === steps.length - 1 ? 0 : distanceOf(step.next);
    const exponent = settings.normalizeDistance ? after - distanceOf(step.state) + 1 : after;
    return SUCCESS_VALUE * settings.gamma ** exponent - penalty;
  });
  return withStepPart(samples, group, settings, numberOf, values);
};

export const STEP_ADVANTAGES = {
  grpo: {
    label: 'GRPO over episodes',
    summary: 'reward of the episode, normalised over the episodes of the group, on each of its steps',
    paper: 'Shao et al. 2024, arXiv 2402.03300',
    defaults: { gamma: 1, normaliser: 'mean_std', episode: true },
    estimate: grpo,
  },
  gigpo: {
    label: 'GiGPO',
    summary: 'advantage of the episode plus that of the return among the steps in the same state',
    paper: 'Feng et al. 2025, arXiv 2505.10978',
    defaults: { gamma: 0.95, normaliser: 'mean', episode: true },
    estimate: gigpo,
  },
  hgpo: {
    label: 'HGPO',
    summary: 'weighted advantages of the return among the steps with the same last 1 to K + 1 states',
    paper: 'arXiv 2602.22817',
    defaults: { gamma: 0.95, normaliser: 'mean_std', episode: false },
    estimate: hgpo,
  },
  graphgpo: {
    label: 'GraphGPO',
    summary:
      'advantage of the episode plus that of the distance to success, in the graph of all episodes, among the steps in the same state',
    paper: 'arXiv 2605.26684',
    defaults: { gamma: 0.1, normaliser: 'mean_std', episode: true },
    estimate: graphgpo,
  },
} as const satisfies Readonly<
  Record<string, Choice & { readonly defaults: Defaults; readonly estimate: Estimate }>
>;

export type StepAdvantageName = keyof typeof STEP_ADVANTAGES;

/** Fills in the defaults. @throws ConfigError naming the option */
function settingsOf(defaults: Defaults, options: StepAdvantageOptions): Settings {
  const given = Object.fromEntries(Object.entries(options).filter(([, value]) => value !== undefined));
  const settings: Settings = {
    ...{ stepWeight: 1, similarity: 1, history: 2, alpha: 1, normalizeDistance: false, invalidPenalty: 0.1 },
    ...defaults,
    ...given,
  };
  const rules = [
    ['gamma', 'a number in (0, 1]', (value: number) => value > 0 && value <= 1],
    ['similarity', 'a number in (0, 1]', (value: number) => value > 0 && value <= 1],
    ['stepWeight', 'a number of at least 0', (value: number) => value >= 0 && value < Infinity],
    ['invalidPenalty', 'a number of at least 0', (value: number) => value >= 0 && value < Infinity],
    ['alpha', 'a number of at least 0', (value: number) => value >= 0 && value < Infinity],
    ['history', 'a whole number of at least 0', (value: number) => value >= 0 && Number.isInteger(value)],
  ] as const;
  for (const [name, expected, isGood] of rules) {
    if (!isGood(settings[name])) {
      throw new ConfigError(`step advantage: ${name}: expected ${expected}, got ${settings[name]}`);
    }
  }
  return settings;
}

/**
 * Returns one advantage per step: [groups][episodes][steps]. A group holds the episodes from the same start; they may differ in length.
 * @throws ConfigError for an option out of range
 * @throws DataError for a reward that is not a finite number
 */
export function estimateSteps(
  name: StepAdvantageName,
  groups: readonly (readonly Episode[])[],
  options: StepAdvantageOptions = {},
): number[][][] {
  const { defaults, estimate } = STEP_ADVANTAGES[name];
  const settings = settingsOf(defaults, options);
  return groups.map((group, g) => {
    const samples = group.flatMap(({ steps }, episode) =>
      steps.map((step, at): Sample => {
        const { reward, bonus = 0 } = step;
        if (!Number.isFinite(reward + bonus)) {
          const where = `group ${g}, episode ${episode}, step ${at}`;
          throw new DataError(`${where}: reward: expected a finite number, got ${reward + bonus}`);
        }
        const penalty = step.isValid ? 0 : settings.invalidPenalty;
        return { step, role: step.role ?? '', episode, at, penalty, bonus };
      }),
    );
    const advantages = estimate(samples, group, settings);
    let next = 0;
    return group.map(({ steps }) => steps.map(() => advantages[next++]!));
  });
}
