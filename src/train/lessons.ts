/** What an update learns from: sampled responses with their advantages, in pieces that fit a forward pass. */
import type { EncodedPrompt } from '../policy/batch.ts';
import type { Sampled } from '../policy/generate.ts';
import { TOKENS_AT_ONCE } from './pieces.ts';
import { pieces, responseLogProbs, type Scorer } from './response-states.ts';

/** Responses to one prompt that teach, with what the loss needs of them. */
export interface Lesson {
  /** Number of its prompt in the step, over all ranks. */
  readonly index: number;
  readonly prompt: EncodedPrompt;
  readonly responses: readonly Sampled[]; // [G], or fewer of a group too long for one forward pass
  readonly advantage: readonly number[]; // [G]
  /** Log-probabilities of the reference, and of the policy before the step's updates; null where they are not needed. */
  readonly reference: Float32Array | null;
  readonly before: Float32Array | null;
}

/** A lesson whose responses exceed the token budget, as several of the same prompt; losses are sums over responses. */
export function divided<T extends Pick<Lesson, 'prompt' | 'responses' | 'advantage'>>(
  lesson: T,
  budget: number = TOKENS_AT_ONCE,
): T[] {
  const longest = lesson.responses.reduce((most, { ids }) => Math.max(most, ids.length), 1);
  const fit = Math.max(1, Math.floor((budget - lesson.prompt.ids.length) / longest));
  const parts = Math.ceil(lesson.responses.length / fit);
  if (parts === 1) return [lesson];
  const size = Math.ceil(lesson.responses.length / parts);
  return Array.from({ length: Math.ceil(lesson.responses.length / size) }, (_, part) => ({
    ...lesson,
    responses: lesson.responses.slice(part * size, (part + 1) * size),
    advantage: lesson.advantage.slice(part * size, (part + 1) * size),
  }));
}

/** Log-probabilities of each lesson's tokens under a policy, without gradient. */
export function logProbsOf(
  policy: Scorer,
  lessons: readonly Pick<Lesson, 'prompt' | 'responses'>[],
  options: { readonly temperature: number; readonly tokens?: number },
): Float32Array[] {
  const found = new Map<Pick<Lesson, 'prompt' | 'responses'>, Float32Array>();
  for (const piece of pieces(lessons, options.tokens)) {
    const all = responseLogProbs(
      policy,
      piece.map(({ prompt }) => prompt),
      piece.flatMap(({ responses }) => responses.map(({ ids }) => ids)),
      options.temperature,
    );
    let at = 0;
    for (const lesson of piece) {
      const count = lesson.responses.reduce((sum, { ids }) => sum + ids.length, 0);
      found.set(lesson, all.slice(at, at + count));
      at += count;
    }
  }
  return lessons.map((lesson) => found.get(lesson)!);
}

export function concatenated(parts: readonly Float32Array[]): Float32Array {
  const out = new Float32Array(parts.reduce((sum, part) => sum + part.length, 0));
  let at = 0;
  for (const part of parts) {
    out.set(part, at);
    at += part.length;
  }
  return out;
}
