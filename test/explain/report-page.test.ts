import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import { say } from '../../src/detect/sentence.ts';
import { policyStatement } from '../../src/explain/policy-words.ts';
import { buildReport, type ReportSource } from '../../src/explain/report.ts';
import { reportPage } from '../../src/explain/report-page.ts';
import {
  axisPlaces,
  breaksOf,
  context,
  encodeNumbers,
  evenStep,
  keptSamples,
} from '../../src/explain/report-plot.ts';
import { host, longSource, requests, sampleColumn, sampleSource } from '../helpers/anomalies.ts';
import { findBrowser } from '../helpers/browser.ts';
import { BrowserSession, type SessionOptions } from '../helpers/browser-session.ts';

const HOSTILE = `</script><img src=x onerror="document.title='owned'"><b>"&amp;`;

const pageOf = (source: ReportSource): string => reportPage(buildReport(source), source);

/** Every host a page names as something to load. */
const loads = (text: string): string[] =>
  [
    ...text
      .replace(/<script[\s\S]*?<\/script>/g, '')
      .matchAll(/(?:src|href|action)="(?!data:,")[^"]*"|url\([^)]*\)|@import/g),
  ].map(([all]) => all);

describe('the samples in a page', () => {
  const source = longSource();
  const column = source.columns[0]!;

  test('are all of a short recording, and of a long one the extremes, with every finding in full', () => {
    expect(keptSamples(column, [], 100_000)).toHaveLength(100_000);
    const stretches = column.detection.findings.map(({ start, end }) => [start, end] as const);
    const kept = keptSamples(column, stretches, 40_000);
    expect(kept.length).toBeLessThan(42_000);
    expect([...kept].every((index, k) => k === 0 || index > kept[k - 1]!)).toBe(true);
    const there = new Set(kept);
    const spike = column.detection.findings.find(({ start, end }) => end - start === 1)!;
    for (let i = spike.start - 50; i < spike.end + 50; i++) expect(there.has(i)).toBe(true);
    for (const extreme of [Math.min(...column.values), Math.max(...column.values)]) {
      expect(there.has(column.values.indexOf(extreme))).toBe(true);
    }
  });

  test('lie in a window of three times the length of a finding to either side, at least 50', () => {
    expect(context(1000, 1001, 5000)).toEqual([950, 1051]);
    expect(context(1000, 1100, 5000)).toEqual([700, 1400]);
    expect(context(10, 100, 200)).toEqual([0, 200]);
  });

  test('keep their digits beside a large offset, and magnitudes beyond float32', () => {
    const decoded = (values: number[]): number[] => {
      const { base, scale, data } = encodeNumbers(Float64Array.from(values));
      const bytes = Buffer.from(data, 'base64');
      return values.map((_, i) => base + scale * bytes.readFloatLE(4 * i));
    };
    decoded([1.7e9, 1.7e9 + 1, 1.7e9 + 7]).forEach((value, i) => {
      expect(value).toBeCloseTo([1.7e9, 1.7e9 + 1, 1.7e9 + 7][i]!, 4);
    });
    expect(decoded([1e300, -3e299])[1]! / -3e299).toBeCloseTo(1, 6);
    expect(decoded([0, 310, 1e6])).toEqual([0, 310, 1e6]);
    expect(decoded([5, Number.NaN])[1]).toBeNaN();
  });

  test('stand at the clock of their zone, and gaps in time are known', () => {
    const time = Float64Array.of(
      Date.UTC(2025, 2, 30, 0),
      Date.UTC(2025, 2, 30, 1),
      Date.UTC(2025, 2, 30, 9),
    );
    const columns = [sampleColumn('a', 3, { day: 3, mean: 1, departures: [] })];
    const places = axisPlaces(sampleSource(columns, { time, zone: 'Europe/Berlin' }));
    expect([...places].map((ms) => new Date(ms).getUTCHours())).toEqual([1, 3, 11]);
    expect(evenStep(places)).toBeNull();
    expect(evenStep(Float64Array.of(5, 7, 9))).toBe(2);
    expect(breaksOf({ time, step: 3_600_000 })).toEqual([1]);
  });
});

