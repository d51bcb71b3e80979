/**
 * A lock between processes that survives their deaths: a file that its owner keeps touching. One that has not
 * been touched for a while, or whose owner on this machine is gone, is stale and is taken over. In the rare case
 * that two waiters take over at once both proceed, so what it guards must be safe to do twice.
 */
import { readFileSync, rmSync, statSync, utimesSync, writeFileSync } from 'node:fs';
import { hostname } from 'node:os';
import { dirname } from 'node:path';
import { setTimeout as sleep } from 'node:timers/promises';
import { explain, makeDirectory } from '../../files.ts';

const TOUCH_MS = 2_000;
/** Far above TOUCH_MS: a stopped or swapping owner is not a dead one. */
const STALE_MS = 30_000;
const POLL_MS = 100;

function alive(pid: number): boolean {
  try {
    process.kill(pid, 0);
    return true;
  } catch (error) {
    return (error as NodeJS.ErrnoException).code === 'EPERM';
  }
}

function isStale(path: string): boolean {
  try {
    const [host, pid] = readFileSync(path, 'utf8').split(' ');
    if (Date.now() - statSync(path).mtimeMs > STALE_MS) return true;
    return host === hostname() && pid !== undefined && !alive(Number(pid));
  } catch {
    return false; // just released: the next attempt decides
  }
}

function acquire(path: string): boolean {
  try {
    writeFileSync(path, `${hostname()} ${process.pid} `, { flag: 'wx' });
    return true;
  } catch (error) {
    if ((error as NodeJS.ErrnoException).code === 'EEXIST') return false;
    throw explain(path, error);
  }
}

/** Runs `body` while holding the lock file `path`; `log` hears once about waiting. */
export async function withLock<T>(
  path: string,
  log: (line: string) => void,
  body: () => Promise<T>,
): Promise<T> {
  try {
    makeDirectory(dirname(path));
  } catch (error) {
    throw explain(path, error);
  }
  for (let told = false; !acquire(path); ) {
    if (isStale(path)) {
      rmSync(path, { force: true });
      continue;
    }
    if (!told) log(`waiting for another process that builds the same (${path})`);
    told = true;
    await sleep(POLL_MS);
  }
  const touch = setInterval(() => {
    const now = new Date();
    try {
      utimesSync(path, now, now);
    } catch {
      // taken over as stale: the body is safe to run twice
    }
  }, TOUCH_MS);
  try {
    return await body();
  } finally {
    clearInterval(touch);
    rmSync(path, { force: true });
  }
}
