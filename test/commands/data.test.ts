import { spawn } from 'node:child_process';
import { createHash } from 'node:crypto';
import { existsSync, mkdirSync, readdirSync, readFileSync, writeFileSync } from 'node:fs';
import { createServer } from 'node:http';
import type { AddressInfo } from 'node:net';
import { join } from 'node:path';
import { setTimeout as sleep } from 'node:timers/promises';
import { afterEach, describe, expect, it } from 'vitest';
import { emg } from '../../datasets/benchmarks/emg.ts';
import { BENCHMARKS } from '../../datasets/benchmarks/registry.ts';
import { examplesPage } from '../../datasets/examples-page.ts';
import { fetchTask } from '../../datasets/fetch.ts';
import { gradeProblem } from '../../datasets/validate-set.ts';
import type { Example } from '../../src/ground/types.ts';
import { isFigureName } from '../../src/plot/presets.ts';
import { drawingOf } from '../../src/tasks/drawing.ts';
import { goldParts } from '../../src/tasks/kinds.ts';
import { findBrowser, loadPage } from '../helpers/browser.ts';
import { inside } from '../helpers/command-line.ts';
import { CLI } from '../helpers/program.ts';
import { temporary } from '../helpers/temporary.ts';

const root = temporary('data');
afterEach(() => {
  process.exitCode = undefined;
});
let made = 0;
const freshPath = (): string => join(root, `d${made++}`);

/** Without figures and traces, which have tests of their own. */
async function prepared(task: string, ...more: string[]): Promise<string> {
  const out = freshPath();
  const bare = ['--no-figures', '--no-traces'];
  const { code, err } = await inside('data', 'prepare', task, '--out', out, ...bare, ...more);
  expect(err).not.toMatch(/error/);
  expect(code).toBe(0);
  return out;
}

/** Rewrites a split's file and signs it again, so that only its rows can be wrong. */
function tamper(path: string, split: string, change: (lines: string[]) => string[]): void {
  const file = join(path, `${split}.jsonl`);
  const lines = change(readFileSync(file, 'utf8').trimEnd().split('\n'));
  const text = `${lines.join('\n')}\n`;
  writeFileSync(file, text);
  const manifest = JSON.parse(readFileSync(join(path, 'manifest.json'), 'utf8'));
  manifest.splits[split].bytes = Buffer.byteLength(text);
  manifest.splits[split].sha256 = createHash('sha256').update(text).digest('hex');
  writeFileSync(join(path, 'manifest.json'), JSON.stringify(manifest));
}

const wave: Example = {
  id: 'x/test/0',
  task: 'x',
  channels: [Float64Array.from({ length: 60 }, (_, t) => Math.sin(t / 4))],
  names: ['value'],
  times: null,
  gold: { kind: 'classification', class: 'Laptop' },
  recording: null,
};

describe('data list', () => {
  it('names every task with its classes, whether it needs a download, and its licence', async () => {
    const { code, out } = await inside('data', 'list');
    expect(code).toBe(0);
    for (const { name, source } of BENCHMARKS) {
      const line = out.split('\n').find((one) => one.startsWith(`${name} `))!;
      expect(line).toContain(source.licence);
    }
    expect(out).toMatch(/vta\/multivariate .* which variates +no /);
    const tasks = JSON.parse((await inside('data', 'list', '--json')).out) as {
      name: string;
      figure: string;
      smallFigures: string[];
    }[];
    expect(tasks.map(({ name }) => name)).toEqual(BENCHMARKS.map(({ name }) => name));
    for (const { figure } of tasks) expect(isFigureName(figure)).toBe(true);
    const small = Object.fromEntries(tasks.map(({ name, smallFigures }) => [name, smallFigures]));
    expect(small).toMatchObject({
      ...{ ctu: ['nano'], har: ['nano-har'], nab: ['nano'], 'vta/multivariate': ['nano-variates'] },
      ...{ 'tsb-uad': ['nano'], 'tsb-ad': ['nano', 'nano-channels'], custom: ['nano', 'nano-channels'] },
    });
  });
});

