/** The Worker of sandbox.ts: one QuickJS engine per sandbox, each with a WebAssembly memory of its own. */
import quickjs from '@jitl/quickjs-wasmfile-release-sync';
import {
  type CustomizeVariantOptions,
  newQuickJSWASMModuleFromVariant,
  newVariant,
  type QuickJSContext,
  type QuickJSHandle,
  type QuickJSRuntime,
  type QuickJSSyncVariant,
} from 'quickjs-emscripten-core';
import { thrownText } from '../ground/user-code.ts';
import { answerRequests } from '../ground/worker-thread.ts';
import {
  MOST_HELD,
  MOST_OUTPUT,
  SANDBOX_FUNCTIONS,
  type SandboxReply,
  type SandboxRequest,
  type SeriesFunction,
} from './sandbox.ts';

// The part of WebAssembly's types that is used; those of the DOM are not loaded.
declare const WebAssembly: {
  readonly Memory: new (pages: {
    initial: number;
    maximum: number;
  }) => NonNullable<CustomizeVariantOptions['wasmMemory']>;
};

// The package's types are those of its CommonJS build.
const VARIANT = quickjs as unknown as QuickJSSyncVariant;
/** Least and most pages of 64 KiB of an engine's memory, besides the series. QuickJS's own limit does not count bytes in WebAssembly. */
const [LEAST_PAGES, MOST_PAGES] = [256, 1024];
/** Bytes of QuickJS's own stack: about a thousand calls, and far below what ends the Worker's. */
const STACK = 192 << 10;
/** QuickJS interrupts after so many loops and calls: the same code ends at the same place everywhere. */
const STEPS_PER_INTERRUPT = 10_000;
/** Steps of promises in a block. */
const MOST_JOBS = 10_000;
/** Characters of a variable that is read back, as JSON, and of a description of an error. */
const MOST_STATE = 1 << 20;
const MOST_ERROR = 500;

/**
 * Runs in the sandbox before anything else, and keeps what it needs: code that overwrites built-in functions cannot change these. All that
 * passes between the worlds is text. NaN is null in JSON.
 */
const PRELUDE = `(function (call, names, seriesText, mostOutput, mostState, mostError) {
  'use strict';
  const world = globalThis;
  delete world.SharedArrayBuffer;
  const { parse, stringify } = JSON;
  const { isView } = ArrayBuffer;
  const { imul } = Math;
  const [asText, ErrorType, RangeErrorType] = [String, Error, RangeError];
  const arrayOf = Array.from.bind(Array);
  const cut = Function.prototype.call.bind(String.prototype.slice);
  const plain = (_, value) => (isView(value) ? arrayOf(value) : value);
  const missing = (_, value) => (value === null ? NaN : value);
  const show = (value) => {
    if (typeof value === 'object' && value !== null && !(value instanceof ErrorType)) {
      return stringify(value, plain) ?? asText(value);
    }
    return asText(value);
  };
  const print = (...values) => {
    let line = '';
    for (let i = 0; i < values.length; i++) line += (i === 0 ? '' : ' ') + show(values[i]);
    call('print', stringify([cut(line, 0, mostOutput), line.length]));
  };
  world.print = print;
  world.console = { log: print, info: print, warn: print, error: print };
  for (const name of parse(names)) {
    world[name] = (...values) => {
      const { value, error } = parse(call(name, stringify(values, plain)), missing);
      if (error !== undefined) throw new RangeErrorType(error);
      return value;
    };
  }
  world.series = parse(seriesText, missing);
  let seed = 1;
  Math.random = () => {
    seed = (seed + 0x6d2b79f5) | 0;
    let t = imul(seed ^ (seed >>> 15), 1 | seed);
    t = (t + imul(t ^ (t >>> 7), 61 | t)) ^ t;
    return ((t ^ (t >>> 14)) >>> 0) / 4294967296;
  };
  const describe = (error) => {
    try {
      // QuickJS has no memory left for an error: null, or a value of no type.
      if (error === null || typeof error === 'unknown') return 'out of memory, or threw null';
      const isError = typeof error === 'object' && error !== null && 'message' in error;
      const line = isError ? /turn\\.js:(\\d+)/.exec(error.stack)?.[1] : undefined;
      const what = isError ? error.name + ': ' + error.message : 'threw ' + show(error);
      return cut(what + (line === undefined ? '' : ' (line ' + line + ')'), 0, mostError);
    } catch {
      return 'threw a value that cannot be shown';
    }
  };
  const read = (name) => {
    try {
      const text = stringify(world[name], plain);
      return text.length > mostState ? '' : text;
    } catch {
      return '';
    }
  };
  return [describe, read];
})`;

