/** `timeseer calibrate`: fits the confidence of a policy to held-out series. */
import { print, printJson } from '../ground/terminal.ts';
import { type CalibrateRequest, calibratePolicy } from '../run/calibrate.ts';
import { command, ENGINE_OPTIONS, flag, number, required, several, text } from './options.ts';

interface CalibrateArguments extends CalibrateRequest {
  readonly json: boolean;
}

async function runCalibrate({ json, ...request }: CalibrateArguments): Promise<void> {
  const { model, reliability, file } = await calibratePolicy(request);
  if (json) return printJson({ file, ...model, reliability });
  const { series, intervals, right, error = Number.NaN } = model.fitted;
  print(`${file}: ${intervals} intervals in ${series} series, ${right} of them right`);
  for (const row of reliability) {
    const share = Math.round((100 * row.right) / row.intervals);
    print(`  confidence ${row.from.toFixed(1)} to ${row.to.toFixed(1)}: ${row.intervals}, ${share} % right`);
  }
  print(`expected calibration error of policy and detector: ${error.toFixed(3)}`);
}

const OPTIONS = {
  policy: required('Run or policy directory; the policy must be trained with the figure nano-analysis'),
  count: number(
    'Number N of held-out series of the training length. Also used: N/4 series of 4 times and N/9 series of 9 times that length. With --out: of stretches of the recordings',
    { default: 400 },
  ),
  seed: number('Seed of the held-out series, and of the anomalies in recordings', { default: 0 }),
  data: several('CSV file of a recording, mostly normal, into which anomalies are put (repeatable)'),
  out: text(
    'New directory for a copy of the policy, fitted to the recordings of --data alone; needed for one that ships',
  ),
  ...ENGINE_OPTIONS,
  json: flag('Print the fitted confidence model as JSON'),
};

export const calibrate = command({
  command: 'calibrate',
  options: OPTIONS,
  examples: [
    [
      '$0 calibrate --policy runs/small',
      'explain then shows a calibrated confidence for each interval of the policy',
    ],
    [
      '$0 calibrate --policy small --data my.csv --out runs/my-small',
      'small with a confidence for your recordings, in a minute or two',
    ],
    ['$0 explain new.csv --policy runs/my-small', 'Use it'],
  ],
  handler: runCalibrate,
});
