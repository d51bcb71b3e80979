import { mkdirSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { PassThrough } from 'node:stream';
import { describe, expect, it } from 'vitest';
import { vtaMissing } from '../../../datasets/benchmarks/generated.ts';
import { watched } from '../../../src/commands/data/show.ts';
import { ReadingNote } from '../../../src/ground/progress.ts';
import type { Picture } from '../../../src/ground/types.ts';
import { inside } from '../../helpers/command-line.ts';
import { decodePng } from '../../helpers/png.ts';
import { temporary } from '../../helpers/temporary.ts';
import { writeWhales } from '../../helpers/whales.ts';

const root = temporary('show');
let made = 0;
const freshPath = (name = ''): string => join(root, `s${made++}${name}`);

async function pageOf(...args: string[]): Promise<string> {
  const out = freshPath('.html');
  const { code, err } = await inside('data', 'show', ...args, '--out', out);
  expect(err).not.toMatch(/error/);
  expect(code).toBe(0);
  return readFileSync(out, 'utf8');
}

const picturesOf = (page: string): Picture[] =>
  [...page.matchAll(/src="data:image\/png;base64,([^"]+)"/g)].map(([, data]) =>
    decodePng(Buffer.from(data!, 'base64')),
  );

describe('data show of right whale calls', () => {
  it('draws the same pictures from the task and from what prepare wrote, also in another figure', async () => {
    const from = writeWhales(freshPath());
    const direct = await pageOf('rcw', '--from', from, '--n', '2');
    const set = freshPath();
    await inside('data', 'prepare', 'rcw', '--from', from, '--out', set);
    const stored = await pageOf(set, '--n', '2');
    expect(
      stored.match(/The task\u2019s figure, rcw: 840 × \d+ px, figures\/test\/00000\d\.png\./g),
    ).toHaveLength(2);
    expect(picturesOf(direct)).toEqual(picturesOf(stored));
    const lines = picturesOf(await pageOf(set, '--n', '2', '--figure', 'har'));
    expect(lines.map(({ width }) => width)).toEqual([588, 588]);
  });
});

it('data show --help speaks of splits to use, since it writes none', async () => {
  expect((await inside('data', 'show', '--help')).out).toMatch(/Splits to use: train,validation,test/);
});

