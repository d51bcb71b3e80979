/** CTU: desktop or laptop, from a day of electricity readings. */
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
