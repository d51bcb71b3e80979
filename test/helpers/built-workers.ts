/**
 * In tests, Workers of the product run its built form, as they do for users: to compile every module in every Worker takes most
 * of the time of the tests that start some. Workers of the tests' own are run from their source.
 */
import { existsSync } from 'node:fs';
import { resolve } from 'node:path';
import { fileURLToPath, pathToFileURL } from 'node:url';
import { vi } from 'vitest';

const ROOT = resolve(import.meta.dirname, '../..');

/** Where the built form of a module lies; the module itself where it has none. */
function built(module: string | URL): string | URL {
  const path = fileURLToPath(module);
  if (!path.startsWith(ROOT)) return module;
  const target = resolve(ROOT, 'dist', path.slice(ROOT.length + 1).replace(/\.ts$/, '.js'));
  return existsSync(target) ? pathToFileURL(target) : module;
}

vi.mock('../../src/ground/paths.ts', async (original) => {
  const real = await original<typeof import('../../src/ground/paths.ts')>();
  const workerUrl: typeof real.workerUrl = (name, base) => real.workerUrl(name, built(base));
  return { ...real, workerUrl };
});
