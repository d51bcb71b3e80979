import type { CommandModule } from 'yargs';
import { ConfigError } from '../ground/errors.ts';
import { print, printJson, say } from '../ground/terminal.ts';
import { studyNames } from '../recipe/study.ts';
import type { StudyRequest } from '../run/study.ts';

interface StudyArguments extends StudyRequest {
  readonly json: boolean;
}

/** Of `sysexits.h`: not done, try again later. */
const EXIT_TEMPORARY = 75;

export const study: CommandModule<object, StudyArguments> = {
  command: 'study <study>',
  describe: 'Run a grid of runs, setting × arm × seed, and compare its arms',
  builder: (cli) =>
    cli
      .positional('study', {
        type: 'string',
        demandOption: true,
        describe: `Study by name (${studyNames().join(', ')}) or path of a .yaml file`,
      })
      .option('out', {
        type: 'string',
        demandOption: true,
        requiresArg: true,
        describe: 'Directory of the study; its runs are SETTING/ARM/seed-N in it',
      })
      .option('only', {
        type: 'string',
        array: true,
        nargs: 1,
        default: [] as string[],
        describe: 'Runs to do, as SETTING/ARM/seed-N or its first parts; * is any text (repeatable)',
      })
      .option('budget', {
        type: 'number',
        requiresArg: true,
        describe: `Minutes after which no further run is begun; exit code ${EXIT_TEMPORARY} where some are left`,
      })
      .option('resume', {
        type: 'boolean',
        default: false,
        describe:
          'Go on with the study that is there: finished runs are skipped, a run cut off resumes bit for bit',
      })
      .option('report', {
        type: 'boolean',
        default: false,
        describe: 'Train nothing: make the results again from the finished runs',
      })
      .option('device', {
        type: 'string',
        default: 'cpu',
        requiresArg: true,
        describe: 'cpu, cuda or cuda:N',
      })
      .option('quiet', { type: 'boolean', default: false, describe: 'No progress' })
      .option('json', { type: 'boolean', default: false, describe: 'Print the results as JSON' })
      .check(({ budget }) => {
        if (budget === undefined || budget > 0) return true;
        throw new ConfigError(`--budget: got ${budget}, expected minutes > 0`);
      })
      .example(
        '$0 study grounding --out runs/grounding',
        'What grounding adds: the study that comes with timeseer',
      )
      .example(
        '$0 study grounding --out runs/grounding --resume --budget 60',
        'Go on for an hour; the results so far are written',
      )
      .example(
        "$0 study grounding --out runs/grounding --resume --only 'few/*timerpo*'",
        'Some arms of one setting, and the start that they need',
      )
      .example('$0 study my-study.yaml --out runs/mine', 'A study of your own')
      .example(
        '$0 study grounding --out runs/grounding --report',
        'Write study.html, study.md and study.json again',
      )
      .epilogue(
        'Seeds are the outermost loop: after each of them all arms have equally many. A run of a study is a run like any other: ' +
          'eval, train --resume and explain take its directory.',
      ) as never,
  handler: async (given) => {
    const { runStudy } = await import('../run/study.ts');
    const { studyMarkdown } = await import('../../eval/study-page.ts');
    const { files, results, stopped, resume } = await runStudy(given);
    if (given.json) printJson({ files, ...results });
    else
      print(
        `${studyMarkdown(results)}\npage: ${files.page}\ntable: ${files.markdown}\nnumbers: ${files.json}`,
      );
    if (results.failed.length > 0) process.exitCode = 1;
    if (stopped === 'budget') {
      say(
        `the budget of ${given.budget} minutes is used up: ${results.finished} of ${results.cells} runs are finished; go on with: ${resume}`,
      );
      process.exitCode = EXIT_TEMPORARY;
    }
  },
};