/** Values of a call: a series, then whole numbers. @throws RangeError with the signature */
function argumentsOf(
  name: string,
  { parameters }: SeriesFunction,
  given: unknown,
): [Float64Array, ...number[]] {
  const [values, ...rest] = Array.isArray(given) ? (given as unknown[]) : [];
  const isNumber = (value: unknown): boolean => value === null || typeof value === 'number';
  if (!Array.isArray(values) || values.length === 0 || !values.every(isNumber)) {
    throw new RangeError(`${name}: expected an array of numbers`);
  }
  const numbers = Object.entries(parameters).map(([parameter, least], i) => {
    const value = rest[i];
    if (typeof value === 'number' && Number.isInteger(value) && value >= least && value <= values.length)
      return value;
    throw new RangeError(`${name}: ${parameter}: expected a whole number from ${least} to ${values.length}`);
  });
  return [Float64Array.from(values as (number | null)[], (value) => value ?? Number.NaN), ...numbers];
}

const OUT_OF_MEMORY = /^(?:InternalError: )?out of memory/;

class Engine {
  readonly #runtime: QuickJSRuntime;
  readonly #vm: QuickJSContext;
  readonly #describe: QuickJSHandle;
  readonly #read: QuickJSHandle;
  #interrupts = 0;
  /** Interrupts that end a block. */
  readonly #most: number;
  #output = '';
  #printed = 0;
  /** Lines printed beyond the limit since the last interrupt. Each leaves the sandbox, which takes far longer than a step, and counts as one. */
  #refused = 0;

  static async open({ series, steps }: SandboxRequest): Promise<Engine> {
    // 160 bytes for a sample: its text on the way in, and a few numbers.
    const pages = { initial: LEAST_PAGES, maximum: MOST_PAGES + Math.ceil(series.length / 400) };
    const variant = newVariant(VARIANT, { wasmMemory: new WebAssembly.Memory(pages) });
    return new Engine((await newQuickJSWASMModuleFromVariant(variant)).newRuntime(), series, steps);
  }

