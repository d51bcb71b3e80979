/** Users' tools: definition, the thread that they run in, and checks of what they return. */
import { ConfigError } from '../ground/errors.ts';
import { checkKeys, show } from '../ground/json-record.ts';
import { type ModuleAdapter, ModuleHost } from '../ground/module-host.ts';
import type { Interval } from '../ground/types.ts';
import { readExport, thrownText } from '../ground/user-code.ts';
import type { ModuleAddress } from '../ground/user-module.ts';
import type { Tool, Toolbox } from './tools.ts';

/** A call that a tool refuses, with the reason as the policy is told it. */
export class ToolFailure extends Error {}

/** @throws ToolFailure */
export function refuse(problem: string): never {
  throw new ToolFailure(problem);
}

/** Outcome of a user's tool: a text, a line that is drawn, or both. */
export type ToolOutcome =
  | string
  | { readonly text?: string; readonly line?: readonly number[] | Float64Array };

/** Series and window that a user's tool is called with. */
export interface ToolRequest {
  readonly values: Float64Array;
  readonly window: Interval;
  readonly words: string;
}

export interface ToolDefinition {
  /** Word that calls it: lower-case letters. */
  readonly name: string;
  /** Sentence about its result; part of the prompt of large policies. */
  readonly summary: string;
  /** Call as the policy writes it: the name, then words such as WIDTH. Default: the name. */
  readonly usage?: string;
  /** Time limit of a call in seconds. Default: 10. */
  readonly timeLimit?: number;
  readonly run: (request: ToolRequest) => ToolOutcome | Promise<ToolOutcome>;
}

const TIME_LIMIT = 10;
/** Most characters of a text, and points of a line, that a user's tool may return. */
const MOST_TEXT = 2000;
const MOST_POINTS = 1_000_000;
const NAME = /^[a-z]{1,24}$/u;

/**
 * Declares a tool, for `inspect.tools` of a recipe. Write it as the default export of a module:
 *
 *     import { defineTool } from 'timeseer';
 *
 *     export default defineTool({
 *       name: 'range',
 *       summary: 'the least and the largest value of the window shown',
 *       run: ({ values, window: [start, end] }) => {
 *         const shown = values.slice(start, end);
 *         return `from ${Math.min(...shown)} to ${Math.max(...shown)}`;
 *       },
 *     });
 *
 * @throws ConfigError for a wrong or unknown key
 */
export function defineTool(definition: ToolDefinition): ToolDefinition {
  const { name, summary, usage, timeLimit, run } = (definition ?? {}) as Partial<ToolDefinition>;
  const fail = (problem: string): never => {
    throw new ConfigError(`defineTool${typeof name === 'string' ? ` ${name}` : ''}: ${problem}`);
  };
  if (typeof name !== 'string' || !NAME.test(name)) {
    fail(`name: got ${show(name)}, expected a word of lower-case letters`);
  }
  if (typeof summary !== 'string' || summary.trim() === '') fail('summary: expected a sentence');
  const isCall = (text: string): boolean =>
    text === name || (text.startsWith(`${name} `) && !/[<>\n]/u.test(text));
  if (usage !== undefined && !(typeof usage === 'string' && isCall(usage))) {
    fail(`usage: got ${show(usage)}, expected its name and words, as in ${name} WIDTH`);
  }
  if (timeLimit !== undefined && !(timeLimit > 0 && timeLimit <= 3600)) {
    fail(`timeLimit: got ${show(timeLimit)}, expected seconds, above 0 and at most an hour`);
  }
  if (typeof run !== 'function') fail('run: expected a function');
  checkKeys(`defineTool ${name}`, definition, ['name', 'summary', 'usage', 'timeLimit', 'run']);
  return definition;
}

interface HostedTool {
  readonly name: string;
  readonly summary: string;
  readonly usage: string;
  readonly timeLimit: number;
}

/** Checks the outcome of a user's tool. @throws ToolFailure naming what is wrong */
function checkedOutcome(outcome: unknown): { readonly text?: string; readonly line?: Float64Array } {
  if (typeof outcome === 'string') return checkedOutcome({ text: outcome });
  const { text, line } = (outcome ?? {}) as { readonly text?: unknown; readonly line?: unknown };
  if (text === undefined && line === undefined) refuse('returned neither text nor line');
  if (text !== undefined && typeof text !== 'string') refuse('returned a text that is not a string');
  if ((text as string | undefined)?.includes('<') === true) refuse('returned a text with a tag');
  if (((text as string | undefined)?.length ?? 0) > MOST_TEXT)
    refuse(`returned more than ${MOST_TEXT} characters`);
  if (line === undefined) return { text: text as string };
  if (!Array.isArray(line) && !(line instanceof Float64Array))
    refuse('returned a line that is not an array of numbers');
  const points = line as ArrayLike<number>;
  if (points.length < 2 || points.length > MOST_POINTS) refuse(`returned a line of ${points.length} points`);
  const numbers = Float64Array.from(points);
  if (!numbers.every(Number.isFinite)) refuse('returned a line with a value that is not a finite number');
  return { ...(text === undefined ? {} : { text: text as string }), line: numbers };
}

type HostedOutcome = { readonly text?: string; readonly line?: Float64Array; readonly failure?: string };

export const adapter: ModuleAdapter<
  readonly HostedTool[],
  ToolRequest & { readonly tool: number },
  HostedOutcome
> = {
  wanted: 'a tool made with defineTool',
  open(modules) {
    const tools = modules.map(({ value, file }) =>
      readExport(file, 'tool', () => defineTool(value as ToolDefinition)),
    );
    return {
      info: tools.map(({ name, summary, usage = name, timeLimit = TIME_LIMIT }) => ({
        ...{ name, summary, usage, timeLimit },
      })),
      async answer({ tool, ...request }, { beat }) {
        beat();
        const { run, timeLimit = TIME_LIMIT } = tools[tool]!;
        let timer: NodeJS.Timeout | undefined;
        const late = new Promise<never>((_, reject) => {
          const fail = (): void => reject(new ToolFailure(`returned nothing within ${timeLimit} s`));
          timer = setTimeout(fail, 1000 * timeLimit);
        });
        try {
          return { reply: checkedOutcome(await Promise.race([run(request), late])) };
        } catch (cause) {
          const failure =
            cause instanceof ToolFailure ? cause.message : thrownText(modules[tool]!.file, cause);
          return { reply: { failure } };
        } finally {
          clearTimeout(timer);
        }
      },
    };
  },
};

/** Runs users' tools in a thread of their own. @throws ConfigError for a module that cannot be loaded, or exports no tool */
export async function hostTools(modules: readonly ModuleAddress[]): Promise<Toolbox> {
  const host = await ModuleHost.open<
    readonly HostedTool[],
    ToolRequest & { readonly tool: number },
    HostedOutcome
  >({
    ...{ modules, adapter: import.meta.url },
    timeLimit: (tools) => Math.max(...tools.map(({ timeLimit }) => timeLimit)),
    failure: (message) => new ToolFailure(message),
  });
  const own = host.info.map(({ name, summary, usage }, tool): [string, Tool] => [
    name,
    {
      ...{ label: name, summary, usage },
      async run({ values, window, words }) {
        const { failure, text, line } = await host.call({ tool, values, window, words });
        if (failure !== undefined) refuse(failure);
        return {
          ...(text === undefined ? {} : { text }),
          ...(line === undefined ? {} : { lines: { names: [name], lines: [line] } }),
        };
      },
    },
  ]);
  return { tools: Object.fromEntries(own), close: () => host.close() };
}
