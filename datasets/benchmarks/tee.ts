/** TEE: kinds of lightning, from power density seen by a satellite. */
import { archiveBenchmark } from './families.ts';

export const tee = archiveBenchmark({
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
  prompt: {
    version: 1,
    context:
      'It is the radio power density of a lightning event as the satellite FORTE received it, 800 microseconds around the trigger.',
    question: 'Decide which kind of lightning event it is.',
    hints: {
      'CG Positive':
        'positive cloud-to-ground stroke: a sudden onset, then hundreds of microseconds of noisy radiation',
      'IR Negative':
        'initial negative return stroke: power climbs slowly to the attachment, peaks sharply and falls quickly',
      'Subsequent Return Stroke':
        'later negative stroke: a sudden onset without a slow climb, then a quick fall with little noise after',
      Impulsive: 'one isolated spike of a few microseconds',
      'Impulsive Pair': 'two isolated spikes close to each other',
      'Gradual Intra-Cloud':
        'discharge inside the cloud: power rises and falls gradually, without a sharp edge',
      'Off-record': 'only part of an event, cut off by an end of the record',
    },
    advice: 'advise storm monitoring and aviation what this event means for the risk in the area',
    advised: {
      'CG Positive':
        'For storm monitoring and aviation this event means a strong stroke to the ground, often from the anvil far from the core: warn of fire and keep the area wide around the storm clear.',
      'IR Negative':
        'For storm monitoring and aviation this event means that a new channel has reached the ground: the risk of further strokes at the same place in the area is high within a second.',
      'Subsequent Return Stroke':
        'For storm monitoring and aviation this event means an active channel to the ground: the risk in the area lasts, so stop work outside until it has been quiet for half an hour.',
      Impulsive:
        'For storm monitoring and aviation this event means a discharge within the cloud: the risk on the ground in the area is small, but the storm may grow, so keep watching its rate.',
      'Impulsive Pair':
        'For storm monitoring and aviation this event means a strong discharge high in the cloud with its echo from the ground: aircraft should avoid flight through the area near the cloud top.',
      'Gradual Intra-Cloud':
        'For storm monitoring and aviation this event means activity within the cloud: the risk to aircraft in the area rises, and strokes to the ground may follow within minutes.',
      'Off-record':
        'For storm monitoring and aviation this event means little by itself, since it is cut off: judge the risk in the area by the records before and after it.',
    },
  },
  split: 'Published as 70 / 73.',
});
