/** What a fresh clone needs of the package files so that `npm ci` works on any machine. */
import { existsSync, readFileSync } from 'node:fs';
import { join, resolve } from 'node:path';
import { describe, expect, test } from 'vitest';

const ROOT = resolve(import.meta.dirname, '..');

interface Locked {
  readonly version?: string;
  readonly resolved?: string;
  readonly os?: readonly string[];
  readonly optional?: boolean;
  readonly dependencies?: Readonly<Record<string, string>>;
  readonly devDependencies?: Readonly<Record<string, string>>;
  readonly optionalDependencies?: Readonly<Record<string, string>>;
}

interface Manifest extends Locked {
  readonly files: readonly string[];
  readonly scripts: Readonly<Record<string, string>>;
}

const manifest = JSON.parse(readFileSync(join(ROOT, 'package.json'), 'utf8')) as Manifest;
const locked = (
  JSON.parse(readFileSync(join(ROOT, 'package-lock.json'), 'utf8')) as { packages: Record<string, Locked> }
).packages;

/** Whether Node would find `name` from the package at `path` of the lock file. */
function found(path: string, name: string): boolean {
  for (let at = path; ; at = at.slice(0, Math.max(0, at.lastIndexOf('/node_modules/')))) {
    if (locked[`${at === '' ? '' : `${at}/`}node_modules/${name}`] !== undefined) return true;
    if (at === '') return false;
  }
}

describe('package-lock.json', () => {
  test('agrees with package.json', () => {
    expect(locked['']!.dependencies).toEqual(manifest.dependencies);
    expect(locked['']!.devDependencies).toEqual(manifest.devDependencies);
  });

  test('holds every dependency, the optional ones of all platforms included', () => {
    const missing = Object.entries(locked).flatMap(([path, entry]) =>
      Object.keys({ ...entry.dependencies, ...entry.optionalDependencies })
        .filter((name) => !found(path, name))
        .map((name) => `${path} needs ${name}`),
    );
    expect(Object.keys(locked).length).toBeGreaterThan(100);
    expect(missing).toEqual([]);
  });

  test('names no registry, so that each machine uses its own', () => {
    expect(Object.values(locked).filter(({ resolved }) => resolved !== undefined)).toEqual([]);
  });
});

describe('package.json', () => {
  test('ships what the engine is built from, and every listed path exists', () => {
    expect(manifest.files).toEqual(expect.arrayContaining(['src/engine/torch/*.cc', 'src/engine/torch/*.h']));
    const paths = manifest.files.filter((path) => !path.includes('*') && path !== 'dist');
    expect(paths.filter((path) => !existsSync(join(ROOT, path)))).toEqual([]);
  });

  test('the test command checks types and lint, builds, and sets the engine up', () => {
    const { pretest, check } = manifest.scripts;
    expect(pretest).toBe('npm run check && npm run build && npm run setup');
    expect(check).toContain('tsc --noEmit');
    expect(check).toContain('biome check');
  });
});
