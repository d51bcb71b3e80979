/**
 * Kills stages of the command line, resumes them, and compares all that they leave with what an unbroken run leaves, byte for byte.
 *
 *     npx tsx test/kill/run.ts --kills 200          # sft, train and quickstart; about 3 s a kill on two quiet cores
 *
 * runs many; `npm run build` comes before. The suite runs a few (kill.test.ts).
 */
import { existsSync, readdirSync, readFileSync, statSync } from 'node:fs';
import { join } from 'node:path';
import { setTimeout as sleep } from 'node:timers/promises';
import { pathToFileURL } from 'node:url';
import { readEvents } from '../helpers/event-file.ts';
import { Child, type Ending } from '../helpers/tiny-run.ts';

export const PRELOAD = pathToFileURL(join(import.meta.dirname, 'kill-at.mjs')).href;

/** When a process is killed: milliseconds after it started, or at a call as kill-at.mjs has it. */
export type Kill = number | string;

/** A command that begins something in `out`, and goes on with it. */
export interface Stage {
  readonly begin: readonly string[];
  readonly resume: readonly string[];
  readonly out: string;
}

/** Runs a command line with kill-at.mjs loaded. */
export async function attempt(
  args: readonly string[],
  kill?: Kill,
  env: NodeJS.ProcessEnv = {},
): Promise<Ending> {
  const child = new Child(args, undefined, {
    NODE_OPTIONS: `--import ${PRELOAD}`,
    ...(typeof kill === 'string' ? { KILL_AT: kill } : {}),
    ...env,
  });
  if (typeof kill === 'number') {
    await Promise.race([sleep(kill), child.ended]);
    child.process.kill('SIGKILL');
  }
  return child.ended;
}

/** Whether something was begun that can be gone on with; what had not come so far is begun again. */
export const begun = ({ out }: Stage): boolean => existsSync(join(out, 'recipe.json'));

/**
 * Goes through a stage with one kill after the other, then to its end; returns how many of them came before the end.
 * @throws Error with what the stage said when it did not come to its end
 */
export async function broken(
  stage: Stage,
  kills: readonly Kill[],
  env: NodeJS.ProcessEnv = {},
): Promise<number> {
  let killed = 0;
  let begins = stage.begin;
  for (const kill of [...kills, undefined]) {
    const { code, err } = await attempt(begins, kill, env);
    if (code === null) killed++;
    else if (code !== 0)
      throw new Error(`${begins.join(' ')} ended with ${code} after ${killed} kills: ${err}`);
    else if (kill !== undefined) return killed;
    begins = begun(stage) ? stage.resume : stage.begin;
  }
  return killed;
}

/** Files that hold what a clock measured. */
const CLOCKED = /^(?:environment|eval)\.json$|\bstage\.json$|^report\.(html|json)$|^summary\.json$/;

/** The event file of a stage has the time at which it began in its name. */
const EVENTS = /events\.out\.tfevents\.\d+\.timeseer$/;

/** What must be the same of a file. */
function essence(name: string, file: string): string {
  if (EVENTS.test(file)) {
    const events = readEvents(file).flatMap(({ step, scalars }) =>
      scalars === null ? [] : { step, scalars },
    );
    // An evaluation ends some time after its step.
    const isEvaluation = (scalars: object): number => Number('eval/reward' in scalars);
    events.sort((a, b) => a.step - b.step || isEvaluation(a.scalars) - isEvaluation(b.scalars));
    return JSON.stringify(events, (tag, value) => (tag.startsWith('time_ms/') ? undefined : value));
  }
  const text = readFileSync(file, 'latin1');
  if (name === 'recipe.json') return JSON.stringify({ ...JSON.parse(text), command: '' });
  if (!name.endsWith('metrics.jsonl')) return text;
  return text.replace(/"ms":\{[^}]*\}/g, '').replace(/"time":[\d.]+/g, '');
}

/** Paths of the files in a directory, by what they are called whenever they are written. */
function files(directory: string): Map<string, string> {
  const names = readdirSync(directory, { recursive: true })
    .map(String)
    .filter((name) => !statSync(join(directory, name)).isDirectory());
  return new Map(names.map((name) => [name.replace(EVENTS, 'events'), join(directory, name)]));
}

/** Names of files in which two runs differ, or that only one of them has. */
export function differences(whole: string, other: string): string[] {
  const [a, b] = [files(whole), files(other)];
  return [...new Set([...a.keys(), ...b.keys()])].sort().filter((name) => {
    const [one, two] = [a.get(name), b.get(name)];
    if (one === undefined || two === undefined) return true;
    return !CLOCKED.test(name) && essence(name, one) !== essence(name, two);
  });
}
