/** A headless Chromium, where the machine has one: loads a local page and says what it became. */
import { spawnSync } from 'node:child_process';
import { accessSync, constants, mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { delimiter, join } from 'node:path';

/** Path of the browser: the environment variable CHROMIUM, then the usual names on the PATH; null when there is none. */
export function findBrowser(): string | null {
  const names = ['chromium', 'chromium-browser', 'google-chrome', 'google-chrome-stable'];
  const folders = (process.env['PATH'] ?? '').split(delimiter).filter((folder) => folder !== '');
  const wanted = process.env['CHROMIUM'];
  const candidates = [
    ...(wanted === undefined ? [] : [wanted]),
    ...names.flatMap((name) => folders.map((folder) => join(folder, name))),
  ];
  const found = candidates.find((path) => {
    try {
      accessSync(path, constants.X_OK);
      return true;
    } catch {
      return false;
    }
  });
  return found ?? null;
}

export interface LoadedPage {
  /** The document after its scripts have run, as HTML. */
  readonly dom: string;
  /** Errors and warnings of the console: exceptions, refused loads, violations of the content-security policy. */
  readonly complaints: readonly string[];
}

/**
 * Writes `files` into an empty directory and loads the first one at `width` px. Files may read each other. Every
 * host name resolves to nothing, so a page that reaches for the network complains.
 */
export function loadPage(browser: string, files: Readonly<Record<string, string>>, width = 1200): LoadedPage {
  const directory = mkdtempSync(join(tmpdir(), 'page-'));
  try {
    for (const [name, text] of Object.entries(files)) writeFileSync(join(directory, name), text);
    const result = spawnSync(
      browser,
      [
        '--headless',
        '--no-sandbox',
        '--disable-gpu',
        '--disable-quic',
        '--no-first-run',
        '--disable-background-networking',
        '--disable-component-update',
        '--disable-sync',
        '--allow-file-access-from-files',
        '--host-resolver-rules=MAP * ~NOTFOUND',
        `--user-data-dir=${join(directory, 'profile')}`,
        `--window-size=${width},2000`,
        '--virtual-time-budget=10000',
        '--enable-logging=stderr',
        '--dump-dom',
        `file://${join(directory, Object.keys(files)[0]!)}`,
      ],
      { encoding: 'utf8', timeout: 50_000, maxBuffer: 64 * 1024 * 1024 },
    );
    if (result.status !== 0)
      throw new Error(`${browser} ended with ${result.status}: ${result.stderr.slice(-2000)}`);
    return {
      dom: result.stdout,
      complaints: result.stderr.split('\n').filter((line) => line.includes(':CONSOLE')),
    };
  } finally {
    rmSync(directory, { recursive: true, force: true, maxRetries: 5 });
  }
}
