/**
 * The anomaly detector against classical scores at an equal number of alarms:
 * npx tsx test/bench/anomalies.ts [--json] [--only nab|shapes|injected|clean|speed] [--half choose|report] [--data DIR]
 *
 * Peers have the season that the detector found, and of their settings (window, placement, smoothing, how intervals are read off a score)
 * those that were best on the half of the series that rules are chosen on, for each group of series and each measure anew; the
 * detector has one setting. What is printed is about the other half, unless --half says otherwise.
 */
import { spawnSync } from 'node:child_process';
import { existsSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { availableParallelism, loadavg, tmpdir } from 'node:os';
import { join, resolve } from 'node:path';
import { fileURLToPath, pathToFileURL } from 'node:url';
import { parseArgs } from 'node:util';
import { DEFAULT_SEVERITY } from '../../src/detect/detect.ts';
import { reportPage } from '../../src/explain/report-page.ts';
import { Progress } from '../../src/ground/progress.ts';
import { Random } from '../../src/ground/random.ts';
import type { Estimate, Interval } from '../../src/ground/types.ts';
import { pairedDifference } from '../../src/measures/bootstrap.ts';
import { detectFile } from '../../src/run/detect.ts';
import { smoothed } from '../../src/series/point-scores.ts';
import {
  everything,
  OWN_SCORE,
  ownAlarms,
  PEERS,
  type Prepared,
  prepare,
  READINGS,
  type Reading,
  randomAlarms,
  read,
  reported,
  type Setting,
} from './anomaly-contenders.ts';
import { asCsv, factsOf } from './anomaly-facts.ts';
import { type AlarmMeasures, alarmMeasures, averagePrecision, shared } from './anomaly-measures.ts';
import { injectedCases, nabCases } from './anomaly-recordings.ts';
import { type Case, cleanCases, type Half, shapeCases } from './anomaly-shapes.ts';
import { table } from './measure.ts';

const SHAPE_SEEDS = { choose: 11, report: 12 } as const;
const CLEAN_SEEDS = '1,2,3';
const GROUPS = ['nab', 'shapes', 'injected'] as const;
type Group = (typeof GROUPS)[number];
/** Alarms of one peer and series that are looked at for a given recall. */
const MOST_ALARMS = 40;

/** The settings of a contender that gave the largest mean on the half for choosing. */
export interface Chosen {
  readonly intervals: { readonly setting: Setting; readonly reading: Reading };
  readonly precision: { readonly setting: Setting; readonly smooth: number };
}

const scored: Readonly<Record<string, readonly Setting[]>> = { 'own score': OWN_SCORE, ...PEERS };

const mean = (values: readonly number[]): number =>
  values.length === 0 ? Number.NaN : values.reduce((sum, value) => sum + value, 0) / values.length;

const joined = (intervals: readonly Interval[], one: Case): AlarmMeasures =>
  alarmMeasures(intervals, one.truth, one.values.length);

/** Sums of the measures of every setting and reading over series; the largest is chosen. */
export class Choice {
  readonly #f1 = new Map<string, number>();
  readonly #precision = new Map<string, number>();

  add(one: Prepared): void {
    for (const [name, settings] of Object.entries(scored)) {
      for (const setting of settings) {
        const score = setting.score(one);
        for (const smooth of new Set(READINGS.map((reading) => reading.smooth))) {
          this.#count(
            this.#precision,
            `${name}/${setting.name}/${smooth}`,
            averagePrecision(smoothed(score, smooth), one.truth),
          );
        }
        for (const reading of READINGS) {
          const alarms = read(score, reading, one.truth.length).map(({ interval }) => interval);
          this.#count(
            this.#f1,
            `${name}/${setting.name}/${reading.smooth}/${reading.share}`,
            joined(alarms, one).f1,
          );
        }
      }
    }
  }

  #count(sums: Map<string, number>, key: string, value: number): void {
    sums.set(key, (sums.get(key) ?? 0) + value);
  }

  of(name: string): Chosen {
    const settings = scored[name]!;
    const best = <T>(options: readonly T[], value: (option: T) => number): T =>
      options.reduce((a, b) => (value(b) > value(a) ? b : a));
    const pairs = settings.flatMap((setting) => READINGS.map((reading) => ({ setting, reading })));
    const smooths = settings.flatMap((setting) =>
      [...new Set(READINGS.map(({ smooth }) => smooth))].map((smooth) => ({ setting, smooth })),
    );
    return {
      intervals: best(
        pairs,
        ({ setting, reading }) =>
          this.#f1.get(`${name}/${setting.name}/${reading.smooth}/${reading.share}`) ?? 0,
      ),
      precision: best(
        smooths,
        ({ setting, smooth }) => this.#precision.get(`${name}/${setting.name}/${smooth}`) ?? 0,
      ),
    };
  }
}

