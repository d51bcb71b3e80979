import { ConfigError } from '../ground/errors.ts';
import { print, printJson, say } from '../ground/terminal.ts';
import { namesOf } from '../recipe/config.ts';
import type { StudyRequest } from '../run/study.ts';
import { command, DEVICE, flag, list, number, required, TRAINING_ENGINE } from './options.ts';

interface StudyArguments extends StudyRequest {
  readonly json: boolean;
}

/** Exit code EX_TEMPFAIL of `sysexits.h`: unfinished, try again later. */
const EXIT_TEMPORARY = 75;

const OPTIONS = {
  out: required('Directory of the study; each run is in SETTING/ARM/seed-N'),
  only: list('Run only these: SETTING/ARM/seed-N or its first parts, * matches any text (repeatable)'),
  budget: number(
    `Start no further run after this many minutes; exit code ${EXIT_TEMPORARY} if runs are left`,
  ),
  resume: flag(
    'Resume the study in --out: finished runs are skipped, an interrupted run resumes bit for bit',
  ),
  report: flag('Train nothing; rebuild the results from the finished runs'),
  engine: TRAINING_ENGINE,
  device: DEVICE,
  quiet: flag('Show no progress'),
  json: flag('Print the results as JSON'),
};

export const study = command({
  command: 'study <study>',
  positionals: { study: `Name of a study (${namesOf('study').join(', ')}) or path of a .yaml file` },
  options: OPTIONS,
  check: ({ budget }) => {
    if (budget === undefined || budget > 0) return true;
    throw new ConfigError(`--budget: got ${budget}, expected minutes > 0`);
  },
  examples: [
    ['$0 study grounding --out runs/grounding', 'The study of grounding that ships with timeseer'],
    [
      '$0 study grounding --out runs/grounding --resume --budget 60',
      'Resume for an hour, then write the results so far',
    ],
    [
      "$0 study grounding --out runs/grounding --resume --only 'few/*timerpo*'",
      'Some arms of one setting, with the start that they need',
    ],
    ['$0 study my-study.yaml --out runs/mine', 'Your own study'],
    ['$0 study grounding --out runs/grounding --report', 'Rewrite study.html, study.md and study.json'],
  ],
  epilogue:
    'Seeds are the outermost loop, so all arms finish a seed before the next one begins. Each run is an ordinary run directory for ' +
    'eval, train --resume and explain.',
  handler: async (given: StudyArguments) => {
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
});
