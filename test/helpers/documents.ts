/**
 * Pages that are made from the code: the keys and choices of recipes, the functions of the library, and the comments of the quickstart's choices.
 * `npm run docs` writes them; a test compares them.
 */
import { readFileSync, writeFileSync } from 'node:fs';
import { dirname, join, relative, resolve } from 'node:path';
import { REWARDS } from '../../rewards/registry.ts';
import type { Choice } from '../../src/ground/choice.ts';
import { FIGURE_NAMES, FIGURES } from '../../src/plot/presets.ts';
import { recipeKeys } from '../../src/recipe/recipe.ts';
import { ADVANTAGES } from '../../src/train/advantage.ts';
import { DIVERGENCES } from '../../src/train/distillation.ts';
import { AGGREGATIONS, KL_ESTIMATORS, LOSSES, RATIOS } from '../../src/train/loss.ts';
import { OPTIMIZERS } from '../../src/train/muon.ts';

const ROOT = resolve(import.meta.dirname, '../..');

/** Tables of choices, by the key of the recipe. */
export const CHOICES: Readonly<Record<string, Readonly<Record<string, Choice>>>> = {
  'rl.advantage': ADVANTAGES,
  'rl.distillation.divergence': DIVERGENCES,
  'rl.optimizer': OPTIMIZERS,
  'rl.loss': LOSSES,
  'rl.ratio': RATIOS,
  'rl.aggregation': AGGREGATIONS,
  'rl.klEstimator': KL_ESTIMATORS,
};

/** The choices as a Markdown table. */
export function choiceTable(table: Readonly<Record<string, Choice>>): string {
  const rows = Object.entries(table).map(
    ([name, { label, summary, paper = '' }]) => `| \`${name}\` | ${label} | ${summary} | ${paper} |`,
  );
  return ['| name | label | meaning | paper |', '|---|---|---|---|', ...rows].join('\n');
}

const cell = (text: string): string => text.replaceAll('|', '\\|');
const GENERATED = '<!-- Written by `npm run docs`. -->';

/** `src/recipe/README.md`. */
function recipePage(): string {
  const rows = recipeKeys().map(
    ({ key, standard, range, meaning }) =>
      `| \`${key}\` | ${standard === '' ? '' : `\`${cell(standard)}\``} | ${cell(range)} | ${cell(meaning)} |`,
  );
  return [
    '# Recipes',
    '',
    GENERATED,
    '',
    'A recipe is a YAML file with any of the keys below; `src/recipes/` has those that ship. `--recipe FILE` reads one, `--set KEY=VALUE` changes a key.',
    '',
    '## Keys',
    '',
    '| key | default | values | meaning |',
    '|---|---|---|---|',
    ...rows,
    ...Object.entries(CHOICES).flatMap(([key, table]) => ['', `## \`${key}\``, '', choiceTable(table)]),
    '',
    '## `reward`',
    '',
    choiceTable(REWARDS),
    '',
    '## `figure`',
    '',
    '| name | meaning | pixels |',
    '|---|---|---|',
    ...FIGURE_NAMES.map((name) => {
      const { summary, figure } = FIGURES[name];
      const each = figure.overlay === null ? '' : ' a channel';
      return `| \`${name}\` | ${summary} | ${figure.width} × ${figure.height}${each} |`;
    }),
    '',
  ].join('\n');
}

interface Declaration {
  readonly kind: 'function' | 'value' | 'type';
  /** Signature of a function, else the name. */
  readonly signature: string;
  readonly doc: string;
}

/** Text of a doc comment as one paragraph, without examples and tags. */
function plainDoc(comment: string): string {
  const lines = comment
    .replace(/^\s*\/\*\*?|\*\/\s*$/g, '')
    .split('\n')
    .map((line) => line.replace(/^\s*\* ?/, ''));
  const text = lines.filter((line) => !line.startsWith('    ')).join(' ');
  return text
    .replace(/:?\s*@throws/g, (match) => (match.startsWith(':') ? '. Throws' : ' Throws'))
    .replace(/\s*@param (\w+)/g, ' `$1`:')
    .replace(/\s+/g, ' ')
    .trim();
}

