/** `timeseer ask`: answers of a policy to a prompt with pictures. */
import { DEFAULT_POLICY } from '../answer/reference.ts';
import type { AskArguments } from '../run/ask.ts';
import { ADAPTER, choice, command, ENGINE_OPTIONS, flag, number, repeated, text } from './options.ts';

const OPTIONS = {
  policy: text(
    'Policy to ask: small or inspect (which ship with timeseer), the directory of a checkpoint, an export or a run, openai:MODEL@URL (an endpoint), or FILE[#NAME] (a module of your own)',
    { default: DEFAULT_POLICY },
  ),
  adapter: ADAPTER,
  image: repeated('Picture to show: PNG, JPEG or WebP (repeatable, in order)'),
  prompt: text('Question; - reads it from standard input'),
  system: text('System message'),
  'max-tokens': number("Maximum tokens per answer (default: the checkpoint's, else 512)"),
  temperature: number("Sampling temperature, 0: greedy (default: the checkpoint's)"),
  'top-p': number(
    "Nucleus sampling: sample from the smallest set of tokens whose total probability reaches this (default: the checkpoint's)",
  ),
  'top-k': number("Sample from this many most probable tokens; 0: from all (default: the checkpoint's)"),
  samples: number('Number of answers (default: 1)'),
  ...ENGINE_OPTIONS,
  dtype: choice(
    ['auto', 'float32', 'bfloat16'],
    'Data type of the weights (default: auto; float32 on a CPU; on CUDA bfloat16 for 16-bit checkpoints, else float32)',
  ),
  threads: number('Number of threads (default: one per core)'),
  seed: number('Seed for sampling (default: 0)'),
  json: flag('Print the answer with its tokens and timings as JSON'),
};

export const askCommand = command({
  command: 'ask',
  options: OPTIONS,
  examples: [
    [
      '$0 ask --policy models/Qwen2.5-VL-3B-Instruct --image plot.png --prompt "Where is the anomaly?"',
      'Answer of a checkpoint, streamed',
    ],
    [
      '$0 ask --policy exports/mine --engine onnx --image plot.png --prompt "Where is the anomaly?"',
      'An export, computed by onnxruntime',
    ],
    [
      '$0 ask --policy runs/mine --image a.png --image b.png --prompt - --samples 4 --json < question.txt',
      'Two pictures, four answers, as JSON',
    ],
    [
      '$0 ask --policy openai:qwen2.5vl:7b@http://localhost:11434/v1 --image plot.png --prompt "Where is the anomaly?"',
      'A model behind an endpoint',
    ],
  ],
  epilogue: 'Control characters in an answer are printed as escapes such as \\x1b; --json keeps them.',
  // Loaded on demand: help needs no engine.
  handler: async (given: AskArguments) => (await import('../run/ask.ts')).runAsk(given),
});
