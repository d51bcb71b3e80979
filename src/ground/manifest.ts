/**
 * `timeseer.sha256` in a directory that timeseer saved: the SHA-256 of every file there and in its folder `onnx`, in the format of
 * sha256sum (`sha256sum -c timeseer.sha256` checks it too). It is written last, so a directory with it is complete. Loading compares
 * files with it: a bit that flipped on a disk, or a file of another save, is an error. A directory from elsewhere has no manifest and
 * is loaded unchecked. Hashes are taken while files are written; checking them reads every file once, at 1 to 2 GB/s.
 */
import { createHash } from 'node:crypto';
import { closeSync, existsSync, fstatSync, openSync, readdirSync, readSync, statSync } from 'node:fs';
import { join } from 'node:path';
import { CheckpointError, faultOf, reasonOf } from './errors.ts';
import { readUtf8, recordHashes, syncPath, writeDirectoryAtomic, writeFileAtomic } from './files.ts';

export const MANIFEST_FILE = 'timeseer.sha256';

/** Files of a checkpoint that its policy is loaded without; they are checked by what goes on with its training. */
export const TRAINING_FILES: readonly string[] = ['training.json', 'optimizer.safetensors'];

/** SHA-256 by file name, hexadecimal. */
type Hashes = Readonly<Record<string, string>>;

/** Bytes that are read and hashed at once. */
const PIECE = 2 ** 22;

/** Files that loading a policy may read: one that is not in the manifest would change what is loaded. */
const READ = /^[^./][^/]*\.(json|jinja|safetensors)$|^merges\.txt$|^onnx\/[^/]+\.onnx/;

/** Folders whose files a manifest lists beside those of the directory itself. */
const FOLDERS = ['onnx'] as const;

/** @throws CheckpointError when the file cannot be read */
function hashOf(file: string): string {
  const hash = createHash('sha256');
  let handle: number | undefined;
  try {
    handle = openSync(file, 'r');
    const piece = Buffer.allocUnsafe(Math.min(PIECE, Math.max(1, fstatSync(handle).size)));
    for (let got = readSync(handle, piece); got > 0; got = readSync(handle, piece)) {
      hash.update(piece.subarray(0, got));
    }
  } catch (cause) {
    throw new CheckpointError(`${file}: cannot be read (${reasonOf(cause)})`, { cause });
  } finally {
    if (handle !== undefined) closeSync(handle);
  }
  return hash.digest('hex');
}

/** Names of the regular files of a directory and of its `FOLDERS`, sorted. */
function filesIn(directory: string): string[] {
  const folders = FOLDERS.filter((folder) =>
    statSync(join(directory, folder), { throwIfNoEntry: false })?.isDirectory(),
  );
  const names = folders.flatMap((folder) =>
    readdirSync(join(directory, folder)).map((name) => `${folder}/${name}`),
  );
  return [...readdirSync(directory), ...names]
    .filter(
      (name) =>
        name !== MANIFEST_FILE && statSync(join(directory, name), { throwIfNoEntry: false })?.isFile(),
    )
    .sort();
}

/** Writes a directory as `writeDirectoryAtomic` does, with a manifest of the files that `fill` puts there. */
export function writeManifestedDirectory(
  target: string,
  fill: (temporary: string) => void,
  retired?: string,
): void {
  const whole = (temporary: string): void => {
    const places = ['', ...FOLDERS].map((folder) => ({
      prefix: folder === '' ? '' : `${folder}/`,
      ...recordHashes(join(temporary, folder)),
    }));
    try {
      fill(temporary);
    } finally {
      for (const { stop } of places) stop();
    }
    const hashes = new Map(
      places.flatMap(({ prefix, hashes }) => [...hashes].map(([name, hash]) => [prefix + name, hash])),
    );
    const lines = filesIn(temporary).map((name) => {
      const file = join(temporary, name);
      // What was copied there is not on the disk yet, and the manifest would outlast it in a power failure.
      if (!hashes.has(name)) syncPath(file);
      return `${hashes.get(name) ?? hashOf(file)}  ${name}\n`;
    });
    writeFileAtomic(join(temporary, MANIFEST_FILE), lines.join(''));
  };
  writeDirectoryAtomic(target, whole, retired);
}

/**
 * Writes a file into a directory, and into its manifest if it has one. @throws CheckpointError when the
 * manifest is damaged
 */
