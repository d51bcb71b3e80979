/**
 * Compiles the native addon against a libtorch that was found. A directory of the cache appears whole or not at all, so a
 * process that is killed, or two that build at once, do no harm.
 */
import { spawn } from 'node:child_process';
import { randomBytes } from 'node:crypto';
import {
  closeSync,
  existsSync,
  mkdirSync,
  openSync,
  readdirSync,
  readFileSync,
  rmSync,
  statSync,
} from 'node:fs';
import { rename } from 'node:fs/promises';
import { availableParallelism } from 'node:os';
import { basename, dirname, join } from 'node:path';
import { EngineError } from '../../errors.ts';
import { writeFileAtomic } from '../../files.ts';
import { withLock } from '../../lock.ts';
import { cacheRoot } from '../../paths.ts';
import { ADDON, type AddonOptions, addonSources, type Found, remember, targetPath } from './addon.ts';
import { type Compiler, compileFlags, linkFlags } from './compiler.ts';
import type { Libtorch } from './find.ts';

/** Builds kept in the cache; the least recently made are removed first. */
const KEPT_BUILDS = 16;
/** No build takes this long: a working directory older than that is of a process that was killed. */
const ABANDONED_MS = 3_600_000;

export interface BuildOptions extends AddonOptions {
  readonly log?: (line: string) => void;
}

/** Runs one command with its output appended to `log`; resolves to whether it succeeded. */
function run(command: readonly [string, ...string[]], log: string, env: NodeJS.ProcessEnv): Promise<boolean> {
  const output = openSync(log, 'a');
  return new Promise<boolean>((done) => {
    const child = spawn(command[0], command.slice(1), { env, stdio: ['ignore', output, output] });
    child.on('error', () => done(false));
    child.on('close', (status) => done(status === 0));
  }).finally(() => closeSync(output));
}

/** The lines of a compiler log that say what is wrong. */
function complaint(log: string): string {
  const lines = readFileSync(log, 'utf8').split('\n');
  const errors = lines.filter((line) => /error|cannot find|undefined (symbol|reference)/i.test(line));
  return (errors.length > 0 ? errors : lines.filter((line) => line.trim() !== '')).slice(0, 3).join('\n  ');
}

/** Moves a finished build to its place; another process may have put the same there first. */
async function publish(work: string, target: string): Promise<void> {
  if (existsSync(target)) return;
  rmSync(dirname(target), { recursive: true, force: true });
  try {
    await rename(work, dirname(target));
  } catch (error) {
    if (!existsSync(target)) throw error;
  }
}

async function compile(target: string, found: Found, options: BuildOptions): Promise<void> {
  const env = options.env ?? process.env;
  const { libtorch, compiler } = found;
  const root = cacheRoot(env);
  const work = join(root, `.build-${process.pid}-${randomBytes(4).toString('hex')}`);
  const log = join(work, 'build.log');
  mkdirSync(work, { recursive: true });
  try {
    const sources = options.sources ?? addonSources();
    const objects = sources.map((file) => join(work, `${basename(file, '.cc')}.o`));
    const flags = compileFlags(libtorch, compiler);
    const waiting = sources.map((file, i) => [file, objects[i]!, join(work, `${i}.log`)] as const);
    const results: boolean[] = [];
    const worker = async (): Promise<void> => {
      for (let job = waiting.shift(); job !== undefined; job = waiting.shift()) {
        const [file, object, output] = job;
        results.push(await run([...compiler.command, ...flags, '-c', file, '-o', object], output, env));
      }
    };
    await Promise.all(Array.from({ length: Math.min(availableParallelism(), sources.length) }, worker));
    writeFileAtomic(
      log,
      sources.map((_, i) => readFileSync(join(work, `${i}.log`))),
    );
    const addon = join(work, ADDON);
    const steps: readonly (readonly [what: string, action: () => Promise<boolean> | boolean])[] = [
      ['compile', () => results.every((ok) => ok)],
      ['link', () => run([...compiler.command, ...objects, ...linkFlags(libtorch), '-o', addon], log, env)],
      ['load', () => run([process.execPath, '-e', 'require(process.argv[1])', addon], log, env)],
    ];
    for (const [what, action] of steps) {
      if (await action()) continue;
      const kept = join(root, `${basename(dirname(target))}.log`);
      writeFileAtomic(kept, readFileSync(log));
      throw new EngineError(
        `the engine does not ${what} against libtorch ${libtorch.version} (${libtorch.root}) ` +
          `with ${compiler.version}:\n  ${complaint(log)}\nThe whole output is in ${kept}`,
      );
    }
    for (const file of readdirSync(work)) {
      if (file !== ADDON && file !== 'build.log') rmSync(join(work, file));
    }
    await publish(work, target);
  } finally {
    rmSync(work, { recursive: true, force: true });
  }
}

/** Removes the oldest builds beyond a number, and what builds that were killed left behind. */
function prune(root: string, keep: string): void {
  const entries = readdirSync(root).flatMap((name) => {
    const made = statSync(join(root, name), { throwIfNoEntry: false })?.mtimeMs;
    return made === undefined ? [] : [{ name, path: join(root, name), made }];
  });
  const builds = entries
    .filter(({ name }) => name.startsWith('torch-') && !/\.(log|lock)\b/.test(name))
    .sort((a, b) => b.made - a.made)
    .slice(KEPT_BUILDS)
    .filter(({ path }) => path !== keep);
  const abandoned = entries.filter(
    ({ name, made }) => name.startsWith('.build-') && Date.now() - made > ABANDONED_MS,
  );
  for (const { path } of [...builds, ...abandoned]) rmSync(path, { recursive: true, force: true });
}

/**
 * Builds the addon unless the cache has it; returns its path. Of several processes that build the same at
 * once, one compiles and the others wait. Throws EngineError with the first complaints of the compiler and the
 * name of the log.
 */
export async function buildAddon(
  libtorch: Libtorch,
  compiler: Compiler,
  options: BuildOptions = {},
): Promise<string> {
  const env = options.env ?? process.env;
  const log = options.log ?? (() => {});
  const target = targetPath(libtorch, compiler, options);
  if (!existsSync(target)) {
    const waiting = (file: string): void => log(`waiting for another process that builds the same (${file})`);
    await withLock(`${dirname(target)}.lock`, waiting, async () => {
      if (existsSync(target)) return;
      const start = performance.now();
      log(
        `building the engine against libtorch ${libtorch.version} (${libtorch.root}) with ${compiler.version}`,
      );
      if (libtorch.cuda && libtorch.cudaIncludes.length === 0) {
        log(
          'no headers of the CUDA it was built with (set CUDA_HOME, or pip install nvidia-cuda-crt): the GPU is used, but its work is not recorded ' +
            'in graphs, and its name and memory are unknown',
        );
      }
      await compile(target, { libtorch, compiler }, options);
      log(`built in ${((performance.now() - start) / 1000).toFixed(1)} s: ${target}`);
    });
    prune(cacheRoot(env), dirname(target));
  }
  remember({ libtorch, compiler }, env);
  return target;
}
