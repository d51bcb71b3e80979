/** Compiles simd.ts to bytes.ts, the WebAssembly that the package loads: run by `npm run build`. */
import { readFileSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { pathToFileURL } from 'node:url';
import asc from 'assemblyscript/asc';

const FLAGS = ['-O3', '--noAssert', '--runtime', 'stub', '--enable', 'simd', '--importMemory'];

/** Text of bytes.ts. */
export async function compile() {
  let bytes = new Uint8Array();
  const { error, stderr } = await asc.main(['simd.ts', '--outFile', 'simd.wasm', ...FLAGS], {
    readFile: (name) => (name === 'simd.ts' ? readFileSync(join(import.meta.dirname, name), 'utf8') : null),
    writeFile: (_, contents) => {
      bytes = contents;
    },
    listFiles: () => [],
  });
  if (error !== null) throw new Error(`simd.ts does not compile: ${stderr.toString()}`);
  const lines = Buffer.from(bytes)
    .toString('base64')
    .match(/.{1,96}/g);
  const text = lines.map((line) => `  '${line}',`).join('\n');
  const about = '/** SIMD kernels as WebAssembly, in base64. Written by the build from simd.ts. */';
  return `${about}\nexport const BYTES = [\n${text}\n].join('');\n`;
}

if (import.meta.url === pathToFileURL(process.argv[1]).href) {
  const file = join(import.meta.dirname, 'bytes.ts');
  const text = await compile();
  if (text !== readFileSync(file, 'utf8')) writeFileSync(file, text);
}
