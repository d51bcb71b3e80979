import type { CommandModule } from 'yargs';
import { COMMON_REWARDS } from '../../rewards/registry.ts';
import { ENGINE_HELP, ENGINES } from '../answer/answerer.ts';
import { ConfigError, EndpointError } from '../ground/errors.ts';
import { print, printJson } from '../ground/terminal.ts';
import type { BoardEvaluation, EvalRequest, Missing, SingleEvaluation } from '../run/eval.ts';
import type { PromptTokens } from '../run/prompt-length.ts';

interface EvalArguments extends EvalRequest {
  readonly json: boolean;
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

/** What to do with the best of several temperatures. */
function bestLine(best: number, split: string): string {
  const note =
    split === 'test'
      ? 'chosen on the test split, which flatters it: choose on --split validation, then evaluate that one on test'
      : `chosen on the ${split} split; --split test --temperature ${best} evaluates it unseen`;
  return `best mean reward at temperature ${best}, ${note}\n`;
}

/** An option that takes a number. */
const numeric = (describe: string, preset?: number) => ({
  ...({ type: 'number', requiresArg: true, describe } as const),
  ...(preset === undefined ? {} : { default: preset }),
});

async function printSingle(found: SingleEvaluation, given: EvalArguments): Promise<void> {
  const { bestTemperature } = await import('../run/eval.ts');
  const { metricsTable, rewardsTable, temperatureTable } = await import('../../eval/metrics-table.ts');
  const { usageLine } = await import('../../eval/usage.ts');
  const { sets, classical, input, tokens, usage, title, statement } = found;
  const [[, metrics]] = sets as [(typeof sets)[number]];
  const table =
    sets.length > 1
      ? `${temperatureTable(sets)}${bestLine(bestTemperature(sets), given.split)}`
      : `${metricsTable(metrics, classical)}${rewardsTable(metrics)}`;
  print(`${table}${tokens === null ? '' : tokensLine(tokens, input)}${usageLine(usage)}`, '');
  if (statement !== null) print(`data: ${title}. ${statement}`);
}

async function printBoard(found: BoardEvaluation, { out }: EvalArguments): Promise<void> {
  const { leaderboardTable, NOTES } = await import('../../eval/leaderboard.ts');
  print(`${leaderboardTable(found.board)}${NOTES[0]}`);
  if (out !== undefined) print(`tables of every task: ${out}/leaderboard.md, .csv and .html`);
  for (const statement of found.statements) print(`data: ${statement}`);
}

/** @throws EndpointError naming how many responses did not come */
function complain({ count, asked, reason }: Missing, out: string | undefined): never {
  throw new EndpointError(
    `${count} of ${asked} responses are missing, and have no part in the means (first: ${reason})`,
    {
      advice:
        out === undefined
          ? 'with --out the others are kept, and --resume asks for these again'
          : 'the same command with --resume asks for these again',
    },
  );
}

const GROUPS: Readonly<Record<string, readonly string[]>> = {
  'Policies:': ['policy', 'adapter', 'classical'],
  'Tasks:': ['task', 'split', 'count', 'length', 'seed'],
  'Questions:': ['input', 'digits', 'points', 'shots', 'reasoning', 'extension', 'judge'],
  'Answers:': ['temperature', 'samples', 'max-tokens', 'answers', 'reward'],
  'On this machine:': ['workers', 'engine', 'device'],
  'Endpoints:': [
    ...['concurrency', 'requests-per-minute', 'tokens-per-minute', 'timeout', 'attempts', 'prices'],
    'key-variable',
  ],
  'Results:': ['out', 'resume', 'force', 'json', 'quiet'],
};

export const evaluation: CommandModule<object, EvalArguments> = {
  command: 'eval',
  describe: 'Evaluate a policy on held-out examples, beside classical detectors',
  builder: (cli) => {
    const options = cli
      .option('policy', {
        type: 'string',
        array: true,
        nargs: 1,
        demandOption: true,
        describe:
          "What answers (repeatable): the directory of a policy or of a run (its furthest trained policy); openai:MODEL@URL, a model behind any endpoint that speaks OpenAI's protocol (vLLM, Ollama, commercial ones; without @URL that of OPENAI_BASE_URL, else api.openai.com); baseline:NAME, a classical baseline; FILE.ts, FILE.js or FILE.ts#NAME, a policy or a detector of your own (definePolicy, defineDetector)",
      })
      .option('adapter', {
        type: 'string',
        requiresArg: true,
        describe: 'Directory of a low-rank adapter (LoRA, PEFT) of the policy',
      })
      .option('classical', {
        type: 'boolean',
        default: true,
        describe:
          'Evaluate the quick classical baselines of each task too, those that take milliseconds a series: for anomalies expcot-blind and the detectors with fixed thresholds (zscore, clipped-zscore, iqr, gradient, sliding-period, discord, discords), for classes those that learn at once (majority, 1nn-euclid); --no-classical leaves them out. Slower ones answer when asked for, as --policy baseline:1nn-dtw',
      })
      .option('task', {
        alias: 'data',
        type: 'string',
        array: true,
        nargs: 1,
        describe:
          'Generator, directory of a prepared data set, or its name in data/; several between commas. Default: that of the run, else nano5',
      })
      .option('split', {
        choices: ['train', 'validation', 'test'] as const,
        default: 'test' as const,
        requiresArg: true,
        describe: 'Which examples of a task',
      })
      .option(
        'count',
        numeric('Most examples of a task, drawn at random; default: 400 of a generator, else all'),
      )
      .option(
        'length',
        numeric(
          'Points per series of a generator; default: as the policy was taught where that was a generator, else 1000',
        ),
      )
      .option('seed', numeric('Of generated series, draws, shots and sampling; default 42'))
      .option('input', {
        choices: ['picture', 'numbers'] as const,
        requiresArg: true,
        describe: 'Show pictures, or write series as numbers; default: as the policy was trained',
      })
      .option('digits', numeric('Significant digits of numbers; default 3, or as trained'))
      .option(
        'points',
        numeric('Most numbers per channel; longer series become block means; default 250, or as trained'),
      )
      .option(
        'shots',
        numeric('Solved training examples before each question: drawn with the seed, balanced by class', 0),
      )
      .option('reasoning', {
        choices: ['on', 'off'] as const,
        default: 'on' as const,
        requiresArg: true,
        describe: 'Ask for reasoning before the answer, or for the answer alone',
      })
      .option('extension', {
        type: 'boolean',
        default: false,
        describe:
          'Ask for advice after the class, where the task has some; always of a policy that was taught to give it',
      })
      .option('judge', {
        type: 'string',
        requiresArg: true,
        describe:
          'Who judges the advice: rules (default; offline, and easy to please), openai:MODEL@URL, or none',
      })
      .option('reward', {
        type: 'string',
        array: true,
        nargs: 1,
        default: [] as string[],
        describe: `Reward to score responses by beside that of the task (repeatable): ./my-reward.ts or ./my-reward.ts#name, made with defineReward, or ${COMMON_REWARDS.join(', ')}`,
      })
      .option('temperature', {
        type: 'string',
        default: '0',
        requiresArg: true,
        describe: '0 is greedy; several, such as 0.5,0.7,1, are compared by mean reward',
      })
      .option('samples', numeric('Responses per example when sampling', 1))
      .option(
        'max-tokens',
        numeric('Longest response, in tokens; default 96 of a small policy trained here, 1024 of others'),
      )
      .option('answers', {
        choices: ['lenient', 'strict'] as const,
        requiresArg: true,
        describe:
          "How answers are read: as the papers' releases do, or strictly; default: as the run, else lenient",
      })
      .option('workers', numeric('Threads that a policy answers on', 2))
      .option('engine', { choices: ENGINES, describe: ENGINE_HELP, requiresArg: true })
      .option('device', {
        type: 'string',
        default: 'cpu',
        requiresArg: true,
        describe: 'cpu, cuda or cuda:N',
      })
      .option('concurrency', numeric('Requests at once', 8))
      .option('requests-per-minute', numeric('Most requests that begin in a minute'))
      .option('tokens-per-minute', numeric('Most tokens of prompts and responses in a minute'))
      .option('timeout', numeric('Seconds until a request counts as failed, at most 300', 300))
      .option('attempts', numeric('Times that a request is sent at most, with growing pauses', 6))
      .option('prices', {
        type: 'string',
        requiresArg: true,
        describe: 'Of a million tokens of prompts and of responses, such as 0.15,0.6: then costs are told',
      })
      .option('key-variable', {
        type: 'string',
        requiresArg: true,
        describe: 'Environment variable with the key; default OPENAI_API_KEY, which may be unset',
      })
      .option('out', {
        type: 'string',
        requiresArg: true,
        describe:
          'Directory of the results: records.jsonl, a line for every response as it comes, and metrics.json; of several policies or tasks TASK/POLICY/records.jsonl and leaderboard.md, .csv, .html',
      })
      .option('resume', {
        type: 'boolean',
        default: false,
        describe:
          'Go on with the evaluation in --out: only responses that are missing or failed are asked for. Refused when anything that answers depend on has changed',
      })
      .option('force', {
        type: 'boolean',
        default: false,
        describe: 'Remove the evaluation in --out, and begin anew',
      })
      .option('json', { type: 'boolean', default: false, describe: 'Print all metrics as JSON' })
      .option('quiet', { type: 'boolean', default: false, describe: 'No progress' });
    for (const [title, names] of Object.entries(GROUPS)) options.group([...names], title);
    return options
      .check(({ resume, force, ...others }) => {
        // What yargs makes of a number that is none.
        const none = Object.entries(others).find(([, value]) => Number.isNaN(value));
        if (none !== undefined) throw new ConfigError(`--${none[0]}: expected a number`);
        if (resume && force)
          throw new ConfigError('--resume goes on and --force begins anew: give one of them');
        return true;
      })
      .example('$0 eval --policy runs/quickstart', 'Greedy answers to 400 held-out nano5 series')
      .example('$0 eval --policy runs/quickstart --task anomllm --count 160', 'The eight AnomLLM tasks')
      .example('$0 eval --policy runs/har --task data/har', 'The test split of a prepared data set')
      .example(
        '$0 eval --policy runs/a --policy runs/b --policy baseline:majority --task ctu,emg --out evaluations/ours',
        'A leaderboard of three policies on two prepared data sets',
      )
      .example(
        '$0 eval --policy openai:qwen2.5vl:7b@http://localhost:11434/v1 --task ctu --out evaluations/ollama --resume',
        'A model that Ollama serves; vLLM alike, at http://localhost:8000/v1',
      )
      .example(
        '$0 eval --policy openai:gpt-4o --task ctu --concurrency 32 --prices 2.5,10 --out evaluations/gpt --resume',
        'A commercial one, with its cost; the key in OPENAI_API_KEY',
      )
      .example(
        '$0 eval --policy models/Qwen2.5-VL-3B-Instruct --task ctu --shots 4 --reasoning off --out evaluations/few-shot',
        'Four solved examples with pictures before each question, answers alone',
      )
      .example(
        '$0 eval --policy models/Qwen2.5-VL-3B-Instruct --task ctu --input numbers',
        'The series as text instead of a plot, to compare',
      )
      .example(
        '$0 eval --policy runs/quickstart --split validation --temperature 0.25,0.5,0.7,0.85,1 --samples 8',
        'Which temperature suits a policy, chosen off the test split',
      )
      .example(
        '$0 eval --policy runs/quickstart --reward ./brief.ts',
        'What a reward of your own makes of the answers',
      )
      .example(
        '$0 eval --policy runs/quickstart --temperature 1 --samples 4 --out evaluations/sampled --resume',
        'Sampled, with the records kept; after an interruption the same command goes on',
      ) as never;
  },
  handler: async (given) => {
    const { runEval } = await import('../run/eval.ts');
    const found = await runEval(given);
    if (given.json) printJson(found.result);
    else if (found.kind === 'single') await printSingle(found, given);
    else await printBoard(found, given);
    if (found.missing !== null) complain(found.missing, given.out);
  },
};
