/** `timeseer generate`: a data set from a generator, or text from a policy. */
import { existsSync } from 'node:fs';
import { performance } from 'node:perf_hooks';
import type { Argv, CommandModule } from 'yargs';
import type { Benchmark } from '../../datasets/benchmarks/benchmark.ts';
import { GENERATED } from '../../datasets/benchmarks/registry.ts';
import type { ExampleManifest, SplitFacts } from '../../datasets/example-manifest.ts';
import { checkTarget, selectExamples, writeSelection } from '../../datasets/prepare.ts';
import { DEFAULT_SEED, SPLITS, type Split } from '../../datasets/split.ts';
import { ENGINE_HELP, ENGINES } from '../answer/answerer.ts';
import { ConfigError, suggestion } from '../ground/errors.ts';
import { withInterrupt } from '../ground/interrupt.ts';
import { Progress } from '../ground/progress.ts';
import { print, printJson } from '../ground/terminal.ts';
import type { TextArguments } from '../run/ask.ts';

const SERIES_DEFAULTS = { count: 400, split: 'test', offset: 0 } as const;

/** As they come from the command line: what was not given is undefined. */
type Given<T> = { readonly [K in keyof T]: T[K] | undefined };
export interface GenerateArguments extends Omit<Given<TextArguments>, 'json'> {
  readonly name: string | undefined;
  readonly out: string | undefined;
  readonly count: number | undefined;
  readonly split: Split | undefined;
  readonly length: number | undefined;
  readonly offset: number | undefined;
  readonly force: boolean | undefined;
  readonly json: boolean;
}

/** Options that only one of the two has, by the name they are typed with. */
const SERIES_OPTIONS = ['out', 'count', 'split', 'length', 'offset', 'force'] as const;
const TEXT_OPTIONS = [
  'policy',
  'adapter',
  'image',
  'prompt',
  'system',
  'max-tokens',
  'temperature',
  'top-p',
  'top-k',
  'samples',
  'engine',
  'device',
  'dtype',
  'threads',
] as const;

const USAGE =
  '`generate NAME --out DIRECTORY` writes a data set, `generate --policy DIRECTORY --prompt TEXT` lets a policy answer';

/** Those of `options` that were given. */
function given(args: GenerateArguments, options: readonly string[]): string[] {
  return options.filter((name) => (args as unknown as Record<string, unknown>)[name] !== undefined);
}

/** @throws ConfigError unless a data set is asked for, and nothing else */
function targetOf(args: GenerateArguments): { readonly name: string; readonly out: string } {
  const { name, out } = args;
  const [other] = given(args, TEXT_OPTIONS);
  if (name === undefined) {
    throw new ConfigError(
      other === undefined
        ? `nothing to generate: ${USAGE}`
        : `--${other}: there is no --policy to use it; ${USAGE}`,
    );
  }
  if (other !== undefined) {
    throw new ConfigError(`--${other}: has no meaning for the data set '${name}'; ${USAGE}`);
  }
  if (out === undefined) throw new ConfigError(`--out: the directory of the data set '${name}' is missing`);
  return { name, out };
}

function textOf(args: GenerateArguments, policy: string): TextArguments {
  const { name, prompt } = args;
  if (name !== undefined) {
    throw new ConfigError(
      `'${name}' is a data set's name, --policy asks for text: give one of them; ${USAGE}`,
    );
  }
  const [other] = given(args, SERIES_OPTIONS);
  if (other !== undefined) throw new ConfigError(`--${other}: has no meaning with --policy; ${USAGE}`);
  if (prompt === undefined) {
    throw new ConfigError('--prompt: missing; give the text, or - to read it from standard input');
  }
  return { ...args, policy, prompt };
}

