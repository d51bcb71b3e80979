/** The page while the policy is opened, which takes a browser seconds. */
import { mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterAll, expect, test } from 'vitest';
import type { AnomalyReport } from '../../src/explain/schema.ts';
import { writeSite } from '../../src/page/site.ts';
import { findBrowser } from '../helpers/browser.ts';
import { CSV, drop, IN_REPORT, LOADED, ServedPage, saved, textOf } from '../helpers/page.ts';

const site = mkdtempSync(join(tmpdir(), 'timeseer-page-'));
afterAll(() => rmSync(site, { recursive: true, force: true }));
const browser = findBrowser();

test.skipIf(browser === null)(
  'while the policy is waited for, a report can be read, and be replaced or kept',
  {
    timeout: 180_000,
  },
  async () => {
    writeSite(site);
    const page = await ServedPage.open(browser!, site);
    const { session } = page;
    try {
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
      expect(await textOf(session, 'status')).toBe(
        'Cancelled: the answers of the policy were not waited for.',
      );
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
    } finally {
      await page.close();
    }
  },
);
