/**
 * Which examples a dry run takes: of the first ones of the data those that can make a peak of memory. Memory grows with every
 * extent of a micro-batch (its sequences, the longest of them, their tokens and patches), so one that another exceeds in all
 * of them is left out.
 */

import type { Example, Picture } from '../ground/types.ts';
import type { EncodedPrompt } from '../policy/batch.ts';
import { type PolicyParts, Prompting } from '../policy/policy.ts';
import { groupMicroBatches, microBatches, splitGroup } from './micro-batch.ts';
import type { SftOptions } from './sft.ts';
import { behindPrompt, COST_ENTRIES, TRACE_TOKENS } from './similarity.ts';
import type { Task } from './task.ts';
import { PromptEncoder } from './task.ts';

/** Examples of the data that a plan looks at, unless its rows, micro-batches or transport take more together. */
export const EXAMPLES = 64;

/** An example and what the policy reads of it. */
export interface PlannedExample {
  readonly example: Example;
  readonly picture: Picture | null;
  readonly prompt: EncodedPrompt;
  readonly text: string;
  /** Of that text, its end token included. */
  readonly trace: Int32Array;
}

/**
 * Encodes every text once: of pictures it looks at their sizes alone, so that prompts which differ in pixels only are one.
 */
export class RememberingPrompting extends Prompting {
  readonly prompts = new Map<string, EncodedPrompt>();
  readonly responses = new Map<string, Int32Array>();

  override encodePrompt(text: string, pictures: readonly Picture[]): EncodedPrompt {
    const key = [...pictures.map(({ width, height }) => `${width}x${height}`), text].join(' ');
    const prompt = this.prompts.get(key) ?? super.encodePrompt(text, pictures);
    this.prompts.set(key, prompt);
    return prompt;
  }

  override encodeResponse(text: string): Int32Array {
    const response = this.responses.get(text) ?? super.encodeResponse(text);
    this.responses.set(text, response);
    return response;
  }
}

/** Reads the first examples of a task as a policy would, each once, for all dry runs of it. */
export class ExampleReader {
  readonly prompting: RememberingPrompting;
  readonly #task: Task;
  readonly #encoder: PromptEncoder;
  readonly #examples: PlannedExample[] = [];

  /** `from`: the directory that the parts come from, for messages. */
  constructor({ parts, from }: { readonly parts: PolicyParts; readonly from?: string }, task: Task) {
    this.#task = task;
    this.prompting = new RememberingPrompting(parts, from);
    this.#encoder = new PromptEncoder(this.prompting);
  }

