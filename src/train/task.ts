/** The task as training sees it, and the encoding of its examples as prompts. */
import { CheckpointError } from '../ground/errors.ts';
import type { Random } from '../ground/random.ts';
import type { Counterfactual, Example, Picture, Score } from '../ground/types.ts';
import type { Inspection } from '../inspect/environment.ts';
import type { EncodedPrompt } from '../policy/batch.ts';
import type { Message } from '../policy/chat.ts';
import type { Prompting } from '../policy/policy.ts';

/** Examples with prompts, expert traces and rewards. The caller composes it; training imports no data set and no reward. */
export interface Task {
  readonly name: string;
  /** Weights of the reward parts, by name. */
  readonly weights: Readonly<Record<string, number>>;
  /** Returns training example `index`: a pure function, so that runs repeat and resume. */
  example(index: number): Example;
  /** Draws the plot; null where the instruction holds the series as numbers instead. */
  picture(example: Example): Picture | null | Promise<Picture | null>;
  /** Writes the instruction; it must not depend on the labels. */
  instruction(example: Example): string;
  /** Writes the expert trace with the gold answer: SFT target and transport anchor. Training split only. */
  trace(example: Example): string;
  /** Writes the instruction of a teacher that reads the expert trace beside the question. Training split only. */
  teacherInstruction(example: Example, trace: string): string;
  /** Text in the style of the traces, the same for all examples, without an answer. */
  readonly genericTrace: string;
  /** Finds the reasoning in a response or trace: character range, or null without one. */
  reasoning(text: string): readonly [start: number, end: number] | null;
  /** Scores a response; null where no reward part applies. */
  score(response: string, example: Example): Score | null | Promise<Score | null>;
  /**
   * True for slow scores (Worker, endpoint): responses are scored while others are sampled, and scores may
   * have parts missing in `weights`, which are only logged. Default: false.
   */
  readonly hosted?: boolean;
  /** Checks the reasoning of a response against the series and the expert trace; null without reasoning. Default: not measured. */
  reasoned?(response: string, example: Example): ReasonedResponse | null;
  /** Finds the checkable claims of a response; needed where `rl.timerpo.similarity` is truth. */
  claims?(response: string, example: Example): StatedClaims;
  /** Moves what a response marks in its reasoning and its answer alike; null where it cannot. Needed for `rl.timerpo.counterfactuals`. */
  counterfactual?(response: string, example: Example, random: Random): Counterfactual | null;
  /** Turns of an example that stands in the middle of an episode: earlier ones with their responses, and the last. Absent: one turn. */
  turns?(example: Example): Promise<Turns>;
  /** Environment that rollouts act in, for tasks of several turns. */
  readonly episodes?: Episodes;
  /** Measures the share of the series that response and gold answer mark; null where the answer kind marks nothing, or parsing fails. */
  marked(response: string, example: Example): MarkedShare | null;
}

/** Prompt of several turns. */
export interface Turns {
  readonly shots: readonly Shot[];
  readonly picture: Picture | null;
  readonly instruction: string;
}

export interface Episodes {
  /** Most responses of an episode. */
  readonly turns: number;
  /** Cost of a failed step, subtracted from the reward of the episode. */
  readonly penalty: number;
  /** Total from which an episode is a success. */
  readonly success: number;
  /** Earlier turns as they were, or as one picture. Default: turns. */
  readonly history?: 'turns' | 'optical';
  /** Agent that acts in a state, by its key, where roles are told apart. */
  readonly role: (state: string) => string;
  /** Steps from each state of an example's episodes to success, by its key; null where they are not known. */
  readonly stepsFrom?: (example: Example) => ((state: string) => number) | null;
  /** Opens the inspection of an example; the same one for all episodes from it. */
  open(example: Example): Inspection;
}

/** Claim of a response that the series confirms or refutes, stated plainly and for the first time. */
export interface StatedClaim {
  /** Kind of fact: claims of one group that state the same fact are compared. */
  readonly fact: string;
  /** Place in the response, in characters. */
  readonly span: readonly [start: number, end: number];
  readonly holds: boolean;
  /** Text of the claim as it would be true; null or absent where that is not known. */
  readonly correction?: string | null;
}

export interface StatedClaims {
  readonly claims: readonly StatedClaim[];
  /** Statements of the expert trace that the response lacks, as corrections; an empty span inserts. */
  readonly amendments?: readonly StatedClaim[];
  /** F1 of the facts of the expert trace, with the conclusion (the answer agrees) as one more; null where nothing can be judged. */
  readonly f1: number | null;
}

/** Truth of a reasoning: F1 of its claims, absent where no fact can be compared, and agreement with the answer, null where it concludes none. */
export interface ReasonedResponse {
  readonly f1?: number;
  readonly agreement: boolean | null;
}

