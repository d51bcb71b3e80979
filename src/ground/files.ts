/** Atomic writes, and reads of regular files of bounded size. */
import { createHash } from 'node:crypto';
import {
  closeSync,
  constants,
  existsSync,
  fstatSync,
  fsyncSync,
  mkdirSync,
  openSync,
  readdirSync,
  readFileSync,
  readlinkSync,
  readSync,
  realpathSync,
  renameSync,
  rmSync,
  type Stats,
  statSync,
  symlinkSync,
  writeFileSync,
  writeSync,
} from 'node:fs';
import { hostname } from 'node:os';
import { basename, dirname, isAbsolute, join, relative, resolve, sep } from 'node:path';
import { ConfigError, DataError, isKnown, reasonOf, TimeseerError } from './errors.ts';
import { cacheRoot } from './paths.ts';

/** A file could not be written: full disk, missing permission. The target is unchanged. */
export class WriteError extends TimeseerError {}

/** The system refuses what the work needs: a file cannot be opened, read or removed. */
export class SystemError extends TimeseerError {}

function isInCache(path: string): boolean {
  try {
    return resolve(path).startsWith(cacheRoot());
  } catch {
    return false; // there is no cache where there is no home directory
  }
}

/** Runs and evaluations that have begun are refused without --resume. */
const AGAIN = 'run the command again (a run, a study, an evaluation: with --resume)';

/** Advice for an unusable file or directory; null where the reason is enough. */
function remedy(path: string, code: string | undefined): string | null {
  const elsewhere = isInCache(path) ? 'name another cache in TIMESEER_CACHE' : 'choose another place (--out)';
  switch (code) {
    case 'ENOSPC':
    case 'EDQUOT':
      return `free some space and ${AGAIN}`;
    case 'EACCES':
    case 'EPERM':
    case 'EROFS':
    case 'EEXIST':
    case 'ENOTDIR':
      return elsewhere;
    case 'ENAMETOOLONG':
      return 'choose a shorter one';
    case 'EMFILE':
    case 'ENFILE':
      return `allow more with \`ulimit -n 4096\` and ${AGAIN}`;
    default:
      return null;
  }
}

/** Error message for a failed write to `path`: cause in words, and advice. */
export function notWritten(path: string, cause: unknown): WriteError {
  const help = remedy(path, (cause as NodeJS.ErrnoException).code);
  const why = `${reasonOf(cause)}${help === null ? '' : `: ${help}`}`;
  const kept = existsSync(path) ? '; the previous content is unchanged' : '';
  return new WriteError(`${path}: not written (${why})${kept}`, { cause });
}

/**
 * Describes an unexpected refusal of the operating system in one line: place, reason, remedy. Null for any
 * other error.
 */
export function systemError(error: unknown): SystemError | null {
  if (!(error instanceof Error)) return null;
  const { code, syscall, path } = error as NodeJS.ErrnoException;
  if (syscall === undefined || !isKnown(code)) return null;
  const help = remedy(path ?? '', code);
  return new SystemError(`${path ?? syscall}: ${reasonOf(error)}${help === null ? '' : `; ${help}`}`, {
    cause: error,
  });
}

// Names of locks and temporary files hold the process that made them: machine, boot, process namespace
// (containers number their own processes), id and start time, so that a reused id is not mistaken for it.

/** Reads a system file; empty where there is none. */
function readOrEmpty(read: () => string): string {
  try {
    return read();
  } catch {
    return '';
  }
}

/** Identity of the namespace in which process ids are comparable: 8 hexadecimal digits. */
const place = createHash('sha256')
  .update(hostname())
  .update(readOrEmpty(() => readFileSync('/proc/sys/kernel/random/boot_id', 'utf8')))
  .update(readOrEmpty(() => readlinkSync('/proc/self/ns/pid')))
  .digest('hex')
  .slice(0, 8);

