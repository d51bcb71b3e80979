/** nano5: five equally frequent classes, made for small pictures. */
import {
  NANO5_CLASSES,
  NANO5_LENGTH,
  NANO5_MINIMUM_LENGTH,
  NANO5_PARAMETERS,
  nano5,
} from '../generators/nano5.ts';
import { anomalyPrompt } from './benchmark.ts';
import { generatedBenchmark } from './families.ts';

export const nano5Benchmark = generatedBenchmark({
  name: 'nano5',
  title: 'nano5: five equally frequent classes of anomalies, made for small pictures',
  kind: 'anomaly',
  description: 'The series of the quickstart.',
  citation: null,
  limitations: [
    'It was taught anomalies of about 20 to 150 samples of 1000: shorter ones, a single spike above all, hardly show in its picture and are easily missed.',
  ],
  shape: `${NANO5_LENGTH} points, 1 channel`,
  figure: { preset: 'nano', missing: 'break' },
  prompt: anomalyPrompt(
    'It is a synthetic series: a regular pattern, such as a wave, noise or a trend, which may change in places.',
  ),
  classes: NANO5_CLASSES,
  counts: { train: 2000, validation: 200, test: 400 },
  length: NANO5_LENGTH,
  minimumLength: NANO5_MINIMUM_LENGTH,
  parameters: NANO5_PARAMETERS,
  at: nano5,
});
