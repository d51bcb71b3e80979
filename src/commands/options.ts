/** Builders of options, one call each, and the options that several commands share. */
import type { Argv, CommandModule, InferredOptionType, Options, PositionalOptions } from 'yargs';
import { ENGINE_HELP, ENGINES, type EngineName } from '../answer/answerer.ts';
import { ConfigError } from '../ground/errors.ts';

type Camel<Key extends string> = Key extends `${infer Head}-${infer Tail}`
  ? `${Head}${Capitalize<Camel<Tail>>}`
  : Key;

/** Values that a handler receives for a table of options. */
export type Given<Table extends Readonly<Record<string, Options>>> = {
  readonly [Key in keyof Table & string as Camel<Key>]: InferredOptionType<Table[Key]>;
};

interface Definition<Values> {
  readonly command: string;
  /** Line in the list of commands; that of a top-level command is in `src/cli.ts`. */
  readonly describe?: string;
  /** Arguments in order; one that is only described is a text that must be given. */
  readonly positionals?: Readonly<
    Record<string, string | (PositionalOptions & Pick<Options, 'defaultDescription'>)>
  >;
  readonly options?: Readonly<Record<string, Options>>;
  /** Refuses options that contradict each other. @throws ConfigError */
  readonly check?: (given: Values) => void;
  readonly examples: readonly (readonly [line: string, meaning: string])[];
  readonly epilogue?: string;
  readonly handler: (given: Values) => void | Promise<void>;
}

/** Makes a command for yargs, whose types cannot follow a table of options to the handler. */
export function command<Values>({
  positionals = {},
  options = {},
  check = () => {},
  examples,
  epilogue = '',
  ...module
}: Definition<Values>): CommandModule<object, Values> {
  const builder = (cli: Argv): Argv => {
    for (const [name, given] of Object.entries(positionals)) {
      cli.positional(
        name,
        typeof given === 'string' ? { type: 'string', demandOption: true, describe: given } : given,
      );
    }
    cli.options(options).check((given) => {
      check(given as Values);
      return true;
    });
    for (const [line, meaning] of examples) cli.example(line, meaning);
    return cli.epilogue(epilogue);
  };
  return { ...module, builder } as unknown as CommandModule<object, Values>;
}

/** Makes a command of which only its actions do something; without one it says which there are. */
export function commandGroup(
  name: string,
  actions: readonly Pick<CommandModule, 'command'>[],
  examples: Definition<never>['examples'],
): CommandModule {
  const words = actions.map(({ command: line }) => String(line).split(' ')[0]!);
  const known = new Intl.ListFormat('en-GB', { type: 'disjunction' }).format(words);
  return {
    command: name,
    builder: (cli) => {
      for (const action of actions) cli.command(action as CommandModule);
      for (const [line, meaning] of examples) cli.example(line, meaning);
      return cli.command({
        command: '$0',
        describe: false,
        handler: () => {
          throw new ConfigError(`${name}: no action given: ${known}; see timeseer ${name} --help`);
        },
      });
    },
    handler: () => {},
  };
}

/** Option with a text. */
export const text = <const More extends Options = object>(describe: string, more?: More) =>
  ({ type: 'string', requiresArg: true, describe, ...(more as More) }) as const;

/** Option with a text that must be given. */
export const required = (describe: string) => text(describe, { demandOption: true });

/** Option with one text that can be repeated; a list, empty without it. */
export const list = (describe: string) =>
  ({ type: 'string', array: true, nargs: 1, default: [] as string[], describe }) as const;

/** Option with a text that can be repeated; undefined without it. */
export const repeated = (describe: string) => ({ type: 'string', array: true, nargs: 1, describe }) as const;

/** Option with one text or several, which can be repeated as well. */
export const several = (describe: string) =>
  ({ type: 'string', array: true, requiresArg: true, describe }) as const;

/** Option with a number; `src/cli.ts` refuses a text that is none. */
export const number = <const More extends Options = object>(describe: string, more?: More) =>
  ({ type: 'number', requiresArg: true, describe, ...(more as More) }) as const;

/** Switch, off by default. */
export const flag = (describe: string, standard = false) =>
  ({ type: 'boolean', default: standard, describe }) as const;

/** Option with one of several words. */
export const choice = <const Words extends readonly string[], const More extends Options = object>(
  words: Words,
  describe: string,
  more?: More,
) => ({ choices: words, requiresArg: true, describe, ...(more as More) }) as const;

/** Options under a title of their own in the help. */
export const grouped = <Table extends Readonly<Record<string, Options>>>(
  title: string,
  table: Table,
): Table =>
  Object.fromEntries(
    Object.entries(table).map(([key, option]) => [key, { ...option, group: title }]),
  ) as Table;

/** Options on how a policy is computed on this machine. */
export const ENGINE_OPTIONS = {
  engine: choice(['auto', ...ENGINES], ENGINE_HELP, {
    coerce: (engine: 'auto' | EngineName | undefined) => {
      if (engine !== 'auto') return engine;
      process.env['TIMESEER_ENGINE'] = engine;
      return undefined;
    },
  }),
  device: text('Device of the policy: cpu (default), cuda or cuda:N'),
} as const;

export const ADAPTER = text('Directory of a LoRA adapter (PEFT format) for the policy');

/** Engine of commands that train. TIMESEER_ENGINE passes it on to Workers and processes. */
export const TRAINING_ENGINE = choice(
  ['auto', 'torch', 'tfjs'],
  'Engine: torch, tfjs (TensorFlow.js, which npm alone brings), or auto: torch where it is set up, else tfjs. Default: TIMESEER_ENGINE, else auto',
  {
    coerce: (engine: string | undefined) => {
      if (engine !== undefined) process.env['TIMESEER_ENGINE'] = engine;
      return engine;
    },
  },
);

/** Device of commands that always compute. */
export const DEVICE = text('cpu, cuda or cuda:N', { default: 'cpu' });

/** Option of commands whose work several processes can share. */
export const PROCESSES = number(
  'Start N processes on this machine, which share the work in place of Workers. Under torchrun --no-python, and wherever RANK, WORLD_SIZE, MASTER_ADDR and MASTER_PORT are set, the processes that run this command share it',
  { default: 1 },
);

/** Does a command's work in the processes that `--processes` or the environment asks for. */
export const shared =
  <Values extends { readonly processes: number; readonly quiet: boolean }>(
    work: (given: Values) => Promise<void>,
  ) =>
  async (given: Values): Promise<void> => {
    const { inWorld } = await import('../run/world.ts');
    await inWorld(given, () => work(given));
  };
