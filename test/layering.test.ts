/** The house rules on structure: which directory may know which, and what the top level holds. */
import { spawnSync } from 'node:child_process';
import { existsSync, readdirSync, readFileSync } from 'node:fs';
import { dirname, join, relative, resolve } from 'node:path';
import { describe, expect, test } from 'vitest';

const ROOT = resolve(import.meta.dirname, '..');

/** Directories from the ground up, and what each may import beside itself and the ground. */
const ALLOWED: Record<string, readonly string[]> = {
  ground: [],
  'src/engine': [],
  'src/series': [],
  'src/endpoint': [],
  'src/plot': [],
  'src/html': [],
  'src/expcot': ['src/series'],
  'src/claims': ['src/series', 'src/expcot'],
  'src/detect': ['src/series'],
  'src/policy': ['src/engine'],
  'src/hub': ['src/policy'],
  'src/onnx': ['src/policy'],
  'src/measures': ['src/series'],
  rewards: ['src/series', 'src/endpoint', 'src/claims', 'src/expcot'],
  'src/tasks': ['src/series', 'src/plot', 'src/html', 'src/expcot', 'src/claims', 'src/measures', 'rewards'],
  'src/inspect': ['src/series', 'src/detect', 'src/plot', 'src/expcot', 'src/tasks'],
  datasets: ['src/series', 'src/plot', 'src/html', 'src/expcot', 'rewards', 'src/tasks'],
  'src/train': ['src/policy', 'src/engine', 'src/tasks', 'src/inspect'],
  'src/background': ['src/series', 'src/engine', 'src/policy', 'src/train'],
  'src/recipe': ['src/train', 'src/policy', 'src/plot', 'rewards'],
};
// The one door to whatever answers.
ALLOWED['src/answer'] = [
  ...[
    'src/series',
    'src/plot',
    'src/endpoint',
    'src/engine',
    'src/policy',
    'src/onnx',
    'src/expcot',
    'src/detect',
  ],
  ...['src/tasks', 'src/inspect', 'datasets', 'src/train'],
];
const BELOW_EVAL = Object.keys(ALLOWED).filter((name) => name !== 'ground');
Object.assign(ALLOWED, {
  eval: BELOW_EVAL,
  'src/explain': [...BELOW_EVAL, 'eval'],
  'src/run': [...BELOW_EVAL, 'eval', 'src/explain'],
  'src/serve': [...BELOW_EVAL, 'eval', 'src/explain', 'src/run'],
  'src/page': [...BELOW_EVAL, 'eval', 'src/explain', 'src/run', 'src/serve'],
  'src/commands': [...BELOW_EVAL, 'eval', 'src/explain', 'src/run', 'src/serve', 'src/page'],
  'src/cli.ts': ['src/commands'],
  'src/index.ts': [...BELOW_EVAL, 'eval', 'src/explain', 'src/run'],
});

/** Of these directories, only these files may be seen from there. */
const WINDOWS: readonly { from: string; to: string; files: readonly string[] }[] = [
  { from: 'src/policy', to: 'src/engine', files: ['src/engine/engine.ts'] },
  { from: 'src/background', to: 'src/engine', files: ['src/engine/engine.ts'] },
  {
    from: 'src/background',
    to: 'src/policy',
    files: ['src/policy/safetensors.ts', 'src/policy/json-file.ts'],
  },
  {
    from: 'src/background',
    to: 'src/train',
    files: ['src/train/optimizer.ts', 'src/train/worker-group.ts'],
  },
  { from: 'src/train', to: 'src/tasks', files: ['src/tasks/card.ts'] },
  {
    from: 'src/train',
    to: 'src/inspect',
    files: ['src/inspect/environment.ts', 'src/inspect/episode.ts', 'src/inspect/optical.ts'],
  },
  // Tables of choices, which load neither engine nor policy.
  {
    from: 'src/recipe',
    to: 'src/train',
    files: [
      'src/train/advantage.ts',
      'src/train/step-advantage.ts',
      'src/train/loss.ts',
      'src/train/muon.ts',
      'src/train/distillation.ts',
    ],
  },
  { from: 'src/recipe', to: 'src/policy', files: ['src/policy/lora-targets.ts'] },
  { from: 'src/recipe', to: 'src/plot', files: ['src/plot/presets.ts'] },
  { from: 'src/recipe', to: 'rewards', files: ['rewards/registry.ts', 'rewards/anomseer.ts'] },
  {
    from: 'eval',
    to: 'src/train',
    files: ['src/train/task.ts', 'src/train/rollout.ts', 'src/train/glossary.ts'],
  },
  { from: 'src/answer', to: 'src/train', files: ['src/train/task.ts'] },
];

