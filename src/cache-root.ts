/** Where what can be made or fetched again is kept between runs, outside the project and node_modules. */
import { homedir } from 'node:os';
import { join, resolve } from 'node:path';
import { ConfigError } from './errors.ts';

function home(): string {
  try {
    return homedir();
  } catch (cause) {
    throw new ConfigError(
      'this user has no home directory; name a directory for the cache in TIMESEER_CACHE',
      {
        cause,
      },
    );
  }
}

/** `$TIMESEER_CACHE`, else `$XDG_CACHE_HOME/timeseer`, else `~/.cache/timeseer`. @throws ConfigError for a user without a home directory */
export function cacheRoot(env: NodeJS.ProcessEnv = process.env): string {
  const own = env['TIMESEER_CACHE'];
  if (own !== undefined && own !== '') return resolve(own);
  const shared = env['XDG_CACHE_HOME'];
  return join(shared !== undefined && shared !== '' ? resolve(shared) : join(home(), '.cache'), 'timeseer');
}
