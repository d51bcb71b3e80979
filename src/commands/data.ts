/** `timeseer data`: data sets from papers' tasks, synthetic series and the user's files. */
import type { CommandModule } from 'yargs';
import { ConfigError } from '../ground/errors.ts';
import { generateCommand } from './data/generate.ts';
import { listCommand } from './data/list.ts';
import { prepareCommand } from './data/prepare.ts';
import { showCommand } from './data/show.ts';
import { statsCommand, validateCommand } from './data/validate.ts';

/** Default command: asks for an action. */
const nothing: CommandModule = {
  command: '$0',
  describe: false,
  handler: () => {
    throw new ConfigError(
      'data: no action given: list, prepare, generate, show, validate or stats; see timeseer data --help',
    );
  },
};

export const data: CommandModule = {
  command: 'data',
  builder: (yargs) =>
    yargs
      .command(listCommand)
      .command(prepareCommand)
      .command(generateCommand)
      .command(showCommand)
      .command(validateCommand)
      .command(statsCommand)
      .command(nothing)
      .example('$0 data list', 'All tasks')
      .example('$0 data prepare anomllm --out data/anomllm', 'A generated task')
      .example('$0 data show data/anomllm --n 6 --out page.html', 'Six rendered examples'),
  handler: () => undefined,
};
