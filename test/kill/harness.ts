/**
 * Kills stages of the command line, resumes them, and compares all files that they leave with those of an unbroken run, byte for byte.
 *
 * `npm run soak` runs them (*.soak.ts, and random ones by run.ts).
 */
import { cpSync, existsSync, readdirSync, readFileSync, statSync } from 'node:fs';
import { join } from 'node:path';
import { setTimeout as sleep } from 'node:timers/promises';
import { pathToFileURL } from 'node:url';
import { readEvents } from '../helpers/event-file.ts';
import { childrenOf, isAlive, isRank } from '../helpers/ranks.ts';
import { Child, type Ending, writeTinyPolicy, writeTinyRecipe } from '../helpers/tiny-run.ts';

export const PRELOAD = pathToFileURL(join(import.meta.dirname, 'kill-at.mjs')).href;

/** A signal to one of the processes that share the work of a command, milliseconds after it started. */
interface RankKill {
  readonly after: number;
  readonly rank: number;
  readonly signal: 'SIGKILL' | 'SIGSTOP';
}

/** When a process is killed: milliseconds after it started, or at a call as kill-at.mjs has it. */
export type Kill = number | string | RankKill;

/** Longest silence of a rank in these runs, in seconds; and the time in which all have to be gone, in milliseconds. */
const SILENCE_S = 10;
const GONE_MS = 40_000;
/** Exit code of a job whose rank was lost. */
const RANK_LOST = 3;

/** Command lines that begin something in `out`, and resume it. */
export interface Stage {
  readonly begin: readonly string[];
  readonly resume: readonly string[];
  readonly out: string;
}

/** Unbroken tiny runs, and the stages that are killed and compared with them. */
export interface TinyRuns {
  readonly recipe: string;
  /** Run after its supervised stage, and after reinforcement. */
  readonly half: string;
  readonly whole: string;
  /** Supervised stage in `out`. */
  sft(out: string): Stage;
  /** Reinforcement in `out`, a copy of `half`. */
  rl(out: string): Stage;
}

/** Makes the unbroken runs inside `directory`; `run` runs a command line and must throw if it fails. */
export async function makeTinyRuns(
  directory: string,
  run: (...args: string[]) => Promise<unknown>,
): Promise<TinyRuns> {
  const [recipe, half, whole] = ['tiny.yaml', 'half', 'whole'].map((name) => join(directory, name)) as [
    string,
    string,
    string,
  ];
  const sft = (out: string): Stage => ({
    out,
    begin: ['sft', '--recipe', recipe, '--set', 'sft.samples=80', '--quiet', '--out', out],
    resume: ['sft', '--out', out, '--resume', '--quiet'],
  });
  const rl = (out: string): Stage => ({
    out,
    begin: ['train', '--out', out, '--quiet'],
    resume: ['train', '--out', out, '--resume', '--quiet'],
  });
  writeTinyPolicy(join(directory, 'policy'));
  writeTinyRecipe(recipe, join(directory, 'policy'), 2);
  await run(...sft(whole).begin);
  cpSync(whole, half, { recursive: true });
  await run(...rl(whole).begin);
  return { recipe, half, whole, sft, rl };
}

/** Runs a command line with kill-at.mjs loaded. */
export async function attempt(
  args: readonly string[],
  kill?: Kill,
  env: NodeJS.ProcessEnv = {},
): Promise<Ending> {
  const child = new Child(args, undefined, {
    NODE_OPTIONS: `--import ${PRELOAD}`,
    ...(typeof kill === 'object' ? { TIMESEER_RANK_TIMEOUT: `${SILENCE_S}` } : {}),
    ...(typeof kill === 'string' ? { KILL_AT: kill } : {}),
    ...env,
  });
  if (typeof kill === 'object') return rankKilled(child, kill);
  if (typeof kill === 'number') {
    await Promise.race([sleep(kill), child.ended]);
    child.process.kill('SIGKILL');
  }
  return child.ended;
}

/** Sends a rank its signal; the ending of rank 0. @throws Error when a process is left over */
async function rankKilled(child: Child, { after, rank, signal }: RankKill): Promise<Ending> {
  const leader = child.process.pid!;
  await Promise.race([sleep(after), child.ended]);
  // A signal before there are other ranks would test nothing.
  const ranksNow = (): number[] => childrenOf(leader).filter(isRank);
  while (ranksNow().length < Math.max(1, rank) && isAlive(leader)) await sleep(20);
  const before = childrenOf(leader);
  const victim = rank === 0 ? leader : (ranksNow()[rank - 1] ?? leader);
  if (isAlive(victim)) process.kill(victim, signal);
  // One may have been started meanwhile; a leader that is gone has none any more.
  const others = [...new Set([...before, ...childrenOf(leader)])];
  const deadline = Date.now() + GONE_MS;
  const left = (pids: readonly number[]): readonly number[] => pids.filter(isAlive);
  while (left(others).length > 0 && Date.now() < deadline) await sleep(50);
  // A leader that was stopped learns what happened when it goes on.
  if (victim === leader && signal === 'SIGSTOP' && isAlive(leader)) process.kill(leader, 'SIGCONT');
  await Promise.race([sleep(Math.max(0, deadline - Date.now())), child.ended]);
  const all = left([leader, ...others]);
  for (const pid of all) process.kill(pid, 'SIGKILL');
  if (all.length > 0) {
    throw new Error(`${all.length} processes were left ${GONE_MS / 1000} s after ${signal} of rank ${rank}`);
  }
  return child.ended;
}

/** True once the stage has begun something that can be resumed; before that, it is begun again. */
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
    if (code === null || (code === RANK_LOST && typeof kill === 'object')) killed++;
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

/** Content of a file without what may differ between two runs. */
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

/** Paths of the files in a directory, by names that do not depend on when they were written. */
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
    const [first, second] = [a.get(name), b.get(name)];
    if (first === undefined || second === undefined) return true;
    return !CLOCKED.test(name) && essence(name, first) !== essence(name, second);
  });
}
