/** Kernels that OpenBLAS is asked for, on processors and libraries that were seen, and that it takes them. */
import { spawnSync } from 'node:child_process';
import { cpSync, mkdirSync, mkdtempSync, readdirSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { basename, dirname, join, resolve } from 'node:path';
import { pathToFileURL } from 'node:url';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { addonPath } from '../../src/engine/torch/build.ts';
import { betterKernel, candidates, chosenKernel, probe, processor } from '../../src/engine/torch/kernel.ts';
import { cacheRoot } from '../../src/ground/paths.ts';

// Measured on a processor of this model with Debian's OpenBLAS 0.3.21, which does not know it.

/** Names the kernels that the engine of a process computes with: opened in its main thread, or first in a Worker. */
const OPEN = `
const { SHARE_ENV, Worker, isMainThread } = require('node:worker_threads');
const url = process.env.ENGINE;
const open = "import(" + JSON.stringify(url) + ").then(({ openTorch }) => process.stdout.write(openTorch().info.blas))";
if (process.argv[1] === 'worker') new Worker(open, { eval: true, env: SHARE_ENV });
else eval(open);
`;

const addon = addonPath();
const openBlas =
  processor().instructions === 'AVX-512' || processor().instructions === 'AVX2'
    ? probe(addon, 'Sandybridge')
    : null;

describe.skipIf(openBlas?.kernel !== 'Sandybridge')('a process that opens the engine', () => {
  let cache = '';
  let record = '';
  beforeAll(() => {
    chosenKernel(addon);
    cache = mkdtempSync(join(tmpdir(), 'timeseer-kernel-'));
    for (const name of readdirSync(cacheRoot()).filter((file) => file.startsWith('found-')))
      cpSync(join(cacheRoot(), name), join(cache, name));
    const directory = join(cache, basename(dirname(addon)));
    mkdirSync(directory);
    cpSync(dirname(addon), directory, { recursive: true });
    record = join(directory, 'kernel.json');
    const known = JSON.parse(readFileSync(record, 'utf8'));
    writeFileSync(record, JSON.stringify({ ...known, chosen: 'Sandybridge' }));
  });
  afterAll(() => rmSync(cache, { recursive: true, force: true }));

  const blas = (where: string, wished: string): string => {
    const engine = pathToFileURL(resolve(import.meta.dirname, '../../dist/src/engine/torch/torch.js')).href;
    const env = { ...process.env, ENGINE: engine, TIMESEER_CACHE: cache, OPENBLAS_CORETYPE: wished };
    return spawnSync(process.execPath, ['-e', OPEN, where], { encoding: 'utf8', env }).stdout;
  };

  it('would find better kernels than those of a processor without AVX', () => {
    const better = betterKernel(processor(), probe(addon, 'Prescott')!, (kernel) => probe(addon, kernel));
    expect(candidates(processor())).toContain(better);
  });

  it('takes the kernels that were chosen, in its main thread and in a Worker', () => {
    expect(blas('main', '')).toContain('(Sandybridge)');
    expect(blas('worker', '')).toContain('(Sandybridge)');
  });

  it("takes the user's kernels before those that were chosen", () => {
    expect(blas('main', 'Nehalem')).toContain('(Nehalem)');
  });

  it('looks again when the matrix library is another file than it was', () => {
    const known = JSON.parse(readFileSync(record, 'utf8'));
    const [stamp] = known.stamps;
    writeFileSync(record, JSON.stringify({ ...known, stamps: [{ ...stamp, modified: stamp.modified + 1 }] }));
    expect(blas('main', '')).toContain(`(${chosenKernel(addon) ?? known.own})`);
    expect(JSON.parse(readFileSync(record, 'utf8'))).toEqual({ ...known, chosen: chosenKernel(addon) });
  });
});
