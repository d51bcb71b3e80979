/**
 * The page that explains CSV files in a browser: npm run bench -- page [--json]
 *
 * In headless Chromium, from a file: first paint; an example of 10 000 samples with the policy, at once and after the policy was opened
 * while its user looked for a file; 100 000 samples by the detector, and the longest time in which the page itself did not react. Wall time
 * beside processor time of all of Chromium's processes, because the machine may be shared. Needs `npm run build`.
 */
import { mkdtempSync, readdirSync, readFileSync, rmSync } from 'node:fs';
import { loadavg, tmpdir } from 'node:os';
import { join } from 'node:path';
import { pathToFileURL } from 'node:url';
import { parseArgs } from 'node:util';
import { writeSite } from '../../src/page/site.ts';
import { findBrowser } from '../helpers/browser.ts';
import { BrowserSession } from '../helpers/browser-session.ts';

const { values: args } = parseArgs({
  options: { json: { type: 'boolean', default: false } },
  allowPositionals: true,
  strict: false,
});
const browser = findBrowser();
if (browser === null) throw new Error('no Chromium here: apt install chromium, or name it in CHROMIUM');
const place = mkdtempSync(join(tmpdir(), 'page-bench-'));
const files = writeSite(join(place, 'site'));
const address = pathToFileURL(join(place, 'site/index.html')).href;

/** Processor seconds so far of the browsers of sessions (Linux; USER_HZ is 100). */
function processorSeconds(): number {
  let ticks = 0;
  for (const id of readdirSync('/proc').filter((name) => /^\d+$/.test(name))) {
    try {
      if (!readFileSync(`/proc/${id}/cmdline`, 'utf8').includes(join(tmpdir(), 'session-'))) continue;
      const fields = readFileSync(`/proc/${id}/stat`, 'utf8').split(') ')[1]!.split(' ');
      ticks += Number(fields[11]) + Number(fields[12]);
    } catch {
      // it has ended
    }
  }
  return ticks / 100;
}

/** Seconds, processor seconds, and longest time in ms without reaction, from an action to the end of the work. */
async function measured(session: BrowserSession, action: string): Promise<Readonly<Record<string, number>>> {
  const before = processorSeconds();
  const [seconds, still] = await session.evaluate<[number, number]>(`(async () => {
    const began = performance.now();
    let [last, still] = [began, 0];
    ${action};
    do {
      await new Promise((done) => setTimeout(done, 10));
      still = Math.max(still, performance.now() - last - 10);
      last = performance.now();
    } while ('busy' in document.body.dataset);
    return [(performance.now() - began) / 1000, still];
  })()`);
  return { seconds, processorSeconds: processorSeconds() - before, stillMs: still };
}

/** Opens the page and leaves it alone for a while. */
async function opened(waitMs: number): Promise<BrowserSession> {
  const session = await BrowserSession.open(browser!, address, 'document.body?.dataset.view === "start"');
  if (waitMs > 0) await new Promise((done) => setTimeout(done, waitMs));
  return session;
}

const EXAMPLE = 'document.querySelector("[data-example=cold]").click()';
/** A day of 1440 samples with noise, and a level that is twice as high for an hour. */
const LONG = `
  document.getElementById('ask').checked = false;
  const rows = Array.from({ length: 100000 }, (_, i) => new Date(Date.UTC(2025, 0, 1) + 60000 * i).toISOString() + ',' +
    (100 + 30 * Math.sin(i / 229.2) + (Math.imul(i, 2654435761) >>> 20) / 400 + (i > 80000 && i < 80060 ? 100 : 0)).toFixed(2));
  document.getElementById('text').value = 'time,v\\n' + rows.join('\\n');
  await new Promise((done) => setTimeout(done, 100));
  last = performance.now();
  document.querySelector('#paste button').click()`;

const result: Record<string, unknown> = {
  ...{ load: loadavg()[0], bytes: files.reduce((sum, { bytes }) => sum + bytes, 0) },
};
for (const [name, wait, action] of [
  ['10 000 samples with the policy, at once', 0, EXAMPLE],
  ['10 000 samples with the policy, opened before', 10_000, EXAMPLE],
  ['100 000 samples, detector alone', 10_000, LONG],
] as const) {
  const session = await opened(wait);
  try {
    result['firstPaintMs'] ??= await session.evaluate(
      'performance.getEntriesByName("first-contentful-paint")[0].startTime',
    );
    result[name] = await measured(session, action);
  } finally {
    await session.close();
  }
}
rmSync(place, { recursive: true, force: true });
if (args.json) console.log(JSON.stringify(result));
else console.dir(result);
process.exit(0);