interface Measured {
  readonly ap: number;
  /** At as many alarms as there are anomalies. */
  readonly atTrue: AlarmMeasures;
  /** At as many alarms as the detector reports by default. */
  readonly atOwn: AlarmMeasures;
}

/** Everything about one series that has an anomaly. */
interface Result {
  readonly one: Prepared;
  readonly reported: readonly Interval[];
  readonly by: Readonly<Record<string, Measured>>;
  /** For the false alarms at equal recall: what stands out, by contender. */
  readonly alarms: Readonly<
    Record<string, readonly { readonly interval: Interval; readonly height: number }[]>
  >;
}

function evaluate(one: Prepared, chosen: ReadonlyMap<string, Chosen>): Result {
  const own = reported(one);
  const measure = (ap: number, alarms: (count: number) => readonly Interval[]): Measured => ({
    ap,
    atTrue: joined(alarms(one.truth.length), one),
    atOwn: joined(own.length === 0 ? [] : alarms(own.length), one),
  });
  const random = new Random(1, `noise/${one.name}`);
  const noise = one.values.map(() => random.uniform());
  const by: Record<string, Measured> = {
    timeseer: measure(averagePrecision(one.detection.score, one.truth), (count) => ownAlarms(one, count)),
  };
  const alarms: Record<string, Result['alarms'][string]> = {};
  for (const [name, { intervals, precision }] of chosen) {
    const score = intervals.setting.score(one);
    const found = read(score, intervals.reading, MOST_ALARMS);
    const forPrecision = precision.setting === intervals.setting ? score : precision.setting.score(one);
    by[name] = measure(averagePrecision(smoothed(forPrecision, precision.smooth), one.truth), (count) =>
      found.slice(0, count).map(({ interval }) => interval),
    );
    alarms[name] = found;
  }
  by['random places'] = measure(averagePrecision(noise, one.truth), (count) => randomAlarms(one, count));
  by.everything = measure(averagePrecision(new Float64Array(one.values.length), one.truth), () =>
    everything(one),
  );
  return { one, reported: own, by, alarms };
}

interface EqualRecall {
  /** Height from which on peaks are alarms; Infinity where the recall is never reached. */
  readonly threshold: number;
  readonly falsePerThousand: number;
}

/** The false alarms that a contender needs for this many hits, one threshold for all series. */
export function atEqualRecall(
  results: readonly Pick<Result, 'one' | 'alarms'>[],
  name: string,
  hits: number,
): EqualRecall {
  const all = results
    .flatMap(({ one, alarms }) => alarms[name]!.map((alarm) => ({ ...alarm, one })))
    .sort((a, b) => b.height - a.height);
  const points = results.reduce((sum, { one }) => sum + one.values.length, 0);
  const touched = new Set<Interval>();
  let wrong = 0;
  for (const { interval, height, one } of all) {
    if (touched.size >= hits) return { threshold: height, falsePerThousand: (1000 * wrong) / points };
    const found = one.truth.filter((truth) => shared(interval, truth) > 0);
    for (const truth of found) touched.add(truth);
    if (found.length === 0) wrong++;
  }
  const reached = touched.size >= hits;
  return {
    threshold: reached ? 0 : Number.POSITIVE_INFINITY,
    falsePerThousand: reached ? (1000 * wrong) / points : Number.POSITIVE_INFINITY,
  };
}

interface Row {
  readonly contender: string;
  readonly setting: string;
  readonly ap: number;
  readonly f1: number;
  readonly precision: number;
  readonly recall: number;
  readonly hit: number;
  readonly iou: number;
  /** Mean over the anomalies that are touched. */
  readonly iouOfHits: number;
  readonly f1AtOwn: number;
  readonly falsePerThousand: number | null;
  readonly threshold: number | null;
}

interface Comparison {
  readonly measure: string;
  readonly peer: string;
  readonly difference: Estimate;
}

interface GroupReport {
  readonly group: Group;
  readonly series: number;
  readonly anomalies: number;
  readonly alarms: number;
  readonly rows: readonly Row[];
  readonly comparisons: readonly Comparison[];
  readonly kinds: readonly {
    readonly kind: string;
    readonly series: number;
    readonly reported: number;
    readonly hit: number;
    readonly iou: number;
    readonly falseAlarms: number;
    readonly peer: string;
    readonly peerHit: number;
  }[];
  readonly cases: readonly unknown[];
}

