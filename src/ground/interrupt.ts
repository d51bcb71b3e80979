/**
 * Ctrl-C that saves. The first signal asks the work to stop at the next safe place; the second quits at once.
 *
 * Node hands a signal to a listener only between two turns of the event loop: while a listener is there, a thread that is
 * busy (an endless template of a checkpoint, a long call of the engine) notices nothing, and without one the system ends the
 * process whatever it does. So listeners are there only around work that has something to save and lets the event loop
 * turn: a stage, whose Workers compute while the main thread waits; a download; the writing of a data set. They go with the
 * first signal, so that the second is the system's. Everywhere else the first signal ends the process.
 */
import { constants } from 'node:os';
import { TimeseerError } from './errors.ts';
import { say } from './terminal.ts';

/** Exit code of a command that was asked to stop. */
const INTERRUPTED_EXIT_CODE = 130;
/** … by its terminal being closed. */
const HANGUP_EXIT_CODE = 129;

/** Work ended early because it was asked to: what was safe to keep has been kept. */
export class Interrupted extends TimeseerError {
  readonly exitCode: number;
  constructor(exitCode = INTERRUPTED_EXIT_CODE) {
    super('stopped on request');
    this.exitCode = exitCode;
  }
}

/** Signals that ask a process to end. */
const SIGNALS: readonly NodeJS.Signals[] = ['SIGINT', 'SIGTERM', 'SIGHUP'];
const ignore = (): void => {};

let active: AbortSignal | undefined;

/**
 * Runs `body` with a signal that the first of `SIGNALS` aborts (its reason is an `Interrupted`). The body lets the event
 * loop turn (`setImmediate`) every few milliseconds, saves and returns, or throws `signal.reason`. Once it has settled after
 * an abort, the process's exit code is 130, 129 where its terminal was closed; its
 * value or error passes through, an AbortError (timers, streams) as `Interrupted`. Nested calls share the outer
 * signal. Handlers are removed at the end.
 */
export async function withInterrupt<T>(
  body: (signal: AbortSignal) => Promise<T>,
  /** Message on stderr at the first signal. */
  note = 'stopping: saving first; press Ctrl-C again to quit at once',
): Promise<T> {
  if (active !== undefined) return body(active);
  const controller = new AbortController();
  const onSignal = (name: NodeJS.Signals): void => {
    leave();
    if (name === 'SIGHUP') {
      // Nobody reads any more, which must not end what is being saved; nor must a second of these, as a shell sends one too.
      for (const stream of [process.stdout, process.stderr])
        stream.removeAllListeners('error').on('error', ignore);
      process.on(name, ignore);
    } else say(`\n${note}`);
    controller.abort(new Interrupted(name === 'SIGHUP' ? HANGUP_EXIT_CODE : INTERRUPTED_EXIT_CODE));
  };
  const leave = (): void => {
    for (const name of SIGNALS) process.off(name, onSignal);
  };
  active = controller.signal;
  for (const name of SIGNALS) process.on(name, onSignal);
  try {
    return await body(controller.signal);
  } catch (error) {
    const aborted = controller.signal.aborted && error instanceof Error && error.name === 'AbortError';
    throw aborted ? controller.signal.reason : error;
  } finally {
    active = undefined;
    leave();
    process.off('SIGHUP', ignore);
    if (controller.signal.aborted) process.exitCode = (controller.signal.reason as Interrupted).exitCode;
  }
}

/**
 * Ends the process on a signal if it is the first of a container (PID 1), which the system does not end by
 * itself.
 */
export function endAsFirstProcess(pid = process.pid): void {
  if (pid !== 1) return;
  for (const name of SIGNALS) {
    process.on(name, () => {
      const heeded = active !== undefined && !active.aborted;
      if (!heeded && !process.listeners(name).includes(ignore)) process.exit(128 + constants.signals[name]);
    });
  }
}
