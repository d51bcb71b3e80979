import type { CommandModule } from 'yargs';
import { ConfigError } from '../ground/errors.ts';
import { print, printJson, say } from '../ground/terminal.ts';
import { studyNames } from '../recipe/study.ts';
import type { StudyRequest } from '../run/study.ts';

interface StudyArguments extends StudyRequest {
  readonly json: boolean;
}

/** Exit code EX_TEMPFAIL of `sysexits.h`: unfinished, try again later. */
const EXIT_TEMPORARY = 75;

export const study: CommandModule<object, StudyArguments> = {
  command: 'study <study>',
  describe: 'Run a grid of trainings (setting × arm × seed) and compare its arms',
  builder: (cli) =>
    cli
      .positional('study', {
        type: 'string',
        demandOption: true,
        describe: `Name of a study (${studyNames().join(', ')}) or path of a .yaml file`,
      })
      .option('out', {
        type: 'string',
        demandOption: true,
        requiresArg: true,
        describe: 'Directory of the study; each run is in SETTING/ARM/seed-N',
      })
      .option('only', {
        type: 'string',
        array: true,
        nargs: 1,
        default: [] as string[],
        describe: 'Run only these: SETTING/ARM/seed-N or its first parts, * matches any text (repeatable)',
      })
      .option('budget', {
        type: 'number',
        requiresArg: true,
        describe: `Start no further run after this many minutes; exit code ${EXIT_TEMPORARY} if runs are left`,
      })
      .option('resume', {
        type: 'boolean',
        default: false,
        describe:
          'Resume the study in --out: finished runs are skipped, an interrupted run resumes bit for bit',
      })
      .option('report', {
        type: 'boolean',
        default: false,
        describe: 'Train nothing; rebuild the results from the finished runs',
      })
      .option('device', {
        type: 'string',
        default: 'cpu',
        requiresArg: true,
        describe: 'cpu, cuda or cuda:N',
      })
      .option('quiet', { type: 'boolean', default: false, describe: 'Show no progress' })
      .option('json', { type: 'boolean', default: false, describe: 'Print the results as JSON' })
      .check(({ budget }) => {
        if (budget === undefined || budget > 0) return true;
        throw new ConfigError(`--budget: got ${budget}, expected minutes > 0`);
      })
      .example('$0 study grounding --out runs/grounding', 'The study of grounding that ships with timeseer')
      .example(
        '$0 study grounding --out runs/grounding --resume --budget 60',
        'Resume for an hour, then write the results so far',
      )
      .example(
        "$0 study grounding --out runs/grounding --resume --only 'few/*timerpo*'",
        'Some arms of one setting, with the start that they need',
      )
      .example('$0 study my-study.yaml --out runs/mine', 'Your own study')
      .example(
        '$0 study grounding --out runs/grounding --report',
        'Rewrite study.html, study.md and study.json',
      )
      .epilogue(
        'Seeds are the outermost loop, so all arms finish a seed before the next one begins. Each run is an ordinary run directory for ' +
          'eval, train --resume and explain.',
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
        `stopped after ${given.budget} minutes: ${results.finished} of ${results.cells} runs are finished; resume with: ${resume}`,
      );
      process.exitCode = EXIT_TEMPORARY;
    }
  },
};
