/**
 * A policy in windows of several scales against the detector, the classical expert and classical scores:
 * npx tsx test/bench/policy.ts --policy DIR [--json] [--only nab|injected|shapes|wild|sources] [--half choose|report] [--engine torch|onnx] [--threads N]
 * [--count N] [--data DIR]
 * or, to write the recordings of the half for choosing, to which `timeseer calibrate --data` fits: --recordings DIR
 *
 * Policies adapted to made sources, each beside the policy given: --sources DIR writes NAME.csv for `timeseer adapt --data` and NAME.last.csv, the
 * days after it; then --policy small --adapted RUNS, where RUNS/NAME is the adaptation to NAME, or RUNS one to all. --seed N: that of the
 * sources. --real: real series instead of made ones.
 *
 * Classical scores have, of their settings, those that were best on the half for choosing, as in anomalies.ts; the policy has one, and its
 * confidences were fitted to other series of wild (timeseer calibrate). Series of wild have 5000 points, ten times what it was taught.
 */
import { existsSync, mkdirSync, writeFileSync } from 'node:fs';
import { join, resolve } from 'node:path';
import { parseArgs } from 'node:util';
import { openExamples } from '../../datasets/source.ts';
import { ENGINES } from '../../src/answer/answerer.ts';
import { DEFAULT_SEVERITY } from '../../src/detect/detect.ts';
import { expcotBlind } from '../../src/expcot/anomaly.ts';
import {
  accountsOf,
  isRight,
  placesOf,
  REPORTED_FROM,
  rankPlaces,
  weighAccounts,
} from '../../src/explain/confidence.ts';
import { askAll, askColumn, seasonOf } from '../../src/explain/policy-answers.ts';
import type { Reader } from '../../src/explain/reader.ts';
import { Progress } from '../../src/ground/progress.ts';
import type { Estimate, Interval } from '../../src/ground/types.ts';
import { pairedDifference } from '../../src/measures/bootstrap.ts';
import { rocArea } from '../../src/measures/curves.ts';
import { openReader } from '../../src/run/explain.ts';
import { runs } from '../../src/series/intervals.ts';
import { bridge } from '../../src/series/missing.ts';
import { atEqualRecall, Choice, type Chosen } from './anomalies.ts';
import { ownAlarms, PEERS, type Prepared, prepare, randomAlarms, read } from './anomaly-contenders.ts';
import { alarmMeasures, shared } from './anomaly-measures.ts';
import { injectedCases, nabCases, realSeries } from './anomaly-recordings.ts';
import { type Case, cleanCases, type Half, shapeCases } from './anomaly-shapes.ts';
import { type SourceCase, sourceCases, writeSources } from './anomaly-sources.ts';
import { table } from './measure.ts';

const GROUPS = ['nab', 'injected', 'shapes', 'wild', 'sources'] as const;
type Group = (typeof GROUPS)[number];
const SHAPE_SEEDS = { choose: 11, report: 12 } as const;
const CLEAN_SEEDS = [1] as const;
const WILD = { length: 5000, seed: 5, split: { choose: 'validation', report: 'test' } } as const;
/** Alarms of one contender and series that are looked at for a given recall. */
const MOST_ALARMS = 40;
/** Findings of the detector come before what merely stands out of its score. */
const FOUND = 1e6;

interface Alarm {
  readonly interval: Interval;
  readonly height: number;
}

/** One series with the alarms of every contender, best first. */
interface Result {
  readonly one: Prepared;
  /** Alarms that the policy reports by default. */
  readonly reported: number;
  readonly alarms: Readonly<Record<string, readonly Alarm[]>>;
  readonly windows: number;
  readonly milliseconds: number;
}

const POLICY = 'policy';
const BOTH = 'policy and detector';
const DETECTOR = 'timeseer detect';
/** The detector with what comes before. */
const DETECTOR_BEHIND = `${DETECTOR} --history`;
const EXPERT = 'classical expert';
const RANDOM = 'random places';
/** The policy that was adapted; `policy` is then the one after it. */
const GIVEN = 'before adapting';
const BOTH_GIVEN = `${GIVEN}, and detector`;
const CONTENDERS = [
  ...[POLICY, BOTH, GIVEN, BOTH_GIVEN, DETECTOR, DETECTOR_BEHIND, EXPERT],
  ...[...Object.keys(PEERS), RANDOM],
];

