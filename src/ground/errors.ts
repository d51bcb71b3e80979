/**
 * All failures of timeseer, one type per boundary. The message says what, where, and how to fix. A response that cannot be used
 * is none of them: it is scored, and what is wrong with it stands in `ParsedAnswer.problem`.
 *
 *  DataError          a file or record that enters is wrong (file, line, column)
 *  ConfigError        a recipe, flag or run configuration is wrong (key, got, expected)
 *  CheckpointError    weights, tokenizer or run state on disk are missing, truncated or of another shape
 *  EngineError        an operator failed or was misused (operator, shapes, device), or no engine was found
 *  RewardError        a reward of the user throws, hangs, or returns something else than one finite number (function, file, response)
 *  AdvantageError     an advantage estimator of the user throws, or does not return one finite number per response (function, file, group)
 *  EndpointError      a server cannot be reached, refuses, or answers wrongly (address, status)
 */
import leven from 'leven';
import type { ZodError } from 'zod';

export class TimeseerError extends Error {
  constructor(message: string, options?: ErrorOptions) {
    super(message, options);
    this.name = new.target.name;
  }
}

export class DataError extends TimeseerError {
  /** The message without its place. */
  readonly problem: string;
  readonly file: string | undefined;
  readonly line: number | undefined;
  readonly column: number | undefined;
  constructor(message: string, at: { file?: string; line?: number; column?: number; cause?: unknown } = {}) {
    const place = [at.file, at.line, at.column].filter((part) => part !== undefined).join(':');
    super(place === '' ? message : `${place}: ${message}`, at.cause === undefined ? {} : { cause: at.cause });
    this.problem = message;
    this.file = at.file;
    this.line = at.line;
    this.column = at.column;
  }
}

export class ConfigError extends TimeseerError {}
export class CheckpointError extends TimeseerError {}
/** The message is the problem, then the fix where there is one. */
export class EngineError extends TimeseerError {
  readonly problem: string;
  /** Command or action that mends it. */
  readonly fix: string | undefined;

  constructor(problem: string, { fix, cause }: { readonly fix?: string; readonly cause?: unknown } = {}) {
    super(fix === undefined ? problem : `${problem}; ${fix}`, cause === undefined ? {} : { cause });
    this.problem = problem;
    this.fix = fix;
  }
}
export class RewardError extends TimeseerError {}
export class AdvantageError extends TimeseerError {}
/** A reward has no answer within its time, or its thread was ended. */
export class RewardTimeoutError extends RewardError {}
/** A server cannot be reached, refuses, or sends something else. The message is the problem, then the advice. */
export class EndpointError extends TimeseerError {
  readonly problem: string;
  readonly advice: string | undefined;

  constructor(
    problem: string,
    { advice, cause }: { readonly advice?: string; readonly cause?: unknown } = {},
  ) {
    super(advice === undefined ? problem : `${problem}; ${advice}`, cause === undefined ? {} : { cause });
    this.problem = problem;
    this.advice = advice;
  }
}

const REASONS: Readonly<Record<string, string>> = {
  ENOENT: 'no such file or directory',
  ENOTDIR: 'a part of the path is a file, not a directory',
  EISDIR: 'is a directory',
  EACCES: 'no permission',
  EPERM: 'no permission',
  ELOOP: 'the links lead in a circle',
  EEXIST: 'a file of that name is in the way',
  ENAMETOOLONG: 'the name is longer than the file system allows',
  EROFS: 'the file system is read-only',
  ENOSPC: 'the disk is full',
  EDQUOT: 'the disk quota is used up',
  EFBIG: 'larger than the file system or `ulimit -f` allows',
  EIO: 'the disk reports an error',
  EMFILE: 'this process has too many files open',
  ENFILE: 'the system has too many files open',
};

/** Returns true for a common system error code, whose cause can be put in words. */
export function isKnown(code: string | undefined): boolean {
  return code !== undefined && Object.hasOwn(REASONS, code);
}

/** Cause of a system error in words, without codes, calls and paths where the cause is common. */
export function reasonOf(cause: unknown): string {
  if (cause instanceof DataError && cause.file !== undefined)
    return cause.message.slice(cause.file.length + 2);
  const { code, message } = cause as NodeJS.ErrnoException;
  return (typeof code === 'string' ? REASONS[code] : undefined) ?? message ?? String(cause);
}

/** Describes the first fault that a schema found, by its key; for other errors their message. */
export function faultOf(error: unknown): string {
  const issue = error instanceof Error && 'issues' in error ? (error as ZodError).issues[0] : undefined;
  if (issue !== undefined) return `${issue.path.join('.') || 'all of it'}: ${issue.message}`;
  return error instanceof SyntaxError ? 'it is not JSON' : (error as Error).message;
}

/**
 * Finds the candidate closest to a misspelt `word`; undefined if none is close. The part after the last slash
 * also counts as a name, so that `trend` finds `anomllm/trend`.
 * @param furthest largest number of letters that differ; default 40 %, at least one
 */
export function closest(
  word: string,
  candidates: readonly string[],
  furthest = Math.max(1, word.length * 0.4),
): string | undefined {
  const plain = (text: string): string => text.toLowerCase().replaceAll(/[^a-z0-9]/g, '');
  const ranked = candidates
    .flatMap((candidate) =>
      [candidate, candidate.slice(candidate.lastIndexOf('/') + 1)].map((form) => ({
        candidate,
        distance: leven(plain(word), plain(form)),
      })),
    )
    .sort((a, b) => a.distance - b.distance);
  const best = ranked[0];
  return best !== undefined && best.distance <= furthest ? best.candidate : undefined;
}

/** ` Did you mean …?`, or nothing. */
export function suggestion(word: string, candidates: readonly string[]): string {
  const name = closest(word, candidates);
  return name === undefined ? '' : ` Did you mean ${name}?`;
}
