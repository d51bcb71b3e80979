/**
 * What a directory holds after a power failure: power-loss.mjs has kept what was synced. What was not may be there or not, each file
 * and each directory by itself, as `there` decides.
 */
import {
  existsSync,
  lstatSync,
  mkdirSync,
  mkdtempSync,
  readdirSync,
  readFileSync,
  readlinkSync,
  rmSync,
  symlinkSync,
  writeFileSync,
} from 'node:fs';
import { join } from 'node:path';
import { pathToFileURL } from 'node:url';
import { attempt, begun, type Kill, PRELOAD, type Stage } from './harness.ts';

const SHIM = pathToFileURL(join(import.meta.dirname, 'power-loss.mjs')).href;

interface Entry {
  readonly name: string;
  readonly kind: 'file' | 'directory' | 'link';
  /** Key of a file or directory, target of a link. */
  readonly of: string;
}

const keyOf = (path: string): string => {
  const { ino, birthtimeNs } = lstatSync(path, { bigint: true });
  return `${ino}-${birthtimeNs}`;
};

function entriesOf(path: string): Entry[] {
  return readdirSync(path, { withFileTypes: true }).map((entry) => {
    const inner = join(path, entry.name);
    if (entry.isSymbolicLink()) return { name: entry.name, kind: 'link', of: readlinkSync(inner) };
    return { name: entry.name, kind: entry.isDirectory() ? 'directory' : 'file', of: keyOf(inner) };
  });
}

type Content =
  | { readonly kind: 'file'; readonly bytes: Buffer }
  | { readonly kind: 'link'; readonly target: string }
  | { readonly kind: 'directory'; readonly inside: ReadonlyMap<string, Content> };

/** Leaves in `root` what is on the disk. @param there whether the next thing that was not synced is there nevertheless */
function lose(root: string, shadow: string, there: () => boolean): void {
  const now = new Map<string, string>();
  const names = ['', ...readdirSync(root, { recursive: true }).map(String)];
  for (const name of names) now.set(keyOf(join(root, name)), join(root, name));
  const kept = (key: string): Buffer | null =>
    existsSync(join(shadow, key)) ? readFileSync(join(shadow, key)) : null;
  const file = (key: string): Content => {
    const path = now.get(key);
    if (path !== undefined && there()) return { kind: 'file', bytes: readFileSync(path) };
    return { kind: 'file', bytes: kept(key) ?? Buffer.alloc(0) };
  };
  const directory = (key: string): Content => {
    const path = now.get(key);
    const synced = JSON.parse(kept(key)?.toString() ?? '[]') as Entry[];
    const entries = path !== undefined && there() ? entriesOf(path) : synced;
    const inside = entries.map(({ name, kind, of }): [string, Content] => [
      name,
      kind === 'link' ? { kind, target: of } : kind === 'file' ? file(of) : directory(of),
    ]);
    return { kind: 'directory', inside: new Map(inside) };
  };
  const write = (path: string, content: Content): void => {
    if (content.kind === 'file') writeFileSync(path, content.bytes);
    else if (content.kind === 'link') symlinkSync(content.target, path);
    else {
      mkdirSync(path, { recursive: true });
      for (const [name, one] of content.inside) write(join(path, name), one);
    }
  };
  const left = directory(keyOf(root));
  for (const name of readdirSync(root)) rmSync(join(root, name), { recursive: true, force: true });
  write(root, left);
}

/**
 * One attempt at a stage that a power failure ends; `root`, which holds nothing but its directory, is left as the disk has it.
 * @returns whether it came before the end of the stage
 */
export async function loseAt(
  stage: Stage,
  root: string,
  kill: Kill,
  there: () => boolean = () => false,
): Promise<boolean> {
  const shadow = mkdtempSync(`${root}-shadow-`);
  try {
    const { code, err } = await attempt(begun(stage) ? stage.resume : stage.begin, kill, {
      NODE_OPTIONS: `--import ${SHIM} --import ${PRELOAD}`,
      POWER_LOSS: `${root}\n${shadow}`,
    });
    if (code !== null && code !== 0) throw new Error(`ended with ${code}: ${err}`);
    // Killed before all that was there is known to be on the disk, it has not changed anything yet.
    if (code === null && existsSync(join(shadow, 'complete'))) lose(root, shadow, there);
    return code === null;
  } finally {
    rmSync(shadow, { recursive: true, force: true });
  }
}