function wildCases(half: Half, count: number): Case[] {
  const { length, seed, split } = WILD;
  const source = openExamples({ name: 'wild', split: split[half], seed, length, count });
  return Array.from(source, ({ id, channels, gold }): Case => {
    const truth = gold.kind === 'anomaly' ? gold.intervals : [];
    const kind = truth.length === 0 ? 'clean' : 'wild';
    return { name: id, base: id, kind, half, values: bridge(channels[0]!).values, truth, calendar: [] };
  });
}

interface Said {
  readonly alarms: readonly Alarm[];
  /** The ranking of policy and detector. */
  readonly both: readonly Alarm[];
  readonly reported: number;
  readonly windows: number;
}

/** Case with the samples before it that its policy was adapted to, as `explain` judges them. */
function behind({ training, ...one }: SourceCase): Prepared {
  return prepare({ ...one, values: Float64Array.from([...training, ...one.values]) });
}

/** Shifts intervals behind the first `from` samples; none that ends in them. */
const shifted = <One extends { readonly interval: Interval }>(some: readonly One[], from: number): One[] =>
  some
    .filter(({ interval: [, end] }) => end > from)
    .map((one) => ({ ...one, interval: [Math.max(0, one.interval[0] - from), one.interval[1] - from] }));

/**
 * What the policy says behind the first `from` samples, most confident first, and how much of it is reported. A policy of one scale has no
 * order: as in the series.
 */
async function ask(one: Prepared, reader: Reader, from = 0): Promise<Said> {
  const { values } = one;
  if (!reader.scales) {
    const { name, detection } = one;
    const { intervals, answers } = await askColumn({ name, values, detection }, reader);
    const alarms = intervals.map((interval) => ({ interval, height: 1 }));
    return { alarms, both: alarms, reported: alarms.length, windows: answers.length };
  }
  const usual = reader.confidence?.deseasonalised ? seasonOf(one.detection, one.calendar) : null;
  const asked = await askAll(values, null, reader, { from, usual });
  const findings = one.detection.findings.filter(
    ({ end, severity }) => end > from && severity >= DEFAULT_SEVERITY,
  );
  const accounts = accountsOf(asked, values).filter(({ interval: [, end] }) => end > from);
  const weighed = weighAccounts(accounts, reader.confidence);
  const alarms = weighed.map(({ interval, confidence }) => ({
    interval,
    height: confidence ?? REPORTED_FROM,
  }));
  const ranked =
    reader.confidence === null
      ? alarms
      : rankPlaces(placesOf(weighed, findings), reader.confidence).map(({ interval, confidence }) => ({
          interval,
          height: confidence,
        }));
  const taken = ranked.map(({ interval }) => interval);
  // As of the detector alone: what stands out of its score fills up.
  const rest = read(one.detection.score, { smooth: 1, share: 0.6 }, MOST_ALARMS, taken);
  const both = [...ranked, ...rest.map(({ interval }, i) => ({ interval, height: -i }))];
  const reported = alarms.filter(({ height }) => height >= REPORTED_FROM).length;
  return { alarms: shifted(alarms, from), both: shifted(both, from), reported, windows: asked.length };
}

/** Alarms of the detector, findings first. */
function detected(one: Prepared): Alarm[] {
  const { findings } = one.detection;
  return ownAlarms(one, Math.max(findings.length, MOST_ALARMS)).map((interval, i) => ({
    interval,
    height: i < findings.length ? FOUND + findings[i]!.severity : -i,
  }));
}

