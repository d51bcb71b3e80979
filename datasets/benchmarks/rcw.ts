/** RCW: whether a right whale calls in two seconds of a hydrophone's signal. */
import { archiveTask } from './archive.ts';

export const rcw = archiveTask({
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
  split:
    'The split behind published results is not known (7027 calls and 22973 others are counts of classes), so numbers are not comparable digit by digit.',
});
