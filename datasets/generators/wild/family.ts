/** Families of series: one function for each kind of source that recordings come from. */
import type { Random } from '../../../src/ground/random.ts';
import {
  addBursts,
  addCalendar,
  addDrift,
  addJobs,
  addNoise,
  addOutliers,
  addPulses,
  addRareJobs,
  addRegimes,
  addSeason,
  addSwitching,
  addTrend,
  addWalk,
  anyProfile,
  anyWave,
  changeAmplitude,
} from './components.ts';
import {
  anyClock,
  anyPeriod,
  type Clock,
  calendarClock,
  calendarPeriods,
  chance,
  type Draft,
  emptyDraft,
  logBetween,
} from './draft.ts';
import { makeSensor, type Sensor } from './sensor.ts';

interface Family {
  readonly weight: number;
  readonly clock: (random: Random, n: number) => Clock;
  readonly fill: (draft: Draft) => Sensor;
}

/** A fixed number, or a draw. */
type Draw = number | ((random: Random) => number);
const drawn = (random: Random, draw: Draw): number => (typeof draw === 'number' ? draw : draw(random));
const between =
  (low: number, high: number): Draw =>
  (random) =>
    random.between(low, high);

/** Adds a season of any profile; draws its phase, amplitude, profile and jitter in this order. */
function addCycle(
  draft: Draft,
  component: 'season' | 'second season',
  period: number,
  amplitude: Draw,
  jitter: Draw,
): void {
  const { random } = draft;
  draft.components.add(component);
  addSeason(draft, {
    period,
    phase: random.uniform(),
    amplitude: drawn(random, amplitude),
    profile: anyProfile(random),
    jitter: drawn(random, jitter),
  });
}

/** Adds a trend or a drift to some of the series. */
function maybeSlow(draft: Draft, share: number, size = 1): void {
  const { random } = draft;
  if (!chance(random, share)) return;
  const reach = size * logBetween(random, 0.1, 1.5);
  if (chance(random, 0.5)) addTrend(draft, reach);
  else addDrift(draft, reach);
}

/** The demand of people: days, weeks, holidays. */
function demand(draft: Draft): Sensor {
  const { random } = draft;
  const kind = random.weighted([0.35, 0.35, 0.3]);
  addCalendar(draft, 1, chance(random, 0.7) ? random.between(0.02, 0.12) : 0);
  maybeSlow(draft, 0.35, 0.8);
  if (chance(random, 0.12)) changeAmplitude(draft);
  if (chance(random, 0.1)) addRareJobs(draft, random.between(0.3, 0.9));
  if (chance(random, 0.15)) addBursts(draft, random.between(0.1, 0.5));
  if (chance(random, 0.12)) addOutliers(draft, random.between(0.3, 0.9));
  addNoise(draft, logBetween(random, 0.006, kind === 0 ? 0.08 : 0.2));
  if (kind === 0) {
    return makeSensor(draft, {
      counts: { rate: logBetween(random, 6, 20_000), clumped: chance(random, 0.6) },
    });
  }
  return makeSensor(draft, kind === 1 ? { positive: true } : { gain: random.between(0.6, 2.2) });
}

/** Processors, memory, disks: a base load, jobs by the clock, outliers, levels that come and go. */
function machine(draft: Draft): Sensor {
  const { random, n } = draft;
  const cycle = calendarPeriods(draft);
  const period = (): number =>
    cycle.length > 0 && chance(random, 0.7) ? cycle[0]! : Math.round(anyPeriod(random, n));
  if (chance(random, 0.55)) {
    const every = period();
    const width = Math.max(1, Math.round(every * random.between(0.01, 0.2)));
    addJobs(draft, { period: every, width, height: random.between(0.4, 1) });
    if (chance(random, 0.3)) {
      addJobs(draft, {
        period: Math.max(4, Math.round(every / random.integer(2, 8))),
        width: 1,
        height: random.between(0.1, 0.5),
      });
    }
  }
  if (chance(random, 0.2)) addCycle(draft, 'season', period(), between(0.3, 1), 0.1);
  if (chance(random, 0.2)) addRareJobs(draft, random.between(0.6, 1.6));
  if (chance(random, 0.2)) addRegimes(draft, random.between(0.3, 1.2));
  if (chance(random, 0.45)) addOutliers(draft, logBetween(random, 0.5, 4));
  if (chance(random, 0.2)) addBursts(draft, random.between(0.3, 1));
  maybeSlow(draft, 0.25, 0.5);
  addNoise(draft, logBetween(random, 0.003, 0.25));
  return makeSensor(draft, { percent: chance(random, 0.6), positive: true, coarse: 0.3 });
}

