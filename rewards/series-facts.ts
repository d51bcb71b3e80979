/** Numbers about a series: what a judge is told, and which of those in a text are true. */

import type { Example } from '../src/ground/types.ts';
import { bridge } from '../src/series/missing.ts';
import { moments, summarise } from '../src/series/stats.ts';

type Series = Pick<Example, 'channels' | 'names'>;

const TENTHS = 10;

interface ChannelFacts {
  readonly name: string;
  readonly points: number;
  readonly min: number;
  readonly minAt: number;
  readonly max: number;
  readonly maxAt: number;
  readonly mean: number;
  readonly median: number;
  readonly q1: number;
  readonly q3: number;
  readonly std: number;
  /** Mean of each tenth of the series, fewer where it is shorter. */
  readonly tenths: readonly number[];
}

/** Of channels that have a known point. */
function factsOf({ channels, names }: Series): ChannelFacts[] {
  return channels.flatMap((channel, c) => {
    if (channel.every(Number.isNaN)) return [];
    const { values } = bridge(channel);
    const { min, max, mean, median, q1, q3, std } = summarise(values);
    const parts = Math.min(TENTHS, values.length);
    const tenths = Array.from({ length: parts }, (_, i) => {
      const [start, end] = [i, i + 1].map((k) => Math.round((k * values.length) / parts));
      return moments(values, start, end).mean;
    });
    return {
      name: names[c] ?? `channel ${c}`,
      points: values.length,
      ...{ min, max, mean, median, q1, q3, std, tenths },
      minAt: values.indexOf(min),
      maxAt: values.indexOf(max),
    };
  });
}

const rounded = (value: number): number => Number(value.toPrecision(3));

/** What a series shows, channel by channel, to three digits: for a judge that does not see its picture. */
export function summaryOf(series: Series): readonly Readonly<Record<string, unknown>>[] {
  return factsOf(series).map((facts) => ({
    channel: facts.name,
    points: facts.points,
    minimum: `${rounded(facts.min)} at index ${facts.minAt}`,
    maximum: `${rounded(facts.max)} at index ${facts.maxAt}`,
    mean: rounded(facts.mean),
    'standard deviation': rounded(facts.std),
    'mean of each tenth': facts.tenths.map(rounded),
  }));
}

/** A stretch of indices: `300 to 420`, `300–420`, `between 300 and 420`. */
const STRETCH = /(?<![\d.,])(\d{1,9})\s*(?:to|until|through|and|–|—|-)\s*(\d{1,9})(?![\d.,]*\d)/giu;
/** What follows a number that counts something of the advice, not of the series. */
const UNIT =
  /^\s*(?:%|percent|°|h\b|hours?\b|min(?:utes?)?\b|s(?:ec(?:onds?)?)?\b|days?\b|weeks?\b|months?\b|years?\b|times\b|steps?\b|k?wh?\b|km\b|m\b)/i;
const NUMBER = /(?<![\p{L}\d.])[-−]?\d+(?:\.\d+)?/gu;

/** Whether the level of a stretch differs from that of a channel by half its standard deviation or more. */
function standsOut({ channels }: Series, start: number, end: number): boolean {
  return channels.some((channel) => {
    if (start >= end || end > channel.length || channel.every(Number.isNaN)) return false;
    const { values } = bridge(channel);
    const { mean, std } = moments(values);
    return std > 0 && Math.abs(moments(values, start, end).mean - mean) >= 0.5 * std;
  });
}

/**
 * How many numbers a text states of a series, and how many of them are true: a stretch whose level stands out (by half a standard deviation
 * or more), or a number within 2 % or half its last digit of the number of points, or of the minimum, maximum, mean, median, quartiles or
 * standard deviation of a channel, or of where its minimum or maximum is. Numbers with a unit, and whole ones below 2, are none.
 * A number that is stated again counts once.
 */
export function numbersOf(text: string, series: Series): { readonly stated: number; readonly right: number } {
  const facts = factsOf(series).flatMap(({ name, tenths, ...rest }) => Object.values(rest));
  const found = new Map<string, boolean>();
  const plain = text.replace(STRETCH, (all, from: string, to: string, at: number) => {
    if (Number(from) >= Number(to)) return all;
    if (UNIT.test(text.slice(at + all.length))) return ' ';
    found.set(`${from} ${to}`, standsOut(series, Number(from), Number(to)));
    return ' ';
  });
  for (const match of plain.matchAll(NUMBER)) {
    const word = match[0].replace('−', '-');
    const value = Number(word);
    const digits = word.split('.')[1]?.length ?? 0;
    if (UNIT.test(plain.slice(match.index + match[0].length))) continue;
    if (digits === 0 && Math.abs(value) < 2) continue;
    const near = (fact: number): boolean =>
      Math.abs(value - fact) <= Math.max(0.02 * Math.abs(fact), 0.5 * 10 ** -digits);
    found.set(word, facts.some(near));
  }
  return { stated: found.size, right: [...found.values()].filter(Boolean).length };
}
