/** `timeseer ask`: answers of a policy to a prompt with pictures. */
import type { Argv, CommandModule } from 'yargs';
import { ENGINE_HELP, ENGINES } from '../answer/answerer.ts';
import { DEFAULT_POLICY } from '../answer/reference.ts';
import type { AskArguments } from '../run/ask.ts';

export const askCommand: CommandModule<object, AskArguments> = {
  command: 'ask',
  describe: 'Ask a policy a question, with pictures',
  // The types do not know that `--max-tokens` arrives as maxTokens.
  builder: (yargs) =>
    yargs
      .option('policy', {
        type: 'string',
        default: DEFAULT_POLICY,
        describe:
          'Policy to ask: small (ships with timeseer), the directory of a checkpoint, an export or a run, openai:MODEL@URL, or FILE[#NAME]',
        requiresArg: true,
      })
      .option('adapter', {
        type: 'string',
        describe: 'Directory of a LoRA adapter (PEFT format) for the policy',
        requiresArg: true,
      })
      .option('image', {
        type: 'string',
        array: true,
        nargs: 1,
        describe: 'Picture to show: PNG, JPEG or WebP (repeatable, in order)',
      })
      .option('prompt', {
        type: 'string',
        describe: 'Question; - reads it from standard input',
        requiresArg: true,
      })
      .option('system', { type: 'string', describe: 'System message', requiresArg: true })
      .option('max-tokens', {
        type: 'number',
        describe: "Maximum tokens per answer (default: the checkpoint's, else 512)",
        requiresArg: true,
      })
      .option('temperature', {
        type: 'number',
        describe: "Sampling temperature, 0: greedy (default: the checkpoint's)",
        requiresArg: true,
      })
      .option('top-p', {
        type: 'number',
        describe:
          "Nucleus sampling: total probability of the tokens sampled from (default: the checkpoint's)",
        requiresArg: true,
      })
      .option('top-k', {
        type: 'number',
        describe: "Number of most probable tokens sampled from, 0: all (default: the checkpoint's)",
        requiresArg: true,
      })
      .option('samples', { type: 'number', describe: 'Number of answers (default: 1)', requiresArg: true })
      .option('engine', { choices: ENGINES, describe: ENGINE_HELP, requiresArg: true })
      .option('device', {
        type: 'string',
        describe: 'Device of the policy: cpu (default), cuda or cuda:N',
        requiresArg: true,
      })
      .option('dtype', {
        choices: ['auto', 'float32', 'bfloat16'] as const,
        describe:
          'Type of the weights in memory (default: auto, 16 bits on CUDA where the checkpoint has them)',
        requiresArg: true,
      })
      .option('threads', {
        type: 'number',
        describe: 'Number of threads (default: one per core)',
        requiresArg: true,
      })
      .option('seed', { type: 'number', describe: 'Seed for sampling (default: 0)', requiresArg: true })
      .option('json', {
        type: 'boolean',
        default: false,
        describe: 'Print the answer with its tokens and timings as JSON',
      })
      .example(
        '$0 ask --policy models/Qwen2.5-VL-3B-Instruct --image plot.png --prompt "Where is the anomaly?"',
        'Answer of a checkpoint, streamed',
      )
      .example(
        '$0 ask --policy exports/mine --engine onnx --image plot.png --prompt "Where is the anomaly?"',
        'An export, computed by onnxruntime',
      )
      .example(
        '$0 ask --policy runs/mine --image a.png --image b.png --prompt - --samples 4 --json < question.txt',
        'Two pictures, four answers, as JSON',
      )
      .example(
        '$0 ask --policy openai:qwen2.5vl:7b@http://localhost:11434/v1 --image plot.png --prompt "Where is the anomaly?"',
        'A model behind an endpoint',
      )
      .epilogue(
        'Control characters in an answer are printed as escapes such as \\x1b; --json keeps them.',
      ) as Argv as Argv<AskArguments>,
  // Loaded on demand: help needs no engine.
  handler: async (given) => (await import('../run/ask.ts')).runAsk(given),
};
