/** One policy on one task: questions, answers as they come, records on disk, metrics. */

import { hash } from 'node:crypto';
import { readdirSync, readFileSync } from 'node:fs';
import { join } from 'node:path';
import { promptFor } from '../../datasets/benchmarks/registry.ts';
import { EXAMPLES_MANIFEST } from '../../datasets/example-manifest.ts';
import { classesOf } from '../../datasets/materials.ts';
import type { ExampleAddress, ExampleSource } from '../../datasets/source.ts';
import { type Beginning, openManifest, writeManifest } from '../../eval/eval-manifest.ts';
import {
  byExample,
  type EvalData,
  type EvalForm,
  type EvalTask,
  evaluate,
  type ResponseRequest,
  recordOf,
} from '../../eval/harness.ts';
import { type Metrics, metricsOf } from '../../eval/metrics.ts';
import { RecordLog } from '../../eval/record-log.ts';
import { type ResponseUsage, usageOf } from '../../eval/usage.ts';
import type { Answerer } from '../answer/answerer.ts';
import { ConfigError, EndpointError } from '../ground/errors.ts';
import { withInterrupt } from '../ground/interrupt.ts';
import { closeAll } from '../ground/module-host.ts';
import { sum } from '../ground/numbers.ts';
import { codeDigest } from '../ground/paths.ts';
import { Progress } from '../ground/progress.ts';
import type { Shard } from '../ground/shard.ts';
import { say } from '../ground/terminal.ts';
import type { EvalRecord, Example, Json } from '../ground/types.ts';
import { moduleAddress } from '../ground/user-module.ts';
import { openTools } from '../inspect/tools.ts';
import { PictureCache } from '../plot/cache.ts';
import { RenderPool } from '../plot/pool.ts';
import { render } from '../plot/raster.ts';
import { defaultRecipe, type RewardRecipe } from '../recipe/recipe.ts';
import type { InspectCard, PolicyCard } from '../tasks/card.ts';
import { scoreAnswer } from '../tasks/kinds.ts';
import { promptVersion } from '../tasks/prompt.ts';
import { answerInWorkers } from './eval-stage.ts';
import { fewShot } from './few-shot.ts';
import {
  type JudgedExtensions,
  judgedExtensions,
  judgedText,
  judgeRecord,
  type OpenJudge,
} from './judging.ts';
import { exampleTask } from './policy-task.ts';
import { openRewards } from './rewards.ts';

export interface CellRequest {
  readonly policy: Answerer;
  readonly card: PolicyCard;
  readonly address: ExampleAddress;
  readonly source: ExampleSource;
  readonly form: EvalForm;
  readonly temperatures: readonly number[];
  /** Responses per example and temperature above 0; with openings per example. */
  readonly samples: number;
  /** Beginnings of greedy responses, by place of the example and sample: only these are asked for. Default: all, from nothing. */
  readonly openings?: ReadonlyMap<number, Readonly<Record<number, string>>> | null;
  /** Judge of extensions; none when null or absent. */
  readonly judge?: OpenJudge | null;
  /** Rewards that score responses beside the task's own. */
  readonly rewards?: readonly RewardRecipe[];
  /** Part of the examples to ask about; null: all, with the answers of parts that are there. */
  readonly shard?: Shard | null;
  /** Directory of the records; null: they are not kept. */
  readonly out: string | null;
  /** Device and number of Workers of a policy on this machine. */
  readonly device?: string;
  readonly workers?: number;
  readonly beginning: Beginning;
  /** Label of the progress. */
  readonly label: string;
  readonly silent: boolean;
}

/** Name of the records of a temperature, or of those of a shard. */
const recordsName = (stem: string, shard: Shard | null): string =>
  shard === null ? `${stem}.jsonl` : `${stem}.shard-${shard.index + 1}-of-${shard.of}.jsonl`;

/** Files in a directory with the records of shards of a temperature. */
function shardFiles(directory: string, stem: string): string[] {
  const shards = readdirSync(directory).filter(
    (name) => name.startsWith(`${stem}.shard-`) && /-of-\d+\.jsonl$/.test(name),
  );
  return shards.sort().map((name) => join(directory, name));
}

