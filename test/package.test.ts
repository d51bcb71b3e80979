/** Package files: `npm ci` works on any machine and any npm; test/consumer.soak.ts looks at what is packed. */
import { existsSync, readFileSync } from 'node:fs';
import { join, resolve } from 'node:path';
import { describe, expect, test } from 'vitest';
import { INSTALL_RUNTIME } from '../src/onnx/policy.ts';

const ROOT = resolve(import.meta.dirname, '..');

interface Locked {
  readonly version?: string;
  readonly resolved?: string;
  readonly os?: readonly string[];
  readonly optional?: boolean;
  readonly hasInstallScript?: boolean;
  readonly dependencies?: Readonly<Record<string, string>>;
  readonly devDependencies?: Readonly<Record<string, string>>;
  readonly optionalDependencies?: Readonly<Record<string, string>>;
}

interface Manifest extends Locked {
  readonly files: readonly string[];
  readonly scripts: Readonly<Record<string, string>>;
  readonly allowScripts: Readonly<Record<string, boolean>>;
  readonly repository: { readonly url: string };
  readonly bugs: string;
  readonly homepage: string;
  readonly keywords: readonly string[];
}

const manifest = JSON.parse(readFileSync(join(ROOT, 'package.json'), 'utf8')) as Manifest;
const locked = (
  JSON.parse(readFileSync(join(ROOT, 'package-lock.json'), 'utf8')) as { packages: Record<string, Locked> }
).packages;

/** True if Node resolves `name` from the package at `path` of the lock file. */
function resolves(path: string, name: string): boolean {
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
        .filter((name) => !resolves(path, name))
        .map((name) => `${path} needs ${name}`),
    );
    expect(Object.keys(locked).length).toBeGreaterThan(100);
    expect(missing).toEqual([]);
  });

  test('names no registry, so that each machine uses its own', () => {
    expect(Object.values(locked).filter(({ resolved }) => resolved !== undefined)).toEqual([]);
  });

  // npm before 11.16 knows no `allowScripts`, but runs the scripts only of packages that the lock file marks. That of
  // onnxruntime-node downloads CUDA libraries; where it fails, npm drops the package and reports nothing.
  test('lets no version of npm run the install script of onnxruntime-node', () => {
    expect(locked['node_modules/onnxruntime-node']!.hasInstallScript).toBeUndefined();
    expect(manifest.allowScripts['onnxruntime-node']).toBe(false);
    const { version } = locked['node_modules/onnxruntime-node']!;
    expect(INSTALL_RUNTIME).toBe(`npm install --no-save --ignore-scripts onnxruntime-node@${version}`);
  });

  test('marks install scripts only of packages that allowScripts covers', () => {
    const marked = Object.entries(locked).filter(([, entry]) => entry.hasInstallScript === true);
    const names = marked.map(([path]) =>
      path.slice(path.lastIndexOf('node_modules/') + 'node_modules/'.length),
    );
    expect(names.filter((name) => name !== 'fsevents' && !(name in manifest.allowScripts))).toEqual([]);
  });
});

describe('package.json', () => {
  test('ships what the engine is built from, and every listed path exists', () => {
    expect(manifest.files).toEqual(
      expect.arrayContaining(['src/engine/torch/*.cc', 'src/engine/torch/*.h', 'src/engine/torch/gloo']),
    );
    const paths = manifest.files.filter((path) => !path.includes('*') && path !== 'dist');
    expect(paths.filter((path) => !existsSync(join(ROOT, path)))).toEqual([]);
  });

  test('says where its source, issues and pages are', () => {
    expect(manifest.repository.url).toMatch(/^git\+https:\/\/.*\.git$/);
    for (const address of [manifest.bugs, manifest.homepage]) expect(address).toMatch(/^https:\/\//);
    expect(manifest.keywords.length).toBeGreaterThan(3);
  });

  test('the test command checks types and lint, builds, and sets the engine up', () => {
    const { pretest, check } = manifest.scripts;
    expect(pretest).toBe('npm run check && npm run build && npm run setup');
    expect(check).toContain('tsc --noEmit');
    expect(check).toContain('biome check');
  });
});
