/** Which files of a repository a pull fetches, and which names it refuses. */
import { ConfigError, EndpointError } from '../errors.ts';
import type { RemoteFile, RepoListing } from './hub.ts';
import { PULL_RECORD } from './record.ts';

/** Patterns in which `*` stands for any text, `/` included, and `?` for one character. */
export interface Choice {
  /** What to fetch, instead of what a policy needs. */
  readonly include?: readonly string[];
  /** What to leave out. */
  readonly exclude?: readonly string[];
}

/** Root files of a policy: configs, tokenizer, templates, weights with their index, licence, description. */
export function neededByPolicy(path: string): boolean {
  if (path.includes('/') || path.endsWith('.bin.index.json')) return false;
  return /^[^.].*\.(json|safetensors|jinja|txt|model)$|^(LICEN[CS]E|NOTICE|README)/i.test(path);
}

/**
 * Whether `path` fits a pattern in which `*` stands for any text, `?` for one character. A star takes as little as it can,
 * and only the last one is ever tried again, so that no path takes longer than its length times the pattern's.
 */
export function fits(path: string, pattern: string): boolean {
  const [text, wanted] = [[...path], [...pattern]];
  let [at, next] = [0, 0];
  let star = -1; // the last one in the pattern, and where its text ends
  let end = 0;
  while (at < text.length) {
    if (wanted[next] === '*') {
      star = next++;
      end = at;
    } else if (wanted[next] === '?' || wanted[next] === text[at]) {
      next++;
      at++;
    } else if (star >= 0) {
      next = star + 1;
      at = ++end;
    } else return false;
  }
  while (wanted[next] === '*') next++;
  return next === wanted.length;
}

/**
 * Refuses the names that could lead out of the directory, or to files that a pull keeps for itself.
 * @throws EndpointError
 */
export function checkPath(path: string, by: string): void {
  const parts = path.split('/');
  const bad =
    parts.some((part) => part === '' || part === '.' || part === '..') ||
    /[\\:\p{Cc}]/u.test(path) ||
    path === PULL_RECORD ||
    path.endsWith('.part');
  if (bad) {
    throw new EndpointError(
      `${by} lists a file called ${JSON.stringify(path)}, which could be written outside of the directory; nothing was ` +
        'fetched: do not trust this repository, or leave the file out with --exclude',
    );
  }
}

/**
 * The files of `listing` to fetch, in its order. `by` is the hub, for messages.
 * @throws ConfigError when nothing is chosen; EndpointError as `checkPath`
 */
export function choose(
  listing: RepoListing,
  by: string,
  { include = [], exclude = [] }: Choice,
): RemoteFile[] {
  const files = listing.files.filter(
    ({ path }) =>
      (include.length > 0 ? include.some((pattern) => fits(path, pattern)) : neededByPolicy(path)) &&
      !exclude.some((pattern) => fits(path, pattern)),
  );
  for (const { path } of files) checkPath(path, `${by}: ${listing.repo}`);
  if (files.length === 0) {
    const some = listing.files.slice(0, 8).map(({ path }) => path);
    throw new ConfigError(
      `${listing.repo}: none of its ${listing.files.length} files is chosen by --include and --exclude` +
        `${some.length === 0 ? '' : `; it has ${some.join(', ')}${listing.files.length > 8 ? ' …' : ''}`}`,
    );
  }
  return files;
}
