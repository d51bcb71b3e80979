/** The page that explains CSV files in a browser: equal to `timeseer explain`, without a network, with one message for what is wrong. */
import { cpSync, mkdirSync, readdirSync, readFileSync, statSync, symlinkSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { pathToFileURL } from 'node:url';
import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import type { AnomalyReport } from '../../src/explain/schema.ts';
import { ConfigError } from '../../src/ground/errors.ts';
import { writeSite } from '../../src/page/site.ts';
import { explainFile } from '../../src/run/detect.ts';
import { findBrowser } from '../helpers/browser.ts';
import { BrowserSession, type SessionOptions } from '../helpers/browser-session.ts';
import {
  BUSY,
  besideWrongPolicy,
  CSV,
  drop,
  ended,
  IN_REPORT,
  LOADED,
  type PolicyChange,
  ServedPage,
  START,
  saved,
  textOf,
} from '../helpers/page.ts';
import { decodePng } from '../helpers/png.ts';
import { temporary } from '../helpers/temporary.ts';

const place = temporary('page');
const site = join(place, 'site');
beforeAll(() => {
  writeSite(site);
});

test('the site is two files of at most 15 MB and the licenses, without a reference to any host', () => {
  const sizes = ['index.html', 'policy.js', 'licenses.txt'].map((name) => statSync(join(site, name)).size);
  expect(sizes.reduce((sum, size) => sum + size, 0)).toBeLessThan(15e6);
  const html = readFileSync(join(site, 'index.html'), 'utf8').replaceAll(/<script[\s\S]*?<\/script>/g, '');
  expect(html).not.toMatch(/(?:src|href|action)="?(?!data:)\w|url\(|@import/i);
  expect(html).toContain("default-src 'none'");
  expect(readFileSync(join(site, 'licenses.txt'), 'utf8')).toMatch(/^onnxruntime-web .*MIT/m);
});

test('an earlier page is replaced in its directory, which stays', () => {
  const { ino } = statSync(site);
  writeFileSync(join(site, 'policy.js'), 'damaged');
  const before = process.cwd();
  process.chdir(site);
  try {
    writeSite('.');
  } finally {
    process.chdir(before);
  }
  expect(statSync(site).ino).toBe(ino);
  expect(readdirSync(site).sort()).toEqual(['index.html', 'licenses.txt', 'policy.js']);
  expect(statSync(join(site, 'policy.js')).size).toBeGreaterThan(1e6);
});

test('a page for graphics cards and a plain one have different builds, each that of its policy.js', () => {
  const other = join(place, 'webgpu');
  writeSite(other, { webgpu: true });
  const builds = [site, other].map((directory) =>
    ['index.html', 'policy.js'].map(
      (name) => /"build":"(\w{12})"/.exec(readFileSync(join(directory, name), 'utf8'))![1],
    ),
  );
  expect(builds[0]![0]).toBe(builds[0]![1]);
  expect(builds[1]![0]).toBe(builds[1]![1]);
  expect(builds[0]![0]).not.toBe(builds[1]![0]);
});

test('a place that holds anything else is refused and kept', () => {
  const directory = (name: string): string => {
    mkdirSync(join(place, name));
    return join(place, name);
  };
  const own = directory('own');
  writeFileSync(join(own, 'notes.txt'), 'mine');
  const page = directory('page');
  writeFileSync(join(page, 'index.html'), '<title>My page</title><footer>Written by timeseer.</footer>');
  const script = directory('script');
  writeFileSync(join(script, 'policy.js'), 'mine');
  const folder = directory('folder');
  cpSync(join(site, 'index.html'), join(folder, 'index.html'));
  mkdirSync(join(folder, 'policy.js'));
  const linked = directory('linked');
  symlinkSync(join(site, 'index.html'), join(linked, 'index.html'));
  for (const out of [own, join(own, 'notes.txt'), page, script, folder, linked])
    expect(() => writeSite(out), out).toThrow('which this command did not write; it is kept');
  expect(() => writeSite(own)).toThrow(ConfigError);
  expect(readFileSync(join(own, 'notes.txt'), 'utf8')).toBe('mine');
  expect(readFileSync(join(page, 'index.html'), 'utf8')).toContain('My page');
  expect(readFileSync(join(script, 'policy.js'), 'utf8')).toBe('mine');
  expect(statSync(join(folder, 'policy.js')).isDirectory()).toBe(true);
  symlinkSync(join(place, 'nowhere'), join(place, 'dangling'));
  expect(() => writeSite(join(place, 'dangling'))).toThrow('a link that leads nowhere');
});

const browser = findBrowser();
if (browser === null)
  console.warn('no Chromium here: the page is not driven (set CHROMIUM, or apt install chromium)');

const open = (address: string, options?: SessionOptions): Promise<BrowserSession> =>
  BrowserSession.open(browser!, address, START, options);

/** Pictures that a page holds, as pixels. */
const picturesOf = (page: string): readonly Uint8Array[] =>
  [...page.matchAll(/data:image\/png;base64,([^"]+)/g)].map(
    ([, text]) => decodePng(Buffer.from(text!, 'base64')).data,
  );

describe.skipIf(browser === null)('in a browser (skipped where there is none)', () => {
  test('opened from a file, it explains a chosen file as the command does: findings, answers, pictures', async () => {
    const file = join(place, 'load.csv');
    writeFileSync(file, CSV);
    const session = await open(pathToFileURL(join(site, 'index.html')).href);
    try {
      // Meanwhile the page opens the policy.
      const { files } = await explainFile({
        ...{ policy: 'small', device: undefined, since: undefined, out: join(place, 'command') },
        detect: { file, columns: [], time: undefined, key: undefined, select: undefined, tz: undefined },
      });
      const { root } = (await session.send('DOM.getDocument')) as { root: { nodeId: number } };
      const chooser = await session.send('DOM.querySelector', { nodeId: root.nodeId, selector: '#choose' });
      await session.send('DOM.setFileInputFiles', { files: [file], nodeId: chooser['nodeId'] });
      await session.until(ended('load.csv'));
      expect(await textOf(session, 'note')).toBe('');
      const command = JSON.parse(readFileSync(files.json, 'utf8')) as AnomalyReport;
      const report = JSON.parse(await saved(session, 'json')) as AnomalyReport;
      expect(report.findings.length).toBeGreaterThan(1);
      // The confidence comes from the policy, whose float32 sums are not in the same order.
      const detected = ({ findings, columns, incidents }: AnomalyReport): unknown => ({
        ...{ columns, incidents, findings: findings.map((finding) => ({ ...finding, confidence: null })) },
      });
      expect(detected(report)).toEqual(detected(command));
      for (const [i, finding] of report.findings.entries())
        expect(finding.confidence).toBeCloseTo(command.findings[i]!.confidence!, 4);
      const responses = ({ policy }: AnomalyReport): unknown =>
        policy!.columns.map(({ answers }) =>
          answers.map(({ start, end, response }) => [start, end, response]),
        );
      expect(responses(report)).toEqual(responses(command));
      const pictures = picturesOf(await saved(session, 'page'));
      expect(pictures.length).toBeGreaterThan(1);
      expect(pictures).toEqual(picturesOf(readFileSync(files.html, 'utf8')));
      const [first] = report.findings;
      const shown = await session.evaluate<string>(
        'document.getElementById("report").contentDocument.body.innerText',
      );
      expect(shown).toContain(first!.statement.slice(0, 40));
      expect(session.requests.filter((address) => !/^(?:blob|data|about):/.test(address))).toEqual([
        pathToFileURL(join(site, 'policy.js')).href,
      ]);
      expect(session.complaints).toEqual([]);
    } finally {
      await session.close();
    }
  });

  describe('from a server of static files, on a phone', () => {
    let page: ServedPage;
    let session: BrowserSession;
    beforeAll(async () => {
      page = await ServedPage.open(browser!, site);
      ({ session } = page);
    });
    afterAll(() => page?.close());

    test('nothing is wider than the screen, and the first key reaches the file chooser', async () => {
      expect(await session.evaluate('document.documentElement.scrollWidth')).toBeLessThanOrEqual(390);
      await session.press('Tab');
      expect(await session.evaluate('document.activeElement.id')).toBe('choose');
    });

    test('names of files and columns are text, and the work can be cancelled and begun anew', async () => {
      const name = '<img src=x onerror=document.title=1>.csv';
      const hostile = JSON.stringify(CSV.replace('queue', '<b>queue</b>'));
      // Long enough that it is not done before the click.
      const long = ['queue', ...Array.from({ length: 50_000 }, (_, i) => Math.sin(i / 9) + (i % 7) / 5)].join(
        '\n',
      );
      await drop(session, name, `[${JSON.stringify(long)}]`);
      await session.until(BUSY);
      await session.click('#cancel');
      await session.until(ended(name));
      expect(await session.evaluate('document.activeElement.id')).toBe('again');
      await session.evaluate('document.getElementById("ask").checked = false');
      await drop(session, name, `[${hostile}]`);
      await session.until(ended(name));
      const report = JSON.parse(await saved(session, 'json')) as AnomalyReport;
      expect(report.file).toBe(name);
      expect(report.columns.map(({ name }) => name)).toContain('<b>queue</b>');
      await session.until('document.getElementById("report").contentDocument?.querySelector("#findings")');
      expect(
        await session.evaluate(
          'document.getElementById("report").contentDocument.querySelectorAll("img, b").length',
        ),
      ).toBe(0);
      expect(await session.evaluate('document.title')).toMatch(/^timeseer/);
      expect(await session.evaluate('document.documentElement.scrollWidth')).toBeLessThanOrEqual(390);
    });

    test('of two files the one given last is explained, however slowly the first is read', async () => {
      await session.evaluate(`(() => {
        document.getElementById("ask").checked = false;
        const read = Blob.prototype.arrayBuffer;
        Blob.prototype.arrayBuffer = async function () {
          if (this.name === 'slow.csv') await new Promise((resolve) => (globalThis.release = resolve));
          return read.call(this);
        };
      })()`);
      await drop(session, 'slow.csv', `[${JSON.stringify(CSV)}]`);
      await drop(session, 'quick.csv', `[${JSON.stringify(CSV)}]`);
      await session.until(ended('quick.csv'));
      await session.evaluate('release(), new Promise((resolve) => setTimeout(resolve, 100))');
      expect(await textOf(session, 'file')).toBe('quick.csv');
    });

    /** Pastes or drops a table, as text or as a file, on an element given as an expression. */
    const give = (kind: 'paste' | 'drop', on: string, item: string): Promise<boolean> =>
      session.evaluate(`(() => {
        const data = new DataTransfer();
        data.items.add(${item});
        document.getElementById('file').textContent = '';
        const event = ${kind === 'paste' ? 'new ClipboardEvent("paste", { clipboardData: data' : 'new DragEvent("drop", { dataTransfer: data'}, bubbles: true, cancelable: true });
        return ${on}.dispatchEvent(event);
      })()`);
    const TEXT = `${JSON.stringify(CSV)}, 'text/plain'`;

    test.each([
      ['text pasted on the file chooser', 'paste', '#choose', TEXT, 'pasted.csv'],
      ['text pasted on the check box', 'paste', '#ask', TEXT, 'pasted.csv'],
      ['text dropped on the page', 'drop', '#drop', TEXT, 'pasted.csv'],
      ['text dropped in the report', 'drop', null, TEXT, 'pasted.csv'],
      ['text pasted in the report', 'paste', null, TEXT, 'pasted.csv'],
      [
        'a file dropped in the report',
        'drop',
        null,
        `new File([${JSON.stringify(CSV)}], 'next.csv')`,
        'next.csv',
      ],
    ] as const)('%s is explained', async (_, kind, selector, item, name) => {
      await session.evaluate('document.getElementById("ask").checked = false');
      if (selector === null) await session.until(LOADED);
      await give(kind, selector === null ? IN_REPORT : `document.querySelector('${selector}')`, item);
      await session.until(ended(name));
      expect(await textOf(session, 'status')).toBe('Done.');
    });

    test('text for a field stays with the field, and text of the report comes to nothing when dropped', async () => {
      expect(await give('paste', 'document.querySelector("[name=column]")', TEXT)).toBe(true);
      expect(await give('drop', 'document.getElementById("text")', TEXT)).toBe(true);
      await session.until(LOADED);
      await session.evaluate(`${IN_REPORT}.dispatchEvent(new DragEvent('dragstart', { bubbles: true }))`);
      expect(await give('drop', IN_REPORT, TEXT)).toBe(true);
      await session.evaluate(`${IN_REPORT}.dispatchEvent(new DragEvent('dragend', { bubbles: true }))`);
      expect(await textOf(session, 'file')).toBe('');
    });

    /** Explains a table with one option; returns the names of the columns that were read. */
    const columnsWith = async (option: string, value: string, text: string): Promise<readonly string[]> => {
      const field = `document.querySelector('[name=${option}]')`;
      await session.evaluate(`document.getElementById('ask').checked = false, ${field}.value = '${value}'`);
      await drop(session, 'table.csv', `[${JSON.stringify(text)}]`);
      await session.until(ended('table.csv'));
      await session.evaluate(`${field}.value = ''`);
      const report = JSON.parse(await saved(session, 'json')) as AnomalyReport;
      return report.columns.map((column) => column.name);
    };

    test('several columns are named with commas between, and a name that holds a comma wins', async () => {
      const rows = CSV.replace(/^.*\n/, '').replaceAll(/(,[^,\n]+)$/gm, '$1$1');
      const table = `time,load,queue,depth\n${rows}`;
      expect(await columnsWith('column', 'depth, load,', table)).toEqual(['depth', 'load']);
      expect(await columnsWith('column', 'a,b', `time,"a,b",a,b\n${rows}`)).toEqual(['a,b']);
    });

    test('the decimal mark is a field, and a wrong one opens the options', async () => {
      const comma = CSV.replaceAll(',', ';').replaceAll(/\.(\d{3})(?=;|$)/gm, ',$1');
      expect(await columnsWith('decimal', ',', comma)).toEqual(['load', 'queue']);
      await session.evaluate(`document.querySelector('[name=decimal]').value = 'comma'`);
      await drop(session, 'table.csv', `[${JSON.stringify(comma)}]`);
      await session.until(`${START} && !document.getElementById('problem').hidden`);
      expect(await textOf(session, 'problem')).toBe('decimal: expected one of ., ,, got "comma"');
      expect(await session.evaluate('document.getElementById("more").open')).toBe(true);
      await session.evaluate(`document.querySelector('[name=decimal]').value = ''`);
    });

    test('a file in Windows-1252 is read as the command reads it', async () => {
      const bytes = `[Uint8Array.from(${JSON.stringify(CSV.replace('queue', 'k\u00fche'))}, (c) => c.charCodeAt(0))]`;
      await session.evaluate('document.getElementById("ask").checked = false');
      await drop(session, 'old.csv', bytes);
      await session.until(ended('old.csv'));
      const report = JSON.parse(await saved(session, 'json')) as AnomalyReport;
      expect(report.columns.map(({ name }) => name)).toContain('k\u00fche');
    });

    test.each([
      [
        'a picture',
        'plot.png',
        '[new Uint8Array([137, 80, 78, 71, 13, 10, 26, 10, 0, 0])]',
        /plot\.png.*not text/,
      ],
      ['words', 'letter.csv', '["dear reader, good day"]', /letter\.csv/],
      [
        'a file of 200 MB',
        'big.csv',
        '[new Blob(Array(200).fill(new Uint8Array(1e6)))]',
        /200 MB.*100 MB.*explain big\.csv/,
      ],
      [
        'a table of more than 2 million values',
        'my long.csv',
        '["v\\n", "1\\n".repeat(2_000_001)]',
        /^my long\.csv: 2000001 values .*npx timeseer explain 'my long\.csv'/,
      ],
      ['an empty file', 'empty.csv', '[]', /empty\.csv: empty/],
    ])('%s is refused with one message, and the page can be used again', async (_, name, parts, message) => {
      await drop(session, name, parts);
      await session.until(`${START} && !document.getElementById('problem').hidden`);
      expect(await textOf(session, 'problem')).toMatch(message);
      expect(await session.evaluate('document.activeElement.id')).toBe('problem');
    });

    // Others: `npm run soak`.
    test.each<[string, PolicyChange]>([
      ['of another build', (policy) => policy.replace(/"build":"\w+"/, '"build":"0123456789ab"')],
      ['with damaged gzip', (policy) => policy.replace(/wasm":"...../, 'wasm":"AAAAA')],
    ])('beside a policy.js %s the detector answers alone, and a note says what to do', async (_, change) => {
      expect((await besideWrongPolicy(page, change)).policy).toBeUndefined();
    });

    test('without WebAssembly the detector answers alone, and a note says so', async () => {
      await page.reload((policy) => policy);
      await session.evaluate(`(() => {
        const Plain = Blob;
        globalThis.Blob = function (parts, options) {
          const program = options.type === 'text/javascript' ? ['delete globalThis.WebAssembly;'] : [];
          return new Plain([...program, ...parts], options);
        };
        document.getElementById('ask').checked = true;
      })()`);
      await drop(session, 'load.csv', `[${JSON.stringify(CSV)}]`);
      await session.until(ended('load.csv'));
      expect(await textOf(session, 'note')).toMatch(/not asked: this browser has no WebAssembly/);
      const report = JSON.parse(await saved(session, 'json')) as AnomalyReport;
      expect(report.findings.length).toBeGreaterThan(1);
      expect(report.policy).toBeUndefined();
    });

    test('nothing was asked of any host but its own server, and of that only its files', () => {
      const asked = session.requests.filter((address) => !/^(?:blob|data|about):/.test(address));
      expect(asked.every((address) => address === `${page.url}/policy.js`)).toBe(true);
      expect(new Set(page.calls.map(({ method, path }) => `${method} ${path}`))).toEqual(
        new Set(['GET /index.html', 'GET /policy.js']),
      );
      expect(session.complaints).toEqual([]);
    });
  });
});
