/** Judging of extensions: in reinforcement as a part of the reward, in evaluation beside it. */
import { lengthOf } from '../../datasets/example.ts';
import {
  type Extension,
  endpointJudge,
  type Judge,
  type Judgement,
  rulesJudge,
} from '../../rewards/judge.ts';
import { isEndpoint, parseEndpoint } from '../answer/reference.ts';
import { type ChatTotals, type EndpointOptions, openEndpoint } from '../endpoint/chat.ts';
import { ConfigError, DataError } from '../ground/errors.ts';
import { meanOrNull } from '../ground/numbers.ts';
import type { EvalRecord, Example, TokenUsage } from '../ground/types.ts';
import type { Recipe } from '../recipe/recipe.ts';
import { scoreAnswer } from '../tasks/kinds.ts';
import type { Task } from '../train/task.ts';
import type { ExampleTask } from './policy-task.ts';

/** Judge with its usage so far; the rules have none (null). */
export interface OpenJudge {
  readonly judge: Judge;
  readonly totals: () => ChatTotals | null;
}

/** @param name `rules` or `openai:MODEL@URL` @throws ConfigError for anything else, and as `openEndpoint` */
export function openJudge(
  name: string,
  seconds: number,
  options: Omit<EndpointOptions, 'url' | 'model'> = {},
): OpenJudge {
  if (name === 'rules') return { judge: rulesJudge, totals: () => null };
  if (!isEndpoint(name))
    throw new ConfigError(`extension.judge: got ${name}, expected rules, none or openai:MODEL@URL`);
  const endpoint = openEndpoint({ ...parseEndpoint(name), timeout: seconds, ...options });
  return { judge: endpointJudge(endpoint, { seconds }), totals: endpoint.totals };
}

/** Opens the judge of a recipe; null where no extension is asked for, or none is judged. @throws ConfigError as `openJudge` */
export function recipeJudge({ extension }: Pick<Recipe, 'extension'>): OpenJudge | null {
  const { ask, judge, seconds, prices } = extension;
  if (!ask || judge === 'none') return null;
  return openJudge(judge, seconds, {
    keyVariable: extension.keyVariable ?? undefined,
    concurrency: extension.concurrency,
    requestsPerMinute: extension.requestsPerMinute ?? undefined,
    tokensPerMinute: extension.tokensPerMinute ?? undefined,
    ...(prices === null ? {} : { prices: { prompt: prices[0], completion: prices[1] } }),
    cache: extension.cache ?? undefined,
  });
}

/** Number of judged extensions and of missing scores, with the reason of the last one missing. */
export interface JudgeCounts {
  judged: number;
  missing: number;
  reason: string | null;
}

/**
 * Scores responses with TimeMaster's reward and a judge, which gets the extensions of correct and well-formed answers only. Extensions of
 * one turn of the event loop are judged together, so that a step waits once. A response without a score has no reward.
 */
export function judgedScore(
  task: Pick<ExampleTask, 'parse' | 'extension'>,
  judge: Judge,
  counts: JudgeCounts = { judged: 0, missing: 0, reason: null },
): Task['score'] {
  let waiting: { readonly extension: Extension; readonly tell: (judgement: Promise<Judgement>) => void }[] =
    [];

  function send(): void {
    const sent = waiting;
    waiting = [];
    const judged = judge.judge(sent.map(({ extension }) => extension));
    for (const [i, { tell }] of sent.entries()) tell(judged.then((all) => all[i]!));
  }

  const ask = (extension: Extension): Promise<Judgement> =>
    new Promise((tell) => {
      if (waiting.length === 0) queueMicrotask(send);
      waiting.push({ extension, tell });
    });

  return async (response: string, example: Example) => {
    const extension = task.extension(response, example);
    const judged = extension === null ? null : await ask(extension);
    if (judged !== null) {
      counts.judged++;
      if (judged.score === null) {
        counts.missing++;
        counts.reason = judged.notes;
      }
    }
    if (judged?.score === null) return null;
    const answer = task.parse(response, example);
    return scoreAnswer(answer, example.gold, lengthOf(example), undefined, judged?.score ?? 0);
  };
}

/** Adds the judgement of its extension to a record and its score; leaves a record without extension as it is. */
export async function judgeRecord(
  task: Pick<ExampleTask, 'extension'>,
  judge: Judge,
  example: Example,
  record: EvalRecord,
  signal?: AbortSignal,
): Promise<EvalRecord> {
  const { answer, gold, length } = record;
  if (answer.extension === undefined || record.failure !== undefined) return record;
  const extension = task.extension(record.response, example);
  const [judgement] = extension === null ? [] : await judge.judge([extension], signal);
  const { score, notes } = judgement ?? { score: 0, notes: 'the answer is wrong or ill-formed' };
  const judged = { by: judge.name, score, notes };
  return { ...record, score: scoreAnswer(answer, gold, length, undefined, score), judged };
}

/** Number of records judged together, so that none times out while it waits for its turn. */
const CHUNK = 64;

/** Judges many records. @throws DataError for a record of none of the examples */
export async function judgeRecords(
  task: Pick<ExampleTask, 'extension'>,
  judge: Judge,
  examples: Iterable<Example>,
  records: readonly EvalRecord[],
): Promise<EvalRecord[]> {
  const byId = new Map(Array.from(examples, (example) => [example.id, example]));
  const out: EvalRecord[] = [];
  for (let first = 0; first < records.length; first += CHUNK) {
    const chunk = records.slice(first, first + CHUNK).map((record) => {
      const example = byId.get(record.seriesId);
      if (example !== undefined) return judgeRecord(task, judge, example, record);
      throw new DataError(`${record.seriesId}: answered, but not among the examples`);
    });
    out.push(...(await Promise.all(chunk)));
  }
  return out;
}

/** Scores of the extensions of an evaluation. */
export interface JudgedExtensions {
  readonly judge: string;
  /** Number of scored responses, wrong answers (0) included. */
  readonly scored: number;
  readonly missing: number;
  /** Mean over the scored responses; null where there are none. */
  readonly mean: number | null;
  /** Reason of the first missing score. */
  readonly reason: string | null;
  /** Tokens and cost of this session; null of the rules. */
  readonly usage: TokenUsage | null;
  readonly cost: number | null;
}

export function judgedExtensions(
  records: readonly EvalRecord[],
  { judge, totals }: OpenJudge,
): JudgedExtensions {
  const judged = records.flatMap((record) => record.judged ?? []);
  const scores = judged.flatMap(({ score }) => (score === null ? [] : [score]));
  const asked = totals();
  return {
    judge: judge.name,
    scored: scores.length,
    missing: judged.length - scores.length,
    mean: meanOrNull(scores),
    reason: judged.find(({ score }) => score === null)?.notes ?? null,
    usage: asked?.usage ?? null,
    cost: asked?.cost ?? null,
  };
}

/** Formats the scores as one line. */
export function judgedText({ judge, scored, missing, mean, reason, usage }: JudgedExtensions): string {
  const scores = mean === null ? 'none scored' : `mean ${mean.toFixed(3)} of ${scored}`;
  const gaps = missing === 0 ? '' : `, ${missing} without a score (${reason})`;
  const tokens = usage === null ? '' : `; ${usage.prompt + usage.completion} tokens`;
  return `extensions, judged by ${judge}: ${scores}${gaps}${tokens}`;
}
