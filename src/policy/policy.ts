/** A policy: sizes, weights on an engine, tokenizer, chat template and image processor of one checkpoint. */
import { existsSync, mkdirSync } from 'node:fs';
import { join } from 'node:path';
import type { Engine, Tensor } from '../engine/engine.ts';
import { CheckpointError, ConfigError } from '../ground/errors.ts';
import { jsonText, writeFileAtomic, writeJson } from '../ground/files.ts';
import { checkFiles, writeManifestedDirectory } from '../ground/manifest.ts';
import type { Picture } from '../ground/types.ts';
import type { EncodedPrompt } from './batch.ts';
import { Chat, DEFAULT_TEMPLATE, expandImages, IMAGE_PLACEHOLDER } from './chat.ts';
import type { Network } from './forward.ts';
import { ImageProcessor, parsePreprocessor, readPreprocessor } from './image-processor.ts';
import { type Json, readJson, readText } from './json-file.ts';
import {
  arrange,
  type Layout,
  layoutOf,
  type Parameter,
  type Trainable,
  viewsOf,
  type WeightDType,
  type Weights,
} from './layout.ts';
import { type Adapter, openAdapter, withAdapter } from './lora.ts';
import {
  configJson,
  type Dims,
  nanoDims,
  parseDims,
  type SpecialIds,
  statedDType,
  usualDType,
  withDType,
} from './model-config.ts';
import { ropeIndex } from './rope.ts';
import { openCheckpoint, writeCheckpoint } from './safetensors.ts';
import { BPE_CONFIG, readTokenizer, Tokenizer } from './tokenizer.ts';
import { flatTensors, loadWeights, randomWeights } from './weights.ts';

/**
 * Parameters that training may change. `all`; `decoder`: embedding, decoder and head, while the vision tower stays as it is;
 * `adapter`: the low-rank adapter alone; `none`: nothing (inference and reference policies).
 */
export type Tuning = 'all' | 'decoder' | 'adapter' | 'none';

export interface PolicyOptions {
  /** Parameters that training may change. Default: `adapter` where there is one, else `all`. */
  readonly tuning?: Tuning;
  /** LoRA adapter, or a function that creates it from the policy's dimensions. The policy owns it and frees it in `dispose`. */
  readonly adapter?: Adapter | ((dims: Dims) => Adapter);
}

export interface LoadOptions extends PolicyOptions {
  /**
   * Data type of the weights in memory; the checkpoint's weights are converted. Default: `auto`, bfloat16 on CUDA for a 16-bit
   * checkpoint, else float32.
   */
  readonly dtype?: 'auto' | WeightDType;
  /** True if the directory has already been checked against its manifest. Default: false. */
  readonly checked?: boolean;
  /** Called before the weights are read (which may take minutes), with everything else; its exceptions propagate. */
  readonly beforeWeights?: (prompting: Prompting) => void;
}

/** Everything but the weights, as plain data: survives `structuredClone`, so that Workers can rebuild the policy. */
export interface PolicyParts {
  /** The parsed config.json; keys that are not used here are kept. */
  readonly config: Json;
  readonly tokenizer: Json;
  readonly tokenizerConfig: Json;
  readonly template: string;
  readonly preprocessor: Json;
  /**
   * Text of the checkpoint's other files (all but config.json and weights) by name, copied when the policy is saved. Default: generated
   * from the parts above.
   */
  readonly files?: Readonly<Record<string, string>>;
}

/** Files of a checkpoint directory, beside config.json and the weights, that are copied when the policy is saved. */
const COPIED_FILES: readonly string[] = [
  'generation_config.json',
  'tokenizer.json',
  'tokenizer_config.json',
  'vocab.json',
  'merges.txt',
  'special_tokens_map.json',
  'added_tokens.json',
  'chat_template.jinja',
  'chat_template.json',
  'preprocessor_config.json',
  'video_preprocessor_config.json',
  'processor_config.json',
  'LICENSE',
  'NOTICE',
];

/**
 * Reads all but the weights of a Hugging Face directory.
 * @throws CheckpointError when a file is missing, damaged, or of another architecture.
 */
export function readParts(directory: string): PolicyParts {
  const file = join(directory, 'config.json');
  if (!existsSync(file)) {
    throw new CheckpointError(
      `${directory}: no config.json there; give the directory of a saved policy or a Qwen2.5-VL checkpoint`,
    );
  }
  const config = readJson(file);
  const dims = parseDims(config, file); // first, so that a wrong architecture is reported before missing files
  const tokenizer = readTokenizer(directory);
  const preprocessor = readPreprocessor(directory);
  parsePreprocessor(preprocessor.json, dims.vision, preprocessor.file); // throws with the file's name
  const present = COPIED_FILES.filter((name) => existsSync(join(directory, name)));
  return {
    config: config as PolicyParts['config'],
    tokenizer: tokenizer.json,
    tokenizerConfig: tokenizer.config,
    template: Chat.load(directory).source,
    preprocessor: preprocessor.json as PolicyParts['preprocessor'],
    files: Object.fromEntries(present.map((name) => [name, readText(join(directory, name))])),
  };
}