async function evaluate(
  one: Prepared,
  {
    reader,
    given,
    whole,
  }: { readonly reader: Reader; readonly given: Reader | null; readonly whole: Prepared | null },
  chosen: ReadonlyMap<string, Chosen>,
): Promise<Result> {
  const began = performance.now();
  const said = await ask(whole ?? one, reader, whole === null ? 0 : whole.values.length - one.values.length);
  const milliseconds = performance.now() - began;
  const before = given === null ? null : await ask(one, given);
  const expert = expcotBlind(one.values).intervals.toSorted((a, b) => b[1] - b[0] - (a[1] - a[0]));
  const alarms: Record<string, readonly Alarm[]> = {
    [POLICY]: said.alarms,
    [BOTH]: said.both,
    ...(before === null ? {} : { [GIVEN]: before.alarms, [BOTH_GIVEN]: before.both }),
    [DETECTOR]: detected(one),
    ...(whole === null
      ? {}
      : { [DETECTOR_BEHIND]: shifted(detected(whole), whole.values.length - one.values.length) }),
    [EXPERT]: expert.map((interval, i) => ({ interval, height: 1 / (1 + i) })),
    [RANDOM]: randomAlarms(one, MOST_ALARMS).map((interval, i) => ({ interval, height: -i })),
  };
  for (const [name, { intervals }] of chosen) {
    if (!Object.hasOwn(PEERS, name)) continue;
    alarms[name] = read(intervals.setting.score(one), intervals.reading, MOST_ALARMS);
  }
  return { one, alarms, milliseconds, reported: said.reported, windows: said.windows };
}

interface Row {
  readonly contender: string;
  /** At as many alarms as there are anomalies: affiliation F1, and the share of anomalies that are touched. */
  readonly f1: number;
  readonly hit: number;
  /** At as many alarms as the policy reports. */
  readonly f1AtOwn: number;
  /** At the policy's recall; Infinity where that is never reached. */
  readonly falsePerThousand: number;
  /** The policy less this contender, over series; of false alarms where it reaches the recall. */
  readonly less: {
    readonly f1: Estimate;
    readonly f1AtOwn: Estimate;
    readonly falsePerThousand: Estimate | null;
  } | null;
}

interface GroupReport {
  readonly group: Group;
  /** Number of series with made anomalies by their source; only of the group `injected`. */
  readonly sources?: Readonly<Record<string, number>>;
  readonly series: number;
  readonly clean: number;
  readonly anomalies: number;
  readonly reported: number;
  /** Share of the anomalies that the policy's reported alarms touch, and those of them that touch none, per 1000 points. */
  readonly recall: number;
  readonly falsePerThousand: number;
  readonly rows: readonly Row[];
  /** Ranking of policy and detector: number of its intervals, area under the curve of right ones, expected calibration error. */
  readonly confidence: {
    readonly intervals: number;
    readonly right: number;
    readonly auc: number;
    readonly error: number;
  };
  /** The policy before it was adapted: its alarms by default, anomalies that they touch, and confidences. */
  readonly before: {
    readonly reported: number;
    readonly hits: number;
    readonly falsePerThousand: number;
    readonly confidence: GroupReport['confidence'];
  } | null;
  readonly millisecondsPerWindow: number;
  readonly cases: readonly unknown[];
}

const TENTHS = 10;

/** Confidences of the ranking from 0.1 on: area under the curve of right and wrong intervals, and expected calibration error in tenths. */
function confidenceOf(all: readonly Result[], contender: string): GroupReport['confidence'] {
  const stated = all.flatMap(({ one, alarms }) =>
    alarms[contender]!.flatMap(({ interval, height }) =>
      height < 0.1 ? [] : [{ p: height, right: isRight(interval, one.truth) }],
    ),
  );
  const bins = Array.from({ length: TENTHS }, (_, k) =>
    stated.filter(({ p }) => Math.min(TENTHS - 1, Math.floor(TENTHS * p)) === k),
  );
  const error = bins.reduce(
    (sum, bin) => sum + Math.abs(bin.reduce((gap, { p, right }) => gap + p - (right ? 1 : 0), 0)),
    0,
  );
  return {
    ...{ intervals: stated.length, right: stated.filter(({ right }) => right).length },
    auc: rocArea(
      Float64Array.from(stated, ({ p }) => p),
      runs(stated.length, (i) => stated[i]!.right),
    ),
    error: error / stated.length,
  };
}

const mean = (values: readonly number[]): number =>
  values.reduce((sum, value) => sum + value, 0) / values.length;

