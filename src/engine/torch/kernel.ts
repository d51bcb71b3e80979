/**
 * OpenBLAS kernels. OpenBLAS chooses them by processor model when it is loaded; for an unknown model it takes
 * those of 20-year-old processors, 2 to 8 times slower. OPENBLAS_CORETYPE overrides the choice, which is read
 * in a separate process, once per build of the addon and processor:
 *
 *     <directory of the addon>/kernel.json    its choice, and a better one if there is any
 */
import { spawnSync } from 'node:child_process';
import { readFileSync, rmSync } from 'node:fs';
import { dirname, join } from 'node:path';
import { WriteError, writeJson } from '../../ground/files.ts';
import { type Stamp, stamp, unchanged } from './find.ts';

/** The variable that OpenBLAS reads; what the user set in it is never changed. */
export const CORE_TYPE = 'OPENBLAS_CORETYPE';

const FORMAT = 1;
/** A kernel is overruled only for one that is this much faster: wider instructions are not always. */
const WORTH_IT = 1.2;

/** Instruction sets of OpenBLAS kernels, by kernel name in lower case. Unlisted kernels are left alone. */
const KERNELS: Readonly<Record<Instructions, string>> = {
  SSE:
    'generic katmai coppermine northwood prescott banias core2 penryn dunnington nehalem ' +
    'athlon opteron opteron_sse3 barcelona bobcat atom nano',
  AVX: 'sandybridge bulldozer piledriver steamroller excavator',
  AVX2: 'haswell zen',
  'AVX-512': 'skylakex cooperlake sapphirerapids',
  NEON:
    'armv8 cortexa53 cortexa55 cortexa57 cortexa72 cortexa73 cortexa76 falkor thunderx ' +
    'thunderx2t99 thunderx3t110 tsv110 emag8180 neoversen1 ft2000',
  SVE: 'armv8sve neoversev1 neoversen2 a64fx',
};

/** The instructions that a kernel of OpenBLAS uses; null for names that are not known. */
export function instructionsOf(kernel: string): Instructions | null {
  const name = kernel.toLowerCase();
  const entry = Object.entries(KERNELS).find(([, names]) => names.split(' ').includes(name));
  return entry === undefined ? null : (entry[0] as Instructions);
}

/** Kernels for a processor, best first. SapphireRapids is left out: in float32 it equals SkylakeX. */
export function candidates({ instructions, vendor, flags }: Processor): string[] {
  const avx2 = vendor === 'AuthenticAMD' ? ['Zen', 'Haswell'] : ['Haswell', 'Zen'];
  switch (instructions) {
    case 'AVX-512':
      return [...(flags.has('avx512_bf16') ? ['Cooperlake'] : []), 'SkylakeX', ...avx2, 'Sandybridge'];
    case 'AVX2':
      return [...avx2, 'Sandybridge'];
    case 'AVX':
      return ['Sandybridge'];
    case 'SVE':
      return ['NEOVERSEN2', 'NEOVERSEV1', 'ARMV8SVE'];
    default:
      return [];
  }
}

/** Report of a process that loaded the engine. */
export interface Probe {
  /** Name of OpenBLAS for its kernels; '' for another library. */
  readonly kernel: string;
  /** Path of the library; '' where the system does not tell. */
  readonly file: string;
  /** GFLOP/s of a 512³ float32 product on one thread: the fastest within a third of a second. */
  readonly gflops: number;
  /** Clock of the core at that time; 0 where it cannot be measured. */
  readonly gigahertz: number;
  /** libtorch's own account of how it was built. */
  readonly config: string;
  /** /proc/self/maps, '' elsewhere. */
  readonly maps: string;
}

const PROGRAM = `
const native = require(process.argv[1]);
native.threads(1);
const side = 512;
const a = native.fromHost(new Float32Array(side * side).fill(0.5), 'float32', [side, side], 'cpu');
const product = native.op('aten::mm', '');
let best = Infinity;
for (const end = performance.now() + 333; performance.now() < end; ) {
  const began = performance.now();
  native.free(native.call(product, a, a));
  best = Math.min(best, performance.now() - began);
}
let maps = '';
try { maps = require('fs').readFileSync('/proc/self/maps', 'utf8') } catch {}
const { config } = native.describe();
const speed = { gflops: 2 * side ** 3 / 1e6 / best, gigahertz: native.clockRate() };
process.stdout.write(JSON.stringify({ ...native.blasKernel(), ...speed, config, maps }));
`;

/**
 * Loads the addon in a separate process, with the kernels of this name or OpenBLAS's choice; null when it
 * does not load or uses an unsupported instruction.
 */
