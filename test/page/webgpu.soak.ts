/** The page over WebGPU, which Chromium computes on the processor here, tens of times slower than WebAssembly. */
import { join } from 'node:path';
import { pathToFileURL } from 'node:url';
import { expect, test } from 'vitest';
import type { AnomalyReport } from '../../src/explain/schema.ts';
import { writeSite } from '../../src/page/site.ts';
import { findBrowser } from '../helpers/browser.ts';
import { BrowserSession } from '../helpers/browser-session.ts';
import { BUSY, START, saved } from '../helpers/page.ts';
import { temporary } from '../helpers/temporary.ts';

const place = temporary('webgpu');

const CSV = [
  'load',
  ...Array.from({ length: 300 }, (_, i) => (i === 170 ? 30 : Math.sin(i / 4) + (i % 3) / 9)),
];
const browser = findBrowser();

test.skipIf(browser === null)(
  'the policy answers alike over WebGPU and WebAssembly',
  { timeout: 600_000 },
  async () => {
    writeSite(place, { webgpu: true });
    const answers = async (webgpu: boolean): Promise<readonly string[]> => {
      const address = pathToFileURL(join(place, 'index.html')).href;
      const session = await BrowserSession.open(browser!, address, START, { webgpu });
      try {
        const adapter = await session.evaluate('navigator.gpu.requestAdapter().then(Boolean)');
        expect(adapter).toBe(webgpu);
        await session.evaluate(`(() => {
        document.getElementById('text').value = ${JSON.stringify(CSV.join('\n'))};
        document.getElementById('paste').requestSubmit();
      })()`);
        await session.until(`!(${BUSY})`, 300);
        const { policy } = JSON.parse(await saved(session, 'json')) as AnomalyReport;
        return policy!.columns.flatMap((column) => column.answers.map(({ response }) => response));
      } finally {
        await session.close();
      }
    };
    const there = await answers(true);
    expect(there.length).toBeGreaterThan(0);
    expect(there).toEqual(await answers(false));
  },
);
