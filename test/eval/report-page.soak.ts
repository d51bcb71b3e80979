import { mkdtempSync, readFileSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { beforeAll, describe, expect, test } from 'vitest';
import { type ReportInput, writeRunReport } from '../../eval/report.ts';
import { runReportPage } from '../../eval/report-page.ts';
import { findBrowser, loadPage } from '../helpers/browser.ts';
import { hostileReport, sampleReport } from '../helpers/report.ts';
import { writeRun } from '../helpers/run-directory.ts';

let input: ReportInput;
let hostile: ReportInput;
beforeAll(async () => {
  input = await sampleReport();
  hostile = hostileReport(input);
});

const browser = findBrowser();
if (browser === null)
  console.warn('No Chromium found: the pages are not looked at. Install one, or set CHROMIUM.');

describe.skipIf(browser === null)('in a headless browser (skipped where there is none)', () => {
  const look = (files: Readonly<Record<string, string>>, width?: number) =>
    loadPage(browser ?? '', files, width);

  test('a page that fails is noticed', () => {
    const { complaints } = look({ 'bad.html': '<script>throw new Error("thrown on purpose")</script>' });
    expect(complaints.join()).toContain('thrown on purpose');
  });

  test('the report draws every curve and figure without a complaint', () => {
    const { dom, complaints } = look({ 'report.html': runReportPage(input) });
    expect(complaints).toEqual([]);
    expect(dom).toContain('data-curves="drawn"');
    const panels = dom.split('class="curve js-plotly-plot"').slice(1);
    expect(panels).toHaveLength(input.curves.length);
    panels.forEach((panel, i) => {
      const lines = panel.match(/class="js-line"[^>]* d="M[^"]{20,}"/g) ?? [];
      expect(lines.length).toBeGreaterThanOrEqual(input.curves[i]!.curves.length);
    });
    expect(dom.match(/<article class="example">[\s\S]*?<svg role="img"[\s\S]*?<path/g)).toHaveLength(12);
  });

  test('the page that a run is given draws its curves without a complaint', async () => {
    const directory = mkdtempSync(join(tmpdir(), 'report-page-'));
    try {
      writeRun(directory, { series: 20 });
      await writeRunReport(directory);
      const { dom, complaints } = look({
        'report.html': readFileSync(join(directory, 'report.html'), 'utf8'),
      });
      expect(complaints).toEqual([]);
      expect(dom).toContain('data-curves="drawn"');
      expect(dom.match(/<article class="example">/g)).toHaveLength(12);
    } finally {
      rmSync(directory, { recursive: true, force: true });
    }
  });

  test('hostile text runs nothing', () => {
    const { dom, complaints } = look({ 'report.html': runReportPage(hostile) });
    expect(complaints).toEqual([]);
    expect(dom).toContain(`<title>${hostile.title}</title>`);
    expect(dom).not.toContain('<title>owned');
    expect(dom).toContain('data-curves="drawn"');
  });

  test('no page is wider than a screen of 400 or 1200 px, and a wide one would be noticed', () => {
    const files = {
      'report.html': runReportPage(input),
      'wide.html': '<div style="width:1300px">wide</div>',
    };
    const frames = [400, 1200].flatMap((width) =>
      Object.keys(files).map(
        (name) => `<iframe src="${name}" style="width:${width}px;height:1500px"></iframe>`,
      ),
    );
    const measure = `<script>onload = () => { document.body.dataset.fits = [...document.querySelectorAll('iframe')]
      .map((f) => f.contentDocument.documentElement).map((e) => e.scrollWidth <= e.clientWidth).join(); }</script>`;
    const { dom, complaints } = look({ 'frames.html': `<body>${frames.join('')}${measure}`, ...files });
    expect(complaints).toEqual([]);
    expect(dom).toContain('data-fits="true,false,true,false"');
  });
});