export function addToManifest(directory: string, name: string, text: string): void {
  const hashes = readManifest(directory);
  writeFileAtomic(join(directory, name), text);
  if (hashes === null) return;
  const all = { ...hashes, [name]: hashOf(join(directory, name)) };
  const lines = Object.keys(all)
    .sort()
    .map((file) => `${all[file]}  ${file}\n`);
  writeFileAtomic(join(directory, MANIFEST_FILE), lines.join(''));
}

/** Reads the manifest of a directory; null where there is none. @throws CheckpointError when it is damaged */
function readManifest(directory: string): Hashes | null {
  const file = join(directory, MANIFEST_FILE);
  if (!existsSync(file)) return null;
  const hashes: Record<string, string> = {};
  let text: string;
  try {
    text = readUtf8(file);
  } catch (cause) {
    throw new CheckpointError(`${file}: cannot be read (${reasonOf(cause)})`, { cause });
  }
  for (const [i, line] of text.replace(/\n$/, '').split('\n').entries()) {
    const [, hash, name] = /^([0-9a-f]{64}) {2}((?:onnx\/)?[^/\\]+)$/.exec(line) ?? [];
    if (hash === undefined || name === undefined) {
      throw new CheckpointError(`${file}:${i + 1}: not a line of sha256sum, the file is damaged`);
    }
    hashes[name] = hash;
  }
  return hashes;
}

/** SHA-256 of every file of a directory, from its manifest or, where it has none, from the files. */
export function hashesIn(directory: string): Hashes {
  return (
    readManifest(directory) ??
    Object.fromEntries(filesIn(directory).map((name) => [name, hashOf(join(directory, name))]))
  );
}

const short = (hash: string): string => `${hash.slice(0, 12)}…`;

/**
 * Describes the first file that differs from the manifest; null if none does, or there is no manifest.
 * `wanted` selects files; default: all.
 */
export function damageOf(directory: string, wanted: (name: string) => boolean = () => true): string | null {
  let manifest: Hashes | null;
  try {
    manifest = readManifest(directory);
  } catch (error) {
    return (error as Error).message;
  }
  if (manifest === null) return null;
  const there = filesIn(directory);
  for (const name of new Set([...Object.keys(manifest), ...there])) {
    if (!wanted(name)) continue;
    const file = join(directory, name);
    const saved = manifest[name];
    if (saved === undefined) {
      if (READ.test(name)) return `${file}: was not saved there, ${MANIFEST_FILE} does not list it`;
      continue;
    }
    if (!there.includes(name)) return `${file}: no such file, but ${MANIFEST_FILE} lists it`;
    const hash = hashOf(file);
    if (hash !== saved) {
      return `${file}: differs from what was saved there (SHA-256 ${short(hash)}, in ${MANIFEST_FILE} ${short(saved)})`;
    }
  }
  return null;
}

/**
 * Compares a directory with its manifest, where it has one.
 * @param wanted selects the files to compare; all but those of training when absent
 * @throws CheckpointError naming the file that differs, and what to do
 */
export function checkFiles(
  directory: string,
  wanted: (name: string) => boolean = (name) => !TRAINING_FILES.includes(name),
): void {
  const damage = damageOf(directory, wanted);
  if (damage === null) return;
  throw new CheckpointError(
    `${damage}; copy the directory again, or, if you changed it on purpose, delete ${join(directory, MANIFEST_FILE)}: it is then loaded as it is`,
  );
}

/**
 * Reads a JSON file that was saved with a policy; null where there is none.
 * @param what name of its content, and the remedy at the end of an error
 * @param parse reads the content; whatever it throws means that the file is damaged, or of another version
 * @throws CheckpointError for such a file, and for one that differs from the manifest
 */
export function readSaved<T>(
  directory: string,
  name: string,
  { what, remedy }: { readonly what: string; readonly remedy: string },
  parse: (content: unknown) => T,
): T | null {
  const file = join(directory, name);
  checkFiles(directory, (other) => other === name);
  if (!existsSync(file)) return null;
  try {
    return parse(JSON.parse(readUtf8(file)));
  } catch (cause) {
    throw new CheckpointError(`${file}: not a ${what} of this version (${faultOf(cause)}); ${remedy}`, {
      cause,
    });
  }
}
