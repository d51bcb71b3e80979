/** Classical baselines as policies: they read the values of a series and write no text. */

import { setImmediate as breathe } from 'node:timers/promises';
import type { ExampleSource } from '../../datasets/source.ts';
import { trainingSplit } from '../../datasets/source.ts';
import { type Answerer, answerersFor, baselineRecord } from '../../eval/baselines.ts';
import type { EvalPolicy } from '../../eval/policy.ts';
import { ConfigError, suggestion } from '../errors.ts';
import { foreignCard } from './task.ts';

/** The baselines of data sets, made once for each: classifiers learn from a whole training split. */
export class Baselines {
  readonly #made = new Map<string, Promise<ReadonlyMap<string, Answerer>>>();

  /** By name, those that can answer the examples of a data set. @throws DataError as `answerersFor` */
  of(name: string, source: ExampleSource): Promise<ReadonlyMap<string, Answerer>> {
    const key = `${name}\n${source.count}`;
    const made = this.#made.get(key) ?? answerersFor([...source], trainingSplit(name));
    this.#made.set(key, made);
    return made;
  }
}

/** The baseline of a name. @throws ConfigError while it answers, where the data set has no baseline of that name */
export function baselinePolicy(name: string, baselines: Baselines): EvalPolicy {
  return {
    name: `baseline:${name}`,
    identity: { baseline: name },
    asked: false,
    card: (facts) => foreignCard(facts, null),
    async answer({ address, source }, requests, report, signal) {
      const all = await baselines.of(address.name, source);
      const read = all.get(name);
      if (read === undefined) {
        const known = [...all.keys()];
        throw new ConfigError(
          known.length === 0
            ? `baseline:${name}: ${address.name} has no training split that a classifier could learn from`
            : `no baseline named '${name}' for ${address.name}.${suggestion(name, known)} Known: ${known.join(', ')}`,
        );
      }
      for (const request of requests) {
        signal.throwIfAborted();
        const example = source.at(request.number);
        const began = performance.now();
        const record = baselineRecord(example, read(example));
        report({ ...record, sample: 0, temperature: 0 }, request);
        // Another turn only after some work: most baselines take microseconds.
        if (performance.now() - began > 1) await breathe();
      }
    },
  };
}
