import type { Reliance } from '../../eval/reliance.ts';
import { COMMON_REWARDS } from '../../rewards/registry.ts';
import { quickNames } from '../answer/baselines.ts';
import { INTERVENTIONS } from '../claims/intervene.ts';
import { choiceHelp } from '../ground/choice.ts';
import { ConfigError, EndpointError } from '../ground/errors.ts';
import { print, printJson } from '../ground/terminal.ts';
import type { BoardEvaluation, EvalRequest, Missing, SingleEvaluation } from '../run/eval.ts';
import type { PromptTokens } from '../run/prompt-length.ts';
import {
  ADAPTER,
  choice,
  command,
  DEVICE,
  ENGINE_OPTIONS,
  flag,
  grouped,
  list,
  number,
  PROCESSES,
  shared,
  text,
} from './options.ts';

interface EvalArguments extends EvalRequest {
  readonly json: boolean;
  readonly processes: number;
}

/** Formats the token counts of a prompt with a picture and with numbers. */
function tokensLine(
  { picture, numbers, format, context }: PromptTokens,
  input: 'picture' | 'numbers',
): string {
  const visual = `${picture.tokens} tokens with a picture (${picture.visual} of them visual)`;
  const over = numbers.tokens > context ? `, over the context of ${context}` : '';
  const textual = `${numbers.tokens} with numbers (${format.digits} digits, at most ${format.points} values per channel)${over}`;
  return `prompt length: ${visual}, ${textual}; used: ${input === 'picture' ? 'pictures' : 'numbers'}\n`;
}

/** Names the best of several temperatures, and the next command. */
function bestLine(best: number, split: string): string {
  const note =
    split === 'test'
      ? 'chosen on the test split, so its score is biased upward: choose with --split validation, then evaluate that temperature on test'
      : `chosen on the ${split} split; evaluate it with --split test --temperature ${best}`;
  return `best mean reward at temperature ${best}, ${note}\n`;
}

async function printSingle(evaluated: SingleEvaluation, given: EvalArguments): Promise<void> {
  const { bestTemperature } = await import('../run/eval.ts');
  const { metricsTable, rewardsTable, temperatureTable } = await import('../../eval/metrics-table.ts');
  const { usageLine } = await import('../../eval/usage.ts');
  const { sets, classical, input, tokens, usage, reliance, title, statement } = evaluated;
  const [[, metrics]] = sets as [(typeof sets)[number]];
  const table =
    sets.length > 1
      ? `${temperatureTable(sets)}${bestLine(bestTemperature(sets), given.split)}`
      : `${metricsTable(metrics, classical)}${rewardsTable(metrics)}`;
  print(`${table}${tokens === null ? '' : tokensLine(tokens, input)}${usageLine(usage)}`, '');
  await printReliance([reliance]);
  if (statement !== null) print(`data: ${title}. ${statement}`);
}

/** Prints the effects of interventions, each under its heading. */
async function printReliance(
  reliances: readonly (Reliance | null)[],
  headings: readonly string[] = [],
): Promise<void> {
  const { relianceTable } = await import('../../eval/reliance.ts');
  for (const [i, reliance] of reliances.entries()) {
    if (reliance !== null)
      print(`\n${headings[i] ?? 'interventions on the reasoning'}\n${relianceTable(reliance)}`, '');
  }
}

async function printBoard(
  { board, reliances, statements }: BoardEvaluation,
  { out }: EvalArguments,
): Promise<void> {
  const { leaderboardTable, NOTES } = await import('../../eval/leaderboard.ts');
  print(`${leaderboardTable(board)}${NOTES[0]}`);
  await printReliance(
    reliances.map(({ reliance }) => reliance),
    reliances.map(({ task, policy }) => `interventions on the reasoning: ${policy} on ${task}`),
  );
  if (out !== undefined) print(`tables by task: ${out}/leaderboard.md, .csv and .html`);
  for (const statement of statements) print(`data: ${statement}`);
}

/** @throws EndpointError with the number of missing responses and the first reason */
function complain({ count, asked, reason, advice }: Missing, out: string | undefined): never {
  const again =
    out === undefined
      ? 'add --out to keep the others; --resume then requests only the missing ones'
      : 'run the same command with --resume to request only the missing ones';
  throw new EndpointError(
    `${count} of ${asked} responses are missing and are left out of the means (first: ${reason})`,
    { advice: advice === undefined ? again : `${advice}, then ${again}` },
  );
}

