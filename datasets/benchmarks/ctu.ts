/** CTU: desktop or laptop, from a day of electricity readings. */
import { archiveTask } from './archive.ts';

export const ctu = archiveTask({
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
  split:
    'Published as 250 / 250. Households are not named, so it cannot be told whether days of one are in both.',
});
