/** One process at a time works on a run. */
import { existsSync, readFileSync, rmSync, statSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { ConfigError } from '../../errors.ts';
import { explain } from '../../files.ts';

const LOCK_FILE = '.lock';

function alive(pid: number): boolean {
  try {
    process.kill(pid, 0);
    return true;
  } catch (error) {
    return (error as NodeJS.ErrnoException).code === 'EPERM';
  }
}

/**
 * Claims the directory of a run for this process; returns what gives it back. A claim whose process is gone is taken over.
 * @throws ConfigError when another process works on it; WriteError
 */
export function claimRun(path: string): () => void {
  const file = join(path, LOCK_FILE);
  for (;;) {
    try {
      writeFileSync(file, String(process.pid), { flag: 'wx' });
      return () => rmSync(file, { force: true });
    } catch (error) {
      if ((error as NodeJS.ErrnoException).code !== 'EEXIST') throw explain(file, error);
    }
    const holder = Number(readFileSync(file, 'utf8'));
    if (Number.isInteger(holder) && holder > 0 && holder !== process.pid && alive(holder)) {
      throw new ConfigError(
        `${path}: process ${holder} is working on this run; wait for it, or choose another --out ` +
          `(if that process is something else, remove ${file})`,
      );
    }
    rmSync(file, { force: true });
  }
}

/** Whether there is a directory to claim. */
export function isDirectory(path: string): boolean {
  return existsSync(path) && statSync(path).isDirectory();
}
