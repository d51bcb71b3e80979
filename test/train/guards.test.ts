import { describe, expect, test } from 'vitest';
import { TimeseerError } from '../../src/ground/errors.ts';
import { defaultRecipe } from '../../src/recipe/recipe.ts';
import {
  alarmsOf,
  checkAlarms,
  type GuardedStep,
  type GuardOptions,
  guardText,
} from '../../src/train/guards.ts';

const USUAL = defaultRecipe().rl.guards;
const SMALL: GuardOptions = { ...USUAL, window: 3 };

const step = (changes: Partial<GuardedStep> = {}): GuardedStep => ({
  skipped: 0,
  kl: 0.03,
  entropy: 0.13,
  parts: { class: 0.9, localisation: 0.7, format: 0.95 },
  marked: { predicted: 0.11, gold: 0.1 },
  equalRewards: 0.2,
  ...changes,
});
const steps = (count: number, changes: Partial<GuardedStep> = {}): GuardedStep[] =>
  Array.from({ length: count }, () => step(changes));
const names = (list: readonly GuardedStep[], options = SMALL): string[] =>
  alarmsOf(list, options).map(({ name }) => name);

describe('guards', () => {
  test('let a healthy run go on, from its first step', () => {
    for (const count of [0, 1, 2, 3, 6, 40]) expect(names(steps(count))).toEqual([]);
  });

  test('nonFinite: an update was left out', () => {
    expect(alarmsOf([...steps(4), step({ skipped: 2 })], SMALL)).toEqual([{ name: 'nonFinite', value: 2 }]);
    expect(names([step({ skipped: 2 }), step()])).toEqual([]);
  });

  test('kl: above its limit in this very step', () => {
    expect(alarmsOf([step(), step({ kl: 1.2 })], SMALL)).toEqual([{ name: 'kl', value: 1.2 }]);
    expect(names([step({ kl: 1.2 }), step({ kl: 1 })])).toEqual([]);
  });

  test('entropy: below a share of what it was over the first steps, when there are two windows', () => {
    const low = { entropy: 0.02 };
    expect(names([...steps(3), ...steps(2, low)])).toEqual([]);
    expect(names([...steps(3), ...steps(3, low)])).toEqual(['entropy']);
    // One step of the usual entropy among the last three: the mean is 0.43 of the first.
    expect(names([...steps(3), step(), ...steps(2, low)])).toEqual([]);
  });

  test('reasoning: claim F1 or agreement falls while the reward rises', () => {
    const at = (reward: number, claimF1: number | null, agreement: number | null) =>
      steps(3, { reward, reasoning: { claimF1, agreement } });
    expect(alarmsOf([...at(0.7, 0.4, 0.6), ...at(0.8, 0.25, 0.6)], SMALL)).toEqual([
      { name: 'reasoning', value: expect.closeTo(0.15) },
    ]);
    expect(names([...at(0.7, 0.4, 0.6), ...at(0.8, null, 0.4)])).toEqual(['reasoning']);
    expect(names([...at(0.7, 0.4, 0.6), ...at(0.8, 0.35, 0.55)])).toEqual([]);
    // A policy that unlearns altogether is another guard's business.
    expect(names([...at(0.7, 0.4, 0.6), ...at(0.6, 0.2, 0.2)])).toEqual([]);
    expect(names([...steps(3), ...steps(3)])).toEqual([]);
  });

  test('hacking: the format up while the accuracy falls from its best', () => {
    const parts = (accuracy: number, format: number) => ({
      parts: { class: accuracy + 0.1, localisation: accuracy - 0.1, format },
    });
    const rise = [0.5, 0.6, 0.7, 0.8, 0.8, 0.8].map((accuracy) => step(parts(accuracy, 0.9)));
    const fall = (format: number) => steps(3, parts(0.65, format));
    expect(names(rise)).toEqual([]);
    expect(alarmsOf([...rise, ...fall(0.97)], SMALL)).toEqual([
      { name: 'hacking', value: expect.closeTo(0.15, 10) as number },
    ]);
    expect(names([...rise, ...fall(0.9)])).toEqual([]); // worse at everything
    expect(names([...rise, ...steps(3, parts(0.75, 0.97))])).toEqual([]); // within the limit
    expect(names([...rise, ...fall(0.97)], { ...SMALL, hacking: { limit: 0.2, reaction: 'warn' } })).toEqual(
      [],
    );
  });

  test('width: answers mark far more than there is to mark, over a window', () => {
    const wide = { marked: { predicted: 0.24, gold: 0.1 } };
    expect(names([...steps(9), ...steps(2, wide)])).toEqual([]);
    expect(alarmsOf([...steps(9), ...steps(3, wide)], SMALL)).toEqual([
      { name: 'width', value: expect.closeTo(2.4, 10) as number },
    ]);
    expect(names(steps(3, { marked: { predicted: 0.01, gold: 0 } }))).toEqual(['width']);
    expect(names(steps(3, { marked: { predicted: 0, gold: 0 } }))).toEqual([]);
    expect(names(steps(9, { marked: null }))).toEqual([]); // classes mark nothing
  });

  test('equalRewards: the text says what to do, by how many responses are right', () => {
    expect(guardText('equalRewards', 1)).toMatch(/nothing is left to reinforce.*sft\.augment/);
    expect(guardText('equalRewards', 0.1)).toMatch(/train the supervised stage longer/);
    expect(guardText('equalRewards', 0.6)).toMatch(/raise rl\.temperature/);
    expect(guardText('equalRewards', null)).not.toMatch(/;/);
    expect(guardText('equalRewards', 1, SMALL)).toContain('1 step(s) in a row');
    expect(guardText('entropy', 1, SMALL)).toContain('of the last 3 steps is below 0.2 ×');
    const stop: GuardOptions = { ...SMALL, equalRewards: { limit: 1, reaction: 'stop' } };
    const alarms = alarmsOf([step({ equalRewards: 1 })], stop);
    expect(() => checkAlarms(alarms, stop, { step: 1, reward: 1 })).toThrow(/policy\.init=small/);
  });

  test('equalRewards: no group compares anything, for as many steps in a row as the limit says', () => {
    const equal = { equalRewards: 1 };
    expect(names([step(), step(equal)])).toEqual(['equalRewards']);
    const patient: GuardOptions = { ...SMALL, equalRewards: { limit: 3, reaction: 'warn' } };
    expect(names([...steps(2, equal), step(), ...steps(2, equal)], patient)).toEqual([]);
    expect(names([step(), ...steps(3, equal)], patient)).toEqual(['equalRewards']);
    expect(names(steps(3, equal), patient)).toEqual(['equalRewards']);
  });

  test('unrewarded: no reward applies; named at once, and a stop after as many steps as the limit says', () => {
    const none = { reward: Number.NaN, unrewarded: 8, equalRewards: 1 };
    expect(alarmsOf([step({ reward: 1 }), step(none)], SMALL)).toEqual([{ name: 'unrewarded', value: 1 }]);
    const stopAfter = (count: number) => () =>
      checkAlarms(alarmsOf(steps(count, none), SMALL), SMALL, { step: count, reward: Number.NaN });
    expect(stopAfter(2)).not.toThrow();
    expect(stopAfter(3)).toThrow(/guard unrewarded in step 3: no reward: .*timeseer reward check/);
    expect(names([...steps(3, none), step({ reward: 1, unrewarded: 7 })])).toEqual([]);
  });

  test('what is ignored is not named, and what is not a number trips nothing', () => {
    const wild = step({ kl: 9, equalRewards: 1 });
    expect(names([wild], { ...SMALL, kl: { limit: 1, reaction: 'ignore' } })).toEqual(['equalRewards']);
    const none = { kl: null, entropy: null, parts: { class: null, format: null }, equalRewards: null };
    expect(names(steps(8, none))).toEqual([]);
  });

  test('find the same after the steps went through a log', () => {
    const list = [step({ kl: Number.NaN }), ...steps(5), ...steps(3, { entropy: 1e-3, kl: 1.1 })];
    const logged = JSON.parse(JSON.stringify(list)) as GuardedStep[];
    expect(alarmsOf(logged, SMALL)).toEqual(alarmsOf(list, SMALL));
    expect(names(logged)).toEqual(['kl', 'entropy']);
  });

  test('stop a run where they are told to, saying why and how to go on', () => {
    const strict: GuardOptions = { ...SMALL, kl: { limit: 0.5, reaction: 'stop' } };
    const alarms = alarmsOf([step({ kl: 0.75 })], strict);
    expect(() => checkAlarms(alarms, SMALL, { step: 4 })).not.toThrow();
    expect(() => checkAlarms(alarms, strict, { step: 4 })).toThrow(TimeseerError);
    expect(() => checkAlarms(alarms, strict, { step: 4 })).toThrow(
      /guard kl in step 4: exploding KL.*\(0\.75, rl\.guards\.kl\.limit is 0\.5\).*--allow-change rl\.guards\.kl\.reaction/,
    );
  });
});
