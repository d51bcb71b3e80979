/**
 * Code runtime (CaveAgent, github acodercat/cave-agent): a policy writes one block of JavaScript per turn; its variables stay, what it prints
 * comes back, and a reward can read the final state.
 *
 * Guarantee. Code runs in QuickJS, compiled to WebAssembly, with an engine and a memory of its own per sandbox, in a Worker. It reaches no
 * object of Node.js, no file, no network, no clock and no other sandbox: the one function it gets from outside takes and returns text,
 * through which `SANDBOX_FUNCTIONS` are called, with checked arguments. Limits: 64 MiB of memory, about a thousand nested calls, 100 million
 * loops and calls a block, 5 000 printed characters, 1 MiB per variable read back. They end a block at the same place on every machine.
 * A built-in operation can outlast the step limit; then the time limit ends the Worker. A block that uses up the memory, or breaks its engine
 * or its Worker, is undone: the sandbox, and every other one of the Worker, is made again from its earlier blocks.
 *
 * Not promised: that a defect of QuickJS cannot be used to read or write the engine's own WebAssembly memory, which holds the series alone.
 */
import { workerUrl } from '../ground/paths.ts';
import { type Limits, Stopped, WorkerThread } from '../ground/worker-thread.ts';
import { pelt } from '../series/change-points.ts';
import { stl } from '../series/decompose.ts';
import { distanceProfile, matrixProfile, topDiscords } from '../series/matrix-profile.ts';
import { bridge } from '../series/missing.ts';
import { hampelScore, outlierIndices, runningMedians } from '../series/robust.ts';
import { autocorrelation, dominantPeriod, periodogram } from '../series/spectrum.ts';
import { moments, summarise } from '../series/stats.ts';
import { theilSen } from '../series/trend.ts';

/** Function of `timeseer/series` in the sandbox: it takes a series [N], then whole numbers up to N. */
export interface SeriesFunction {
  /** Names of the numbers, with the least value of each. */
  readonly parameters: Readonly<Record<string, number>>;
  /** Sentence for the prompt, without a full stop. */
  readonly summary: string;
  readonly call: (values: Float64Array, ...numbers: number[]) => unknown;
}

export const SANDBOX_FUNCTIONS = {
  summarise: {
    parameters: {},
    summary: '{ n, mean, std, min, q1, median, q3, max, mad, skew, excessKurtosis }',
    call: summarise,
  },
  dominantPeriod: {
    parameters: {},
    summary: 'number: period of the strongest cycle in samples',
    call: (values) => dominantPeriod(values, moments(values).mean),
  },
  autocorrelation: {
    parameters: { lags: 1 },
    summary: 'number[]: autocorrelations at the lags 0 to lags',
    call: (values, lags) => autocorrelation(values, { lags: lags! }),
  },
  periodogram: {
    parameters: {},
    summary: '{ frequencies, power }: arrays, frequencies in cycles per sample',
    call: (values) => periodogram(values),
  },
  stl: {
    parameters: { period: 2 },
    summary: '{ trend, seasonal, residual }: arrays of the decomposition',
    call: (values, period) => {
      const { trend, seasonal, residual } = stl(values, { period: period! });
      return { trend, seasonal, residual };
    },
  },
  pelt: {
    parameters: {},
    summary: '{ changes, means }: samples at which the level changes, and the levels between',
    call: (values) => {
      const { changes, means } = pelt(values);
      return { changes, means };
    },
  },
  outlierIndices: {
    parameters: {},
    summary: '{ byZ, byFence, byModifiedZ }: indices of outliers by three rules',
    call: outlierIndices,
  },
  hampelScore: {
    parameters: { half: 1 },
    summary:
      'number[]: deviation of each sample from the median of half samples on each side, in scaled MADs',
    call: (values, half) => hampelScore(values, half),
  },
  runningMedians: {
    parameters: { window: 1 },
    summary: 'number[]: medians of all windows',
    call: (values, window) => runningMedians(values, window!),
  },
  theilSen: {
    parameters: {},
    summary: '{ slope, intercept, low, high } of the robust line',
    call: (values) => theilSen(values),
  },
  topDiscords: {
    parameters: { window: 4, count: 1 },
    summary: '[{ start, distance }, …]: the windows that are least like any other',
    call: (values, window, count) => topDiscords(matrixProfile(values, { window: window! }), count!),
  },
  distanceProfile: {
    parameters: { window: 4, start: 0 },
    summary: 'number[]: z-normalised distance of each window to the one at start',
    call: (values, window, start) =>
      distanceProfile(values, window!, Math.min(start!, values.length - window!)),
  },
  bridge: {
    parameters: {},
    summary: 'number[]: the series with missing samples interpolated, which the other functions need',
    call: (values) => bridge(values).values,
  },
} as const satisfies Readonly<Record<string, SeriesFunction>>;

/** Printed characters above which the output of a block is refused. */
export const MOST_OUTPUT = 5000;
/** Characters of a block. */
const MOST_CODE = 20_000;
interface SandboxLimits extends Limits {
  /** Most loops and calls of a block. */
  readonly steps: number;
}

/** The steps end a block long before its time does, unless a single operation takes as long. */
const LIMITS: SandboxLimits = { seconds: 20, memory: 1024, steps: 1e8 };
/** MiB of the Worker's stack, for the recursion of QuickJS. */
const STACK = 16;
const HEAP = 1024;

/** Request to the Worker. `blocks` were run before: they are run again if the Worker does not hold the sandbox. */
export interface SandboxRequest {
  readonly id: number;
  readonly series: Float64Array;
  readonly blocks: readonly string[];
  readonly steps: number;
  readonly task: { readonly code: string } | { readonly read: string };
}

