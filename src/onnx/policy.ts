/** A policy that onnxruntime computes: the three graphs of an export, on the processor, with the export's own tokenizer and picture files. */
import { existsSync, readdirSync, statSync } from 'node:fs';
import { join } from 'node:path';
import { MessageChannel } from 'node:worker_threads';
import type { InferenceSession, Tensor } from 'onnxruntime-common';
import { CheckpointError, EngineError } from '../ground/errors.ts';
import { checkFiles } from '../ground/manifest.ts';
import { concatenate } from '../ground/numbers.ts';
import type { EncodedPrompt } from '../policy/batch.ts';
import { CHANNELS } from '../policy/model-config.ts';
import { Prompting, readParts } from '../policy/policy.ts';
import { SUFFIX, WEIGHT_TYPES, type WeightType } from './weights.ts';

/** Installs onnxruntime without its install script, which downloads CUDA libraries: where that fails, npm drops the package silently. */
export const INSTALL_RUNTIME = 'npm install --no-save --ignore-scripts onnxruntime-node@1.30.0';

type Runtime = typeof import('onnxruntime-common');

const GRAPHS = ['vision_encoder', 'embed_tokens', 'decoder_model_merged'] as const;
type GraphName = (typeof GRAPHS)[number];

/** Patches of the pictures that are encoded together, unless one has more: the graph compares each of them with all, so that time and memory grow with their square. */
const MOST_PATCHES = 192;
const AGAIN = 'write the directory again with `timeseer export --onnx`';

/**
 * Loads onnxruntime with its telemetry off, unless the user decided otherwise: published packages report
 * sessions and leave an identifier on the disk. The variable is read once per process.
 * @throws EngineError if the package is not installed or has no binary for this machine
 */
async function loadRuntime(): Promise<Runtime> {
  process.env['ORT_DISABLE_TELEMETRY'] ??= '1';
  try {
    const module = await import('onnxruntime-node');
    return (module.default ?? module) as unknown as Runtime;
  } catch (cause) {
    throw new EngineError(
      `onnxruntime-node cannot be loaded (${(cause as Error).message}); install it with \`${INSTALL_RUNTIME}\``,
      { cause },
    );
  }
}

/** The widest weights of which all graphs are there. @throws CheckpointError naming what is missing */
function weightTypeIn(directory: string): WeightType {
  const missing = (type: WeightType): string[] =>
    GRAPHS.map((name) => `${name}${SUFFIX[type]}.onnx`).filter(
      (name) => !existsSync(join(directory, 'onnx', name)),
    );
  const complete = WEIGHT_TYPES.find((type) => missing(type).length === 0);
  if (complete !== undefined) return complete;
  throw new CheckpointError(`${join(directory, 'onnx')}: ${missing('float32').join(', ')} missing; ${AGAIN}`);
}

/**
 * Checks graph and weight files before onnxruntime opens them, which would wait for a pipe without end.
 * @throws CheckpointError naming a file that is not regular, or differs from the manifest
 */
function checkGraphFiles(directory: string, type: WeightType): void {
  const graphs = GRAPHS.map((name) => `onnx/${name}${SUFFIX[type]}.onnx`);
  const used = (name: string): boolean => graphs.some((graph) => name.startsWith(graph));
  for (const name of readdirSync(join(directory, 'onnx')).map((file) => `onnx/${file}`)) {
    if (!used(name) || statSync(join(directory, name)).isFile()) continue;
    throw new CheckpointError(`${join(directory, name)}: is not a regular file; ${AGAIN}`);
  }
  checkFiles(directory, (name) => !name.startsWith('onnx/') || used(name));
}

/** Port to nowhere: buffers posted to it are freed. */
const { port1: nowhere } = new MessageChannel();
nowhere.close();

/** Keys and values of all layers, [B, Hkv, C, d] each, by the decoder's input names. */
export interface Cache {
  readonly rows: number;
  readonly columns: number;
  readonly past: Readonly<Record<string, Tensor>>;
}

/** Decoder output: logits of the last token of each row [B · V], with keys and values. */
export interface Encoded {
  readonly logits: Float32Array;
  readonly cache: Cache;
}