const OPTIONS = {
  ...grouped('Policies:', {
    policy: {
      type: 'string',
      array: true,
      nargs: 1,
      demandOption: true,
      describe:
        "Policy to evaluate (repeatable): small or inspect (which ship with timeseer); a checkpoint, an export or a run (its last trained policy); openai:MODEL@URL, any endpoint with OpenAI's protocol such as vLLM or Ollama (without @URL: OPENAI_BASE_URL, else api.openai.com); baseline:NAME, a classical baseline; FILE.ts or FILE.ts#NAME, your own policy or detector (definePolicy, defineDetector)",
    },
    adapter: ADAPTER,
    classical: flag(
      `Also evaluate the fast classical baselines of each task; --no-classical skips them. Anomalies: ${quickNames('anomaly').join(', ')}. Classes: ${quickNames('classification').join(', ')}. Questions: ${quickNames('question').join(', ')}. Slower baselines run only by name, e.g. --policy baseline:1nn-dtw`,
      true,
    ),
  }),
  ...grouped('Tasks:', {
    task: {
      alias: 'data',
      type: 'string',
      array: true,
      nargs: 1,
      describe:
        'Generator, directory of a prepared data set, or its name in data/ (repeatable, or separated by commas). Default: the task of the run, else nano5',
    },
    split: choice(['train', 'validation', 'test'], 'Split to evaluate', { default: 'test' }),
    count: number(
      'Maximum number of examples per task (random sample). Default: 400 for a generator, else all',
    ),
    length: number('Points per generated series. Default: as in training, else 1000'),
    seed: number('Seed for generated series, sampled examples, shots and sampled responses. Default: 42'),
  }),
  ...grouped('Questions:', {
    input: choice(
      ['picture', 'numbers'],
      'Form of the series in the prompt: a plot, or numbers as text. Default: as in training',
    ),
    digits: number('With --input numbers: significant digits. Default: as in training, else 3'),
    points: number(
      'With --input numbers: maximum values per channel; longer series are averaged in blocks. Default: as in training, else 250',
    ),
    shots: number('Number of solved training examples in each prompt (few-shot), balanced by class', {
      default: 0,
    }),
    reasoning: choice(['on', 'off'], 'on: ask for reasoning before the answer; off: for the answer only', {
      default: 'on',
    }),
    extension: flag(
      'Also ask for advice after the class, for tasks with gold advice. Always on for a policy trained to give it',
    ),
    inspect: flag(
      'Let the policy look closer over several turns (zoom, next, compare, spectrum, stats) before it answers; for tasks about anomalies in one channel. A policy trained for it does so without this flag',
    ),
    runtime: choice(
      ['tools', 'code'],
      'With --inspect, for large policies. tools: the policy calls tools; code: it writes JavaScript, which runs in a sandbox without network and files. Default: tools',
    ),
    history: choice(
      ['turns', 'optical'],
      'With --inspect, for large policies. turns: the prompt repeats the earlier turns; optical: it has one picture of their text, which the policy may compress (AgentOCR). Default: turns',
    ),
    tour: number(
      'A baseline for --inspect: show a small policy the whole series, then every window of N levels, 1 to 6 (1: 3 halves; 2: also 7 quarters; neighbours overlap by half). The closest answer about each place counts',
    ),
    judge: text('Judge of the advice: rules (offline, lenient), openai:MODEL@URL, or none. Default: rules'),
  }),
  ...grouped('Answers:', {
    temperature: text(
      'Sampling temperature, 0: greedy. Several, e.g. 0.5,0.7,1, are compared by mean reward',
      {
        default: '0',
      },
    ),
    samples: number('Number of responses per example when sampling', { default: 1 }),
    'max-tokens': number(
      'Maximum tokens per response. Default: eval.maxTokens of the run of a nano policy, 96 for other nano policies of timeseer, else 1024',
    ),
    answers: choice(
      ['lenient', 'strict'],
      "Parsing of answers: lenient, as in the papers' code, or strict. Default: as in the run, else lenient",
    ),
    intervene: flag(
      `Also continue from changed reasonings of the greedy responses, and measure whether the answers follow: ${choiceHelp(INTERVENTIONS)}. Endpoints must continue a begun response (vLLM, SGLang)`,
    ),
    reward: list(
      `Additional reward to report (repeatable): ./my-reward.ts or ./my-reward.ts#name, made with defineReward, or ${COMMON_REWARDS.join(', ')}`,
    ),
  }),
  ...grouped('On this machine:', {
    workers: number('Threads for a local policy', { default: 2 }),
    engine: ENGINE_OPTIONS.engine,
    device: DEVICE,
    processes: PROCESSES,
  }),
  ...grouped('Endpoints:', {
    concurrency: number('Maximum concurrent requests', { default: 8 }),
    'requests-per-minute': number('Rate limit: requests per minute'),
    'tokens-per-minute': number('Rate limit: prompt and completion tokens per minute'),
    timeout: number('Timeout of a request in seconds, at most 3600', { default: 300 }),
    attempts: number('Maximum attempts per request, with exponential back-off', { default: 6 }),
    prices: text('Price per million prompt and completion tokens, e.g. 0.15,0.6; enables cost reporting'),
    'key-variable': text('Environment variable with the API key. Default: OPENAI_API_KEY (may be unset)'),
  }),
  ...grouped('Results:', {
    out: text(
      'Output directory. One policy and task: records.jsonl (one line per response) and metrics.json. Several: TASK/POLICY/records.jsonl and leaderboard.md, .csv, .html',
    ),
    shard: text(
      'Answer one part of the examples, e.g. 2/4, on as many machines as there are parts, which share --out. The same command with --resume in place of --shard puts them together',
    ),
    resume: flag(
      'Resume the evaluation in --out: request only missing or failed responses. Refused when a setting that affects answers has changed',
    ),
    force: flag('Delete the evaluation in --out and start over'),
    json: flag('Print all metrics as JSON'),
    quiet: flag('Do not show progress'),
  }),
};

