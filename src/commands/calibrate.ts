/** `timeseer calibrate`: how sure a policy has to be taken to be, measured on series that it was not taught. */
import type { CommandModule } from 'yargs';
import { ENGINE_HELP, ENGINES } from '../answer/answerer.ts';
import { print, printJson } from '../ground/terminal.ts';
import { type CalibrateRequest, calibratePolicy } from '../run/calibrate.ts';

export interface CalibrateArguments extends CalibrateRequest {
  readonly json: boolean;
}

export async function runCalibrate({ json, ...request }: CalibrateArguments): Promise<void> {
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
        describe: 'Directory of a run or of a policy, taught with the figure nano-analysis',
      })
      .option('count', {
        type: 'number',
        default: 400,
        requiresArg: true,
        describe:
          'Held-out series of the taught length; beside them a fourth as many that are 4 times as long, and a ninth 9 times',
      })
      .option('seed', { type: 'number', default: 0, requiresArg: true, describe: 'Of these series' })
      .option('engine', { choices: ENGINES, describe: ENGINE_HELP, requiresArg: true })
      .option('device', {
        type: 'string',
        requiresArg: true,
        describe: 'Where the policy runs: cpu (default), cuda or cuda:N',
      })
      .option('json', { type: 'boolean', default: false, describe: 'Print what was fitted as JSON' })
      .example(
        '$0 calibrate --policy runs/small',
        'timeseer explain then tells how sure it is of each interval',
      ),
  handler: runCalibrate,
};
