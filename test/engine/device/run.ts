/**
 * Runs suites on the device `test` (device.cc), against a libtorch of 2.9 or later, as the PyTorch of a Python has it:
 *
 *     TIMESEER_TEST_PYTHON=venv/bin/python npm run test:device [-- FILES…]
 *
 * Without that variable and with an older libtorch it says that it skips them and ends well, so that CI can call it anywhere. The device is an addon that every thread loads
 * before libtorch is used, by NODE_OPTIONS.
 */
import { spawnSync } from 'node:child_process';
import { existsSync } from 'node:fs';
import { join } from 'node:path';
import { buildAddon, findCompiler } from '../../../src/engine/torch/build.ts';
import { findLibtorch } from '../../../src/engine/torch/find.ts';

/** Suites of the engine, of the policy against transformers, of both stages, of checkpoints, and of several ranks. */
const SUITES = [
  'test/engine/torch.test.ts',
  'test/engine/device.test.ts',
  'test/engine/rebind.test.ts',
  'test/engine/distributed.test.ts',
  'test/policy',
  'test/train',
  'test/run/world.test.ts',
  'test/run/added-tokens.test.ts',
  'test/answer/local.test.ts',
];

const root = join(import.meta.dirname, '../../..');
const python = process.env['TIMESEER_TEST_PYTHON'];
const env: NodeJS.ProcessEnv = { OMP_WAIT_POLICY: 'passive', ...process.env, TIMESEER_TEST_DEVICE: 'test' };
if (python !== undefined) {
  env['TIMESEER_PYTHON'] = python;
  delete env['LIBTORCH']; // which would come first
}
for (const file of SUITES) if (!existsSync(join(root, file))) throw new Error(`${file}: no such suite`);
const libtorch = findLibtorch({ env });
const compiler = findCompiler(env);
const [major, minor] = (libtorch?.version ?? '0.0').split('.').map(Number) as [number, number];
if (libtorch === null || compiler === null || major < 2 || (major === 2 && minor < 9)) {
  console.log(
    `SKIPPED: the suites do not run on the device 'test': it needs a compiler and libtorch 2.9 or later, found ${libtorch?.version ?? 'none'}; ` +
      'set TIMESEER_TEST_PYTHON to a Python that has one (pip install torch)',
  );
  process.exit(python === undefined ? 0 : 1);
}
const log = (line: string): void => console.log(line);
await buildAddon(libtorch, compiler, { env, log });
const device = await buildAddon(libtorch, compiler, {
  env,
  log,
  sources: [join(import.meta.dirname, 'device.cc')],
});
env['NODE_OPTIONS'] = `${process.env['NODE_OPTIONS'] ?? ''} --require ${device}`;
const given = process.argv.slice(2);
const vitest = join(root, 'node_modules/vitest/vitest.mjs');
const files = given.length > 0 ? given : SUITES;
const run = spawnSync(process.execPath, [vitest, 'run', ...files], { cwd: root, env, stdio: 'inherit' });
process.exit(run.status ?? 1);
