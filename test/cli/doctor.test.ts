import { existsSync, mkdirSync, mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { describe, expect, test } from 'vitest';
import type { Backend } from '../../src/engine/tfjs/backend.ts';
import { EngineError } from '../../src/ground/errors.ts';
import { cores, cpuModel, memory } from '../../src/ground/machine.ts';
import { INSTALL_RUNTIME } from '../../src/onnx/policy.ts';
import { blasOf, examine, onnxruntimeCheck, tfjsCheck } from '../../src/run/doctor.ts';

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
  test('every check that is not ok says how to mend it, or names the setting that is wrong', async () => {
    for (const { status, fix, found } of (await examine()).checks) {
      if (status !== 'ok') expect(fix ?? found).toMatch(/\S/);
    }
  });

  test('on a machine that was set up, the engine loads and its matrix library is known', async () => {
    const { engine, asked, checks: all } = await examine();
    expect([engine, asked]).toEqual(['torch', false]);
    const checks = new Map(all.map((check) => [check.name, check]));
    expect(checks.get('engine')).toMatchObject({ status: 'ok' });
    expect(existsSync(checks.get('engine')!.found)).toBe(true);
    expect(checks.get('libtorch')!.found).toMatch(/^\d+\.\d+/);
  });
});

describe('tfjsCheck', () => {
  const backend = (name: string) => async () => ({ name, version: '4.22.0' }) as Backend;

  test('names the package that computes, and how to get a faster one', async () => {
    expect(await tfjsCheck()).toEqual({
      ...{ name: 'tfjs', status: 'ok' },
      found: expect.stringMatching(
        /^@tensorflow\/tfjs-backend-wasm 4\.22\.0; optional, .*npm install @tensorflow\/tfjs-node@4\.22\.0, .*npm install @tensorflow\/tfjs-node-gpu@4\.22\.0$/,
      ),
    });
    const found = '@tensorflow/tfjs-node 4.22.0';
    expect(await tfjsCheck(backend('@tensorflow/tfjs-node'))).toMatchObject({ status: 'ok', found });
  });

  test('says why it does not start', async () => {
    const fix = 'install it again (npm install @tensorflow/tfjs-node@4.22.0) or remove it';
    const found = '@tensorflow/tfjs-node 4.10.0 does not start';
    const broken = new EngineError(found, { fix });
    expect(broken.message).toBe(`${found}; ${fix}`);
    const check = { name: 'tfjs', status: 'missing', found };
    expect(await tfjsCheck(() => Promise.reject(broken))).toEqual({ ...check, fix });
    // Where nothing can be done, no fix is made up.
    expect(await tfjsCheck(() => Promise.reject(new EngineError(found)))).toEqual(check);
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
