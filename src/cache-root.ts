/** Where what can be made or fetched again is kept between runs, outside the project and node_modules. */
import { homedir } from 'node:os';
import { join, resolve } from 'node:path';

/** `$TIMESEER_CACHE`, else `$XDG_CACHE_HOME/timeseer`, else `~/.cache/timeseer`. */
export function cacheRoot(env: NodeJS.ProcessEnv = process.env): string {
  const own = env['TIMESEER_CACHE'];
  if (own !== undefined && own !== '') return resolve(own);
  const shared = env['XDG_CACHE_HOME'];
  return join(
    shared !== undefined && shared !== '' ? resolve(shared) : join(homedir(), '.cache'),
    'timeseer',
  );
}
