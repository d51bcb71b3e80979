/** What the commands of a run do alike: check the device, open the run, work, say how to go on. */
import { join } from 'node:path';
import { openTorch } from '../engine/torch/torch.ts';
import { gone, neverRemake, tidyUp } from '../files.ts';
import { Interrupted } from '../interrupt.ts';
import { claimDirectory } from '../lock.ts';
import { say } from '../terminal.ts';
import type { RunFiles } from './files.ts';
import { shellWord } from './options.ts';

/** Directories in which a run is written, checkpoints aside: those are recovered by their stage. */
function tidyRun(path: string): void {
  for (const part of ['', 'sft', 'rl', 'eval']) tidyUp(join(path, part), (name) => name !== 'checkpoint');
}

/**
 * Opens a run and works on it, alone from before the first file is written. Nothing is written when the device cannot be used.
 * @throws EngineError for the device; ConfigError when another process works on the run; WriteError when its directory was removed
 * meanwhile; Interrupted when stopped, after the command that goes on was printed on stderr
 */
export async function runSession(
  /** Name of the command. */
  command: string,
  given: { readonly out: string; readonly device: string },
  open: () => RunFiles,
  work: (run: RunFiles) => Promise<void>,
): Promise<RunFiles> {
  openTorch({ device: given.device, threads: 1 });
  const lock = await claimDirectory(given.out);
  let release = (): void => {};
  try {
    tidyRun(given.out);
    const run = open();
    release = neverRemake(given.out);
    await work(run);
    if (!lock.held()) throw gone(given.out);
    return run;
  } catch (error) {
    // Whatever failed first, this is why.
    if (!lock.held()) throw gone(given.out);
    if (error instanceof Interrupted) {
      const device = given.device === 'cpu' ? [] : ['--device', given.device];
      const again = ['timeseer', command, '--out', given.out, ...device, '--resume'];
      say(`go on with: ${again.map(shellWord).join(' ')}`);
    }
    throw error;
  } finally {
    release();
    lock.release();
  }
}
