/** Where the page and the JSON file of a report go: named, checked before any work is done, and written both or neither. */
import { existsSync, readFileSync, statSync } from 'node:fs';
import { basename, dirname, parse } from 'node:path';
import { ConfigError } from '../ground/errors.ts';
import { tidyUp, WriteError, writeFilesAtomic } from '../ground/files.ts';
import { toJson } from './formats.ts';
import { REPORT_SCHEMA, type ReportSource } from './report.ts';
import { type PageOptions, reportPage } from './report-page.ts';
import type { AnomalyReport } from './schema.ts';

/** Named after the file, and what of it is asked for: results of one file do not replace each other. */
export function defaultTarget(file: string, asked: readonly string[]): string {
  const safe = asked.map((name) => name.replace(/[^\p{L}\p{N}_-]+/gu, '_').slice(0, 40));
  return `${[parse(file).name, ...safe].join('.').slice(0, 80)}.explain`;
}

/** Whether a file is one that a report was written to. */
function isOurs(path: string): boolean {
  try {
    const text = readFileSync(path, 'utf8');
    if (path.endsWith('.html')) return text.includes('Written by timeseer.');
    const content: unknown = JSON.parse(text);
    return (
      typeof content === 'object' &&
      content !== null &&
      'schema' in content &&
      content.schema === REPORT_SCHEMA
    );
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
 * Refuses a place where nothing can be written, and to replace what no report was written to, before any work is done.
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
  tidyUp(dirname(out), (name) => name === `${basename(out)}.html` || name === `${basename(out)}.json`);
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

/** Writes `<out>.html` and `<out>.json`: both, or after a failure neither. Errors as `reportPage`; WriteError. */
export function writeReport(
  out: string,
  report: AnomalyReport,
  source: ReportSource,
  options: PageOptions = {},
): { readonly html: string; readonly json: string } {
  const text = reportPage(report, source, options);
  const files = { html: `${out}.html`, json: `${out}.json` };
  tidyUp(dirname(out), (name) => [files.html, files.json].some((file) => basename(file) === name));
  writeFilesAtomic([
    [files.html, text],
    [files.json, toJson(report)],
  ]);
  return files;
}