  private constructor(runtime: QuickJSRuntime, series: Float64Array, steps: number) {
    this.#runtime = runtime;
    this.#most = steps / STEPS_PER_INTERRUPT;
    runtime.setMaxStackSize(STACK);
    runtime.setInterruptHandler(() => {
      this.#interrupts += 1 + this.#refused;
      this.#refused = 0;
      return this.#interrupts > this.#most;
    });
    // Without Date: the same code gives the same values at any time.
    this.#vm = runtime.newContext({
      intrinsics: {
        ...{ BaseObjects: true, Eval: true, StringNormalize: true, RegExp: true, JSON: true, Proxy: true },
        ...{ MapSet: true, TypedArrays: true, Promise: true, BigInt: true },
      },
    });
    const vm = this.#vm;
    const call = vm.newFunction('call', (name, text) =>
      vm.newString(this.#called(vm.getString(name), vm.getString(text))),
    );
    const helpers = vm.unwrapResult(
      vm.callFunction(
        vm.unwrapResult(vm.evalCode(PRELUDE, 'prelude.js')),
        vm.undefined,
        ...[call, vm.newString(JSON.stringify(Object.keys(SANDBOX_FUNCTIONS)))],
        ...[vm.newString(JSON.stringify(Array.from(series))), vm.newNumber(MOST_OUTPUT)],
        ...[vm.newNumber(MOST_STATE), vm.newNumber(MOST_ERROR)],
      ),
    );
    this.#describe = vm.getProp(helpers, 0);
    this.#read = vm.getProp(helpers, 1);
  }

  /** Runs a block. @throws RangeError where no memory is left, and what breaks the engine: it is of no more use then */
  run(code: string): Omit<SandboxReply, 'undone'> {
    [this.#interrupts, this.#output, this.#printed, this.#refused] = [0, '', 0, 0];
    // A constant of a block that failed could never be set again, nor be declared by another one.
    const source = code.replace(/^(?:const|let)(?=\s+[\w$[{])/gmu, 'var');
    let problem = this.#evaluate(source);
    if (this.#interrupts > this.#most) problem = 'stopped after too many steps: an endless loop?';
    else if (problem !== null && OUT_OF_MEMORY.test(problem)) throw new RangeError(problem);
    return { output: this.#output, printed: this.#printed, problem };
  }

  /** Value of a global variable as JSON; empty for one that has none. */
  read(name: string): string {
    this.#interrupts = 0;
    return this.#text(this.#read, this.#vm.newString(name), MOST_STATE);
  }

  #evaluate(source: string): string | null {
    const vm = this.#vm;
    const result = vm.evalCode(source, 'turn.js', { type: 'global' });
    if (result.error !== undefined) return this.#reason(result.error);
    const jobs = this.#runtime.executePendingJobs(MOST_JOBS);
    if (jobs.error !== undefined) return this.#reason(jobs.error);
    const state = vm.getPromiseState(result.value);
    if (state.type === 'pending') return 'the promise at the end never settles: nothing is awaited here';
    const problem = state.type === 'rejected' ? this.#reason(state.error) : null;
    result.value.dispose();
    return problem;
  }

  #reason(error: QuickJSHandle): string {
    return this.#text(this.#describe, error, MOST_ERROR) || 'out of memory or stack';
  }

  /** Calls a helper, which returns a string, and disposes of its argument. */
  #text(helper: QuickJSHandle, argument: QuickJSHandle, most: number): string {
    const vm = this.#vm;
    const result = vm.callFunction(helper, vm.undefined, argument);
    argument.dispose();
    if (result.error !== undefined) return '';
    const text = vm.typeof(result.value) === 'string' ? vm.getString(result.value).slice(0, most) : '';
    result.value.dispose();
    return text;
  }

  /** The one function of the host: takes and returns JSON. */
  #called(name: string, text: string): string {
    try {
      const values = JSON.parse(text) as unknown;
      if (name === 'print') return this.#print(values as unknown[]);
      if (!Object.hasOwn(SANDBOX_FUNCTIONS, name)) throw new RangeError(`no function ${name}`);
      const entry: SeriesFunction = SANDBOX_FUNCTIONS[name as keyof typeof SANDBOX_FUNCTIONS];
      const value = entry.call(...argumentsOf(name, entry, values));
      return JSON.stringify({ value }, (_, item: unknown) =>
        ArrayBuffer.isView(item) ? Array.from(item as Float64Array) : item,
      );
    } catch (error) {
      return JSON.stringify({ error: error instanceof Error ? error.message : thrownText('', error) });
    }
  }

  /** Code can change how its own world writes JSON: nothing of what comes is trusted. */
  #print([line, length]: readonly unknown[]): string {
    const text = String(line).slice(0, MOST_OUTPUT);
    if (this.#printed <= MOST_OUTPUT) this.#output += `${text}\n`;
    else this.#refused++;
    this.#printed += Math.max(text.length, Number(length) || 0) + 1;
    return '{}';
  }
}

const engines = new Map<number, Engine>();

/** Returns the engine of a sandbox, with the blocks run that it had. */
async function engineOf(request: SandboxRequest): Promise<Engine> {
  const { id, blocks } = request;
  let engine = engines.get(id);
  if (engine === undefined) {
    engine = await Engine.open(request);
    for (const block of blocks) engine.run(block);
  }
  // The last one used is the last of the map.
  engines.delete(id);
  engines.set(id, engine);
  for (const oldest of [...engines.keys()].slice(0, -MOST_HELD)) engines.delete(oldest);
  return engine;
}

answerRequests<SandboxRequest, SandboxReply>(async (request) => {
  const { id, task } = request;
  try {
    const engine = await engineOf(request);
    const reply =
      'code' in task ? engine.run(task.code) : { output: engine.read(task.read), printed: 0, problem: null };
    return { reply: { ...reply, undone: false } };
  } catch (error) {
    engines.delete(id);
    const problem = error instanceof Error ? error.message : String(error);
    return { reply: { output: '', printed: 0, problem, undone: true } };
  }
});