describe('the page', () => {
  test('tells what matters first, then each finding with what was observed and expected', () => {
    const text = pageOf(requests());
    for (const part of [
      '<p class="headline">3 findings, 1 ongoing.</p>',
      'requests stood still from 2025-03-04 14:00 to 16:30.',
      '<strong>0 throughout</strong>',
      'lines 458 to 488 of the file',
      '2025-03-08 21:40 to 21:55',
      'a part of the same length is missing nowhere else',
      'The time stamps name no zone',
    ]) {
      expect(text).toContain(part);
    }
    expect(text.indexOf('3 findings, 1 ongoing')).toBeLessThan(text.indexOf('id="plot"'));
  });

  test('tells an incident before its findings, and draws its columns on top', () => {
    const text = pageOf(host());
    expect(text).toMatch(/<p class="headline">1 incident in 3 columns and 1 other finding\.<\/p>/);
    expect(text).toMatch(/data-text="host-17\.csv: 1 incident in 3 columns .*: requests \u2212/);
    const { columns, targets } = JSON.parse(/id="report-data"[^>]*>([^<]*)</.exec(text)![1]!);
    expect(columns.map(({ name }: { name: string }) => name)).toEqual(['requests', 'disk_wait_ms', 'load']);
    const { incidents, findings } = buildReport(host());
    expect(targets.map(({ id }: { id: string }) => id)).toEqual([
      incidents[0]!.id,
      ...findings.map(({ id }) => id),
    ]);
    const quiet = sampleColumn('quiet', 2016, { day: 288, mean: 5, departures: [] });
    const { columns: known, ...rest } = host();
    const more = pageOf({ ...rest, columns: [quiet, ...known.toReversed()] });
    expect(more).toContain('Plot of requests, disk_wait_ms, load, quiet with');
  });

  test('loads nothing, and shows text of the file as text', () => {
    const source = requests();
    const [column] = source.columns;
    const findings = column!.detection.findings.map((one) => ({
      ...one,
      says: { fact: say([HOSTILE]), context: [] },
      evidence: { for: [HOSTILE], against: [HOSTILE] },
    }));
    const detection = { ...column!.detection, findings, structure: say([HOSTILE]) };
    const text = pageOf({
      ...source,
      file: HOSTILE,
      notes: [{ kind: 'x', text: HOSTILE }],
      columns: [{ ...column!, name: HOSTILE, detection }],
    });
    expect(loads(text)).toEqual([]);
    expect(text).not.toContain('<img');
    expect(text.match(/<\/script>/g)).toHaveLength(3); // the data, plotly.js, the drawing
    expect(text).toContain("default-src 'none'");
  });

  test('tells what both found, and lists what the policy marks alone, each with its place in the plot', () => {
    const source = requests();
    const [{ start }] = buildReport(source).findings as unknown as [{ start: number }];
    const answers = [
      {
        ...{ start: 0, end: 1440, class: HOSTILE, problem: null, doubts: [] },
        response: '<think>noise; scan .o.o; level shift up 4 sd; dip 2 sd</think>',
        intervals: [start, start + 120].map((from): [number, number] => [from, from + 5]),
        ...{ logProbability: -3, distance: null, sampleAgreement: 1, shiftAgreement: null },
      },
    ];
    const told = { status: 'answers' as const, doubtful: 0, limit: 0.3, class: null, signals: [], answers };
    const intervals = [...answers[0]!.intervals, [1300, 1310] as const];
    const confidences = [0.9, 0.625, null];
    const column = {
      ...{ column: 'requests', window: 1440, intervals, confidences, ...told },
      statement: policyStatement({ ...told, intervals }),
    };
    const opinion = { name: 'small', record: {}, notes: [], columns: [column] };
    const text = reportPage(buildReport(source, opinion), source);
    expect(text).toContain(
      'Detector and policy: 1 found by both, 2 by the detector alone, 2 by the policy alone.',
    );
    expect(text.match(/marked by the policy too/g)).toHaveLength(1);
    expect(text.match(/not marked by the policy/g)).toHaveLength(2);
    expect(text).toContain('requests \u00b7 dip, about 2 standard deviations \u00b7 confidence .63');
    expect(text).toContain('requests \u00b7 unusual');
    const data = JSON.parse(/id="report-data"[^>]*>([^<]*)</.exec(text)![1]!) as {
      marked: { column: number; from: number; to: number }[];
      targets: { marked?: number; marks: number[] }[];
    };
    expect(data.marked).toHaveLength(3);
    expect(data.marked.every((mark) => mark.column === 0 && mark.to > mark.from)).toBe(true);
    expect(data.targets.map(({ marked }) => marked).filter((one) => one !== undefined)).toEqual([1, 2]);
  });

  test('shows what a policy says after the findings, its text as text', () => {
    const answers = Array.from({ length: 30 }, (_, k) => ({
      ...{ start: 90 * k, end: 90 * k + 100, class: HOSTILE, response: HOSTILE, problem: HOSTILE },
      ...{ intervals: null, logProbability: -3, distance: null, sampleAgreement: 0, shiftAgreement: null },
      doubts: ['unreadable' as const],
    }));
    const signals = [
      { name: 'unreadable' as const, text: 'Share', value: 1, limit: 0, windows: 30, doubtful: 30 },
    ];
    const told = { status: 'abstains' as const, doubtful: 30, limit: 0.3, class: null, signals, answers };
    const column = {
      ...{ column: 'requests', window: 100, intervals: [], ...told },
      statement: policyStatement({ ...told, intervals: [] }),
    };
    const opinion = { name: HOSTILE, record: { [HOSTILE]: HOSTILE }, notes: [HOSTILE], columns: [column] };
    const seen = new Map([['requests', new Map([['0-100', 'data:image/png;base64,iVBORw0KGgo=']])]]);
    const text = reportPage(buildReport(requests(), opinion), requests(), seen);
    expect(text).toContain('Abstains: 30 of 30 windows (100 %, limit 30 %)');
    expect(text.indexOf('What the policy says')).toBeGreaterThan(text.indexOf('</ol>'));
    expect(text.match(/<article>/g)).toHaveLength(12);
    expect(text.match(/<img/g)).toHaveLength(1);
    expect(text).toContain('18 more answers are in the JSON file.');
    expect(text).not.toContain('<img src=x');
    expect(text).not.toContain('<b>"');
  });

  test('stays below 3 MB for 100 000 points in each of three columns', () => {
    const { columns, ...rest } = longSource();
    const one = columns[0]!;
    const three = { ...rest, columns: [one, { ...one, name: 'b' }, { ...one, name: 'c' }] };
    expect(pageOf({ ...rest, columns }).length).toBeLessThan(3_000_000);
    expect(pageOf(three).length).toBeLessThan(3_000_000);
    expect(pageOf(three)).toContain('values: the minimum and maximum of about every');
  });

  test('says so where nothing was found', () => {
    const quiet = sampleSource([sampleColumn('a', 400, { day: 100, mean: 5, departures: [] })]);
    expect(pageOf(quiet)).toContain('Nothing unusual in 400 samples');
    expect(pageOf(quiet)).not.toContain('id="previous"');
  });
});

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
  /** What the x axis shows, in ms or samples. */
  const range = (session: BrowserSession): Promise<[number, number]> =>
    session.evaluate("document.getElementById('plot')._fullLayout.xaxis._rl.map(Number)");
  const view = (session: BrowserSession): Promise<string> =>
    session.evaluate('document.documentElement.dataset.view');
  const focused = (session: BrowserSession): Promise<string | undefined> =>
    session.evaluate('document.activeElement.dataset.target');

  describe('with three findings', () => {
    let session: BrowserSession;
    let whole: [number, number];
    beforeAll(async () => {
      session = await open(requests());
      whole = await range(session);
    });
    afterAll(() => session?.close());

    test('shows the whole recording at first', () => {
      expect(whole[0]).toBeLessThanOrEqual(Date.UTC(2025, 2, 3));
      expect(whole[1]).toBeGreaterThanOrEqual(Date.UTC(2025, 2, 12, 23, 55));
    });

    test('shows a finding that is clicked with what lies around it, and everything at the second click', async () => {
      await session.click('.pick[data-target="0"]');
      const start = Date.UTC(2025, 2, 4, 14) - 93 * 300_000;
      expect(await range(session)).toEqual([start, Date.UTC(2025, 2, 4, 16, 30) + 93 * 300_000]);
      expect(await session.evaluate("document.getElementById('shown').textContent")).toContain(
        '1 of 3: critical flat line',
      );
      expect(
        await session.evaluate(`getComputedStyle(document.querySelector('li.selected .more')).display`),
      ).toBe('grid');
      await session.click('.pick[data-target="0"]');
      expect(await range(session)).toEqual(whole);
    });

    test('is used by keys alone: arrows move, Enter shows, Escape shows all', async () => {
      await session.evaluate('document.querySelector(".pick").focus()');
      await session.press('ArrowDown');
      await session.press('ArrowDown');
      await session.press('ArrowUp');
      expect(await focused(session)).toBe('1');
      await session.press('Enter');
      expect(await view(session)).toBe('finding');
      expect((await range(session))[0]).toBe(Date.UTC(2025, 2, 3) + (1610 - 50) * 300_000);
      await session.press('Escape');
      expect(await range(session)).toEqual(whole);
      await session.press('End');
      expect(await focused(session)).toBe('2');
    });

    test('zooms by dragging over the plot, and the button shows all again', async () => {
      const [left, top, width] = await session.evaluate<[number, number, number]>(
        "(() => { scrollTo({top: 0, behavior: 'instant'}); const r = document.querySelector('#plot .nsewdrag').getBoundingClientRect(); return [r.x, r.y, r.width]; })()",
      );
      await session.drag([left + 0.25 * width, top + 100], [left + 0.5 * width, top + 110]);
      await session.until("document.documentElement.dataset.view === 'part'");
      const [from, to] = await range(session);
      expect((from - whole[0]) / (whole[1] - whole[0])).toBeCloseTo(0.25, 1);
      expect((to - whole[0]) / (whole[1] - whole[0])).toBeCloseTo(0.5, 1);
      await session.click('#all');
      expect(await range(session)).toEqual(whole);
    });

    test('shows a finding whose mark in the plot is clicked', async () => {
      const at = await session.evaluate<[number, number]>(
        `(() => { scrollTo({top: 0, behavior: 'instant'}); const marks = [...document.querySelectorAll('#plot .scatterlayer .points path')];
          const r = marks.at(-2).getBoundingClientRect(); return [r.x + r.width / 2, r.y + r.height / 2]; })()`,
      );
      await session.drag(at, at);
      await session.until("document.documentElement.dataset.view === 'finding'");
      expect(await session.evaluate("document.querySelectorAll('li.selected').length")).toBe(1);
      await session.press('Escape');
    });

    test('names the finding that is shown in its address, and draws the week before on demand', async () => {
      const { id } = buildReport(requests()).findings[1]!;
      await session.click('.pick[data-target="1"]');
      expect(await session.evaluate('location.hash')).toBe(`#${id}`);
      await session.press('Escape');
      expect(await session.evaluate('location.hash')).toBe('');
      const dotted =
        "document.getElementById('plot').data.filter(({line}) => line?.dash === 'dot').map(({x}) => x[0])";
      expect(await session.evaluate(dotted)).toEqual([]);
      await session.click('#week');
      expect(await session.evaluate(dotted)).toEqual([Date.UTC(2025, 2, 10)]);
      await session.click('#week');
    });

    test('asks for nothing and complains about nothing', () => {
      expect(session.requests).toEqual([]);
      expect(session.complaints).toEqual([]);
    });
  });
});