export interface SandboxReply {
  readonly output: string;
  /** Number of characters printed. */
  readonly printed: number;
  readonly problem: string | null;
  /** True if the sandbox is as it was before. */
  readonly undone: boolean;
}

type Thread = WorkerThread<SandboxRequest, SandboxReply>;
let thread: Thread | null = null;
/** Sandboxes that the Worker holds, the last used last. */
let held: readonly number[] = [];
/** Number of them; the others are made again from their blocks. */
export const MOST_HELD = 8;
let sandboxes = 0;

function openThread(): Thread {
  if (thread === null || thread.ended) {
    held = [];
    thread = new WorkerThread({
      program: workerUrl('./sandbox-worker', import.meta.url),
      ...{ heap: HEAP, stack: STACK },
    });
  }
  return thread;
}

/** Result of a block. */
export interface CodeResult {
  /** Printed text, at most `MOST_OUTPUT` characters; empty where it was refused. */
  readonly output: string;
  /** Reason why the block failed, or why its output was refused; null for neither. */
  readonly problem: string | null;
}

/** Persistent interpreter with a series. Deterministic: `blocks` are its whole state, from which another one can go on. */
export class Sandbox {
  readonly #id = ++sandboxes;
  readonly #series: Float64Array;
  readonly #blocks: string[];
  readonly #limits: SandboxLimits;

  constructor(series: Float64Array, blocks: readonly string[] = [], limits: SandboxLimits = LIMITS) {
    this.#series = series;
    this.#blocks = [...blocks];
    this.#limits = limits;
  }

  /** Blocks run so far, without those that were undone. */
  get blocks(): readonly string[] {
    return this.#blocks;
  }

  /** Runs a block; waits for its end. Nothing that it does is thrown. */
  run(code: string): CodeResult {
    if (code.length > MOST_CODE)
      return { output: '', problem: `the block has ${code.length} characters, at most ${MOST_CODE} are run` };
    const { output, printed, problem, undone } = this.#ask({ code });
    if (undone) return { output: '', problem: `${problem}; the block was undone` };
    this.#blocks.push(code);
    if (printed <= MOST_OUTPUT) return { output, problem };
    const refused = `it printed ${printed} characters, more than ${MOST_OUTPUT}: print less`;
    return { output: '', problem: problem === null ? refused : `${problem}; ${refused}` };
  }

  /** Reads a global variable as a plain value; undefined for one that is absent, no JSON, or too large. Runs the code of its getters. */
  read(name: string): unknown {
    const { output } = this.#ask({ read: name });
    return output === '' ? undefined : (JSON.parse(output) as unknown);
  }

  #ask(task: SandboxRequest['task']): SandboxReply {
    const { seconds, memory, steps } = this.#limits;
    const request = { id: this.#id, series: this.#series, blocks: this.#blocks, steps, task };
    try {
      const worker = openThread();
      const again = held.includes(this.#id) ? 0 : this.#blocks.length;
      const reply = worker.callSync(request, { seconds: seconds * (1 + again), memory });
      const others = held.filter((id) => id !== this.#id);
      held = reply.undone ? others : [...others, this.#id].slice(-MOST_HELD);
      return reply;
    } catch (error) {
      const problem =
        error instanceof Stopped ? error.message : `the runtime ended: ${(error as Error).message}`;
      return { output: '', printed: 0, problem, undone: true };
    }
  }
}

/** Prompt for a policy that writes code about a series of `length` samples, in at most `turns` responses. */
export function codePrompt(length: number, turns: number): string {
  const functions = Object.entries<SeriesFunction>(SANDBOX_FUNCTIONS).map(
    ([name, { parameters, summary }]) =>
      `- ${[`${name}(values`, ...Object.keys(parameters)].join(', ')}): ${summary}`,
  );
  return [
    `Before you answer you can run JavaScript, in at most ${turns} responses, the answer included. Write one block a turn, between`,
    `\`\`\`js and \`\`\`; what it prints with print(…) comes back, at most ${MOST_OUTPUT} characters. Variables declared at the start of a line`,
    'stay. There is no network, no file, no clock, and nothing to await. A turn without a block is your final answer; its intervals may be the',
    'variable answer, [[start, end], …].',
    `- series: array of ${length} numbers; NaN where a sample is missing`,
    ...functions,
  ].join('\n');
}

/** Finds the block of a response: null without one, which is the final answer; a problem for several, or an unfinished one. */
export function codeOf(response: string): { readonly code: string | null; readonly problem: string | null } {
  const opened = [...response.matchAll(/```(?:js|javascript)\b/giu)].length;
  if (opened === 0) return { code: null, problem: null };
  if (opened > 1) return { code: null, problem: 'one block a turn' };
  const code = /```(?:js|javascript)[^\S\n]*\n([\s\S]*?)```/iu.exec(response)?.[1];
  return code === undefined
    ? { code: null, problem: 'unfinished block: close it with ```' }
    : { code, problem: null };
}

/** Formats a result as the next turn of the user. */
export function executionOutput({ output, problem }: CodeResult): string {
  const lines = [output.trimEnd(), problem ?? ''].filter((line) => line !== '');
  // Neither the end of the output, nor a special token of a chat, nor what is no text.
  const shown = lines
    .join('\n')
    .replace(/<(?=[/|])/gu, '‹')
    .replace(/[^\P{C}\n\t]/gu, '\ufffd');
  return `<execution_output>\n${shown === '' ? '(nothing printed)' : shown}\n</execution_output>`;
}
