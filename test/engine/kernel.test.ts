import { describe, expect, it } from 'vitest';
import {
  betterKernel,
  candidates,
  flopsPerCycle,
  type Probe,
  type Processor,
  parseProcessor,
} from '../../src/engine/torch/kernel.ts';
import { blasCheck } from '../../src/run/doctor.ts';

const x64 = (vendor: string, family: number, model: number, flags: string): Processor =>
  parseProcessor(
    `processor\t: 0\nvendor_id\t: ${vendor}\ncpu family\t: ${family}\nmodel\t\t: ${model}\nmodel name\t: some\nflags\t\t: ${flags}\n\nprocessor\t: 1\n`,
    'x64',
  );
const SSE = 'fpu sse sse2 ssse3 sse4_1 sse4_2 popcnt';
const AVX2 = `${SSE} avx fma avx2 bmi1 bmi2`;
const AVX512 = `${AVX2} avx512f avx512dq avx512bw avx512vl avx512cd`;
const EMERALD_RAPIDS = x64('GenuineIntel', 6, 207, `${AVX512} avx512_bf16 amx_tile amx_bf16`);
const SKYLAKE = x64('GenuineIntel', 6, 85, AVX512);
const HASWELL = x64('GenuineIntel', 6, 63, AVX2);
const ZEN3 = x64('AuthenticAMD', 25, 1, AVX2);
const ZEN4 = x64('AuthenticAMD', 25, 17, `${AVX512} avx512_bf16`);
const NEHALEM = x64('GenuineIntel', 6, 26, SSE);
const arm = (part: string, features: string): Processor =>
  parseProcessor(
    `processor\t: 0\nFeatures\t: fp asimd ${features}\nCPU implementer\t: 0x41\nCPU part\t: ${part}\n`,
    'arm64',
  );
const NEOVERSE_N1 = arm('0xd0c', 'asimddp');
const NEOVERSE_V2 = arm('0xd4f', 'asimddp sve sve2');

const NOTHING = { file: '/usr/lib/libopenblasp-r0.3.21.so', config: '', maps: '', gigahertz: 3 };

/** A library that holds these kernels, with the GFLOP/s of each, and takes `own` by itself or for names it lacks. */
function library(own: string, speeds: Readonly<Record<string, number>>) {
  const attempts: string[] = [];
  const result = (kernel: string): Probe => ({ ...NOTHING, kernel, gflops: speeds[kernel]! });
  const attempt = (wanted: string): Probe => {
    attempts.push(wanted);
    return result(Object.keys(speeds).find((name) => name.toLowerCase() === wanted.toLowerCase()) ?? own);
  };
  return { own: result(own), attempt, attempts };
}

const choose = (cpu: Processor, own: string, speeds: Readonly<Record<string, number>>): string | null => {
  const { own: probe, attempt } = library(own, speeds);
  return betterKernel(cpu, probe, attempt);
};

// Measured on a processor of this model with Debian's OpenBLAS 0.3.21, which does not know it.
const ON_EMERALD_RAPIDS = { Prescott: 17, Sandybridge: 40, Haswell: 72, Zen: 72, SkylakeX: 137 };

