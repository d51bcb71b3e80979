/**
 * An inference server in vLLM's protocol with our own engine behind it: adapters are loaded while it runs, and chat completions come as token
 * ids with log-probabilities. Faults are switched on by its fields.
 */
import { createServer } from 'node:http';
import type { AddressInfo } from 'node:net';
import { setTimeout as sleep } from 'node:timers/promises';
import type { EncodedPrompt } from '../../src/policy/batch.ts';
import { type GenerateOptions, generate, type Sampled } from '../../src/policy/generate.ts';
import type { Policy } from '../../src/policy/policy.ts';
import { readChatRequest } from '../../src/serve/chat-request.ts';
import { Refused } from '../../src/serve/request.ts';
import { responseLogProbs } from '../../src/train/micro-batch.ts';

/** Fields that vLLM knows beside those of our own server. */
const EXTRA = ['logprobs', 'top_logprobs', 'return_token_ids'];

interface Reply {
  readonly status: number;
  readonly body: unknown;
}

const fault = (status: number, message: string): Reply => ({ status, body: { error: { message } } });

interface Asked {
  readonly prompt: EncodedPrompt;
  readonly index: number;
}

const BATCH_MS = 5;

interface Sampling {
  readonly seed: number;
  /** Index of the example by the seed of its request. */
  readonly examples: ReadonlyMap<number, number>;
}