/** Means over the cases of each source. */
function meansBySource(values: readonly number[], cases: readonly Result[]): number[] {
  const sources = new Map<string, number[]>();
  for (const [i, { one }] of cases.entries())
    sources.set(one.base, [...(sources.get(one.base) ?? []), values[i]!]);
  return Array.from(sources.values(), mean);
}

/** Counts recordings by source. */
function sourcesOf(results: readonly Result[]): Readonly<Record<string, number>> {
  const counts: Record<string, number> = {};
  for (const { one } of results) {
    const [, base = ''] = one.name.split('/');
    const source = base.startsWith('household')
      ? 'household power'
      : base.startsWith('muscle')
        ? 'EMG'
        : 'NAB';
    counts[source] = (counts[source] ?? 0) + 1;
  }
  return counts;
}

function groupReport(group: Group, all: readonly Result[]): GroupReport {
  const results = all.filter(({ one }) => one.truth.length > 0);
  const intervalsOf = ({ alarms }: Result, name: string, count: number): Interval[] =>
    alarms[name]!.slice(0, count).map(({ interval }) => interval);
  const measured = (result: Result, name: string, count: number) =>
    alarmMeasures(intervalsOf(result, name, count), result.one.truth, result.one.values.length);
  const points = all.reduce((sum, { one }) => sum + one.values.length, 0);
  const byDefault = (name: string) => {
    let [reported, hits, wrong] = [0, 0, 0];
    for (const { one, alarms } of all) {
      const own = alarms[name]!.filter(({ height }) => height >= REPORTED_FROM);
      reported += own.length;
      hits += one.truth.filter((truth) => own.some(({ interval }) => shared(interval, truth) > 0)).length;
      wrong += own.filter(({ interval }) => !one.truth.some((truth) => shared(interval, truth) > 0)).length;
    }
    return { reported, hits, falsePerThousand: (1000 * wrong) / points };
  };
  const { reported, hits, falsePerThousand } = byDefault(POLICY);
  const anomalies = results.reduce((sum, { one }) => sum + one.truth.length, 0);
  const present = CONTENDERS.filter((name) => all.every(({ alarms }) => Object.hasOwn(alarms, name)));
  const by = present.map((contender) => {
    const atTrue = results.map((result) => measured(result, contender, result.one.truth.length));
    const atOwn = results.map((result) =>
      result.reported === 0 ? 0 : measured(result, contender, result.reported).f1,
    );
    const { threshold, falsePerThousand } = atEqualRecall(all, contender, hits);
    // Of each series at the one threshold for all.
    const wrong = all.map(({ one, alarms }) => {
      const own = alarms[contender]!.filter(({ height }) => height > threshold);
      const false_ = own.filter(({ interval }) => !one.truth.some((truth) => shared(interval, truth) > 0));
      return (1000 * false_.length) / one.values.length;
    });
    return {
      contender,
      f1: atTrue.map(({ f1 }) => f1),
      hit: atTrue.map(({ hit }) => hit),
      atOwn,
      falsePerThousand,
      wrong,
    };
  });
  // Draws of one source share its policy and its days, so a source counts once.
  const paired = (a: readonly number[], b: readonly number[], cases: readonly Result[]): Estimate =>
    group === 'sources'
      ? pairedDifference(meansBySource(a, cases), meansBySource(b, cases))
      : pairedDifference(a, b);
  const own = by[0]!;
  const rows = by.map(
    (row): Row => ({
      contender: row.contender,
      ...{
        f1: mean(row.f1),
        hit: mean(row.hit),
        f1AtOwn: mean(row.atOwn),
        falsePerThousand: row.falsePerThousand,
      },
      less:
        row === own
          ? null
          : {
              f1: paired(own.f1, row.f1, results),
              f1AtOwn: paired(own.atOwn, row.atOwn, results),
              falsePerThousand: Number.isFinite(row.falsePerThousand)
                ? paired(own.wrong, row.wrong, all)
                : null,
            },
    }),
  );
  const windows = all.reduce((sum, one) => sum + one.windows, 0);
  return {
    ...(group === 'injected' ? { sources: sourcesOf(results) } : {}),
    ...{ group, series: results.length, clean: all.length - results.length, anomalies, rows },
    reported,
    confidence: confidenceOf(all, BOTH),
    before: present.includes(BOTH_GIVEN)
      ? { ...byDefault(GIVEN), confidence: confidenceOf(all, BOTH_GIVEN) }
      : null,
    recall: hits / anomalies,
    falsePerThousand,
    millisecondsPerWindow: all.reduce((sum, { milliseconds }) => sum + milliseconds, 0) / windows,
    cases: all.map(({ one, alarms, reported }) => {
      const listed = (name: string) =>
        alarms[name]!.slice(0, Math.max(reported, one.truth.length)).map(({ interval, height }) => ({
          interval,
          confidence: Number(height.toFixed(3)),
        }));
      return {
        ...{ name: one.name, samples: one.values.length, truth: one.truth, reported },
        alarms: listed(POLICY),
        ...(Object.hasOwn(alarms, GIVEN) ? { before: listed(GIVEN) } : {}),
      };
    }),
  };
}

