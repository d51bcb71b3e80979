/** Encoded prompts and responses, and their right-padded batches. */
import { CheckpointError } from '../ground/errors.ts';
import type { ProcessedImage } from './image-processor.ts';

/** Tokens with their M-RoPE positions and the images among them. */
export interface Sequence {
  readonly ids: Int32Array; // [T]
  readonly positions: Int32Array; // [3 · T], row after row
  readonly images: readonly ProcessedImage[];
  /** Index of the token that each token continues, an earlier one; −1: none. Default: the one before. */
  readonly parents?: Int32Array; // [T]
}

/** A prompt: the sequence, and the position at which a response starts. */
export interface EncodedPrompt extends Sequence {
  readonly next: number;
  /** Prompt that this one continues. Consecutive prompts with the same stem are encoded behind one cache of it. */
  readonly stem?: EncodedPrompt;
}

/** A right-padded batch, as `forward` takes it. */
export interface Batch {
  readonly tokens: Int32Array; // [B · T]
  readonly batch: number;
  readonly length: number;
  readonly positions: Int32Array; // [3 · B · T]
  readonly lengths: Int32Array; // [B]
  readonly images: readonly ProcessedImage[];
  /** Index, in the row, of the token that each token continues; −1: none (also for padding). Default: the one before. */
  readonly parents?: Int32Array | undefined; // [B · T]
}

/** The response alone, to be run behind its prompt's cache. */
export function responseSequence(prompt: EncodedPrompt, response: Int32Array): Sequence {
  const count = response.length;
  const positions = new Int32Array(3 * count);
  for (let t = 0; t < count; t++) {
    positions[t] = positions[count + t] = positions[2 * count + t] = prompt.next + t;
  }
  return { ids: response, positions, images: [] };
}

/** Prompt and response as one sequence. */
export function joined(prompt: EncodedPrompt, response: Int32Array): Sequence {
  const tail = responseSequence(prompt, response);
  const before = prompt.ids.length;
  const count = before + response.length;
  const ids = new Int32Array(count);
  ids.set(prompt.ids);
  ids.set(response, before);
  const positions = new Int32Array(3 * count);
  for (let axis = 0; axis < 3; axis++) {
    positions.set(prompt.positions.subarray(axis * before, (axis + 1) * before), axis * count);
    positions.set(tail.positions.subarray(0, response.length), axis * count + before);
  }
  return { ids, positions, images: prompt.images };
}

/** The part of a prompt behind the one that it continues, to be run behind that one's cache. */
export function behindStem({ ids, positions, images, stem }: EncodedPrompt): Sequence {
  const [count, before] = [ids.length, stem!.ids.length];
  const rest = new Int32Array(3 * (count - before));
  for (let axis = 0; axis < 3; axis++) {
    rest.set(positions.subarray(axis * count + before, (axis + 1) * count), axis * (count - before));
  }
  return { ids: ids.subarray(before), positions: rest, images: images.slice(stem!.images.length) };
}

/** The prompt with the beginning of a response behind it, which is continued. */
export function opened(prompt: EncodedPrompt, opening: Int32Array): EncodedPrompt {
  return { ...joined(prompt, opening), next: prompt.next + opening.length, stem: prompt };
}

/** Pads sequences on the right to the longest. @throws CheckpointError for an empty batch or sequence */
export function collate(sequences: readonly Sequence[], pad: number): Batch {
  const batch = sequences.length;
  const lengths = Int32Array.from(sequences, ({ ids }) => ids.length);
  const length = lengths.reduce((a, b) => Math.max(a, b), 0);
  if (batch === 0 || lengths.some((n) => n === 0)) {
    throw new CheckpointError('a batch needs at least one sequence, and each sequence at least one token');
  }
  const tokens = new Int32Array(batch * length).fill(pad);
  const positions = new Int32Array(3 * batch * length);
  for (const [b, sequence] of sequences.entries()) {
    const n = sequence.ids.length;
    tokens.set(sequence.ids, b * length);
    for (let axis = 0; axis < 3; axis++) {
      const at = (axis * batch + b) * length;
      positions.set(sequence.positions.subarray(axis * n, (axis + 1) * n), at);
      // Padding counts on, so that rows with equal prompts have equal positions and share one rotary table.
      for (let t = n; t < length; t++) positions[at + t] = positions[at + t - 1]! + 1;
    }
  }
  const images = sequences.flatMap((sequence) => sequence.images);
  const branched = sequences.some(({ parents }) => parents !== undefined);
  const parents = branched ? new Int32Array(batch * length).fill(-1) : undefined;
  for (const [b, { ids, parents: own }] of branched ? sequences.entries() : [])
    parents!.set(own ?? ids.map((_, t) => t - 1), b * length);
  return { tokens, batch, length, positions, lengths, images, parents };
}

/** Batch of which only the hidden state after the last token of each sequence is wanted. */
export function promptBatch(
  sequences: readonly Sequence[],
  pad: number,
): Batch & { readonly rows: Int32Array } {
  const batch = collate(sequences, pad);
  return { ...batch, rows: batch.lengths.map((length, b) => b * batch.length + length - 1) };
}