export class OnnxPolicy extends Prompting {
  readonly type: WeightType;
  readonly threads: number;
  /** Version of onnxruntime. */
  readonly version: string;
  readonly #runtime: Runtime;
  readonly #sessions: Readonly<Record<GraphName, InferenceSession>>;
  /** Embeddings of the tokens met so far [D]. */
  readonly #embeddings = new Map<number, Float32Array>();
  /** Visual tokens of the pictures encoded so far: a prompt is answered, and then its distance from the training data is measured. */
  readonly #visual = new WeakMap<EncodedPrompt['images'][number], Float32Array>();
  /** Pixels of the pictures that are encoded together; large enough for those before. */
  #pixels = new Float32Array(0);

  private constructor(
    directory: string,
    made: {
      readonly type: WeightType;
      readonly threads: number;
      readonly runtime: Runtime;
      readonly sessions: Readonly<Record<GraphName, InferenceSession>>;
    },
  ) {
    super(readParts(directory), directory);
    this.type = made.type;
    this.threads = made.threads;
    this.#runtime = made.runtime;
    this.#sessions = made.sessions;
    this.version = String(made.runtime.env.versions.node ?? made.runtime.env.versions.common);
    this.#checkGraphs(directory);
  }

  /**
   * Opens an export; `threads` per operation.
   * @throws CheckpointError for missing, damaged or mismatched files; EngineError without onnxruntime
   */
  static async open(
    directory: string,
    { threads = 1 }: { readonly threads?: number } = {},
  ): Promise<OnnxPolicy> {
    readParts(directory); // what is wrong with the small files is said before graphs are loaded
    const type = weightTypeIn(directory);
    checkGraphFiles(directory, type);
    const runtime = await loadRuntime();
    const sessions = {} as Record<GraphName, InferenceSession>;
    for (const name of GRAPHS) {
      const file = join(directory, 'onnx', `${name}${SUFFIX[type]}.onnx`);
      try {
        sessions[name] = await runtime.InferenceSession.create(file, {
          intraOpNumThreads: threads,
          interOpNumThreads: 1,
          executionProviders: ['cpu'],
          logSeverityLevel: 3,
          // Threads that wait for work in a loop took half of the processor time of small graphs.
          extra: { session: { intra_op: { allow_spinning: '0' } } },
        });
      } catch (cause) {
        throw new CheckpointError(
          `${file}: onnxruntime cannot load it (${(cause as Error).message.split('\n')[0]}); ${AGAIN}`,
          { cause },
        );
      }
    }
    return new OnnxPolicy(directory, { type, threads, runtime, sessions });
  }

