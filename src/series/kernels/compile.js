/**
 * Compiles the SIMD kernels of each directory, simd.ts, to bytes.ts, the WebAssembly that the package loads, where simd.ts has changed:
 * run by `npm run build`.
 */
import { createHash } from 'node:crypto';
import { existsSync, readFileSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { pathToFileURL } from 'node:url';

const FLAGS = ['-O3', '--noAssert', '--runtime', 'stub', '--enable', 'simd', '--importMemory'];
const DIRECTORIES = ['.', '../../engine/tfjs/kernels'].map((path) => join(import.meta.dirname, path));

const read = (directory) => readFileSync(join(directory, 'simd.ts'), 'utf8');

/** First lines of bytes.ts, by which it is known to belong to simd.ts. */
const headOf = (source) => `/**
 * SIMD kernels as WebAssembly, in base64. Written by the build from simd.ts:
 * ${createHash('sha256')
   .update(JSON.stringify([source, FLAGS]))
   .digest('hex')}
 */
`;

/** Text of bytes.ts of a directory. */
export async function compile(directory) {
  const { default: asc } = await import('assemblyscript/asc');
  const source = read(directory);
  let bytes = new Uint8Array();
  const { error, stderr } = await asc.main(['simd.ts', '--outFile', 'simd.wasm', ...FLAGS], {
    readFile: (name) => (name === 'simd.ts' ? source : null),
    writeFile: (_, contents) => {
      bytes = contents;
    },
    listFiles: () => [],
  });
  if (error !== null) throw new Error(`simd.ts does not compile: ${stderr.toString()}`);
  const lines = Buffer.from(bytes)
    .toString('base64')
    .match(/.{1,96}/g);
  return `${headOf(source)}export const BYTES = [\n${lines.map((line) => `  '${line}',`).join('\n')}\n].join('');\n`;
}

if (import.meta.url === pathToFileURL(process.argv[1] ?? '').href) {
  for (const directory of DIRECTORIES) {
    const file = join(directory, 'bytes.ts');
    if (existsSync(file) && readFileSync(file, 'utf8').startsWith(headOf(read(directory)))) continue;
    writeFileSync(file, await compile(directory));
  }
}