const MEASURES: Readonly<Record<string, (measured: Measured) => number>> = {
  'average precision': ({ ap }) => ap,
  'affiliation F1, as many alarms as anomalies': ({ atTrue }) => atTrue.f1,
  'affiliation F1, as many alarms as reported': ({ atOwn }) => atOwn.f1,
};

const peers = Object.keys(PEERS);

/** The peer with the largest mean. */
const bestPeer = (results: readonly Result[], value: (measured: Measured) => number): string =>
  peers.reduce((a, b) =>
    mean(results.map(({ by }) => value(by[b]!))) > mean(results.map(({ by }) => value(by[a]!))) ? b : a,
  );

/** The detector less the best peer, over series; the best is that of these very series. */
function comparisonsOf(results: readonly Result[]): Comparison[] {
  return Object.entries(MEASURES).map(([measure, value]): Comparison => {
    const peer = bestPeer(results, value);
    return {
      ...{ measure, peer },
      difference: pairedDifference(
        results.map(({ by }) => value(by.timeseer!)),
        results.map(({ by }) => value(by[peer]!)),
      ),
    };
  });
}

function groupReport(
  group: Group,
  results: readonly Result[],
  chosen: ReadonlyMap<string, Chosen>,
): GroupReport {
  const points = results.reduce((sum, { one }) => sum + one.values.length, 0);
  const hits = results.reduce(
    (sum, { one, reported: own }) =>
      sum + one.truth.filter((truth) => own.some((alarm) => shared(alarm, truth) > 0)).length,
    0,
  );
  const names = Object.keys(results[0]!.by);
  const rows = names.map((contender): Row => {
    const of = (value: (measured: Measured) => number): number =>
      mean(results.map(({ by }) => value(by[contender]!)));
    const equal = chosen.has(contender) ? atEqualRecall(results, contender, hits) : null;
    const settings = chosen.get(contender)?.intervals;
    const wrong = results.reduce((sum, { by }) => sum + by.timeseer!.atOwn.falseAlarms, 0);
    const hit = of(({ atTrue }) => atTrue.hit);
    const iou = of(({ atTrue }) => atTrue.iou);
    return {
      contender,
      setting:
        settings === undefined
          ? ''
          : `${settings.setting.name}; mean of ${settings.reading.smooth}, down to ${settings.reading.share}`,
      ap: of(({ ap }) => ap),
      f1: of(({ atTrue }) => atTrue.f1),
      precision: of(({ atTrue }) => atTrue.precision),
      recall: of(({ atTrue }) => atTrue.recall),
      ...{ hit, iou, iouOfHits: hit === 0 ? 0 : iou / hit },
      f1AtOwn: of(({ atOwn }) => atOwn.f1),
      falsePerThousand:
        contender === 'timeseer' ? (1000 * wrong) / points : (equal?.falsePerThousand ?? null),
      threshold: contender === 'timeseer' ? DEFAULT_SEVERITY : (equal?.threshold ?? null),
    };
  });
  const kinds = [...new Set(results.map(({ one }) => one.kind))].map((kind) => {
    const some = results.filter(({ one }) => one.kind === kind);
    const peer = bestPeer(some, ({ atTrue }) => atTrue.hit);
    return {
      ...{ kind, series: some.length, peer },
      reported: mean(some.map(({ by }) => by.timeseer!.atOwn.hit)),
      hit: mean(some.map(({ by }) => by.timeseer!.atTrue.hit)),
      iou: mean(some.map(({ by }) => by.timeseer!.atTrue.iou)),
      falseAlarms: mean(some.map(({ by }) => by.timeseer!.atOwn.falseAlarms)),
      peerHit: mean(some.map(({ by }) => by[peer]!.atTrue.hit)),
    };
  });
  const cases = results.map(({ one, reported: own, by }) => ({
    name: one.name,
    samples: one.values.length,
    season: one.detection.seasons[0] ?? null,
    milliseconds: Math.round(one.took),
    truth: one.truth,
    reported: own.length,
    findings: one.detection.findings.slice(0, 6).map(({ start, end, kind, severity }) => ({
      ...{ start, end, kind, severity: Number(severity.toFixed(1)) },
    })),
    f1: by.timeseer!.atTrue.f1,
    iou: by.timeseer!.atTrue.iou,
    peers: Object.fromEntries(peers.map((peer) => [peer, by[peer]!.atTrue.f1])),
  }));
  return {
    ...{ group, series: results.length, rows, kinds, cases },
    comparisons: comparisonsOf(results),
    anomalies: results.reduce((sum, { one }) => sum + one.truth.length, 0),
    alarms: results.reduce((sum, { reported: own }) => sum + own.length, 0),
  };
}

