/** A policy: sizes, weights on an engine, tokenizer, chat template and image processor of one checkpoint. */
import { existsSync, mkdirSync } from 'node:fs';
import { join } from 'node:path';
import type { Engine, Tensor } from '../engine/engine.ts';
import { CheckpointError } from '../errors.ts';
import { writeDirectoryAtomic, writeFileAtomic } from '../files.ts';
import type { Picture } from '../types.ts';
import type { EncodedPrompt } from './batch.ts';
import { BPE_CONFIG } from './bpe.ts';
import { Chat, expandImages } from './chat.ts';
import { configJson, type Dims, nanoDims, parseDims, type SpecialIds } from './dims.ts';
import type { Network } from './forward.ts';
import { ImageProcessor } from './image.ts';
import { type Layout, layoutOf, type Parameter } from './layout.ts';
import { ropeIndex } from './positions.ts';
import { readJson, Tokenizer } from './tokenizer.ts';
import type { Trainable, Tuning } from './trainable.ts';
import { arrange, loadWeights, randomWeights, saveWeights, viewsOf, type Weights } from './weights.ts';

/** Everything but the weights, as plain data: survives `structuredClone`, so that Workers can rebuild the policy. */
export interface PolicyParts {
  readonly config: Readonly<Record<string, unknown>>;
  readonly tokenizer: Readonly<Record<string, unknown>>;
  readonly tokenizerConfig: Readonly<Record<string, unknown>>;
  readonly template: string;
  readonly preprocessor: Readonly<Record<string, unknown>>;
}

/** The vision tower stands behind the decoder in the flat buffer, so what is tuned starts at its beginning. */
function isTuned(tuning: Tuning, { name }: Parameter): boolean {
  return tuning === 'all' || (tuning === 'decoder' && !/^(vision|merger)\./.test(name));
}

/** Added to the logits of tokens that must not be sampled; finite, so that no NaN can come of it. */
const FORBID = -1e9;

export class Policy implements Network {
  readonly engine: Engine;
  readonly dims: Dims;
  readonly layout: Layout;
  readonly tokenizer: Tokenizer;
  readonly chat: Chat;
  readonly processor: ImageProcessor;
  /** All parameters of the checkpoint, float32 or bfloat16 [P]; the others are views of it. */
  readonly flat: Tensor;
  readonly tuning: Tuning;
  /** What training changes; empty when the tuning is `none`. */
  readonly trainable: Trainable;
  /** Views of `flat` in table order. Those that training changes are leaves: with the tuning `all`, every one. */
  readonly parameters: readonly Tensor[];
  readonly weights: Weights;
  /**
   * Additive vocabulary mask [V], 0 or −1e9: image, video, padding and other special tokens, and ids beyond the
   * tokenizer, are forbidden; the end token is allowed. Sampling and log-probabilities use the same one.
   */
  readonly forbidden: Float32Array;

  /** Takes ownership of `flat`; `dispose` frees it. */
  constructor(engine: Engine, parts: PolicyParts, flat: Tensor, options: { readonly tuning?: Tuning } = {}) {
    this.engine = engine;
    this.tuning = options.tuning ?? 'all';
    this.dims = parseDims(parts.config);
    this.layout = layoutOf(this.dims);
    this.tokenizer = new Tokenizer(parts.tokenizer, parts.tokenizerConfig);
    this.chat = new Chat(parts.template);
    this.processor = new ImageProcessor(this.dims.vision, parts.preprocessor);
    if (flat.shape.length !== 1 || flat.shape[0] !== this.layout.size) {
      throw new CheckpointError(
        `weights of shape [${flat.shape.join(', ')}] for a policy of ${this.layout.size} parameters: weights and config.json differ`,
      );
    }
    if (this.tokenizer.size > this.dims.vocabulary) {
      throw new CheckpointError(
        `tokenizer.json has ${this.tokenizer.size} ids, config.json's vocab_size is ${this.dims.vocabulary}; take both from one checkpoint`,
      );
    }
    this.flat = flat;
    const changed = this.layout.parameters.filter((parameter) => isTuned(this.tuning, parameter));
    this.parameters = viewsOf(engine, this.layout, flat, (parameter) => isTuned(this.tuning, parameter));
    this.trainable = {
      flat: engine.narrow(flat, 0, 0, changed.reduce((sum, { size }) => sum + size, 0)),
      parameters: changed,
      leaves: this.parameters.slice(0, changed.length),
    };
    this.weights = arrange(this.layout, this.dims, this.parameters);
    this.forbidden = new Float32Array(this.dims.vocabulary);
    for (let id = 0; id < this.dims.vocabulary; id++) {
      const usable = this.tokenizer.token(id) !== undefined && !this.tokenizer.isSpecial(id);
      this.forbidden[id] = usable || id === this.dims.special.end ? 0 : FORBID;
    }
  }

