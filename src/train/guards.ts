/**
 * Guards: detectors of known failures of a reinforcement run. They are pure functions of the metrics so far,
 * so all ranks agree and a resumed run, which reads them from its log, reacts like an uninterrupted one.
 */
import { TimeseerError } from '../ground/errors.ts';
import { mean } from '../ground/numbers.ts';

/** Definition of each guard; w = `rl.guards.window` steps. The metrics of a step list tripped guards by name, under `guards`. */
export const GUARDS = {
  nonFinite: 'an update was left out, because loss or gradient was not finite',
  kl: 'exploding KL: the mean KL per token of this step is above its limit',
  entropy:
    'collapsed entropy: its mean over the last w steps is below the limit × its mean over the first w steps',
  hacking:
    'reward hacking: over the last w steps the accuracy (mean of all reward parts but the format and details of your own rewards) is lower by more than the limit than ' +
    'over the w earlier steps at which it was highest, and the format higher than there',
  width:
    'answers widen: over the last w steps they mark more than limit × as much of the series as the gold answers do',
  reasoning:
    'reasoning worsens: over the last w steps the claim F1 or the agreement of reasoning and answer is lower by more than the limit ' +
    'than over the first w steps, and the reward higher',
  equalRewards: 'all groups had equal rewards in as many steps in a row as the limit says',
} as const;
export type GuardName = keyof typeof GUARDS;

interface GuardOption {
  /** Limit of the measured value; its unit is in `GUARDS`. */
  readonly limit: number;
  readonly reaction: 'ignore' | 'warn' | 'stop';
}

export type GuardOptions = Readonly<Record<GuardName, GuardOption>> & {
  /** Steps that means are taken over. */
  readonly window: number;
};

/** Metrics of a step that guards read; NaN (null in a log) trips none of them. */
export interface GuardedStep {
  readonly skipped: number;
  readonly kl: number | null;
  readonly entropy: number | null;
  readonly parts: Readonly<Record<string, number | null>>;
  /** Mean shares of the series that answers and gold answers mark; null where answers mark nothing. */
  readonly marked: { readonly predicted: number; readonly gold: number } | null;
  readonly equalRewards: number | null;
  /** Absent in logs of earlier versions. */
  readonly reward?: number | null;
  readonly reasoning?: { readonly claimF1: number | null; readonly agreement: number | null } | null;
}

/** A guard that tripped. */
export interface Alarm {
  readonly name: GuardName;
  /** Measured value; null for a guard without one. */
  readonly value: number | null;
}

const finite = (value: number | null | undefined): number => value ?? Number.NaN;

/** Mean of the reward's parts but the format and what those of a user are made of (`name.part`); NaN where there is no other. */
const accuracyOf = ({ parts }: GuardedStep): number =>
  mean(
    Object.entries(parts).flatMap(([name, value]) =>
      name === 'format' || name.includes('.') ? [] : [finite(value)],
    ),
  );

/** Two means of the same values may differ by this. */
const ROUNDING = 1e-9;

/** Means over each `width` values in a row: entry i over values i … i + width − 1. */
function movingMeans(values: readonly number[], width: number): number[] {
  const sums = [0];
  for (const value of values) sums.push(sums.at(-1)! + value);
  return values.slice(width - 1).map((_, i) => (sums[i + width]! - sums[i]!) / width);
}

/** Computes the fall of the accuracy from its highest window, if the format is higher than there; null otherwise. */
function hackingOf(steps: readonly GuardedStep[], window: number): number | null {
  const accuracy = movingMeans(steps.map(accuracyOf), window);
  const format = movingMeans(
    steps.map(({ parts }) => finite(parts['format'])),
    window,
  );
  // Windows that share no step with the last one.
  let best = -1;
  for (let i = 0; i + window < accuracy.length; i++) {
    if (best < 0 || accuracy[i]! > accuracy[best]!) best = i;
  }
  if (best < 0 || !(format.at(-1)! - format[best]! > ROUNDING)) return null;
  return accuracy[best]! - accuracy.at(-1)!;
}

/** Computes the larger fall of claim F1 and agreement from the first window to the last, if the reward rose; null otherwise. */
function reasoningFall(steps: readonly GuardedStep[], window: number): number | null {
  const [first, last] = [steps.slice(0, window), steps.slice(-window)];
  const rise = (of: (step: GuardedStep) => number | null | undefined): number =>
    mean(last.map((step) => finite(of(step)))) - mean(first.map((step) => finite(of(step))));
  if (!(rise(({ reward }) => reward) > ROUNDING)) return null;
  const falls = [
    -rise(({ reasoning }) => reasoning?.claimF1),
    -rise(({ reasoning }) => reasoning?.agreement),
  ].filter((fall) => !Number.isNaN(fall));
  return falls.length === 0 ? null : Math.max(...falls);
}

/** Counts the last steps in which all groups have equal rewards. */
function equalInARow(steps: readonly GuardedStep[]): number {
  return steps.length - 1 - steps.findLastIndex(({ equalRewards }) => equalRewards !== 1);
}

/** Returns the guards that trip at the last step, in the order of `GUARDS`, without ignored ones. */
export function alarmsOf(steps: readonly GuardedStep[], options: GuardOptions): Alarm[] {
  const last = steps.at(-1);
  if (last === undefined) return [];
  const { window } = options;
  const recent = steps.slice(-window);
  const alarms: Alarm[] = [];
  const add = (name: GuardName, trips: boolean, value: number | null): void => {
    if (trips && options[name].reaction !== 'ignore') alarms.push({ name, value });
  };
  add('nonFinite', last.skipped > 0, last.skipped);
  const kl = finite(last.kl);
  add('kl', kl > options.kl.limit, kl);
  if (steps.length >= 2 * window) {
    const entropyOf = (window: readonly GuardedStep[]) => mean(window.map(({ entropy }) => finite(entropy)));
    const share = entropyOf(recent) / entropyOf(steps.slice(0, window));
    add('entropy', share < options.entropy.limit, share);
    const fall = hackingOf(steps, window);
    add('hacking', fall !== null && fall > options.hacking.limit, fall);
    const worse = reasoningFall(steps, window);
    add('reasoning', worse !== null && worse > options.reasoning.limit, worse);
  }
  if (steps.length >= window && recent.every(({ marked }) => marked !== null)) {
    const predicted = mean(recent.map(({ marked }) => marked!.predicted));
    const gold = mean(recent.map(({ marked }) => marked!.gold));
    // Where gold answers mark nothing, any mark is too wide.
    const times = predicted === 0 ? 0 : predicted / gold;
    add('width', times > options.width.limit, times);
  }
  const equal = equalInARow(steps);
  add('equalRewards', equal >= options.equalRewards.limit, equal);
  return alarms;
}

/**
 * Stops the run if a guard with reaction `stop` tripped in step `step`; non-finite updates are counted by
 * `checkSkipped`.
 * @throws TimeseerError that names the guard, its value and limit, and what to do
 */
export function checkAlarms(alarms: readonly Alarm[], options: GuardOptions, step: number): void {
  for (const { name, value } of alarms) {
    if (name === 'nonFinite' || options[name].reaction !== 'stop') continue;
    const key = `rl.guards.${name}`;
    throw new TimeseerError(
      `rl: stopped by the guard ${name} in step ${step}: ${GUARDS[name]} (${value?.toPrecision(3)}, ${key}.limit is ` +
        `${options[name].limit}); the last checkpoint before it can be resumed with other values, as in ` +
        `--resume --set ${key}.reaction=warn --allow-change ${key}.reaction`,
    );
  }
}