interface CleanReport {
  readonly series: number;
  readonly alarmed: number;
  readonly alarms: number;
  readonly falsePerThousand: number;
  readonly byBase: Readonly<Record<string, string>>;
  /** Series with an alarm at the threshold that gives the detector's recall on the shapes, by peer. */
  readonly peers: Readonly<Record<string, number>>;
}

function cleanReport(
  cases: readonly Prepared[],
  chosen: ReadonlyMap<string, Chosen> | undefined,
  shapes: GroupReport | undefined,
): CleanReport {
  const byBase: Record<string, string> = {};
  let [alarms, alarmed] = [0, 0];
  for (const one of cases) {
    const own = reported(one);
    if (own.length === 0) continue;
    alarmed++;
    alarms += own.length;
    const first = one.detection.findings[0]!;
    byBase[one.name] =
      `${own.length}: ${first.kind} [${first.start}, ${first.end}) of ${one.values.length}, severity ${first.severity.toFixed(1)}`;
  }
  const points = cases.reduce((sum, { values }) => sum + values.length, 0);
  const peers: Record<string, number> = {};
  for (const [name, { intervals }] of chosen ?? []) {
    const threshold = shapes?.rows.find(({ contender }) => contender === name)?.threshold;
    if (threshold === undefined || threshold === null || !Number.isFinite(threshold)) continue;
    peers[name] = cases.filter((one) =>
      read(intervals.setting.score(one), intervals.reading, 1).some(({ height }) => height >= threshold),
    ).length;
  }
  return { series: cases.length, alarmed, alarms, falsePerThousand: (1000 * alarms) / points, byBase, peers };
}

interface NumbersReport {
  readonly series: number;
  readonly told: number;
  readonly true: number;
  readonly wrong: readonly string[];
}

/** Prints of reports about all these series, checked. */
function numbersReport(cases: readonly Prepared[]): NumbersReport {
  let [series, told, holds] = [0, 0, 0];
  const wrong: string[] = [];
  for (const one of cases) {
    const file = (one as Prepared & { file?: string }).file;
    const csv = file === undefined ? asCsv(one.values) : readFileSync(file, 'utf8');
    const detection = {
      ...one.detection,
      findings: one.detection.findings.filter(({ severity }) => severity >= DEFAULT_SEVERITY),
    };
    try {
      const facts = factsOf(file ?? `${one.base}.csv`, csv, detection);
      if (facts === null) continue;
      series++;
      told += facts.told;
      holds += facts.true;
      wrong.push(...facts.wrong.map((text) => `${one.name}: ${text}`));
    } catch (error) {
      series++;
      told++;
      wrong.push(`${one.name}: ${error instanceof Error ? error.message : String(error)}`);
    }
  }
  return { series, told, true: holds, wrong };
}

interface SpeedRow {
  readonly samples: number;
  readonly page: boolean;
  /** From reading the file to the last byte written; the start of the process is not part of it. */
  readonly seconds: number;
  /** Of processor time, which other work on the machine does not lengthen as much. */
  readonly processor: number;
  readonly megabytes: number;
  readonly findings: number;
  readonly bounds: string;
}

/** A metric of a service with a day, a week, noise and three incidents. */
function longSeries(n: number): Float64Array {
  const random = new Random(n, 'anomalies/speed');
  return Float64Array.from({ length: n }, (_, t) => {
    const usual = 300 + 120 * Math.sin((2 * Math.PI * t) / 288) + 40 * Math.sin((2 * Math.PI * t) / 2016);
    const incident = (t > 0.4 * n && t < 0.4 * n + 60) || (t > 0.7 * n && t < 0.7 * n + 9);
    return Number(((incident ? 40 : usual) + random.normal(0, 8)).toFixed(2));
  });
}

async function timed(file: string, page: string | undefined): Promise<void> {
  const began = performance.now();
  const before = process.cpuUsage();
  const { source, report } = await detectFile({
    ...{ file, columns: [], time: undefined, key: undefined, select: undefined, tz: undefined },
  });
  if (page !== undefined) writeFileSync(page, reportPage(report, source));
  const seconds = (performance.now() - began) / 1000;
  const { user, system } = process.cpuUsage(before);
  const processor = (user + system) / 1e6;
  const megabytes = process.resourceUsage().maxRSS / 1024;
  console.log(JSON.stringify({ seconds, processor, megabytes, findings: report.findings.length }));
}

