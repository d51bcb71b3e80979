/** `timeseer data generate NAME`: writes a data set of synthetic series. */
import { existsSync } from 'node:fs';
import { performance } from 'node:perf_hooks';
import type { Benchmark } from '../../../datasets/benchmarks/benchmark.ts';
import { GENERATED } from '../../../datasets/benchmarks/registry.ts';
import type { ExampleManifest, SplitFacts } from '../../../datasets/example-manifest.ts';
import { checkTarget, selectExamples, writeSelection } from '../../../datasets/prepare.ts';
import { DEFAULT_SEED, SPLITS, type Split } from '../../../datasets/split.ts';
import { ConfigError, suggestion } from '../../ground/errors.ts';
import { withInterrupt } from '../../ground/interrupt.ts';
import { withProgress } from '../../ground/progress.ts';
import { print, printJson } from '../../ground/terminal.ts';
import { choice, command, flag, type Given, number, required } from '../options.ts';

type GenerateArguments = Given<typeof OPTIONS> & { readonly name: string };

/** Returns the generator of a name. @throws ConfigError for an unknown name */
function generated(name: string): Benchmark {
  const generator = GENERATED.find((benchmark) => benchmark.name === name);
  if (generator !== undefined) return generator;
  const known = GENERATED.map((benchmark) => benchmark.name);
  throw new ConfigError(
    existsSync(name)
      ? `${name}: is a path; expected the name of a generator: ${known.join(', ')}`
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
async function runGenerate(args: GenerateArguments): Promise<void> {
  const { name, out, count, split, seed, length, offset, force, json } = args;
  checkTarget(out, force);
  const spec = generated(name);
  const selection = await selectExamples(spec, {
    ...{ directory: null, counts: { [split]: count }, splits: [split], seed, length, offset },
  });
  const started = performance.now();
  const options = { label: name, total: count, unit: 'series', silent: json };
  const manifest = await withProgress(options, (update) =>
    withInterrupt(
      (signal) => writeSelection(selection, out, { signal, onProgress: (written) => update(written) }),
      'stopping: nothing half-written is left; press Ctrl-C again to quit at once',
    ),
  );
  const seconds = (performance.now() - started) / 1000;
  if (json) printJson({ out, seconds: Number(seconds.toFixed(3)), ...manifest });
  else print(summary(out, manifest, seed ?? DEFAULT_SEED[split], seconds));
}

const width = Math.max(...GENERATED.map(({ name }) => name.length));

const OPTIONS = {
  out: required('Output directory'),
  count: number('Number of series', { default: 400 }),
  split: choice(SPLITS, 'Split to generate; splits never share a series', { default: 'test' }),
  length: number("Points per series (default: the generator's, 1000)"),
  offset: number('Index of the first series', { default: 0 }),
  force: flag('Replace an existing data set'),
  seed: number(
    `Seed for the series (default: ${SPLITS.map((split: Split) => `${DEFAULT_SEED[split]} for ${split}`).join(', ')})`,
  ),
  json: flag('Print the summary as JSON'),
};

export const generateCommand = command({
  command: 'generate <name>',
  describe: 'Write a data set of synthetic series with gold answers',
  positionals: { name: { type: 'string', describe: 'Generator (see below)' } },
  options: OPTIONS,
  examples: [
    [
      '$0 data generate nano5 --out data/nano5 --count 400 --split test --seed 42',
      'The quickstart held-out set',
    ],
    ['$0 data generate anomllm/freq --out data/freq --split train', 'One AnomLLM task, as published'],
    [
      '$0 data generate anomllm --out data/mixed --count 3200 --length 2000',
      'All eight tasks, longer series',
    ],
    [
      '$0 data generate wild --out data/wild --count 400 --length 4000',
      'Series as found in practice, with anomalies of ten kinds',
    ],
  ],
  epilogue: `Generators:\n${GENERATED.map(({ name, title }) => `  ${name.padEnd(width)}  ${title}`).join('\n')}`,
  handler: runGenerate,
});