describe('data prepare', () => {
  it('writes a data set, says what its split is, and replaces one only with --force', async () => {
    const out = freshPath();
    const args = [
      'data',
      'prepare',
      'VTA',
      '--count',
      'train=10,test=5',
      '--split',
      'train,test',
      '--out',
      out,
    ];
    const first = await inside(...args);
    expect(first.out).toMatch(/train +test\n/);
    expect(first.out).toMatch(/shapelet +2 +1\n/);
    expect(first.out).toMatch(/split: Generated/);
    expect(first.out).toMatch(/\nfigure: vta; nano and small policies get nano \(/);
    expect(await inside(...args)).toMatchObject({ code: 2, err: expect.stringContaining('--force') });
    const again = await inside(...args, '--force', '--json');
    expect(JSON.parse(again.out)).toMatchObject({ out, task: 'vta', splits: { train: { count: 10 } } });
    expect(again.err).toBe('');
  });

  it.each<[string[], RegExp]>([
    [['vtaa'], /Did you mean vta\?/],
    [['vta', '--count', 'many'], /--count: got 'many'/],
    [['vta', '--count', 'later=3'], /--count/],
    [['vta', '--split', 'later'], /--split: got 'later'/],
    [['vta', '--shares', '1,1'], /--shares: got '1,1'/],
    [['vta', '--figure', 'ctuu'], /unknown name "ctuu"/],
    [['vta', '--seed', '-1'], /--seed: got -1/],
    [['vta', '--shots', '0'], /--shots: got 0/],
    [['tab'], /needs files.*--from/],
    [['custom'], /--from/],
    [['emg', '--from', root, '--window', '3'], /--window: got 3/],
    [['emg', '--from', root, '--length', '300'], /--length: emg is not generated/],
  ])('refuses %j before it writes', async (args, reason) => {
    const out = freshPath();
    const { code, err } = await inside('data', 'prepare', ...args, '--out', out);
    expect(err).toMatch(reason);
    expect(code).toBe(2);
    expect(existsSync(out)).toBe(false);
  });

  it('never replaces other files', async () => {
    const out = freshPath();
    mkdirSync(out);
    writeFileSync(join(out, 'mine.txt'), 'x');
    const { code, err } = await inside('data', 'prepare', 'vta', '--out', out, '--force');
    expect([code, err]).toEqual([2, expect.stringContaining('other files')]);
  });

  it('Ctrl-C leaves nothing and exits with 130', async () => {
    const folder = freshPath();
    mkdirSync(folder);
    const args = ['data', 'prepare', 'nano5', '--count', '2000000', '--out', join(folder, 'set')];
    const child = spawn(process.execPath, [CLI, ...args], {
      stdio: ['ignore', 'ignore', 'pipe'],
    });
    let err = '';
    child.stderr.on('data', (chunk: Buffer) => {
      err += chunk.toString();
    });
    const ended = new Promise<number | null>((done) => child.on('close', done));
    while (readdirSync(folder).length === 0 && child.exitCode === null) await sleep(20);
    child.kill('SIGINT');
    expect(await ended).toBe(130);
    expect(err).toMatch(/stopping/);
    expect(readdirSync(folder)).toEqual([]);
  });
});

describe('data validate', () => {
  it.each(['anomllm', 'vta/irregular', 'vta/multivariate', 'nano5'])(
    '%s: every example is drawn, and its right answer earns full marks',
    async (task) => {
      const path = await prepared(task, '--count', '2');
      const { code, out } = await inside('data', 'validate', path, '--json');
      expect(JSON.parse(out)).toMatchObject({ rows: 6, drawn: 6, graded: 6, broken: [], remarks: [] });
      expect(code).toBe(0);
    },
  );

  it('lists broken rows by line, and exits with 1', async () => {
    const path = await prepared('vta', '--count', '10');
    tamper(path, 'train', (lines) =>
      lines.map((line, i) => {
        if (i === 3) return line.replace('"intervals":[[', '"intervals":[[900,901],[');
        if (i === 5) return line.replace(/"id":"[^"]*"/, '"id":"vta/global/train/0"');
        return i === 7 ? line.slice(0, -5) : line;
      }),
    );
    const { code, out } = await inside('data', 'validate', path, '--no-render');
    expect(code).toBe(1);
    expect(out).toMatch(/30 rows read, 0 drawn, 28 graded, 0 figures compared .*; 4 broken:/);
    expect(out).toMatch(/train\.jsonl:4: .*leaves the series/);
    expect(out).toMatch(/train\.jsonl:6: vta\/global\/train\/0: id .* occurs twice/);
    expect(out).toMatch(/train\.jsonl:8:\d+: not JSON/);
    expect(out).toMatch(
      /train\.prompts\.jsonl:6: id: .* the example on this line is "vta\/global\/train\/0"/,
    );
    expect(out).toMatch(/note: nothing was drawn/);
  });

  it('finds classes, recordings and files that are not as the manifest says', async () => {
    const folder = freshPath();
    mkdirSync(folder);
    const rows = Array.from({ length: 12 }, (_, i) => `r${i},${i % 2 === 0 ? 'a' : 'b'},${i},${i * i},3`);
    writeFileSync(join(folder, 't.csv'), ['recording,class,p,q,s', ...rows].join('\n'));
    const path = await prepared('custom', '--from', join(folder, 't.csv'), '--shares', '2,0,1');
    tamper(path, 'test', ([first, second, ...rest]) => [
      first!.replace(/"class":"."/, '"class":"c"'),
      second!.replace(
        /"recording":"[^"]*"/,
        JSON.stringify(`"recording":"${trained(path)}"`)
          .slice(1, -1)
          .replaceAll('\\', ''),
      ),
      ...rest,
    ]);
    const { out } = await inside('data', 'validate', path, '--json', '--no-render');
    expect(JSON.parse(out).broken).toMatchObject([
      { split: 'test', line: 1, problem: "class 'c' is none of a, b" },
      { split: 'test', line: 2, problem: expect.stringContaining('is in train too') },
    ]);
    writeFileSync(join(path, 'test.jsonl'), readFileSync(join(path, 'test.jsonl'), 'utf8').replace('3', '4'));
    const changed = JSON.parse((await inside('data', 'validate', path, '--json', '--no-render')).out);
    expect(changed.broken.at(-1) ?? changed.broken[0]).toBeDefined();
    expect(JSON.stringify(changed.broken)).toContain('SHA-256');
  });

  it('a right answer that earns less is a broken row', () => {
    expect(gradeProblem(wave)).toBeNull();
    expect(gradeProblem({ ...wave, gold: { kind: 'classification', class: 'a<class>b' } })).toMatch(
      /earns .* of 1/,
    );
    const anomaly = (intervals: [number, number][], name: 'trend' | null): Example => ({
      ...wave,
      gold: { kind: 'anomaly', class: name, intervals },
    });
    expect(gradeProblem(anomaly([[3, 9]], null))).toBeNull();
    const many = Array.from({ length: 1100 }, (_, i): [number, number] => [2 * i, 2 * i + 1]);
    const long = { ...anomaly(many, 'trend'), channels: [new Float64Array(3000)] };
    expect(gradeProblem(long)).toMatch(/more than 1000 intervals/);
    expect(goldParts(anomaly([[3, 9]], null).gold)).toBe('<answer>[[3, 9]]</answer>');
  });
});

