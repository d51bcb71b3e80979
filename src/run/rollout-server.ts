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
import type { RemoteOptions, RemotePrompt, RemoteResponse, RemoteSampler } from '../train/remote-rollout.ts';
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
  let current = '';
  let restored: Promise<void> | null = null;

  /** Hands an adapter over. @throws ChatError with what to do */
  async function load(name: string): Promise<void> {
    const directory = join(adapters, name);
    const { status, text } = await endpoint.command('load_lora_adapter', {
      lora_name: name,
      lora_path: directory,
    });
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
  async function ask({ example, index, prompt }: RemotePrompt, options: RemoteOptions): Promise<TokenAnswer> {
    const picture = await task.picture(example);
    const turn = await userTurn(picture === null ? [] : [picture], task.instruction(example));
    const request = {
      ...{ messages: [turn], model: current, seed: responseSeed(seed, index, 0) },
      ...{ temperature: options.temperature, maxTokens: options.maxTokens },
      tokens: { samples: options.group, topP: options.topP },
    };
    const answer = await endpoint.chat(request).catch(async (error: unknown) => {
      if (!(error instanceof ChatError && error.status === 404)) throw error;
      restored ??= load(current).finally(() => {
        restored = null;
      });
      await restored;
      return endpoint.chat(request);
    });
    waiting = false;
    const tokens = answer.tokens!;
    if (tokens.model !== null && tokens.model !== current)
      throw new ChatError(`${endpoint.address}: answers with '${tokens.model}' where '${current}' was asked`);
    checkPrompt(tokens.prompt, prompt.ids, policy.dims.special.image, endpoint.address);
    return tokens;
  }

  return {
    cap: server.cap,
    async update(step) {
      const before = current;
      current = nameOf(step);
      if (workers.rank === 0) {
        saveAdapter(policy, join(adapters, current));
        await load(current);
        if (before !== '') await unload(before);
      }
      workers.barrier();
    },
    async sample(asked, options) {
      const answers = await Promise.all(asked.map((one) => ask(one, options)));
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

/** Compares prompts; runs of picture tokens count as one, because servers send them before or after they are expanded. */
function checkPrompt(theirs: TokenAnswer['prompt'], ours: Int32Array, image: number, address: string): void {
  if (theirs === null) return;
  const once = (ids: Iterable<number>): number[] => {
    const all = [...ids];
    return all.filter((id, i) => id !== image || all[i - 1] !== image);
  };
  const [own, other] = [once(ours), once(theirs)];
  const isExpanded = theirs.filter((id) => id === image).length > 1;
  const differs = isExpanded ? theirs.join() !== ours.join() : own.join() !== other.join();
  if (!differs) return;
  const at = own.findIndex((id, i) => id !== other[i]);
  const where =
    at < 0 ? `in the number of tokens (${theirs.length} and ${ours.length})` : `from token ${at} on`;
  throw new ChatError(`${address}: encodes the prompt otherwise than the policy in training, ${where}`, {
    advice: 'serve the same checkpoint, with its own chat template and picture processor',
    everyRequest: true,
  });
}
