/**
 * Guards: detectors of known failures of a reinforcement run. They are pure functions of the metrics so far,
 * so all ranks agree and a resumed run, which reads them from its log, reacts like an uninterrupted one.
 */
import { TimeseerError } from '../ground/errors.ts';
import { mean } from '../ground/numbers.ts';

/** Definition of each guard, with places for its limit and `rl.guards.window`. Step metrics list the tripped guards under `guards`. */
export const GUARDS = {
  nonFinite: 'an update was skipped because its loss or gradient was not finite',
  kl: 'exploding KL: the mean KL per token of this step is above its limit',
  entropy:
    'entropy collapse: the mean entropy of the last {window} steps is below {limit} × that of the first {window}',
  hacking:
    'reward hacking: the mean accuracy of the last {window} steps is more than {limit} below the best of as many earlier ones, ' +
    'while the format reward is higher than it was there (accuracy: mean of the reward parts, without the format and the parts of your own rewards)',
  width:
    'widening answers: over the last {window} steps they mark more than {limit} × the share of the series that gold answers mark',
  reasoning:
    'worsening reasoning: the claim F1, or the agreement of reasoning and answer, is more than {limit} lower in the last {window} ' +
    'steps than in the first {window}, while the reward is higher',
  equalRewards:
    'zero-variance groups: all responses of every group had the same reward, {limit} step(s) in a row',
  unrewarded:
    'no reward: none applies to any response of the step, so that nothing can be reinforced; correct the reward, of which `timeseer reward check` ' +
    'says more',
} as const;
export type GuardName = keyof typeof GUARDS;

interface GuardOption {
  /** Limit of the measured value; its unit is in `GUARDS`. */
  readonly limit: number;
  readonly reaction: 'ignore' | 'warn' | 'stop';
}

export type GuardOptions = Readonly<Record<GuardName, GuardOption>> & {
  /** Number of steps per window. */
  readonly window: number;
};

/** Metrics of a step that guards read; NaN (null in a log) trips none of them, save a missing reward `unrewarded`. */
export interface GuardedStep {
  readonly skipped: number;
  readonly kl: number | null;
  readonly entropy: number | null;
  readonly parts: Readonly<Record<string, number | null>>;
  /** Mean share of the series marked by answers and by gold answers; null for answer kinds without marks. */
  readonly marked: { readonly predicted: number; readonly gold: number } | null;
  readonly equalRewards: number | null;
  /** Absent in logs of earlier versions. */
  readonly reward?: number | null;
  /** Number of responses that no reward applies to. */
  readonly unrewarded?: number;
  readonly reasoning?: { readonly claimF1: number | null; readonly agreement: number | null } | null;
}

/** A guard that tripped. */
export interface Alarm {
  readonly name: GuardName;
  /** Measured value; null for a guard without one. */
  readonly value: number | null;
}

const orNaN = (value: number | null | undefined): number => value ?? Number.NaN;

/** Returns the mean reward part, without `format` and the sub-parts of user rewards (`name.part`); NaN if none is left. */
const accuracyOf = ({ parts }: GuardedStep): number =>
  mean(
    Object.entries(parts).flatMap(([name, value]) =>
      name === 'format' || name.includes('.') ? [] : [orNaN(value)],
    ),
  );

/** Tolerance for rounding: two means of the same values may differ by this much. */
const ROUNDING = 1e-9;

/** Computes moving means: entry i averages values i … i + width − 1. */
function movingMeans(values: readonly number[], width: number): number[] {
  const sums = [0];
  for (const value of values) sums.push(sums.at(-1)! + value);
  return values.slice(width - 1).map((_, i) => (sums[i + width]! - sums[i]!) / width);
}