const two = (value: number): string =>
  Number.isFinite(value) ? value.toFixed(3).replace(/^(-?)0\./, '$1.') : 'never';
const interval = (one: Estimate | null | undefined): string =>
  one == null ? '–' : `${two(one.mean)} (${two(one.ci95[0])} to ${two(one.ci95[1])})`;

function printGroup(report: GroupReport): void {
  const { group, series, clean, anomalies, reported, recall, falsePerThousand, rows, millisecondsPerWindow } =
    report;
  const { intervals, right, auc, error } = report.confidence;
  console.log(
    `\n── ${group}: ${series} series with ${anomalies} anomalies and ${clean} without; the policy reports ${reported}, recall ${two(recall)}, ${two(falsePerThousand)} false per 1000 points, ${millisecondsPerWindow.toFixed(0)} ms a window; ranking: ${intervals} intervals, ${right} right, AUC ${two(auc)}, calibration error ${two(error)}`,
  );
  if (report.before !== null) {
    const { reported, hits, falsePerThousand, confidence } = report.before;
    console.log(
      `before adapting: reports ${reported}, recall ${two(hits / anomalies)}, ${two(falsePerThousand)} false per 1000 points; ranking: ${confidence.intervals} intervals, ${confidence.right} right, calibration error ${two(confidence.error)}`,
    );
  }
  console.log(
    table(
      [
        '',
        'F1',
        'hit',
        'F1 at its number',
        'false/1000',
        'policy less it: F1',
        'F1 at its number',
        'false/1000',
      ],
      rows.map((row) => [
        row.contender,
        ...[row.f1, row.hit, row.f1AtOwn, row.falsePerThousand].map(two),
        interval(row.less?.f1),
        interval(row.less?.f1AtOwn),
        interval(row.less?.falsePerThousand),
      ]),
    ),
  );
}

const dataOf = (given: string | undefined): string =>
  resolve(given ?? join(import.meta.dirname, '../../../shared/data'));

/** Writes the real series of the half for choosing, those that confidences are fitted to. */
function writeRecordings(directory: string, data: string): void {
  mkdirSync(directory, { recursive: true });
  for (const { name, values, half } of realSeries(data, nabCases(data))) {
    if (half === 'choose')
      writeFileSync(join(directory, `${name}.csv`), `value\n${[...values].join('\n')}\n`);
  }
}

