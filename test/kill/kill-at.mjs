/**
 * Loaded before the program (`node --import`): kills the process right after a call that changes a file, as a power failure or the
 * kernel would. `KILL_AT='worker renameSync 2 \.old\.tmp$'` is the second such call of a Worker whose last path fits; `*` fits any
 * call. `JUMPY_CLOCK` makes the clock jump by up to a day, forwards and back, each time that it is asked.
 */
import fs from 'node:fs';
import { syncBuiltinESMExports } from 'node:module';
import { isMainThread } from 'node:worker_threads';

const CALLS = [
  'openSync',
  'writeSync',
  'writeFileSync',
  'fsyncSync',
  'renameSync',
  'mkdirSync',
  'rmSync',
  'rmdirSync',
];

if (process.env.KILL_AT !== undefined) {
  const [thread, name, count, pattern = ''] = process.env.KILL_AT.split(' ');
  const fits = new RegExp(pattern);
  let left = thread === (isMainThread ? 'main' : 'worker') ? Number(count) : Number.POSITIVE_INFINITY;
  for (const call of CALLS) {
    const real = fs[call];
    fs[call] = (...args) => {
      const result = real(...args);
      const path = args.slice(0, 2).findLast((arg) => typeof arg === 'string');
      if ((name === '*' || name === call) && fits.test(path ?? '') && --left === 0)
        process.kill(process.pid, 'SIGKILL');
      return result;
    };
  }
  syncBuiltinESMExports();
}

if (process.env.JUMPY_CLOCK !== undefined) {
  const RealDate = Date;
  const jumpy = () => Math.round(RealDate.now() + (Math.random() - 0.5) * 86_400_000);
  globalThis.Date = class extends RealDate {
    constructor(...args) {
      super(...(args.length === 0 ? [jumpy()] : args));
    }
    static now() {
      return jumpy();
    }
  };
}
