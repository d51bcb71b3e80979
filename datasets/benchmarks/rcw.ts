/** RCW: whether a right whale calls in two seconds of a hydrophone's signal. */
import { archiveBenchmark } from './families.ts';

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