  async first(count: number): Promise<readonly PlannedExample[]> {
    const task = this.#task;
    while (this.#examples.length < count) {
      const example = task.example(this.#examples.length);
      const picture = await task.picture(example);
      const prompt = this.#encoder.encode(picture, task.instruction(example));
      const text = task.trace(example);
      this.#examples.push({ example, picture, prompt, text, trace: this.prompting.encodeResponse(text) });
    }
    return this.#examples.slice(0, count);
  }

  /** The task with these examples alone. */
  taskOf(examples: readonly PlannedExample[]): Task {
    const of = new Map(examples.map((one) => [one.example, one]));
    return {
      ...this.#task,
      example: (index) => examples[index]!.example,
      picture: (example) => of.get(example)!.picture,
      instruction: (example) => this.#task.instruction(example),
      trace: (example) => of.get(example)!.text,
    };
  }
}

/** The longest of some examples, in tokens and patches. */
export interface Lengths {
  readonly prompt: number;
  readonly patches: number;
  readonly trace: number;
}

const patchesOf = ({ images }: EncodedPrompt): number =>
  images.reduce((sum, { rows, columns }) => sum + rows * columns, 0);

const largest = (values: readonly number[]): number =>
  values.reduce((most, value) => Math.max(most, value), 0);

const total = (values: readonly number[]): number => values.reduce((sum, value) => sum + value, 0);

export function lengthsOf(examples: readonly PlannedExample[]): Lengths {
  return {
    prompt: largest(examples.map(({ prompt }) => prompt.ids.length)),
    patches: largest(examples.map(({ prompt }) => patchesOf(prompt))),
    trace: largest(examples.map(({ trace }) => trace.length)),
  };
}

/** Those of some items that no other one exceeds or equals in every extent. */
export function undominated<T>(items: readonly T[], extentsOf: (item: T) => readonly number[]): T[] {
  const kept: { readonly item: T; readonly extents: readonly number[] }[] = [];
  const within = (a: readonly number[], b: readonly number[]): boolean => a.every((x, i) => x <= b[i]!);
  for (const item of items) {
    const extents = extentsOf(item);
    if (kept.some((other) => within(extents, other.extents))) continue;
    kept.splice(0, kept.length, ...kept.filter((other) => !within(other.extents, extents)), {
      item,
      extents,
    });
  }
  return kept.map(({ item }) => item);
}

/** Pieces of the first steps of supervised fine-tuning, as one of its workers takes them. */
export function supervisedMicroBatches(
  examples: readonly PlannedExample[],
  { samples, batch }: Pick<SftOptions, 'samples' | 'batch'>,
  workers: number,
  tokens: number,
): PlannedExample[][] {
  const found: PlannedExample[][] = [];
  const length = ({ prompt, trace }: PlannedExample): number => prompt.ids.length + trace.length - 1;
  const end = Math.min(samples, examples.length);
  for (let first = 0; first < end; first += batch) {
    const share = Math.ceil(Math.min(batch, samples - first) / workers);
    const own = examples.slice(first, first + share);
    found.push(...microBatches(own, (example) => [length(example)], tokens));
  }
  return undominated(found, (one) => [
    one.length,
    largest(one.map(length)),
    total(one.map(length)),
    total(one.map(({ trace }) => trace.length)),
    total(one.map(({ prompt }) => patchesOf(prompt))),
  ]);
}

/** What a step of reinforcement learning is planned with. */
export interface PlannedGroups {
  /** The longest prompts first: as many as are sampled, or transported, at once, or make its micro-batches. */
  readonly examples: readonly PlannedExample[];
  /** How many of them, from the first, the update is run with. */
  readonly taught: number;
}

export interface GroupSizes {
  readonly group: number;
  readonly maxTokens: number;
  /** Responses that are sampled side by side. */
  readonly rows: number;
  /** Tokens of a micro-batch. */
  readonly tokens: number;
  /** Whether responses are held against traces. */
  readonly grounded: boolean;
  /** Whether traces are encoded behind their prompts. */
  readonly behind: boolean;
  /** Whether a teacher is shown the traces. */
  readonly distilled: boolean;
}

/** Prompts that are in the policy at the same time, at most: of those, more would say the same. */
export function promptsAtOnce({ group, maxTokens, rows, tokens }: GroupSizes): number {
  return Math.max(EXAMPLES, Math.floor(rows / group), Math.ceil(tokens / (group * maxTokens)));
}

export function plannedGroups(examples: readonly PlannedExample[], sizes: GroupSizes): PlannedGroups {
  const { group, maxTokens, rows, tokens, grounded, behind, distilled } = sizes;
  const sorted = [...examples].sort(
    (a, b) =>
      b.prompt.ids.length - a.prompt.ids.length ||
      patchesOf(b.prompt) - patchesOf(a.prompt) ||
      b.trace.length - a.trace.length,
  );
  const ids = new Int32Array(maxTokens);
  const responses = Array.from({ length: group }, (_, sample) => ({
    ...{ prompt: 0, sample, ids, text: '', finished: false },
    ...{ logProbs: new Float32Array(0), hidden: new Float32Array(0) },
  }));
  const advantage = responses.map(() => 0);
  const parts = sorted.flatMap(({ prompt, trace }, place) =>
    splitGroup(
      { prompt, responses, advantage, place, told: distilled ? prompt.ids.length + trace.length : 0 },
      tokens,
    ),
  );
  const telling = undominated(groupMicroBatches(parts, tokens), (one) => [
    one.length,
    total(one.map((part) => part.responses.length)),
    largest(one.map(({ prompt }) => prompt.ids.length)),
    total(one.map(({ prompt }) => prompt.ids.length)),
    total(one.map(({ prompt }) => patchesOf(prompt))),
    one.length * largest(one.map(({ told }) => told)),
    total(one.map(({ told }) => told)),
  ]);
  const taught = 1 + largest(telling.flat().map(({ place }) => place));
  const shortest = sorted.reduce((least, { trace }) => Math.min(least, trace.length), TRACE_TOKENS);
  const transported = grounded ? Math.floor(COST_ENTRIES / (group * maxTokens * shortest)) : 0;
  const encoded = behind
    ? undominated(
        microBatches([...sorted.entries()], ([, { prompt, trace }]) => behindPrompt(prompt, [trace]), tokens),
        (one) => [
          one.length,
          largest(one.map(([, { prompt }]) => prompt.ids.length)),
          largest(one.map(([, { trace }]) => trace.length)),
          total(one.map(([, { prompt }]) => patchesOf(prompt))),
        ],
      )
    : [];
  const contextual = 1 + largest(encoded.flat().map(([place]) => place));
  const count = Math.max(taught, Math.floor(rows / group), transported, contextual);
  return { examples: sorted.slice(0, count), taught };
}
