/** The package that this module belongs to, whether it runs from its sources or from dist. */
import { existsSync, readFileSync } from 'node:fs';
import { dirname, join } from 'node:path';
import { fileURLToPath } from 'node:url';

/** Directory of timeseer's package.json. */
export function packageRoot(): string {
  let directory = dirname(fileURLToPath(import.meta.url));
  while (!existsSync(join(directory, 'package.json')) && dirname(directory) !== directory) {
    directory = dirname(directory);
  }
  return directory;
}

/** Version in package.json. */
export function packageVersion(): string {
  const content: unknown = JSON.parse(readFileSync(join(packageRoot(), 'package.json'), 'utf8'));
  const version =
    typeof content === 'object' && content !== null && 'version' in content ? content.version : null;
  return typeof version === 'string' ? version : 'unknown';
}