/** Answers at one temperature. */
export interface CellMode {
  readonly temperature: number;
  /** Records in the order of the examples, the samples of an example together; failed ones included. */
  readonly records: readonly EvalRecord[];
  /** Metrics over the responses; null where there are none. */
  readonly metrics: Metrics | null;
  readonly usage: ResponseUsage;
}

export interface CellResult {
  /** Answers by temperature, in the order asked for. */
  readonly modes: readonly CellMode[];
  /** Seconds of answering over all sessions. */
  readonly seconds: number;
  /** Scores of extensions; null where none was judged. */
  readonly judged: JudgedExtensions | null;
  /** Reason why an endpoint or a module was given up; null where it was not. */
  readonly failure: EndpointError | null;
}

/** Number of requests from which Workers draw, and bytes of pictures kept: the samples of an example share one. */
const MANY = 200;
const PICTURE_BYTES = 64 * 2 ** 20;

/** Identity of the examples: hash of the manifest of a prepared data set, or name of the generator. */
function dataIdentity({ name, split, seed, length, count }: ExampleAddress, source: ExampleSource): Json {
  const which = { split, seed, count: count ?? source.count };
  if (source.set === null) return { generator: name, length, ...which };
  const manifest = readFileSync(join(name, EXAMPLES_MANIFEST));
  return { set: hash('sha256', manifest), ...which };
}

/** Parses and grades a response again; what was not taken from its text stays. */
function gradedAgain(task: EvalTask, example: Example, before: EvalRecord): EvalRecord {
  const { frame: _, reasoning: __, ...kept } = before;
  const now = { ...kept, ...recordOf(task, example, before.response) };
  if (before.judged === undefined) return now;
  return { ...now, score: scoreAnswer(now.answer, now.gold, now.length, undefined, before.judged.score) };
}

const inspectText = ({ turns, tools, runtime, history, tour = 0 }: InspectCard): string =>
  `${turns} turns: ${runtime === 'code' ? 'code' : tools.join(' ')}${history === 'optical' ? ', optical' : ''}${tour > 0 ? `, tour of ${tour} levels` : ''}`;

/** Settings that the answers of a cell depend on. */
function settingsOf({
  policy,
  card,
  address,
  source,
  form,
  temperatures,
  samples,
  judge = null,
  rewards = [],
  openings = null,
}: CellRequest) {
  const data = dataIdentity(address, source);
  // A module counts by its content, not its path.
  const scored = rewards.map(({ use, sha256 }) =>
    sha256 === null ? use : `${sha256}#${moduleAddress(use, '.').name}`,
  );
  const also = scored.length === 0 ? {} : { rewards: scored };
  if (policy.reads === 'values') return { policy: policy.identity, data, ...also };
  const { facts } = source;
  return {
    policy: policy.identity,
    data,
    prompt: {
      version: promptVersion(promptFor(card.task, card.kind, facts.title, facts.prompt)),
      style: card.style,
      ...(form.numbers === null
        ? { input: 'picture', figure: card.figure }
        : { input: 'numbers', ...form.numbers }),
      shots: form.shots?.count ?? 0,
      reasoning: form.reasoning,
      ...(card.extension === true ? { extension: true } : {}),
      ...(card.inspect === undefined ? {} : { inspect: inspectText(card.inspect) }),
    },
    ...(judge === null ? {} : { judge: judge.judge.name }),
    ...(openings === null ? {} : { openings: hash('sha256', JSON.stringify([...openings])) }),
    ...also,
    answers: form.reading,
    maxTokens: form.maxTokens,
    seed: form.seed,
    temperatures,
    samples,
  };
}

/** Returns the place of each example by its id; reads the source when first called. */
function placesOf(source: ExampleSource): (id: string) => number | undefined {
  let places: Map<string, number> | undefined;
  return (id) => {
    places ??= new Map(Array.from(source, (example, i) => [example.id, i]));
    return places.get(id);
  };
}

/** Says how many series a program or a detector gave no answer about, and why: they count as wrong. */
function sayUnanswered(records: readonly EvalRecord[], label: string): void {
  const without = records.filter(
    ({ response, answer, failure }) => response === '' && failure === undefined && !answer.wellFormed,
  );
  const [first] = without;
  if (first === undefined) return;
  say(
    `warning: ${label}: ${without.length} of ${records.length} series have no answer, which counts as a wrong one; ${first.seriesId}: ${first.answer.problem}`,
  );
}

