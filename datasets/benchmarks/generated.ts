/** Benchmarks whose examples are made on the spot: as many as asked for, the same for the same seed. */
import { ConfigError } from '../../src/errors.ts';
import { checkAddress, DEFAULT_SEED, SPLITS, type Split } from '../split.ts';
import type { Benchmark, Generator, Loaded } from './benchmark.ts';

export interface GeneratedBenchmark
  extends Generator,
    Pick<Benchmark, 'name' | 'title' | 'kind' | 'shape' | 'figure' | 'prompt' | 'classes'> {
  readonly description: string;
  readonly citation: string | null;
  /** What a reader must know of examples of one split beside each other. */
  readonly pairing?: string;
  /** Examples per split unless asked otherwise. */
  readonly counts: Readonly<Record<Split, number>>;
}

const STATEMENT =
  'Generated: splits draw from random streams of their own, so no example is in two of them, whatever the seeds.';

/** A generated benchmark, from its facts. */
export function generatedBenchmark(facts: GeneratedBenchmark): Benchmark {
  const { name, title, kind, shape, figure, prompt, classes, description, citation } = facts;
  const { minimumLength, parameters, at } = facts;
  return {
    ...{ name, title, kind, shape, figure, prompt, classes },
    generator: { length: facts.length, minimumLength, parameters, at },
    rate: null,
    needs: 'nothing',
    layout: 'no files',
    source: { description, licence: 'none needed: generated', citation, addresses: [] },
    open(options) {
      if (options.directory !== null) throw new ConfigError(`${name}: is generated; leave --from out`);
      if (options.window != null) {
        throw new ConfigError(`${name}: is generated in any length; leave --window out, and give --length`);
      }
      const { length = facts.length, seed, offset = 0 } = options;
      const counts = { ...facts.counts, ...options.counts };
      for (const split of SPLITS) {
        const last = offset + Math.max(counts[split] - 1, 0);
        for (const index of [offset, last]) {
          checkAddress(seed ?? DEFAULT_SEED[split], index, length, minimumLength);
        }
      }
      const seeds = Object.fromEntries(SPLITS.map((split) => [split, seed ?? DEFAULT_SEED[split]]));
      return {
        files: [],
        classes: () => classes ?? [],
        parameters: { seeds, length, ...(offset === 0 ? {} : { offset }), ...parameters },
        total: SPLITS.reduce((sum, split) => sum + counts[split], 0),
        notes: () => [],
        plan: {
          by: 'given',
          statement: facts.pairing === undefined ? STATEMENT : `${STATEMENT} ${facts.pairing}`,
          recordingsApart: null,
          validation: { refused: 'it is generated as well, with a stream of its own' },
        },
        *load(): Iterable<Loaded> {
          for (const split of SPLITS) {
            for (let index = 0; index < counts[split]; index++) {
              yield { split, example: at(seed ?? DEFAULT_SEED[split], split, offset + index, length) };
            }
          }
        },
      };
    },
  };
}
