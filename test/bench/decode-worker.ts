/** One rank of batched decoding: its share of the prompts, with the policy of its own. */
import { parentPort, workerData } from 'node:worker_threads';
import { openTorch } from '../../src/engine/torch/torch.ts';
import { type GenerateOptions, generate } from '../../src/policy/generate.ts';
import { Policy } from '../../src/policy/policy.ts';
import { failureOf, type WorkerContext, WorkerGroup } from '../../src/train/worker-group.ts';
import type { BenchAnswer } from './team.ts';
import { type Example, examples } from './workload.ts';

export interface DecodeJob {
  readonly device: string;
  readonly policy: string;
  readonly first: number;
  readonly prompts: number;
  readonly samples: number;
  readonly seed: number;
}

/** Sampled ids of this rank's responses, in the order of prompts and samples. */
export type DecodeAnswer = readonly (readonly number[])[];

const { memory, rank, size, job } = workerData as WorkerContext<DecodeJob>;
const workers = new WorkerGroup(memory, rank, size);
const port = parentPort!;
const post = (message: BenchAnswer<DecodeAnswer>): void => port.postMessage(message);

let opened: { readonly policy: Policy; readonly own: readonly Example[] } | undefined;

async function answer(question: string): Promise<DecodeAnswer> {
  const [from, to] = workers.shard(job.prompts);
  if (opened === undefined) {
    const policy = Policy.load(openTorch({ device: job.device, threads: 1 }), job.policy);
    opened = { policy, own: await examples(policy, job.policy, job.first + from, to - from) };
  }
  if (question === 'ready') return [];
  const [mode, limit] = question.split(' ');
  const how: Pick<GenerateOptions, 'samples' | 'temperature'> =
    mode === 'greedy' ? { samples: 1, temperature: 0 } : { samples: job.samples, temperature: 1 };
  const sampled = await generate(
    opened.policy,
    opened.own.map(({ prompt }) => prompt),
    {
      ...how,
      maxTokens: Number(limit),
      seed: job.seed,
      examples: opened.own.map((_, p) => from + p),
    },
  );
  return sampled.map(({ ids }) => [...ids]);
}

port.on('message', async (question: string) => {
  try {
    post({ kind: 'answer', answer: await answer(question) });
  } catch (error) {
    post({ kind: 'error', error: failureOf(error) });
  }
});
