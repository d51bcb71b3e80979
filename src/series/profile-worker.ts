/** Worker of a matrix profile: takes chunks of diagonals until there are none. */
import { workerData } from 'node:worker_threads';
import { ProfileThread, type SharedProfile } from './profile-chunks.ts';

const { shared, rank } = workerData as { readonly shared: SharedProfile; readonly rank: number };
Atomics.store(shared.started, rank, 1);
const thread = new ProfileThread(shared, rank);
while (thread.step());
