/**
 * Which examples a plan runs a stage on: of the first ones of the data those that can make a peak. Memory grows with every
 * extent of a piece (its items, the longest of them, their tokens and patches), so a piece that another one exceeds in all
 * of them is left out.
 */
import { DryEngine } from '../engine/dry/dry.ts';
import type { EncodedPrompt } from '../policy/batch.ts';
import type { Recipe } from '../recipe.ts';
import type { Example, Picture } from '../types.ts';
import { groupMicroBatches, microBatches, splitGroup } from './micro-batch.ts';
import { EmptyPolicy, Encodings, type Subject } from './plan-policy.ts';
import type { Task } from './task.ts';
import { PromptEncoder } from './task.ts';
import { COST_ENTRIES, TRACE_TOKENS } from './transport.ts';

/** Examples of the data that a plan looks at, unless its rows, pieces or transport take more together. */
export const EXAMPLES = 64;

/** An example and what the policy reads of it. */
export interface PlannedLesson {
  readonly example: Example;
  readonly picture: Picture | null;
  readonly prompt: EncodedPrompt;
  readonly text: string;
  /** Of that text, its end token included. */
  readonly trace: Int32Array;
}

/** Reads the first examples of a task as a policy would, each once, for all the plans of it. */
export class LessonReader {
  readonly encodings = new Encodings();
  readonly #task: Task;
  readonly #policy: EmptyPolicy;
  readonly #encoder: PromptEncoder;
  readonly #lessons: PlannedLesson[] = [];

  constructor(subject: Subject, task: Task) {
    const { device, version } = subject;
    const engine = new DryEngine({ device, version });
    this.#task = task;
    this.#policy = new EmptyPolicy(engine, subject, { tuning: 'none' }, this.encodings);
    this.#encoder = new PromptEncoder(this.#policy);
  }

  async first(count: number): Promise<readonly PlannedLesson[]> {
    const task = this.#task;
    while (this.#lessons.length < count) {
      const example = task.example(this.#lessons.length);
      const picture = await task.picture(example);
      const prompt = this.#encoder.encode(picture, task.instruction(example));
      const text = task.trace(example);
      this.#lessons.push({ example, picture, prompt, text, trace: this.#policy.encodeResponse(text) });
    }
    return this.#lessons.slice(0, count);
  }

  /** The task with these lessons for examples. */
  taskOf(lessons: readonly PlannedLesson[]): Task {
    const of = new Map(lessons.map((lesson) => [lesson.example, lesson]));
    return {
      ...this.#task,
      example: (index) => lessons[index]!.example,
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

export function lengthsOf(lessons: readonly PlannedLesson[]): Lengths {
  return {
    prompt: largest(lessons.map(({ prompt }) => prompt.ids.length)),
    patches: largest(lessons.map(({ prompt }) => patchesOf(prompt))),
    trace: largest(lessons.map(({ trace }) => trace.length)),
  };
}

/** Those of some items that no other one exceeds or equals in every extent. */
export function unexceeded<T>(items: readonly T[], extentsOf: (item: T) => readonly number[]): T[] {
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
export function supervisedPieces(
  lessons: readonly PlannedLesson[],
  { samples, batch }: Pick<Recipe['sft'], 'samples' | 'batch'>,
  workers: number,
  tokens: number,
): PlannedLesson[][] {
  const found: PlannedLesson[][] = [];
  const length = ({ prompt, trace }: PlannedLesson): number => prompt.ids.length + trace.length - 1;
  const end = Math.min(samples, lessons.length);
  for (let first = 0; first < end; first += batch) {
    const share = Math.ceil(Math.min(batch, samples - first) / workers);
    const own = lessons.slice(first, first + share);
    found.push(...microBatches(own, (lesson) => [length(lesson)], tokens));
  }
  return unexceeded(found, (piece) => [
    piece.length,
    largest(piece.map(length)),
    total(piece.map(length)),
    total(piece.map(({ trace }) => trace.length)),
    total(piece.map(({ prompt }) => patchesOf(prompt))),
  ]);
}

/** What a step of reinforcement learning is planned with. */
export interface PlannedGroups {
  /** The longest prompts first: as many as are sampled, or transported, at once, or make its pieces. */
  readonly lessons: readonly PlannedLesson[];
  /** How many of them, from the first, the update is run with. */
  readonly taught: number;
}

export interface GroupSizes {
  readonly group: number;
  readonly maxTokens: number;
  /** Responses that are sampled side by side. */
  readonly rows: number;
  /** Tokens of a piece. */
  readonly tokens: number;
  /** Whether responses are held against traces. */
  readonly grounded: boolean;
}

/** Prompts that are in the policy at the same time, at most: of those, more would say the same. */
export function promptsAtOnce({ group, maxTokens, rows, tokens }: GroupSizes): number {
  return Math.max(EXAMPLES, Math.floor(rows / group), Math.ceil(tokens / (group * maxTokens)));
}

export function plannedGroups(lessons: readonly PlannedLesson[], sizes: GroupSizes): PlannedGroups {
  const { group, maxTokens, rows, tokens, grounded } = sizes;
  const sorted = [...lessons].sort(
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
  const parts = sorted.flatMap(({ prompt }, place) =>
    splitGroup({ prompt, responses, advantage, place }, tokens),
  );
  const telling = unexceeded(groupMicroBatches(parts, tokens), (piece) => [
    piece.length,
    total(piece.map((part) => part.responses.length)),
    largest(piece.map(({ prompt }) => prompt.ids.length)),
    total(piece.map(({ prompt }) => prompt.ids.length)),
    total(piece.map(({ prompt }) => patchesOf(prompt))),
  ]);
  const taught = 1 + largest(telling.flat().map(({ place }) => place));
  const shortest = sorted.reduce((least, { trace }) => Math.min(least, trace.length), TRACE_TOKENS);
  const transported = grounded ? Math.floor(COST_ENTRIES / (group * maxTokens * shortest)) : 0;
  const count = Math.max(taught, Math.floor(rows / group), transported, 1);
  return { lessons: sorted.slice(0, count), taught };
}
