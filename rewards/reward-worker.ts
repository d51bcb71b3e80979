/** The program of the thread that rewards of the user run in; see `host.ts`. */
import { parentPort, workerData } from 'node:worker_threads';
import { TimeseerError } from '../src/ground/errors.ts';
import { loadModule } from '../src/ground/user-code.ts';
import { type RewardDefinition, rewardOf, scoresBy, TIME_LIMIT } from './define.ts';
import { type HostData, type HostMessage, type HostRequest, tenths } from './host.ts';

const { modules, beat } = workerData as HostData;
const port = parentPort!;
const clock = new Int32Array(beat);
const stamp = (): void => {
  Atomics.store(clock, 0, tenths());
};
const post = (message: HostMessage): void => port.postMessage(message);
const textOf = (error: unknown): string => {
  if (error instanceof TimeseerError) return error.message;
  return error instanceof Error ? (error.stack ?? error.message) : String(error);
};

async function answer(
  rewards: readonly RewardDefinition[],
  { id, examples, responses }: HostRequest,
): Promise<void> {
  const requests = responses.map(({ example: place, text, answer: said }) => {
    const example = examples[place]!;
    return { text, answer: said, example, gold: example.gold };
  });
  try {
    const scores = await Promise.all(
      rewards.map((reward, i) => scoresBy(reward, requests, { file: modules[i]!.file, onCall: stamp })),
    );
    post({ kind: 'scores', id, scores });
  } catch (error) {
    post({ kind: 'failed', id, message: textOf(error) });
  }
}

try {
  const rewards: RewardDefinition[] = [];
  for (const address of modules) {
    rewards.push(rewardOf(await loadModule(address, 'a reward made with defineReward'), address.file));
  }
  setInterval(stamp, 100).unref();
  port.on('message', (request: HostRequest) => void answer(rewards, request));
  post({
    kind: 'ready',
    rewards: rewards.map(({ name, timeLimit = TIME_LIMIT }) => ({ name, timeLimit })),
  });
} catch (error) {
  post({ kind: 'refused', message: textOf(error) });
}
