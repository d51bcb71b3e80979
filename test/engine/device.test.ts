/** The device of `npm run test:device` is what it says: its memory is closed to the host, and devices do not mix. */
import { spawnSync } from 'node:child_process';
import { createRequire } from 'node:module';
import { describe, expect, test } from 'vitest';
import { openTorch } from '../../src/engine/torch/torch.ts';
import { DEVICE } from '../helpers/device.ts';

test.runIf(DEVICE === 'cpu')('the device `test` is refused where it is not loaded', () => {
  expect(() => openTorch({ device: 'test' })).toThrow(
    "device 'test' asked for, which is for the suites alone: `npm run test:device` loads two of its kind",
  );
  expect(() => openTorch({ device: 'tests' })).toThrow("unknown device 'tests'");
});

/** Path of the device's addon, which every thread of this process has loaded. */
const addon = (): string => /--require (\S+\.node)$/.exec(process.env['NODE_OPTIONS'] ?? '')![1]!;

describe.runIf(DEVICE === 'test')('the device `test`', () => {
  test('ends a process that reads its memory on the host', () => {
    const program = `require(${JSON.stringify(addon())}).readOnHost(process.argv[1] === 'open')`;
    const env = { ...process.env, NODE_OPTIONS: '' };
    const run = (how: string) => spawnSync(process.execPath, ['-e', program, how], { env, encoding: 'utf8' });
    expect(run('open')).toMatchObject({ status: 0, signal: null });
    expect(run('closed').signal).toBe('SIGSEGV');
  });
  test('refuses tensors of two devices, and names both', () => {
    const [first, second] = ['test:0', 'test:1'].map((device) => openTorch({ device, threads: 1 }));
    const a = first!.tensor(Float32Array.from([1, 2]), [2]);
    const b = second!.tensor(Float32Array.from([3, 4]), [2]);
    expect([...second!.floats(second!.add(b, b))]).toEqual([6, 8]);
    const there = first!.attach(second!.share(b));
    expect(() => first!.add(a, there)).toThrow(/same device.*test:0 and test:1/);
  });
  test('keeps the values of a tensor that grows, on its own device', () => {
    const { grow } = createRequire(import.meta.url)(addon()) as { grow(device: number): number[] };
    expect(grow(1)).toEqual([1, 0, 1, 2]);
    expect(grow(0)).toEqual([0, 0, 1, 2]);
  });
  test('counts the memory of each device', () => {
    const engine = openTorch({ device: 'test:1', threads: 1 });
    engine.trackMemory();
    const before = engine.memory()!;
    const big = engine.zeros([1 << 20]); // 4 MiB
    expect(engine.memory()!.now - before.now).toBe(4 << 20);
    engine.dispose(big);
    expect(engine.memory()).toMatchObject({ now: before.now });
    expect(engine.memory()!.peak - before.now).toBeGreaterThanOrEqual(4 << 20);
    expect(() => openTorch({ device: 'test:2' })).toThrow(/test:2/);
  });
});
