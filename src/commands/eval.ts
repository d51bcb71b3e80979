import type { CommandModule } from 'yargs';
import type { EvalRequest } from './eval-run.ts';

export const evaluation: CommandModule<object, EvalRequest> = {
  command: 'eval',
  describe: 'Evaluate a policy on held-out series, beside classical detectors',
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
        default: 'nano5',
        requiresArg: true,
        describe: 'Generator or data set directory',
      })
      .option('split', {
        choices: ['train', 'validation', 'test'] as const,
        default: 'test' as const,
        requiresArg: true,
        describe: 'Split of a generator',
      })
      .option('seed', { type: 'number', requiresArg: true, describe: 'Of series and sampling; default 42' })
      .option('count', { type: 'number', default: 400, requiresArg: true, describe: 'Number of series' })
      .option('length', { type: 'number', default: 1000, requiresArg: true, describe: 'Points per series' })
      .option('temperature', { type: 'number', default: 0, requiresArg: true, describe: '0 is greedy' })
      .option('samples', {
        type: 'number',
        default: 1,
        requiresArg: true,
        describe: 'Responses per series when sampling',
      })
      .option('maxTokens', {
        type: 'number',
        default: 96,
        requiresArg: true,
        describe: 'Longest response, in tokens',
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
      .example(
        '$0 eval --policy runs/quickstart --temperature 1 --samples 4 --out eval/sampled',
        'Sampled, with the records kept',
      ),
  handler: async (given) => {
    const { runEval } = await import('./eval-run.ts');
    await runEval(given);
  },
};