/** Clock ticks from the boot to the start of a process; 0 where the system does not say, null when the process has ended. */
function startOf(pid: number): number | null {
  try {
    process.kill(pid, 0);
  } catch (error) {
    if ((error as NodeJS.ErrnoException).code !== 'EPERM') return null;
  }
  const stat = readOrEmpty(() => readFileSync(`/proc/${pid}/stat`, 'utf8'));
  // The second field is the name in parentheses, which may hold anything.
  const fields = stat.slice(stat.lastIndexOf(')') + 2).split(' ');
  if (fields[0] === 'Z' || fields[0] === 'X') return null; // killed, and not yet waited for by its parent
  return Number(fields[19] ?? 0);
}

/** This process in the names of its files: `1f0c77aa-4711-2284571`. */
export const OWNER = `${place}-${process.pid}-${startOf(process.pid) ?? 0}`;

/** An owner within a pattern over file names. */
export const OWNER_PATTERN = '[0-9a-f]{8}-\\d+-\\d+';

/** Returns whether a process lives; `unknown` for another machine, container or boot. */
export function stateOf(owner: string): 'alive' | 'gone' | 'unknown' {
  const [where, pid, start] = owner.split('-');
  if (where !== place) return 'unknown';
  const began = startOf(Number(pid));
  return began !== null && (began === Number(start) || began === 0) ? 'alive' : 'gone';
}

/** The process id of an owner. */
export const pidOf = (owner: string): number => Number(owner.split('-')[1]);

/** Temporary path that is renamed to `path` once written; `old`: path to which a replaced directory is moved. */
function temporaryName(path: string, old = ''): string {
  const unique = Math.random().toString(36).slice(2);
  return join(dirname(path), `.${basename(path)}.${OWNER}.${unique}${old}.tmp`);
}

const TEMPORARY = new RegExp(`^\\.(.+)\\.(${OWNER_PATTERN})\\.[0-9a-z]+(\\.old)?\\.tmp$`);

/** Age of a temporary file, ms, from which an unreachable writer (another boot or container) counts as dead. */
const ABANDONED_MS = 3_600_000;

function isOld(path: string): boolean {
  const stat = statSync(path, { throwIfNoEntry: false });
  return stat !== undefined && Date.now() - stat.mtimeMs > ABANDONED_MS;
}

/** Names that a directory may hold before anything of ours: hidden ones, and the output of shells and schedulers. */
const OF_OTHERS = /^\.|^lost\+found$|\.(?:log|out|err)$/;

/** Lists what a directory for new files holds already; nothing where there is none, or only what may be there. */
export const namesInUse = (directory: string): string[] =>
  existsSync(directory) ? readdirSync(directory).filter((name) => !OF_OTHERS.test(name)) : [];

/**
 * Removes remains of killed writers in a directory, if `concerns` accepts the name that was being written; a
 * directory that was moved away and not yet replaced is restored.
 */
export function tidyUp(directory: string, concerns: (name: string) => boolean): void {
  let names: string[];
  try {
    names = readdirSync(directory);
  } catch {
    return; // missing or unreadable: the write itself reports it
  }
  for (const name of names) {
    const [, target, owner, old] = TEMPORARY.exec(name) ?? [];
    if (target === undefined || owner === undefined || !concerns(target)) continue;
    const left = join(directory, name);
    const state = stateOf(owner);
    if (state === 'alive' || (state === 'unknown' && !isOld(left))) continue;
    try {
      if (old !== undefined && !existsSync(join(directory, target)))
        renameSync(left, join(directory, target));
    } catch {
      // another process puts it back at the same time
    }
    discard(left);
  }
}

/** Directories that are not made again: who removes one must not find a part of it afterwards. */
const kept = new Set<string>();

/** Makes writes into `directory` fail in this thread once it was removed, until the returned function is called. */
export function neverRemake(directory: string): () => void {
  const path = resolve(directory);
  kept.add(path);
  return () => void kept.delete(path);
}

/**
 * Makes a directory and its parents. Node's own recursion does not end on file systems that refuse entries
 * with ENOENT, as /proc does.
 */
