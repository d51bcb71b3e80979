/** Worker of matrix profiles: for each message it takes chunks of diagonals until there are none, then answers. */
import { parentPort } from 'node:worker_threads';
import { ProfileThread, type SharedProfile } from './anytime-profile.ts';

interface Job {
  readonly shared: SharedProfile;
  readonly rank: number;
}

parentPort!.on('message', ({ shared, rank }: Job) => {
  Atomics.store(shared.started, rank, 1);
  const thread = new ProfileThread(shared, rank);
  while (thread.step());
  parentPort!.postMessage('done');
});
