/** Resources of this machine, including the limits of its container. */
import { existsSync, readFileSync } from 'node:fs';
import { availableParallelism, cpus, freemem, totalmem } from 'node:os';

export interface Memory {
  /** Memory that this process may use, in bytes: physical memory, or the container's limit where lower. */
  readonly total: number;
  /** Part of that memory available now, in bytes. */
  readonly available: number;
  /** Limit of the control group, or null where there is none. Bytes. */
  readonly containerLimit: number | null;
}

/** Model name of the processor, as the system gives it. */
export function cpuModel(): string {
  return cpus()[0]?.model.trim() || process.arch;
}

function readNumber(file: string): number | null {
  if (!existsSync(file)) return null;
  const value = Number(readFileSync(file, 'utf8').trim());
  return Number.isFinite(value) ? value : null;
}

/** Memory of this machine or container (control groups v2, then v1). */
export function memory(): Memory {
  const physical = totalmem();
  const limit =
    readNumber('/sys/fs/cgroup/memory.max') ?? readNumber('/sys/fs/cgroup/memory/memory.limit_in_bytes');
  const containerLimit = limit !== null && limit < physical ? limit : null;
  const used =
    readNumber('/sys/fs/cgroup/memory.current') ??
    readNumber('/sys/fs/cgroup/memory/memory.usage_in_bytes') ??
    0;
  const meminfo = existsSync('/proc/meminfo') ? readFileSync('/proc/meminfo', 'utf8') : '';
  const kilobytes = /^MemAvailable:\s+(\d+) kB/m.exec(meminfo)?.[1];
  const free = kilobytes === undefined ? freemem() : Number(kilobytes) * 1024;
  return {
    total: containerLimit ?? physical,
    available: containerLimit === null ? free : Math.max(0, Math.min(free, containerLimit - used)),
    containerLimit,
  };
}

/** Processor cores that this process may use: affinity and the container's quota respected; at least 1. */
export function cores(): number {
  const v2 = existsSync('/sys/fs/cgroup/cpu.max')
    ? readFileSync('/sys/fs/cgroup/cpu.max', 'utf8').split(' ')
    : [];
  const quota = v2.length > 0 ? Number(v2[0]) : readNumber('/sys/fs/cgroup/cpu/cpu.cfs_quota_us');
  const period = v2.length > 0 ? Number(v2[1]) : readNumber('/sys/fs/cgroup/cpu/cpu.cfs_period_us');
  const limited = quota !== null && period !== null && quota > 0 && period > 0 ? quota / period : Infinity;
  return Math.max(1, Math.min(availableParallelism(), Math.floor(limited)));
}