/** Each size in a process of its own. */
function speedRows(): SpeedRow[] {
  const directory = mkdtempSync(join(tmpdir(), 'anomalies-'));
  try {
    return [
      { samples: 100_000, page: true, bounds: '3 s' },
      { samples: 1_000_000, page: false, bounds: '20 s, 1000 MB' },
    ].map(({ samples, page, bounds }): SpeedRow => {
      const file = join(directory, `${samples}.csv`);
      writeFileSync(file, asCsv(longSeries(samples)));
      const program = fileURLToPath(import.meta.url);
      const child = spawnSync(
        process.execPath,
        [
          '--import',
          'tsx',
          program,
          '--timed',
          file,
          ...(page ? ['--page', join(directory, 'page.html')] : []),
        ],
        { encoding: 'utf8', maxBuffer: 1e8 },
      );
      if (child.status !== 0) throw new Error(`speed of ${samples} samples: ${child.stderr}`);
      const last = child.stdout.trim().split('\n').at(-1)!;
      return {
        samples,
        page,
        bounds,
        ...(JSON.parse(last) as Omit<SpeedRow, 'samples' | 'page' | 'bounds'>),
      };
    });
  } finally {
    rmSync(directory, { recursive: true, force: true });
  }
}

const two = (value: number | null): string =>
  value === null ? '–' : Number.isFinite(value) ? value.toFixed(3).replace(/^(-?)0\./, '$1.') : 'never';

function printComparisons(comparisons: readonly Comparison[]): void {
  for (const { measure, peer, difference } of comparisons) {
    const [low, high] = difference.ci95;
    console.log(`${measure}: ours less ${peer} ${two(difference.mean)} (95 % ${two(low)} to ${two(high)})`);
  }
}

function printGroup({ group, series, anomalies, alarms, rows, comparisons, kinds }: GroupReport): void {
  console.log(`\n── ${group}: ${series} series, ${anomalies} anomalies, ${alarms} reported`);
  console.log(
    table(
      [
        '',
        'AP',
        'F1',
        'precision',
        'recall',
        'hit',
        'IoU',
        'IoU of hits',
        'F1 as reported',
        'false/1000',
        'setting',
      ],
      rows.map((row) => [
        row.contender,
        ...[row.ap, row.f1, row.precision, row.recall, row.hit, row.iou, row.iouOfHits, row.f1AtOwn].map(two),
        two(row.falsePerThousand),
        row.setting,
      ]),
    ),
  );
  printComparisons(comparisons);
  if (kinds.length > 1) {
    console.log(
      table(
        ['kind', 'series', 'reported', 'hit', 'IoU', 'false', 'best peer hit', ''],
        kinds.map((row) => [
          row.kind,
          String(row.series),
          ...[row.reported, row.hit, row.iou, row.falseAlarms, row.peerHit].map(two),
          row.peer,
        ]),
      ),
    );
  }
}

