/** What the processor can compute, as Linux describes it; elsewhere nothing is known. */
import { readFileSync } from 'node:fs';

/** Widths of floating-point arithmetic, the narrowest first; an index compares two of the same architecture. */
const X64 = ['SSE', 'AVX', 'AVX2', 'AVX-512'] as const;
const ARM64 = ['NEON', 'SVE'] as const;
export type Instructions = (typeof X64)[number] | (typeof ARM64)[number];

export interface Processor {
  /** As `process.arch`. */
  readonly arch: string;
  /** 'GenuineIntel', 'AuthenticAMD'; '' where it is not told. */
  readonly vendor: string;
  readonly family: number;
  readonly model: number;
  readonly flags: ReadonlySet<string>;
  /** Widest instructions that matrix products can use; null where nothing is known. */
  readonly instructions: Instructions | null;
}

const AVX512 = ['avx512f', 'avx512dq', 'avx512bw', 'avx512vl', 'avx512cd'];

function widest(arch: string, flags: ReadonlySet<string>): Instructions | null {
  if (flags.size === 0) return null;
  if (arch === 'arm64') return flags.has('sve') ? 'SVE' : 'NEON';
  if (arch !== 'x64') return null;
  if (AVX512.every((flag) => flags.has(flag))) return 'AVX-512';
  if (flags.has('avx2') && flags.has('fma')) return 'AVX2';
  return flags.has('avx') ? 'AVX' : 'SSE';
}

/** From the text of /proc/cpuinfo, of its first processor. */
export function parseProcessor(cpuinfo: string, arch: string = process.arch): Processor {
  const field = (name: string): string =>
    new RegExp(`^${name}[ \\t]*:[ \\t]*(.*)$`, 'm').exec(cpuinfo)?.[1]?.trim() ?? '';
  const flags = new Set(field(arch === 'arm64' ? 'Features' : 'flags').split(/\s+/));
  flags.delete('');
  return {
    arch,
    vendor: field('vendor_id'),
    family: Number(field('cpu family') || Number.NaN),
    model: Number(field(arch === 'arm64' ? 'CPU part' : 'model') || Number.NaN),
    flags,
    instructions: widest(arch, flags),
  };
}

let known: Processor | undefined;

/** The processor of this machine. */
export function processor(): Processor {
  if (known === undefined) {
    let text = '';
    try {
      text = readFileSync('/proc/cpuinfo', 'utf8');
    } catch {
      // another system than Linux
    }
    known = parseProcessor(text);
  }
  return known;
}

/** What tells two processors apart between which compiled code cannot be moved. Names do not: hypervisors make them up. */
export function processorIdentity({ arch, vendor, family, model, flags }: Processor): string {
  return [arch, vendor, family, model, ...[...flags].sort()].join(' ');
}

/** Whether instructions `a` are narrower than `b`. */
export function narrower(a: Instructions, b: Instructions): boolean {
  const order: readonly Instructions[] = [...X64, ...ARM64];
  return order.indexOf(a) < order.indexOf(b);
}

/**
 * Most float32 operations a cycle of one core: lanes × 2 of a fused multiplication and addition × units that do it. Processors
 * with a single unit for AVX-512 reach half. Null where it is not known.
 */
export function flopsPerCycle({ vendor, family, model, instructions }: Processor): number | null {
  const amd = vendor === 'AuthenticAMD';
  switch (instructions) {
    case 'AVX-512':
      return amd && family < 26 ? 32 : 64; // Zen 4 computes one such instruction in two halves
    case 'AVX2':
      return amd && family === 23 && model < 0x30 ? 16 : 32; // so Zen 1 those of AVX2
    case 'AVX':
      return 16;
    case 'SSE':
      return 8;
    case 'SVE':
      return 32;
    case 'NEON':
      return 16;
    default:
      return null;
  }
}
