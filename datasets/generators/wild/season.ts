/** Seasons of any period. */
import type { Draft } from './draft.ts';
import { chance } from './draft.ts';
import type { Profile } from './profile.ts';

export interface Season {
  /** Samples. */
  readonly period: number;
  /** Phase of the first sample, in [0, 1). */
  readonly phase: number;
  readonly amplitude: number;
  readonly profile: Profile;
  /** Standard deviation of the size of cycles, relative to their mean; they differ in what cannot be foretold. */
  readonly jitter: number;
}

/** Adds a season to the pattern. */
export function addSeason(draft: Draft, { period, phase, amplitude, profile, jitter }: Season): void {
  const { random, n, pattern, events } = draft;
  let cycle = Number.NaN;
  let extra = 0;
  for (let t = 0; t < n; t++) {
    const place = t / period + phase;
    const value = amplitude * profile(place);
    pattern[t] = pattern[t]! + value;
    if (jitter === 0) continue;
    if (Math.floor(place) !== cycle) {
      cycle = Math.floor(place);
      extra = jitter * random.normal();
    }
    events[t] = events[t]! + extra * value;
  }
  draft.periods.add(period);
}

/** Lets the size of the pattern change slowly: up or down over the whole, or to and fro. */
export function changeAmplitude(draft: Draft): void {
  const { random, n, pattern } = draft;
  const size = random.between(0.25, 0.6) * (chance(random, 0.5) ? -1 : 1);
  const cycles = chance(random, 0.5) ? 0.5 : random.between(0.5, 1.5);
  const at = random.uniform();
  let mean = 0;
  for (let t = 0; t < n; t++) mean += pattern[t]! / n;
  for (let t = 0; t < n; t++) {
    const factor = 1 + size * Math.cos(Math.PI * (2 * cycles * (t / n) + at));
    pattern[t] = mean + factor * (pattern[t]! - mean);
  }
  draft.components.add('changing amplitude');
}
