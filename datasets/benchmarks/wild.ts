/** wild: series as they are met, with anomalies of ten kinds. */
import { ANOMALY_CLASSES } from '../../src/ground/types.ts';
import { WILD_LENGTH, WILD_MINIMUM_LENGTH, WILD_PARAMETERS, wild } from '../generators/wild/wild.ts';
import { anomalyPrompt } from './benchmark.ts';
import { generatedBenchmark } from './families.ts';

export const wildBenchmark = generatedBenchmark({
  name: 'wild',
  title: 'wild: series as they are met, with anomalies of ten kinds and many that only look like one',
  kind: 'anomaly',
  description:
    'Made like recordings of people, machines, gauges, counts and signals, in any unit; 35 to 50 % are normal. Every anomaly has exact ends, a kind and a severity.',
  citation: null,
  shape: `${WILD_LENGTH} points, 1 channel`,
  figure: { preset: 'line', missing: 'break' },
  prompt: anomalyPrompt(
    'It is a series as machines, gauges and counters record it: it may repeat by the hour, the day or the week, drift, switch or burst. Whatever it does again and again is normal.',
  ),
  classes: ANOMALY_CLASSES,
  counts: { train: 4000, validation: 400, test: 400 },
  length: WILD_LENGTH,
  minimumLength: WILD_MINIMUM_LENGTH,
  parameters: WILD_PARAMETERS,
  at: wild,
});