export class InferenceServer {
  url = '';
  /** Names of loaded adapters, and of all that ever were. */
  readonly adapters = new Map<string, Policy>();
  readonly loaded: string[] = [];
  /** Requests for completions that were answered. */
  answered = 0;
  /** Replies that come before anything else, in turn: null lets a request through. */
  readonly next: (Reply | null)[] = [];
  /** Changes an answer before it is sent. */
  // biome-ignore lint/suspicious/noExplicitAny: any field of the protocol
  change: (answer: any) => void = () => {};
  /** Milliseconds before a completion is begun. */
  delay: () => number = () => 0;
  /** True: log-probabilities are those of temperature 1, as vLLM sends them by default. */
  raw = false;
  /** False: as a server without runtime loading of adapters. */
  runtime = true;
  readonly #waiting: Asked[] = [];
  #batch: Promise<Sampled[]> | null = null;
  /** Batch that was sampled last, perhaps still under way. */
  #last: Promise<unknown> = Promise.resolve();
  readonly #open: (directory: string) => Policy;
  readonly #sampling: Sampling;
  readonly #server = createServer((request, response) => {
    const chunks: Buffer[] = [];
    request.on('data', (chunk: Buffer) => chunks.push(chunk));
    request.on('end', async () => {
      const { status, body } = await this.#reply(request.url ?? '', Buffer.concat(chunks));
      const text = typeof body === 'string' ? body : JSON.stringify(body);
      response.writeHead(status, { 'content-type': 'application/json' }).end(text);
    });
  });

  /** `open` reads a policy with the adapter of a directory. */
  constructor(open: (directory: string) => Policy, sampling: Sampling) {
    this.#open = open;
    this.#sampling = sampling;
  }

  async start(port = 0): Promise<void> {
    await new Promise<void>((done) => this.#server.listen(port, '127.0.0.1', done));
    this.url = `http://127.0.0.1:${(this.#server.address() as AddressInfo).port}/v1`;
  }

  async stop(): Promise<void> {
    this.#server.closeAllConnections();
    await new Promise((done) => this.#server.close(done));
    await this.forget();
  }

  /** Loses all adapters, as a restart does; what is being sampled ends with them. */
  async forget(): Promise<void> {
    const lost = [...this.adapters.values()];
    this.adapters.clear();
    await this.#last.catch(() => undefined);
    await sleep(0); // its answers are written
    for (const policy of lost) policy.dispose();
  }

  async #reply(path: string, bytes: Buffer): Promise<Reply> {
    const first = this.next.shift();
    if (first != null) return first;
    const body = JSON.parse(bytes.toString());
    if (path === '/v1/load_lora_adapter' && this.runtime) {
      if (this.adapters.has(body.lora_name)) return fault(400, `'${body.lora_name}' has already been loaded`);
      try {
        this.adapters.set(body.lora_name, this.#open(body.lora_path));
      } catch (error) {
        return fault(404, `Loading lora ${body.lora_name} failed: ${(error as Error).message}`);
      }
      this.loaded.push(body.lora_name);
      return { status: 200, body: `Success: LoRA adapter '${body.lora_name}' added successfully.` };
    }
    if (path === '/v1/unload_lora_adapter' && this.runtime) {
      this.adapters.get(body.lora_name)?.dispose();
      this.adapters.delete(body.lora_name);
      return { status: 200, body: 'Success' };
    }
    if (path !== '/v1/chat/completions') return { status: 404, body: { detail: 'Not Found' } };
    try {
      return await this.#complete(body);
    } catch (error) {
      if (error instanceof Refused) return fault(error.refusal.status, error.message);
      return fault(400, String((error as Error).stack));
    }
  }

  /** Resolves when nothing more has arrived for some milliseconds. */
  async #gathered(): Promise<void> {
    let before: number;
    do {
      before = this.#waiting.length;
      await sleep(BATCH_MS);
    } while (this.#waiting.length > before);
  }

  /** Samples together what arrives within some milliseconds; as in a stage, all of it has the same options. */
  async #sample(
    policy: Policy,
    asked: Asked,
    options: Omit<GenerateOptions, 'examples'>,
  ): Promise<Sampled[]> {
    const place = this.#waiting.push(asked) - 1;
    this.#batch ??= this.#gathered().then(() => {
      const all = this.#waiting.splice(0);
      this.#batch = null;
      const examples = all.map(({ index }) => index);
      return generate(
        policy,
        all.map(({ prompt }) => prompt),
        { ...options, examples },
      );
    });
    this.#last = this.#batch;
    return (await this.#batch).filter(({ prompt }) => prompt === place);
  }

  async #complete(body: Record<string, unknown>): Promise<Reply> {
    const policy = this.adapters.get(String(body['model']));
    if (policy === undefined) return fault(404, `The model \`${body['model']}\` does not exist.`);
    const wait = this.delay();
    if (wait > 0) await sleep(wait, undefined, { ref: false });
    const known = Object.fromEntries(Object.entries(body).filter(([name]) => !EXTRA.includes(name)));
    const { completion } = await readChatRequest(
      Buffer.from(JSON.stringify(known)),
      String(body['model']),
      policy,
      { temperature: 1, topP: 1, maxTokens: null } as never,
      { promptTokens: 4096, pixels: 2 ** 24, samples: 4096 },
    );
    const { prompt, samples, temperature, topP, maxTokens, seed } = completion;
    const sampled = await this.#sample(
      policy,
      { prompt, index: this.#sampling.examples.get(seed!)! },
      {
        ...{ samples, temperature, topP, maxTokens, seed: this.#sampling.seed, stream: 'rollout' },
      },
    );
    this.answered++;
    const answer = {
      ...{ id: 'c', object: 'chat.completion', model: body['model'], prompt_token_ids: [...prompt.ids] },
      choices: sampled.map(({ sample, text, ids, logProbs, finished }) => ({
        index: sample,
        message: { role: 'assistant', content: text },
        token_ids: [...ids],
        logprobs: {
          content: [...(this.raw ? responseLogProbs(policy, [prompt], [ids], 1) : logProbs)].map(
            (logprob) => ({ token: '', logprob }),
          ),
        },
        finish_reason: finished ? 'stop' : 'length',
      })),
      usage: {
        prompt_tokens: prompt.ids.length,
        completion_tokens: sampled.reduce((sum, { ids }) => sum + ids.length, 0),
      },
    };
    this.change(answer);
    return { status: 200, body: answer };
  }
}
