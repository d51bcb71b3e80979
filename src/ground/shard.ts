/** Parts of a work that several machines share. */
import { ConfigError } from './errors.ts';

/** Part `index`, from 0, of `of`. */
export interface Shard {
  readonly index: number;
  readonly of: number;
}

const MOST_PARTS = 65_536;

/** Parses `--shard`; null without it. @throws ConfigError */
export function parseShard(text: string | undefined): Shard | null {
  if (text === undefined) return null;
  const [, first, second] = /^(\d+)\/(\d+)$/.exec(text) ?? [];
  const [number, of] = [Number(first), Number(second)];
  if (number >= 1 && number <= of && of <= MOST_PARTS) return { index: number - 1, of };
  throw new ConfigError(
    `--shard: got '${text}', expected part/parts, e.g. 2/4 for the second of four, with at most ${MOST_PARTS} parts`,
  );
}