  /** @throws CheckpointError for graphs of another policy, or not made by `export` */
  #checkGraphs(directory: string): void {
    const { width, layers, kvHeads, headDim, vocabulary } = this.dims;
    const cache = (name: string): string[] => this.#parts.map((part) => `${name}.${part}`);
    const wanted: Readonly<Record<GraphName, { inputs: string[]; outputs: string[] }>> = {
      vision_encoder: { inputs: ['pixel_values', 'image_grid_thw'], outputs: ['image_features'] },
      embed_tokens: { inputs: ['input_ids'], outputs: ['inputs_embeds'] },
      decoder_model_merged: {
        inputs: ['inputs_embeds', 'attention_mask', 'position_ids', ...cache('past_key_values')],
        outputs: ['logits', ...cache('present')],
      },
    };
    /** The last dimensions of what enters and leaves. */
    const sizes: Readonly<Record<string, readonly number[]>> = {
      ...{ image_features: [width], inputs_embeds: [width], logits: [vocabulary] },
      ...{ 'past_key_values.0.key': [headDim], 'present.0.key': [headDim] },
    };
    for (const name of GRAPHS) {
      const session = this.#sessions[name];
      const file = join(directory, 'onnx', `${name}${SUFFIX[this.type]}.onnx`);
      for (const side of ['inputs', 'outputs'] as const) {
        const names = side === 'inputs' ? session.inputNames : session.outputNames;
        const present = [...names].sort().join();
        if (present !== wanted[name][side].sort().join()) {
          throw new CheckpointError(
            `${file}: its ${side} are not those of config.json's ${layers} layers (${names.slice(0, 8).join(', ')}${names.length > 8 ? ', …' : ''}); ${AGAIN}`,
          );
        }
        for (const port of side === 'inputs' ? session.inputMetadata : session.outputMetadata) {
          const size = sizes[port.name]?.[0];
          const shape = port.isTensor ? port.shape : [];
          const heads = /^(?:past|present)/.test(port.name) && shape[1] !== kvHeads;
          if (size === undefined ? heads : heads || shape.at(-1) !== size) {
            throw new CheckpointError(
              `${file}: ${port.name} is [${shape.join(', ')}], which config.json contradicts; take both from one export`,
            );
          }
        }
      }
    }
  }

  #ints(values: ArrayLike<number>, dims: readonly number[]): Tensor {
    return new this.#runtime.Tensor('int64', BigInt64Array.from(values as number[], BigInt), dims);
  }

  async #run(
    name: GraphName,
    feeds: Readonly<Record<string, Tensor>>,
  ): Promise<Readonly<Record<string, Tensor>>> {
    try {
      return await this.#sessions[name].run(feeds);
    } catch (cause) {
      throw new EngineError(`onnxruntime: ${name}: ${(cause as Error).message.split('\n')[0]}`, { cause });
    }
  }

  /** Visual tokens of the pictures of prompts, one after another, [Σ tokens · D]. At least one picture. */
  async visualTokens(prompts: readonly EncodedPrompt[]): Promise<Float32Array> {
    const images = prompts.flatMap((prompt) => prompt.images);
    const fresh = images.filter((image) => !this.#visual.has(image));
    for (let first = 0; first < fresh.length; ) {
      let [end, patches] = [first, 0];
      do {
        patches += fresh[end]!.rows * fresh[end]!.columns;
        end++;
      } while (end < fresh.length && patches + fresh[end]!.rows * fresh[end]!.columns <= MOST_PATCHES);
      await this.#encodePictures(fresh.slice(first, end));
      first = end;
    }
    const parts = images.map((image) => this.#visual.get(image)!);
    return parts.length === 1 ? parts[0]! : concatenate(parts);
  }

  async #encodePictures(images: EncodedPrompt['images']): Promise<void> {
    const { width, vision } = this.dims;
    const { patch, temporal, merge } = vision;
    const area = patch * patch;
    const count = images.reduce((sum, { rows, columns }) => sum + rows * columns, 0);
    const size = count * CHANNELS * temporal * area; // every frame of a still image is the same
    if (this.#pixels.length < size) this.#pixels = new Float32Array(size);
    const pixels = this.#pixels.subarray(0, size);
    let to = 0;
    for (const { patches } of images) {
      for (let from = 0; from < patches.length; from += area) {
        for (let frame = 0; frame < temporal; frame++, to += area) {
          pixels.set(patches.subarray(from, from + area), to);
        }
      }
    }
    const grids = images.flatMap(({ rows, columns }) => [1, rows, columns]);
    const { image_features: features } = await this.#run('vision_encoder', {
      pixel_values: new this.#runtime.Tensor('float32', pixels, [count, CHANNELS * temporal * area]),
      image_grid_thw: this.#ints(grids, [images.length, 3]),
    });
    const tokens = features!.data as Float32Array;
    let next = 0;
    for (const image of images) {
      const end = next + ((image.rows * image.columns) / merge ** 2) * width;
      this.#visual.set(image, tokens.slice(next, end));
      next = end;
    }
  }

  /** Embeddings of tokens [B, T, D]; those of a token are computed once. */
  async #embed(ids: ArrayLike<number>, batch: number, length: number): Promise<Tensor> {
    const { width } = this.dims;
    const all = Array.from(ids);
    const fresh = [...new Set(all)].filter((id) => !this.#embeddings.has(id));
    if (fresh.length > 0) {
      const out = await this.#run('embed_tokens', { input_ids: this.#ints(fresh, [1, fresh.length]) });
      const rows = out['inputs_embeds']!.data as Float32Array;
      for (const [i, id] of fresh.entries()) this.#embeddings.set(id, rows.slice(i * width, (i + 1) * width));
    }
    const values = new Float32Array(batch * length * width);
    for (const [i, id] of all.entries()) values.set(this.#embeddings.get(id)!, i * width);
    return new this.#runtime.Tensor('float32', values, [batch, length, width]);
  }

  /** Tokens of the longest of some prompts, to which the others are padded on the left. */
  static longest(prompts: readonly EncodedPrompt[]): number {
    return prompts.reduce((most, { ids }) => Math.max(most, ids.length), 0);
  }

  /** Encodes prompts: what follows each of them. */
  async prefill(prompts: readonly EncodedPrompt[]): Promise<Encoded> {
    const batch = prompts.length;
    const length = OnnxPolicy.longest(prompts);
    const { special, width, kvHeads, headDim } = this.dims;
    const ids = new Int32Array(batch * length).fill(special.pad);
    const positions = new Int32Array(3 * batch * length);
    for (const [b, prompt] of prompts.entries()) {
      const promptLength = prompt.ids.length;
      const pad = length - promptLength;
      ids.set(prompt.ids, b * length + pad);
      for (let axis = 0; axis < 3; axis++) {
        const row = prompt.positions.subarray(axis * promptLength, (axis + 1) * promptLength);
        positions.set(row, (axis * batch + b) * length + pad);
      }
    }
    const embeds = await this.#embed(ids, batch, length);
    if (prompts.some(({ images }) => images.length > 0)) {
      const tokens = await this.visualTokens(prompts);
      const rows = embeds.data as Float32Array;
      let next = 0;
      for (const [i, id] of ids.entries()) {
        if (id !== special.image) continue;
        rows.set(tokens.subarray(next * width, (next + 1) * width), i * width);
        next++;
      }
    }
    const empty = new this.#runtime.Tensor('float32', new Float32Array(0), [batch, kvHeads, 0, headDim]);
    const past = Object.fromEntries(this.#parts.map((part) => [`past_key_values.${part}`, empty]));
    const pads = prompts.map((prompt) => length - prompt.ids.length);
    const { logits, ...present } = await this.#run('decoder_model_merged', {
      ...{ inputs_embeds: embeds, attention_mask: this.#mask(pads, length), ...past },
      position_ids: this.#ints(positions, [3, batch, length]),
    });
    const all = logits!.data as Float32Array; // [B, T, V]
    const { vocabulary } = this.dims;
    const last = new Float32Array(batch * vocabulary);
    for (let b = 0; b < batch; b++) {
      const end = (b + 1) * length * vocabulary;
      last.set(all.subarray(end - vocabulary, end), b * vocabulary);
    }
    return { logits: last, cache: this.#cache(batch, length, (part) => present[`present.${part}`]!) };
  }

  /** The parts of a cache: `layer.key` and `layer.value`. */
  get #parts(): readonly string[] {
    return Array.from({ length: this.dims.layers }, (_, i) => [`${i}.key`, `${i}.value`]).flat();
  }

  #cache(rows: number, columns: number, make: (part: string) => Tensor): Cache {
    const past = this.#parts.map((part) => [`past_key_values.${part}`, make(part)] as const);
    return { rows, columns, past: Object.fromEntries(past) };
  }

  /** 1 behind the padding of each row: [B, S]. */
  #mask(pads: readonly number[], length: number): Tensor {
    const mask = new BigInt64Array(pads.length * length);
    for (const [b, pad] of pads.entries()) mask.fill(1n, b * length + pad, (b + 1) * length);
    return new this.#runtime.Tensor('int64', mask, [pads.length, length]);
  }

  /**
   * Feeds one token to each row, behind the columns of the cache, which is freed. onnxruntime copies all that it returns, given
   * buffers or not, and V8 collects copies of that size by marking the whole heap every few steps.
   * @param ids [B]; @param positions [B]; @param pads padding in front of each row [B]
   */
  async step(
    ids: readonly number[],
    positions: readonly number[],
    pads: readonly number[],
    cache: Cache,
  ): Promise<Encoded> {
    const { rows } = cache;
    const columns = cache.columns + 1;
    const { logits, ...present } = await this.#run('decoder_model_merged', {
      ...{ inputs_embeds: await this.#embed(ids, rows, 1), attention_mask: this.#mask(pads, columns) },
      ...cache.past,
      position_ids: this.#ints([...positions, ...positions, ...positions], [3, rows, 1]),
    });
    nowhere.postMessage(
      null,
      Object.values(cache.past).map(({ data }) => (data as Float32Array<ArrayBuffer>).buffer),
    );
    return {
      logits: logits!.data as Float32Array,
      cache: this.#cache(rows, columns, (part) => present[`present.${part}`]!),
    };
  }

  /** A cache of some rows, in an order, also repeated. */
  pick({ columns, past }: Cache, rows: readonly number[]): Cache {
    const { kvHeads, headDim } = this.dims;
    const size = kvHeads * columns * headDim;
    return this.#cache(rows.length, columns, (part) => {
      const from = past[`past_key_values.${part}`]!.data as Float32Array;
      const to = new Float32Array(rows.length * size);
      for (const [i, row] of rows.entries()) to.set(from.subarray(row * size, (row + 1) * size), i * size);
      return new this.#runtime.Tensor('float32', to, [rows.length, kvHeads, columns, headDim]);
    });
  }

  /** Frees the graphs. */
  async dispose(): Promise<void> {
    for (const session of Object.values(this.#sessions)) await session.release();
  }
}
