/**
 * `eval.json` beside the records of an evaluation: what its answers depend on. It is written before the first record, and a resumed
 * evaluation must find the same: answers of two policies, or to two prompts, must not pass for those of one.
 */
import { existsSync, readdirSync, rmSync, statSync } from 'node:fs';
import { join } from 'node:path';
import { z } from 'zod';
import { ConfigError } from '../src/ground/errors.ts';
import { writeFileAtomic } from '../src/ground/files.ts';
import type { Json } from '../src/ground/types.ts';
import { readJson } from './records.ts';

export const EVAL_FILE = 'eval.json';
const ADVICE = 'give another directory with --out, or begin the evaluation anew with --force';

const shape = z.strictObject({
  format: z.literal('timeseer-evaluation'),
  version: z.literal(1),
  /** What answers depend on, by key. */
  settings: z.record(z.string(), z.json()),
  /** Seconds that were spent on answers, over all sessions. */
  seconds: z.number().nonnegative(),
});
export type EvalSettings = Readonly<Record<string, Json>>;

/** Files of an evaluation; an older version wrote some of them alone. */
const OWN = /^(?:records(?:\..+)?\.jsonl|metrics\.json|eval\.json|leaderboard\.(?:md|csv|html))$/;

/** Nested settings by dotted keys. */
function flat(value: Json, path: string): [string, string][] {
  if (value !== null && typeof value === 'object' && !Array.isArray(value)) {
    return Object.entries(value).flatMap(([key, inner]) => flat(inner, path === '' ? key : `${path}.${key}`));
  }
  return [[path, JSON.stringify(value)]];
}

/** Settings that differ, as "temperature (was 0, is 0.7)". */
export function differingSettings(was: EvalSettings, is: EvalSettings): string[] {
  const [before, now] = [was, is].map((one) => new Map(flat(one as Json, '')));
  const keys = new Set([...before!.keys(), ...now!.keys()]);
  const short = (text: string | undefined): string =>
    text === undefined ? 'nothing' : text.length > 40 ? `${text.slice(0, 37)}…` : text;
  return [...keys]
    .filter((key) => before!.get(key) !== now!.get(key))
    .map((key) => `${key} (was ${short(before!.get(key))}, is ${short(now!.get(key))})`);
}

/** How an evaluation begins in a directory: anew where nothing is, else as it was asked to. */
export interface Beginning {
  readonly resume: boolean;
  readonly force: boolean;
}

const visible = (directory: string): string[] =>
  readdirSync(directory).filter((name) => !name.startsWith('.'));

/** Whether a directory holds nothing but evaluations, one a directory: the policies of a task. */
function holdsEvaluations(directory: string): boolean {
  if (!statSync(directory).isDirectory()) return false;
  return visible(directory).every((name) => existsSync(join(directory, name, EVAL_FILE)));
}

/**
 * Checks a directory for results: new or empty, or with an evaluation that is to be resumed or removed. `several`: whether each
 * task and policy has a directory of its own in it.
 * @throws ConfigError where it is a file, holds other files, or an evaluation and neither was asked for
 */
export function checkResults(directory: string, { resume, force }: Beginning, several: boolean): void {
  if (!existsSync(directory)) return;
  const fail = (what: string): never => {
    throw new ConfigError(`${directory}: ${what}`);
  };
  if (!statSync(directory).isDirectory()) fail('is a file; give a directory with --out');
  const names = visible(directory);
  const strange = names.find(
    (name) => !OWN.test(name) && !(several && holdsEvaluations(join(directory, name))),
  );
  if (strange !== undefined) {
    fail(`holds ${strange}, which this evaluation did not write; give another directory with --out`);
  }
  if (several && names.includes(EVAL_FILE)) {
    fail('holds the evaluation of one policy on one task; give another directory with --out');
  }
  if (names.length === 0 || force || resume) return;
  fail(
    'holds an evaluation already; add --resume to go on with it, --force to begin it anew, or give another directory with --out',
  );
}

/**
 * Settings and time of the evaluation of a directory, null where there is none. `force` removes it.
 * @throws ConfigError naming the settings that are others now; DataError for a damaged file
 */
export function openManifest(
  directory: string,
  settings: EvalSettings,
  { force }: Beginning,
): { readonly seconds: number } | null {
  const file = join(directory, EVAL_FILE);
  if (force && existsSync(directory)) {
    for (const name of readdirSync(directory)) if (OWN.test(name)) rmSync(join(directory, name));
  }
  if (!existsSync(file)) {
    const left = existsSync(directory)
      ? readdirSync(directory).find((name) => /^records/.test(name))
      : undefined;
    if (left === undefined) return null;
    throw new ConfigError(
      `${directory}: holds ${left} without ${EVAL_FILE}, so that it is not known what was asked; ${ADVICE}`,
    );
  }
  const found = readJson(file, shape, ADVICE);
  const differing = differingSettings(found.settings as EvalSettings, settings);
  if (differing.length === 0) return { seconds: found.seconds };
  throw new ConfigError(
    `${directory}: the evaluation there has other settings: ${differing.join(', ')}; ${ADVICE}`,
  );
}

/** Writes the manifest. */
export function writeManifest(directory: string, settings: EvalSettings, seconds: number): void {
  const content = { format: 'timeseer-evaluation', version: 1, settings, seconds };
  writeFileAtomic(join(directory, EVAL_FILE), `${JSON.stringify(content, null, 2)}\n`);
}
