import { describe, expect, test } from 'vitest';
import { buildReport, type ReportSource } from '../../src/explain/report.ts';
import { reportPage } from '../../src/explain/report-page.ts';
import { context } from '../../src/explain/report-plot.ts';
import { host, longSource, requests } from '../helpers/anomalies.ts';
import { findBrowser } from '../helpers/browser.ts';
import { BrowserSession, type SessionOptions } from '../helpers/browser-session.ts';

const HOSTILE = `</script><img src=x onerror="document.title='owned'"><b>"&amp;`;

const pageOf = (source: ReportSource): string => reportPage(buildReport(source), source);

const browser = findBrowser();
if (browser === null)
  console.warn('No Chromium found: the report page is not used. Install one, or set CHROMIUM.');

describe.skipIf(browser === null)('the page in a browser (skipped where there is none)', () => {
  const open = (source: ReportSource, options?: SessionOptions): Promise<BrowserSession> =>
    BrowserSession.open(
      browser ?? '',
      pageOf(source),
      "document.documentElement.dataset.report === 'drawn'",
      options,
    );
  const view = (session: BrowserSession): Promise<string> =>
    session.evaluate('document.documentElement.dataset.view');
  const points = (session: BrowserSession): Promise<number> =>
    session.evaluate("document.getElementById('plot').data.reduce((sum, trace) => sum + trace.x.length, 0)");

  test('sees what a page asks for, and what it complains about', async () => {
    const bad =
      '<img src="http://example.org/x.png"><script>fetch("http://example.org/y"); throw new Error("on purpose")</script>';
    const session = await BrowserSession.open(browser ?? '', bad, "document.readyState === 'complete'");
    try {
      expect([...session.requests].sort()).toEqual(['http://example.org/x.png', 'http://example.org/y']);
      expect(session.complaints.join()).toContain('on purpose');
    } finally {
      await session.close();
    }
  });

  test('draws 100 000 points by fewer than 8000, and every sample around a finding', async () => {
    const session = await open(longSource());
    try {
      expect(await points(session)).toBeLessThan(8000);
      const spike = buildReport(longSource()).findings.find(({ start, end }) => end - start === 1)!;
      await session.evaluate(`document.querySelectorAll(".pick")[${spike.rank - 1}].click()`);
      expect(await points(session)).toBeLessThan(8000);
      const [from, to] = context(spike.start, spike.end, 100_000);
      const samples = await session.evaluate<number>(
        `(() => { const plot = document.getElementById('plot'); const [a, b] = plot._fullLayout.xaxis._rl.map(Number);
          return plot.data.find((trace) => trace.hovertemplate).x.filter((x) => x >= a && x <= b).length; })()`,
      );
      expect(samples).toBe(to - from);
      expect(session.complaints).toEqual([]);
    } finally {
      await session.close();
    }
  });

  test('draws no line across a gap in time or missing values, however many samples share a part of it', async () => {
    const { columns, ...rest } = requests();
    const first = rest.time![0]!;
    const time = rest.time!.map((_, i) => first + i * 300_000 + (i > 1500 ? 86_400_000 : 0));
    const values = columns[0]!.values.slice().fill(Number.NaN, 2000, 2050);
    const { detection } = columns[0]!;
    const findings = detection.findings.map((one) => ({ ...one, before: null })); // the values of earlier days are others now
    const session = await open({
      ...rest,
      time,
      columns: [{ ...columns[0]!, values, detection: { ...detection, findings } }],
    });
    try {
      const cuts = await session.evaluate<number[]>(
        `(() => { const {x, y} = document.getElementById('plot').data.find((trace) => trace.hovertemplate);
          return [...y.keys()].filter((i) => y[i] === null && y[i - 1] !== null).map((i) => x[i]); })()`,
      );
      expect(cuts).toHaveLength(2);
      expect(cuts[0]).toBe(time[1501]);
      expect(Math.abs(cuts[1]! - time[2000]!)).toBeLessThan(5 * 300_000);
    } finally {
      await session.close();
    }
  });

  test('shows hostile names as text in the plot and the list, in the dark too', async () => {
    const source = host();
    const columns = source.columns.map((column, c) => ({ ...column, name: `${c}${HOSTILE}` }));
    const session = await open({ ...source, file: HOSTILE, columns }, { dark: true });
    try {
      await session.evaluate('document.querySelectorAll(".pick")[1].click()');
      expect(await session.evaluate('document.title')).toContain('</script>');
      expect(await session.evaluate("document.querySelectorAll('img[src=x]').length")).toBe(0);
      expect(
        await session.evaluate("document.querySelector('#plot .annotation text').textContent"),
      ).toContain('</script><img src=x');
      expect(session.requests).toEqual([]);
      expect(session.complaints).toEqual([]);
      const ink = await session.evaluate<string>(
        "document.querySelector('#plot .annotation text').style.fill",
      );
      expect(ink).toBe('rgb(230, 232, 235)');
    } finally {
      await session.close();
    }
  });

  test('fits a screen of 390 px, of which the plot takes the width', async () => {
    const session = await open(host(), { width: 390, height: 844 });
    try {
      expect(await session.evaluate('document.documentElement.scrollWidth')).toBeLessThanOrEqual(390);
      expect(
        await session.evaluate("document.querySelector('#plot svg').getBoundingClientRect().width"),
      ).toBeGreaterThan(340);
      await session.click('.pick[data-target="1"]');
      expect(await view(session)).toBe('finding');
    } finally {
      await session.close();
    }
  });

  test('prints the list in full', async () => {
    const session = await open(requests());
    try {
      await session.send('Emulation.setEmulatedMedia', { media: 'print' });
      const shown =
        "[...document.querySelectorAll('.more')].every((one) => getComputedStyle(one).display !== 'none')";
      expect(await session.evaluate(shown)).toBe(true);
      expect(await session.evaluate("getComputedStyle(document.querySelector('.bar')).display")).toBe('none');
      const { data } = await session.send('Page.printToPDF', {});
      expect(
        Buffer.from(data as string, 'base64')
          .subarray(0, 5)
          .toString(),
      ).toBe('%PDF-');
    } finally {
      await session.close();
    }
  });
});
