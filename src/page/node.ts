/**
 * Node's modules in a browser, as far as reader, detector, report and policy need them: the one seam between the code of the command and
 * the page. The bundler (bundle.js) puts this file in the place of every `node:` module and of the globals of Node. Files are held in
 * memory; everything that writes or asks the system is refused.
 */
import { sha256 } from '@noble/hashes/sha2.js';
import { Buffer } from 'buffer/';
import { unzlibSync, zlibSync } from 'fflate';

// Code that is generated at run time is forbidden by the page's content-security policy.
Object.assign(globalThis, { __zod_globalConfig: { jitless: true } });

const files = new Map<string, Uint8Array>();

/** Puts a file into memory under an absolute path. */
export const mount = (path: string, bytes: Uint8Array): unknown => files.set(path, bytes);

const refuse = (): never => {
  throw new Error('not possible in a browser');
};

// node:fs

interface Stat {
  readonly size: number;
  readonly isFile: () => boolean;
  readonly isDirectory: () => boolean;
  readonly isFIFO: () => boolean;
}

const missing = (path: string): Error =>
  Object.assign(new Error(`ENOENT: no such file, '${path}'`), { code: 'ENOENT', syscall: 'open', path });

const inside = (directory: string): string[] =>
  [...files.keys()].filter((path) => path.startsWith(`${resolve(directory)}/`));

export function statSync(path: string, { throwIfNoEntry = true } = {}): Stat | undefined {
  const size = files.get(resolve(path))?.length;
  if (size === undefined && inside(path).length === 0) {
    if (throwIfNoEntry) throw missing(path);
    return undefined;
  }
  return {
    size: size ?? 0,
    isFile: () => size !== undefined,
    isDirectory: () => size === undefined,
    isFIFO: () => false,
  };
}

export const existsSync = (path: string): boolean => statSync(path, { throwIfNoEntry: false }) !== undefined;

export const readdirSync = (directory: string): string[] => [
  ...new Set(inside(directory).map((path) => path.slice(resolve(directory).length + 1).split('/')[0]!)),
];

/** Open files: bytes, and the place of the next read. */
const handles: { readonly bytes: Uint8Array; at: number }[] = [];

export function openSync(path: string): number {
  const bytes = files.get(resolve(path));
  if (bytes === undefined) throw missing(path);
  return handles.push({ bytes, at: 0 }) - 1;
}

export const fstatSync = (handle: number) => ({ size: handles[handle]!.bytes.length, isFile: () => true });

export function readSync(handle: number, into: Uint8Array): number {
  const file = handles[handle]!;
  const part = file.bytes.subarray(file.at, file.at + into.length);
  into.set(part);
  file.at += part.length;
  return part.length;
}

export function readFileSync(file: string | number, encoding?: 'utf8'): Buffer | string {
  const { bytes } = handles[typeof file === 'number' ? file : openSync(file)]!;
  return encoding === undefined ? Buffer.from(bytes) : new TextDecoder().decode(bytes);
}

export const closeSync = (): void => {};
export const realpathSync = (path: string): string => path;
export const constants = { O_RDONLY: 0 };
export {
  refuse as deflate,
  refuse as fsyncSync,
  refuse as mkdirSync,
  refuse as readlinkSync,
  refuse as receiveMessageOnPort,
  refuse as renameSync,
  refuse as rmSync,
  refuse as symlinkSync,
  refuse as writeFileSync,
  refuse as writeSync,
};

// node:path

export const sep = '/';
export const isAbsolute = (path: string): boolean => path.startsWith('/');

export function join(...parts: readonly string[]): string {
  const names: string[] = [];
  const whole = parts.filter((part) => part !== '').join('/');
  for (const name of whole.split('/')) {
    if (name === '..') names.pop();
    else if (name !== '' && name !== '.') names.push(name);
  }
  return (isAbsolute(whole) ? '/' : '') + names.join('/');
}

export const resolve = (...parts: readonly string[]): string => join('/', ...parts);
export const basename = (path: string): string => path.slice(path.lastIndexOf('/') + 1);
export const dirname = (path: string): string => path.slice(0, Math.max(1, path.lastIndexOf('/')));
export const parse = (path: string) => ({ name: basename(path).replace(/(?<=.)\.[^.]*$/, '') });
export const relative = refuse;

// node:crypto, node:zlib

export function createHash() {
  const state = sha256.create();
  const hash = {
    update(data: Uint8Array | string) {
      state.update(typeof data === 'string' ? new TextEncoder().encode(data) : data);
      return hash;
    },
    digest: (encoding: 'hex' | 'base64') => Buffer.from(state.digest()).toString(encoding),
  };
  return hash;
}

const CRC = Int32Array.from({ length: 256 }, (_, byte) => {
  let value = byte;
  for (let bit = 0; bit < 8; bit++) value = value & 1 ? (value >>> 1) ^ 0xedb88320 : value >>> 1;
  return value;
});

/** CRC-32 of PNG. */
export const crc32 = (bytes: Uint8Array): number =>
  ~bytes.reduce((crc, byte) => CRC[(crc ^ byte) & 0xff]! ^ (crc >>> 8), -1) >>> 0;

export const deflateSync = (bytes: Uint8Array, { level }: { readonly level: 4 }): Uint8Array =>
  zlibSync(bytes, { level });
export const inflateSync = (bytes: Uint8Array): Uint8Array => unzlibSync(bytes);

// node:module, node:url, node:os, node:util, node:perf_hooks, node:worker_threads, node:timers/promises, globals

export const createRequire = () => ({ resolve: (name: string): string => `/node_modules/${name}` });
export const fileURLToPath = (url: string): string => new URL(url).pathname;
export const pathToFileURL = (path: string): URL => new URL(path, 'file:///');
export const hostname = (): string => 'browser';
export const homedir = (): string => '/';
export const tmpdir = homedir;
export const promisify = <T>(body: T): T => body;
export const { performance, MessageChannel } = globalThis;
export { MessageChannel as Worker };
export const parentPort = null;

/** Calls back, or resolves, once messages that wait have been handled. */
export function setImmediate(then?: () => void): Promise<void> | undefined {
  if (then === undefined) return new Promise((done) => setTimeout(done));
  setTimeout(then);
  return undefined;
}

export { Buffer };
export const process = {
  env: {},
  argv: [],
  pid: 0,
  platform: 'browser',
  kill: refuse,
  stderr: { write: (text: string) => console.info(text) },
};