export function makeDirectory(path: string): void {
  if (kept.has(resolve(path)) && !existsSync(path)) throw gone(path);
  try {
    mkdirSync(path);
  } catch (error) {
    const { code } = error as NodeJS.ErrnoException;
    if (code === 'EEXIST' && statSync(path).isDirectory()) return;
    const above = dirname(path);
    if (code !== 'ENOENT' || above === path) throw error;
    makeDirectory(above);
    mkdirSync(path);
  }
  try {
    syncPath(dirname(path));
  } catch {
    // a directory that may be written to but not read, or a file system that syncs by itself
  }
}

/** A directory that this process had claimed was removed while it was worked on. */
export function gone(path: string): WriteError {
  return new WriteError(
    `${path}: was removed or replaced during the work; nothing more is written there. Run the command again to start anew, ` +
      'or restore the directory and continue there (a run: with --resume)',
  );
}

/** Removes the remains of a failed write; a failure to do so is not reported. */
function discard(temporary: string): void {
  try {
    rmSync(temporary, { recursive: true, force: true });
  } catch {
    // the place is as unusable for removing as it was for writing
  }
}

/** Removes the remains of a failed write to `path` and returns the error to throw; other errors pass unchanged. */
function failedWrite(path: string, temporary: string, error: unknown): unknown {
  discard(temporary);
  const ours = error instanceof TimeseerError || typeof (error as NodeJS.ErrnoException).code !== 'string';
  return ours ? error : notWritten(path, error);
}

/** Syncs the content of a file, or the renames in a directory, to disk. */
export function syncPath(path: string): void {
  const handle = openSync(path, 'r');
  try {
    fsyncSync(handle);
  } finally {
    closeSync(handle);
  }
}

/** SHA-256 of what was written into some directories, by name. */
const recorded = new Map<string, Map<string, string>>();

/** Records the SHA-256 (hexadecimal) of files written into a directory from now on until `stop`. */
export function recordHashes(directory: string): {
  readonly hashes: ReadonlyMap<string, string>;
  readonly stop: () => void;
} {
  const key = resolve(directory);
  const hashes = new Map<string, string>();
  recorded.set(key, hashes);
  return { hashes, stop: () => void recorded.delete(key) };
}

type Chunks = string | Uint8Array | Iterable<string | Uint8Array>;

/** Writes `chunks` to a temporary file beside `path` and fsyncs it; returns the function that renames it into place. */
function writeTemporary(path: string, temporary: string, chunks: Chunks): () => void {
  const hashes = recorded.get(resolve(dirname(path)));
  const hash = hashes === undefined ? null : createHash('sha256');
  makeDirectory(dirname(path));
  const handle = openSync(temporary, 'wx');
  try {
    const list = typeof chunks === 'string' || chunks instanceof Uint8Array ? [chunks] : chunks;
    for (const chunk of list) {
      const bytes = typeof chunk === 'string' ? Buffer.from(chunk, 'utf8') : chunk;
      hash?.update(bytes);
      for (let offset = 0; offset < bytes.byteLength; ) {
        offset += writeSync(handle, bytes, offset, bytes.byteLength - offset);
      }
    }
    fsyncSync(handle);
  } finally {
    closeSync(handle);
  }
  return () => {
    renameSync(temporary, path);
    syncPath(dirname(path));
    if (hash !== null) hashes!.set(basename(path), hash.digest('hex'));
  };
}

/** Writes a file whole or not at all. @throws WriteError */
export function writeFileAtomic(path: string, chunks: Chunks): void {
  writeFilesAtomic([[path, chunks]]);
}

/** Text of a JSON file. */
export const jsonText = (value: unknown): string => `${JSON.stringify(value, null, 2)}\n`;

/** Writes a JSON file whole or not at all. @throws WriteError */
export const writeJson = (path: string, value: unknown): void => writeFileAtomic(path, jsonText(value));

/**
 * Writes several files. All are complete in temporary places before the first is renamed, so a full disk
 * changes none. @throws WriteError
 */
