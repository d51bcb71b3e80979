/** The package as a project that depends on it has it: what npm packs, its types, and its functions. */
import { execFileSync, spawnSync } from 'node:child_process';
import { mkdirSync, mkdtempSync, readFileSync, rmSync, symlinkSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { dirname, join, resolve } from 'node:path';
import { afterAll, beforeAll, expect, test } from 'vitest';

interface Packed {
  readonly filename: string;
  readonly files: readonly { readonly path: string }[];
}

const ROOT = resolve(import.meta.dirname, '..');
const project = mkdtempSync(join(tmpdir(), 'timeseer-consumer-'));
const installed = join(project, 'node_modules/timeseer');
/** Paths in the package. */
let paths: readonly string[] = [];
const write = (name: string, text: string): void => writeFileSync(join(project, name), text);

beforeAll(() => {
  const packed = execFileSync('npm', ['pack', '--ignore-scripts', '--json', '--pack-destination', project], {
    cwd: ROOT,
    encoding: 'utf8',
    stdio: ['ignore', 'pipe', 'ignore'],
    maxBuffer: 1e8,
  });
  const [{ filename, files }] = Object.values(JSON.parse(packed) as Record<string, Packed>) as [Packed];
  paths = files.map(({ path }) => path);
  mkdirSync(installed, { recursive: true });
  execFileSync('tar', ['-xzf', join(project, filename), '-C', installed, '--strip-components=1']);
  symlinkSync(join(ROOT, 'node_modules'), join(installed, 'node_modules'));
  write('package.json', '{ "name": "consumer", "private": true, "type": "module" }\n');
  write(
    'brief.ts',
    `import { defineReward } from 'timeseer';

/** Short responses, where there is nothing to tell. */
export default defineReward({
  name: 'brief',
  score({ text, gold }) {
    if (gold.kind !== 'anomaly' || gold.intervals.length > 0) return null;
    return { total: Math.max(0, 1 - text.length / 400), parts: { letters: text.length } };
  },
});
`,
  );
  write(
    'program.ts',
    `import {
  affiliation, analyse, ConfigError, defineDetector, definePolicy, defineTask, encodePng, type Evaluation, evaluate, explain,
  type Interval, localisation, openPolicy, pointF1, render, runRecipe,
} from 'timeseer';
import { pelt } from 'timeseer/series';
import brief from './brief.ts';

export const spikes = defineDetector({
  name: 'spikes',
  detect: ({ channels: [values] }) => ({
    intervals: [...values!].flatMap((x, i): Interval[] => (x > 5 ? [[i, i + 1]] : [])),
  }),
});
export const polite = definePolicy({ name: 'polite', answer: async ({ instruction }) => instruction.slice(0, 10) });
export const valves = defineTask({
  name: 'valves',
  kind: 'anomaly',
  *examples({ seed }) {
    yield { values: [0, 0, seed, 0], intervals: [[2, 3]], class: 'global point' };
    yield { values: new Float32Array(4), intervals: [] };
  },
});
export const asked = defineTask({
  name: 'asked',
  kind: 'question',
  // @ts-expect-error: a question has an answer
  examples: async () => [{ channels: [[1, 2]], question: 'Does it rise?', options: ['yes', 'no'] }],
});
const wave = Float64Array.from({ length: 200 }, (_, i) => Math.sin(i / 5) + (i === 77 ? 9 : 0));
const picture = await render(wave);
const found = await analyse(wave);
const gold: Interval[] = [[70, 90]];
let refused = '';
try {
  await render(wave, 'no-such-figure');
} catch (error) {
  if (error instanceof ConfigError) refused = error.message;
}
// Only for their types here: they take a trained policy.
export const later = async (): Promise<readonly [Evaluation, string]> => {
  const policy = await openPolicy('runs/a');
  const [first] = await policy.ask({ prompt: 'What is this?', pictures: [picture] });
  await runRecipe({ out: 'runs/b', reward: ['task', './brief.ts'] });
  await explain('a.csv', { column: 'x' } as never);
  return [await evaluate({ policy: 'runs/a', task: ['ctu'], count: 3 }), first!.text];
};
console.log(JSON.stringify({
  reward: brief.name,
  spikes: spikes.name,
  valves: valves.kind,
  recall: localisation([[72, 82]], gold, 200).recall,
  near: affiliation([[72, 82]], gold, [0, 200]).f1 > 0.9,
  f1: pointF1([[72, 82]], gold),
  png: (await encodePng(picture)).subarray(1, 4).toString(),
  evidence: typeof found,
  changes: pelt(wave).changes.length >= 0,
  refused: refused.includes('no-such-figure'),
}));
`,
  );
  const options = {
    ...{ module: 'nodenext', target: 'es2022', strict: true, exactOptionalPropertyTypes: true },
    ...{ rewriteRelativeImportExtensions: true, outDir: 'built', rootDir: '.', types: ['node'] },
    typeRoots: [join(ROOT, 'node_modules/@types')],
  };
  write('tsconfig.json', JSON.stringify({ compilerOptions: options, files: ['program.ts'] }));
});
afterAll(() => rmSync(project, { recursive: true, force: true }));

test('a project that depends on the package compiles against its types, and its functions work', () => {
  const compiled = spawnSync(join(ROOT, 'node_modules/.bin/tsc'), ['-p', project], { encoding: 'utf8' });
  expect(compiled.stdout).toBe('');
  const printed = execFileSync(process.execPath, [join(project, 'built/program.js')], { encoding: 'utf8' });
  expect(JSON.parse(printed)).toEqual({
    reward: 'brief',
    spikes: 'spikes',
    valves: 'anomaly',
    recall: 0.5,
    near: true,
    f1: 2 / 3,
    png: 'PNG',
    evidence: 'object',
    changes: true,
    refused: true,
  });
});

test('every file that a packed README links to is packed', () => {
  const missing = paths
    .filter((path) => path.endsWith('README.md'))
    .flatMap((page) =>
      [...readFileSync(join(installed, page), 'utf8').matchAll(/\]\((?!https?:|#)([^)#\s]+)/g)]
        .map(([, link]) => join(dirname(page), link!).replace(/\/$/, ''))
        .filter((link) => !paths.some((path) => path === link || path.startsWith(`${link}/`)))
        .map((link) => `${page} links to ${link}`),
    );
  expect(paths).toContain('datasets/README.md');
  expect(missing).toEqual([]);
});
