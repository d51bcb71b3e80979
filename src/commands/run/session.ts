/** What the commands of a run do alike: check the device, open the run, work, say how to go on. */
import { openTorch } from '../../engine/torch/torch.ts';
import { Interrupted } from '../../interrupt.ts';
import { say } from '../../terminal.ts';
import type { RunFiles } from './files.ts';
import { claimRun, isDirectory } from './lock.ts';
import { shellWord } from './options.ts';

/**
 * Opens a run and works on it. Nothing is written when the device cannot be used.
 * @throws EngineError for the device; ConfigError when another process works on the run; Interrupted when stopped, after the command that goes on was printed on stderr
 */
export async function runSession(
  /** Name of the command. */
  command: string,
  given: { readonly out: string; readonly device: string },
  open: () => RunFiles,
  work: (run: RunFiles) => Promise<void>,
): Promise<RunFiles> {
  openTorch({ device: given.device, threads: 1 });
  let release = isDirectory(given.out) ? claimRun(given.out) : null;
  try {
    const run = open();
    release ??= claimRun(given.out);
    await work(run);
    return run;
  } catch (error) {
    if (error instanceof Interrupted) {
      const device = given.device === 'cpu' ? [] : ['--device', given.device];
      const again = ['timeseer', command, '--out', given.out, ...device, '--resume'];
      say(`go on with: ${again.map(shellWord).join(' ')}`);
    }
    throw error;
  } finally {
    release?.();
  }
}
