/** What training needs to know of a task, and how an example of it becomes an encoded prompt. */

import type { Example, Picture, Score } from '../ground/types.ts';
import type { EncodedPrompt } from '../policy/batch.ts';
import type { Message } from '../policy/chat.ts';
import type { Prompting } from '../policy/policy.ts';

/** The caller composes it; training imports no data set and no reward. */
export interface Task {
  readonly name: string;
  /** Weights of the parts that scores may have, by name. */
  readonly weights: Readonly<Record<string, number>>;
  /** Training example number `index`: a pure function, so that runs repeat and resume. */
  example(index: number): Example;
  /** What the policy sees of it; null where it reads numbers in the instruction instead. */
  picture(example: Example): Picture | null | Promise<Picture | null>;
  /** What the policy is asked; must not depend on the labels. */
  instruction(example: Example): string;
  /** The expert trace with the gold answer: target of supervision, anchor of the transport. Training split only. */
  trace(example: Example): string;
  /** What a teacher is asked that is shown the expert trace (`trace`) beside the question. Training split only. */
  teacherInstruction(example: Example, trace: string): string;
  /** Reasoning of the same style that is the same for every example: it depends on no series and no label, and answers nothing. */
  readonly genericTrace: string;
  /** Where the reasoning of a response or a trace stands, in characters; null where it is not found. */
  reasoning(text: string): readonly [start: number, end: number] | null;
  /** Null: no part of the reward applies to the response, which therefore has none. May take its time. */
  score(response: string, example: Example): Score | null | Promise<Score | null>;
  /**
   * Whether scores come from elsewhere and take their time: responses are then scored while others are sampled. Such scores may have
   * parts that `weights` does not name, which are logged alone. False when absent.
   */
  readonly hosted?: boolean;
  /** How much of the series the response and the gold answer mark; null where answers mark nothing, or it cannot be read. */
  marked(response: string, example: Example): MarkedShare | null;
}

/** Shares, in [0, 1], of the points of a series, or of its channels where channels are what answers mark. */
export interface MarkedShare {
  readonly predicted: number;
  readonly gold: number;
}

/** A solved example that stands before the question. */
export interface Shot {
  readonly picture: Picture | null;
  readonly instruction: string;
  readonly response: string;
}

const CACHE_LIMIT = 256;

/** Encodes prompts of one policy; few instructions recur over and over, so their chat text is kept. */
export class PromptEncoder {
  readonly #policy: Prompting;
  readonly #texts = new Map<string, string>();

  constructor(policy: Prompting) {
    this.#policy = policy;
  }

  /**
   * One user turn: the picture, then the instruction; the instruction alone where there is no picture. Before it each shot as a turn
   * of the same form with its response.
   */
  encode(picture: Picture | null, instruction: string, shots: readonly Shot[] = []): EncodedPrompt {
    const { chat } = this.#policy;
    const words = { type: 'text', text: instruction } as const;
    if (shots.length > 0) {
      const asked = [...shots, { picture, instruction }];
      const messages = asked.flatMap((turn, i): Message[] => {
        const text = { type: 'text', text: turn.instruction } as const;
        const content = turn.picture === null ? [text] : [{ type: 'image' } as const, text];
        const answered = shots[i];
        const user: Message = { role: 'user', content };
        return answered === undefined ? [user] : [user, { role: 'assistant', content: answered.response }];
      });
      const pictures = asked.flatMap((turn) => turn.picture ?? []);
      return this.#policy.encodePrompt(chat.render(messages), pictures);
    }
    // An instruction without a picture holds the numbers of one series, and does not recur.
    if (picture === null) {
      return this.#policy.encodePrompt(chat.render([{ role: 'user', content: [words] }]), []);
    }
    let text = this.#texts.get(instruction);
    if (text === undefined) {
      text = chat.render([{ role: 'user', content: [{ type: 'image' }, words] }]);
      if (this.#texts.size >= CACHE_LIMIT) this.#texts.clear();
      this.#texts.set(instruction, text);
    }
    return this.#policy.encodePrompt(text, [picture]);
  }
}