/** A recording of the training split. */
const trained = (path: string): string =>
  JSON.parse(readFileSync(join(path, 'train.jsonl'), 'utf8').split('\n')[0]!).recording as string;

describe('data stats', () => {
  it('counts, lengths, missing points and quantiles are those of the examples', async () => {
    const folder = freshPath();
    mkdirSync(folder);
    const rows = ['a,1,2,3,4', 'a,5,nan,7,8', 'b,-1,-2,-3,'];
    writeFileSync(join(folder, 't.csv'), ['class,p,q,s,u', ...rows].join('\n'));
    const path = await prepared('custom', '--from', join(folder, 't.csv'), '--shares', '0,0,1');
    const { stats } = JSON.parse((await inside('data', 'stats', path, '--json')).out);
    const rounded = (value: unknown): unknown =>
      JSON.parse(JSON.stringify(value), (_, one) =>
        typeof one === 'number' ? Number(one.toPrecision(12)) : one,
      );
    expect(rounded(stats)).toEqual([
      {
        split: 'test',
        class: 'a',
        count: 2,
        length: [4, 4, 4],
        missing: 1 / 8,
        quantiles: [1, 1.3, 4, 7.7, 8],
        anomalous: null,
      },
      {
        split: 'test',
        class: 'b',
        count: 1,
        length: [3, 3, 3],
        missing: 0,
        quantiles: [-3, -2.9, -2, -1.1, -1],
        anomalous: null,
      },
    ]);
    expect((await inside('data', 'stats', path)).out).toMatch(
      /test +a +2 +4 +12\.5 % +1 +1\.3 +4 +7\.7 +8\n/,
    );
    const generated = await prepared('vta', '--count', '5', '--split', 'test');
    const shares = JSON.parse((await inside('data', 'stats', generated, '--json')).out).stats;
    for (const { anomalous } of shares) expect(anomalous).toBe(0.05);
  });
});

