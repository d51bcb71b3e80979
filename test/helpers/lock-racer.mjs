/**
 * One of several processes that race for locks. `claim DIRECTORIES…`: claims each once, keeps what it got, prints the names, and
 * ends with its standard input. `enter DIRECTORY ROUNDS`: takes a lock as often, and fails when somebody else is inside.
 */
import { closeSync, openSync, rmSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { setTimeout as sleep } from 'node:timers/promises';

const [module, start, mode, ...rest] = process.argv.slice(2);
const { claimDirectory, takeLock } = await import(module);
const { OWNER } = await import(new URL('./files.js', module));
while (Date.now() < Number(start)) await sleep(1);

if (mode === 'claim') {
  for (const directory of rest) {
    try {
      await claimDirectory(directory);
      console.log(directory);
    } catch (error) {
      if (error.name !== 'ConfigError') console.log(String(error));
    }
  }
  console.log('done');
  for await (const _ of process.stdin);
  process.exit();
}

const [directory, rounds] = rest;
// The process of this id that started at tick 1 has ended.
const gone = OWNER.replace(/\d+$/, '1');
for (let i = 0; i < Number(rounds); i++) {
  const lock = await takeLock(join(directory, '.lock'));
  closeSync(openSync(join(directory, 'inside'), 'wx'));
  writeFileSync(join(directory, `.lock.${gone}.${i}`), 'held');
  await sleep(Math.random() * 2);
  rmSync(join(directory, 'inside'));
  lock.release();
  if (Math.random() < 0.5) await sleep(Math.random() * 4);
}
