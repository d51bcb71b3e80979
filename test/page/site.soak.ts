/** The page while the policy is opened, which takes a browser seconds, and beside wrong ones. */
import { afterAll, beforeAll, expect, test } from 'vitest';
import type { AnomalyReport } from '../../src/explain/schema.ts';
import { writeSite } from '../../src/page/site.ts';
import { findBrowser } from '../helpers/browser.ts';
import {
  besideWrongPolicy,
  CSV,
  drop,
  IN_REPORT,
  LOADED,
  type PolicyChange,
  ServedPage,
  saved,
  textOf,
} from '../helpers/page.ts';
import { temporary } from '../helpers/temporary.ts';

const site = temporary('page');
const browser = findBrowser();
let page: ServedPage;
beforeAll(async () => {
  writeSite(site);
  if (browser !== null) page = await ServedPage.open(browser, site);
});
afterAll(() => page?.close());

test.skipIf(browser === null).each<[string, PolicyChange]>([
  ['with damaged base64', (policy) => policy.replace(/wasm":"/, '$&*')],
  ['with nothing', () => 'globalThis.timeseerPolicy={};'],
])('beside a policy.js %s the detector answers alone, and a note says what to do', async (_, change) => {
  expect((await besideWrongPolicy(page, change)).policy).toBeUndefined();
});

test.skipIf(browser === null)(
  'while the policy is waited for, a report can be read, and be replaced or kept',
  {
    timeout: 180_000,
  },
  async () => {
    const { session } = page;
    // A short table of one column: few windows are asked about.
    const short = CSV.split('\n')
      .slice(100, 401)
      .map((row) => row.split(',').slice(0, 2).join());
    const data = JSON.stringify(['time,load', ...short].join('\n'));
    let send = (): void => {};
    const held = new Promise<void>((resolve) => {
      send = resolve;
    });
    await page.reload((policy) => held.then(() => policy));
    await drop(session, 'load.csv', `[${data}]`);
    await session.until(LOADED);
    await session.click('#cancel');
    expect(await textOf(session, 'status')).toBe('Cancelled: the answers of the policy were not waited for.');
    await drop(session, 'again.csv', `[${data}]`);
    // Not the report before, which stays in the frame until the file has been read and the frame is empty.
    const drawn = `document.getElementById('file').textContent === 'again.csv' && !document.getElementById('json').disabled`;
    await session.until(`${drawn} && ${LOADED}`);
    await session.evaluate(`${IN_REPORT}.dispatchEvent(new Event('pointerdown', { bubbles: true }))`);
    send();
    await session.until('!document.getElementById("update").hidden', 120);
    await session.click('#update');
    expect(await textOf(session, 'status')).toBe('Done.');
    expect(await session.evaluate('document.activeElement.id')).toBe('report');
    expect((JSON.parse(await saved(session, 'json')) as AnomalyReport).policy).toBeDefined();
  },
);
