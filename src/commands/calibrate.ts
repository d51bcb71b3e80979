/** `timeseer calibrate`: fits the confidence of a policy to held-out series. */
import type { CommandModule } from 'yargs';
import { ENGINE_HELP, ENGINES } from '../answer/answerer.ts';
import { print, printJson } from '../ground/terminal.ts';
import { type CalibrateRequest, calibratePolicy } from '../run/calibrate.ts';

interface CalibrateArguments extends CalibrateRequest {
  readonly json: boolean;
}

async function runCalibrate({ json, ...request }: CalibrateArguments): Promise<void> {
  const { model, reliability, file } = await calibratePolicy(request);
  if (json) return printJson({ file, ...model, reliability });
  const { series, intervals, right } = model.fitted;
  print(`${file}: ${intervals} intervals in ${series} series, ${right} of them right`);
  for (const row of reliability) {
    const share = Math.round((100 * row.right) / row.intervals);
    print(`  confidence ${row.from.toFixed(1)} to ${row.to.toFixed(1)}: ${row.intervals}, ${share} % right`);
  }
}

export const calibrate: CommandModule<object, CalibrateArguments> = {
  command: 'calibrate',
  describe: "Calibrate a policy's confidence on held-out series and save it with the policy",
  builder: (yargs) =>
    yargs
      .option('policy', {
        type: 'string',
        demandOption: true,
        requiresArg: true,
        describe: 'Run or policy directory; the policy must be trained with the figure nano-analysis',
      })
      .option('count', {
        type: 'number',
        default: 400,
        requiresArg: true,
        describe:
          'Number of held-out series of the training length; a quarter as many of 4 times and a ninth as many of 9 times that length are added',
      })
      .option('seed', {
        type: 'number',
        default: 0,
        requiresArg: true,
        describe: 'Seed of the held-out series',
      })
      .option('engine', { choices: ENGINES, describe: ENGINE_HELP, requiresArg: true })
      .option('device', {
        type: 'string',
        requiresArg: true,
        describe: 'Device of the policy: cpu (default), cuda or cuda:N',
      })
      .option('json', { type: 'boolean', default: false, describe: 'Print the fitted model as JSON' })
      .example(
        '$0 calibrate --policy runs/small',
        'explain then shows a calibrated confidence for each interval of the policy',
      ),
  handler: runCalibrate,
};
