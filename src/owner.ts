/**
 * Which process made a file, written into the file's name, and whether that process still lives: what locks and temporary files
 * of killed processes are told by. A process is known by its machine, its boot, its process namespace (containers number their own
 * processes), its id and its start time, so that an id which is given out again is not mistaken for it.
 */
import { createHash } from 'node:crypto';
import { readFileSync, readlinkSync } from 'node:fs';
import { hostname } from 'node:os';

/** What a file of the system says, and an empty text where there is no such file. */
function told(read: () => string): string {
  try {
    return read();
  } catch {
    return '';
  }
}

/** Where process ids mean the same as here: 8 hexadecimal digits. */
const place = createHash('sha256')
  .update(hostname())
  .update(told(() => readFileSync('/proc/sys/kernel/random/boot_id', 'utf8')))
  .update(told(() => readlinkSync('/proc/self/ns/pid')))
  .digest('hex')
  .slice(0, 8);

/** Clock ticks from the boot to the start of a process; 0 where the system does not say, null when the process has ended. */
function startOf(pid: number): number | null {
  try {
    process.kill(pid, 0);
  } catch (error) {
    if ((error as NodeJS.ErrnoException).code !== 'EPERM') return null;
  }
  const stat = told(() => readFileSync(`/proc/${pid}/stat`, 'utf8'));
  // The second field is the name in parentheses, which may hold anything.
  const fields = stat.slice(stat.lastIndexOf(')') + 2).split(' ');
  if (fields[0] === 'Z' || fields[0] === 'X') return null; // killed, and not yet waited for by its parent
  return Number(fields[19] ?? 0);
}

/** This process in the names of its files: `1f0c77aa-4711-2284571`. */
export const OWNER = `${place}-${process.pid}-${startOf(process.pid) ?? 0}`;

/** An owner within a pattern over file names. */
export const OWNER_PATTERN = '[0-9a-f]{8}-\\d+-\\d+';

/** Whether a process lives; `unknown` of another machine, container or boot. */
export function stateOf(owner: string): 'alive' | 'gone' | 'unknown' {
  const [where, pid, start] = owner.split('-');
  if (where !== place) return 'unknown';
  const found = startOf(Number(pid));
  return found !== null && (found === Number(start) || found === 0) ? 'alive' : 'gone';
}

/** The process id of an owner. */
export const pidOf = (owner: string): number => Number(owner.split('-')[1]);