export function writeFilesAtomic(files: readonly (readonly [path: string, chunks: Chunks])[]): void {
  const pending = files.map(([path, chunks]) => ({ path, chunks, temporary: temporaryName(path) }));
  let current = pending[0]!;
  try {
    const renames = pending.map((file) => {
      current = file;
      const rename = writeTemporary(file.path, file.temporary, file.chunks);
      return { file, rename };
    });
    for (const { file, rename } of renames) {
      current = file;
      rename();
    }
  } catch (error) {
    for (const { temporary } of pending) if (temporary !== current.temporary) discard(temporary);
    throw failedWrite(current.path, current.temporary, error);
  }
}

/**
 * Appends to an existing file; a process killed meanwhile may leave a part of `text` at its end.
 * @throws WriteError, also when the file was removed, because a log must not begin in the middle
 */
export function appendText(path: string, text: string | Uint8Array): void {
  try {
    const handle = openSync(path, constants.O_WRONLY | constants.O_APPEND);
    try {
      writeFileSync(handle, text);
    } finally {
      closeSync(handle);
    }
  } catch (error) {
    throw (error as NodeJS.ErrnoException).code === 'ENOENT' ? gone(path) : notWritten(path, error);
  }
}

/** Refuses to overwrite. @throws ConfigError for an --out that is a file, or a directory with files */
export function checkNewDirectory(out: string): void {
  if (!existsSync(out)) return;
  if (!statSync(out).isDirectory()) throw new ConfigError(`--out ${out}: is a file; choose a directory`);
  if (readdirSync(out).length > 0)
    throw new ConfigError(`--out ${out}: holds files already; choose a new directory`);
}

/** Resolves the directory to write: a link to one stays, and its target is replaced. */
function behindLinks(path: string): string {
  try {
    return realpathSync(path);
  } catch {
    return path;
  }
}

/** Resolves a directory that is replaced as a whole. @throws WriteError for one that contains the working directory */
export function replaceable(target: string): string {
  const path = behindLinks(target);
  let inside = '..';
  try {
    inside = relative(path, process.cwd());
  } catch {
    // The working directory was deleted: nothing contains it.
  }
  if (inside === '..' || inside.startsWith(`..${sep}`) || isAbsolute(inside)) return path;
  throw new WriteError(
    `${target}: contains the working directory, which would be replaced; run the command from another folder, or write elsewhere`,
  );
}

/** Renames `temporary` into place; what was there before goes to `retired`, or once the new directory stands. */
function swapDirectory(temporary: string, path: string, retired?: string): void {
  const previous = retired ?? temporaryName(path, '.old');
  syncPath(temporary);
  const replaced = existsSync(path);
  if (replaced) renameSync(path, previous);
  try {
    renameSync(temporary, path);
  } catch (error) {
    if (replaced) renameSync(previous, path);
    throw error;
  }
  // The new directory is there to stay before the one that it replaces goes.
  syncPath(dirname(path));
  if (retired === undefined) rmSync(previous, { recursive: true, force: true });
  else syncPath(dirname(retired));
}

/** Makes `path` a symbolic link to `target`, which is relative to its directory, in place of the link that is there. */
export function linkAtomic(target: string, path: string): void {
  const temporary = temporaryName(path);
  try {
    makeDirectory(dirname(path));
    symlinkSync(target, temporary);
    renameSync(temporary, path);
    syncPath(dirname(path));
  } catch (error) {
    throw failedWrite(path, temporary, error);
  }
}

/**
 * Builds a directory in a temporary place beside `path` and swaps it in. An existing one is replaced only
 * once the new one is complete, and moved to `retired`, an unused path in the same file system, if given.
 */
export function writeDirectoryAtomic(
  target: string,
  fill: (temporary: string) => void,
  retired?: string,
): void {
  const path = replaceable(target);
  const temporary = temporaryName(path);
  try {
    tidyUp(dirname(path), (name) => name === basename(path));
    makeDirectory(temporary);
    fill(temporary);
    swapDirectory(temporary, path, retired);
  } catch (error) {
    throw failedWrite(path, temporary, error);
  }
}