/** @throws ConfigError for a name that is no generator's */
function generated(name: string): Benchmark {
  const found = GENERATED.find((one) => one.name === name);
  if (found !== undefined) return found;
  const known = GENERATED.map((one) => one.name);
  throw new ConfigError(
    existsSync(name)
      ? `${name}: is a path; generate takes one of ${known.join(', ')}`
      : `no generator named '${name}'.${suggestion(name, known)} Known: ${known.join(', ')}`,
  );
}

function summary(out: string, { task, splits }: ExampleManifest, seed: number, seconds: number): string {
  const [[split, { count, length, classes, bytes }]] = Object.entries(splits) as [[Split, SplitFacts]];
  const points = length === null ? 'of several lengths' : `of ${length} points`;
  const lines = [
    `${out}: ${count} series ${points}, ${task} ${split}, seed ${seed}; ` +
      `${(bytes / 1e6).toFixed(1)} MB in ${seconds.toFixed(1)} s`,
  ];
  for (const [label, n] of Object.entries(classes)) {
    lines.push(`  ${label.padEnd(16)} ${String(n).padStart(8)}  ${((100 * n) / count).toFixed(1)} %`);
  }
  return lines.join('\n');
}

/**
 * Runs the command: progress on standard error, a summary on standard output. Ctrl-C leaves nothing behind.
 *
 * @throws ConfigError for a wrong name, option or target; WriteError when the disk refuses; Interrupted
 */
async function runSeries(args: GenerateArguments): Promise<void> {
  const { name, out } = targetOf(args);
  const { seed, length, force = false, json } = args;
  const { count = SERIES_DEFAULTS.count, split = SERIES_DEFAULTS.split } = args;
  const { offset = SERIES_DEFAULTS.offset } = args;
  checkTarget(out, force);
  const spec = generated(name);
  const selection = await selectExamples(spec, {
    ...{ directory: null, counts: { [split]: count }, splits: [split], seed, length, offset },
  });
  const started = performance.now();
  const progress = new Progress({ label: name, total: count, unit: 'series', silent: json });
  try {
    const manifest = await withInterrupt(
      (signal) =>
        writeSelection(selection, out, { signal, onProgress: (written) => progress.update(written) }),
      'stopping: nothing half-written is left; press Ctrl-C again to quit at once',
    );
    progress.stop();
    const seconds = (performance.now() - started) / 1000;
    if (json) printJson({ out, seconds: Number(seconds.toFixed(3)), ...manifest });
    else print(summary(out, manifest, seed ?? DEFAULT_SEED[split], seconds));
  } finally {
    progress.stop();
  }
}

/** Writes a data set, or text: one of them is asked for. @throws ConfigError when none is, or both are */
export async function runGenerate(args: GenerateArguments): Promise<void> {
  if (args.policy === undefined) {
    await runSeries(args);
  } else {
    const text = textOf(args, args.policy);
    // Loaded when it is wanted: a data set needs no engine.
    await (await import('../run/ask.ts')).runText(text);
  }
}

const width = Math.max(...GENERATED.map(({ name }) => name.length));