/** Shares in [0, 1] of the points of a series, or of its channels where answers name channels. */
export interface MarkedShare {
  readonly predicted: number;
  readonly gold: number;
}

/** Earlier turn with its response: a solved example (few-shot), or a step of the episode. */
export interface Shot {
  readonly picture: Picture | null;
  readonly instruction: string;
  readonly response: string;
}

const CACHE_LIMIT = 256;

/** Returns the text under a key, made when it is first asked for. */
function kept(cache: Map<string, string>, key: string, make: () => string): string {
  const known = cache.get(key);
  if (known !== undefined) return known;
  const text = make();
  if (cache.size >= CACHE_LIMIT) cache.clear();
  cache.set(key, text);
  return text;
}

const userTurn = (hasPicture: boolean, instruction: string): Message => ({
  role: 'user',
  content: [...(hasPicture ? [{ type: 'image' } as const] : []), { type: 'text', text: instruction }],
});

/** Any turns; only the text behind the last response is used. */
const BEFORE: readonly Message[] = [userTurn(false, 'a')];
const RESPONSE = 'b';

/** Encodes prompts for one policy; caches the chat text of recurring instructions. */
export class PromptEncoder {
  readonly #policy: Prompting;
  readonly #texts = new Map<string, string>();
  readonly #tails = new Map<string, string>();

  constructor(policy: Prompting) {
    this.#policy = policy;
  }

  /**
   * Encodes a user turn: picture, if any, then instruction; each shot precedes it as a turn with its
   * response.
   */
  encode(picture: Picture | null, instruction: string, shots: readonly Shot[] = []): EncodedPrompt {
    const { chat } = this.#policy;
    if (shots.length > 0) {
      const turns = [...shots, { picture, instruction }];
      const messages = turns.flatMap((turn, i): Message[] => {
        const user = userTurn(turn.picture !== null, turn.instruction);
        const shot = shots[i];
        return shot === undefined ? [user] : [user, { role: 'assistant', content: shot.response }];
      });
      const pictures = turns.flatMap((turn) => turn.picture ?? []);
      return this.#policy.encodePrompt(chat.render(messages), pictures);
    }
    // An instruction without a picture holds the numbers of one series and does not recur.
    if (picture === null) return this.#policy.encodePrompt(chat.render([userTurn(false, instruction)]), []);
    const text = kept(this.#texts, instruction, () => chat.render([userTurn(true, instruction)]));
    return this.#policy.encodePrompt(text, [picture]);
  }

  /** Encodes a user turn of several pictures. */
  encodePictures(pictures: readonly Picture[], text: string): EncodedPrompt {
    const content = [...pictures.map(() => ({ type: 'image' }) as const), { type: 'text', text } as const];
    return this.#policy.encodePrompt(this.#policy.chat.render([{ role: 'user', content }]), pictures);
  }

  /** Encodes the prompt of an example, with its earlier turns if it has any. */
  async encodeExample(
    task: Pick<Task, 'picture' | 'instruction' | 'turns'>,
    example: Example,
  ): Promise<EncodedPrompt> {
    if (task.turns === undefined) return this.encode(await task.picture(example), task.instruction(example));
    const { picture, instruction, shots } = await task.turns(example);
    return this.encode(picture, instruction, shots);
  }

  /** Encodes the prompts of examples, in order. */
  async encodeExamples(
    task: Pick<Task, 'picture' | 'instruction' | 'turns'>,
    examples: readonly Example[],
  ): Promise<EncodedPrompt[]> {
    const prompts: EncodedPrompt[] = [];
    for (const example of examples) prompts.push(await this.encodeExample(task, example));
    return prompts;
  }

  /**
   * Encodes a further user turn behind a prompt and the tokens of its response, as they were sampled.
   * @throws CheckpointError for a chat template that rewrites earlier turns; DataError beyond the context
   */
  continued(
    previous: EncodedPrompt,
    response: Int32Array,
    { picture, instruction }: Pick<Turns, 'picture' | 'instruction'>,
  ): EncodedPrompt {
    const key = `${picture === null ? '' : 'picture '}${instruction}`;
    const tail = kept(this.#tails, key, () => this.#tailOf(userTurn(picture !== null, instruction)));
    return this.#policy.continuePrompt(previous, response, tail, picture === null ? [] : [picture]);
  }

  #tailOf(turn: Message): string {
    const { chat } = this.#policy;
    const before = chat.render(BEFORE) + RESPONSE;
    const whole = chat.render([...BEFORE, { role: 'assistant', content: RESPONSE }, turn]);
    if (whole.startsWith(before)) return whole.slice(before.length);
    throw new CheckpointError(
      'the chat template writes earlier turns anew, so that no episode can continue; use that of a Qwen2.5-VL checkpoint',
    );
  }
}
