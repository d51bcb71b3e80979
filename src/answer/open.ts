/** The one door: from a reference to what answers. */
import type { EndpointOptions } from '../endpoint/chat.ts';
import { ConfigError } from '../ground/errors.ts';
import type { Answerer, LocalSource } from './answerer.ts';
import type { LocalOptions } from './local.ts';
import { parseReference } from './reference.ts';

export interface OpenOptions extends LocalOptions {
  /** Limits, prices and key of endpoints. */
  readonly endpoint?: Omit<EndpointOptions, 'url' | 'model'>;
  /** True: no lines about what baselines prepare. */
  readonly quiet?: boolean;
}

/**
 * Opens whatever a reference names: `small`, a directory of a policy or a run, `openai:MODEL@URL`, `baseline:NAME`, or `FILE[#NAME]`, a
 * module of the user. Weights are loaded with the first request.
 * @throws ConfigError, CheckpointError where nothing is there, with the syntax of references
 */
export async function openPolicy(reference: string, options: OpenOptions = {}): Promise<Answerer> {
  const parsed = parseReference(reference);
  // Each is loaded when it is wanted.
  switch (parsed.kind) {
    case 'endpoint': {
      const { endpointAnswerer } = await import('./endpoint.ts');
      return endpointAnswerer(reference, { ...options.endpoint, url: parsed.url, model: parsed.model });
    }
    case 'baseline': {
      const { baselineAnswerer } = await import('./baselines.ts');
      return baselineAnswerer(reference, parsed.name, { quiet: options.quiet });
    }
    case 'module': {
      const { moduleAnswerer } = await import('./define.ts');
      return moduleAnswerer(reference, parsed.module);
    }
    case 'directory': {
      const { localAnswerer } = await import('./local.ts');
      return localAnswerer(reference, parsed.directory, options);
    }
  }
}

/**
 * Opens a policy on this machine; `load` reads its weights.
 * @throws ConfigError for a reference to anything else; as `openPolicy`
 */
export async function openLocal(reference: string, options: LocalOptions = {}): Promise<LocalSource> {
  const { local } = await openPolicy(reference, options);
  if (local === null) {
    throw new ConfigError(
      `--policy ${reference}: is not on this machine, and this command reads the policy itself; give small, the directory of a policy, or that of a run`,
    );
  }
  return local;
}
