/** Opens policies, endpoints, baselines and user modules, all by one reference syntax. */

import { existsSync } from 'node:fs';
import type { EndpointOptions } from '../endpoint/chat.ts';
import { ConfigError, closest } from '../ground/errors.ts';
import type { Answerer, LocalSource } from './answerer.ts';
import type { LocalOptions } from './local.ts';
import { parseReference, type Reference } from './reference.ts';

export interface OpenOptions extends LocalOptions {
  /** Limits, prices and key of endpoints. */
  readonly endpoint?: Omit<EndpointOptions, 'url' | 'model'>;
  /** True: do not log the preparation of baselines. */
  readonly quiet?: boolean;
}

/** Reads a reference; a name without its prefix, or a misspelt one, is told what was probably meant. */
async function read(reference: string): Promise<Reference> {
  try {
    return parseReference(reference);
  } catch (error) {
    if (!/^[\w-]+$/.test(reference) || existsSync(reference)) throw error;
    const { BASELINES } = await import('./baselines.ts');
    const names = ['small', 'inspect', ...BASELINES.keys()];
    const meant = closest(reference, names);
    if (meant === undefined) throw error;
    const whole = BASELINES.has(meant) ? `baseline:${meant}` : meant;
    throw new ConfigError(`${(error as Error).message}. Did you mean ${whole}?`, {
      cause: error,
    });
  }
}

/**
 * Opens the policy that a reference names: `small`, a policy or run directory, `openai:MODEL@URL`, `baseline:NAME`, or `FILE[#NAME]` (a
 * user module). Weights are loaded on the first request.
 * @throws ConfigError, CheckpointError if the reference names nothing; the message explains the syntax
 */
export async function openPolicy(reference: string, options: OpenOptions = {}): Promise<Answerer> {
  const parsed = await read(reference);
  // Imported on demand, so that a command loads only the code it needs.
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
      `--policy ${reference}: this command needs local weights; give small, a policy directory or a run directory`,
    );
  }
  return local;
}