export const evaluation = command<EvalArguments>({
  command: 'eval',
  options: OPTIONS,
  check: ({ resume, force }) => {
    if (resume && force)
      throw new ConfigError('--resume continues and --force starts over: give one of them');
  },
  examples: [
    ['$0 eval --policy runs/quickstart', 'Greedy answers to 400 held-out nano5 series'],
    ['$0 eval --policy runs/quickstart --task anomllm --count 160', 'The eight AnomLLM tasks'],
    ['$0 eval --policy runs/har --task data/har', 'The test split of a prepared data set'],
    [
      '$0 eval --policy runs/a --policy runs/b --policy baseline:majority --task ctu,emg --out evaluations/ours',
      'A leaderboard of three policies on two prepared data sets',
    ],
    [
      '$0 eval --policy openai:qwen2.5vl:7b@http://localhost:11434/v1 --task ctu --out evaluations/ollama --resume',
      'A model served by Ollama; for vLLM: http://localhost:8000/v1',
    ],
    [
      '$0 eval --policy openai:gpt-4o --task ctu --concurrency 32 --prices 2.5,10 --out evaluations/gpt --resume',
      'A commercial model, with its cost; key in OPENAI_API_KEY',
    ],
    [
      '$0 eval --policy models/Qwen2.5-VL-3B-Instruct --task ctu --shots 4 --reasoning off --out evaluations/few-shot',
      'Four solved examples per prompt, answers without reasoning',
    ],
    [
      '$0 eval --policy models/Qwen2.5-VL-3B-Instruct --task ctu --input numbers',
      'The series as text instead of a plot',
    ],
    [
      '$0 eval --policy runs/quickstart --split validation --temperature 0.25,0.5,0.7,0.85,1 --samples 8',
      'Choose a temperature on the validation split',
    ],
    [
      '$0 eval --policy openai:Qwen2.5-VL-7B@http://localhost:8000/v1 --task wild --length 5000 --inspect',
      'Whether looking closer helps a model behind vLLM: compare with the same command without --inspect',
    ],
    [
      '$0 eval --policy small --task wild-long --length 5000 --tour 3',
      'A small policy shown all halves, quarters and eighths of each series as well',
    ],
    [
      '$0 eval --policy runs/quickstart --count 100000 --out /shared/evaluation --shard 3/16',
      'The third of 16 parts; after all of them the same command with --resume in place of --shard',
    ],
    ['$0 eval --policy runs/quickstart --intervene', 'Measure whether answers rest on the reasoning'],
    ['$0 eval --policy runs/quickstart --reward ./brief.ts', 'Report your own reward as well'],
    [
      '$0 eval --policy runs/quickstart --temperature 1 --samples 4 --out evaluations/sampled --resume',
      'Sampled responses; after an interruption, run the same command again',
    ],
  ],
  handler: shared(async (given: EvalArguments) => {
    const { runEval } = await import('../run/eval.ts');
    const evaluated = await runEval(given);
    if (given.json) printJson(evaluated.result);
    else if (evaluated.kind === 'single') await printSingle(evaluated, given);
    else await printBoard(evaluated, given);
    if (evaluated.missing !== null) complain(evaluated.missing, given.out);
  }),
});
