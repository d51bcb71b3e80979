/** Generated examples with what tests ask of them at hand: values, intervals, class, variates. */
import { checkExample } from '../../datasets/example.ts';
import * as anomllmGenerator from '../../datasets/generators/anomllm.ts';
import * as nano5Generator from '../../datasets/generators/nano5.ts';
import * as vtaGenerator from '../../datasets/generators/vta.ts';
import * as variatesGenerator from '../../datasets/generators/vta.ts';
import type { AnomalyClass, Example, Interval } from '../../src/ground/types.ts';

/** A series of one channel with its anomalies. */
export interface Series {
  readonly id: string;
  readonly task: string;
  readonly values: Float64Array;
  readonly intervals: readonly Interval[];
  readonly class: AnomalyClass;
}

/** The one channel of an example of anomalies; `checkExample` must accept it. */
export function univariate(example: Example): Series {
  checkExample(example);
  const { id, task, channels, gold } = example;
  if (gold.kind !== 'anomaly' || gold.class === null || channels.length !== 1) throw new Error(id);
  return { id, task, values: channels[0]!, intervals: gold.intervals, class: gold.class };
}

const flat =
  <A extends readonly unknown[]>(make: (...args: A) => Example) =>
  (...args: A): Series =>
    univariate(make(...args));

export const nano5 = flat(nano5Generator.nano5);
export const anomllm = flat(anomllmGenerator.anomllm);
export const anomllmMixed = flat(anomllmGenerator.anomllmMixed);
export const vta = flat(vtaGenerator.vta);
export const vtaIrregular = flat(vtaGenerator.vtaIrregular);

export function vtaMultivariate(...args: Parameters<typeof variatesGenerator.vtaMultivariate>) {
  const example = variatesGenerator.vtaMultivariate(...args);
  checkExample(example);
  if (example.gold.kind !== 'variates') throw new Error(example.id);
  return { ...example, variates: example.gold.variates };
}
