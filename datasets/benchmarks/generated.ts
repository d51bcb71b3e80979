/** Tasks whose examples are made on the spot: as many as asked for, the same for the same seed. */
import { ConfigError } from '../../src/errors.ts';
import type { Example } from '../../src/types.ts';
import { checkAddress, DEFAULT_SEED, SPLITS, type Split } from '../split.ts';
import type { Benchmark, Loaded } from './benchmark.ts';

export interface GeneratedBenchmark
  extends Pick<Benchmark, 'name' | 'title' | 'kind' | 'shape' | 'figure' | 'prompt' | 'classes'> {
  readonly description: string;
  readonly citation: string | null;
  /** What a reader must know of examples of one split beside each other. */
  readonly pairing?: string;
  /** Examples per split unless asked otherwise. */
  readonly counts: Readonly<Record<Split, number>>;
  /** Points of an example unless asked otherwise, and the least that make one. */
  readonly length: number;
  readonly minimumLength: number;
  /** Numbers of the generator, for the record. */
  readonly parameters: Readonly<Record<string, unknown>>;
  readonly at: (seed: number, split: Split, index: number, length: number) => Example;
}

const STATEMENT =
  'Generated: splits draw from random streams of their own, so no example is in two of them, whatever the seeds.';

/** A generated task, from its facts. */
export function generatedBenchmark(facts: GeneratedBenchmark): Benchmark {
  const { name, title, kind, shape, figure, prompt, classes, description, citation } = facts;
  return {
    ...{ name, title, kind, shape, figure, prompt, classes },
    rate: null,
    needs: 'nothing',
    layout: 'no files',
    source: { description, licence: 'none needed: generated', citation, addresses: [] },
    open(options) {
      if (options.directory !== null) throw new ConfigError(`${name}: is generated; leave --from out`);
      if (options.window != null) {
        throw new ConfigError(`${name}: is generated in any length; leave --window out, and give --length`);
      }
      const { length = facts.length, seed } = options;
      const counts = { ...facts.counts, ...options.counts };
      for (const split of SPLITS) checkAddress(seed ?? DEFAULT_SEED[split], 0, length, facts.minimumLength);
      const seeds = Object.fromEntries(SPLITS.map((split) => [split, seed ?? DEFAULT_SEED[split]]));
      return {
        files: [],
        classes: () => classes ?? [],
        parameters: { seeds, length, ...facts.parameters },
        total: SPLITS.reduce((sum, split) => sum + counts[split], 0),
        notes: () => [],
        plan: {
          by: 'given',
          statement: facts.pairing === undefined ? STATEMENT : `${STATEMENT} ${facts.pairing}`,
          recordingsApart: null,
          validation: { refused: 'it is generated as well, with a stream of its own' },
        },
        *load(): Generator<Loaded> {
          for (const split of SPLITS) {
            for (let index = 0; index < counts[split]; index++) {
              const example = facts.at(seed ?? DEFAULT_SEED[split], split, index, length);
              yield { split, example };
            }
          }
        },
      };
    },
  };
}
