/**
 * Forecast of the reinforcement stage on more ranks, from the log of a run. Every further rank brings as many prompts of its own (weak
 * scaling). A step of R ranks is that of one, stretched by the slowest and by what is exchanged:
 *
 *   rollout                 × E[longest of R·n responses] / E[longest of n]: a rank decodes until its last response ends
 *   transport to update     × E[most tokens of a rank among R] / E[tokens of a rank]
 *   gradients, parameters   each update: 2 · 4 B · T · (R − 1) / R over the link; latency · (R − 1) for the gather and ⌈log2 R⌉ for the broadcast
 *                           (of ZeRO 1; 2 sends gradients in each micro-batch, 3 layers too)
 *   small collectives       latency · (R − 1) each, in rings
 *
 * n: responses of a rank in a step, T: trained parameters. Lengths are those of the run's table of completions. Nothing is taken to overlap
 * with the backward pass; compute of the ranks is taken to be as measured.
 */
import { join } from 'node:path';
import { z } from 'zod';
import { RunDirectory } from '../../eval/run-directory.ts';
import { ConfigError, DataError } from '../ground/errors.ts';
import { readJsonLines } from '../ground/json-files.ts';
import { mean, percent, plural, sum } from '../ground/numbers.ts';
import { Random } from '../ground/random.ts';
import { columns } from '../ground/terminal.ts';
import { layoutOf } from '../policy/layout.ts';
import { adapterLayout } from '../policy/lora.ts';
import { isTuned, readParts } from '../policy/policy.ts';
import { Tokenizer } from '../policy/tokenizer.ts';
import { bytesText } from '../train/memory-plan.ts';

/** Steps that warm up, left out where there are more. */
const WARM = 5;
/** Exchanges of a few numbers in a step beside those of each update: stop flag, advantages, and the log. */
const COLLECTIVES = 6;
/** Those of an update: counts and norm. */
const COLLECTIVES_OF_UPDATE = 2;
const DRAWS = 200;

export interface Link {
  /** Bytes per second, of one rank. */
  readonly bandwidth: number;
  /** Seconds. */
  readonly latency: number;
}

interface Measured {
  /** Milliseconds of a step by phase. */
  readonly ms: Readonly<Record<string, number>>;
  /** Lengths of sampled responses, tokens. */
  readonly lengths: readonly number[];
  /** Responses of a rank in a step. */
  readonly responses: number;
  readonly prompts: number;
  readonly updates: number;
  /** Trained parameters. */
  readonly trained: number;
}

export interface Scaled {
  readonly ranks: number;
  /** Milliseconds of a step, and what of them is waiting for the slowest rank and exchange. */
  readonly ms: { readonly step: number; readonly waiting: number; readonly exchange: number };
  /** Share of the throughput of as many ranks that need not wait for each other. */
  readonly efficiency: number;
  /** Prompts per second, of all ranks. */
  readonly prompts: number;
}

/** Reads what a forecast needs of a run. @throws ConfigError for a run without reinforcement; DataError when damaged */
function measuredIn(directory: string): Measured & { readonly workers: number } {
  const run = new RunDirectory(directory);
  const all = run.rlLines();
  const lines = all.slice(Math.min(WARM, all.length - 1));
  const size = run.policySize();
  if (lines.length === 0 || size === null) {
    throw new ConfigError(
      `${directory}: has no steps of reinforcement to forecast from; name a run of timeseer train or quickstart`,
    );
  }
  const { rl, policy } = run.recipe;
  const from = ['rl', 'sft', 'initial'].map((name) => run.policy(name as 'rl'));
  const parts = from.flatMap((path) => {
    try {
      return [readParts(path)];
    } catch {
      return [];
    }
  })[0];
  const file = join(directory, 'rl', 'completions.jsonl');
  if (parts === undefined) throw new DataError('no policy is left in the run', { file: directory });
  const tokenizer = new Tokenizer(parts.tokenizer, parts.tokenizerConfig);
  const lengths: number[] = [];
  const shape = z.looseObject({ response: z.string() });
  for (const { response } of readJsonLines(file, shape, { advice: 'the table of completions is damaged' }))
    lengths.push(tokenizer.encode(response).length + 1);
  if (lengths.length === 0) throw new DataError('holds no responses', { file });
  // Those of train, of quickstart, and of runs before either wrote them.
  const { rl_workers: ofStage, workers: ofRun = rl.workers } = run.environment;
  const workers = Math.min(Number(ofStage ?? ofRun), rl.prompts);
  const phases = Object.keys(lines[0]!.ms);
  const layout = layoutOf(size.dims);
  const trained =
    policy.tune === 'adapter'
      ? adapterLayout(size.dims, policy.adapter).size
      : sum(layout.parameters.map((parameter) => (isTuned(policy.tune, parameter) ? parameter.size : 0)));
  return {
    ...{ lengths, trained, workers, updates: rl.epochs * rl.miniBatches },
    ms: Object.fromEntries(phases.map((phase) => [phase, mean(lines.map(({ ms }) => ms[phase]!))])),
    prompts: Math.ceil(rl.prompts / workers),
    responses: Math.ceil(rl.prompts / workers) * rl.group,
  };
}

