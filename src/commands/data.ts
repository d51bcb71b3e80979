/** `timeseer data`: data sets from papers' tasks, synthetic series and the user's files. */
import { generateCommand } from './data/generate.ts';
import { listCommand } from './data/list.ts';
import { prepareCommand } from './data/prepare.ts';
import { showCommand } from './data/show.ts';
import { statsCommand, validateCommand } from './data/validate.ts';
import { commandGroup } from './options.ts';

export const data = commandGroup(
  'data',
  [listCommand, prepareCommand, generateCommand, showCommand, validateCommand, statsCommand],
  [
    ['$0 data list', 'All tasks'],
    ['$0 data prepare anomllm --out data/anomllm', 'A generated task'],
    ['$0 data show data/anomllm --n 6 --out page.html', 'Six rendered examples'],
  ],
);
