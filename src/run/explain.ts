/** Explains a CSV file: what the detector finds in it, beside it what a policy says where one is asked, as a page and JSON. */
import { performance } from 'node:perf_hooks';
import type { EngineName, LocalPolicy } from '../answer/answerer.ts';
import { DEFAULT_POLICY, shippedPolicy } from '../answer/reference.ts';
import { readConfidence } from '../explain/confidence-model.ts';
import { askColumn, type ColumnAnswers, MOST_WINDOWS } from '../explain/policy-answers.ts';
import { policyReader, type Reader } from '../explain/reader.ts';
import { buildReport, type PolicyOpinion, type ReportSource } from '../explain/report.ts';
import { checkTarget, defaultTarget, writeReport } from '../explain/report-files.ts';
import type { AnomalyReport } from '../explain/schema.ts';
import { sinceReport } from '../explain/state.ts';
import { verify } from '../explain/verify.ts';
import { ConfigError, EngineError } from '../ground/errors.ts';
import { Progress } from '../ground/progress.ts';
import { say } from '../ground/terminal.ts';
import { figure } from '../plot/figure.ts';
import { readCard } from '../tasks/card.ts';
import { taskKind } from '../tasks/kinds.ts';
import { readReference } from '../tasks/reference.ts';
import { type DetectRequest, detectFile } from './detect.ts';
import { pictureOf } from './task.ts';

export interface ExplainRequest {
  readonly detect: DetectRequest;
  /** As `sinceReport` takes it. */
  readonly since: string | undefined;
  readonly out: string | undefined;
  /** Reference to a policy on this machine, or `none`; default: the one that ships with timeseer. */
  readonly policy: string | undefined;
  readonly engine?: EngineName | undefined;
  readonly device: string | undefined;
  readonly window: number | undefined;
  readonly overlap: number | undefined;
}

/** More samples than any file that can be read has. */
const LONGEST_WINDOW = 500_000_000;

/** In the place of a policy: none is asked. */
const NONE = 'none';

/** @throws ConfigError for what is about a policy where none is asked */
function checkAlone({ window, overlap, engine, device }: ExplainRequest): void {
  const given = Object.entries({ engine, device, window, overlap }).find(([, value]) => value !== undefined);
  if (given === undefined) return;
  throw new ConfigError(
    `--${given[0]}: is about a policy, and none is asked; name one with --policy, or leave it out`,
  );
}

/** @throws ConfigError for an option out of range */
function checkOptions({ window, overlap }: ExplainRequest): void {
  if (window !== undefined && !(Number.isInteger(window) && window >= 2 && window <= LONGEST_WINDOW)) {
    throw new ConfigError(
      `--window: expected a whole number of at least 2 samples, got ${window}${window > LONGEST_WINDOW ? `, more than any file has (${LONGEST_WINDOW})` : ''}`,
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
  }: Pick<ExplainRequest, 'engine' | 'device'> & { readonly calibrated?: boolean },
): Promise<{ reader: Reader; policy: LocalPolicy }> {
  const { openLocal } = await import('../answer/open.ts');
  const source = await openLocal(path, { engine, device });
  const { directory } = source;
  const card = readCard(directory);
  if (!taskKind(card.kind).localises) {
    throw new ConfigError(
      `${path}: was taught to answer with ${taskKind(card.kind).answers}, not with intervals; explain needs a policy that finds anomalies`,
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
 * The policy that is asked, null for none. Where none is named and the one that comes with timeseer is not there, or nothing on this machine
 * computes it, the detector answers alone, and a note says why.
 */
async function openAsked(request: ExplainRequest): Promise<Awaited<ReturnType<typeof openReader>> | null> {
  const { policy } = request;
  if (policy === NONE || (policy === undefined && shippedPolicy(DEFAULT_POLICY) === null)) {
    checkAlone(request);
    if (policy === undefined)
      say('note: no policy comes with this copy of timeseer; the detector answers alone');
    return null;
  }
  checkOptions(request);
  try {
    return await openReader(policy ?? DEFAULT_POLICY, request);
  } catch (error) {
    if (policy !== undefined || !(error instanceof EngineError)) throw error;
    say(`note: the policy ${DEFAULT_POLICY} is not asked: ${error.message.split('\n')[0]}`);
    return null;
  }
}

/** Windows of a column at least; they are as long as it takes. */
const FEWEST_OF_A_COLUMN = 8;

const NO_REFERENCE =
  'There is no record beside this policy of what it was taught, so neither how far a window is from that nor how sure it should be of an answer is known.';

/** Asks the policy about every column. */
async function ask(
  { columns }: ReportSource,
  reader: Reader,
  { window, overlap }: ExplainRequest,
): Promise<Omit<PolicyOpinion, 'columns'> & { readonly columns: readonly ColumnAnswers[] }> {
  const said: ColumnAnswers[] = [];
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
    const season = detection.seasons[0] ?? null;
    try {
      said.push(await askColumn({ name, values, season }, reader, { window, overlap, limit, onProgress }));
    } finally {
      progress?.stop();
    }
  }
  const notes = [...reader.caveats, ...(reader.reference === null ? [NO_REFERENCE] : [])];
  return { name: reader.name, record: { ...reader.record }, notes, columns: said };
}

/** What was found, and where it was written. */
export interface Explained {
  readonly source: ReportSource;
  readonly report: AnomalyReport;
  readonly files: { readonly html: string; readonly json: string };
  readonly seconds: number;
}

/**
 * Explains one CSV file, with progress on standard error. Both files appear whole, or, after an error or an interruption, not at all.
 *
 * @throws ConfigError for a wrong option; DataError for a wrong file; CheckpointError for a missing or damaged policy;
 * EngineError without libtorch; WriteError when the disk refuses
 */
export async function explainFile(request: ExplainRequest): Promise<Explained> {
  const started = performance.now();
  const { file, columns, select } = request.detect;
  const out = request.out ?? defaultTarget(file, [...(select === undefined ? [] : [select]), ...columns]);
  checkTarget(out);
  const opened = await openAsked(request);
  try {
    const { source, report: alone } = await detectFile(request.detect);
    const opinion = opened === null ? null : await ask(source, opened.reader, request);
    const whole = opinion === null ? alone : buildReport(source, opinion);
    verify(whole, source);
    const report = request.since === undefined ? whole : sinceReport(whole, request.since);
    const seen = new Map(opinion?.columns.map((one) => [one.column, one.seen]));
    const files = writeReport(out, report, source, { seen });
    return { source, report, files, seconds: (performance.now() - started) / 1000 };
  } finally {
    await opened?.policy.dispose();
  }
}