async function main(): Promise<void> {
  const { values } = parseArgs({
    options: {
      json: { type: 'boolean', default: false },
      only: { type: 'string' },
      half: { type: 'string', default: 'report' },
      data: { type: 'string' },
      seeds: { type: 'string', default: CLEAN_SEEDS },
      timed: { type: 'string' },
      page: { type: 'string' },
    },
  });
  if (values.timed !== undefined) return timed(values.timed, values.page);
  const parts = [...GROUPS, 'clean', 'speed'];
  const { only, half } = values;
  if (only !== undefined && !parts.includes(only))
    throw new RangeError(`--only ${only}: ${parts.join(', ')}`);
  if (half !== 'choose' && half !== 'report') throw new RangeError(`--half ${half}: choose or report`);
  const wanted = (part: string): boolean => only === undefined || only === part;
  const data = resolve(values.data ?? join(import.meta.dirname, '../../../shared/data'));
  const nab = nabCases(data);
  if (nab.length === 0 && (wanted('nab') || wanted('injected')))
    console.error(
      `SKIPPED nab: ${join(data, 'nab')} holds no recordings with combined_windows.json (--data DIR)`,
    );
  const cases: Readonly<Record<Group, readonly Case[]>> = {
    nab: wanted('nab') ? nab.filter(({ truth }) => truth.length > 0) : [],
    shapes: wanted('shapes')
      ? (['choose', 'report'] as const).flatMap((own: Half) =>
          shapeCases(SHAPE_SEEDS[own]).filter((one) => one.half === own),
        )
      : [],
    injected: wanted('injected') ? injectedCases(data, nab, 1) : [],
  };
  const clean = wanted('clean')
    ? [
        ...cleanCases(values.seeds.split(',').map(Number)),
        ...nab.filter(({ truth }) => truth.length === 0),
      ].filter((one) => one.half === half)
    : [];
  const began = performance.now();
  const all = GROUPS.flatMap((group) => cases[group]);
  const passes =
    all.filter((one) => one.half === 'choose').length + all.filter((one) => one.half === half).length;
  const progress = new Progress({ label: 'anomalies', total: passes + clean.length, unit: 'series' });
  const groups: GroupReport[] = [];
  const everyResult: Result[] = [];
  const evaluated: Prepared[] = [];
  const choices = new Map<Group, ReadonlyMap<string, Chosen>>();
  for (const group of GROUPS) {
    const choice = new Choice();
    for (const one of cases[group].filter((each) => each.half === 'choose')) {
      choice.add(prepare(one));
      progress.advance(1, { group });
      await new Promise(setImmediate);
    }
    const chosen = new Map(Object.keys(scored).map((name) => [name, choice.of(name)]));
    choices.set(group, chosen);
    const results: Result[] = [];
    for (const one of cases[group].filter((each) => each.half === half)) {
      const prepared = prepare(one);
      evaluated.push(prepared);
      results.push(evaluate(prepared, chosen));
      progress.advance(1, { group });
      await new Promise(setImmediate);
    }
    if (results.length > 0) groups.push(groupReport(group, results, chosen));
    everyResult.push(...results);
  }
  const prepared: Prepared[] = [];
  for (const one of clean) {
    prepared.push(prepare(one));
    progress.advance(1, { group: 'clean' });
    await new Promise(setImmediate);
  }
  progress.stop();
  const together = everyResult.length === 0 ? [] : comparisonsOf(everyResult);
  const shapes = groups.find(({ group }) => group === 'shapes');
  const quiet =
    prepared.length === 0
      ? null
      : cleanReport(prepared, shapes === undefined ? undefined : choices.get('shapes'), shapes);
  const numbers = numbersReport([...evaluated, ...prepared]);
  const speed = wanted('speed') ? speedRows() : [];
  const seconds = (performance.now() - began) / 1000;
  const machine = { node: process.version, cores: availableParallelism(), load: loadavg()[0]! };
  if (values.json) {
    console.log(
      JSON.stringify({ half, machine, seconds, groups, together, clean: quiet, numbers, speed }, null, 2),
    );
    return;
  }
  console.log(`half: ${half}`);
  for (const group of groups) printGroup(group);
  if (groups.length > 1) {
    console.log(`\n── all ${everyResult.length} series`);
    printComparisons(together);
  }
  if (quiet !== null) {
    console.log(
      `\n── clean: alarms on ${quiet.alarmed} of ${quiet.series} series, ${quiet.alarms} in all, ${two(quiet.falsePerThousand)} per 1000 points`,
    );
    for (const [name, what] of Object.entries(quiet.byBase)) console.log(`  ${name}  ${what}`);
    const others = Object.entries(quiet.peers).map(([name, count]) => `${name} ${count}`);
    if (others.length > 0) console.log(`  at the recall on shapes, peers alarm on: ${others.join(', ')}`);
  }
  console.log(
    `\n── printed numbers: ${numbers.true} of ${numbers.told} true, in reports about ${numbers.series} series`,
  );
  for (const text of numbers.wrong.slice(0, 20)) console.log(`  ${text}`);
  if (speed.length > 0) {
    console.log(`\n── speed (load ${machine.load.toFixed(1)} of ${machine.cores} cores)`);
    console.log(
      table(
        ['samples', 'page', 's', 'processor s', 'MB', 'findings', 'bounds'],
        speed.map((row) => [
          String(row.samples),
          row.page ? 'yes' : 'no',
          row.seconds.toFixed(2),
          row.processor.toFixed(2),
          row.megabytes.toFixed(0),
          String(row.findings),
          row.bounds,
        ]),
      ),
    );
  }
  console.log(`\n${seconds.toFixed(0)} s`);
}

if (existsSync(process.argv[1] ?? '') && import.meta.url === pathToFileURL(process.argv[1]!).href)
  await main();
