/** The program of the thread that a policy or detector of the user runs in; see `policy-host.ts`. */
import { parentPort, workerData } from 'node:worker_threads';
import { answererOf } from '../../eval/define.ts';
import { TimeseerError } from '../ground/errors.ts';
import { loadModule } from '../ground/user-code.ts';
import type { ModuleAddress } from '../ground/user-module.ts';
import type { PolicyCall, PolicyReply } from './policy-host.ts';

const module = workerData as ModuleAddress;
const port = parentPort!;
const post = (reply: PolicyReply): void => port.postMessage(reply);
const running = new Map<number, AbortController>();

try {
  const definition = answererOf(await loadModule(module, 'a policy made with definePolicy'), module.file);
  const answer = async (call: Extract<PolicyCall, { kind: 'answer' | 'detect' }>, signal: AbortSignal) => {
    if (call.kind === 'answer' && 'answer' in definition)
      return definition.answer({ ...call.request, signal });
    if (call.kind === 'detect' && 'detect' in definition)
      return definition.detect(call.series, { ...call.asked, signal });
    throw new TypeError(`${definition.name} has no function ${call.kind}`);
  };
  port.on('message', async (call: PolicyCall) => {
    const { id } = call;
    if (call.kind === 'abort') {
      running.get(id)?.abort(new DOMException('no answer is awaited any more', 'AbortError'));
      post({ kind: 'aborted', id });
      return;
    }
    const controller = new AbortController();
    running.set(id, controller);
    try {
      post({ kind: 'outcome', id, outcome: await answer(call, controller.signal) });
    } catch (error) {
      const { name = 'Error', message = String(error) } = (error ?? {}) as Error;
      post({ kind: 'threw', id, name: String(name), message: String(message) });
    } finally {
      running.delete(id);
    }
  });
  const { name, concurrency, timeLimit } = definition;
  const common = {
    name,
    ...(concurrency === undefined ? {} : { concurrency }),
    ...(timeLimit === undefined ? {} : { timeLimit }),
  };
  post({ kind: 'ready', common, detects: 'detect' in definition });
} catch (error) {
  post({ kind: 'refused', message: error instanceof TimeseerError ? error.message : String(error) });
}
