/** Worker of matrix profiles: takes chunks of diagonals until there are none, then answers. */
import { answerRequests } from '../ground/worker-thread.ts';
import { type ProfileRequest, ProfileThread } from './anytime-profile.ts';

answerRequests<ProfileRequest, true>(({ shared, rank }) => {
  Atomics.store(shared.started, rank, 1);
  const thread = new ProfileThread(shared, rank);
  while (thread.step());
  return { reply: true };
});
