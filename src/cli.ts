#!/usr/bin/env node
/**
 * The command line: the only place that composes everything. A command's module is loaded when it is named, so
 * that help is quick. Failures become one line on stderr and an exit code: 1 for an error, 2 for wrong usage or
 * configuration, 130 after an interruption, 129 after its terminal was closed.
 */
import { existsSync, realpathSync } from 'node:fs';
import { fileURLToPath } from 'node:url';
import type { Argv, CommandModule } from 'yargs';
import { ConfigError, closest, suggestion, TimeseerError } from './ground/errors.ts';
import { STANDARD_INPUT, systemError } from './ground/files.ts';
import { endAsFirstProcess, Interrupted } from './ground/interrupt.ts';
import { packageVersion } from './ground/paths.ts';
import { outputError, say, shellWord } from './ground/terminal.ts';

/** The command line itself is wrong. */
class UsageError extends ConfigError {}

interface Command {
  readonly describe: string;
  readonly register: (cli: Argv, name: string) => Promise<Argv>;
}

/** Command whose module is loaded when it is needed; the module exports it under any name. */
const lazy = (describe: string, load: () => Promise<object>): Command => ({
  describe,
  register: async (cli, name) => {
    const exported = Object.values(await load()) as readonly CommandModule[];
    const module = exported.find(({ command }) => String(command).split(' ')[0] === name)!;
    return cli.command({ ...module, describe });
  },
});

/** Every command, in the order of help: the order in which they are used. */
export const COMMANDS: Readonly<Record<string, Command>> = {
  setup: lazy('Find or install libtorch and build the engine', () => import('./commands/setup.ts')),
  doctor: lazy(
    'Check this machine for everything timeseer needs, and show how to get what is missing',
    () => import('./commands/setup.ts'),
  ),
  serve: lazy(
    'Serve anomaly reports and chat with a policy over HTTP (OpenAI protocol)',
    () => import('./commands/serve.ts'),
  ),
  mcp: lazy(
    'Offer detect, explain, plot and compare to assistants over MCP, on standard input and output',
    () => import('./commands/mcp.ts'),
  ),
  pull: lazy(
    'Download a Qwen2.5-VL checkpoint from the Hugging Face hub',
    () => import('./commands/pull.ts'),
  ),
  ask: lazy('Ask a policy a question, with pictures', () => import('./commands/ask.ts')),
  data: lazy(
    'List, prepare, generate, show and check data sets: tasks of papers, synthetic series, your own files',
    () => import('./commands/data.ts'),
  ),
  render: lazy(
    'Draw the series of a data set or a file as PNG pictures',
    () => import('./commands/render.ts'),
  ),
  expcot: lazy(
    'Print the classical evidence about a series and the expert trace written from it',
    () => import('./commands/expcot.ts'),
  ),
  plan: lazy('Estimate the memory of a training run before it starts', () => import('./commands/plan.ts')),
  reward: lazy(
    'Check a reward function on correct, wrong and malformed answers',
    () => import('./commands/reward.ts'),
  ),
  sft: lazy('Train a policy on expert traces (supervised fine-tuning)', () => import('./commands/train.ts')),
  train: lazy(
    'Train a policy by reinforcement learning: TimerPO, GRPO and related estimators',
    () => import('./commands/train.ts'),
  ),
  adapt: lazy(
    'Train the policy small further for your own recordings, and compare it with small on a held-out part',
    () => import('./commands/adapt.ts'),
  ),
  eval: lazy(
    'Evaluate policies and classical baselines on held-out examples',
    () => import('./commands/eval.ts'),
  ),
  calibrate: lazy(
    "Calibrate a policy's confidence on held-out series and save it with the policy",
    () => import('./commands/calibrate.ts'),
  ),
  score: lazy('Score predictions of any program against gold answers', () => import('./commands/score.ts')),
  compare: lazy(
    'Compare two sets of answers to the same series, with significance tests and the series that differ',
    () => import('./commands/compare.ts'),
  ),
  export: lazy(
    'Write a policy as ONNX, for transformers.js and onnxruntime',
    () => import('./commands/export.ts'),
  ),
  merge: lazy(
    'Merge a LoRA adapter (PEFT format) into the weights of its checkpoint',
    () => import('./commands/merge.ts'),
  ),
  report: lazy(
    'Rebuild the report and the summary of a run from its files',
    () => import('./commands/report.ts'),
  ),
  study: lazy(
    'Run a grid of trainings (setting × arm × seed) and compare its arms',
    () => import('./commands/study.ts'),
  ),
  runs: lazy('List runs with their final metrics, or compare several', () => import('./commands/runs.ts')),
  detect: lazy(
    'Find anomalies in files or a Prometheus, or what moved in a window: for programs and cron jobs',
    () => import('./commands/detect.ts'),
  ),
  explain: lazy(
    'Find anomalies in a CSV file or a Prometheus and write an HTML page about them',
    () => import('./commands/explain.ts'),
  ),
  page: lazy(
    'Write a web page that explains CSV files in the browser: nothing is installed, nothing is uploaded',
    () => import('./commands/page.ts'),
  ),
  quickstart: lazy(
    'Set up, train (supervised, then TimerPO), evaluate and report',
    () => import('./commands/quickstart.ts'),
  ),
};

