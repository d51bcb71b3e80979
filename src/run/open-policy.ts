/** From what a user names a policy by to the policy: a directory of weights, a classical baseline. */
import { hostPolicy } from '../../eval/define.ts';
import type { EvalPolicy } from '../../eval/policy.ts';
import type { EndpointOptions } from '../endpoint/chat.ts';
import { ConfigError } from '../ground/errors.ts';
import { moduleAddress, moduleHash } from '../ground/user-module.ts';
import { type Baselines, baselinePolicy } from './baseline-policy.ts';
import { endpointPolicy, isEndpoint } from './endpoint-policy.ts';
import type { EngineName } from './engine-name.ts';
import { localPolicy } from './local-policy.ts';
import { selectEngine } from './open-answerer.ts';
import { findPolicy } from './run-policy.ts';
import { userPolicy } from './user-policy.ts';

export interface PolicyOptions {
  /** Directory of a low-rank adapter of the policies on this machine. */
  readonly adapter: string | undefined;
  readonly engine?: EngineName | undefined;
  readonly device: string;
  readonly workers: number;
  /** Of all endpoints. */
  readonly endpoint: Omit<EndpointOptions, 'url' | 'model'>;
}

export interface OpenedPolicy {
  /** As it was named. */
  readonly given: string;
  readonly policy: EvalPolicy;
  /** Of the weights of a policy on this machine. */
  readonly directory: string | null;
  /** Lets go of a thread of its own. */
  readonly close?: () => Promise<void>;
}

const BASELINE = 'baseline:';
/** By its ending: a directory may begin with a dot or a slash as well. */
const MODULE = /\.m?[jt]s(?:#[^#/\\]+)?$/;

/**
 * @param given a directory of a policy or a run, `openai:MODEL@URL`, `baseline:NAME`, or `FILE[#NAME]`, a module of the user
 * @throws ConfigError, CheckpointError where there is no such policy
 */
export async function openPolicy(
  given: string,
  options: PolicyOptions,
  baselines: Baselines,
): Promise<OpenedPolicy> {
  if (given.trim() === '') throw new ConfigError('--policy: is empty; give a path');
  if (given.startsWith(BASELINE)) {
    return { given, policy: baselinePolicy(given.slice(BASELINE.length), baselines), directory: null };
  }
  if (isEndpoint(given)) return { given, policy: endpointPolicy(given, options.endpoint), directory: null };
  if (MODULE.test(given)) {
    const module = moduleAddress(given, '.');
    const { definition, ready, close } = await hostPolicy(module);
    const policy = userPolicy(definition, { module: moduleHash(module.file), export: module.name }, ready);
    return { given, policy, directory: null, close };
  }
  const { adapter, device, workers } = options;
  const from = findPolicy(given);
  const engine = selectEngine(from, options);
  return {
    given,
    policy: localPolicy({ name: given, from, adapter, engine, device, workers }),
    directory: from,
  };
}
