import { existsSync, mkdirSync, mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { describe, expect, test } from 'vitest';
import { cores, cpuModel, memory } from '../../src/ground/machine.ts';
import { INSTALL_RUNTIME } from '../../src/onnx/policy.ts';
import { blasOf, examine, onnxruntimeCheck } from '../../src/run/doctor.ts';

const line = (file: string): string => `7f00-7f01 r-xp 00000000 08:01 42    ${file}\n`;

describe('blasOf', () => {
  test('names the library that is mapped and how it threads', () => {
    const file = '/usr/lib/x86_64-linux-gnu/openblas-openmp/libopenblasp-r0.3.21.so';
    const maps = line('/usr/lib/libtorch_cpu.so') + line(file) + line(file);
    expect(blasOf(maps)).toEqual({ name: `${file} (openmp)`, slow: false });
    expect(blasOf(line('/usr/lib/openblas-pthread/libopenblas.so.0')).name).toContain('(pthread)');
  });

  test('the reference implementation is slow, unless a fast one is there too', () => {
    const reference = '/usr/lib/x86_64-linux-gnu/blas/libblas.so.3.11.0';
    expect(blasOf(line(reference))).toEqual({ name: reference, slow: true });
    expect(blasOf(line(reference) + line('/opt/intel/libmkl_core.so.2'))).toEqual({
      name: '/opt/intel/libmkl_core.so.2',
      slow: false,
    });
  });

  test('without a library of its own it is inside libtorch', () => {
    expect(blasOf(line('/site-packages/torch/lib/libtorch_cpu.so'))).toEqual({
      name: 'inside libtorch',
      slow: false,
    });
  });
});

describe('examine', () => {
  test('every check that is not ok says how to mend it, or names the setting that is wrong', () => {
    for (const { status, fix, found } of examine()) {
      if (status !== 'ok') expect(fix ?? found).toMatch(/\S/);
    }
  });

  test('on a machine that was set up, the engine loads and its matrix library is known', () => {
    const checks = new Map(examine().map((check) => [check.name, check]));
    expect(checks.get('engine')).toMatchObject({ status: 'ok' });
    expect(existsSync(checks.get('engine')!.found)).toBe(true);
    expect(checks.get('libtorch')!.found).toMatch(/^\d+\.\d+/);
  });
});

describe('onnxruntimeCheck', () => {
  test.each([false, true])(
    'package there: %s, its binary not: a warning with a command that works',
    (there) => {
      const root = mkdtempSync(join(tmpdir(), 'timeseer-doctor-'));
      const folder = join(root, 'node_modules', 'onnxruntime-node');
      if (there) {
        mkdirSync(folder, { recursive: true });
        writeFileSync(join(folder, 'package.json'), '{"name": "onnxruntime-node"}');
      }
      const check = onnxruntimeCheck(join(root, 'module.js'));
      rmSync(root, { recursive: true });
      expect(check).toMatchObject({ status: 'warning', fix: INSTALL_RUNTIME });
      expect(onnxruntimeCheck().status).toBe('ok');
    },
  );
});

describe('machine', () => {
  test('gives plausible cores, memory and processor', () => {
    expect(cores()).toBeGreaterThanOrEqual(1);
    expect(Number.isInteger(cores())).toBe(true);
    const { total, available } = memory();
    expect(total).toBeGreaterThan(64 * 1024 ** 2);
    expect(available).toBeLessThanOrEqual(total);
    expect(available).toBeGreaterThan(0);
    expect(cpuModel()).not.toBe('');
  });
});