/** The command that is named: the first word that is neither an option nor the value of a global one. */
function named(args: readonly string[]): string | undefined {
  return args.find((arg) => !arg.startsWith('-'));
}

function helpOf(args: readonly string[]): string {
  const command = named(args);
  if (command === undefined || !Object.hasOwn(COMMANDS, command)) return '';
  const action = args[args.indexOf(command) + 1] ?? '';
  return command === 'data' && /^(?:list|prepare|generate|show|validate|stats)$/.test(action)
    ? ` ${command} ${action}`
    : ` ${command}`;
}

/** yargs takes any other value of a switch for false. @throws UsageError */
function checkSwitches(args: readonly string[], names: readonly string[]): void {
  for (const arg of args) {
    if (arg === '--') return;
    const [, name, value] = /^--?([^=]+)=(.*)$/s.exec(arg) ?? [];
    const switches =
      name !== undefined && names.includes(name.replaceAll(/[A-Z]/g, (c) => `-${c.toLowerCase()}`));
    if (!switches || value === 'true' || value === 'false') continue;
    throw new UsageError(`--${name}: got '${value}', expected true or false; --${name} alone means true`);
  }
}

/** yargs turns a text that is no number into NaN, and none into 0. @throws UsageError with the text that was given */
function checkNumbers(args: readonly string[], names: readonly string[]): void {
  const end = args.includes('--') ? args.indexOf('--') : args.length;
  for (const [at, arg] of args.slice(0, end).entries()) {
    const [, name, value = args[at + 1] ?? ''] = /^--?([^=]+)(?:=(.*))?$/s.exec(arg) ?? [];
    if (name === undefined || !names.includes(name)) continue;
    if (value.trim() === '' || Number.isNaN(Number(value)))
      throw new UsageError(`--${name}: got '${value}', expected a number`);
  }
}

/**
 * Says what yargs complains about, with what may have been meant.
 * @param names of the options
 * @param usage of the command, such as `timeseer compare <a> <b>`
 */
