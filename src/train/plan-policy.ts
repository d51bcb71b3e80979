/** A policy of a checkpoint's sizes without its weights: it prompts as the checkpoint does, and computes nothing. */
import type { DryEngine } from '../engine/dry/dry.ts';
import type { EncodedPrompt } from '../policy/batch.ts';
import type { WeightDType } from '../policy/layout.ts';
import { type Adapter, type AdapterOptions, adapterLayout } from '../policy/lora.ts';
import type { Dims } from '../policy/model-config.ts';
import { Policy, type PolicyOptions, type PolicyParts } from '../policy/policy.ts';
import type { Picture } from '../types.ts';

/** What is trained, and where. */
export interface Subject {
  readonly parts: PolicyParts;
  readonly dtype: WeightDType;
  readonly device: 'cpu' | 'cuda';
  /** Of libtorch. */
  readonly version: string;
}

/** What policies of one checkpoint have encoded. */
export class Encodings {
  readonly prompts = new Map<string, EncodedPrompt>();
  readonly responses = new Map<string, Int32Array>();
}

/**
 * Encodes every text once: of pictures it looks at their sizes alone, so that prompts which differ in pixels only are one.
 */
export class EmptyPolicy extends Policy {
  readonly #encodings: Encodings;

  constructor(
    engine: DryEngine,
    { parts, dtype }: Pick<Subject, 'parts' | 'dtype'>,
    options: PolicyOptions = {},
    encodings = new Encodings(),
  ) {
    super(engine, parts, (layout) => engine.zeros([layout.size], dtype), options);
    this.#encodings = encodings;
  }

  override encodePrompt(text: string, pictures: readonly Picture[]): EncodedPrompt {
    const sizes = pictures.map(({ width, height }) => `${width}x${height}`);
    return remembered(this.#encodings.prompts, [...sizes, text].join(' '), () =>
      super.encodePrompt(text, pictures),
    );
  }

  override encodeResponse(text: string): Int32Array {
    return remembered(this.#encodings.responses, text, () => super.encodeResponse(text));
  }
}

function remembered<T>(known: Map<string, T>, key: string, make: () => T): T {
  const found = known.get(key);
  if (found !== undefined) return found;
  const made = make();
  known.set(key, made);
  return made;
}

/** An adapter whose weights are not drawn. */
export function emptyAdapter(engine: DryEngine, dims: Dims, options: AdapterOptions): Adapter {
  return { options, flat: engine.zeros([adapterLayout(dims, options).size]) };
}
