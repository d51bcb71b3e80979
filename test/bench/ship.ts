/**
 * Writes the policy that comes with timeseer: npx tsx test/bench/ship.ts --policy RUN [--name small] [--count 400] [--measured FILE.json]
 * [--note TEXT] [--out DIR]
 *
 * Its weights, matrices in 16 bits, what is beside them, and a model card; `npm run build` makes graphs of them, which are asked from then on. The figures of the card are those that
 * `timeseer eval` writes of the graphs themselves on test series of the generator that it was taught, beside the classical detectors, and those of
 * FILE.json, which `npx tsx test/bench/policy.ts --policy NAME --json > FILE.json` wrote. The card names the commands, and says TEXT below them.
 */
import { cpSync, existsSync, mkdtempSync, readdirSync, readFileSync, rmSync, statSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { dirname, join, relative, resolve } from 'node:path';
import { parseArgs } from 'node:util';
import { DEFAULT_POLICY, findPolicy } from '../../src/answer/reference.ts';
import { main } from '../../src/cli.ts';
import { readConfidence } from '../../src/explain/confidence.ts';
import { ConfigError } from '../../src/ground/errors.ts';
import { writeFileAtomic } from '../../src/ground/files.ts';
import { writeManifestedDirectory } from '../../src/ground/manifest.ts';
import { grouped } from '../../src/ground/numbers.ts';
import { packageRoot } from '../../src/ground/paths.ts';
import { asFloat16, asFloat32 } from '../../src/onnx/weights.ts';
import type { Json } from '../../src/policy/json-file.ts';
import { layoutOf } from '../../src/policy/layout.ts';
import { parseDims } from '../../src/policy/model-config.ts';
import { openCheckpoint, writeCheckpoint } from '../../src/policy/safetensors.ts';
import { copyPolicy, exportPolicy } from '../../src/run/run-policy.ts';
import { readCard } from '../../src/tasks/card.ts';
import type { MetricSet } from '../../src/tasks/evaluation.ts';
import { type Measured, type ModelCardFacts, modelCard, type TrainedStage } from './model-card.ts';

/** Most bytes of a policy in the package. */
const MOST_BYTES = 10e6;
/** Of the test series of its card; training and choices used others. */
const SEED = 7;

const readJson = (file: string): unknown => JSON.parse(readFileSync(file, 'utf8'));

/** The directory of the run that a policy is in; null where it is in none. */
function runOf(policy: string): string | null {
  for (let at = resolve(policy); ; at = dirname(at)) {
    if (existsSync(join(at, 'recipe.json'))) return at;
    if (dirname(at) === at) return null;
  }
}

interface RunRecord {
  readonly recipe: {
    readonly seed: number;
    readonly data: { readonly name: string; readonly length: number };
    readonly policy: { readonly init: string };
    readonly inspect?: { readonly turns: number; readonly lengths: readonly number[] };
  };
}

/** What the stages of a run went through, after those of the run that it began with. */
function stagesOf(run: string): TrainedStage[] {
  const { recipe } = readJson(join(run, 'recipe.json')) as RunRecord;
  const { init } = recipe.policy;
  const before = [resolve(init), resolve(dirname(run), init)].find((path) => existsSync(path));
  const earlier = before === undefined ? null : runOf(before);
  const own = ['sft', 'rl'].flatMap((stage): TrainedStage[] => {
    const file = join(run, stage, 'stage.json');
    if (!existsSync(file)) return [];
    const { samples, steps, seconds } = readJson(file) as Record<'samples' | 'steps' | 'seconds', number>;
    const { seed, inspect, data } = recipe;
    const inspects = inspect !== undefined && inspect.turns > 1;
    const unit = inspects ? 'responses of scripts' : 'series';
    const work = stage === 'sft' ? `${grouped(samples)} ${unit}` : `${grouped(steps)} steps`;
    const lengths = inspects ? inspect.lengths.map(grouped).join(', ') : data.length;
    return [{ stage, seed, data: `${data.name}, ${lengths} points`, work, seconds }];
  });
  return [...(earlier === null || earlier === run ? [] : stagesOf(earlier)), ...own];
}

const bytesIn = (directory: string): number =>
  readdirSync(directory, { recursive: true, withFileTypes: true })
    .filter((entry) => entry.isFile())
    .reduce((sum, entry) => sum + statSync(join(entry.parentPath, entry.name)).size, 0);

/** Writes a policy with its matrices in 16 bits; vectors keep 32. */
function writeHalf(from: string, to: string): void {
  const copy = `${to}-copy`;
  copyPolicy(from, copy);
  writeManifestedDirectory(to, (temporary) => {
    cpSync(copy, temporary, { recursive: true, filter: (path) => !/\.(?:safetensors|sha256)$/.test(path) });
    const tensors = [...openCheckpoint(copy)].map(([name, tensor]) => {
      const { shape } = tensor;
      const isMatrix = shape.length > 1;
      const { bytes } = isMatrix ? asFloat16(tensor, shape) : asFloat32(tensor, shape);
      return { name, shape, dtype: isMatrix ? 'F16' : 'F32', bytes } as const;
    });
    writeCheckpoint(temporary, tensors);
  });
}

async function ship(): Promise<void> {
  const { values: given } = parseArgs({
    options: {
      policy: { type: 'string' },
      name: { type: 'string', default: DEFAULT_POLICY },
      count: { type: 'string', default: '400' },
      measured: { type: 'string' },
      note: { type: 'string' },
      out: { type: 'string' },
    },
  });
  const { policy, name, count, measured, note = null } = given;
  if (policy === undefined) throw new ConfigError('--policy RUN: the policy to ship');
  const from = findPolicy(policy);
  const { task, length, inspect } = readCard(from);
  // A turn answers about one plot, in few tokens; the analyses take minutes over long series.
  const short = inspect === undefined ? [] : ['--max-tokens', '128', '--no-classical'];
  if (task === null || length === null)
    throw new ConfigError(`${from}: was not taught series of a generator`);
  const out = resolve(given.out ?? join(packageRoot(), 'src/policies', name));
  const work = mkdtempSync(join(tmpdir(), 'timeseer-ship-'));
  try {
    const exported = join(work, name);
    const half = join(work, 'half');
    writeHalf(from, half);
    exportPolicy({ policy: half, out: exported, dtype: ['float16'], quiet: true });
    /** Evaluates a policy on test series of a length. */
    const evaluate = async (asked: string, points: number) => {
      const words = [
        ...['--task', task, '--length', `${points}`, '--seed', `${SEED}`, '--count', count],
        ...short,
      ];
      const figures = join(work, 'figures');
      const code = await main(['eval', '--policy', asked, ...words, '--out', figures, '--force']);
      if (code !== 0) throw new ConfigError(`eval ended with ${code}`);
      const read = readJson(join(figures, 'metrics.json')) as {
        readonly data: { readonly count: number };
        readonly metrics: { readonly overall: MetricSet };
        readonly classical: Readonly<Record<string, MetricSet>>;
      };
      return { ...read, command: `npx timeseer eval --policy ${name} ${words.join(' ')}` };
    };
    const evaluations: ModelCardFacts['evaluations'][number][] = [];
    for (const points of inspect?.lengths ?? [length]) {
      const { data, metrics, classical, command } = await evaluate(exported, points);
      // One who looks closer is compared with one picture.
      const others =
        inspect === undefined
          ? {}
          : { [DEFAULT_POLICY]: (await evaluate(DEFAULT_POLICY, points)).metrics.overall };
      const figures = { overall: metrics.overall, others: { ...others, ...classical } };
      evaluations.push({ command, series: data.count, length: points, ...figures });
    }
    const run = runOf(from);
    const dims = parseDims(readJson(join(exported, 'config.json')) as Json, 'config.json');
    const text = modelCard({
      ...{ name, card: readCard(from), parameters: layoutOf(dims).size, bytes: bytesIn(half) },
      fitted: readConfidence(exported)?.fitted ?? null,
      stages: run === null ? [] : stagesOf(run),
      evaluations,
      measured: measured === undefined ? null : (readJson(measured) as Measured),
      note,
    });
    writeFileAtomic(join(half, 'README.md'), text);
    const bytes = bytesIn(half);
    if (bytes > MOST_BYTES) throw new ConfigError(`${name}: ${bytes} bytes, at most ${MOST_BYTES}`);
    rmSync(out, { recursive: true, force: true });
    cpSync(half, out, { recursive: true });
    console.log(`${relative(packageRoot(), out)}: ${(bytes / 1e6).toFixed(2)} MB`);
  } finally {
    rmSync(work, { recursive: true, force: true });
  }
}

await ship();
