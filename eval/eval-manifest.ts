/**
 * `eval.json` beside the records of an evaluation: the settings that its answers depend on. It is written before the first record,
 * and resuming requires equal settings, so that answers of two policies, or to two prompts, never mix.
 */
import { existsSync, readdirSync, rmdirSync, rmSync, statSync } from 'node:fs';
import { join } from 'node:path';
import { z } from 'zod';
import { ConfigError } from '../src/ground/errors.ts';
import { tidyUp, writeJson } from '../src/ground/files.ts';
import { readJson } from '../src/ground/json-files.ts';
import { leavesOf } from '../src/ground/json-record.ts';
import type { Json } from '../src/ground/types.ts';

const EVAL_FILE = 'eval.json';
const ADVICE = 'choose another directory with --out, or start over with --force';

const shape = z.strictObject({
  format: z.literal('timeseer-evaluation'),
  version: z.literal(1),
  /** Settings that the answers depend on, by key. */
  settings: z.record(z.string(), z.json()),
  /** Seconds spent on answers, over all sessions. */
  seconds: z.number().nonnegative(),
  /** Digest of the code that parsed and graded all of them; absent in evaluations before 2026-12. */
  code: z.string().optional(),
});
type EvalSettings = Readonly<Record<string, Json>>;

/** Names of the files that an evaluation writes. */
const WRITTEN = /^(?:records(?:\..+)?\.jsonl|metrics\.json|eval\.json|leaderboard\.(?:md|csv|html))$/;

/** Directory, among the results of an evaluation, of the responses from changed reasonings: an evaluation of its own. */
export const INTERVENTIONS_DIRECTORY = 'interventions';

/** Lists the settings that differ, e.g. "temperature (was 0, is 0.7)". */
function differingSettings(was: EvalSettings, is: EvalSettings): string[] {
  const [before, now] = [was, is].map(
    (settings) => new Map(leavesOf(settings).map(([key, value]) => [key, JSON.stringify(value)])),
  );
  const keys = new Set([...before!.keys(), ...now!.keys()]);
  const short = (text: string | undefined): string =>
    text === undefined ? 'nothing' : text.length > 40 ? `${text.slice(0, 37)}…` : text;
  return [...keys]
    .filter((key) => before!.get(key) !== now!.get(key))
    .map((key) => `${key} (was ${short(before!.get(key))}, is ${short(now!.get(key))})`);
}

/** Request to resume the evaluation in a directory, or to replace it; with neither, the directory must hold none. */
export interface Beginning {
  readonly resume: boolean;
  readonly force: boolean;
}

const visible = (directory: string): string[] =>
  readdirSync(directory).filter((name) => !name.startsWith('.'));

/** Returns true for a directory with an evaluation, false for an empty one, and null where it holds anything else. */
function writtenTo(directory: string): boolean | null {
  if (!statSync(directory).isDirectory()) return null;
  const names = visible(directory);
  // Killed before its first answer, an evaluation leaves an empty directory.
  if (names.length === 0) return false;
  return names.includes(EVAL_FILE) ? true : null;
}

/**
 * Checks the directory for results: absent, empty, or with an evaluation that is to be resumed or replaced. `several`: each task has
 * a directory in it, and in that each policy.
 * @throws ConfigError when it is a file, holds other files, or holds an evaluation and neither was requested
 */
export function checkResults(directory: string, { resume, force }: Beginning, several: boolean): void {
  if (!existsSync(directory)) return;
  const fail = (problem: string): never => {
    throw new ConfigError(`${directory}: ${problem}`);
  };
  if (!statSync(directory).isDirectory()) fail('is a file; choose a directory with --out');
  tidyUp(directory, (name) => WRITTEN.test(name));
  const names = visible(directory);
  let started = false;
  for (const name of names) {
    const path = join(directory, name);
    const cells =
      several && statSync(path).isDirectory()
        ? visible(path).map((cell) => writtenTo(join(path, cell)))
        : null;
    if (!several && name === INTERVENTIONS_DIRECTORY && writtenTo(path) === null) {
      fail(
        `${name} is no evaluation (${EVAL_FILE} is missing there, or it is a file); remove it to measure interventions again`,
      );
    }
    const own =
      WRITTEN.test(name) || (!several && name === INTERVENTIONS_DIRECTORY && writtenTo(path) !== null);
    if (own || cells?.includes(true)) started = true;
    if (own || (cells !== null && !cells.includes(null))) continue;
    fail(`holds ${name}, which is not part of an evaluation; choose another directory with --out`);
  }
  if (several && names.includes(EVAL_FILE)) {
    fail('holds the evaluation of one policy on one task; choose another directory with --out');
  }
  if (!started || force || resume) return;
  fail(
    'holds an evaluation; add --resume to continue it, --force to start over, or choose another directory with --out',
  );
}

/**
 * Reads the time spent on the evaluation in a directory, and the code that graded it; null when there is none. `force` removes it first.
 * @throws ConfigError naming the settings that differ now; DataError for a damaged file
 */
export function openManifest(
  directory: string,
  settings: EvalSettings,
  { force }: Beginning,
): { readonly seconds: number; readonly code: string | undefined } | null {
  const file = join(directory, EVAL_FILE);
  tidyUp(directory, (name) => WRITTEN.test(name));
  if (force && existsSync(directory)) {
    for (const name of readdirSync(directory)) if (WRITTEN.test(name)) rmSync(join(directory, name));
    const interventions = join(directory, INTERVENTIONS_DIRECTORY);
    if (existsSync(interventions) && writtenTo(interventions) === true) {
      for (const name of readdirSync(interventions))
        if (WRITTEN.test(name)) rmSync(join(interventions, name));
      if (readdirSync(interventions).length === 0) rmdirSync(interventions);
    }
  }
  if (!existsSync(file)) {
    const records = existsSync(directory)
      ? readdirSync(directory).find((name) => /^records/.test(name))
      : undefined;
    if (records === undefined) return null;
    throw new ConfigError(
      `${directory}: holds ${records} without ${EVAL_FILE}, so the settings of its answers are unknown; ${ADVICE}`,
    );
  }
  const manifest = readJson(file, shape, ADVICE);
  const differing = differingSettings(manifest.settings as EvalSettings, settings);
  if (differing.length === 0) return { seconds: manifest.seconds, code: manifest.code };
  throw new ConfigError(
    `${directory}: the evaluation there has other settings: ${differing.join(', ')}; ${ADVICE}`,
  );
}

export function writeManifest(
  directory: string,
  settings: EvalSettings,
  { seconds, code }: { readonly seconds: number; readonly code: string | undefined },
): void {
  const content = { format: 'timeseer-evaluation', version: 1, settings, seconds, code };
  writeJson(join(directory, EVAL_FILE), content);
}