async function main(): Promise<void> {
  const { values: given } = parseArgs({
    options: {
      json: { type: 'boolean', default: false },
      policy: { type: 'string' },
      only: { type: 'string' },
      half: { type: 'string', default: 'report' },
      engine: { type: 'string' },
      count: { type: 'string', default: '30' },
      data: { type: 'string' },
      recordings: { type: 'string' },
      sources: { type: 'string' },
      adapted: { type: 'string' },
      real: { type: 'boolean', default: false },
      seed: { type: 'string', default: '1' },
    },
  });
  const { policy, only, half, json, adapted } = given;
  const seed = Number(given.seed);
  if (!Number.isInteger(seed)) throw new RangeError(`--seed ${given.seed}: a whole number`);
  if (given.recordings !== undefined) return writeRecordings(given.recordings, dataOf(given.data));
  const data = dataOf(given.data);
  const sources = () => sourceCases(seed, given.real ? realSeries(data, nabCases(data)) : null);
  if (given.sources !== undefined) return writeSources(given.sources, sources());
  if (policy === undefined) throw new RangeError('--policy DIR: of a policy or of a run');
  if (adapted === undefined ? only === 'sources' : (only ?? 'sources') !== 'sources')
    throw new RangeError('--only sources and --adapted RUNS go together');
  const wanted = GROUPS.filter((group) =>
    adapted === undefined ? group !== 'sources' && (only ?? group) === group : group === 'sources',
  );
  if (wanted.length === 0) throw new RangeError(`--only ${only}: ${GROUPS.join(', ')}`);
  if (half !== 'choose' && half !== 'report') throw new RangeError(`--half ${half}: choose or report`);
  const engine = ENGINES.find((name) => name === given.engine);
  if (given.engine !== undefined && engine === undefined)
    throw new RangeError(`--engine ${given.engine}: ${ENGINES.join(', ')}`);
  const nab = nabCases(data);
  if (nab.length === 0 && !existsSync(join(data, 'nab')))
    console.error(
      `SKIPPED nab: ${join(data, 'nab')} holds no recordings with combined_windows.json (--data DIR)`,
    );
  const isAdapted = (run: string): boolean => existsSync(join(run, 'adapt.html'));
  const runOf = (base: string): string => (isAdapted(adapted!) ? adapted! : join(adapted!, base));
  const adaptedCases = (): readonly Case[] => {
    const cases = sources();
    const left = new Set(cases.filter(({ base }) => !isAdapted(runOf(base))).map(({ base }) => base));
    if (cases.every(({ base }) => left.has(base)))
      throw new RangeError(`--adapted ${adapted}: holds no adaptation to these sources`);
    if (left.size > 0) console.error(`SKIPPED without an adaptation in ${adapted}: ${[...left].join(', ')}`);
    return cases.filter(({ base }) => !left.has(base));
  };
  const casesOf = (group: Group): readonly Case[] => {
    if (group === 'nab') return nab;
    if (group === 'injected') return injectedCases(data, nab, 1);
    if (group === 'sources') return adaptedCases();
    const halves = [...new Set<Half>(['choose', half])];
    if (group === 'wild') return halves.flatMap((own) => wildCases(own, Number(given.count)));
    const clean = cleanCases(CLEAN_SEEDS);
    return halves.flatMap((own) =>
      [...shapeCases(SHAPE_SEEDS[own]), ...clean].filter((one) => one.half === own),
    );
  };
  const options = { engine, device: undefined };
  const { reader, policy: opened } = await openReader(policy, options);
  const groups: GroupReport[] = [];
  try {
    for (const group of wanted) {
      const cases = casesOf(group);
      const choosing = cases.filter((one) => one.half === 'choose' && one.truth.length > 0);
      const asked = cases.filter((one) => one.half === half);
      const progress = new Progress({ label: group, total: choosing.length + asked.length, unit: 'series' });
      const choice = new Choice();
      for (const one of choosing) {
        choice.add(prepare(one));
        progress.advance(1, {});
        await new Promise(setImmediate);
      }
      const peers = choosing.length === 0 ? [] : Object.keys(PEERS);
      const chosen = new Map(peers.map((name) => [name, choice.of(name)]));
      const results: Result[] = [];
      for (const one of asked) {
        const after = adapted === undefined ? null : await openReader(runOf(one.base), options);
        const readers =
          after === null
            ? { reader, given: null, whole: null }
            : {
                reader: after.reader,
                given: reader,
                whole: 'training' in one ? behind(one as SourceCase) : null,
              };
        results.push(await evaluate(prepare(one), readers, chosen));
        await after?.policy.dispose();
        progress.advance(1, {});
      }
      progress.stop();
      if (results.some(({ one }) => one.truth.length > 0)) groups.push(groupReport(group, results));
    }
  } finally {
    await opened.dispose();
  }
  if (json) console.log(JSON.stringify({ half, policy: reader.record, groups }, null, 2));
  else for (const one of groups) printGroup(one);
}

await main();