/** Bytes, prices of advertisements, latencies: sizes that multiply, bursts over a floor. */
function traffic(draft: Draft): Sensor {
  const { random } = draft;
  const [day] = calendarPeriods(draft);
  if (day !== undefined && chance(random, 0.5)) addCycle(draft, 'season', day, between(0.2, 0.8), 0.05);
  if (chance(random, 0.6)) addBursts(draft, random.between(0.4, 1.5));
  if (chance(random, 0.45)) addOutliers(draft, random.between(0.8, 2.5));
  if (chance(random, 0.25)) addRareJobs(draft, random.between(0.6, 1.6));
  maybeSlow(draft, 0.2, 0.4);
  addNoise(draft, logBetween(random, 0.03, 0.3));
  return makeSensor(draft, { gain: random.between(0.8, 2.5), coarse: 0.15 });
}

/** Temperatures, pressures, levels: something that wanders, a day in it, fine noise, rounded readings. */
function gauge(draft: Draft): Sensor {
  const { random } = draft;
  const [day, week] = calendarPeriods(draft);
  const walks = chance(random, 0.75);
  if (walks) addWalk(draft, logBetween(random, 0.15, 1.2));
  if (day !== undefined && (!walks || chance(random, 0.7))) {
    addCycle(draft, 'season', day, between(0.3, 1), between(0, 0.15));
  }
  if (week !== undefined && chance(random, 0.3)) {
    addCycle(draft, 'second season', week, between(0.2, 0.6), 0.05);
  }
  maybeSlow(draft, 0.4, 1);
  addNoise(draft, logBetween(random, 0.004, 0.08));
  return makeSensor(draft, { coarse: 0.35 });
}

/** Things that happen: few or many, at a rate that rests, swings, or comes in clumps. */
function occurrences(draft: Draft): Sensor {
  const { random, n } = draft;
  const cycles = calendarPeriods(draft);
  if (chance(random, 0.6)) {
    addCycle(draft, 'season', cycles[0] ?? anyPeriod(random, n), 1, 0.1);
  }
  if (chance(random, 0.45)) addBursts(draft, random.between(0.5, 3));
  maybeSlow(draft, 0.3, 0.6);
  addNoise(draft, 0.02, { even: true, light: true });
  return makeSensor(draft, { counts: { rate: logBetween(random, 0.8, 300), clumped: chance(random, 0.5) } });
}

/** Devices that switch: compressors, pumps, rooms that are lit. */
function device(draft: Draft): Sensor {
  const { random, n } = draft;
  if (chance(random, 0.7)) addSwitching(draft, 1);
  else {
    const period = anyPeriod(random, n);
    const width = Math.max(2, Math.round(period * random.between(0.15, 0.7)));
    addJobs(draft, { period, width, height: 1 });
  }
  if (chance(random, 0.2)) addOutliers(draft, random.between(0.4, 1));
  if (chance(random, 0.25)) addRareJobs(draft, random.between(0.5, 1.2));
  maybeSlow(draft, 0.15, 0.3);
  addNoise(draft, chance(random, 0.25) ? 0.0005 : logBetween(random, 0.004, 0.1));
  return makeSensor(draft, { positive: true, coarse: 0.35 });
}

