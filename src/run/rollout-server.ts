/**
 * Inference server that samples the rollouts, in vLLM's protocol: chat completions with token ids and log-probabilities. Before each step
 * the adapter in training is written to a directory that the server sees, and loaded there under a new name; an answer of another name is
 * refused, so no response of an earlier policy is trained on.
 */
import { randomInt } from 'node:crypto';
import { rmSync } from 'node:fs';
import { join, resolve } from 'node:path';
import { responseSeed } from '../answer/each.ts';
import { userTurn } from '../answer/endpoint.ts';
import { ChatError, openEndpoint, saidBy, type TokenAnswer } from '../endpoint/chat.ts';
import { saveAdapter } from '../policy/lora.ts';
import type { Policy } from '../policy/policy.ts';
import type { RlRecipe } from '../recipe/recipe.ts';
import {
  type RemoteOptions,
  type RemotePrompt,
  type RemoteResponse,
  type RemoteSampler,
  RolloutStopped,
} from '../train/remote-rollout.ts';
import type { Task } from '../train/task.ts';
import type { WorkerGroup } from '../train/worker-group.ts';

export interface RolloutServer extends RemoteSampler {
  /** Takes the last adapter away. Rank 0 only; errors are of no consequence. */
  readonly close: () => Promise<void>;
}

interface Served {
  readonly policy: Policy;
  readonly workers: WorkerGroup;
  readonly task: Task;
  readonly server: RlRecipe['server'];
  readonly seed: number;
  /** Directory of the run's stage. */
  readonly directory: string;
  /** Called once for each time that the server stops answering. */
  readonly say: (text: string) => void;
}

const POLL_MS = 50;

/** Starts of a run do not share names, because a server may outlive them. */
const NONCES = 2 ** 31;

/**
 * Opens the server of a recipe; null without one. Collective. Nothing is sent before the first step.
 * @throws ConfigError for an address or key that no request can be made with
 */