describe('data show', () => {
  it('takes one class after the other, the same ones for the same seed', async () => {
    const path = await prepared('vta', '--count', '25');
    const { examples } = JSON.parse((await inside('data', 'show', path, '--n', '5', '--json')).out);
    expect(new Set(examples.map(({ gold }: { gold: { class: string } }) => gold.class)).size).toBe(5);
    expect(examples.every(({ split }: { split: string }) => split === 'test')).toBe(true);
    const list = await inside('data', 'show', path, '--n', '5');
    expect(list.out).toContain(examples[0].id);
    const other = await inside('data', 'show', path, '--n', '5', '--json', '--seed', '3', '--split', 'train');
    expect(JSON.parse(other.out).examples[0].split).toBe('train');
    expect((await inside('data', 'show', path, '--n', '0')).err).toMatch(
      /--n: expected a whole number from 1 to 200, got 0/,
    );
    expect((await inside('data', 'show', path, '--shots', '2')).err).toMatch(/prepared already/);
    expect((await inside('data', 'show', path, '--split', 'tset')).code).toBe(2);
  });

  it('makes a page whose text is data, and which has room for prompt and trace', async () => {
    const origin = {
      task: 'x',
      title: 'A <b>title</b>',
      kind: 'classification' as const,
      source: { description: 'd', licence: 'l', citation: null, addresses: [], files: [] },
      parameters: {},
      split: { statement: 's', recordingsApart: null },
      classes: ['Laptop'],
      rate: 10,
      figure: { preset: 'ctu', missing: 'break' as const },
      notes: ['2 corrupt lines'],
    };
    const shown = [{ split: 'test' as const, index: 0, example: { ...wave, id: '<i>x</i>' } }];
    const page = await examplesPage(origin, shown, {
      describe: async ({ example: { id } }) => ({
        prompt: `Look at ${id}.`,
        image: null,
        teacher: 'It rises & falls.',
        blind: { text: 'It <falls>.', says: '<u>', right: false, f1: null },
        notes: ['<none>'],
      }),
    });
    expect(page).toContain('It &lt;falls&gt;.');
    expect(page).toContain('says <bdi>&lt;u&gt;</bdi>: <span class="missed">wrong</span></summary>');
    expect(page).toContain('&lt;none&gt;');
    expect(page).toContain('Look at &lt;i&gt;x&lt;/i&gt;.');
    expect(page).toContain('It rises &amp; falls.');
    expect(page).toContain('A &lt;b&gt;title&lt;/b&gt;');
    expect(page).not.toMatch(/https?:/);
    expect((await examplesPage(origin, shown)).includes('Prompt')).toBe(false);
  });

  it('makes a page on which hostile names, classes and words run nothing', async () => {
    const classes = [`" onmouseover="alert(1)" x='`, 'javascript:alert(1)', '&lt;script&gt;\u2028alert(1)//'];
    const words = {
      title: '</title></script><script>alert(1)</script>',
      description: '<img src=x onerror=alert(1)>',
      licence: '<a href="javascript:alert(1)">x</a>',
    };
    const folder = freshPath();
    mkdirSync(folder);
    const rows = Array.from({ length: 12 }, (_, i) => {
      const name = `<b onclick=x>${i}.csv`;
      const values = Array.from({ length: 40 }, (_, t) => Math.sin((t * (1 + (i % 3))) / 3));
      writeFileSync(join(folder, name), `"<u onload=x>'"\n${values.join('\n')}\n`);
      return `${name},"${classes[i % 3]!.replaceAll('"', '""')}"`;
    });
    writeFileSync(join(folder, 'labels.csv'), `file,class\n${rows.join('\n')}\n`);
    writeFileSync(join(folder, 'task.json'), JSON.stringify(words));
    const out = freshPath();
    const args = ['custom', '--from', folder, '--out', out, '--shares', '2,1,1'];
    const prepared = await inside('data', 'prepare', ...args);
    expect(prepared.code, prepared.err).toBe(0);
    const file = `${out}.html`;
    expect((await inside('data', 'show', out, '--out', file)).code).toBe(0);
    const page = readFileSync(file, 'utf8');
    const escaped = (text: string): string =>
      [
        ['&', '&amp;'],
        ['<', '&lt;'],
        ['>', '&gt;'],
        ['"', '&quot;'],
        ["'", '&#39;'],
      ].reduce((done, [plain, safe]) => done.replaceAll(plain!, safe!), text);
    for (const text of [...Object.values(words), classes[0]!]) expect(page).toContain(escaped(text));
    const tags = page.match(/<[a-z/!][^>]*>/gi)!;
    expect(tags.length).toBeGreaterThan(50);
    expect(tags.filter((tag) => /(?:href|src)="?\s*javascript/i.test(tag))).toEqual([]);
    const bare = tags.map((tag) => tag.replaceAll(/"[^"]*"/g, '""'));
    expect(bare.filter((tag) => /^<(?:script|svg onload|b |u )|\son\w+=|src=x/i.test(tag))).toEqual([]);
  });

  it('says what a policy is asked and what the expert concludes, from the training split alone', async () => {
    // Two classes that differ in their period; a table with one series a row.
    const folder = freshPath();
    mkdirSync(folder);
    const row = (label: string, n: number): string => {
      const period = label === 'slow' ? 31 + (n % 3) : 9 + (n % 2);
      const values = Array.from({ length: 96 }, (_, i) =>
        Math.sin((2 * Math.PI * (i + n)) / period).toFixed(4),
      );
      return [label, ...values].join(',');
    };
    const head = ['class', ...Array.from({ length: 96 }, (_, i) => `t${i}`)].join(',');
    const rows = Array.from({ length: 40 }, (_, n) => row(n % 2 === 0 ? 'slow' : 'fast', n));
    writeFileSync(join(folder, 't.csv'), `${[head, ...rows].join('\n')}\n`);
    const page = async (shares: string): Promise<string> => {
      const path = await prepared('custom', '--from', join(folder, 't.csv'), '--shares', shares);
      const file = `${freshPath()}.html`;
      expect((await inside('data', 'show', path, '--n', '2', '--out', file)).code).toBe(0);
      return readFileSync(file, 'utf8');
    };
    const both = await page('3,0,1');
    for (const label of ['slow', 'fast']) expect(both).toContain(`Conclusion: the class is ${label}.`);
    expect(both).toContain('Then give one class');
    expect(both).toContain('(prompt custom@');
    const untrained = await page('0,0,1');
    expect(untrained).toContain('Then give one class');
    expect(untrained).not.toContain('Expert trace');
    expect(untrained).toContain('No expert traces: there is no training split to learn classes from.');
  });

  const browser = findBrowser();
  it.skipIf(browser === null)(
    'the page loads without a complaint (skipped without a browser)',
    async () => {
      const file = `${freshPath()}.html`;
      await inside('data', 'show', 'vta/multivariate', '--n', '3', '--count', '8', '--out', file);
      const { dom, complaints } = loadPage(browser!, { 'page.html': readFileSync(file, 'utf8') }, 400);
      expect(complaints).toEqual([]);
      expect(dom.match(/<img/g)!.length).toBe(6);
    },
    60_000,
  );
});

describe('figures of examples', () => {
  it('channels are named, many get a panel each, and x is what answers count in', () => {
    const plain = { preset: 'line', missing: 'break' } as const;
    expect(drawingOf(wave, plain).figure).toMatchObject({ channels: ['value'], step: 1 });
    const two = { ...wave, channels: [wave.channels[0]!, wave.channels[0]!], names: ['u', 'v'] };
    expect(drawingOf(two, plain).figure).toMatchObject({ channels: ['u', 'v'], legend: 'above' });
    const names = Array.from({ length: 12 }, (_, c) => `s${c}`);
    const twelve = { ...wave, channels: names.map(() => wave.channels[0]!), names };
    expect(drawingOf(twelve, plain).figure).toMatchObject({ grid: true, channels: names });
    const times = Float64Array.from({ length: 60 }, (_, t) => 2 * t);
    expect(drawingOf({ ...wave, times }, plain)).toMatchObject({ figure: { step: null }, times });
    const dates = times.map((t) => t + 1.4e9);
    expect(drawingOf({ ...wave, times: dates }, plain)).toMatchObject({ figure: { time: true } });
    const anomaly: Example = { ...wave, times, gold: { kind: 'anomaly', class: null, intervals: [[3, 9]] } };
    expect(drawingOf(anomaly, plain).times).toBeUndefined();
  });
});

describe('fetching', () => {
  it('files come into the cache whole, or not at all, and a second call goes on', async () => {
    let broken = true;
    const text = Array.from({ length: 3100 }, (_, t) => `${(t + 1) / 4000} ${t / 1e4}`).join('\n');
    const server = createServer((request, response) => {
      if (broken && request.url!.endsWith('neuropathy.txt')) response.writeHead(404).end();
      else response.end(text);
    });
    await new Promise<void>((done) => server.listen(0, '127.0.0.1', done));
    const base = `http://127.0.0.1:${(server.address() as AddressInfo).port}`;
    const addresses = ['healthy', 'myopathy', 'neuropathy'].map((name) => ({
      url: `${base}/emg_${name}.txt`,
      sha256: null,
      unpack: false,
    }));
    const spec = { ...emg, source: { ...emg.source, addresses } };
    const folder = join(freshPath(), 'emg');
    const options = { signal: new AbortController().signal, silent: true };
    await expect(fetchTask(spec, folder, options)).rejects.toThrow(/status 404/);
    expect(existsSync(folder)).toBe(false);
    broken = false;
    await fetchTask(spec, folder, options);
    server.close();
    expect(readdirSync(folder).sort()).toEqual([
      '.source.json',
      'emg_healthy.txt',
      'emg_myopathy.txt',
      'emg_neuropathy.txt',
    ]);
    expect(existsSync(`${folder}.downloads`)).toBe(false);
    const out = await prepared('emg', '--from', folder, '--shares', '1,1,1');
    expect(JSON.parse(readFileSync(join(out, 'manifest.json'), 'utf8')).splits.test.count).toBe(2);
  });
});