describe('pages of data show', () => {
  it('fold prompts that repeat, and leave traces open', async () => {
    const page = await pageOf('VTA/Irregular', '--n', '3', '--count', '6');
    expect(page.match(/<details open><summary>Prompt<\/summary>/g)).toHaveLength(1);
    expect(page.match(/<details><summary>Prompt, the same as above<\/summary>/g)).toHaveLength(2);
    const teacher =
      /<details open><summary>Expert trace \(teacher: argues for the right answer\)<\/summary>/g;
    expect(page.match(teacher)).toHaveLength(3);
    const blind =
      /<details><summary>Expert trace \(blind: from values alone\) says <bdi>[^<]+<\/bdi>: <span class="(met|missed)">class (right|wrong)<\/span>, F1 \d\.\d\d<\/summary>/g;
    expect(page.match(blind)).toHaveLength(3);
  });

  it('of a prepared set show what stands beside its examples: of the test split no teacher', async () => {
    const set = freshPath();
    await inside(
      'data',
      'prepare',
      'vta',
      '--count',
      'train=4,test=4',
      '--split',
      'train,test',
      '--out',
      set,
    );
    // Words that no program would write: the page can have them from the files alone.
    for (const split of ['train', 'test']) {
      const file = join(set, `${split}.prompts.jsonl`);
      const text = readFileSync(file, 'utf8');
      writeFileSync(
        file,
        text.replaceAll('The plot shows', 'The blot shows').replaceAll('<think>', '<think>Q'),
      );
      const manifest = JSON.parse(readFileSync(join(set, 'manifest.json'), 'utf8'));
      manifest.materials.splits[split].prompts.bytes = readFileSync(file).length;
      writeFileSync(join(set, 'manifest.json'), JSON.stringify(manifest));
    }
    const test = await pageOf(set, '--n', '4');
    expect(test.match(/The blot shows/g)).toHaveLength(4);
    expect(test).not.toContain('argues for the right answer');
    expect(test.match(/<details open><summary>Expert trace \(blind/g)).toHaveLength(4);
    const train = await pageOf(set, '--n', '4', '--split', 'train');
    expect(train.match(/&lt;think&gt;Q/g)).toHaveLength(12); // the prompt names the tag as well
    for (let index = 0; index < 4; index++) expect(train).toContain(`px, figures/train/00000${index}.png.`);
    const stored = readFileSync(join(set, 'figures/train/000002.png')).toString('base64');
    expect(train).toContain(stored);
    const other = await pageOf(set, '--n', '4', '--figure', 'line');
    expect(other.match(/<figcaption>Figure line: 640 × 240 px\.<\/figcaption>/g)).toHaveLength(4);
    expect(other).not.toContain('The blot shows');
    rmSync(join(set, 'figures/test/000001.png'));
    expect((await pageOf(set, '--n', '4')).match(/The stored figure is not shown: /g)).toHaveLength(1);
  });

  /** Files of one series each: their classes, splits, and the name of their second channel. */
  function labelled(rows: readonly (readonly [label: string, split: string])[], channel = 'v'): string {
    const folder = freshPath();
    mkdirSync(folder);
    const lines = rows.map(([label, split], n) => {
      const values = Array.from({ length: 48 }, (_, i) => {
        const value = Math.sin((i + n) / (label === 'slow' ? 5 : 2)).toFixed(4);
        return `${value},${(i % 7) + n}`;
      });
      writeFileSync(join(folder, `s${n}.csv`), `u,${channel}\n${values.join('\n')}\n`);
      return `s${n}.csv,${label},${split}`;
    });
    writeFileSync(join(folder, 'labels.csv'), `${['file,class,split', ...lines].join('\n')}\n`);
    return folder;
  }

  const train = (label: string) => [label, 'train'] as const;
  const both = [train('slow'), train('fast'), train('slow'), train('fast')];
  it.each<[string, string, RegExp]>([
    ['one class only', labelled([train('slow'), train('slow')]), /one class only \(slow\)/],
    ['one example', labelled([train('slow')]), /one class only \(slow\)/],
    [
      'a class outside the profile',
      labelled([...both, ['rare', 'validation']]),
      /No expert trace for the right answer: class rare: not in the profile/,
    ],
  ])('of %s come without traces, and say why', async (_, from, reason) => {
    const set = freshPath();
    const { code } = await inside('data', 'prepare', 'custom', '--from', from, '--out', set);
    expect(code).toBe(0);
    expect((await inside('data', 'validate', set)).code).toBe(0);
    for (const source of [[set], ['custom', '--from', from]]) {
      const page = await pageOf(...source, '--n', '1');
      expect(page).toMatch(reason);
      expect(page).toContain('Then give one class');
      expect(page).not.toContain('argues for the right answer');
    }
  });

  it('of a channel name with < show it as text', async () => {
    const from = labelled(both, 'p<q');
    const set = freshPath();
    await inside('data', 'prepare', 'custom', '--from', from, '--out', set);
    for (const source of [[set], ['custom', '--from', from]]) {
      const page = await pageOf(...source, '--n', '1');
      expect(page).toContain('u and p&lt;q;');
      expect(page).not.toContain('p<q');
    }
  });

  it.each<[string, string, RegExp]>([
    ['a path that is not there', 'gone/set', /gone\/set: no such directory/],
    ['a file', 'file', /is a file; name a task.*custom --from FILE/],
    ['another directory', 'empty', /is no data set that timeseer data prepare wrote/],
    ['a manifest that is cut off', 'cut', /cut\/manifest\.json: not JSON/],
    ['a misspelt task', 'vta/irregula', /Did you mean vta\/irregular\?/],
  ])('refuse %s', async (_, name, reason) => {
    const folder = freshPath();
    mkdirSync(join(folder, 'empty'), { recursive: true });
    mkdirSync(join(folder, 'cut'));
    writeFileSync(join(folder, 'cut', 'manifest.json'), '{"format":"timeseer-examples"');
    writeFileSync(join(folder, 'file'), 'x');
    const { code, err } = await inside('data', 'show', name.startsWith('vta') ? name : join(folder, name));
    expect(err).toMatch(reason);
    expect(code).toBeGreaterThan(0);
  });

  it('a list says which figures there are, and how to get a page', async () => {
    const list = (await inside('data', 'show', 'vta/multivariate', '--n', '2')).out;
    expect(list).toMatch(/\nfigure: vta-grid; nano and small policies get nano-variates \(/);
    expect(list).toMatch(/add --out page\.html\n$/);
    const page = await pageOf('vta/multivariate', '--n', '2', '--count', '8');
    expect(
      page.match(/values alone\) says <bdi>variates? \d[^<]*<\/bdi>: <span class="(met|missed)">/g),
    ).toHaveLength(2);
    expect(await pageOf('nano5', '--n', '1')).toContain('are shown figure nano, unless');
  });
});

describe('the note on reading', () => {
  it('comes after a second, then every five, and not once it is stopped or silent', () => {
    const written = (silent: boolean): string => {
      let time = 0;
      const stream = new PassThrough();
      const note = new ReadingNote({ label: 'har', silent, stream, now: () => time });
      note.start();
      const moments = [0, 900, 1100, 3000, 6000, 6200, 6900, 70_000];
      for (const moment of moments) {
        time = moment;
        note.tick();
      }
      note.stop();
      time = 200_000;
      note.tick();
      return (stream.read() as Buffer | null)?.toString() ?? '';
    };
    expect(written(false)).toBe(
      'reading har: 1 s so far\nreading har: 6 s so far\nreading har: 1:10 so far\n',
    );
    expect(written(true)).toBe('');
  });

  it('does not change a task that it watches', () => {
    const options = { directory: null, counts: { train: 3, validation: 0, test: 2 } };
    const note = new ReadingNote({ label: 'vta', silent: true });
    const task = watched(vtaMissing, note).open(options);
    note.stop();
    expect([...task.load()]).toEqual([...vtaMissing.open(options).load()]);
    expect(task.total).toBe(5);
  });
});
