/** Help for the keys of a recipe, made from their schema. */
import { type RecipeKey, recipeKeys } from '../recipe/recipe.ts';

/** Maximum length of a default shown; longer ones are in `src/recipes/quickstart.yaml`. */
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

function entry({ key, standard, range, meaning }: RecipeKey, width: number): string[] {
  const value = standard.length > LONGEST_DEFAULT ? '…' : standard;
  const head = `  ${key}=${value}`;
  const limits = range === '' ? [] : [`[${range}]`.replaceAll(' ', FIRM)];
  const text = wrapped([meaning, ...limits].join(' '), width - INDENT);
  const lines = text.map((line) => ' '.repeat(INDENT) + line.replaceAll(FIRM, ' '));
  if (head.length + 2 > INDENT) return [head, ...lines];
  return [head + lines[0]!.slice(head.length), ...lines.slice(1)];
}

/** Sections used by every stage. */
const SHARED = ['seed', 'data', 'figure', 'input', 'numbers', 'policy', 'memory', 'answers'];

/** The keys of one section of the recipe, then those of every stage, with their defaults, meaning and range; `null`: all keys. */
export function recipeHelp(section: string | null): string {
  const width = Math.min(WIDTH, process.stdout.columns ?? WIDTH) - 1;
  const keys = recipeKeys();
  const below = (names: readonly string[]) => keys.filter(({ key }) => names.includes(key.split('.')[0]!));
  const chosen =
    section === null
      ? keys
      : [...below(section === 'rl' ? ['rl', 'reward', 'extension'] : [section]), ...below(SHARED)];
  return [
    'Keys of the recipe, with their defaults (--set KEY=VALUE, or in the file of --recipe):',
    ...chosen.flatMap((key) => entry(key, width)),
    '',
    'timeseer runs --glossary explains what is logged.',
  ].join('\n');
}
