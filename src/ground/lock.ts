/**
 * Lock between processes that survives their deaths.
 *
 * A process that wants the lock creates a ticket (a file of its own) and then looks for other tickets. It
 * holds the lock if no other living process has one. Of two processes, the second to create its ticket must
 * see the first, so two never hold the lock. Tickets of living processes are never touched and names never
 * reused, so anyone may remove tickets of dead processes at any time: no stale lock is ever taken over. Of
 * several processes that look at once, the first by name keeps looking; the others withdraw and retry.
 *
 * A process of another machine or container touches its ticket; it counts as dead if the ticket is untouched
 * for STALE_MS by the observer's clock.
 */
import {
  closeSync,
  existsSync,
  openSync,
  readdirSync,
  rmdirSync,
  rmSync,
  statSync,
  utimesSync,
  writeFileSync,
} from 'node:fs';
import { basename, dirname, join, resolve } from 'node:path';
import { setTimeout as sleep } from 'node:timers/promises';
import { ConfigError } from './errors.ts';
import {
  gone,
  makeDirectory,
  neverRemake,
  notWritten,
  OWNER,
  OWNER_PATTERN,
  pidOf,
  stateOf,
} from './files.ts';
import { say } from './terminal.ts';

const TOUCH_MS = 2_000;
/** Far above TOUCH_MS: an owner that is stopped or swapped out is not a dead one. */
const STALE_MS = 30_000;
const POLL_MS = 25;
/** A ticket that is neither withdrawn nor made a hold for so long belongs to a process that was stopped: it counts as a hold. */
const UNDECIDED_MS = 5_000;
/** Attempts to recreate a directory that other processes remove because it was empty. */
const ATTEMPTS = 100;

const TICKET = new RegExp(`^\\.(${OWNER_PATTERN})\\.\\d+$`);

/** Process that holds the lock. */
export interface Holder {
  readonly pid: number;
  /** Time at which it came, in ms since 1970. */
  readonly since: number;
  /** Its ticket. */
  readonly file: string;
  /** True for a process of another machine, container or boot. */
  readonly elsewhere: boolean;
}

interface Lock {
  /** Returns true if the ticket still exists; it does not when the directory was removed. */
  readonly held: () => boolean;
  readonly release: () => void;
}

interface LockOptions {
  /** Error to throw when a live process holds the lock. Default: wait for it. */
  readonly refuse?: (holder: Holder) => Error;
  /** Called once when the lock is waited for. */
  readonly onWait?: (holder: Holder) => void;
}

interface Ticket extends Holder {
  /** True for a process known to live: a remote one has touched its ticket recently. */
  readonly lives: boolean;
  /** An empty ticket is of a process that is still looking. */
  readonly holds: boolean;
}

/** Observations of each ticket: touch time, first sight of that time, first sight of the ticket. */
type Seen = Map<string, { readonly touched: number; readonly since: number; readonly first: number }>;

let tickets = 0;

/** Tickets of others than `ticket`; those of dead processes are removed. */
function others(path: string, ticket: string | null, seen: Seen): Ticket[] {
  const directory = dirname(path);
  const rivals: Ticket[] = [];
  for (const name of existsSync(directory) ? readdirSync(directory) : []) {
    const owner = name.startsWith(basename(path)) && TICKET.exec(name.slice(basename(path).length))?.[1];
    const file = join(directory, name);
    if (typeof owner !== 'string' || file === ticket) continue;
    const stat = statSync(file, { throwIfNoEntry: false });
    if (stat === undefined) continue; // withdrawn since
    const now = performance.now();
    const before = seen.get(name) ?? { touched: stat.mtimeMs, since: now, first: now };
    const known = before.touched === stat.mtimeMs ? before : { ...before, touched: stat.mtimeMs, since: now };
    seen.set(name, known);
    const state = stateOf(owner);
    if (state === 'gone' || (state === 'unknown' && now - known.since > STALE_MS)) {
      rmSync(file, { force: true });
      continue;
    }
    rivals.push({
      pid: pidOf(owner),
      since: stat.birthtimeMs,
      file,
      elsewhere: state === 'unknown',
      lives: state === 'alive' || known.since > known.first,
      holds: stat.size > 0 || now - known.first > UNDECIDED_MS,
    });
  }
  return rivals;
}

/** Puts down a ticket in a directory that is made where it is missing; returns its path. */
function putDown(path: string): string {
  for (let left = ATTEMPTS; ; left--) {
    makeDirectory(dirname(path));
    const ticket = `${path}.${OWNER}.${tickets++}`;
    try {
      closeSync(openSync(ticket, 'wx'));
      return ticket;
    } catch (error) {
      if ((error as NodeJS.ErrnoException).code !== 'ENOENT' || left === 0) throw error;
    }
  }
}

/** Looks at the others' tickets until this one holds (true) or another one does or comes first (false). */
async function decided(path: string, ticket: string, seen: Seen): Promise<boolean> {
  for (;;) {
    const rivals = others(path, ticket, seen);
    if (rivals.length === 0) return true;
    if (rivals.some(({ holds, file }) => holds || file < ticket)) return false;
    await sleep(POLL_MS);
  }
}

/**
 * Takes the lock `path`; its tickets are files that begin with that name.
 * @throws the error that `refuse` makes; WriteError if no ticket can be created
 */
