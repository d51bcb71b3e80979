import { mkdirSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { PassThrough } from 'node:stream';
import { afterAll, describe, expect, it } from 'vitest';
import { vtaMissing } from '../../../datasets/tasks/vta.ts';
import { ReadingNote } from '../../../src/commands/data/reading-note.ts';
import { checkFigureRate, drawingOf } from '../../../src/commands/task/figure.ts';
import { melOf } from '../../../src/plot/mel.ts';
import { decodePng } from '../../../src/plot/png.ts';
import type { Picture } from '../../../src/types.ts';
import { inside } from '../../helpers/command-line.ts';
import { writeWhales } from '../../helpers/whales.ts';

const root = mkdtempSync(join(tmpdir(), 'timeseer-show-'));
afterAll(() => rmSync(root, { recursive: true, force: true }));
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
    decodePng(Buffer.from(data!, 'base64'), 'page'),
  );

/** The frequency in Hz of the brightest row of a spectrogram, between two shares of its width. */
function brightest({ width, data }: Picture, from: number, to: number): number {
  const [left, right, top, bottom] = [58, 522, 10, 236];
  let best = { row: 0, light: -1 };
  for (let y = top + 2; y < bottom - 30; y++) {
    let light = 0;
    for (let x = Math.round(left + from * (right - left)); x < left + to * (right - left); x++) {
      light += data[(y * width + x) * 3]! + data[(y * width + x) * 3 + 1]!;
    }
    if (light > best.light) best = { row: y, light };
  }
  const mel = (melOf(505) * (bottom - best.row)) / (bottom - top);
  return 700 * (10 ** (mel / 2595) - 1);
}

describe('data show of right whale calls', () => {
  it('draws spectrograms in which a call climbs, from the task and from what prepare wrote', async () => {
    const from = writeWhales(freshPath());
    const direct = await pageOf('rcw', '--from', from, '--n', '2', '--figure', 'rcw-spectrogram');
    const set = freshPath();
    await inside('data', 'prepare', 'rcw', '--from', from, '--out', set, '--figure', 'rcw-spectrogram');
    const stored = await pageOf(set, '--n', '2');
    expect(stored.match(/figure rcw-spectrogram/g)).toHaveLength(2);
    const pictures = picturesOf(stored);
    expect(picturesOf(direct)).toEqual(pictures);
    expect(pictures.map(({ width, height }) => [width, height])).toEqual([
      [588, 280],
      [588, 280],
    ]);
    const call =
      pictures[stored.indexOf('<strong><bdi>RightWhale') < stored.indexOf('<strong><bdi>NoWhale') ? 0 : 1]!;
    const [early, late] = [brightest(call, 0.42, 0.48), brightest(call, 0.6, 0.66)];
    expect(early).toBeGreaterThan(60);
    expect(late).toBeLessThan(260);
    expect(late).toBeGreaterThan(early + 10);
    const lines = picturesOf(await pageOf(set, '--n', '2', '--figure', 'rcw'));
    expect(lines.map(({ width }) => width)).toEqual([840, 840]);
  });

  it('refuses the spectrogram for another sampling rate, naming both', async () => {
    const { code, err } = await inside('data', 'show', 'vta', '--figure', 'rcw-spectrogram');
    expect([code, err]).toEqual([0, '']); // a rate that is not known cannot be wrong, and nothing is drawn
    expect(() => checkFigureRate('rcw-spectrogram', 4000, 'emg')).toThrow(
      /2000 samples per second, emg has 4000/,
    );
    expect(() => checkFigureRate('rcw-spectrogram', 2000, 'rcw')).not.toThrow();
    expect(() => checkFigureRate('ecg', 4000, 'emg')).not.toThrow();
  });

  it('missing points of a signal are bridged by its mean', () => {
    const signal = Float64Array.from({ length: 600 }, (_, t) => 5 + Math.sin(t / 3));
    const holes = signal.map((value, t) => (t % 50 === 7 ? Number.NaN : value));
    const choice = { preset: 'rcw-spectrogram', missing: 'break' } as const;
    const of = (channel: Float64Array) =>
      drawingOf({ id: 'x', channels: [channel], names: ['v'], times: null, gold: null }, choice).values;
    const [whole, bridged] = [of(signal), of(holes)] as (readonly Float64Array[])[];
    const peak = Math.max(...whole!.map((row) => row[2]!));
    expect(Math.max(...bridged!.map((row) => row[2]!))).toBeGreaterThan(0.85 * peak);
    expect(Math.max(...bridged!.map((row) => row[2]!))).toBeLessThan(1.15 * peak);
  });
});

describe('pages of data show', () => {
  it('fold prompts that repeat, and leave traces open', async () => {
    const page = await pageOf('VTA/Irregular', '--n', '3', '--count', '6');
    expect(page.match(/<details open><summary>Prompt<\/summary>/g)).toHaveLength(1);
    expect(page.match(/<details><summary>Prompt, the same as above<\/summary>/g)).toHaveLength(2);
    expect(page.match(/<details open><summary>Expert trace<\/summary>/g)).toHaveLength(3);
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

  it('a list says how to get a page', async () => {
    expect((await inside('data', 'show', 'nano5', '--n', '2')).out).toMatch(/add --out page\.html\n$/);
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
    const watched = note.watch(vtaMissing).open(options);
    note.stop();
    expect([...watched.load()]).toEqual([...vtaMissing.open(options).load()]);
    expect(watched.total).toBe(5);
  });
});
