/** `timeseer explain`: what a policy and the classical analyses see in one CSV file. */

import { basename } from 'node:path';
import { performance } from 'node:perf_hooks';
import type { CommandModule } from 'yargs';
import { readSeriesCsv } from '../../datasets/readers/csv.ts';
import { openTorch } from '../engine/torch/torch.ts';
import { ConfigError } from '../errors.ts';
import { type ExplainSource, explain, MOST_WINDOWS } from '../explain/explain.ts';
import { writeExplanation } from '../explain/page.ts';
import { policyReader, type Reader } from '../explain/reader.ts';
import { cores } from '../machine.ts';
import { packageVersion } from '../paths.ts';
import { figure } from '../plot/figure.ts';
import { Policy } from '../policy/policy.ts';
import { Progress } from '../progress.ts';
import { findPolicy } from '../run/find-policy.ts';
import { pictureOf } from '../run/task.ts';
import { readCard } from '../tasks/card.ts';
import { taskKind } from '../tasks/kinds.ts';
import { print, printJson, say } from '../terminal.ts';
import { count, summary, unanswered } from './explain-summary.ts';
import { checkTarget, defaultTarget } from './explain-target.ts';

export interface ExplainArguments {
  file: string;
  policy: string | undefined;
  column: string | undefined;
  out: string | undefined;
  device: string | undefined;
  window: number | undefined;
  overlap: number;
  json: boolean;
}

/** More samples than any file that can be read has. */
const LONGEST_WINDOW = 500_000_000;

function checkOptions({ window, overlap, policy, device }: ExplainArguments): void {
  if (window !== undefined && !(Number.isInteger(window) && window >= 2 && window <= LONGEST_WINDOW)) {
    throw new ConfigError(
      `--window: expected a whole number of at least 2 samples, got ${window}${window > LONGEST_WINDOW ? `, more than any file has (${LONGEST_WINDOW})` : ''}`,
    );
  }
  if (device !== undefined && policy === undefined) {
    throw new ConfigError('--device: only a policy runs on a device; add --policy, or leave it out');
  }
  if (window !== undefined && policy === undefined) {
    throw new ConfigError('--window: only a policy sees windows; add --policy, or leave it out');
  }
  if (!(overlap >= 0 && overlap <= 0.9)) {
    throw new ConfigError(`--overlap: expected a share from 0 to 0.9, got ${overlap}`);
  }
}

function readSource(args: ExplainArguments): ExplainSource {
  const { values, time, column } = readSeriesCsv(args.file, { column: args.column, missing: true });
  // A file without a header has no names; the reader numbers its columns.
  return {
    file: basename(args.file),
    column: /^column \d+$/.test(column) ? null : column,
    values,
    time,
  };
}

/** Loads the policy; everything that can be wrong with it is found here. */
function openReader(path: string, device: string): { reader: Reader; policy: Policy } {
  const directory = findPolicy(path);
  const card = readCard(directory);
  if (!taskKind(card.kind).localises) {
    throw new ConfigError(
      `${path}: was taught to answer with ${taskKind(card.kind).answers}, not with intervals; explain needs a policy that finds anomalies`,
    );
  }
  const shape = figure(card.figure);
  const policy = Policy.load(openTorch({ device, threads: cores() }), directory);
  const reader = policyReader(policy, card, {
    name: directory,
    picture: (values) => pictureOf(shape, values),
  });
  return { reader, policy };
}

/**
 * Runs the command: progress on standard error, a summary on standard output. Both files appear whole, or, after an
 * error or an interruption, not at all.
 *
 * @throws ConfigError for a wrong option; DataError for a wrong file; CheckpointError for a missing or damaged policy;
 * EngineError without libtorch; WriteError when the disk refuses
 */
export async function runExplain(args: ExplainArguments): Promise<void> {
  const started = performance.now();
  checkOptions(args);
  const source = readSource(args);
  const out = args.out ?? defaultTarget(args.file, args.column);
  checkTarget(out);
  const opened = args.policy === undefined ? null : openReader(args.policy, args.device ?? 'cpu');
  let progress: Progress | undefined;
  try {
    const found = await explain(source, opened?.reader ?? null, {
      ...(args.window === undefined ? {} : { window: args.window }),
      overlap: args.overlap,
      onProgress: (done, total) => {
        progress ??= new Progress({ label: 'explain', total, unit: 'windows' });
        progress.update(done);
      },
      environment: { timeseer: packageVersion(), node: process.version },
    });
    progress?.stop();
    const files = writeExplanation(out, found);
    const seconds = (performance.now() - started) / 1000;
    const { figure: _figure, windows, ...rest } = found;
    if (args.json) {
      printJson({
        out: files,
        seconds: Number(seconds.toFixed(3)),
        ...rest,
        windows: windows.length,
        unreadable: windows.filter((one) => one.intervals === null).length,
      });
    } else print(summary(found, files, seconds));
    if (unanswered(found)) {
      say(
        `warning: none of the policy's ${count(found.windows.length, 'answer')} could be read, so it says nothing about this series; they are in ${files.html}`,
      );
      process.exitCode = 1;
    }
  } finally {
    progress?.stop();
    opened?.policy.dispose();
  }
}

export const explainCommand: CommandModule<object, ExplainArguments> = {
  command: 'explain <file>',
  describe: 'Find and explain the anomalies of a CSV file',
  builder: (yargs) =>
    yargs
      .positional('file', {
        type: 'string',
        demandOption: true,
        describe:
          'CSV with one column of numbers, with or without a header and a time column; at least 2 samples, empty cells are gaps',
      })
      .option('policy', {
        type: 'string',
        describe: 'Directory of a run or of a policy (default: none, the classical analyses alone)',
        requiresArg: true,
      })
      .option('column', {
        type: 'string',
        describe: 'Value column, by name or number, where there are several',
        requiresArg: true,
      })
      .option('out', {
        type: 'string',
        describe:
          'Path of the result without .html and .json (default: <name of the file>[.<column>].explain in the current directory)',
        requiresArg: true,
      })
      .option('device', {
        type: 'string',
        describe: 'Where the policy runs: cpu (default), cuda or cuda:N',
        requiresArg: true,
      })
      .option('window', {
        type: 'number',
        describe: `Samples per window (default: what the policy was taught; longer where ${MOST_WINDOWS} windows do not reach)`,
        requiresArg: true,
      })
      .option('overlap', {
        type: 'number',
        default: 0.5,
        describe: 'Share that neighbouring windows have in common, 0 to 0.9',
        requiresArg: true,
      })
      .option('json', { type: 'boolean', default: false, describe: 'Print the summary as JSON' })
      .example(
        '$0 explain my.csv --policy runs/quickstart',
        'The best policy of a run, one page and its JSON',
      )
      .example('$0 explain my.csv --column temperature --out reports/my', 'The classical analyses alone')
      .example(
        '$0 explain my.csv --policy runs/quickstart --window 4000',
        'Longer windows, for slower anomalies',
      )
      .epilogue('An earlier explanation of the same name is replaced; any other file is not.'),
  handler: runExplain,
};
