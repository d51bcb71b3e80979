/** Packages of TensorFlow.js that are missing, damaged or do not fit together: each is one clear message, and nothing else is printed. */
import { spawnSync } from 'node:child_process';
import { cpSync, mkdirSync, mkdtempSync, realpathSync, rmSync, symlinkSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { dirname, join, resolve } from 'node:path';
import { afterAll, describe, expect, it } from 'vitest';

const SOURCE = resolve(import.meta.dirname, '../..');
const root = mkdtempSync(join(realpathSync(tmpdir()), 'timeseer-packages-'));
afterAll(() => rmSync(root, { recursive: true, force: true }));

const REAL = ['tfjs-core', 'tfjs-backend-wasm'];
let places = 0;
// The only package that the engine's modules import by name.
mkdirSync(join(root, 'node_modules'));
symlinkSync(join(SOURCE, 'node_modules/leven'), join(root, 'node_modules/leven'));

/** Opens the engine in a process that finds these packages: `real`, or a module that stands in for one. */
function open(packages: Readonly<Record<string, string>>, limit = 'true'): string {
  const place = join(root, `${places++}`);
  for (const part of ['engine', 'ground']) {
    cpSync(join(SOURCE, 'dist/src', part), join(place, 'src', part), { recursive: true });
  }
  writeFileSync(join(place, 'package.json'), '{"type": "module"}');
  for (const [name, text] of Object.entries(packages)) {
    const folder = join(place, 'node_modules/@tensorflow', name);
    mkdirSync(dirname(folder), { recursive: true });
    if (text === 'real') symlinkSync(join(SOURCE, 'node_modules/@tensorflow', name), folder);
    else {
      mkdirSync(folder);
      writeFileSync(join(folder, 'package.json'), '{"main": "index.js", "version": "4.10.0"}');
      writeFileSync(join(folder, 'index.js'), text);
    }
  }
  const program = `import('${join(place, 'src/engine/tfjs/tfjs.js')}').then((m) => m.openTfjs()).then(
    (engine) => console.log(engine.info.blas, engine.info.version),
    (error) => console.log(error.constructor.name + ': ' + error.message))`;
  const shell = `${limit}; exec "$0" -e "$1"`;
  const { stdout, stderr } = spawnSync('bash', ['-c', shell, process.execPath, program], {
    encoding: 'utf8',
  });
  return stdout + stderr;
}

const real = Object.fromEntries(REAL.map((name) => [name, 'real']));
const NODE = `exports.version = { 'tfjs-core': '4.22.0', tfjs: '4.22.0', 'tfjs-node': '4.22.0' };
exports.setBackend = async () => true;
exports.tensor2d = (values) => ({ values, dispose() {}, dataSync: () => values });
exports.matMul = ({ values: a }, { values: b }) => exports.tensor2d([0, 1, 2, 3].map((i) => {
  const [row, column] = [2 * (i >> 1), i & 1];
  return a[row] * b[column] + a[row + 1] * b[2 + column];
}));`;

describe('the tfjs engine opens', () => {
  it('over WebAssembly, or over native TensorFlow where that is installed', () => {
    expect(open(real)).toBe('@tensorflow/tfjs-backend-wasm 4.22.0\n');
    expect(open({ ...real, 'tfjs-node': NODE })).toBe('@tensorflow/tfjs-node 4.22.0\n');
    expect(open({ 'tfjs-node-gpu': NODE, 'tfjs-node': 'throw 1' })).toBe(
      '@tensorflow/tfjs-node-gpu 4.22.0\n',
    );
  });

  it.each<[string, Readonly<Record<string, string>>, RegExp]>([
    ['no package', {}, /the tfjs engine needs TensorFlow\.js; npm install @tensorflow\/tfjs-core@4\.22\.0 @/],
    [
      'wasm of another version',
      { 'tfjs-core': 'real', 'tfjs-backend-wasm': "exports.version_wasm = '4.10.0'" },
      /do not fit together: @tensorflow\/tfjs-core 4\.22\.0, @tensorflow\/tfjs-backend-wasm 4\.10\.0; npm install @/,
    ],
    [
      'wasm that brings no backend',
      { 'tfjs-core': 'real', 'tfjs-backend-wasm': "exports.version_wasm = '4.22.0'" },
      /tfjs-backend-wasm does not start: .*wasm.*; npm install @/,
    ],
    [
      'another core below tfjs-node',
      { ...real, 'tfjs-node': NODE.replace("'tfjs-core': '4.22.0'", "'tfjs-core': '3.9.0'") },
      /do not fit together: @tensorflow\/tfjs-node 4\.22\.0, .*tfjs-core 3\.9\.0; install it again \(npm install @tensorflow\/tfjs-node@4\.22\.0\) or remove it/,
    ],
    [
      'tfjs-node that does not start',
      { ...real, 'tfjs-node': NODE.replace('true', 'false') },
      /tfjs-node 4\.22\.0 does not start: no backend tensorflow; install it again/,
    ],
    [
      'tfjs-node that states its version in package.json alone',
      { ...real, 'tfjs-node': NODE.replace('true', 'false').replace(/^exports\.version = .*/, '') },
      /tfjs-node 4\.10\.0 does not start: no backend tensorflow; install it again/,
    ],
    [
      'tfjs-node without the kernel',
      {
        ...real,
        'tfjs-node': `${NODE}; exports.matMul = () => { throw new Error("Kernel 'BatchMatMul' not registered") }`,
      },
      /tfjs-node 4\.22\.0 cannot multiply matrices: Kernel 'BatchMatMul' not registered; install it again/,
    ],
    [
      'tfjs-node that multiplies wrongly',
      { ...real, 'tfjs-node': `${NODE}; exports.matMul = (a) => a` },
      /tfjs-node 4\.22\.0 cannot multiply matrices: a product is 1,2,3,4, not 19,22,43,50;/,
    ],
    [
      'tfjs-node without its library',
      { ...real, 'tfjs-node': 'throw new Error("libtensorflow.so.2: cannot open shared object file")' },
      /tfjs-node is installed and does not load: libtensorflow\.so\.2: .*; install it again \(npm install @tensorflow\/tfjs-node@4\.22\.0\) or remove it/,
    ],
  ])('not with %s', (_, packages, message) => {
    const said = open(packages);
    expect(said).toMatch(message);
    expect(said).toMatch(/^EngineError: .*\n$/);
  });

  it.runIf(process.platform === 'linux')('not in too little memory, which is not taken for a version', () => {
    for (const gigabytes of [1.2, 6]) {
      expect(open(real, `ulimit -v ${1e6 * gigabytes}`)).toMatch(/^EngineError: .*memory.*ulimit -v\)\n$/);
    }
  });
});
