/** Options of `sft`, `train` and `quickstart`, and help for the keys of a recipe, made from their schema. */
import { COMMON_REWARDS } from '../../rewards/registry.ts';
import { ConfigError } from '../ground/errors.ts';
import { loadRecipe, type Recipe, rewardOverride, settingOf } from '../recipe/config.ts';
import { type RecipeKey, recipeKeys, settingText } from '../recipe/recipe.ts';
import type { RunRequest } from '../run/run.ts';
import { DEVICE, flag, list, PROCESSES, TRAINING_ENGINE, text } from './options.ts';

export interface RunArguments extends RunRequest {
  readonly reward: readonly string[];
  readonly json: boolean;
  readonly processes: number;
}

/** Turns `--reward` into the recipe key `reward`. */
export function runRequest<Given extends RunArguments>(given: Given): Given {
  const { reward, set } = given;
  return reward.length === 0 ? given : { ...given, set: [...set, rewardOverride(reward)] };
}

/** Options of a command that works on a run. */
export const runOptions = ({
  recipe,
  out,
  force,
}: {
  readonly recipe?: string;
  readonly out?: string;
  readonly force: string;
}) => ({
  recipe: text('Recipe by name or path of a .yaml file. An existing run keeps its own', {
    ...(recipe === undefined ? {} : { defaultDescription: recipe }),
  }),
  set: list('Set a recipe key, e.g. sft.samples=10000 (repeatable)'),
  reward: list(
    `Reward to maximise instead of the task's own: ./my-reward.ts or ./my-reward.ts#name, made with defineReward, or ${COMMON_REWARDS.join(', ')}. Repeat it to maximise their mean; for weights use --set reward=…`,
  ),
  out: text('Directory of the run', out === undefined ? { demandOption: true } : { default: out }),
  engine: TRAINING_ENGINE,
  device: DEVICE,
  processes: PROCESSES,
  resume: flag(
    'Resume from the last checkpoint; on another --engine numbers agree to rounding, not bit for bit',
  ),
  'allow-change': list(
    'With --resume: accept the changed value of this recipe key or block of keys, or with data, changed data files (repeatable)',
  ),
  force: flag(force),
  quiet: flag('Do not show progress'),
  json: flag('Print the result as JSON'),
});

/** @throws ConfigError for options that contradict each other */
export function checkRun({ resume, force, allowChange = [] }: RunArguments): void {
  if (allowChange.length > 0 && !resume) {
    throw new ConfigError('--allow-change applies only to a resumed run: add --resume');
  }
  if (resume && force) throw new ConfigError('--resume resumes and --force starts over: give one of them');
}

/** Recipe that applies where none is named. */
const USUAL_RECIPE = 'quickstart';
/** Maximum length of a value shown; longer ones are in `src/recipes/quickstart.yaml`. */
const LONGEST_DEFAULT = 12;
/** Width of the key column; a longer entry has its own line. */
const INDENT = 28;
/** Line width if the terminal's is unknown. */
const WIDTH = 110;

/** Wraps a text at its spaces. */
function wrapped(text: string, width: number): string[] {
  const lines: string[] = [];
  for (const word of text.split(' ')) {
    const last = lines.at(-1);
    if (last === undefined || last.length + 1 + word.length > width) lines.push(word);
    else lines[lines.length - 1] = `${last} ${word}`;
  }
  return lines;
}

/** No-break space. */
const FIRM = '\u00a0';

function entry({ key, standard, range, meaning }: RecipeKey, usual: Recipe, width: number): string[] {
  const [value, other] = [settingText(settingOf(usual, key)), standard].map((text) =>
    text.length > LONGEST_DEFAULT ? '…' : text,
  );
  const head = `  ${key}=${value}`;
  const facts = [range, value === other ? '' : `else ${other}`].filter((fact) => fact !== '');
  const limits = facts.length === 0 ? [] : [`[${facts.join('; ')}]`.replaceAll(' ', FIRM)];
  const text = wrapped([meaning, ...limits].join(' '), width - INDENT);
  const lines = text.map((line) => ' '.repeat(INDENT) + line.replaceAll(FIRM, ' '));
  if (head.length + 2 > INDENT) return [head, ...lines];
  return [head + lines[0]!.slice(head.length), ...lines.slice(1)];
}

/** Sections used by every stage. */
const SHARED = ['seed', 'data', 'figure', 'input', 'numbers', 'policy', 'memory', 'answers'];

/** The keys of one section of the recipe, then those of every stage, with their values, meaning and range; `null`: all keys. */
export function recipeHelp(section: string | null): string {
  const width = Math.min(WIDTH, process.stdout.columns ?? WIDTH) - 1;
  const keys = recipeKeys();
  const below = (names: readonly string[]) => keys.filter(({ key }) => names.includes(key.split('.')[0]!));
  const chosen =
    section === null
      ? keys
      : [...below(section === 'rl' ? ['rl', 'reward', 'extension'] : [section]), ...below(SHARED)];
  const usual = loadRecipe(USUAL_RECIPE);
  return [
    ...wrapped(
      `Keys of the recipe (--set KEY=VALUE, or in the file of --recipe), with their values in ${USUAL_RECIPE}, which a new run has without --recipe; else: value in a recipe file that leaves the key out, where it differs.`,
      width,
    ),
    ...chosen.flatMap((key) => entry(key, usual, width)),
    '',
    'timeseer runs --glossary explains what is logged.',
  ].join('\n');
}
