/** TEE: kinds of lightning, from power density seen by a satellite. */
import { archiveTask } from './archive.ts';

export const tee = archiveTask({
  name: 'tee',
  title: 'Transient electromagnetic events: seven kinds of lightning',
  archive: 'Lightning7',
  description: 'FORTE satellite: power density of radio transients from lightning over 800 µs, 319 samples.',
  licence: 'UCR archive: free for research, with citation',
  citation:
    'Eads, Hill, Davis, Perkins, Ma, Porter, Theiler: Genetic algorithms and support vector machines for time series classification, SPIE 2002; UCR time series archive',
  labels: {
    0: 'CG Positive',
    1: 'IR Negative',
    2: 'Subsequent Return Stroke',
    3: 'Impulsive',
    4: 'Impulsive Pair',
    5: 'Gradual Intra-Cloud',
    6: 'Off-record',
  },
  rate: 319 / 800e-6,
  shape: '319 points, 1 channel',
  figure: { preset: 'tee', missing: 'break' },
  split: 'Published as 70 / 73.',
});