const TOP_LEVEL = new Set([
  'package.json',
  'README.md',
  'src',
  'datasets',
  'rewards',
  'eval',
  'test',
  // what tools insist on
  '.ci',
  '.gitignore',
  '.npmrc',
  'LICENSE',
  'biome.json',
  'package-lock.json',
  'tsconfig.json',
  'tsconfig.build.json',
  'vitest.config.ts',
]);

interface Import {
  readonly from: string; // relative to the root
  readonly to: string;
  /** Neither `import type` nor `import()`: loaded with the file. */
  readonly eager: boolean;
}

function sources(directory: string): string[] {
  return readdirSync(join(ROOT, directory), { recursive: true, withFileTypes: true })
    .filter((entry) => entry.isFile() && entry.name.endsWith('.ts'))
    .map((entry) => relative(ROOT, join(entry.parentPath, entry.name)));
}

/** Comments go; strings stay, because specifiers are strings. */
function withoutComments(text: string): string {
  return text.replace(
    /('(?:[^'\\\n]|\\.)*'|"(?:[^"\\\n]|\\.)*"|`(?:[^`\\]|\\.)*`)|\/\*[\s\S]*?\*\/|\/\/[^\n]*/g,
    '$1',
  );
}

/** Relative specifiers of static, type, dynamic and worker imports and of re-exports. */
function parseImports(file: string, text: string): Import[] {
  const code = withoutComments(text);
  const found: Import[] = [];
  const add = (specifier: string, eager: boolean): void => {
    found.push({ from: file, to: relative(ROOT, resolve(ROOT, dirname(file), specifier)), eager });
  };
  for (const match of code.matchAll(
    /\b(import|export)\b(\s+type\b)?([^;'"`()]*?)\bfrom\s*['"](\.[^'"]*)['"]/g,
  )) {
    add(match[4]!, match[2] === undefined);
  }
  for (const match of code.matchAll(/\bimport\s*['"](\.[^'"]*)['"]/g)) add(match[1]!, true);
  for (const match of code.matchAll(/\bimport\s*\(\s*['"`](\.[^'"`]*)['"`]/g)) add(match[1]!, false);
  for (const match of code.matchAll(/\bworkerUrl\s*\(\s*['"`]([^'"`]+)['"`]/g)) {
    add(`${match[1]!.replace(/\.[jt]s$/, '')}.ts`, false);
  }
  return found;
}

/** The layer a file belongs to; undefined when nothing says so. */
function layer(file: string): string | undefined {
  if (file === 'src/cli.ts' || file === 'src/index.ts') return file;
  if (file.startsWith('src/ground/')) return 'ground';
  return Object.keys(ALLOWED).find((name) => file.startsWith(`${name}/`));
}

function violation({ from, to }: Import): string | null {
  const [above, below] = [layer(from), layer(to)];
  if (above === undefined || below === undefined) return `${from} → ${to}: outside of every layer`;
  if (above === below || below === 'ground') return null;
  if (!ALLOWED[above]!.includes(below)) return `${from} → ${to}: ${above} may not know ${below}`;
  const window = WINDOWS.find((rule) => rule.from === above && rule.to === below);
  return window !== undefined && !window.files.includes(to)
    ? `${from} → ${to}: only ${window.files.join(', ')}`
    : null;
}

const files = ['src', 'datasets', 'rewards', 'eval'].flatMap(sources);
const imports = files
  .flatMap((file) => parseImports(file, readFileSync(join(ROOT, file), 'utf8')))
  .filter(({ to }) => to.endsWith('.ts'));

describe('layering', () => {
  test('imports go downward only', () => {
    expect(imports.length).toBeGreaterThan(50);
    expect(imports.map(violation).filter((message) => message !== null)).toEqual([]);
  });

  test('every import names a file that exists, with its extension', () => {
    expect(imports.filter(({ to }) => !existsSync(join(ROOT, to)))).toEqual([]);
  });

  test('no file needs itself through others when it loads', () => {
    const eager = new Map<string, string[]>();
    for (const { from, to, eager: now } of imports)
      if (now) eager.set(from, [...(eager.get(from) ?? []), to]);
    const cycles: string[] = [];
    const done = new Set<string>();
    const visit = (file: string, path: readonly string[]): void => {
      if (path.includes(file)) cycles.push([...path.slice(path.indexOf(file)), file].join(' → '));
      if (path.includes(file) || done.has(file)) return;
      for (const next of eager.get(file) ?? []) visit(next, [...path, file]);
      done.add(file);
    };
    for (const file of files) visit(file, []);
    expect(cycles).toEqual([]);
  });

  test('the command line loads nothing but the ground until a command is named', () => {
    const loaded = imports.filter(({ from, eager }) => from === 'src/cli.ts' && eager).map(({ to }) => to);
    expect(loaded.length).toBeGreaterThan(0);
    expect(loaded.filter((file) => layer(file) !== 'ground')).toEqual([]);
  });

  test('recipes and their tables of choices load no engine, policy or renderer', () => {
    const reached = new Set<string>();
    const visit = (file: string): void => {
      if (reached.has(file)) return;
      reached.add(file);
      for (const { from, to, eager } of imports) if (eager && from === file) visit(to);
    };
    visit('src/recipe/config.ts');
    expect(reached).toContain('src/train/advantage.ts');
    const light =
      /^src\/(?:ground|recipe|train)\/|^src\/policy\/lora-targets|^src\/plot\/presets|^rewards\/(?!define|judge)|^src\/series\/intervals/;
    expect([...reached].filter((file) => !light.test(file))).toEqual([]);
    expect(reached.size).toBeLessThan(35);
  });

  /** It learns classes, and refuses examples without one. */
  const NAMES_KINDS = new Set(['src/expcot/class-profile.ts']);

  test('only the files of src/tasks know what a kind of answer is by its name', () => {
    const compared =
      /\bkind\b[^\n;]*[!=]==\s*'(?:anomaly|classification|variates|question)'|\bcase '(?:anomaly|classification|variates|question)'/;
    const elsewhere = ['src', 'datasets', 'eval', 'rewards']
      .flatMap(sources)
      .filter((file) => !file.startsWith('src/tasks/') && !NAMES_KINDS.has(file))
      .filter((file) => compared.test(withoutComments(readFileSync(join(ROOT, file), 'utf8'))));
    expect(elsewhere).toEqual([]);
  });

  test('the top level is the list of the design', () => {
    const git = spawnSync('git', ['ls-files'], { cwd: ROOT, encoding: 'utf8' });
    const tracked = git.status === 0 ? git.stdout.split('\n').filter((name) => name !== '') : [...TOP_LEVEL];
    const names = [...new Set(tracked.map((name) => name.split('/')[0]!))];
    expect(names.filter((name) => !TOP_LEVEL.has(name))).toEqual([]);
  });
});

describe('the layering check itself', () => {
  const found = (text: string): string[] => parseImports('src/policy/x.ts', text).map(({ to }) => to);

  test('sees static, type, dynamic, worker and side-effect imports, and re-exports', () => {
    expect(found("import { a } from '../plot/a.ts';")).toEqual(['src/plot/a.ts']);
    expect(found("import type {\n  B,\n} from '../plot/b.ts';")).toEqual(['src/plot/b.ts']);
    expect(found("type C = import('../plot/c.ts').C;")).toEqual(['src/plot/c.ts']);
    expect(found("await import('../plot/d.ts')")).toEqual(['src/plot/d.ts']);
    expect(found("import './e.ts';")).toEqual(['src/policy/e.ts']);
    expect(found("export * from '../f.ts';")).toEqual(['src/f.ts']);
    expect(found("new Worker(workerUrl('./g.ts', import.meta.url).url)")).toEqual(['src/policy/g.ts']);
  });

  test('does not see comments', () => {
    expect(found("// import '../plot/a.ts'\n/* import '../plot/b.ts' */ const s = '//';")).toEqual([]);
  });

  test('objects to upward and sideways imports', () => {
    const judge = (from: string, to: string): string | null => violation({ from, to, eager: true });
    expect(judge('src/engine/a.ts', 'src/policy/b.ts')).toContain('may not know');
    expect(judge('src/series/a.ts', 'src/plot/b.ts')).toContain('may not know');
    expect(judge('src/train/a.ts', 'rewards/b.ts')).toContain('may not know');
    expect(judge('src/ground/errors.ts', 'src/engine/b.ts')).toContain('may not know');
    expect(judge('src/policy/a.ts', 'src/engine/torch/torch.ts')).toContain('only src/engine/engine.ts');
    expect(judge('src/expcot/a.ts', 'src/series/b.ts')).toBeNull();
    expect(judge('src/commands/a.ts', 'eval/b.ts')).toBeNull();
    expect(judge('src/tasks/a.ts', 'datasets/b.ts')).toContain('may not know');
    expect(judge('src/run/a.ts', 'src/commands/b.ts')).toContain('may not know');
    expect(judge('src/cli.ts', 'src/run/b.ts')).toContain('may not know');
    expect(judge('src/unheard/a.ts', 'src/ground/errors.ts')).toContain('outside of every layer');
    expect(judge('src/commands/data/a.ts', 'src/run/b.ts')).toBeNull();
  });
});