  /** Reads all but the weights of a Hugging Face directory. */
  static #partsOf(directory: string): PolicyParts {
    const file = join(directory, 'config.json');
    if (!existsSync(file)) {
      throw new CheckpointError(
        `${directory}: no config.json there; give the directory of a saved policy or a Qwen2.5-VL checkpoint`,
      );
    }
    const dims = parseDims(readJson(file), file);
    const tokenizer = Tokenizer.load(directory);
    const preprocessor = join(directory, 'preprocessor_config.json');
    const processor = new ImageProcessor(
      dims.vision,
      existsSync(preprocessor) ? readJson(preprocessor) : {},
      preprocessor,
    );
    return {
      config: configJson(dims),
      tokenizer: tokenizer.json,
      tokenizerConfig: tokenizer.config,
      template: Chat.load(directory).source,
      preprocessor: processor.json(),
    };
  }

  /**
   * Loads a Hugging Face directory.
   * @throws CheckpointError when a file is missing, truncated, or they do not belong together.
   */
  static load(engine: Engine, directory: string): Policy {
    const parts = Policy.#partsOf(directory);
    return new Policy(engine, parts, loadWeights(engine, layoutOf(parseDims(parts.config)), directory));
  }

  /** The policy of a directory over weights that another Worker loaded and shared: `engine.share(policy.flat)`. */
  static attach(engine: Engine, directory: string, ticket: number): Policy {
    return new Policy(engine, Policy.#partsOf(directory), engine.attach(ticket));
  }

  /** A new policy with random weights; nano sizes unless told otherwise. Equal seeds give equal policies. */
  static create(
    engine: Engine,
    options: {
      /** Parsed `tokenizer.json`. */
      readonly tokenizer: Readonly<Record<string, unknown>>;
      readonly seed: number;
      readonly dims?: (vocabulary: number, special: SpecialIds) => Dims;
      readonly template?: string;
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
      config: configJson(dims),
      tokenizer: tokenizer.json,
      tokenizerConfig: BPE_CONFIG,
      template: options.template ?? new Chat().source,
      preprocessor: new ImageProcessor(dims.vision, { min_pixels: 28 * 28 }).json(),
    };
    return new Policy(engine, parts, randomWeights(engine, layoutOf(dims), options.seed));
  }

  /** What a Worker needs to rebuild this policy over shared weights: `new Policy(engine, parts, engine.attach(ticket))`. */
  get parts(): PolicyParts {
    return {
      config: configJson(this.dims),
      tokenizer: this.tokenizer.json,
      tokenizerConfig: this.tokenizer.config,
      template: this.chat.source,
      preprocessor: this.processor.json(),
    };
  }

  /** Tokens, positions and patches of a chat-template text with one image placeholder per picture. */
  encodePrompt(text: string, pictures: readonly Picture[]): EncodedPrompt {
    const images = pictures.map((picture) => this.processor.process(picture));
    const unit = this.dims.vision.merge ** 2;
    const visual = images.map(({ rows, columns }) => (rows * columns) / unit);
    const ids = this.tokenizer.encode(expandImages(text, visual));
    return { ids, images, ...ropeIndex(ids, images, this.dims) };
  }

  /** Ids of a response with its end token. */
  encodeResponse(text: string): Int32Array {
    return Int32Array.from([...this.tokenizer.encode(text), this.dims.special.end]);
  }

  /** [N, D] → [N, V] */
  logits(hidden: Tensor): Tensor {
    return this.engine.linear(hidden, this.weights.head);
  }

  /** Writes the Hugging Face files into a directory of the caller's. */
  write(directory: string): void {
    mkdirSync(directory, { recursive: true });
    const json = (name: string, value: unknown): void =>
      writeFileAtomic(join(directory, name), `${JSON.stringify(value, null, 2)}\n`);
    const { end, pad } = this.dims.special;
    json('config.json', configJson(this.dims));
    json('generation_config.json', {
      bos_token_id: pad,
      pad_token_id: pad,
      eos_token_id: [end, pad],
      do_sample: true,
    });
    json('tokenizer.json', this.tokenizer.json);
    json('tokenizer_config.json', this.tokenizer.config);
    json('preprocessor_config.json', this.processor.json());
    writeFileAtomic(join(directory, 'chat_template.jinja'), this.chat.source);
    saveWeights(this.engine, this.layout, this.flat, join(directory, 'model.safetensors'));
  }

  /** Saves as a directory that appears whole or not at all; an older one of that name is replaced. */
  save(directory: string): void {
    writeDirectoryAtomic(directory, (temporary) => this.write(temporary));
  }

  /** Frees the weights. */
  dispose(): void {
    this.engine.dispose(...this.parameters, this.trainable.flat, this.flat);
  }
}
