/** Explains a CSV file with a policy, or with the classical analyses alone: opens both, and writes page and JSON. */
import { existsSync, readFileSync, statSync } from 'node:fs';
import { basename, dirname, parse } from 'node:path';
import { performance } from 'node:perf_hooks';
import { readSeriesCsv } from '../../datasets/readers/csv.ts';
import { ConfigError } from '../errors.ts';
import { type ExplainSource, explain } from '../explain/explain.ts';
import { type Explanation, writeExplanation } from '../explain/page.ts';
import { policyReader, type Reader } from '../explain/reader.ts';
import { REPORT_SCHEMA } from '../explain/report.ts';
import { WriteError } from '../files.ts';
import { cores } from '../machine.ts';
import { packageVersion } from '../paths.ts';
import { figure } from '../plot/figure.ts';
import { Policy } from '../policy/policy.ts';
import { Progress } from '../progress.ts';
import { readCard } from '../tasks/card.ts';
import { taskKind } from '../tasks/kinds.ts';
import { openEngine } from './engine.ts';
import { findPolicy } from './run-policy.ts';
import { pictureOf } from './task.ts';

export interface ExplainRequest {
  readonly file: string;
  readonly policy: string | undefined;
  readonly column: string | undefined;
  readonly out: string | undefined;
  readonly device: string | undefined;
  readonly window: number | undefined;
  readonly overlap: number;
}

/** Named after the file, and the column where one is asked for: columns of one file do not replace each other. */
function defaultTarget(file: string, column: string | undefined): string {
  const safe = column?.replace(/[^\p{L}\p{N}_-]+/gu, '_').slice(0, 40);
  return `${parse(file).name}${safe === undefined ? '' : `.${safe}`}.explain`;
}

/** Whether a file is one that this command wrote. */
function isOurs(path: string): boolean {
  try {
    const text = readFileSync(path, 'utf8');
    if (path.endsWith('.html')) return text.includes('Written by timeseer.');
    const content: unknown = JSON.parse(text);
    if (typeof content !== 'object' || content === null) return false;
    if ('schema' in content) return content.schema === REPORT_SCHEMA;
    return 'classical' in content && 'windows' in content;
  } catch {
    return false;
  }
}

/** Bytes of a name: file systems allow 255, of which temporary names beside the result need some 50. */
const LONGEST_NAME = 200;

/** The nearest directory above a path that is there already, or the file that stands in its place. */
function standing(path: string): string {
  const parent = dirname(path);
  return existsSync(parent) || parent === path ? parent : standing(parent);
}

/**
 * Refuses a place where nothing can be written, and to replace what this command did not write, before any work is done.
 * @throws WriteError; ConfigError
 */
export function checkTarget(out: string): void {
  if (Buffer.byteLength(basename(out)) > LONGEST_NAME) {
    throw new WriteError(
      `--out: the name ${basename(out).slice(0, 40)}\u2026 is longer than ${LONGEST_NAME} bytes; choose a shorter one with --out`,
    );
  }
  const above = standing(out);
  if (existsSync(above) && !statSync(above).isDirectory()) {
    throw new WriteError(
      `--out ${out}: ${above} is a file, not a directory; choose another place with --out`,
    );
  }
  for (const path of [`${out}.html`, `${out}.json`]) {
    if (!existsSync(path)) continue;
    if (!statSync(path).isFile())
      throw new ConfigError(`--out ${out}: ${path} is a directory; choose another`);
    if (!isOurs(path)) {
      throw new ConfigError(
        `--out ${out}: ${path} is there and was not written by this command, so it is kept; choose another --out`,
      );
    }
  }
}

/** More samples than any file that can be read has. */
const LONGEST_WINDOW = 500_000_000;

function checkOptions({ window, overlap, policy, device }: ExplainRequest): void {
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

function readSource(args: ExplainRequest): ExplainSource {
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
  const policy = Policy.load(openEngine(device, cores()), directory);
  const reader = policyReader(policy, card, {
    name: directory,
    picture: (values) => pictureOf(shape, values),
  });
  return { reader, policy };
}

/** What was found, and where it was written. */
export interface Explained {
  readonly found: Explanation;
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
  const source = readSource(request);
  const out = request.out ?? defaultTarget(request.file, request.column);
  checkTarget(out);
  const opened = request.policy === undefined ? null : openReader(request.policy, request.device ?? 'cpu');
  let progress: Progress | undefined;
  try {
    const found = await explain(source, opened?.reader ?? null, {
      ...(request.window === undefined ? {} : { window: request.window }),
      overlap: request.overlap,
      onProgress: (done, total) => {
        progress ??= new Progress({ label: 'explain', total, unit: 'windows' });
        progress.update(done);
      },
      environment: { timeseer: packageVersion(), node: process.version },
    });
    progress?.stop();
    const files = writeExplanation(out, found);
    return { found, files, seconds: (performance.now() - started) / 1000 };
  } finally {
    progress?.stop();
    opened?.policy.dispose();
  }
}