export function openRolloutServer(served: Served): RolloutServer | null {
  const { policy, workers, task, server, seed } = served;
  if (server.address === null) return null;
  /** True from the first failed request to the next answer. */
  let waiting = false;
  const onRetry = (message: string): void => {
    if (!waiting) served.say(`${message}; the step waits for the server`);
    waiting = true;
  };
  const endpoint = openEndpoint({
    onRetry,
    ...{ url: server.address, model: 'the policy in training', keyVariable: server.key ?? undefined },
    ...{ concurrency: server.concurrency, timeout: server.timeout, attempts: server.attempts },
  });
  const adapters = resolve(server.directory ?? join(served.directory, 'adapters'));
  const [nonce] = workers.broadcast([workers.rank === 0 ? randomInt(NONCES) : 0]) as [number];
  const nameOf = (step: number): string => `timeseer-${nonce.toString(36)}-${step}`;
  // What a killed session left in the run; a directory of the user's may be that of other runs too.
  if (server.directory === null && workers.rank === 0) rmSync(adapters, { recursive: true, force: true });
  let current = '';
  let restored: Promise<void> | null = null;

  /** Ends waits for the server when the stage is to stop; null then. */
  async function whileWanted<T>(work: (signal: AbortSignal) => Promise<T>): Promise<T | null> {
    const stopped = new AbortController();
    const poll = setInterval(() => workers.stopFlag() && stopped.abort(), POLL_MS);
    try {
      return await work(stopped.signal);
    } catch (error) {
      if (stopped.signal.aborted) return null;
      throw error;
    } finally {
      clearInterval(poll);
    }
  }

  /** Hands an adapter over. @throws ChatError with what to do; the signal's reason */
  async function load(name: string, signal: AbortSignal): Promise<void> {
    const directory = join(adapters, name);
    const { status, text } = await endpoint.command(
      'load_lora_adapter',
      { lora_name: name, lora_path: directory },
      signal,
    );
    if (status < 300 || /already (been )?loaded/i.test(text)) return;
    const isMissing = status === 404 && !/lora|adapter/i.test(text);
    throw new ChatError(
      `${endpoint.address}: does not load the adapter ${directory} (status ${status}: ${saidBy(text)})`,
      {
        advice:
          isMissing || status === 405
            ? 'start vLLM with --enable-lora, and VLLM_ALLOW_RUNTIME_LORA_UPDATING=True in its environment'
            : `the server must see this directory under the same path (rl.server.directory), and take adapters of rank ${policy.adapter!.options.rank} (--max-lora-rank)`,
        status,
        everyRequest: true,
      },
    );
  }

  async function unload(name: string): Promise<void> {
    await endpoint.command('unload_lora_adapter', { lora_name: name }).catch(() => undefined);
    rmSync(join(adapters, name), { recursive: true, force: true });
  }

  /** Asks for the responses to one prompt; once more where the server has lost the adapter, as after a restart. */
  async function ask(
    { example, index, prompt }: RemotePrompt,
    options: RemoteOptions,
    signal: AbortSignal,
  ): Promise<TokenAnswer> {
    const picture = await task.picture(example);
    const turn = await userTurn(picture === null ? [] : [picture], task.instruction(example));
    const request = {
      ...{ messages: [turn], model: current, seed: responseSeed(seed, index, 0) },
      ...{ temperature: options.temperature, maxTokens: options.maxTokens },
      tokens: { samples: options.group, topP: options.topP },
    };
    const answer = await endpoint.chat(request, signal).catch(async (error: unknown) => {
      if (!(error instanceof ChatError && error.status === 404)) throw error;
      restored ??= load(current, signal).finally(() => {
        restored = null;
      });
      await restored;
      return endpoint.chat(request, signal);
    });
    waiting = false;
    const tokens = answer.tokens!;
    if (tokens.model !== null && tokens.model !== current)
      throw new ChatError(`${endpoint.address}: answers with '${tokens.model}' where '${current}' was asked`);
    checkPrompt(tokens.prompt ?? answer.usage?.prompt ?? null, prompt.ids);
    const longest = tokens.choices.reduce((most, { ids }) => Math.max(most, ids.length), 0);
    if (longest > options.maxTokens)
      throw new ChatError(
        `${endpoint.address}: sends ${longest} tokens where at most ${options.maxTokens} were asked`,
      );
    return tokens;
  }

  /**
   * Compares the server's prompt, or its number of tokens, with ours. Runs of picture tokens count as one where the server sends them as
   * they were before they are expanded.
   */
  function checkPrompt(theirs: readonly number[] | number | null, ours: Int32Array): void {
    if (theirs === null) return;
    const { image } = policy.dims.special;
    const once = (ids: Iterable<number>): number[] =>
      [...ids].filter((id, i, all) => id !== image || all[i - 1] !== image);
    let where = '';
    if (typeof theirs === 'number') {
      if (theirs !== ours.length) where = `in ${theirs} tokens instead of ${ours.length}`;
    } else {
      const isExpanded = theirs.some((id, i) => id === image && theirs[i - 1] === image);
      const own = isExpanded ? [...ours] : once(ours);
      const at = own.findIndex((id, i) => id !== theirs[i]);
      if (at >= 0 || own.length !== theirs.length) where = `from token ${at < 0 ? own.length : at} on`;
    }
    if (where === '') return;
    throw new ChatError(
      `${endpoint.address}: encodes the prompt otherwise than the policy in training, ${where}`,
      {
        advice: 'serve the same checkpoint, with its own chat template and picture processor',
        everyRequest: true,
      },
    );
  }

  return {
    cap: server.cap,
    async update(step) {
      const before = current;
      current = nameOf(step);
      if (workers.rank === 0) {
        saveAdapter(policy, join(adapters, current));
        await whileWanted((signal) => load(current, signal));
        if (before !== '') await unload(before);
      }
      workers.barrier();
    },
    async sample(asked, options) {
      const answers = await whileWanted((signal) =>
        Promise.all(asked.map((one) => ask(one, options, signal))),
      );
      if (answers === null) throw new RolloutStopped();
      return answers.map(({ choices }) =>
        choices.map(
          ({ ids, logProbs, finished }): RemoteResponse => ({
            ...{ ids: Int32Array.from(ids), logProbs: Float32Array.from(logProbs), finished },
          }),
        ),
      );
    },
    async close() {
      if (workers.rank === 0 && current !== '') await unload(current);
    },
  };
}
