/**
 * "What moved?" over many series: npm run bench -- moved [--series N] [--rounds N] [--seed N] [--size X] [--json]
 *
 * Series of eight kinds with 2000 samples each, of which five change inside the window: in level, noise, a burst, or a standstill. Told are
 * the share of these among the first ten, the unchanged ones that are reported, and processor time and memory.
 */
import { pathToFileURL } from 'node:url';
import { parseArgs } from 'node:util';
import { moved } from '../../src/detect/moved.ts';
import { Random } from '../../src/ground/random.ts';
import { quantileInPlace } from '../../src/series/stats.ts';

const LENGTH = 2000;
const DAY = 288;
const KINDS = ['flat', 'season', 'walk', 'ar', 'heavy', 'count', 'season and walk', 'steps'] as const;
const CHANGES = ['level', 'noise', 'burst', 'standstill'] as const;
/** Kinds whose level moves by itself: a change has to be larger to be one. */
const MOVING: ReadonlySet<string> = new Set(['walk', 'ar', 'season and walk', 'steps']);

interface Made {
  readonly kind: (typeof KINDS)[number];
  /** Null where nothing changes. */
  readonly change: (typeof CHANGES)[number] | null;
  readonly values: Float64Array;
}

/** A series of one kind; values in arbitrary units. */
function madeSeries(kind: Made['kind'], random: Random): Float64Array {
  const [size, phase] = [random.between(5, 25), random.uniform()];
  let [walk, ar, level] = [0, 0, 100];
  return Float64Array.from({ length: LENGTH }, (_, i) => {
    const angle = 2 * Math.PI * (i / DAY + phase);
    const day = size * (Math.sin(angle) + 0.4 * Math.sin(2 * angle));
    const noise = random.normal();
    walk += 0.3 * noise;
    ar = 0.95 * ar + 0.3 * noise;
    if (random.uniform() < 0.003) level = random.between(60, 140);
    const peak = random.uniform() < 0.01 ? random.between(3, 7) : 1;
    return {
      flat: 100 + noise,
      season: 100 + day + noise,
      walk: 100 + walk,
      ar: 100 + ar,
      heavy: peak * Math.exp(3 + 0.5 * noise),
      count: Math.max(0, Math.round(8 + 4 * Math.sin(angle) + 2.5 * noise)),
      'season and walk': 100 + day + 0.7 * walk + random.normal(),
      steps: level + noise,
    }[kind];
  });
}

/**
 * Series of all kinds, of which `changed` change inside [start, end).
 * @param size of the changes; 1: one and a half interquartile ranges or six usual steps, up to twice as much
 */
export function madeCase(
  seed: number,
  {
    series,
    changed,
    window: [start, end],
    size = 1,
  }: { series: number; changed: number; window: readonly [number, number]; size?: number },
): Made[] {
  const random = new Random(seed, 'moved');
  const places = new Set<number>();
  while (places.size < changed) places.add(random.integer(0, series - 1));
  return Array.from({ length: series }, (_, k) => {
    const kind = KINDS[k % KINDS.length]!;
    const values = madeSeries(kind, random);
    if (!places.has(k)) return { kind, change: null, values };
    const quantile = (list: Float64Array, q: number): number => quantileInPlace(list.slice(), list.length, q);
    const step = quantile(
      values.subarray(1).map((value, i) => Math.abs(value - values[i]!)),
      0.5,
    );
    const range = quantile(values, 0.75) - quantile(values, 0.25);
    const far = size * random.between(1, 2) * Math.max(6 * step, (MOVING.has(kind) ? 2.5 : 1.5) * range);
    const change = random.pick(CHANGES);
    const sign = random.uniform() < 0.5 ? -1 : 1;
    const held = values[start]!;
    for (let i = start; i < end; i++) {
      if (change === 'level') values[i]! += sign * far;
      if (change === 'noise') values[i]! += far * random.normal();
      if (change === 'burst' && i < start + Math.max(3, (end - start) / 6)) values[i]! += 1.5 * far;
      if (change === 'standstill') values[i] = held;
    }
    return { kind, change, values };
  });
}

/** Ranks the series of a case, most severe first. */
export function ranked(made: readonly Made[], window: readonly [number, number]) {
  return made
    .map((one) => ({
      ...one,
      severity:
        moved(one.values, window, { calendar: [12, DAY, 7 * DAY], severity: 1 }).findings[0]?.severity ?? 0,
    }))
    .sort((a, b) => b.severity - a.severity);
}

if (import.meta.url === pathToFileURL(process.argv[1] ?? '').href) {
  const { values: args } = parseArgs({
    options: {
      ...{ series: { type: 'string', default: '1000' }, rounds: { type: 'string', default: '8' } },
      ...{ seed: { type: 'string', default: '1' }, size: { type: 'string', default: '1' } },
      json: { type: 'boolean', default: false },
    },
    allowPositionals: true,
    strict: false,
  });
  const [series, rounds, seed, size] = [args.series, args.rounds, args.seed, args.size].map(Number) as [
    number,
    number,
    number,
    number,
  ];
  let [first, reported] = [0, 0];
  const missed: string[] = [];
  const began = process.cpuUsage();
  for (let round = 0; round < rounds; round++) {
    const length = [12, 36, 72, 144][round % 4]!;
    const end = LENGTH - 37 * round;
    const window = [end - length, end] as const;
    const list = ranked(madeCase(1000 * seed + round, { series, changed: 5, window, size }), window);
    for (const [rank, { kind, change, severity }] of list.entries()) {
      if (change === null) reported += Number(severity >= 2);
      else if (rank < 10) first++;
      else missed.push(`${change} of ${kind}, ${length} samples`);
    }
  }
  const { user, system } = process.cpuUsage(began);
  const result = {
    ...{ series, rounds, seed, size, share: first / (5 * rounds), reported: reported / rounds, missed },
    ...{
      milliseconds: (user + system) / 1000 / rounds / series,
      megabytes: process.memoryUsage.rss() / 2 ** 20,
    },
  };
  console.log(
    args.json
      ? JSON.stringify(result)
      : `${first} of ${5 * rounds} changed series among the first ten of ${series}; ${result.reported.toFixed(1)} unchanged ones reported a round; ` +
          `${result.milliseconds.toFixed(1)} ms of processor time a series, ${result.megabytes.toFixed(0)} MiB${missed.map((one) => `\n  missed: ${one}`).join('')}`,
  );
}
