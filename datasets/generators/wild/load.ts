/** Loads of machines: jobs by the clock, devices that switch, levels that change and come back, bursts and single values far out. */
import { chance, type Draft, logBetween } from './draft.ts';

/** Adds a job of `width` samples every `period` samples, of about the same height each time. */
export function addJobs(
  draft: Draft,
  { period, width, height }: { readonly period: number; readonly width: number; readonly height: number },
): void {
  const { random, n, pattern, events } = draft;
  const jitter = chance(random, 0.5) ? 0.08 : 0;
  const fades = chance(random, 0.3);
  for (let start = Math.floor(period * random.between(-0.5, 0.5)); start < n; start += period) {
    const extra = jitter * random.normal();
    for (let k = 0; k < width; k++) {
      const t = Math.round(start) + k;
      if (t < 0 || t >= n) continue;
      const value = height * (fades ? 1 - k / width : 1);
      pattern[t] = pattern[t]! + value;
      events[t] = events[t]! + extra * value;
    }
  }
  draft.periods.add(period);
  draft.components.add('jobs');
}

/** Adds a job that is rare but regular: three to six times in the series. */
export function addRareJobs(draft: Draft, height: number): void {
  const { random, n } = draft;
  const period = Math.floor(n / random.between(3.2, 6.5));
  addJobs(draft, { period, width: Math.max(1, Math.round(n * random.between(0.001, 0.02))), height });
  draft.components.add('rare jobs');
}

/** Adds a device that is on and off for times that vary; at least six switches are likely. */
export function addSwitching(draft: Draft, height: number): void {
  const { random, n, events } = draft;
  const [on, off] = [logBetween(random, 3, n / 10), logBetween(random, 3, n / 10)];
  const stages = chance(random, 0.25) ? 3 : 1;
  let state = chance(random, on / (on + off)) ? 1 : 0;
  let until = 0;
  let value = 0;
  for (let t = 0; t < n; t++) {
    if (t >= until) {
      state = 1 - state;
      until = t + Math.max(2, (state === 1 ? on : off) * (0.4 + 0.6 * random.exponential(1)));
      value = state === 0 ? 0 : (height * random.integer(1, stages)) / stages;
    }
    events[t] = events[t]! + value;
  }
  draft.components.add('on-off');
}

/** Lets the level go between two or three that all come again: four to nine stretches. */
export function addRegimes(draft: Draft, height: number): void {
  const { random, n, events } = draft;
  const levels = chance(random, 0.7) ? [0, 1] : [0, 0.5, 1];
  const count = random.integer(Math.max(4, 2 * levels.length), 9);
  const parts = Array.from({ length: count }, () => random.between(0.4, 1.6));
  const total = parts.reduce((sum, part) => sum + part, 0);
  const ramp = Math.max(1, Math.round(n * random.between(0, 0.008)));
  const first = random.integer(0, levels.length - 1);
  let begin = 0;
  let before = height * levels[first]!;
  for (const [k, part] of parts.entries()) {
    const end = k === count - 1 ? n : begin + Math.round((n * part) / total);
    const value = height * levels[(first + k) % levels.length]!;
    for (let t = begin; t < Math.min(n, end); t++) {
      events[t] = events[t]! + before + (value - before) * Math.min(1, (t - begin + 1) / ramp);
    }
    begin = end;
    before = value;
  }
  draft.components.add('regimes');
}

/**
 * Adds bursts at random times: each begins at once and dies away. They are usual in this series: there are many, and the highest is not the
 * only one of its height.
 */
export function addBursts(draft: Draft, height: number): void {
  const { random, n, events } = draft;
  const every = logBetween(random, Math.max(8, n / 80), n / 16);
  const fade = chance(random, 0.5) ? 0.5 : logBetween(random, 1, Math.max(2, n / 150));
  for (let at = every * random.exponential(1); at < n; at += every * random.exponential(1)) {
    const size = height * Math.min(1.5, 0.5 * (1 - random.uniform()) ** -0.5);
    for (let t = Math.floor(at), k = 0; t < n && k < 6 * fade + 1; t++, k++) {
      events[t] = events[t]! + size * Math.exp(-k / fade);
    }
  }
  draft.components.add('bursts');
}

/** Adds single values far out, at random times, one in 12 to 150 samples: where they are usual, one more is no anomaly. */
export function addOutliers(draft: Draft, height: number): void {
  const { random, n, events } = draft;
  const share = Math.max(8 / n, logBetween(random, 0.007, 0.08));
  const direction = random.pick([1, 1, 1, -1, 0]);
  for (let t = random.exponential(1 / share); t < n; t += 1 + random.exponential(1 / share)) {
    const side = direction === 0 ? (chance(random, 0.5) ? 1 : -1) : direction;
    const i = Math.floor(t);
    events[i] = events[i]! + side * height * (1 - 0.7 * random.uniform() ** 2);
  }
  draft.components.add('outliers');
}
