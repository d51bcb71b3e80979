import type { CommandModule } from 'yargs';
import type { EvalRequest } from '../run/eval.ts';
import type { PromptTokens } from '../run/prompt-length.ts';
import { print, printJson } from '../terminal.ts';

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

export const evaluation: CommandModule<object, EvalArguments> = {
  command: 'eval',
  describe: 'Evaluate a policy on held-out examples, beside classical detectors',
  builder: (cli) =>
    cli
      .option('policy', {
        type: 'string',
        demandOption: true,
        requiresArg: true,
        describe: 'Directory of a policy, or of a run (its furthest trained policy)',
      })
      .option('data', {
        type: 'string',
        requiresArg: true,
        describe: 'Generator, or directory of a data set; default: that of the run, else nano5',
      })
      .option('split', {
        choices: ['train', 'validation', 'test'] as const,
        default: 'test' as const,
        requiresArg: true,
        describe: 'Split of a generator or a prepared data set',
      })
      .option('seed', {
        type: 'number',
        requiresArg: true,
        describe: 'Seed of generated series, draws and sampling; default 42',
      })
      .option('count', {
        type: 'number',
        requiresArg: true,
        describe: 'Number of examples, drawn at random; default: 400 of a generator, all of a data set',
      })
      .option('length', {
        type: 'number',
        requiresArg: true,
        describe: 'Points per series of a generator; default 1000',
      })
      .option('input', {
        choices: ['picture', 'numbers'] as const,
        requiresArg: true,
        describe: 'Show pictures, or write series as numbers; default: as the policy was trained',
      })
      .option('digits', {
        type: 'number',
        requiresArg: true,
        describe: 'Significant digits of numbers; default 3, or as the policy was trained',
      })
      .option('points', {
        type: 'number',
        requiresArg: true,
        describe:
          'Most numbers per channel; longer series become block means; default 250, or as the policy was trained',
      })
      .option('temperature', {
        type: 'string',
        default: '0',
        requiresArg: true,
        describe: '0 is greedy; several, such as 0.5,0.7,1, are compared by mean reward',
      })
      .option('samples', {
        type: 'number',
        default: 1,
        requiresArg: true,
        describe: 'Responses per example when sampling',
      })
      .option('answers', {
        choices: ['lenient', 'strict'] as const,
        requiresArg: true,
        describe:
          "How answers are parsed: as the papers' releases do, or strictly; default: as the run, else lenient",
      })
      .option('maxTokens', {
        type: 'number',
        requiresArg: true,
        describe: 'Longest response, in tokens; default 96 of a small policy, 1024 of others',
      })
      .option('workers', { type: 'number', default: 2, requiresArg: true, describe: 'Threads' })
      .option('device', {
        type: 'string',
        default: 'cpu',
        requiresArg: true,
        describe: 'cpu, cuda or cuda:N',
      })
      .option('out', {
        type: 'string',
        requiresArg: true,
        describe: 'Directory for records.jsonl and metrics.json',
      })
      .option('classical', { type: 'boolean', default: true, describe: 'Run the classical detectors too' })
      .option('quiet', { type: 'boolean', default: false, describe: 'No progress' })
      .option('json', { type: 'boolean', default: false, describe: 'Print all metrics as JSON' })
      .example('$0 eval --policy runs/quickstart', 'Greedy answers to 400 held-out nano5 series')
      .example('$0 eval --policy runs/quickstart --data anomllm --count 160', 'The eight AnomLLM tasks')
      .example('$0 eval --policy runs/har --data data/har', 'The test split of a prepared data set')
      .example(
        '$0 eval --policy models/Qwen2.5-VL-3B-Instruct --data data/ctu --input numbers',
        'The series as text instead of a plot, to compare',
      )
      .example(
        '$0 eval --policy runs/quickstart --split validation --temperature 0.25,0.5,0.7,0.85,1 --samples 8',
        'Which temperature suits a policy, chosen off the test split',
      )
      .example(
        '$0 eval --policy runs/quickstart --temperature 1 --samples 4 --out eval/sampled',
        'Sampled, with the records kept',
      ),
  handler: async (given) => {
    const { bestOf, runEval } = await import('../run/eval.ts');
    const { metricsTable, temperatureTable } = await import('../../eval/metrics-table.ts');
    const { result, sets, classical, input, tokens, title, statement } = await runEval(given);
    if (given.json) {
      printJson(result);
      return;
    }
    const [[, metrics]] = sets as [(typeof sets)[number]];
    const table =
      sets.length > 1
        ? `${temperatureTable(sets)}${bestLine(bestOf(sets), given.split)}`
        : metricsTable(metrics, classical);
    print(table + tokensLine(tokens, input), '');
    if (statement !== null) print(`data: ${title}. ${statement}`);
  },
};