export function probe(addon: string, kernel: string | null): Probe | null {
  const env: NodeJS.ProcessEnv = { ...process.env, OMP_NUM_THREADS: '1' };
  delete env[CORE_TYPE];
  if (kernel !== null) env[CORE_TYPE] = kernel;
  const run = spawnSync(process.execPath, ['-e', PROGRAM, addon], {
    encoding: 'utf8',
    env,
    timeout: 60_000,
    stdio: ['ignore', 'pipe', 'ignore'],
    maxBuffer: 64 * 1024 * 1024,
  });
  try {
    return run.status === 0 ? (JSON.parse(run.stdout) as Probe) : null;
  } catch {
    return null;
  }
}

/**
 * Kernels to request from OpenBLAS; null if its choice stands: another library, a choice that suits or is
 * unknown, or nothing faster.
 */
export function betterKernel(
  cpu: Processor,
  own: Probe,
  attempt: (kernel: string) => Probe | null,
): string | null {
  const used = instructionsOf(own.kernel);
  if (used === null) return null;
  const wider = candidates(cpu).filter((name) => narrower(used, instructionsOf(name)!));
  const better = wider.find((name) => {
    const result = attempt(name);
    // For a name that the library does not have it takes its own choice again.
    return result?.kernel.toLowerCase() === name.toLowerCase() && result.gflops >= WORTH_IT * own.gflops;
  });
  return better ?? null;
}

interface KernelRecord {
  readonly format: number;
  readonly processor: string;
  /** File stamps of the matrix library; empty where its file is not known. */
  readonly stamps: readonly Stamp[];
  /** Kernel that the library chose by itself. */
  readonly own: string;
  readonly chosen: string | null;
}

function recordFile(addon: string): string {
  return join(dirname(addon), 'kernel.json');
}

function recall(addon: string): KernelRecord | null {
  try {
    const record = JSON.parse(readFileSync(recordFile(addon), 'utf8')) as KernelRecord;
    const fits = record.format === FORMAT && record.processor === processorIdentity(processor());
    return fits && unchanged(record.stamps) ? record : null;
  } catch {
    return null;
  }
}

/**
 * Kernels to request from OpenBLAS before this addon is loaded; null if its choice is right. Measured once (a
 * second) and recorded.
 */
export function chosenKernel(addon: string): string | null {
  const known = recall(addon);
  if (known !== null) return known.chosen;
  const initial = probe(addon, null);
  if (initial === null) return null;
  const cpu = processor();
  const record: KernelRecord = {
    format: FORMAT,
    processor: processorIdentity(cpu),
    stamps: initial.file === '' ? [] : [stamp(initial.file)],
    own: initial.kernel,
    chosen: betterKernel(cpu, initial, (kernel) => probe(addon, kernel)),
  };
  try {
    writeJson(recordFile(addon), record);
  } catch (error) {
    if (!(error instanceof WriteError)) throw error; // a cache that another user filled serves all the same
  }
  return record.chosen;
}

/** Forgets what was found when the library that was loaded is another one, which the system's alternatives may change. */
export function confirmKernel(addon: string, file: string): void {
  const known = recall(addon);
  if (known === null || known.stamps.every((known) => known.file === file)) return;
  try {
    rmSync(recordFile(addon), { force: true });
  } catch {
    // not ours to change: the next process looks at it again
  }
}

// What the processor can compute, as Linux describes it; elsewhere nothing is known.

/** Widths of floating-point arithmetic, the narrowest first; an index compares two of the same architecture. */
const X64 = ['SSE', 'AVX', 'AVX2', 'AVX-512'] as const;
const ARM64 = ['NEON', 'SVE'] as const;
type Instructions = (typeof X64)[number] | (typeof ARM64)[number];

export interface Processor {
  /** Architecture, as in `process.arch`. */
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

/** Parses the first processor in the text of /proc/cpuinfo. */
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

/** Identity of a processor for compiled code: code moves only between equal identities. Model names do not qualify, because hypervisors invent them. */
export function processorIdentity({ arch, vendor, family, model, flags }: Processor): string {
  return [arch, vendor, family, model, ...[...flags].sort()].join(' ');
}

/** Returns true if instruction set `a` is narrower than `b`. */
export function narrower(a: Instructions, b: Instructions): boolean {
  const order: readonly Instructions[] = [...X64, ...ARM64];
  return order.indexOf(a) < order.indexOf(b);
}

/**
 * Maximum float32 operations per cycle and core: lanes × 2 (fused multiply-add) × units; null if unknown.
 * Processors with a single AVX-512 unit reach half.
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
