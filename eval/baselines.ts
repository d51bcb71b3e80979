/**
 * The classical baseline beside a policy: every detector answers the held-out series, scored exactly as a policy is,
 * and one of them is named the best before its answers are looked at.
 *
 * Classes are blind. `expcot-blind` reads its class off the evidence. The other detectors find but do not name, so
 * each says the class of what it is made to find (AnomSeer's assignment of analyses to classes), whatever the series
 * is, and `normal` where it finds nothing:
 *
 *  zscore, clipped-zscore, iqr   extreme values              global point
 *  gradient                      a steep stretch             trend
 *  sliding-period                another dominant period     seasonal
 *  discord, discords             a shape unlike any other    contextual point
 *
 * The best is the detector with the highest mean reward, the number that policies are compared by, on the validation
 * split: the same generator, other series. Held-out series have no part in the choice. A data set without a
 * validation split leaves nothing to choose on: `expcot-blind`, the only one that reads its class, is taken unseen.
 */
import { setImmediate as breathe } from 'node:timers/promises';
import { z } from 'zod';
import { anomalyReward } from '../rewards/combine.ts';
import { DataError } from '../src/errors.ts';
import { EXPCOT_BLIND, expcotBlind } from '../src/expcot/detector.ts';
import { writeFileAtomic } from '../src/files.ts';
import { DETECTORS } from '../src/series/detectors.ts';
import type { AnomalyClass, EvalRecord, Interval, LabeledSeries, ParsedAnswer } from '../src/types.ts';
import { jsonLines, readJson, readJsonLines } from './json-lines.ts';
import { evalRecordShape } from './records.ts';

/** What a detector calls whatever it finds. */
const FINDS: Readonly<Record<string, AnomalyClass>> = {
  zscore: 'global point',
  'clipped-zscore': 'global point',
  iqr: 'global point',
  gradient: 'trend',
  'sliding-period': 'seasonal',
  discord: 'contextual point',
  discords: 'contextual point',
};

interface Reading {
  readonly intervals: readonly Interval[];
  readonly class: AnomalyClass;
}

/** Every classical detector with its class, from values alone. */
export const BASELINES: ReadonlyMap<string, (values: Float64Array) => Reading> = new Map([
  ...Object.entries(DETECTORS).map(([name, detector]): [string, (values: Float64Array) => Reading] => {
    const found = FINDS[name];
    if (found === undefined) throw new DataError(`detector ${name}: no class is assigned to what it finds`);
    return [
      name,
      (values) => {
        const { intervals } = detector(values);
        return { intervals, class: intervals.length === 0 ? 'normal' : found };
      },
    ];
  }),
  [EXPCOT_BLIND, expcotBlind],
]);

/** The record of a detector's answer: no text, well formed by construction, the reward of a policy. */
export function baselineRecord(series: LabeledSeries, reading: Reading): EvalRecord {
  const length = series.values.length;
  const answer: ParsedAnswer = {
    think: null,
    intervals: reading.intervals,
    class: reading.class,
    wellFormed: true,
    problem: null,
  };
  return {
    seriesId: series.id,
    task: series.task,
    length,
    goldIntervals: series.intervals,
    goldClass: series.class,
    response: '',
    answer,
    score: anomalyReward(answer, series, length),
  };
}

export interface Baselines {
  /** Name of the best detector. */
  readonly best: string;
  /** Series of the validation split that the choice rests on; 0: nothing was chosen. */
  readonly validationSeries: number;
  /** Mean reward on them by detector; empty when there were none. */
  readonly validationReward: Readonly<Record<string, number>>;
  /** Answers to the held-out series, in their order, by detector. */
  readonly records: Readonly<Record<string, readonly EvalRecord[]>>;
}

/** Between detectors of one series at most, so that signals are seen: each takes a few milliseconds. */
async function answers(series: readonly LabeledSeries[]): Promise<Record<string, EvalRecord[]>> {
  const out = Object.fromEntries([...BASELINES.keys()].map((name): [string, EvalRecord[]] => [name, []]));
  for (const one of series) {
    for (const [name, read] of BASELINES) out[name]!.push(baselineRecord(one, read(one.values)));
    await breathe();
  }
  return out;
}

function meanReward(records: readonly EvalRecord[]): number {
  return records.reduce((sum, record) => sum + record.score.total, 0) / records.length;
}

/**
 * Runs every detector over the validation series, names the best, and runs every detector over the held-out series.
 * About 10 ms a series of 1000 points, all detectors together.
 * @throws DataError for no held-out series, or values that are not finite.
 */
export async function runBaselines(
  heldOut: readonly LabeledSeries[],
  validation: readonly LabeledSeries[],
): Promise<Baselines> {
  if (heldOut.length === 0) throw new DataError('baselines: no held-out series; give at least one');
  const validationReward: Record<string, number> = {};
  if (validation.length > 0) {
    for (const [name, records] of Object.entries(await answers(validation))) {
      validationReward[name] = meanReward(records);
    }
  }
  // Ties go to the first in the list.
  const best = Object.entries(validationReward).reduce(
    (leader, [name, reward]) => (reward > (validationReward[leader] ?? -1) ? name : leader),
    Object.keys(validationReward)[0] ?? EXPCOT_BLIND,
  );
  return {
    best,
    validationSeries: validation.length,
    validationReward,
    records: await answers(heldOut),
  };
}

const ADVICE = 'remove it and rebuild the report';

const choiceShape = z.strictObject({
  best: z.string().min(1),
  validationSeries: z.int().nonnegative(),
  validationReward: z.record(z.string(), z.number()),
});

const lineShape = z.strictObject({ detector: z.string().min(1), record: evalRecordShape });

/** Files of the baselines in an `eval` directory. */
export interface BaselineFiles {
  /** The choice: detector and mean validation rewards. */
  readonly choice: string;
  /** `{"detector", "record"}` a line: all answers of all detectors to the held-out series. */
  readonly answers: string;
}

/** Writes both files, the choice last: where it stands, the answers are whole. */
export function writeBaselines(files: BaselineFiles, { records, ...choice }: Baselines): void {
  const lines = Object.entries(records).flatMap(([detector, list]) =>
    list.map((record) => ({ detector, record })),
  );
  writeFileAtomic(files.answers, jsonLines(lines));
  writeFileAtomic(files.choice, `${JSON.stringify(choice, null, 2)}\n`);
}

/** Reads both files. @throws DataError naming the one that is missing or damaged. */
export function readBaselines(files: BaselineFiles): Baselines {
  const choice = readJson(files.choice, choiceShape, ADVICE);
  const records: Record<string, EvalRecord[]> = {};
  for (const { detector, record } of readJsonLines(files.answers, lineShape, { advice: ADVICE })) {
    records[detector] ??= [];
    records[detector].push(record);
  }
  if (records[choice.best] === undefined) {
    throw new DataError(`holds no answer of ${choice.best}, which was chosen; ${ADVICE}`, {
      file: files.answers,
    });
  }
  if (choice.validationSeries > 0) {
    const unknown = Object.keys(records).find((name) => choice.validationReward[name] === undefined);
    if (unknown !== undefined) {
      throw new DataError(`"validationReward": nothing about ${unknown}; ${ADVICE}`, { file: files.choice });
    }
  }
  return { ...choice, records };
}