/**
 * Asks a policy about a task and computes the metrics of its answers, also where an endpoint was given up. Every record is written at once;
 * existing responses are kept, missing and failed ones requested. What other code has graded is graded again, and built-in baselines, whose
 * answers are the code's own, answer again.
 * @throws ConfigError where the directory holds an evaluation with other settings; Interrupted when stopped, with all records kept
 */
export async function evaluateCell(request: CellRequest): Promise<CellResult> {
  const { policy, card, address, source, form, judge = null, rewards = [], out, label, silent } = request;
  const { openings = null, shard = null } = request;
  const settings = settingsOf(request);
  const begun = out === null ? null : openManifest(out, settings, request.beginning);
  const code = codeDigest();
  const stale = begun !== null && begun.code !== code;
  const gradedBy = begun === null ? code : begun.code;
  const answerAgain = stale && 'baseline' in policy.identity;
  const temperatures = policy.reads === 'prompt' ? request.temperatures : [0];
  const places = placesOf(source);
  const logs = temperatures.map((temperature) => {
    const stem = temperatures.length > 1 ? `records.${temperature}` : 'records';
    const samples = temperature === 0 && openings === null ? 1 : request.samples;
    const log = new RecordLog(out === null ? null : join(out, recordsName(stem, shard)), samples, places);
    const parts = out === null || begun === null || shard !== null ? [] : shardFiles(out, stem);
    for (const part of parts) log.add(part, places);
    return log;
  });
  const asked = logs.map((log, m): ResponseRequest[] =>
    Array.from({ length: source.count * log.samples }, (_, i) => {
      const [number, sample] = [Math.floor(i / log.samples), i % log.samples];
      if (shard !== null && number % shard.of !== shard.index) return [];
      const opening = openings?.get(number)?.[sample];
      if (openings !== null && opening === undefined) return [];
      return { number, sample, temperature: temperatures[m]!, ...(opening === undefined ? {} : { opening }) };
    }).flat(),
  );
  if (shard !== null && shard.of > source.count) {
    throw new ConfigError(
      `--shard: ${shard.of} parts of ${source.count} examples: give at most ${source.count}`,
    );
  }
  const requests = asked.flatMap((list, m) =>
    list.filter(({ number, sample }) => answerAgain || !logs[m]!.has(number, sample)),
  );
  /** Lists responses that are there and lack the judge's score, as it could not be reached, or have rewards that other code computed. */
  const ungraded = (): { readonly record: EvalRecord; readonly request: ResponseRequest }[] =>
    logs.flatMap((log, m) =>
      log
        .kept()
        .filter(({ record }) => record.failure === undefined)
        .filter(
          ({ record }) =>
            (judge !== null && record.judged?.score === null) ||
            (stale && !answerAgain && rewards.length > 0),
        )
        .map(({ number, record }) => ({
          record,
          request: { number, sample: record.sample ?? 0, temperature: temperatures[m]! },
        })),
    );
  const toGrade = ungraded().length;
  const before = begun?.seconds ?? 0;
  let failure: EndpointError | null = null;
  const seconds = before + (await answer());
  const { classes } = source.facts;
  const modes = logs.map((log, m): CellMode => {
    const records = log.finish();
    sayUnanswered(records, label);
    return {
      temperature: temperatures[m]!,
      records,
      metrics: records.every(({ failure }) => failure !== undefined) ? null : metricsOf(records, { classes }),
      // Requests that were never sent have no record.
      usage: usageOf(records, asked[m]!.length),
    };
  });
  // A part of the examples leaves the others as other code has graded them.
  if (out !== null && stale && shard === null) writeManifest(out, settings, { seconds, code });
  const judged =
    judge === null
      ? null
      : judgedExtensions(
          modes.flatMap(({ records }) => records),
          judge,
        );
  if (judged !== null) say(judgedText(judged));
  return { modes, seconds, judged, failure };

  /** Asks the policy: in Workers for local weights, temperature by temperature otherwise. */
  async function ask(
    data: EvalData,
    report: (record: EvalRecord, request: ResponseRequest) => void,
    signal: AbortSignal,
  ): Promise<void> {
    if (policy.local !== null) {
      const { device = 'cpu', workers = 1 } = request;
      if (requests.length === 0) return;
      const { directory: from, adapter, engine } = policy.local;
      const job = { ...form, ...{ from, examples: address, engine, device } };
      const adapted = adapter === undefined ? job : { ...job, adapter };
      await answerInWorkers(adapted, workers, requests, report, signal);
      return;
    }
    const { maxTokens, seed } = form;
    for (const temperature of temperatures) {
      const missing = requests.filter((each) => each.temperature === temperature);
      await evaluate(policy, data, byExample(missing), { temperature, maxTokens, seed, signal }, report);
    }
  }

  /** Answers all requests; returns the seconds taken. */
  async function answer(): Promise<number> {
    if (requests.length + toGrade === 0 && !stale) return 0;
    // Workers draw where there is much to draw; they start with the first picture.
    const pool = requests.length < MANY ? null : new RenderPool();
    const draw = pool === null ? render : pool.render.bind(pool);
    const toolbox = await openTools(card.inspect?.tools ?? []);
    const parts = {
      ...{ facts: source.facts, reading: form.reading, reasoning: form.reasoning, tools: toolbox.tools },
      profile: classesOf(source.set),
      cache: new PictureCache(PICTURE_BYTES, draw),
    };
    const task = exampleTask({ ...card, numbers: form.numbers }, parts);
    const shotsOf = form.shots === null ? undefined : fewShot(address, card, parts, form.shots);
    const data: EvalData = { address, source, task, shotsOf };
    if (stale && policy.reads === 'prompt') {
      const changed = sum(
        logs.map((log) => log.revise((record, i) => gradedAgain(task, source.at(i), record))),
      );
      if (changed > 0) say(`${label}: other code had graded ${changed} of the responses there; graded again`);
    }
    const scorer =
      rewards.length === 0
        ? null
        : await openRewards(rewards, source.facts.kind, defaultRecipe().rl.reward, undefined, task.grader);
    const total = asked.flat().length;
    const progress = new Progress({
      ...{ label, total, done: total - requests.length - toGrade, unit: 'responses', silent },
    });
    const began = performance.now();
    let [first, failures, took] = [true, 0, 0];
    try {
      await withInterrupt(async (signal) => {
        const keep = (record: EvalRecord, { number, temperature }: ResponseRequest): void => {
          // The manifest is written with the first record.
          if (first && out !== null && begun === null)
            writeManifest(out, settings, { seconds: before, code });
          first = false;
          logs[temperatures.indexOf(temperature)]!.append(number, record);
          if (record.failure !== undefined) failures++;
          progress.advance(1, failures > 0 ? { failures } : {});
        };
        const grading: Promise<void>[] = [];
        let broken: unknown;
        const graded = async (record: EvalRecord, example: Example): Promise<EvalRecord> => {
          const isJudged = judge === null || (record.judged?.score ?? null) !== null;
          const judged = isJudged ? record : await judgeRecord(task, judge.judge, example, record, signal);
          if (scorer === null || record.failure !== undefined) return judged;
          return { ...judged, rewards: await scorer.totals(record.response, record.answer, example) };
        };
        const report = (record: EvalRecord, of: ResponseRequest): void => {
          if (judge === null && scorer === null) {
            keep(record, of);
            return;
          }
          // A response that was interrupted while judged is not kept, and requested again.
          const done = graded(record, source.at(of.number))
            .then((scored) => keep(scored, of))
            .catch((error: unknown) => {
              if (!signal.aborted) broken ??= error;
            });
          grading.push(done);
        };
        for (const { record, request: of } of ungraded()) report(record, of);
        try {
          await ask(data, report, signal);
        } finally {
          await Promise.all(grading);
        }
        if (broken !== undefined) throw broken;
        // A request to stop that came after the last response holds for the work after it.
        signal.throwIfAborted();
      });
    } catch (error) {
      if (!(error instanceof EndpointError)) throw error;
      failure = error;
    } finally {
      progress.stop();
      took = (performance.now() - began) / 1000;
      await pool?.close();
      for (const log of logs) log.close();
      if (out !== null && !first) writeManifest(out, settings, { seconds: before + took, code: gradedBy });
      await closeAll([toolbox, scorer]);
    }
    return took;
  }
}
