/** Environment of a run: machine, versions and the speed of its engine, recorded beside it. */
import { openEngine } from '../answer/local.ts';
import type { Engine } from '../engine/engine.ts';
import { writeFileAtomic } from '../ground/files.ts';
import { cores, cpuModel, memory } from '../ground/machine.ts';
import { packageVersion } from '../ground/paths.ts';
import type { Run } from './run.ts';

/** Writes machine and versions to environment.json of the run, over the values that were there. @throws DataError as `RunDirectory.environment` */
export function writeEnvironment(
  run: Run,
  device: string,
  more: Readonly<Record<string, number | string | null>> = {},
): void {
  const file = run.file('environment.json');
  const engine = openEngine(device);
  const { version, blas, deviceName } = engine.info;
  const environment = {
    ...run.environment,
    timeseer: packageVersion(),
    node: process.version,
    platform: `${process.platform} ${process.arch}`,
    libtorch: version,
    blas: blas.replace(/\S*\//g, ''),
    device,
    device_name: deviceName,
    cpu: cpuModel(),
    cores: cores(),
    memory_gib: Math.round(memory().total / 2 ** 30),
    matmul_gflops_one_thread: Math.round(calibrate(engine)),
    ...more,
  };
  writeFileAtomic(file, `${JSON.stringify(environment, null, 2)}\n`);
}

/** GFLOP/s of a 512³ product on one thread, which puts the seconds of this run in proportion. */
function calibrate(engine: Engine): number {
  const size = 512;
  const rounds = 10;
  return engine.scope(() => {
    const a = engine.tensor(new Float32Array(size * size).fill(0.5), [size, size]);
    engine.matmul(a, a);
    const began = performance.now();
    for (let i = 0; i < rounds; i++)
      engine.item(engine.narrow(engine.reshape(engine.matmul(a, a), [-1]), 0, 0, 1));
    return (rounds * 2 * size ** 3) / 1e6 / (performance.now() - began);
  });
}
