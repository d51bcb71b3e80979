/** Where a Worker's program lies: the `.ts` source in development, the `.js` file beside the caller in a build. */
import { createRequire } from 'node:module';
import { pathToFileURL } from 'node:url';

/** What `new Worker(url, { execArgv })` needs. */
export interface WorkerProgram {
  readonly url: URL;
  readonly execArgv: string[];
}

/**
 * The program `name` (relative to `base`, with or without its ending) in the same form as its caller.
 * `base` is the caller's `import.meta.url`: from built code the Worker runs the `.js` file; from a `.ts` file
 * (tsx, Vitest) it runs the `.ts` source through tsx.
 */
export function workerUrl(name: string, base: string | URL): WorkerProgram {
  const stem = name.replace(/\.[cm]?[tj]s$/, '');
  if (!new URL(base).pathname.endsWith('.ts')) return { url: new URL(`${stem}.js`, base), execArgv: [] };
  // Node 20 does not apply `--import` loaders to a Worker's own entry, so a data: module registers tsx first.
  // tsx is resolved from here, not from the working directory, where it may not be installed; `require` names
  // the CommonJS twin, whose registration looks for its hooks in the wrong directory.
  const twin = createRequire(import.meta.url).resolve('tsx/esm/api');
  const loader = pathToFileURL(twin.replace(/\.cjs$/, '.mjs')).href;
  const program = new URL(`${stem}.ts`, base).href;
  const source = `import { register } from ${JSON.stringify(loader)}; register(); await import(${JSON.stringify(program)});`;
  return { url: new URL(`data:text/javascript,${encodeURIComponent(source)}`), execArgv: [] };
}