/** Generates the files of a policy that was created without any. */
function generatedFiles(parts: PolicyParts, { special }: Dims): Readonly<Record<string, string>> {
  return {
    'generation_config.json': jsonText({
      bos_token_id: special.pad,
      pad_token_id: special.pad,
      eos_token_id: [special.end, special.pad],
      do_sample: true,
      // Masked in training, so the policy never learned to avoid them.
      suppress_tokens: [special.visionStart, special.visionEnd, special.image, special.video],
    }),
    'tokenizer.json': jsonText(parts.tokenizer),
    'tokenizer_config.json': jsonText(parts.tokenizerConfig),
    'preprocessor_config.json': jsonText(parts.preprocessor),
    'chat_template.jinja': parts.template,
  };
}

/** Returns true if training changes a parameter. The vision tower follows the decoder in the flat buffer: tuned parameters are a prefix. */
export function isTuned(tuning: Tuning, { name }: Parameter): boolean {
  return tuning === 'all' || (tuning === 'decoder' && !/^(vision|merger)\./.test(name));
}

/** Added to the logits of tokens that must not be sampled; finite, to avoid NaN. */
export const FORBID = -1e9;

/** Everything needed to encode a prompt: a checkpoint without its weights. */
export class Prompting {
  readonly dims: Dims;
  readonly tokenizer: Tokenizer;
  readonly chat: Chat;
  readonly processor: ImageProcessor;
  /**
   * Additive vocabulary mask [V], 0 or −1e9: image, video, padding and other special tokens, and ids beyond the
   * tokenizer, are forbidden; the end token is allowed. Sampling and log-probabilities use the same mask.
   */
  readonly forbidden: Float32Array;
  /** Additive mask [V] of tokens that cannot occur in text: image and video tokens, ids beyond the tokenizer. Other special tokens are allowed. */
  readonly nonText: Float32Array;

  /**
   * @param from directory that the parts come from, for messages
   * @throws CheckpointError if the parts are inconsistent
   */
  constructor(parts: PolicyParts, from?: string) {
    const file = (name: string): string => (from === undefined ? name : join(from, name));
    this.dims = parseDims(parts.config, file('config.json'));
    this.tokenizer = new Tokenizer(parts.tokenizer, parts.tokenizerConfig, file('tokenizer.json'));
    this.chat = new Chat(parts.template, file('chat_template.jinja'));
    this.processor = new ImageProcessor(
      this.dims.vision,
      parts.preprocessor,
      file('preprocessor_config.json'),
    );
    if (this.tokenizer.size > this.dims.vocabulary) {
      throw new CheckpointError(
        `${file('tokenizer.json')} has ${this.tokenizer.size} ids, config.json's vocab_size is ${this.dims.vocabulary}; take both from one checkpoint`,
      );
    }
    const image = this.tokenizer.special(IMAGE_PLACEHOLDER);
    if (image !== this.dims.special.image) {
      throw new CheckpointError(
        `${file('tokenizer.json')} gives ${IMAGE_PLACEHOLDER} the id ${image}, config.json's image_token_id is ${this.dims.special.image}; take both from one checkpoint`,
      );
    }
    this.forbidden = new Float32Array(this.dims.vocabulary);
    this.nonText = new Float32Array(this.dims.vocabulary);
    const { end, image: picture, video } = this.dims.special;
    for (let id = 0; id < this.dims.vocabulary; id++) {
      const known = this.tokenizer.token(id) !== undefined;
      this.forbidden[id] = (known && !this.tokenizer.isSpecial(id)) || id === end ? 0 : FORBID;
      this.nonText[id] = known && id !== picture && id !== video ? 0 : FORBID;
    }
  }

  /** Reads a Hugging Face directory, whose weights may be missing. @throws CheckpointError */
  static read(directory: string): Prompting {
    return new Prompting(readParts(directory), directory);
  }

  /** Encodes a chat-template text with one image placeholder per picture: tokens, positions and patches. */
  encodePrompt(text: string, pictures: readonly Picture[]): EncodedPrompt {
    const { ids, images } = this.#encodeParts(text, pictures);
    return { ids, images, ...ropeIndex(ids, images, this.dims) };
  }

