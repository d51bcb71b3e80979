/** Classified series of the UCR and time-series classification archives: CTU, RCW and TEE. */
import { archiveBenchmark } from './families.ts';

export const ctu = archiveBenchmark({
  name: 'ctu',
  title: 'Computers: desktop or laptop, from a day of electricity use',
  archive: 'Computers',
  description:
    'UK study "Powering the Nation", 251 households: electricity use of one computer over a day, one reading every two minutes.',
  licence: 'UCR archive: free for research, with citation',
  citation:
    'Lines, Bagnall, Caiger-Smith, Anderson: Classification of household devices by electricity usage profiles, IDEAL 2011; UCR time series archive',
  labels: { 1: 'Desktop', 2: 'Laptop' },
  rate: 1 / 120,
  shape: '720 points, 1 channel',
  figure: { preset: 'ctu', missing: 'break' },
  prompt: {
    version: 1,
    context:
      'It is the electricity use of one computer in a household of the United Kingdom over 24 hours, one reading every two minutes, scaled to mean 0 and standard deviation 1.',
    question: 'Decide what kind of computer it is.',
    hints: {
      Desktop: 'stays on for long at a high and restless level, and switches between clear levels',
      Laptop: 'lower and shorter use, with stretches in which a battery is charged and long rests',
    },
    advice: 'advise the household how to use less electricity with this computer',
    advised: {
      Desktop:
        'Advise the household to let this computer sleep after ten minutes without use and to switch it off at the wall at night, since a desktop draws electricity for as long as it stays on.',
      Laptop:
        'Advise the household to unplug the charger of this computer once the battery is full and to keep its energy saving mode on, since a laptop uses less electricity on battery than at the wall.',
    },
  },
  split:
    'Published as 250 / 250. Households are not named, so it cannot be told whether days of one are in both.',
});

export const rcw = archiveBenchmark({
  name: 'rcw',
  title: 'Right whale calls in two seconds of a hydrophone signal',
  archive: 'RightWhaleCalls',
  description:
    'Cornell and Marinexplore, buoys off Massachusetts: two seconds at 2 kHz, with an up-call of a right whale (rising through about 60 to 250 Hz within about a second) or without.',
  licence: 'time-series classification archive: free for research; terms of the Marinexplore challenge',
  citation: 'Marinexplore and Cornell University whale detection challenge, 2013',
  labels: { RightWhale: 'RightWhale', NoWhale: 'NoWhale' },
  rate: 2000,
  shape: '4000 points, 1 channel',
  figure: { preset: 'rcw', missing: 'break' },
  prompt: {
    version: 1,
    context:
      'It is two seconds of underwater sound from a recording buoy (Cornell, Marinexplore), 2000 samples per second. An up-call of the North Atlantic right whale is a tone that rises smoothly from about 60 to 250 Hz within about one second; other whales, ships, ice and rain are heard as well.',
    question: 'Decide whether the recording holds a right whale call.',
    hints: {
      RightWhale: 'a rising tone stands out of the background for about a second',
      NoWhale: 'background noise, or sounds that do not rise in this way',
    },
    advice:
      'advise operators of ships and of the listening network what to do next, given how clear the call is and how safe the decision',
    advised: {
      RightWhale:
        'Operators of ships near this buoy should slow down to ten knots and post a lookout for a whale; the listening network should send the alert on, and keep it for a day, since a missed whale costs more than a slow passage.',
      NoWhale:
        'Operators of ships need to change nothing next; the listening network should keep on recording, since a silent clip is no safe sign that no whale is near.',
    },
  },
  split:
    'The split behind published results is not known (7027 calls and 22973 others are counts of classes), so numbers are not comparable digit by digit.',
});

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