export async function takeLock(path: string, { refuse, onWait }: LockOptions = {}): Promise<Lock> {
  const seen: Seen = new Map();
  let reported = false;
  for (;;) {
    let ticket: string | undefined;
    try {
      ticket = putDown(path);
      if (await decided(path, ticket, seen)) {
        // Of an existing file: where somebody removed the directory, what was seen of the others' tickets says nothing.
        writeFileSync(ticket, 'held\n', { flag: 'r+' });
        return lockOf(ticket);
      }
      rmSync(ticket, { force: true });
    } catch (error) {
      if (ticket !== undefined) rmSync(ticket, { force: true });
      if (ticket !== undefined && (error as NodeJS.ErrnoException).code === 'ENOENT') continue;
      throw (error as NodeJS.ErrnoException).code === undefined ? error : notWritten(dirname(path), error);
    }
    for (let rivals = others(path, null, seen); rivals.length > 0; rivals = others(path, null, seen)) {
      const holder = rivals.find(({ holds }) => holds);
      if (holder !== undefined) {
        if (refuse !== undefined && holder.lives) throw refuse(holder);
        if (!reported) onWait?.(holder);
        reported = true;
      }
      await sleep(POLL_MS);
    }
  }
}

/** The lock of a ticket, which is touched from now on. */
function lockOf(ticket: string): Lock {
  const touch = setInterval(() => {
    const now = new Date();
    try {
      utimesSync(ticket, now, now);
    } catch {
      // the holder calls `held` before it relies on the lock
    }
  }, TOUCH_MS).unref();
  return {
    held: () => existsSync(ticket),
    release: () => {
      clearInterval(touch);
      rmSync(ticket, { force: true });
    },
  };
}

/**
 * Returns true if a process has claimed the directory; changes nothing. A remote process counts while it
 * touches its ticket.
 */
export function isClaimed(path: string): boolean {
  const names = existsSync(path) ? readdirSync(path) : [];
  return names.some((name) => {
    const owner = name.startsWith('.lock') ? TICKET.exec(name.slice('.lock'.length))?.[1] : undefined;
    if (owner === undefined) return false;
    const state = stateOf(owner);
    if (state !== 'unknown') return state === 'alive';
    const stat = statSync(join(path, name), { throwIfNoEntry: false });
    return stat !== undefined && Date.now() - stat.mtimeMs < STALE_MS;
  });
}

/** Runs `body` while holding the lock `path`; `onWait` hears once of the ticket that is waited for. Errors as `takeLock`. */
export async function withLock<T>(
  path: string,
  onWait: (file: string) => void,
  body: () => Promise<T>,
): Promise<T> {
  const lock = await takeLock(path, { onWait: ({ file }) => onWait(file) });
  try {
    return await body();
  } finally {
    lock.release();
  }
}

/** The topmost directory that has to be made for `path`; null when it is there. */
function firstMissing(path: string): string | null {
  let missing: string | null = null;
  for (let at = resolve(path); !existsSync(at); at = dirname(at)) missing = at;
  return missing;
}

/** Removes a directory, and those above it down from `first` (default: it alone), where nothing has come into them. */
export function removeEmpty(path: string, first = resolve(path)): void {
  try {
    for (let at = resolve(path); ; at = dirname(at)) {
      rmdirSync(at);
      if (at === first) return;
    }
  } catch {
    // it holds something by now
  }
}

/**
 * Claims a directory for this process, making it if needed (and removing it again if it stays empty). While
 * claimed it is not made again in this thread after someone removed it: writing then fails.
 * @throws ConfigError when another process works on it; WriteError if nothing can be written
 */
export async function claimDirectory(path: string): Promise<Lock> {
  if (existsSync(path) && !statSync(path).isDirectory()) {
    throw new ConfigError(`${path}: is a file; choose a directory with --out`);
  }
  const missing = firstMissing(path);
  const tidy = (): void => {
    if (missing !== null) removeEmpty(path, missing);
  };
  try {
    const lock = await takeLock(join(path, '.lock'), {
      refuse: ({ pid, file, elsewhere }) =>
        new ConfigError(
          `${path}: process ${pid}${elsewhere ? ' of another machine or container' : ''} is working on this directory; ` +
            `wait for it, or choose another --out${elsewhere ? ` (if it has ended, remove ${file})` : ''}`,
        ),
      onWait: ({ pid }) =>
        say(
          `${path}: claimed by process ${pid} of another machine, container or boot; checking for ${STALE_MS / 1000} s if it is still running`,
        ),
    });
    const keep = neverRemake(path);
    return {
      held: lock.held,
      release: () => {
        keep();
        lock.release();
        tidy();
      },
    };
  } catch (error) {
    tidy();
    throw error;
  }
}

/**
 * Works in a claimed directory; `held` is false once somebody removed it, which is then the error.
 * @throws as `claimDirectory`; WriteError where the directory is gone
 */
export async function inClaimed<T>(path: string, work: (held: () => boolean) => Promise<T>): Promise<T> {
  const lock = await claimDirectory(path);
  try {
    const result = await work(lock.held);
    if (!lock.held()) throw gone(path);
    return result;
  } catch (error) {
    // A removed directory is the cause of any other failure.
    throw lock.held() ? error : gone(path);
  } finally {
    lock.release();
  }
}
