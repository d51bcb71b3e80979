/** Policies on this machine: the torch or tfjs engine, or onnxruntime for policies that ship, and where there is no libtorch or no weights. */
import { createHash } from 'node:crypto';
import { existsSync, mkdtempSync, readdirSync, readFileSync, rmSync, statSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { basename, join, resolve } from 'node:path';
import { isMainThread } from 'node:worker_threads';
import type { Engine } from '../engine/engine.ts';
import { addonPath } from '../engine/torch/build.ts';
import { openTorch } from '../engine/torch/torch.ts';
import { CheckpointError, ConfigError, EngineError } from '../ground/errors.ts';
import { cores } from '../ground/machine.ts';
import { MANIFEST_FILE } from '../ground/manifest.ts';
import { getOrMake } from '../ground/maps.ts';
import { packageVersion } from '../ground/paths.ts';
import { say } from '../ground/terminal.ts';
import type { OnnxPolicy } from '../onnx/policy.ts';
import { type EncodedPrompt, opened as openedPrompt } from '../policy/batch.ts';
import { decodeGroups, generate, type Sampled } from '../policy/generate.ts';
import { loadAdapter, mergeAdapter } from '../policy/lora.ts';
import { type LoadOptions, Policy, Prompting } from '../policy/policy.ts';
import { TextStreamer } from '../policy/tokenizer.ts';
import { pictureFeatures } from '../policy/vision.ts';
import type {
  Answerer,
  AnswerOptions,
  AnswerRequest,
  EngineName,
  LocalPolicy,
  LocalSource,
  Response,
} from './answerer.ts';
import { PromptReader } from './prompt.ts';
import { shippedPolicy } from './reference.ts';

export interface LocalOptions {
  /** Default: TIMESEER_ENGINE, else torch; onnx for policies that ship, and where libtorch is missing or the directory holds only graphs. */
  readonly engine?: EngineName | undefined;
  /** `cpu` (default), `cuda` or `cuda:N`. */
  readonly device?: string | undefined;
  /** Threads of one operation on a CPU; default one per core. */
  readonly threads?: number | undefined;
  readonly dtype?: LoadOptions['dtype'] | undefined;
  /** Directory of a low-rank adapter. */
  readonly adapter?: string | undefined;
  /** Adds the adapter to the weights once they are loaded, which makes steps cheaper. */
  readonly merge?: boolean;
  /** Called before the weights are read, which may take minutes; what it throws is thrown. */
  readonly beforeWeights?: (prompting: Prompting) => void;
  /** Loads weights on an engine; `Policy.load` when absent. Workers of a group share them. */
  readonly loadWeights?: (engine: Engine, directory: string, options: LoadOptions) => Policy;
}

/** Names the engine that computes: torch, tfjs or auto, which is torch where its addon is built, else tfjs. */
export const ENGINE_VARIABLE = 'TIMESEER_ENGINE';

/** Engine that trains, and what it is for `auto` alone. */
export type ComputingEngine = Exclude<EngineName, 'onnx'>;

/** The engine that was asked for by TIMESEER_ENGINE; null: auto. @throws ConfigError for another word */
export function askedEngine(): ComputingEngine | null {
  const asked = process.env[ENGINE_VARIABLE] ?? 'auto';
  if (asked === 'auto' || asked === '') return null;
  if (asked === 'torch' || asked === 'tfjs') return asked;
  throw new ConfigError(`${ENGINE_VARIABLE}=${asked}: expected torch, tfjs or auto`);
}

/** The engine that trains on a device. @throws ConfigError for tfjs on a GPU */
export function computingEngine(device = 'cpu'): ComputingEngine {
  const asked = askedEngine();
  if (asked === 'tfjs' && device !== 'cpu') {
    throw new ConfigError(
      `--device ${device}: is for the torch engine alone; leave it out, or choose --engine torch`,
    );
  }
  return asked ?? (device === 'cpu' && torchProblem() !== null ? 'tfjs' : 'torch');
}

const saidChoices = new Set<string>();

/** Says once which engine `auto` took instead of torch, and why. Workers leave it to the main thread. */
function sayChoice(engine: string, gain: string): void {
  if (!isMainThread || saidChoices.has(engine)) return;
  saidChoices.add(engine);
  say(`engine: ${engine}, as torch is not set up; \`npx timeseer setup\` installs libtorch, ${gain}`);
}

let openedTfjs: { readonly open: () => Engine } | null = null;

/** Loads what the engine of a device needs to open; call it before `openEngine`. @param chosen engine; absent: that of the device @throws EngineError where TensorFlow.js is missing */
export async function prepareEngine(device = 'cpu', chosen?: ComputingEngine): Promise<void> {
  const engine = chosen ?? computingEngine(device);
  if (engine === 'torch' || openedTfjs !== null) return;
  const { TfjsEngine, prepareTfjs } = await import('../engine/tfjs/tfjs.ts');
  const backend = await prepareTfjs();
  openedTfjs = { open: () => new TfjsEngine(backend) };
  if (chosen === undefined && askedEngine() === null) {
    sayChoice(`tfjs, by ${backend.name}`, 'which is faster');
  }
}

/**
 * Opens the engine of a device: the one place that chooses among implementations of the contract.
 * @param threads of one operation on a CPU; 0: libtorch decides. tfjs has one
 * @throws EngineError for a device that is not there, and where no engine is found
 */
export function openEngine(
  device = 'cpu',
  threads = 1,
  engine: ComputingEngine = computingEngine(device),
): Engine {
  if (engine === 'torch') return openTorch({ device, threads });
  if (openedTfjs === null)
    throw new EngineError('the tfjs engine is not loaded: await prepareEngine() first');
  return openedTfjs.open();
}

/** Bytes of weights up to which a policy without graphs is exported on the way: more takes minutes and as much disk again. */
const MAX_EXPORTED = 500e6;

const hasGraphs = (directory: string): boolean => existsSync(join(directory, 'onnx'));

const hasWeights = (directory: string): boolean =>
  readdirSync(directory).some((name) => /^model.*\.safetensors(\.index\.json)?$/.test(name));

/** Reason why the torch engine cannot be opened, or null. @throws EngineError where LIBTORCH names something else */
export function torchProblem(): string | null {
  try {
    addonPath();
    return null;
  } catch (error) {
    if (!(error instanceof EngineError) || process.env['LIBTORCH']) throw error;
    return error.message;
  }
}

interface EngineFacts {
  /** Graphs to answer by: none, those of a policy that ships with its weights, or those of a directory without weights. */
  readonly graphs: 'none' | 'shipped' | 'alone';
  /** Reason why the torch engine cannot be opened, or null. */
  readonly torchProblem: () => string | null;
}

/** @throws ConfigError for options that contradict each other; EngineError where the requested engine is missing */
export function chooseEngine(
  { engine, device = 'cpu', dtype = 'auto', adapter }: LocalOptions,
  { graphs, torchProblem: problemOf }: EngineFacts,
): EngineName {
  const torchOnly = (
    [
      [device !== 'cpu', `--device ${device}`],
      [dtype !== 'auto', `--dtype ${dtype}`],
      [adapter !== undefined, '--adapter'],
    ] as const
  ).find(([given]) => given)?.[1];
  if ((engine === 'torch' || engine === 'tfjs') && graphs === 'alone') {
    throw new ConfigError(
      `--engine ${engine}: the directory holds ONNX graphs and no weights; leave --engine out`,
    );
  }
  if (engine === 'onnx' || graphs === 'alone') {
    if (torchOnly === undefined) return 'onnx';
    throw new ConfigError(
      `${torchOnly}: is for the torch engine alone${adapter === undefined ? '' : '; merge the adapter first (`timeseer merge`)'}`,
    );
  }
  if (engine === 'tfjs') {
    if (device === 'cpu' && dtype === 'auto') return 'tfjs';
    throw new ConfigError(`${torchOnly}: the tfjs engine computes in float32 on the CPU; leave it out`);
  }
  if (engine === 'torch' || torchOnly !== undefined) return 'torch';
  return graphs === 'none' && problemOf() === null ? 'torch' : 'onnx';
}

/** Opens graphs; those of a policy with weights alone are exported to a temporary directory. @throws ConfigError for a large one */
async function openGraphs(directory: string, threads: number): Promise<OnnxPolicy> {
  // Loaded when they are wanted.
  const { OnnxPolicy } = await import('../onnx/policy.ts');
  if (hasGraphs(directory)) return OnnxPolicy.open(directory, { threads });
  const { exportOnnx } = await import('../onnx/export.ts');
  const bytes = readdirSync(directory)
    .filter((name) => name.endsWith('.safetensors'))
    .reduce((sum, name) => sum + statSync(join(directory, name)).size, 0);
  if (bytes > MAX_EXPORTED) {
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

/** Wraps a policy on an engine, which it owns from then on. */
export function torchPolicy(policy: Policy): LocalPolicy {
  return {
    ...{ prompting: policy, parameters: policy.layout.size, dtype: policy.dtype, info: policy.engine.info },
    decode: (groups, options) => decodeGroups(policy, groups, options),
    generate: (prompts, options) => generate(policy, prompts, options),
    pictureFeatures: async (prompts) => pictureFeatures(policy, prompts),
    dispose: async () => policy.dispose(),
  };
}

/** @throws CheckpointError for a damaged directory; EngineError without an engine */
async function load(directory: string, engineName: EngineName, options: LocalOptions): Promise<LocalPolicy> {
  const { device, threads = cores(), dtype = 'auto', adapter, merge = false, beforeWeights } = options;
  if (engineName === 'onnx') {
    beforeWeights?.(Prompting.read(directory));
    const { onnxPolicy } = await import('./onnx.ts');
    return onnxPolicy(await openGraphs(directory, threads));
  }
  await prepareEngine(device, engineName);
  const engine = openEngine(device, threads, engineName);
  // Weights with an adapter are not shared: they are changed when it is merged.
  const loadWeights = adapter === undefined ? options.loadWeights : undefined;
  const policy = (loadWeights ?? Policy.load)(engine, directory, {
    ...{ tuning: 'none', dtype },
    ...(beforeWeights === undefined ? {} : { beforeWeights }),
    ...(adapter === undefined ? {} : { adapter: (dims) => loadAdapter(engine, dims, adapter) }),
  });
  if (merge && adapter !== undefined) mergeAdapter(policy);
  return torchPolicy(policy);
}

/** Hash of a policy's directory: its manifest, or of a foreign one its configuration and the sizes of its files. */
function weightsHash(directory: string): string {
  const hash = createHash('sha256');
  const manifest = join(directory, MANIFEST_FILE);
  if (existsSync(manifest)) return hash.update(readFileSync(manifest)).digest('hex');
  const graphs = join(directory, 'onnx');
  const inside = existsSync(graphs) ? readdirSync(graphs).map((name) => join('onnx', name)) : [];
  for (const name of [...readdirSync(directory), ...inside].sort()) {
    const file = join(directory, name);
    if (name.startsWith('.') || !statSync(file).isFile()) continue;
    hash.update(`${name} ${statSync(file).size}\n`);
    if (/\.(?:json|jinja|txt)$/.test(name)) hash.update(readFileSync(file));
  }
  return hash.digest('hex');
}

/** Questions whose answers are decoded together. */
const BATCH = 64;
/** Name of the random streams. */
const STREAM = 'evaluation';

type RowPlace = Pick<Sampled, 'prompt' | 'sample'>;

/** Answers questions in batches. Equal seeds and keys give equal responses, whatever the batch. */
export async function answerLocally(
  policy: Pick<LocalPolicy, 'prompting' | 'generate'>,
  requests: readonly AnswerRequest[],
  { temperature, maxTokens, seed, signal, onText }: AnswerOptions,
  report: (response: Response) => void,
): Promise<void> {
  const reader = new PromptReader(policy.prompting);
  // Every opening is a prompt of its own.
  const openings = Math.max(1, ...requests.map((request) => Object.keys(request.openings ?? {}).length));
  const size = Math.ceil(BATCH / openings);
  for (let first = 0; first < requests.length; first += size) {
    const batch: AnswerRequest[] = [];
    const prompts: EncodedPrompt[] = [];
    const { tokenizer } = policy.prompting;
    for (const request of requests.slice(first, first + size)) {
      const prompt = reader.encode(await request.prompt());
      // Samples with openings of their own are prompts of their own, which share the cache of the question.
      for (const sample of request.openings === undefined ? [null] : request.samples) {
        const opening = sample === null ? '' : (request.openings?.[sample] ?? '');
        batch.push(sample === null ? request : { ...request, samples: [sample] });
        prompts.push(opening === '' ? prompt : openedPrompt(prompt, tokenizer.encode(opening)));
      }
    }
    const openingOf = ({ openings }: AnswerRequest, sample: number): string => openings?.[sample] ?? '';
    const samples = 1 + Math.max(...batch.map((request) => Math.max(...request.samples)));
    const every = Array.from({ length: samples }, (_, sample) => sample);
    const skip = batch.map(
      ({ samples: wanted }) => new Set(every.filter((sample) => !wanted.includes(sample))),
    );
    const streams = new Map<string, TextStreamer>();
    const streamOf = ({ prompt, sample }: RowPlace): TextStreamer => {
      const name = `${prompt} ${sample}`;
      return getOrMake(streams, name, () => new TextStreamer(policy.prompting.tokenizer));
    };
    const tell = ({ prompt, sample }: RowPlace, text: string): void => {
      if (text !== '') onText?.(text, { key: batch[prompt]!.key, sample });
    };
    await policy.generate(prompts, {
      ...{ samples, temperature, maxTokens, seed, stream: STREAM },
      examples: batch.map(({ key }) => key),
      ...(skip.every((none) => none.size === 0) ? {} : { skip }),
      ...(signal === undefined ? {} : { signal }),
      ...(onText === undefined
        ? {}
        : {
            onTokens: (row: RowPlace, ids: Int32Array) =>
              tell(row, [...ids].map((id) => streamOf(row).push(id)).join('')),
          }),
      onResponse: (sampled) => {
        const { prompt, sample, text, ids } = sampled;
        if (onText !== undefined) tell(sampled, streamOf(sampled).end());
        const usage = { prompt: prompts[prompt]!.ids.length, completion: ids.length };
        const whole = openingOf(batch[prompt]!, sample) + text;
        report({ key: batch[prompt]!.key, sample, text: whole, sampled, usage });
      },
    });
  }
}

/**
 * Describes the policy of a directory; its weights are loaded with the first question, or by `local.load`.
 * @throws ConfigError for options that contradict each other; CheckpointError for an adapter that is not there
 */
export function localAnswerer(given: string, directory: string, options: LocalOptions): Answerer {
  const { adapter } = options;
  if (adapter !== undefined && !existsSync(join(adapter, 'adapter_config.json'))) {
    throw new CheckpointError(
      `--adapter ${adapter}: no adapter there (looked for adapter_config.json); give the directory that a training with LoRA has left`,
    );
  }
  // Workers get the directory, not the name.
  const ships = shippedPolicy(basename(directory)) === resolve(directory);
  const graphs = !hasGraphs(directory)
    ? 'none'
    : hasWeights(directory)
      ? ships
        ? 'shipped'
        : 'none'
      : 'alone';
  const asked = askedEngine();
  // TIMESEER_ENGINE is about the weights of users: graphs are onnxruntime's whatever it says.
  const wanted =
    asked === null || graphs !== 'none' ? options : { ...options, engine: options.engine ?? asked };
  const engine = chooseEngine(wanted, { graphs, torchProblem });
  if (engine === 'onnx' && wanted.engine === undefined && graphs === 'none') {
    sayChoice('onnx', 'which answers many questions faster');
  }
  let loaded: Promise<LocalPolicy> | undefined;
  const local: LocalSource = {
    ...{ directory, adapter, engine },
    load: () => (loaded ??= load(directory, engine, options)),
  };
  return {
    ...{ given, name: given, local, reads: 'prompt', continues: true },
    get identity() {
      const weights = weightsHash(directory);
      return adapter === undefined ? { weights } : { weights, adapter: weightsHash(adapter) };
    },
    answer: async (requests, answering, report) =>
      answerLocally(await local.load(), requests, answering, report),
    dispose: async () => (await loaded)?.dispose(),
  };
}