/** Signals of machines and bodies: one wave, nearly the same each time. */
function signal(draft: Draft): Sensor {
  const { random, n } = draft;
  const period = anyPeriod(random, n);
  if (chance(random, 0.15)) addPulses(draft, period, 1);
  else {
    const wave = anyWave(random);
    draft.components.add('wave');
    addSeason(draft, {
      period,
      phase: random.uniform(),
      amplitude: 1,
      profile: (x) => wave(x - Math.floor(x)),
      jitter: chance(random, 0.4) ? random.between(0.01, 0.1) : 0,
    });
  }
  if (chance(random, 0.2)) changeAmplitude(draft);
  maybeSlow(draft, 0.3);
  addNoise(draft, chance(random, 0.1) ? 0.0005 : logBetween(random, 0.004, 0.15));
  return makeSensor(draft, { coarse: 0.2 });
}

/** Two seasons of any period, smooth, with a trend. */
function seasons(draft: Draft): Sensor {
  const { random, n } = draft;
  const short = anyPeriod(random, n / 3);
  addCycle(draft, 'season', short, 1, () => (chance(random, 0.5) ? random.between(0.02, 0.15) : 0));
  if (chance(random, 0.6)) {
    const long = short * (chance(random, 0.5) ? 7 : random.between(2.2, 8));
    // The component is named even where the season is too long to be added: published series hold it so.
    draft.components.add('second season');
    if (2 * long <= n) addCycle(draft, 'second season', long, between(0.3, 1.2), 0);
  }
  maybeSlow(draft, 0.5);
  if (chance(random, 0.15)) changeAmplitude(draft);
  if (chance(random, 0.1)) addOutliers(draft, random.between(0.4, 1));
  addNoise(draft, logBetween(random, 0.01, 0.3));
  return makeSensor(draft);
}

/** Prices and positions: a random walk. */
function price(draft: Draft): Sensor {
  const { random } = draft;
  addWalk(draft, 1);
  maybeSlow(draft, 0.4);
  addNoise(draft, logBetween(random, 0.001, 0.02));
  return makeSensor(draft, chance(random, 0.3) ? { gain: random.between(0.3, 1) } : {});
}

/** Noise around a level, perhaps with outliers and regimes. */
function steady(draft: Draft): Sensor {
  const { random } = draft;
  if (chance(random, 0.2)) addRegimes(draft, random.between(0.8, 4));
  if (chance(random, 0.45)) addOutliers(draft, logBetween(random, 1.2, 8));
  if (chance(random, 0.12)) addRareJobs(draft, random.between(1, 3));
  maybeSlow(draft, 0.2);
  addNoise(draft, random.between(0.15, 0.4));
  return makeSensor(draft, { positive: chance(random, 0.5), coarse: 0.3 });
}

export const FAMILIES = {
  demand: { weight: 20, clock: calendarClock, fill: demand },
  machine: { weight: 22, clock: calendarClock, fill: machine },
  traffic: { weight: 8, clock: calendarClock, fill: traffic },
  gauge: { weight: 12, clock: calendarClock, fill: gauge },
  occurrences: { weight: 7, clock: calendarClock, fill: occurrences },
  device: { weight: 9, clock: anyClock, fill: device },
  signal: { weight: 10, clock: anyClock, fill: signal },
  seasons: { weight: 6, clock: anyClock, fill: seasons },
  price: { weight: 4, clock: anyClock, fill: price },
  steady: { weight: 8, clock: anyClock, fill: steady },
} as const satisfies Readonly<Record<string, Family>>;
export type FamilyName = keyof typeof FAMILIES;

const NAMES = Object.keys(FAMILIES) as FamilyName[];
const WEIGHTS = NAMES.map((name) => FAMILIES[name].weight);

/** Draws the parts of a series of a random family, and the device that reads it. */
export function makeDraft(random: Random, n: number): { family: FamilyName; draft: Draft; sensor: Sensor } {
  const family = NAMES[random.weighted(WEIGHTS)]!;
  const { clock, fill } = FAMILIES[family];
  const draft = emptyDraft(random, n, clock(random, n));
  return { family, draft, sensor: fill(draft) };
}
