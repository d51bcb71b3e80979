/** From the directory of a policy to what answers: the torch engine, or onnxruntime where there is no libtorch or no weights but graphs. */
import { existsSync, mkdtempSync, readdirSync, rmSync, statSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { addonPath } from '../engine/torch/build.ts';
import { ConfigError, EngineError } from '../ground/errors.ts';
import { packageVersion } from '../ground/paths.ts';
import type { OnnxPolicy } from '../onnx/policy.ts';
import { type Answerer, engineAnswerer } from '../policy/answerer.ts';
import { loadAdapter } from '../policy/peft.ts';
import { type LoadOptions, Policy, Prompting } from '../policy/policy.ts';
import { openEngine } from './engine.ts';
import type { EngineName } from './engine-name.ts';

export interface AnswererOptions {
  readonly engine?: EngineName | undefined;
  /** cpu when absent. */
  readonly device?: string | undefined;
  readonly threads: number;
  readonly dtype?: LoadOptions['dtype'] | undefined;
  /** Directory of a low-rank adapter. */
  readonly adapter?: string | undefined;
  /** As that of `LoadOptions`. */
  readonly beforeWeights?: (prompting: Prompting) => void;
}

/** Weights beyond these bytes are not exported on the way: that takes minutes and as much disk again. */
const MOST_EXPORTED = 500e6;

const hasGraphs = (directory: string): boolean => existsSync(join(directory, 'onnx'));

const hasWeights = (directory: string): boolean =>
  readdirSync(directory).some((name) => /^model.*\.safetensors(\.index\.json)?$/.test(name));

/** Why the torch engine is not there, or null. @throws EngineError where LIBTORCH names something else */
function torchProblem(): string | null {
  try {
    addonPath();
    return null;
  } catch (error) {
    if (!(error instanceof EngineError) || process.env['LIBTORCH']) throw error;
    return error.message;
  }
}

/** What decides which engine computes. */
export interface EngineFacts {
  /** Graphs, and no weights. */
  readonly graphsAlone: boolean;
  /** Why the torch engine is not there, or null. */
  readonly torchProblem: () => string | null;
}

/** @throws ConfigError for options that contradict each other; EngineError where what is asked for is not there */
export function chooseEngine(
  { engine, device = 'cpu', dtype = 'auto', adapter }: Omit<AnswererOptions, 'threads'>,
  { graphsAlone, torchProblem: problemOf }: EngineFacts,
): EngineName {
  const only = (
    [
      [device !== 'cpu', `--device ${device}`],
      [dtype !== 'auto', `--dtype ${dtype}`],
      [adapter !== undefined, '--adapter'],
    ] as const
  ).find(([given]) => given)?.[1];
  if (engine === 'torch' && graphsAlone) {
    throw new ConfigError(
      '--engine torch: the directory holds ONNX graphs and no weights; leave --engine out',
    );
  }
  if (engine === 'onnx' || graphsAlone) {
    if (only === undefined) return 'onnx';
    throw new ConfigError(
      `${only}: is for the torch engine alone${adapter === undefined ? '' : '; merge the adapter first (`timeseer merge`)'}`,
    );
  }
  if (engine === 'torch' || only !== undefined) return 'torch';
  return problemOf() === null ? 'torch' : 'onnx';
}

/** The engine that computes the policy of a directory. @throws as `chooseEngine` */
export const selectEngine = (directory: string, options: Omit<AnswererOptions, 'threads'>): EngineName =>
  chooseEngine(options, { graphsAlone: hasGraphs(directory) && !hasWeights(directory), torchProblem });

/**
 * Opens graphs; of a policy that has weights alone, by exporting it to a temporary directory.
 * @throws ConfigError for a large one
 */
async function openGraphs(directory: string, threads: number): Promise<OnnxPolicy> {
  // Loaded when they are wanted.
  const { OnnxPolicy } = await import('../onnx/policy.ts');
  if (hasGraphs(directory)) return OnnxPolicy.open(directory, { threads });
  const { exportOnnx } = await import('../onnx/export.ts');
  const bytes = readdirSync(directory)
    .filter((name) => name.endsWith('.safetensors'))
    .reduce((sum, name) => sum + statSync(join(directory, name)).size, 0);
  if (bytes > MOST_EXPORTED) {
    throw new ConfigError(
      `${directory}: has ${(bytes / 1e9).toFixed(1)} GB of weights; write them as ONNX once (\`timeseer export --onnx --policy ${directory} --out EXPORTED\`) and give --policy EXPORTED`,
    );
  }
  const place = mkdtempSync(join(tmpdir(), 'timeseer-export-'));
  try {
    const exported = join(place, 'policy');
    exportOnnx(directory, exported, { types: ['float32'], version: packageVersion() });
    return await OnnxPolicy.open(exported, { threads });
  } finally {
    rmSync(place, { recursive: true, force: true });
  }
}

/**
 * @param directory of a checkpoint, or of an export
 * @throws ConfigError for options that contradict each other; CheckpointError for a damaged directory; EngineError without engine
 */
export async function openAnswerer(directory: string, options: AnswererOptions): Promise<Answerer> {
  const { device, threads, dtype = 'auto', adapter, beforeWeights } = options;
  if (selectEngine(directory, options) === 'onnx') {
    beforeWeights?.(Prompting.read(directory));
    const { onnxAnswerer } = await import('../onnx/answerer.ts');
    return onnxAnswerer(await openGraphs(directory, threads));
  }
  const engine = openEngine(device, threads);
  const policy = Policy.load(engine, directory, {
    ...{ tuning: 'none', dtype },
    ...(beforeWeights === undefined ? {} : { beforeWeights }),
    ...(adapter === undefined ? {} : { adapter: (dims) => loadAdapter(engine, dims, adapter) }),
  });
  return engineAnswerer(policy);
}