  #encodeParts(text: string, pictures: readonly Picture[]): Pick<EncodedPrompt, 'ids' | 'images'> {
    const images = pictures.map((picture) => this.processor.process(picture));
    const unit = this.dims.vision.merge ** 2;
    const visual = images.map(({ rows, columns }) => (rows * columns) / unit);
    return { ids: this.tokenizer.encode(expandImages(text, visual)), images };
  }

  /** Encodes a prompt that goes on behind another one and its response: `text` begins with the end of that turn. */
  continuePrompt(
    previous: EncodedPrompt,
    response: Int32Array,
    text: string,
    pictures: readonly Picture[],
  ): EncodedPrompt {
    const added = this.#encodeParts(text, pictures);
    // The text ends the turn.
    const said = response.at(-1) === this.dims.special.end ? response.subarray(0, -1) : response;
    const ids = Int32Array.from([...previous.ids, ...said, ...added.ids]);
    const images = [...previous.images, ...added.images];
    return { ids, images, ...ropeIndex(ids, images, this.dims), stem: previous };
  }

  /** Returns the token ids of a response, end token included. */
  encodeResponse(text: string): Int32Array {
    return Int32Array.from([...this.tokenizer.encode(text), this.dims.special.end]);
  }
}

export class Policy extends Prompting implements Network {
  readonly engine: Engine;
  readonly layout: Layout;
  /** All parameters of the checkpoint, float32 or bfloat16 [P]; `parameters` are views of it. */
  readonly flat: Tensor;
  readonly tuning: Tuning;
  /** Parameters that training changes; empty when the tuning is `none`. */
  readonly trainable: Trainable;
  /** Views of `flat` in table order. Trainable ones are autograd leaves. */
  readonly parameters: readonly Tensor[];
  /** The parameters by their role, with the adapter where there is one. */
  readonly weights: Weights;
  readonly adapter: Adapter | null;
  /** Same weights without the adapter: a reference policy at no extra memory, because LoRA training starts from it. */
  readonly withoutAdapter: Network;
  readonly #parts: PolicyParts;
  readonly #adapterViews: readonly Tensor[] = [];

  /**
   * @param flat weights [P], or a function that creates them once the parts have been checked. The policy owns them: `dispose` frees them.
   * @throws CheckpointError if parts and weights are inconsistent
   */
  constructor(
    engine: Engine,
    parts: PolicyParts,
    flat: Tensor | ((layout: Layout, prompting: Prompting) => Tensor),
    options: PolicyOptions & {
      /** Directory that the parts come from, for messages. */
      readonly from?: string;
    } = {},
  ) {
    super(parts, options.from);
    this.engine = engine;
    this.tuning = options.tuning ?? (options.adapter === undefined ? 'all' : 'adapter');
    if (this.tuning !== 'none' && (this.tuning === 'adapter') !== (options.adapter !== undefined)) {
      throw new ConfigError(
        options.adapter === undefined
          ? "tuning 'adapter' needs an adapter: create or load one"
          : `a policy with an adapter is tuned 'adapter' or 'none', not '${this.tuning}': merge the adapter first`,
      );
    }
    this.layout = layoutOf(this.dims);
    this.flat = typeof flat === 'function' ? flat(this.layout, this) : flat;
    if (this.flat.shape.length !== 1 || this.flat.shape[0] !== this.layout.size) {
      throw new CheckpointError(
        `weights of shape [${this.flat.shape.join(', ')}] for a policy of ${this.layout.size} parameters: weights and config.json differ`,
      );
    }
    this.#parts = { ...parts, files: parts.files ?? generatedFiles(parts, this.dims) };
    const tuned = this.layout.parameters.filter((parameter) => isTuned(this.tuning, parameter));
    this.parameters = viewsOf(engine, this.layout, this.flat, (parameter) => isTuned(this.tuning, parameter));
    this.weights = arrange(this.layout, this.dims, this.parameters);
    this.withoutAdapter = { engine, dims: this.dims, weights: this.weights };
    const adapter = typeof options.adapter === 'function' ? options.adapter(this.dims) : options.adapter;
    this.adapter = adapter ?? null;
    let adapterParameters: Trainable | undefined;
    if (adapter !== undefined) {
      const opened = openAdapter(engine, this.dims, adapter, this.tuning === 'adapter');
      this.weights = withAdapter(this.weights, opened);
      this.#adapterViews = opened.tensors;
      if (this.tuning === 'adapter') adapterParameters = opened.trainable;
    }
    this.trainable = adapterParameters ?? {
      flat: engine.narrow(
        this.flat,
        0,
        0,
        tuned.reduce((sum, { size }) => sum + size, 0),
      ),
      parameters: tuned,
      leaves: this.parameters.slice(0, tuned.length),
    };
  }