export const generate: CommandModule<object, GenerateArguments> = {
  command: 'generate [name]',
  describe: 'Write a data set of synthetic series, or the answer of a policy to a prompt with pictures',
  // The types do not know that `--max-tokens` arrives as maxTokens.
  builder: (yargs) =>
    yargs
      .positional('name', { type: 'string', describe: 'A generator (see below), to write a data set' })
      .option('out', { type: 'string', describe: 'Directory to write', requiresArg: true })
      .option('count', {
        type: 'number',
        describe: 'Number of series',
        defaultDescription: String(SERIES_DEFAULTS.count),
        requiresArg: true,
      })
      .option('split', {
        choices: SPLITS,
        describe: 'Splits never share a series',
        defaultDescription: SERIES_DEFAULTS.split,
        requiresArg: true,
      })
      .option('length', {
        type: 'number',
        describe: "Points per series (default: the generator's, 1000)",
        requiresArg: true,
      })
      .option('offset', {
        type: 'number',
        describe: 'Index of the first series',
        defaultDescription: String(SERIES_DEFAULTS.offset),
        requiresArg: true,
      })
      .option('force', { type: 'boolean', describe: 'Replace a data set that is there' })
      .group([...SERIES_OPTIONS], 'To write a data set:')
      .option('policy', {
        type: 'string',
        describe: 'Directory of a Qwen2.5-VL checkpoint, of a policy, or of a run',
        requiresArg: true,
      })
      .option('adapter', {
        type: 'string',
        describe: 'Directory of a low-rank adapter of it, in PEFT format',
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
        describe: 'What to ask; - reads it from standard input',
        requiresArg: true,
      })
      .option('system', { type: 'string', describe: 'System message', requiresArg: true })
      .option('max-tokens', {
        type: 'number',
        describe: "Longest answer in tokens (default: the checkpoint's, else 512)",
        requiresArg: true,
      })
      .option('temperature', {
        type: 'number',
        describe: "0 takes the likeliest token each time (default: the checkpoint's)",
        requiresArg: true,
      })
      .option('top-p', {
        type: 'number',
        describe: "Sample from the likeliest tokens that have this share (default: the checkpoint's)",
        requiresArg: true,
      })
      .option('top-k', {
        type: 'number',
        describe: "Sample from so many likeliest tokens, 0: all (default: the checkpoint's)",
        requiresArg: true,
      })
      .option('samples', { type: 'number', describe: 'Number of answers (default: 1)', requiresArg: true })
      .option('engine', { choices: ENGINES, describe: ENGINE_HELP, requiresArg: true })
      .option('device', {
        type: 'string',
        describe: 'Where the policy runs: cpu (default), cuda or cuda:N',
        requiresArg: true,
      })
      .option('dtype', {
        choices: ['auto', 'float32', 'bfloat16'] as const,
        describe:
          'What the weights are held in (default: auto, 16 bits on CUDA where the checkpoint has them)',
        requiresArg: true,
      })
      .option('threads', { type: 'number', describe: 'Threads (default: one per core)', requiresArg: true })
      .group([...TEXT_OPTIONS], 'To let a policy answer:')
      .option('seed', {
        type: 'number',
        describe: `Of the series (default: ${SPLITS.map((split: Split) => `${DEFAULT_SEED[split]} for ${split}`).join(', ')}), or of the answers (default: 0)`,
        requiresArg: true,
      })
      .option('json', {
        type: 'boolean',
        default: false,
        describe: 'Print the summary, or the answer with its tokens and timings, as JSON',
      })
      .example(
        '$0 generate nano5 --out data/nano5 --count 400 --split test --seed 42',
        'The quickstart held-out set',
      )
      .example('$0 generate anomllm/freq --out data/freq --split train', 'One AnomLLM task, as published')
      .example(
        '$0 generate anomllm --out data/mixed --count 3200 --length 2000',
        'All eight tasks, longer series',
      )
      .example(
        '$0 generate wild --out data/wild --count 400 --length 4000',
        'Series as they are met, with anomalies of ten kinds',
      )
      .example(
        '$0 generate --policy models/Qwen2.5-VL-3B-Instruct --image plot.png --prompt "Where is the anomaly?"',
        'The answer of a checkpoint, as it is written',
      )
      .example(
        '$0 generate --policy exports/mine --engine onnx --image plot.png --prompt "Where is the anomaly?"',
        'An export, computed by onnxruntime',
      )
      .example(
        '$0 generate --policy runs/mine --image a.png --image b.png --prompt - --samples 4 --json < question.txt',
        'Two pictures, four answers, for programs',
      )
      .epilogue(
        `Characters of an answer that a terminal would obey are shown, as \\x1b; --json has the text as it is.\n\nGenerators:\n${GENERATED.map(
          ({ name, title }) => `  ${name.padEnd(width)}  ${title}`,
        ).join('\n')}`,
      ) as Argv as Argv<GenerateArguments>,
  handler: runGenerate,
};
