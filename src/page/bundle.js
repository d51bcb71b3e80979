/**
 * Bundles the programs of the page with esbuild into dist/page: run by `npm run build`, because users have neither esbuild nor
 * onnxruntime-web. Writes `app.js` (the page), `worker.js`, `onnxruntime.wasm.gz` and `licenses.txt` (of the packages within).
 */
import { existsSync, mkdirSync, readdirSync, readFileSync, statSync, writeFileSync } from 'node:fs';
import { createRequire } from 'node:module';
import { join, resolve } from 'node:path';
import { gzipSync } from 'node:zlib';
import { build } from 'esbuild';

const SOURCES = import.meta.dirname;
const OUT = join(SOURCES, '../../dist/page');

/** Modules that nothing in a page calls: they are left out, with what they need of Node. */
const ABSENT =
  /\/(?:endpoint|inspect)\/|\/ground\/(?:lock|module-host|progress|user-code|user-module)\.|\/plot\/(?:canvas|vega-raster)\.|\/answer\/open\.|\/readers\/formats\./;

/** Puts node.ts and runtime.ts in the place of Node's modules, and drops modules of ours that nothing is imported from. */
const browser = {
  name: 'browser',
  setup(bundler) {
    bundler.onResolve({ filter: /^node:/ }, () => ({ path: join(SOURCES, 'node.ts') }));
    bundler.onResolve({ filter: /^onnxruntime-node$/ }, () => ({ path: join(SOURCES, 'runtime.ts') }));
    bundler.onResolve({ filter: /^\.\.?\// }, ({ path, resolveDir, importer }) => {
      if (importer.includes('node_modules')) return undefined;
      const target = resolve(resolveDir, path);
      return { path: target, external: ABSENT.test(target), sideEffects: false };
    });
  },
};

const options = {
  ...{ bundle: true, minify: true, legalComments: 'none', logLevel: 'error', outdir: OUT },
  ...{ format: 'iife', platform: 'browser', target: 'es2022' },
};
mkdirSync(OUT, { recursive: true });
await build({ ...options, entryPoints: [join(SOURCES, 'app.js')] });
const require = createRequire(import.meta.url);

/** Bundles the Worker with a build of onnxruntime-web, whose WebAssembly is packed beside it. Returns the files within. */
async function bundleWorker(name, runtime, wasm) {
  const { metafile } = await build({
    ...{ ...options, metafile: true, plugins: [browser], inject: [join(SOURCES, 'node.ts')] },
    entryPoints: { [`worker${name}`]: join(SOURCES, 'worker.ts') },
    alias: { 'onnxruntime-web/wasm': runtime },
    define: { 'import.meta.url': '"page:///src/page/worker.js"', WEBGPU: String(name === '-webgpu') },
  });
  const absent = Object.values(metafile.outputs)
    .flatMap(({ imports }) => imports)
    .find(({ kind }) => kind !== 'dynamic-import');
  if (absent !== undefined) throw new Error(`${absent.path}: the page needs it; see ABSENT in bundle.js`);
  const binary = require.resolve(`onnxruntime-web/${wasm}`);
  const packed = join(OUT, `onnxruntime${name}.wasm.gz`);
  // Packing takes a second.
  if (!existsSync(packed) || statSync(packed).mtimeMs < statSync(binary).ctimeMs)
    writeFileSync(packed, gzipSync(readFileSync(binary), { level: 9 }));
  return [...Object.keys(metafile.inputs).map((path) => resolve(path)), binary];
}

const files = [
  ...(await bundleWorker('', 'onnxruntime-web/wasm', 'ort-wasm-simd-threaded.wasm')),
  ...(await bundleWorker('-webgpu', 'onnxruntime-web/webgpu', 'ort-wasm-simd-threaded.asyncify.wasm')),
];

/** Directory of an installed package. */
const packageOf = (path) => /^.*node_modules\/(?:@[^/]+\/)?[^/]+/.exec(path.replaceAll('\\', '/'))[0];
const within = files.filter((path) => path.includes('node_modules'));
const licenses = [...new Set(within.map(packageOf))].sort();
const texts = licenses.map((directory) => {
  const { name, version, license } = JSON.parse(readFileSync(join(directory, 'package.json'), 'utf8'));
  const file = readdirSync(directory).find((entry) => /^licen[cs]e/i.test(entry));
  return `${name} ${version}: ${license}\n\n${file === undefined ? '' : readFileSync(join(directory, file), 'utf8')}`;
});
writeFileSync(join(OUT, 'licenses.txt'), texts.join(`\n${'-'.repeat(80)}\n\n`));