/** Asynchronous `writeDirectoryAtomic`: signals and progress are handled while `fill` writes. */
export async function writeDirectoryAtomicAsync(
  target: string,
  fill: (temporary: string) => Promise<void>,
): Promise<void> {
  const path = replaceable(target);
  const temporary = temporaryName(path);
  try {
    tidyUp(dirname(path), (name) => name === basename(path));
    makeDirectory(temporary);
    await fill(temporary);
    swapDirectory(temporary, path);
  } catch (error) {
    throw failedWrite(path, temporary, error);
  }
}

// Only regular files of bounded size are read: a pipe or device named in foreign data would block for ever
// or fill the memory.

/** Largest file that is read as a whole, in bytes: what a JavaScript string holds. */
const MAXIMUM_BYTES = 500_000_000;

const notRegular = (file: string, stat: Stats): DataError =>
  new DataError(
    stat.isDirectory()
      ? 'a directory, where a file is expected; name a file in it'
      : 'not a regular file, but a pipe or a device; save its content to a file and name that file',
    { file },
  );

/** Opens a regular file for reading, without waiting for a pipe. @throws what `fs` throws; DataError */
export function openRegular(path: string): { handle: number; size: number } {
  // Looked at before it is opened, which alone may block or mean something to a device; and after, when it cannot change.
  const named = statSync(path);
  if (!named.isFile()) throw notRegular(path, named);
  const handle = openSync(path, constants.O_RDONLY | (constants.O_NONBLOCK ?? 0));
  const stat = fstatSync(handle);
  if (stat.isFile()) return { handle, size: stat.size };
  closeSync(handle);
  throw notRegular(path, stat);
}

/** Opens a regular file for reading, as `openRegular`. @throws DataError */
export function openFile(path: string): { handle: number; size: number } {
  try {
    return openRegular(path);
  } catch (cause) {
    if (cause instanceof DataError) throw cause;
    throw new DataError(`cannot be read (${reasonOf(cause)})`, { file: path, cause });
  }
}

/** Path of standard input, for which a command line may have `-`. */
export const STANDARD_INPUT = '/dev/stdin';

/** Pipes that a shell passes to a command: standard input and `<(…)`. They have a writer, which ends. */
const PASSED_ON = /^\/dev\/(?:stdin|fd\/\d+)$/;

/** Opens a regular file, or a pipe that the shell passes on, which has no size. @throws as `openRegular` */
export function openReadable(path: string): { handle: number; size: number | null } {
  const piped = PASSED_ON.test(path) && statSync(path).isFIFO();
  return piped ? { handle: openSync(path, 'r'), size: null } : openRegular(path);
}

/**
 * Reads a regular file, or a pipe that the shell passes on.
 * @throws what `fs` throws; DataError, also for more than `maximum` bytes
 */
export function readBytes(path: string, maximum = MAXIMUM_BYTES): Buffer {
  const tooMuch = (size: string): DataError =>
    new DataError(`${size} bytes, more than the ${maximum} that can be read`, { file: path });
  const { handle, size } = openReadable(path);
  try {
    if (size !== null && size > maximum) throw tooMuch(String(size));
    if (size !== null) return readFileSync(handle);
    const chunks: Buffer[] = [];
    for (let total = 0; ; ) {
      const chunk = Buffer.allocUnsafe(1 << 16);
      const got = readSync(handle, chunk);
      if (got === 0) return Buffer.concat(chunks);
      total += got;
      if (total > maximum) throw tooMuch(String(total));
      chunks.push(chunk.subarray(0, got));
    }
  } finally {
    closeSync(handle);
  }
}

/** Reads a file like `readBytes` and decodes UTF-8. */
export function readUtf8(path: string, maximum = MAXIMUM_BYTES): string {
  return readBytes(path, maximum).toString('utf8');
}

/** Resolves the path of a file in `folder`. @throws DataError if a name or link leads out of it */
export function fileInside(folder: string, name: string): string {
  const path = join(folder, name);
  let way: string;
  try {
    way = relative(realpathSync(folder), realpathSync(path));
  } catch {
    return path; // opening it gives the reason
  }
  if (way !== '' && way !== '..' && !way.startsWith(`..${sep}`) && !isAbsolute(way)) return path;
  throw new DataError(`leads out of ${folder}; put the file itself there, not a link to it`, { file: path });
}
