/** One policy's weights, loaded once and used by all ranks of a team. */
import type { Engine } from '../engine/engine.ts';
import { type LoadOptions, Policy } from '../policy/policy.ts';
import type { Ranks } from './ranks.ts';

/** Rank 0 loads the directory, the others attach to its weights. Collective. */
export function loadShared(
  engine: Engine,
  ranks: Ranks,
  directory: string,
  options: LoadOptions = {},
): Policy {
  const own = ranks.rank === 0 ? Policy.load(engine, directory, options) : null;
  const published = own === null ? 0 : engine.share(own.flat);
  const [ticket] = ranks.broadcast([published]) as [number];
  const policy = own ?? Policy.attach(engine, directory, ticket, options);
  ranks.barrier(); // every rank holds the storage
  if (own !== null) engine.unshare(ticket);
  return policy;
}
