/** What leaks from training into evaluation: recordings, and series with the same values, that are in several splits. */
import { createHash } from 'node:crypto';
import type { Example } from '../src/types.ts';
import type { Entry } from './draw.ts';
import { SPLITS, type Split } from './split.ts';

/** Equal for examples whose channels have the same values, whatever they are called: SHA-1 in base64. */
export function digestOf({ channels }: Pick<Example, 'channels'>): string {
  const hash = createHash('sha1');
  for (const { buffer, byteOffset, byteLength } of channels) {
    hash.update(`${byteLength},`);
    hash.update(new Uint8Array(buffer, byteOffset, byteLength));
  }
  return hash.digest('base64');
}

/** What is known of an example when leaks are looked for. */
export interface Traceable extends Entry {
  readonly id: string;
  /** Of its values, by `digestOf`. */
  readonly digest: string;
}

/** Names of recordings that have examples in several splits, with these splits. */
export function sharedRecordings(
  entries: readonly Entry[],
  splits: readonly (Split | null)[],
): ReadonlyMap<string, readonly Split[]> {
  const homes = new Map<string, Set<Split>>();
  for (const [i, { recording }] of entries.entries()) {
    const split = splits[i];
    if (recording === null || split == null) continue;
    homes.set(recording, (homes.get(recording) ?? new Set<Split>()).add(split));
  }
  const shared = [...homes].filter(([, home]) => home.size > 1);
  return new Map(shared.map(([name, home]) => [name, SPLITS.filter((split) => home.has(split))]));
}

/**
 * Says how many held-out series have exactly the values of one in a split before theirs, in the order train, validation, test.
 *
 * @returns a sentence with one such pair, or null where there is none
 */
export function duplicatesText(
  entries: readonly Traceable[],
  splits: readonly (Split | null)[],
): string | null {
  const first = new Map<string, { readonly split: Split; readonly id: string }>();
  const counts = new Map<Split, number>();
  let example: string | undefined;
  for (const split of SPLITS) {
    for (const [i, { digest, id }] of entries.entries()) {
      if (splits[i] !== split) continue;
      const before = first.get(digest);
      if (before === undefined) first.set(digest, { split, id });
      else if (before.split !== split) {
        counts.set(split, (counts.get(split) ?? 0) + 1);
        example ??= `${id} (${split}) and ${before.id} (${before.split})`;
      }
    }
  }
  if (example === undefined) return null;
  const parts = [...counts].map(([split, n]) => `${n} series of ${split}`);
  const total = [...counts.values()].reduce((sum, n) => sum + n, 0);
  return `Same values in several splits: ${parts.join(' and ')} ${total === 1 ? 'repeats' : 'repeat'} a series of another split, such as ${example}.`;
}
