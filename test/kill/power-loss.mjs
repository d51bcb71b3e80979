/**
 * Loaded before the program (`node --import`), before kill-at.mjs: keeps beside a directory what of it a disk would have after a power
 * failure, by POSIX: the content of a file as of its last fsync, the names in a directory as of the last fsync of that directory.
 * `POWER_LOSS='ROOT\nSHADOW'`: for the files below ROOT, in SHADOW. What is there when the process starts is on the disk. power-loss.ts
 * puts it together again.
 */
import fs from 'node:fs';
import { syncBuiltinESMExports } from 'node:module';
import { join } from 'node:path';
import { isMainThread, threadId } from 'node:worker_threads';

const {
  fsyncSync,
  lstatSync,
  mkdirSync,
  readFileSync,
  readdirSync,
  readlinkSync,
  renameSync,
  writeFileSync,
} = fs;

/** A file by its inode, which may be given out again after its end, and its birth. */
const keyOf = (path) => {
  const { ino, birthtimeNs } = lstatSync(path, { bigint: true });
  return `${ino}-${birthtimeNs}`;
};

if (process.env.POWER_LOSS !== undefined) {
  const [root, shadow] = process.env.POWER_LOSS.split('\n');
  let count = 0;
  const put = (path, content) => {
    const name = join(shadow, keyOf(path));
    const temporary = `${name}.${threadId}.${count++}.tmp`;
    writeFileSync(temporary, content);
    renameSync(temporary, name);
  };
  const keep = (path) => {
    const stat = lstatSync(path);
    if (stat.isFile()) put(path, readFileSync(path));
    if (!stat.isDirectory()) return;
    const names = readdirSync(path, { withFileTypes: true }).flatMap((entry) => {
      const inner = join(path, entry.name);
      try {
        const kind = entry.isDirectory() ? 'directory' : entry.isSymbolicLink() ? 'link' : 'file';
        const of = kind === 'link' ? readlinkSync(inner) : keyOf(inner);
        return [{ name: entry.name, kind, of }];
      } catch {
        return []; // gone meanwhile
      }
    });
    put(path, JSON.stringify(names));
  };
  if (isMainThread) {
    mkdirSync(shadow, { recursive: true });
    keep(root);
    for (const name of readdirSync(root, { recursive: true })) keep(join(root, name));
    writeFileSync(join(shadow, 'complete'), '');
  }
  fs.fsyncSync = (handle) => {
    fsyncSync(handle);
    const path = readlinkSync(`/proc/self/fd/${handle}`);
    if (path === root || path.startsWith(`${root}/`)) keep(path);
  };
  syncBuiltinESMExports();
}
