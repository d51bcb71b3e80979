/** Classical baselines as policies: they read the values of a series and write no text. */

import { setImmediate as breathe } from 'node:timers/promises';
import {
  type ExampleAddress,
  type ExampleSource,
  openExamples,
  trainingSplit,
  validationExamples,
} from '../../datasets/source.ts';
import type { PreparedBaseline } from '../../eval/baseline.ts';
import { baselineNamed } from '../../eval/baseline-registry.ts';
import { answerersFor, baselineRecord } from '../../eval/baselines.ts';
import type { EvalPolicy } from '../../eval/policy.ts';
import { say } from '../ground/terminal.ts';
import { taskKind } from '../tasks/kinds.ts';
import { foreignCard } from './task.ts';

/** Validation examples that thresholds are chosen on, at most. */
const VALIDATION = 100;
/** Milliseconds between two lines about what a baseline is preparing. */
const NOTE = 10_000;

/** The baselines of data sets, prepared once for each. */
export class Baselines {
  readonly #quiet: boolean;
  readonly #quick = new Map<string, Promise<readonly string[]>>();
  readonly #prepared = new Map<string, Promise<PreparedBaseline>>();

  /** @param quiet without lines about what is being prepared */
  constructor(quiet = false) {
    this.#quiet = quiet;
  }

  /** Names of those that are quick enough to answer the examples of a data set beside any policy. @throws DataError as `answerersFor` */
  quick(name: string, source: ExampleSource): Promise<readonly string[]> {
    const key = `${name}\n${source.count}`;
    const made =
      this.#quick.get(key) ??
      answerersFor([...source], trainingSplit(name)).then((answerers) => [...answerers.keys()]);
    this.#quick.set(key, made);
    return made;
  }

  /** The baseline of a name, ready for a data set: it has learned from the training split and chosen on the validation split. */
  prepared(
    name: string,
    { address, source }: { readonly address: ExampleAddress; readonly source: ExampleSource },
    signal: AbortSignal,
  ): Promise<PreparedBaseline> {
    const key = `${name}\n${address.name}\n${address.seed}\n${address.length}`;
    const known = this.#prepared.get(key);
    if (known !== undefined) return known;
    const { kind } = source.facts;
    const validation = taskKind(kind).localises
      ? validationExamples(address, address.seed, VALIDATION)
      : null;
    let noted = performance.now();
    const made = baselineNamed(name, kind, address.name).prepare({
      kind,
      training: trainingSplit(address.name),
      validation: validation === null ? [] : [...openExamples(validation)],
      seed: address.seed,
      signal,
      onProgress: (step, share) => {
        if (this.#quiet || performance.now() - noted < NOTE) return;
        noted = performance.now();
        say(`${name}: ${step}, ${Math.floor(100 * share)} %`);
      },
    });
    this.#prepared.set(key, made);
    return made;
  }
}

/** The baseline of a name. @throws ConfigError while it answers, where there is no baseline of that name for the data set */
export function baselinePolicy(name: string, baselines: Baselines): EvalPolicy {
  return {
    name: `baseline:${name}`,
    identity: { baseline: name },
    asked: false,
    card: (facts) => foreignCard(facts, null),
    async answer({ address, source }, requests, report, signal) {
      const baseline = await baselines.prepared(name, { address, source }, signal);
      let next = 0;
      const work = async (): Promise<void> => {
        while (next < requests.length) {
          signal.throwIfAborted();
          const request = requests[next++]!;
          const example = source.at(request.number);
          const began = performance.now();
          const record = baselineRecord(example, await baseline.answer(example));
          report({ ...record, sample: 0, temperature: 0 }, request);
          // Another turn only after some work: most baselines take microseconds.
          if (performance.now() - began > 1) await breathe();
        }
      };
      await Promise.all(Array.from({ length: baseline.parallel }, work));
    },
  };
}