/** The declaration of an exported name, with the comment before it. @throws Error where there is none */
function declarationIn(text: string, name: string): Declaration {
  const start = new RegExp(`export (?:async )?(function|const|interface|type|class) ${name}\\b(?!-)`).exec(
    text,
  );
  if (start === null) throw new Error(`no declaration of ${name}`);
  const before = text.slice(0, start.index).trimEnd();
  const comment = before.endsWith('*/') ? before.slice(before.lastIndexOf('/**')) : '';
  const doc = plainDoc(comment);
  if (start[1] === 'interface' || start[1] === 'type') return { kind: 'type', signature: name, doc };
  if (start[1] !== 'function') return { kind: 'value', signature: name, doc };
  const rest = text.slice(start.index);
  const end = /\{\n {2}\S/.exec(rest.slice(rest.indexOf(')')))!.index + rest.indexOf(')');
  const signature = rest
    .slice(0, end)
    .replace(/^export (?:async )?function /, '')
    .replace(/\s+/g, ' ')
    .replace(/\( /g, '(')
    .replace(/,? \)/g, ')')
    .trim();
  return { kind: 'function', signature, doc };
}

/** The file that declares what `file` exports, or re-exports from another file. */
function declarationOf(file: string, name: string): Declaration {
  const text = readFileSync(file, 'utf8');
  try {
    return declarationIn(text, name);
  } catch {
    for (const match of text.matchAll(/(?:export|import)(?: type)? \{([^}]*)\} from '(\.[^']+)'/g)) {
      for (const entry of match[1]!.split(',')) {
        const [, original, alias] = /^\s*(?:type )?(\w+)(?: as (\w+))?\s*$/.exec(entry) ?? [];
        if (original !== undefined && (alias ?? original) === name) {
          return declarationOf(resolve(dirname(file), match[2]!), original);
        }
      }
    }
    throw new Error(`${relative(ROOT, file)}: no declaration of ${name}`);
  }
}

/** Names that the library exports, in alphabetical order. */
function exportedNames(text: string): string[] {
  const lists = [...text.matchAll(/export(?: type)? \{([^}]*)\}/g)].flatMap((match) => match[1]!.split(','));
  const listed = lists.map((entry) => /(\w+)\s*$/.exec(entry)?.[1]).filter((name) => name !== undefined);
  const own = [...text.matchAll(/export (?:async )?(?:function|interface|type|const) (\w+)/g)].map(
    (match) => match[1]!,
  );
  return [...new Set([...listed, ...own])].sort((a, b) => a.localeCompare(b));
}

/** `src/API.md`. */
function apiPage(): string {
  const file = join(ROOT, 'src/index.ts');
  const all = exportedNames(readFileSync(file, 'utf8')).map((name) => ({
    name,
    ...declarationOf(file, name),
  }));
  const functions = all.filter(({ kind }) => kind === 'function');
  const rest = (kind: Declaration['kind']): string[] =>
    all
      .filter((one) => one.kind === kind)
      .map(
        ({ name, doc }) =>
          `- \`${name}\`${doc === '' ? '' : `: ${doc.replace(/(?<=[a-z)\]`])\. .*$/, '.')}`}`,
      );
  return [
    '# The library',
    '',
    GENERATED,
    '',
    "`import { … } from 'timeseer'`. `test/examples/` has programs of at most 30 lines.",
    '',
    '## Functions',
    ...functions.flatMap(({ name, signature, doc }) => [
      '',
      `### ${name}`,
      '',
      '```ts',
      signature,
      '```',
      ...(doc === '' ? [] : ['', doc]),
    ]),
    '',
    '## Errors and values',
    '',
    ...rest('value'),
    '',
    '## Types',
    '',
    ...rest('type'),
    '',
  ].join('\n');
}

/** The quickstart with the comment of each choice made from its table: what follows the first `;` is kept. */
function quickstart(): string {
  const text = readFileSync(join(ROOT, 'src/recipes/quickstart.yaml'), 'utf8');
  return Object.entries(CHOICES).reduce((yaml, [key, table]) => {
    const name = key.split('.').at(-1)!;
    return yaml.replace(
      new RegExp(`^( +${name}: \\S+) #[^;\\n]*(;.*)?$`, 'm'),
      (_, head: string, remark: string = '') => `${head} # ${Object.keys(table).join(', ')}${remark}`,
    );
  }, text);
}

/** Every page by its path. */
export const documents = (): Readonly<Record<string, string>> => ({
  'src/recipe/README.md': recipePage(),
  'src/API.md': apiPage(),
  'src/recipes/quickstart.yaml': quickstart(),
});

if (process.argv[1] === import.meta.filename) {
  for (const [path, text] of Object.entries(documents())) writeFileSync(join(ROOT, path), text);
}
