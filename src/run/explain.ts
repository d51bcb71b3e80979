/** Asks a policy about the columns of a recording. Loaded only where one is asked: it takes more modules than everything else. */
import type { LocalPolicy } from '../answer/answerer.ts';
import { DEFAULT_POLICY, shippedPolicy } from '../answer/reference.ts';
import { readConfidence } from '../explain/confidence.ts';
import { askColumn, type ColumnAnswers } from '../explain/policy-answers.ts';
import { policyReader, type Reader } from '../explain/reader.ts';
import type { PolicyOpinion, ReportSource } from '../explain/report.ts';
import { MOST_WINDOWS } from '../explain/windows.ts';
import { ConfigError, EngineError } from '../ground/errors.ts';
import { Progress } from '../ground/progress.ts';
import { say } from '../ground/terminal.ts';
import { figure } from '../plot/figure.ts';
import { readCard } from '../tasks/card.ts';
import { taskKind } from '../tasks/kinds.ts';
import { readReference } from '../tasks/reference.ts';
import type { PolicyRequest } from './detect.ts';
import { pictureOf } from './policy-task.ts';

/** More samples than any file that can be read has. */
const LONGEST_WINDOW = 500_000_000;

/** @throws ConfigError for an option out of range */
function checkOptions({ window, overlap }: PolicyRequest): void {
  if (window !== undefined && !(Number.isInteger(window) && window >= 2 && window <= LONGEST_WINDOW)) {
    throw new ConfigError(
      `--window: expected a whole number of at least 2 samples, got ${window}${window > LONGEST_WINDOW ? `, more than the limit of ${LONGEST_WINDOW}` : ''}`,
    );
  }
  if (overlap !== undefined && !(overlap >= 0 && overlap <= 0.9)) {
    throw new ConfigError(`--overlap: expected a share from 0 to 0.9, got ${overlap}`);
  }
}

/** Loads the policy, where it is `calibrated` with its confidences; everything that can be wrong with it is found here. */
export async function openReader(
  path: string,
  {
    engine,
    device,
    calibrated = true,
  }: Pick<PolicyRequest, 'engine' | 'device'> & { readonly calibrated?: boolean },
): Promise<{ reader: Reader; policy: LocalPolicy }> {
  const { openLocal } = await import('../answer/open.ts');
  const source = await openLocal(path, { engine, device });
  const { directory } = source;
  const card = readCard(directory);
  if (!taskKind(card.kind).localises) {
    throw new ConfigError(
      `${path}: this policy answers with ${taskKind(card.kind).answers}, not with intervals; name one that was trained to find anomalies with --policy`,
    );
  }
  if (card.inspect !== undefined) {
    throw new ConfigError(
      `${path}: this policy looks closer over several turns, which explain does not do yet; name one that answers at once, or evaluate it with \`timeseer eval --policy ${path}\``,
    );
  }
  const shape = figure(card.figure);
  const policy = await source.load();
  const reader = policyReader(policy, card, {
    // Where the package is installed is of no interest to who reads a report.
    name: shippedPolicy(path) === null ? directory : path,
    reference: readReference(directory, policy.prompting.dims.width),
    confidence: calibrated ? readConfidence(directory) : null,
    picture: (values) => pictureOf(shape, values),
  });
  return { reader, policy };
}

/**
 * Opens the policy that is asked. Null where none is named and nothing on this machine computes the one that ships with timeseer: the
 * detector answers alone, and a note says why.
 */
export async function openAsked(request: PolicyRequest): Promise<{
  readonly ask: (source: ReportSource) => Promise<AskedColumns>;
  readonly close: () => unknown;
} | null> {
  checkOptions(request);
  try {
    const { reader, policy } = await openReader(request.policy ?? DEFAULT_POLICY, request);
    return { ask: (source) => ask(source, reader, request), close: () => policy.dispose() };
  } catch (error) {
    if (request.policy !== undefined || !(error instanceof EngineError)) throw error;
    say(`note: the policy ${DEFAULT_POLICY} is not asked: ${error.message.split('\n')[0]}`);
    return null;
  }
}

type AskedColumns = Omit<PolicyOpinion, 'columns'> & { readonly columns: readonly ColumnAnswers[] };

/** Windows of a column at least; they are as long as it takes. */
const FEWEST_OF_A_COLUMN = 8;

const NO_REFERENCE =
  'This policy has no record of its training data, so the distance of a window from them, and with it the reliability of the answer, is unknown.';

/** Asks the policy about every column. */
async function ask(
  { columns }: ReportSource,
  reader: Reader,
  { window, overlap }: PolicyRequest,
): Promise<AskedColumns> {
  const answers: ColumnAnswers[] = [];
  // A file is answered in bounded time, however many columns it has.
  const limit = Math.max(FEWEST_OF_A_COLUMN, Math.floor(MOST_WINDOWS / columns.length));
  for (const { name, values, detection } of columns) {
    let progress: Progress | undefined;
    const onProgress = (done: number, total: number): void => {
      progress ??= new Progress({
        label: columns.length === 1 ? 'policy' : `policy, ${name}`,
        ...{ total, unit: 'windows' },
      });
      progress.update(done);
    };
    try {
      answers.push(
        await askColumn({ name, values, detection }, reader, { window, overlap, limit, onProgress }),
      );
    } finally {
      progress?.stop();
    }
  }
  const notes = [...reader.caveats, ...(reader.reference === null ? [NO_REFERENCE] : [])];
  return { name: reader.name, record: { ...reader.record }, notes, columns: answers };
}