/** Returns the drop in accuracy from the best earlier window to the last; null unless the format reward rose meanwhile. */
function accuracyDrop(steps: readonly GuardedStep[], window: number): number | null {
  const accuracy = movingMeans(steps.map(accuracyOf), window);
  const format = movingMeans(
    steps.map(({ parts }) => orNaN(parts['format'])),
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

/** Returns the drop in claim F1 or agreement, whichever is larger, from the first window to the last; null unless the reward rose. */
function reasoningDrop(steps: readonly GuardedStep[], window: number): number | null {
  const [first, last] = [steps.slice(0, window), steps.slice(-window)];
  const change = (of: (step: GuardedStep) => number | null | undefined): number =>
    mean(last.map((step) => orNaN(of(step)))) - mean(first.map((step) => orNaN(of(step))));
  if (!(change(({ reward }) => reward) > ROUNDING)) return null;
  const falls = [
    -change(({ reasoning }) => reasoning?.claimF1),
    -change(({ reasoning }) => reasoning?.agreement),
  ].filter((fall) => !Number.isNaN(fall));
  return falls.length === 0 ? null : Math.max(...falls);
}

/** Counts the latest consecutive steps with a property. */
const lastSteps = (steps: readonly GuardedStep[], has: (step: GuardedStep) => boolean): number =>
  steps.length - 1 - steps.findLastIndex((step) => !has(step));

/** Returns true for a step to none of whose responses a reward applies. */
const isUnrewarded = ({ reward, unrewarded = 0 }: GuardedStep): boolean =>
  unrewarded > 0 && Number.isNaN(orNaN(reward));

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
  const kl = orNaN(last.kl);
  add('kl', kl > options.kl.limit, kl);
  if (steps.length >= 2 * window) {
    const entropyOf = (window: readonly GuardedStep[]) => mean(window.map(({ entropy }) => orNaN(entropy)));
    const ratio = entropyOf(recent) / entropyOf(steps.slice(0, window));
    add('entropy', ratio < options.entropy.limit, ratio);
    const fall = accuracyDrop(steps, window);
    add('hacking', fall !== null && fall > options.hacking.limit, fall);
    const reasoningLoss = reasoningDrop(steps, window);
    add('reasoning', reasoningLoss !== null && reasoningLoss > options.reasoning.limit, reasoningLoss);
  }
  if (steps.length >= window && recent.every(({ marked }) => marked !== null)) {
    const predicted = mean(recent.map(({ marked }) => marked!.predicted));
    const gold = mean(recent.map(({ marked }) => marked!.gold));
    // Infinite where gold answers mark nothing: any mark is too wide then.
    const widening = predicted === 0 ? 0 : predicted / gold;
    add('width', widening > options.width.limit, widening);
  }
  const equal = lastSteps(steps, (step) => step.equalRewards === 1 && !isUnrewarded(step));
  add('equalRewards', equal >= options.equalRewards.limit, equal);
  const unrewarded = lastSteps(steps, isUnrewarded);
  add('unrewarded', unrewarded > 0, unrewarded);
  return alarms;
}

/** Mean rewards from which all, and up to which none, of the responses are taken to be right. */
const ALL_RIGHT = 0.98;
const NONE_RIGHT = 0.15;

/**
 * States what a tripped guard means and what to do about it, by the mean reward of the step.
 * @param options where they are known, whose numbers stand in the text in place of the keys
 */
export function guardText(
  name: GuardName,
  reward: number | null | undefined,
  options?: GuardOptions,
): string {
  const text = GUARDS[name]
    .replaceAll('{limit}', String(options?.[name].limit ?? `rl.guards.${name}.limit`))
    .replaceAll('{window}', String(options?.window ?? 'rl.guards.window'));
  if (name !== 'equalRewards' || reward == null) return text;
  const advice =
    reward >= ALL_RIGHT
      ? 'every response is right, so that nothing is left to reinforce: stop here, or train on series without a trace ' +
        '(data.traces) or other data; where held-out accuracy is low, the supervised stage has memorised a small set: train it with ' +
        'sft.augment, from policy.init=small, for fewer sft.samples'
      : reward <= NONE_RIGHT
        ? 'no response is right: train the supervised stage longer (sft.samples) or on better traces first'
        : 'responses to a prompt are alike: raise rl.temperature or rl.group, lower sft.samples, or replace such groups (rl.resample)';
  return `${text}; ${advice}`;
}

/**
 * Stops the run if a guard with reaction `stop` tripped in step `step`; non-finite updates are counted by
 * `checkSkipped`, and steps without a reward stop it once there are as many in a row as the limit.
 * @throws TimeseerError that names the guard, its value and limit, and what to do
 */
export function checkAlarms(
  alarms: readonly Alarm[],
  options: GuardOptions,
  { step, reward }: { readonly step: number; readonly reward?: number | null },
): void {
  for (const { name, value } of alarms) {
    if (name === 'nonFinite' || options[name].reaction !== 'stop') continue;
    if (name === 'unrewarded' && value! < options[name].limit) continue;
    const key = `rl.guards.${name}`;
    throw new TimeseerError(
      `rl: stopped by the guard ${name} in step ${step}: ${guardText(name, reward, options)} (${Number(value?.toPrecision(3))}, ${key}.limit is ` +
        `${options[name].limit}); to go on, resume from the last checkpoint with other values, e.g. ` +
        `--resume --set ${key}.reaction=warn --allow-change ${key}.reaction`,
    );
  }
}
