/** Explains a CSV file: what the detector finds in it, beside it what a policy says where one is asked, as a page and JSON. */
import { performance } from 'node:perf_hooks';
import { ConfigError } from '../errors.ts';
import { readConfidence } from '../explain/confidence-model.ts';
import { askColumn, type ColumnAnswers } from '../explain/policy-answers.ts';
import { policyReader, type Reader } from '../explain/reader.ts';
import { type AnomalyReport, buildReport, type PolicyOpinion, type ReportSource } from '../explain/report.ts';
import { checkTarget, defaultTarget, writeReport } from '../explain/report-files.ts';
import { sinceReport } from '../explain/state.ts';
import { verify } from '../explain/verify.ts';
import { cores } from '../machine.ts';
import { figure } from '../plot/figure.ts';
import type { Answerer } from '../policy/answerer.ts';
import { Progress } from '../progress.ts';
import { readCard } from '../tasks/card.ts';
import { taskKind } from '../tasks/kinds.ts';
import { readReference } from '../tasks/reference.ts';
import { type DetectRequest, detectFile } from './detect.ts';
import type { EngineName } from './engine-name.ts';
import { openAnswerer } from './open-answerer.ts';
import { findPolicy } from './run-policy.ts';
import { pictureOf } from './task.ts';

export interface ExplainRequest {
  readonly detect: DetectRequest;
  /** As `sinceReport` takes it. */
  readonly since: string | undefined;
  readonly out: string | undefined;
  readonly policy: string | undefined;
  readonly engine?: EngineName | undefined;
  readonly device: string | undefined;
  readonly window: number | undefined;
  readonly overlap: number | undefined;
}

/** More samples than any file that can be read has. */
const LONGEST_WINDOW = 500_000_000;

function checkOptions({ window, overlap, policy, engine, device }: ExplainRequest): void {
  if (policy === undefined) {
    const alone = Object.entries({ engine, device, window, overlap }).find(
      ([, value]) => value !== undefined,
    );
    if (alone === undefined) return;
    throw new ConfigError(
      `--${alone[0]}: is about a policy, and none is asked; add --policy, or leave it out`,
    );
  }
  if (window !== undefined && !(Number.isInteger(window) && window >= 2 && window <= LONGEST_WINDOW)) {
    throw new ConfigError(
      `--window: expected a whole number of at least 2 samples, got ${window}${window > LONGEST_WINDOW ? `, more than any file has (${LONGEST_WINDOW})` : ''}`,
    );
  }
  if (overlap !== undefined && !(overlap >= 0 && overlap <= 0.9)) {
    throw new ConfigError(`--overlap: expected a share from 0 to 0.9, got ${overlap}`);
  }
}

/** Loads the policy; everything that can be wrong with it is found here. */
export async function openReader(
  path: string,
  { engine, device }: Pick<ExplainRequest, 'engine' | 'device'>,
): Promise<{ reader: Reader; policy: Answerer }> {
  const directory = findPolicy(path);
  const card = readCard(directory);
  if (!taskKind(card.kind).localises) {
    throw new ConfigError(
      `${path}: was taught to answer with ${taskKind(card.kind).answers}, not with intervals; explain needs a policy that finds anomalies`,
    );
  }
  const shape = figure(card.figure);
  const policy = await openAnswerer(directory, { engine, device, threads: cores() });
  const reader = policyReader(policy, card, {
    name: directory,
    reference: readReference(directory, policy.prompting.dims.width),
    confidence: readConfidence(directory),
    picture: (values) => pictureOf(shape, values),
  });
  return { reader, policy };
}

const NO_REFERENCE =
  'There is no record beside this policy of what it was taught, so neither how far a window is from that nor how sure it should be of an answer is known.';

/** Asks the policy about every column. */
async function ask(
  { columns }: ReportSource,
  reader: Reader,
  { window, overlap }: ExplainRequest,
): Promise<Omit<PolicyOpinion, 'columns'> & { readonly columns: readonly ColumnAnswers[] }> {
  const said: ColumnAnswers[] = [];
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
      said.push(await askColumn({ name, values, season }, reader, { window, overlap, onProgress }));
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
  checkOptions(request);
  const { file, columns, select } = request.detect;
  const out = request.out ?? defaultTarget(file, [...(select === undefined ? [] : [select]), ...columns]);
  checkTarget(out);
  const opened = request.policy === undefined ? null : await openReader(request.policy, request);
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