  /**
   * Loads a Hugging Face directory.
   * @throws CheckpointError if a file is missing, truncated, of another architecture, inconsistent with the others, or differs from the
   * manifest
   */
  static load(engine: Engine, directory: string, options: LoadOptions = {}): Policy {
    const { dtype = 'auto', beforeWeights, checked = false, ...rest } = options;
    if (!checked) checkFiles(directory);
    const parts = readParts(directory);
    const weights = (layout: Layout, prompting: Prompting): Tensor => {
      beforeWeights?.(prompting);
      const checkpoint = openCheckpoint(directory);
      const stated = statedDType(parts.config) ?? [...checkpoint.values()][0]?.dtype;
      const chosen = dtype === 'auto' ? usualDType(engine.info.device, stated) : dtype;
      return loadWeights(engine, layout, directory, checkpoint, chosen);
    };
    return new Policy(engine, parts, weights, { ...rest, from: directory });
  }

  /**
   * Opens the policy of a directory on weights that another Worker loaded and shared (`engine.share(policy.flat)`), in the dtype they
   * were loaded with.
   */
  static attach(engine: Engine, directory: string, ticket: number, options: PolicyOptions = {}): Policy {
    const weights = (): Tensor => engine.attach(ticket);
    return new Policy(engine, readParts(directory), weights, { ...options, from: directory });
  }

  /** Creates a policy with random weights, reproducible by seed; nano dimensions by default. */
  static create(
    engine: Engine,
    options: {
      /** Parsed `tokenizer.json`. */
      readonly tokenizer: Json;
      readonly seed: number;
      readonly dims?: (vocabulary: number, special: SpecialIds) => Dims;
      /** Default: float32. */
      readonly dtype?: WeightDType;
      readonly tuning?: Tuning;
    },
  ): Policy {
    const tokenizer = new Tokenizer(options.tokenizer, BPE_CONFIG);
    const dims = (options.dims ?? nanoDims)(tokenizer.size, {
      image: tokenizer.special('<|image_pad|>'),
      video: tokenizer.special('<|video_pad|>'),
      visionStart: tokenizer.special('<|vision_start|>'),
      visionEnd: tokenizer.special('<|vision_end|>'),
      end: tokenizer.special('<|im_end|>'),
      pad: tokenizer.special('<|endoftext|>'),
    });
    const parts: PolicyParts = {
      config: configJson(dims, options.dtype),
      tokenizer: tokenizer.json,
      // transformers.js and older transformers look for the template here, newer ones in its own file.
      tokenizerConfig: { ...BPE_CONFIG, chat_template: DEFAULT_TEMPLATE },
      template: DEFAULT_TEMPLATE,
      preprocessor: new ImageProcessor(dims.vision, { min_pixels: 28 * 28 }).json(),
    };
    const weights = (layout: Layout): Tensor => randomWeights(engine, layout, options.seed, options.dtype);
    return new Policy(engine, parts, weights, options.tuning === undefined ? {} : { tuning: options.tuning });
  }

  /** Parts with which a Worker rebuilds this policy over shared weights: `new Policy(engine, parts, engine.attach(ticket))`. */
  get parts(): PolicyParts {
    return { ...this.#parts, config: withDType(this.#parts.config, this.dtype) };
  }

  /** Data type of the weights in memory. */
  get dtype(): WeightDType {
    return this.flat.dtype === 'bfloat16' ? 'bfloat16' : 'float32';
  }

  /** [N, D] → [N, V] */
  logits(hidden: Tensor): Tensor {
    return this.engine.linear(hidden, this.weights.head);
  }

  /** Writes the Hugging Face files into `directory`, the weights in shards of at most `shardBytes`. */
  write(directory: string, options: { readonly shardBytes?: number } = {}): void {
    mkdirSync(directory, { recursive: true });
    const { config, files = {} } = this.parts;
    writeJson(join(directory, 'config.json'), config);
    for (const [name, text] of Object.entries(files)) writeFileAtomic(join(directory, name), text);
    writeCheckpoint(directory, flatTensors(this.engine, this.layout, this.flat), options.shardBytes);
  }

  /** Saves to `directory` atomically, replacing an existing one. */
  save(directory: string, options: { readonly shardBytes?: number } = {}): void {
    writeManifestedDirectory(directory, (temporary) => this.write(temporary, options));
  }

  /** Frees the weights. */
  dispose(): void {
    const adapter = this.adapter === null ? [] : [...this.#adapterViews, this.adapter.flat];
    this.engine.dispose(...this.parameters, this.trainable.flat, this.flat, ...adapter);
  }
}
