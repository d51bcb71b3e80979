/** Program of the thread of users' modules: loads them, and answers by the adapter of their kind; see `module-host.ts`. */
import { workerData } from 'node:worker_threads';
import type { LoadedModule, ModuleAdapter, ModuleWork } from './module-host.ts';
import { loadModule } from './user-code.ts';
import { answerRequests } from './worker-thread.ts';

let opened: ReturnType<ModuleAdapter<unknown, unknown, unknown, unknown>['open']>;

answerRequests<unknown, unknown, unknown, unknown>((request, call) => opened.answer(request, call), {
  concurrent: true,
  foreign: true,
  async prepare() {
    const { modules, adapter } = workerData as ModuleWork;
    const ending = /\.[jt]s$/u.exec(new URL(import.meta.url).pathname)![0];
    const kind = (await import(new URL(adapter + ending, import.meta.url).href)) as {
      readonly adapter: ModuleAdapter<unknown, unknown, unknown, unknown>;
    };
    const loaded: LoadedModule[] = [];
    for (const address of modules) {
      loaded.push({ value: await loadModule(address, kind.adapter.wanted), file: address.file });
    }
    opened = kind.adapter.open(loaded);
    return opened.info;
  },
});
