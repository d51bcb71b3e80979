/** Runs of the command line with a tiny policy: the recipe, the commands in this process and in one of their own. */
import { type ChildProcess, spawn } from 'node:child_process';
import { createHash } from 'node:crypto';
import { existsSync, readdirSync, readFileSync, writeFileSync } from 'node:fs';
import { dirname, join } from 'node:path';
import { setTimeout as sleep } from 'node:timers/promises';
import { vi } from 'vitest';
import { main } from '../../src/cli.ts';
import { openTorch } from '../../src/engine/torch/torch.ts';
import { MANIFEST_FILE, writeManifestedDirectory } from '../../src/ground/manifest.ts';
import { Policy } from '../../src/policy/policy.ts';
import { openSafetensors } from '../../src/policy/safetensors.ts';
import { trainBpe } from '../../src/policy/tokenizer.ts';
import { trainingTask } from '../../src/run/policy-task.ts';
import { type PolicyCard, writeCard } from '../../src/tasks/card.ts';
import { DEVICE } from './device.ts';
import { CLI } from './program.ts';
import { readTensor } from './safetensors.ts';
import { tinyDims } from './tiny-policy.ts';

const LENGTH = 400;
const CARD: PolicyCard = {
  version: 1,
  style: 'nano',
  figure: 'nano',
  length: LENGTH,
  kind: 'anomaly',
  task: 'nano5',
  channels: 1,
  numbers: null,
  classes: ['contextual point', 'global point', 'seasonal', 'trend', 'normal'],
  limitations: [],
  stage: 'initial',
};

/** A policy of tiny sizes with the tokenizer of nano traces. */
export function writeTinyPolicy(directory: string, seed = 11): void {
  const task = trainingTask(CARD, { name: 'nano5', split: 'train', seed: 42, length: LENGTH });
  const texts: string[] = [];
  for (let i = 0; i < 40; i++) texts.push(task.instruction(task.example(i)), task.trace(task.example(i)));
  const policy = Policy.create(openTorch({ device: DEVICE, threads: 1 }), {
    tokenizer: trainBpe(texts),
    seed,
    dims: tinyDims,
  });
  writeManifestedDirectory(directory, (temporary) => {
    policy.write(temporary);
    writeCard(temporary, CARD);
  });
  policy.dispose();
}

/** Writes a recipe of seconds over the policy in `policy`. A worker takes as long to start as to train. */
export function writeTinyRecipe(file: string, policy: string, workers = 1): void {
  writeFileSync(
    file,
    `data: {length: ${LENGTH}, heldOut: 12}
policy: {init: ${JSON.stringify(policy)}}
sft: {samples: 118, batch: 4, warmup: 2, learningRate: 0.01, checkpointEvery: 7, workers: ${workers}}
rl: {steps: 6, prompts: 2, group: 3, kl: 0.001, maxTokens: 24, warmup: 1, miniBatches: 2, checkpointEvery: 2, workers: ${workers}}
eval: {series: 12, samples: 2, transfer: 8, validation: 16, bootstrap: 100, maxTokens: 24}
`,
  );
}

export interface Ending {
  readonly code: number | null;
  readonly out: string;
  readonly err: string;
}

/** Runs a command line in this process. A worker of eval takes longer to start than tiny answers take: one, unless more are asked for. */
export async function timeseer(...args: string[]): Promise<Ending> {
  if (args[0] === 'eval' && !args.includes('--workers')) args.push('--workers', '1');
  const [out, err]: [string[], string[]] = [[], []];
  vi.spyOn(process.stdout, 'write').mockImplementation((text) => out.push(String(text)) > 0);
  vi.spyOn(process.stderr, 'write').mockImplementation((text) => err.push(String(text)) > 0);
  try {
    const code = await main(args);
    return { code, out: out.join(''), err: err.join('') };
  } finally {
    vi.restoreAllMocks();
    process.exitCode = undefined;
  }
}

/** A command line in a process of its own. */
export class Child {
  readonly process: ChildProcess;
  readonly ended: Promise<Ending & { readonly signal: NodeJS.Signals | null }>;
  err = '';
  #out = '';

  /** `limit`: largest file that the process may write, in KiB. `through`: command that becomes it, such as `ip netns exec NAME`. */
  constructor(
    args: readonly string[],
    limit?: number,
    env: NodeJS.ProcessEnv = {},
    through: readonly string[] = [],
  ) {
    const node = [...through, process.execPath, CLI, ...args];
    const [program, ...rest] =
      limit === undefined ? node : ['bash', '-c', `ulimit -f ${limit}; exec "$@"`, 'bash', ...node];
    this.process = spawn(program!, rest, {
      stdio: ['ignore', 'pipe', 'pipe'],
      env: { ...process.env, ...env },
    });
    this.process.stdout!.on('data', (chunk: Buffer) => {
      this.#out += chunk.toString();
    });
    this.process.stderr!.on('data', (chunk: Buffer) => {
      this.err += chunk.toString();
    });
    this.ended = new Promise((done) =>
      this.process.on('close', (code, signal) => done({ code, signal, out: this.#out, err: this.err })),
    );
  }
}

/** Waits until `ready` holds. */
export async function until(ready: () => boolean): Promise<void> {
  while (!ready()) await sleep(5);
}

export function lineCount(file: string): number {
  return existsSync(file) ? readFileSync(file, 'utf8').split('\n').length - 1 : 0;
}

/** Metrics of a stage without what a clock measured. */
export function timeless(file: string): unknown[] {
  return readFileSync(file, 'utf8')
    .trim()
    .split('\n')
    .map((line) => {
      const { ms: _, time: __, ...rest } = JSON.parse(line) as Record<string, unknown>;
      return rest;
    });
}

/** All values of a safetensors file, one buffer. */
export function bits(file: string): Buffer {
  const tensors = [...openSafetensors(file).values()].map(readTensor);
  return Buffer.concat(
    tensors.map((values) => Buffer.from(values.buffer, values.byteOffset, values.byteLength)),
  );
}

/** Files of a directory that a write in progress would leave, at any depth. */
export function temporaries(directory: string): string[] {
  return readdirSync(directory, { recursive: true })
    .map(String)
    .filter((name) => name.endsWith('.tmp'));
}

/** Changes a file's content. */
export function edit(file: string, change: (text: string) => string): void {
  writeFileSync(file, change(readFileSync(file, 'utf8')));
}

/** As `edit`, and the manifest of the directory says so. */
export function editListed(file: string, change: (text: string) => string): void {
  const sha256 = (): string => createHash('sha256').update(readFileSync(file)).digest('hex');
  const before = sha256();
  edit(file, change);
  edit(join(dirname(file), MANIFEST_FILE), (text) => text.replace(before, sha256()));
}

/** Paths inside a directory, for tests that nothing was written. */
export const listing = (directory: string): string[] =>
  existsSync(directory) ? readdirSync(directory, { recursive: true }).map(String).sort() : [];