describe('the kernels that OpenBLAS is asked for', () => {
  it('are those for AVX-512 where it takes those for SSE on a processor that has it', () => {
    expect(choose(EMERALD_RAPIDS, 'Prescott', { ...ON_EMERALD_RAPIDS, Cooperlake: 136 })).toBe('Cooperlake');
    expect(choose(EMERALD_RAPIDS, 'Prescott', ON_EMERALD_RAPIDS)).toBe('SkylakeX');
  });

  it('are the best that the library has', () => {
    const { SkylakeX: _, ...older } = ON_EMERALD_RAPIDS;
    expect(choose(EMERALD_RAPIDS, 'Prescott', older)).toBe('Haswell');
    expect(choose(EMERALD_RAPIDS, 'Prescott', { Prescott: 17 })).toBeNull();
    expect(choose(x64('AuthenticAMD', 26, 2, AVX512), 'Prescott', { Prescott: 20, Zen: 90 })).toBe('Zen');
  });

  it('are its own where they use what the processor has, and then nothing else is tried', () => {
    for (const [cpu, own] of [
      [EMERALD_RAPIDS, 'SapphireRapids'],
      [ZEN4, 'Cooperlake'],
      [SKYLAKE, 'SkylakeX'],
      [HASWELL, 'Haswell'],
      [ZEN3, 'Zen'],
      [ZEN3, 'Haswell'],
      [NEHALEM, 'Nehalem'],
      [NEOVERSE_N1, 'armv8'],
      [NEOVERSE_V2, 'neoversev1'],
    ] as const) {
      const { own: probe, attempt, attempts } = library(own, { [own]: 50 });
      expect(betterKernel(cpu, probe, attempt), own).toBeNull();
      expect(attempts, own).toEqual([]);
    }
  });

  it('are its own where wider instructions are no faster', () => {
    expect(choose(ZEN4, 'Zen', { Zen: 104, SkylakeX: 98, Cooperlake: 101 })).toBeNull();
  });

  it('are never wider than the processor', () => {
    expect(candidates(HASWELL)).toEqual(['Haswell', 'Zen', 'Sandybridge']);
    expect(candidates(NEHALEM)).toEqual([]);
    expect(choose(HASWELL, 'Prescott', ON_EMERALD_RAPIDS)).toBe('Haswell');
    expect(candidates(SKYLAKE)).not.toContain('Cooperlake');
  });

  it('on ARM are those for SVE where the processor has it and they are faster', () => {
    expect(choose(NEOVERSE_V2, 'armv8', { armv8: 20, neoversev1: 45 })).toBe('NEOVERSEV1');
    expect(choose(NEOVERSE_V2, 'armv8', { armv8: 40, neoversev1: 42 })).toBeNull();
    expect(candidates(NEOVERSE_N1)).toEqual([]);
  });

  it('are left alone where they are of another library, or the processor is not described', () => {
    expect(choose(EMERALD_RAPIDS, '', { '': 30 })).toBeNull();
    expect(choose(EMERALD_RAPIDS, 'Newer', { Newer: 30, ...ON_EMERALD_RAPIDS })).toBeNull();
    expect(choose(parseProcessor('', 'x64'), 'Prescott', ON_EMERALD_RAPIDS)).toBeNull();
  });

  it('are not those that end the process', () => {
    const { own } = library('Prescott', ON_EMERALD_RAPIDS);
    const attempt = (name: string): Probe | null =>
      name === 'Haswell' ? { ...NOTHING, kernel: 'Haswell', gflops: 72 } : null;
    expect(betterKernel(EMERALD_RAPIDS, own, attempt)).toBe('Haswell');
  });
});

describe('what a processor promises', () => {
  it('is its lanes times its units', () => {
    expect(EMERALD_RAPIDS.instructions).toBe('AVX-512');
    expect(
      [EMERALD_RAPIDS, ZEN4, HASWELL, ZEN3, NEHALEM, NEOVERSE_N1, NEOVERSE_V2].map(flopsPerCycle),
    ).toEqual([64, 32, 32, 32, 8, 16, 32]);
    expect(flopsPerCycle(parseProcessor('', 'x64'))).toBeNull();
  });
});

describe('the check of the matrix library', () => {
  const maps = '7f00-7f01 r-xp 00000000 08:01 42    /usr/lib/openblas-openmp/libopenblasp-r0.3.21.so\n';
  const check = (kernel: string, gflops: number, wished = '') =>
    blasCheck(EMERALD_RAPIDS, { ...NOTHING, maps, kernel, gflops }, wished, 'apt-get install fast');

  it('names kernels and speed beside what the processor promises', () => {
    expect(check('SkylakeX', 137)).toEqual({
      name: 'blas',
      status: 'ok',
      found:
        '/usr/lib/openblas-openmp/libopenblasp-r0.3.21.so (openmp), kernels for SkylakeX: ' +
        '137 GFLOP/s on one core of at most 192 (AVX-512: 64 operations a cycle × 3.0 GHz)',
    });
  });

  it('says how to mend kernels that the user chose, that the library lacks, or that it does not have', () => {
    expect(check('Prescott', 17, 'Prescott')).toMatchObject({
      status: 'warning',
      found: expect.stringContaining('OPENBLAS_CORETYPE=Prescott is set, its kernels use SSE'),
      fix: 'unset OPENBLAS_CORETYPE',
    });
    expect(check('SkylakeX', 137, 'Skylake')).toMatchObject({
      status: 'warning',
      found: expect.stringContaining('OPENBLAS_CORETYPE=Skylake names none of its kernels'),
      fix: 'unset OPENBLAS_CORETYPE',
    });
    expect(check('Prescott', 17)).toMatchObject({ status: 'warning', fix: 'install a newer OpenBLAS' });
    expect(check('SkylakeX', 50)).toMatchObject({
      status: 'warning',
      fix: expect.stringContaining('while nothing else computes'),
    });
  });

  it('tells a slow library inside libtorch from one that is fast', () => {
    const config = '  - Intel(R) oneAPI Math Kernel Library Version 2024.2-Product Build 20240605\n';
    const mkl = (gflops: number) =>
      blasCheck(ZEN4, { ...NOTHING, kernel: '', config, gflops }, '', 'apt-get install x');
    expect(mkl(80)).toMatchObject({
      status: 'ok',
      found: expect.stringContaining('MKL 2024.2 inside libtorch: 80'),
    });
    expect(mkl(30)).toMatchObject({ status: 'warning', fix: expect.stringContaining('apt-get install x') });
  });
});
