/** The service in this process, on a port of its own, with what it logs. */
import { vi } from 'vitest';
import type { PolicySettings } from '../../src/serve/chat-worker.ts';
import { type RunningService, type ServeOptions, startService } from '../../src/serve/server.ts';
import { GOLDEN } from '../policy/golden.ts';

/** Of the tiny checkpoint, that fits into its context of 512. */
export const TINY_POLICY: PolicySettings = {
  ...{ policy: GOLDEN, adapter: undefined, device: undefined, dtype: 'auto', threads: 1, maxRows: 8 },
};
/** Its name for clients. */
export const TINY_MODEL = 'qwen';

const LIMITS: ServeOptions['limits'] = {
  ...{ bodyBytes: 8e6, queue: 16, seconds: 50, pixels: 1e6, promptTokens: 300 },
};

export interface TestService extends RunningService {
  /** Lines on standard error. */
  readonly log: string[];
}

type Changes = Partial<Omit<ServeOptions, 'limits'>> & { readonly limits?: Partial<ServeOptions['limits']> };

export async function openService({ limits, ...changes }: Changes = {}): Promise<TestService> {
  const log: string[] = [];
  vi.spyOn(process.stderr, 'write').mockImplementation((text) => log.push(String(text)) > 0);
  const service = await startService({
    ...{ host: '127.0.0.1', port: 0, apiKey: null, policy: null },
    ...changes,
    limits: { ...LIMITS, ...limits },
  });
  return { ...service, log };
}

/** An error answer: its status, and the fields of its error object. */
export async function errorOf(response: Response): Promise<Record<string, unknown>> {
  const { error } = (await response.json()) as { error: Record<string, unknown> };
  return { status: response.status, ...error };
}

/** Waits until `holds`. */
export async function until(holds: () => Promise<boolean> | boolean): Promise<void> {
  await vi.waitFor(
    async () => {
      if (!(await holds())) throw new Error('not yet');
    },
    { timeout: 20_000, interval: 10 },
  );
}