/** Means, over draws, of the longest response and of the most tokens of a rank, among R ranks. */
function slowest({ lengths, responses }: Measured, ranks: number): { longest: number; most: number } {
  const random = new Random(1, 'scaling', ranks);
  const draws = Math.max(8, Math.round(DRAWS / Math.sqrt(ranks)));
  let [longest, most] = [0, 0];
  for (let draw = 0; draw < draws; draw++) {
    let [ofStep, ofRank] = [0, 0];
    for (let r = 0; r < ranks; r++) {
      let tokens = 0;
      for (let g = 0; g < responses; g++) {
        const length = lengths[random.integer(0, lengths.length - 1)]!;
        tokens += length;
        if (length > ofStep) ofStep = length;
      }
      ofRank = Math.max(ofRank, tokens);
    }
    longest += ofStep / draws;
    most += ofRank / draws;
  }
  return { longest, most };
}

/** Forecasts a step of each number of ranks. */
export function forecast(measured: Measured, link: Link, ranks: readonly number[]): Scaled[] {
  const { ms, updates, trained, prompts, responses, lengths } = measured;
  const alone = sum(Object.values(ms));
  const one = { longest: slowest(measured, 1).longest, most: responses * mean(lengths) };
  return ranks.map((count) => {
    const { longest, most } = slowest(measured, count);
    const { data = 0, rollout = 0, ...rest } = ms;
    const computed =
      data +
      rollout * Math.max(1, longest / one.longest) +
      sum(Object.values(rest)) * Math.max(1, most / one.most);
    const hops = count - 1;
    const bytes = (2 * 4 * trained * hops) / count;
    const latencies =
      updates * (hops + Math.ceil(Math.log2(count)) + COLLECTIVES_OF_UPDATE * hops) + COLLECTIVES * hops;
    const exchange = 1000 * ((updates * bytes) / link.bandwidth + latencies * link.latency);
    // One rank waits for nobody.
    const waiting = count === 1 ? 0 : computed - alone;
    const step = alone + waiting + exchange;
    return {
      ranks: count,
      ms: { step, waiting, exchange },
      efficiency: alone / step,
      prompts: (1000 * prompts * count) / step,
    };
  });
}

/** Forecasts a run's reinforcement; lines for people, and values. */
export function scaledRun(
  directory: string,
  link: Link,
  ranks: readonly number[],
): { readonly lines: readonly string[]; readonly value: object } {
  const measured = measuredIn(directory);
  const rows = forecast(measured, link, ranks);
  const { ms, lengths, trained, prompts, responses, workers, updates } = measured;
  const sorted = [...lengths].sort((a, b) => a - b);
  const parts = Object.entries(ms).map(([phase, of]) => `${phase} ${of.toFixed(0)}`);
  const lines = [
    `measured on ${plural(workers, 'rank')}: a step of ${sum(Object.values(ms)).toFixed(0)} ms (${parts.join(', ')}), ${plural(prompts, 'prompt')} and ${plural(responses, 'response')} on each`,
    `responses of ${mean(lengths).toFixed(0)} tokens, the longest of ${sorted.at(-1)}; ${bytesText(4 * trained)} of gradients, ${plural(updates, 'update')} a step`,
    `link of a rank: ${bytesText(link.bandwidth)}/s, latency ${link.latency * 1e6} µs; every rank has as many prompts as measured`,
    '',
    columns([
      ['ranks', 'step', 'waiting', 'exchange', 'efficiency', 'prompts/s'],
      ...rows.map(({ ranks: count, ms: of, efficiency, prompts: per }) => [
        `${count}`,
        `${of.step.toFixed(0)} ms`,
        ...[of.waiting / of.step, of.exchange / of.step, efficiency].map((share) => percent(share, 1, ' ')),
        per < 100 ? per.toPrecision(3) : per.toFixed(0),
      ]),
    ]),
  ];
  const { lengths: _, ...rest } = measured;
  return { lines, value: { measured: { ...rest, longest: sorted.at(-1), mean: mean(lengths) }, link, rows } };
}
