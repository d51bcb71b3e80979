/**
 * Ctrl-C that saves. The first SIGINT or SIGTERM asks the work to stop at the next safe place, as SIGHUP does; the second quits at
 * once. Engine calls block the event loop, so work must yield (`setImmediate`) for either to be noticed.
 */
import { TimeseerError } from './errors.ts';

/** Exit code of a command that was asked to stop. */
export const INTERRUPTED_EXIT_CODE = 130;
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

let active: AbortSignal | undefined;

/**
 * Runs `body` with a signal that the first SIGINT or SIGTERM aborts (its reason is an `Interrupted`). The body saves
 * and returns, or throws `signal.reason`. Once it has settled after an abort, the process's exit code is 130, 129 after SIGHUP; its
 * value or error passes through, an AbortError (timers, streams) as `Interrupted`. Nested calls share the outer
 * signal. Handlers are removed at the end.
 */
export async function withInterrupt<T>(
  body: (signal: AbortSignal) => Promise<T>,
  /** What the first signal says on stderr. */
  note = 'stopping: saving first; press Ctrl-C again to quit at once',
): Promise<T> {
  if (active !== undefined) return body(active);
  const controller = new AbortController();
  const onSignal = (): void => {
    if (controller.signal.aborted) process.exit(INTERRUPTED_EXIT_CODE);
    process.stderr.write(`\n${note}\n`);
    controller.abort(new Interrupted());
  };
  const onHangup = (): void => {
    // Nobody reads any more, which must not end what is being saved.
    for (const stream of [process.stdout, process.stderr])
      stream.removeAllListeners('error').on('error', () => {});
    controller.abort(new Interrupted(HANGUP_EXIT_CODE));
  };
  active = controller.signal;
  process.on('SIGINT', onSignal);
  process.on('SIGTERM', onSignal);
  process.on('SIGHUP', onHangup);
  try {
    return await body(controller.signal);
  } catch (error) {
    const aborted = controller.signal.aborted && error instanceof Error && error.name === 'AbortError';
    throw aborted ? controller.signal.reason : error;
  } finally {
    active = undefined;
    process.off('SIGINT', onSignal);
    process.off('SIGTERM', onSignal);
    process.off('SIGHUP', onHangup);
    if (controller.signal.aborted) process.exitCode = (controller.signal.reason as Interrupted).exitCode;
  }
}
