/** `timeseer eval`: records, metrics and a table for one policy and one data set. */
import { existsSync, statSync } from 'node:fs';
import { join } from 'node:path';
import { trainingSplit } from '../../../datasets/partition.ts';
import {
  type ExampleAddress,
  type ExampleSource,
  isGenerator,
  openExamples,
} from '../../../datasets/source.ts';
import { classicalAnswers } from '../../../eval/baselines.ts';
import { type MetricSet, metricsOf, overallOf } from '../../../eval/metrics.ts';
import { metricsTable } from '../../../eval/metrics-table.ts';
import { writeRecords } from '../../../eval/records.ts';
import { ConfigError } from '../../errors.ts';
import { writeFileAtomic } from '../../files.ts';
import { withInterrupt } from '../../interrupt.ts';
import type { NumbersFormat } from '../../train/card.ts';
import { evaluationCard } from '../task/card.ts';
import { type PromptTokens, promptTokens } from '../task/prompt-tokens.ts';
import { runEvalStage } from './eval-stage.ts';
import { findPolicy } from './find-policy.ts';

export interface EvalRequest {
  readonly policy: string;
  readonly data: string;
  readonly split: 'train' | 'validation' | 'test';
  readonly seed: number | undefined;
  readonly count: number | undefined;
  readonly length: number;
  readonly input: 'picture' | 'numbers' | undefined;
  readonly digits: number;
  readonly points: number;
  readonly temperature: number;
  readonly samples: number;
  readonly maxTokens: number | undefined;
  readonly workers: number;
  readonly device: string;
  readonly out: string | undefined;
  readonly classical: boolean;
  readonly quiet: boolean;
  readonly json: boolean;
}

/** Examples of a generator unless asked otherwise; of a data set, all. */
const GENERATED = 400;
/** Longest response unless asked otherwise, by the style that the policy answers in. */
const MOST_TOKENS = { nano: 96, full: 1024 } as const;

function check(given: EvalRequest): void {
  for (const [name, value, least] of [
    ['count', given.count ?? 1, 1],
    ['samples', given.samples, 1],
    ['max-tokens', given.maxTokens ?? 1, 1],
    ['workers', given.workers, 1],
    ['digits', given.digits, 1],
    ['points', given.points, 2],
  ] as const) {
    if (!Number.isInteger(value) || value < least) {
      throw new ConfigError(`--${name}: got ${value}, expected an integer ≥ ${least}`);
    }
  }
  if (given.digits > 17) throw new ConfigError(`--digits: got ${given.digits}, expected at most 17`);
  if (!(given.temperature >= 0 && given.temperature <= 10)) {
    throw new ConfigError(`--temperature: got ${given.temperature}, expected a number from 0 to 10`);
  }
}

/** What a prompt takes, and would take in the other mode. */
function tokensLine(
  { picture, numbers, format, context }: PromptTokens,
  input: 'picture' | 'numbers',
): string {
  const shown = `${picture.tokens} tokens with a picture, ${picture.visual} of them visual`;
  const over = numbers.tokens > context ? `, more than the context of ${context}` : '';
  const read = `${numbers.tokens} with numbers (${format.digits} digits, at most ${format.points} values a channel)${over}`;
  return `prompts: ${shown}; ${read}; asked with ${input === 'picture' ? 'pictures' : 'numbers'}\n`;
}

/** Every detector on the same examples. None is chosen here: a choice needs a validation split. */
async function classicalMetrics(
  source: ExampleSource,
  classes: readonly string[],
  name: string,
): Promise<Record<string, MetricSet>> {
  const answers = await classicalAnswers([...source], trainingSplit(name));
  return Object.fromEntries(
    Object.entries(answers).map(([detector, list]) => [detector, overallOf(list, { classes })]),
  );
}

export async function runEval(given: EvalRequest): Promise<void> {
  check(given);
  if (given.out !== undefined && existsSync(given.out) && !statSync(given.out).isDirectory()) {
    throw new ConfigError(`${given.out}: is a file; give a directory with --out`);
  }
  const from = findPolicy(given.policy);
  const seed = given.seed ?? 42;
  const { data: name, split, length, digits, points } = given;
  const count = given.count ?? (isGenerator(name) ? GENERATED : undefined);
  const examples: ExampleAddress = { name, split, seed, length, ...(count === undefined ? {} : { count }) };
  const source = openExamples(examples);
  const format: NumbersFormat = { digits, points };
  const wanted = given.input === undefined ? undefined : given.input === 'numbers' ? format : null;
  const card = evaluationCard(from, source.facts, wanted);
  const input = card.numbers === null ? 'picture' : 'numbers';
  const tokens = await promptTokens(from, card, source, card.numbers ?? format);
  const [records] = await withInterrupt((signal) =>
    runEvalStage({
      ...given,
      from,
      label: 'eval',
      examples,
      ...(wanted === undefined ? {} : { numbers: wanted }),
      modes: [{ temperature: given.temperature, samples: given.samples }],
      maxTokens: given.maxTokens ?? MOST_TOKENS[card.style],
      seed,
      silent: given.quiet,
      signal,
    }),
  );
  const { classes } = source.facts;
  const metrics = metricsOf(records!, { classes });
  const classical = given.classical ? await classicalMetrics(source, classes, name) : {};
  const { statement, title } = source.facts;
  const data = { ...examples, title, ...(statement === null ? {} : { statement }) };
  const { temperature } = given;
  const result = { policy: from, data, temperature, input, prompt: tokens, metrics, classical };
  if (given.out !== undefined) {
    writeRecords(join(given.out, 'records.jsonl'), records!);
    writeFileAtomic(join(given.out, 'metrics.json'), `${JSON.stringify(result, null, 2)}\n`);
  }
  process.stdout.write(
    given.json
      ? `${JSON.stringify(result)}\n`
      : metricsTable(metrics, classical) +
          tokensLine(tokens, input) +
          (statement === null ? '' : `data: ${title}. ${statement}\n`),
  );
}
