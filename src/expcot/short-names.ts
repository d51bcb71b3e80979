/** Short names of features, for traces of a few words: the key of the catalogue where it is a word, another word where it is not. */
import { CHANNEL_KINDS, MAGNITUDE, PAIR_KIND, SHARE_KINDS } from './feature-kinds.ts';

/** Frequency bands, from the longest periods to the shortest. */
const BANDS = ['drift', 'slowest', 'slow', 'middle', 'quick', 'fast', 'fastest'];
const ORDINALS = ['first', 'second', 'third', 'fourth', 'fifth', 'sixth', 'seventh', 'last'];

const WORDS: Readonly<Record<string, string>> = {
  tau: 'trend',
  bottom: 'depth',
  floor: 'time at floor',
  ceiling: 'time at ceiling',
  duty: 'time up',
  quiet: 'stillness',
  line: 'tone',
  repeat: 'rhythm',
  neighbours: 'smoothness',
  centroid: 'frequency',
  flatness: 'noisiness',
  pulseHeight: 'pulse height',
  pulseWidth: 'pulse width',
  pulseRhythm: 'pulse unevenness',
  peakAt: 'peak place',
};

function wordOf(key: string): string {
  const [, stem, digit] = /^(level|spread|band)(\d)$/.exec(key) ?? [];
  if (stem === 'band') return `${BANDS[Number(digit)]} power`;
  if (stem !== undefined) return `${ORDINALS[Number(digit)]} ${stem}`;
  return WORDS[key] ?? key;
}

/** Short names by the key of a kind; lower case, letters and spaces alone. */
const SHORT: ReadonlyMap<string, string> = new Map(
  [...CHANNEL_KINDS, ...SHARE_KINDS, PAIR_KIND].map(({ key }) => [key, wordOf(key)]),
);

/** Short names of the features of a single channel, in the order of the catalogue. */
export const CHANNEL_NAMES: readonly string[] = CHANNEL_KINDS.map(({ key }) => SHORT.get(key)!);

/**
 * Short name of a feature by its key as `featureNames` makes it: `roughness`; `x tilt`, `magnitude level`, `x y correlation`
 * among several channels; `all roughness`, `unlike roughness` for mean and spread over many. Throws a RangeError for another key.
 */
export function shortName(key: string): string {
  const dot = key.lastIndexOf('.');
  const word = SHORT.get(key.slice(dot + 1));
  if (word === undefined) throw new RangeError(`no feature ${key}`);
  if (dot < 0) return word;
  const of = key.slice(0, dot);
  if (of === `the ${MAGNITUDE}`) return `${MAGNITUDE} ${word}`;
  if (of === 'spread') return `unlike ${word}`;
  return `${of.replace('~', ' ')} ${word}`;
}
