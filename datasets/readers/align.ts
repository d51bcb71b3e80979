/** Channels observed at different times, on one time axis. */
import { DataError } from '../../src/errors.ts';

function sameTimes(a: Float64Array, b: Float64Array): boolean {
  return a.length === b.length && a.every((time, i) => time === b[i]);
}

/**
 * Joins channels over the union of their times.
 *
 * @param channels [C][N_c] values
 * @param times [C][N_c] instants of each channel, rising or not
 * @param at where the series stands, for messages
 * @returns channels [C][N] with NaN where a channel was not observed, and the times [N]; N is the number of
 * different times, which rise — or, when all channels share their times, those times as they are
 * @throws DataError when a channel has two values at one time and the channels do not share their times
 */
export function unionOfTimes(
  channels: readonly Float64Array[],
  times: readonly Float64Array[],
  at: { file: string; line: number; column: number },
): { channels: Float64Array[]; times: Float64Array } {
  const first = times[0]!;
  if (times.every((own) => sameTimes(own, first))) return { channels: [...channels], times: first };
  const length = times.reduce((sum, own) => sum + own.length, 0);
  const all = new Float64Array(length);
  let end = 0;
  for (const own of times) {
    all.set(own, end);
    end += own.length;
  }
  all.sort();
  let unique = 0;
  for (const time of all) if (unique === 0 || time !== all[unique - 1]) all[unique++] = time;
  const union = all.slice(0, unique);
  const index = new Map<number, number>();
  union.forEach((time, i) => {
    index.set(time, i);
  });
  const joined = channels.map((channel, c) => {
    const out = new Float64Array(unique).fill(Number.NaN);
    const seen = new Uint8Array(unique);
    times[c]!.forEach((time, i) => {
      const place = index.get(time)!;
      if (seen[place] === 1) throw new DataError(`channel ${c + 1} has two values at time ${time}`, at);
      seen[place] = 1;
      out[place] = channel[i]!;
    });
    return out;
  });
  return { channels: joined, times: union };
}
