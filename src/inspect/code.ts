/**
 * Inspection by code (CaveAgent): each turn the policy writes one block of JavaScript, which runs in a sandbox that holds the series; a
 * response without a block is the answer. The state is the list of blocks: variables are a function of it.
 *
 * The final state can be the answer: where the last response names no intervals and there is a variable `answer`, that is taken.
 */
import type { Example } from '../ground/types.ts';
import {
  Inspection,
  type InspectionOptions,
  type InspectionState,
  type Transition,
  withThought,
} from './environment.ts';
import { type CodeResult, codeOf, executionOutput, MOST_OUTPUT, Sandbox } from './sandbox.ts';

/** Sandboxes that are kept for episodes that go on; others are made again from their blocks. */
const HELD = 64;
const NO_TURN: CodeResult = { output: '', problem: 'no turn left' };

/** Outputs that a prompt shows; older ones are left out, as in CaveAgent. */
const MOST_SHOWN = 6;
const LEFT_OUT = executionOutput({ output: '(no longer shown)', problem: null });

/** Replaces the outputs of earlier turns but the last ones. */
export const withoutOldOutputs = <Turn extends { readonly instruction: string }>(
  turns: readonly Turn[],
): readonly Turn[] =>
  turns.map((turn, t) =>
    t + MOST_SHOWN <= turns.length && turn.instruction.startsWith('<execution_output>')
      ? { ...turn, instruction: LEFT_OUT }
      : turn,
  );

export class CodeInspection extends Inspection {
  readonly #series: Float64Array;
  readonly #sandboxes = new Map<string, Sandbox>();

  /** @throws ConfigError for a series of several channels */
  constructor(
    example: Pick<Example, 'id' | 'channels'>,
    options: Omit<InspectionOptions, 'tools' | 'frame' | 'memory'>,
  ) {
    super(example, { ...options, tools: {}, frame: 'series', memory: 'turns' });
    this.#series = example.channels[0]!;
  }

  override get longestCall(): string {
    return `\`\`\`js\nprint('7 '.repeat(${MOST_OUTPUT / 2 - 1}))\n\`\`\``;
  }

  override step(state: InspectionState, response: string): Transition | Promise<Transition> {
    const { code, problem } = codeOf(response);
    if (state.answer !== null || (code === null && problem === null)) {
      return super.step(state, this.#withVariable(state, response));
    }
    const noted = withThought(state, response);
    if (problem !== null) return this.#next(noted, state.seen, { output: '', problem });
    if (state.turn + 1 >= this.turns) return this.#next(noted, state.seen, NO_TURN);
    const sandbox = this.#take(state.seen);
    const result = sandbox.run(code!);
    const { blocks } = sandbox;
    this.#sandboxes.set(JSON.stringify(blocks), sandbox);
    for (const oldest of [...this.#sandboxes.keys()].slice(0, -HELD)) this.#sandboxes.delete(oldest);
    return this.#next(noted, [...blocks], result);
  }

  #next(state: InspectionState, seen: readonly string[], result: CodeResult): Transition {
    const turn = state.turn + 1;
    const over = turn >= this.turns;
    const failures = state.failures + (result.problem === null ? 0 : 1);
    const text = `${executionOutput(result)}\n${this.turns - turn} left`;
    return {
      state: { ...state, seen, turn, failures, answer: over ? '' : null },
      observation: over ? null : { text, drawing: null },
      problem: result.problem,
    };
  }

  /** Returns the sandbox of some blocks, which the caller changes. */
  #take(blocks: readonly string[]): Sandbox {
    const key = JSON.stringify(blocks);
    const sandbox = this.#sandboxes.get(key) ?? new Sandbox(this.#series, blocks);
    this.#sandboxes.delete(key);
    return sandbox;
  }

  /** Adds the variable `answer` to a response without intervals: ahead of its class, as the format has it. */
  #withVariable({ seen }: InspectionState, response: string): string {
    if (seen.length === 0 || /<answer>/iu.test(response)) return response;
    const sandbox = this.#take(seen);
    const value = sandbox.read('answer');
    this.#sandboxes.set(JSON.stringify(seen), sandbox);
    const end = response.search(/<class>[^<]*<\/class>\s*$/iu);
    const at = end < 0 ? response.length : end;
    return value === undefined
      ? response
      : `${response.slice(0, at)}<answer>${JSON.stringify(value)}</answer>${response.slice(at)}`;
  }
}