function complaint(
  message: string,
  args: readonly string[],
  names: readonly string[],
  usage: string,
): string {
  const [, word] = /^Unknown arguments?: ([^,]+)/.exec(message) ?? [];
  if (word !== undefined) {
    if (args.some((arg) => arg.startsWith('-') && arg.replace(/^-+|=.*$/gs, '') === word)) {
      const near = closest(word, names);
      return `Unknown argument: ${word}${near === undefined ? '' : `. Did you mean --${near}?`}`;
    }
    if (!existsSync(word)) return message;
    const takesFiles = /[<[]/.test(usage);
    return !takesFiles && names.includes('data')
      ? `${word}: data are named by an option here; write --data ${shellWord(word)}`
      : `${word}: one file too many; run the command once for each file`;
  }
  const [, got] = /^Not enough non-option arguments: got (\d+)/.exec(message) ?? [];
  if (got !== undefined) {
    const missing = (usage.match(/<[^>]+>/g) ?? []).slice(Number(got));
    return `${missing.join(' and ')} ${missing.length === 1 ? 'is' : 'are'} missing; usage: ${usage}`;
  }
  const [, option, given, choices] = /Argument: (\S+), Given: "(.*)", Choices: (.*)/.exec(message) ?? [];
  if (choices === undefined) return message;
  const words = choices.replaceAll('"', '').split(', ');
  return `--${option}: got "${given}". Choices: ${choices}.${suggestion(given!, words)}`;
}

/** Translates a command line of `generate`, which was two commands in one, for the two that took its place. */
function splitGenerate(args: readonly string[]): string {
  const at = args.indexOf('generate');
  const rest = [...args.slice(0, at), ...args.slice(at + 1)];
  const asks = rest.some((arg) => /^--(?:policy|prompt|image|system)(?:=|$)/.test(arg));
  const words = ['timeseer', ...(asks ? ['ask'] : ['data', 'generate']), ...rest];
  return `generate is two commands now: data generate writes synthetic series, ask puts a prompt to a policy; write: ${words.map(shellWord).join(' ')}`;
}

/** Methods of yargs that its types leave out. */
interface Internals {
  getInternalMethods(): { getUsageInstance(): { cacheHelpMessage: () => void } };
}
interface UsageTexts {
  getUsage(): [usage: string, description: string][];
}

async function build(args: readonly string[]): Promise<Argv> {
  // Loaded here, where its many files failing to open (a low `ulimit -n`) is an error like any other.
  const { default: yargs } = await import('yargs');
  let cli: Argv = yargs([...args])
    .scriptName('timeseer')
    .usage('$0 <command>\n\nTrain, evaluate and use policies that reason about time series from their plots.')
    .option('verbose', {
      type: 'boolean',
      default: false,
      global: true,
      describe: 'Print stack traces of errors',
    })
    .example('$0 quickstart', 'Set up, train, evaluate and report, in minutes on a CPU')
    .example(
      '$0 data generate nano5 --out data/nano5 --count 400',
      'Write a data set of synthetic series with gold intervals and classes',
    )
    .example('$0 <command> --help', 'Options and examples of a command')
    .detectLocale(false)
    .strict()
    .check((given, options) => {
      // yargs makes a list of what is given twice; a command that expects one value would fail on it later.
      const { array } = options as unknown as { readonly array: readonly string[] };
      const camelCase = (name: string): string =>
        name.replace(/-(.)/g, (_, letter: string) => letter.toUpperCase());
      const lists = ['_', ...array, ...array.map(camelCase)];
      const twice = Object.keys(given).find((name) => Array.isArray(given[name]) && !lists.includes(name));
      if (twice !== undefined) throw new UsageError(`--${twice}: given twice; give it once`);
      const { boolean, number } = options as unknown as Record<'boolean' | 'number', readonly string[]>;
      checkSwitches(args, boolean);
      const denied = Object.keys(given).find(
        (name) =>
          args.includes(`--no-${name}`) && [given[name]].flat().includes(false) && !boolean.includes(name),
      );
      if (denied !== undefined)
        throw new UsageError(`--no-${denied}: --${denied} is no switch; leave it out, or give it a value`);
      checkNumbers(args, [...number, ...number.map(camelCase)]);
      const blank = ['out', 'policy', 'from', 'data', 'recipe'].find((name) => given[name] === '');
      if (blank !== undefined) throw new UsageError(`--${blank}: is empty; give a path`);
      return true;
    }, true)
    .demandCommand(1, 'no command given')
    .version(packageVersion())
    .help()
    .wrap(Math.min(110, process.stdout.columns ?? 110))
    .exitProcess(false)
    .group(['verbose', 'version', 'help'], 'Everywhere:')
    .fail((message: string | null, error: Error | undefined, texts: unknown) => {
      // A message without an error of ours is yargs' complaint about the command line.
      if (message === null || message === undefined) throw error;
      const { key } = (cli as unknown as { getOptions(): { key: object } }).getOptions();
      const [[usage] = ['']] = (texts as UsageTexts).getUsage();
      throw new UsageError(complaint(message, args, Object.keys(key), usage.replace('$0', 'timeseer')));
    });
  const wanted = named(args);
  if (wanted === 'generate') throw new UsageError(splitGenerate(args));
  if (wanted !== undefined && !Object.hasOwn(COMMANDS, wanted)) {
    const names = Object.keys(COMMANDS);
    const near = closest(wanted, names);
    const hint = near === undefined ? `commands: ${names.join(', ')}` : `did you mean ${near}?`;
    throw new UsageError(`no command called ${wanted}; ${hint}`);
  }
  for (const [name, command] of Object.entries(COMMANDS)) {
    cli = name === wanted ? await command.register(cli, name) : cli.command(name, command.describe);
  }
  // yargs lays out the help of every command that has run, which takes longer than many of them; nobody asks for it then.
  (cli as unknown as Internals).getInternalMethods().getUsageInstance().cacheHelpMessage = () => {};
  return cli;
}

/** Exit code of an error; 1 is that of a command that found something, 2 that of wrong usage. */
const FAILED = 3;

/** Prints what went wrong; returns the exit code. */
function report(error: unknown, args: readonly string[]): number {
  const verbose = args.includes('--verbose');
  if (error instanceof Interrupted) {
    say(error.message);
    return error.exitCode;
  }
  const known = error instanceof TimeseerError ? error : systemError(error);
  if (known !== null) {
    say(`error: ${known.message}`);
    if (known instanceof UsageError) say(`see timeseer${helpOf(args)} --help`);
    if (verbose) say((known === error ? known : (error as Error)).stack ?? '');
    return known instanceof ConfigError ? 2 : FAILED;
  }
  const stack = error instanceof Error ? (error.stack ?? error.message) : String(error);
  say(
    `error: unexpected: ${stack}\nThis is a fault of timeseer ${packageVersion()}: please report it with the lines above.`,
  );
  return FAILED;
}

/** Runs one command line (without `node` and the script); resolves to the exit code. */
export async function main(given: readonly string[]): Promise<number> {
  // yargs takes a lone dash for an empty text.
  const reads = given[0] === 'detect' || given[0] === 'explain';
  const end = reads && given.includes('--') ? given.indexOf('--') : given.length;
  const files = given.slice(end + 1).map((file) => (file === '-' ? file : file.replace(/^-/, './-')));
  const args = [...given.slice(0, end), ...files].map((arg) => (reads && arg === '-' ? STANDARD_INPUT : arg));
  try {
    await (await build(args)).parseAsync();
    return Number(process.exitCode ?? 0);
  } catch (error) {
    return report(error, args);
  }
}

function isEntryPoint(): boolean {
  const script = process.argv[1];
  return script !== undefined && realpathSync(script) === fileURLToPath(import.meta.url);
}

if (isEntryPoint()) {
  endAsFirstProcess();
  // A reader that has seen enough (`| head`) is not an error, and a terminal that was closed sends SIGHUP, after which work is saved.
  process.stdout.on('error', (error: NodeJS.ErrnoException) => {
    if (error.code === 'EIO') return;
    if (error.code === 'EPIPE') process.exit();
    process.exit(report(outputError(error), process.argv.slice(2)));
  });
  // Work goes on where nobody reads about its progress any more.
  process.stderr.on('error', () => {});
  process.on('uncaughtException', (error) => process.exit(report(error, process.argv.slice(2))));
  process.exitCode = await main(process.argv.slice(2));
}
