/** Files that block, never end or lie elsewhere: wherever a name leads to one, it is refused at once. */
import { execFileSync, spawnSync } from 'node:child_process';
import { cpSync, mkdirSync, mkdtempSync, renameSync, rmSync, symlinkSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { dirname, join } from 'node:path';
import { crc32, deflateSync } from 'node:zlib';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { LineFile } from '../datasets/line-file.ts';
import { readWfdb } from '../datasets/readers/wfdb.ts';
import { loadRecipe } from '../src/config.ts';
import { CheckpointError, ConfigError, DataError, reasonOf } from '../src/errors.ts';
import { fileInside, openFile, readBytes, readUtf8 } from '../src/input-file.ts';
import { checkFiles } from '../src/manifest.ts';
import { readImage } from '../src/plot/image-file.ts';
import { decodePng } from '../src/plot/png.ts';
import { readJson } from '../src/policy/json-file.ts';
import { openCheckpoint } from '../src/policy/safetensors.ts';
import { readState } from '../src/train/checkpoint.ts';
import { readLog } from '../src/train/metrics.ts';
import { inside } from './helpers/command-line.ts';
import { CLI } from './helpers/program.ts';

const root = mkdtempSync(join(tmpdir(), 'timeseer-input-'));
afterAll(() => rmSync(root, { recursive: true, force: true }));
let made = 0;
function folder(files: Readonly<Record<string, string | Buffer>> = {}): string {
  const path = join(root, `d${made++}`);
  mkdirSync(path);
  for (const [name, content] of Object.entries(files)) {
    mkdirSync(dirname(join(path, name)), { recursive: true });
    writeFileSync(join(path, name), content);
  }
  return path;
}
const pipe = (path: string): string => {
  execFileSync('mkfifo', [path]);
  return path;
};
const SECRET = 'root:x:0:0:root:/root\n';

/** A PNG of this size whose pixels are all 0, or that only says so. */
function png(width: number, height: number, rows = Buffer.alloc(height * (3 * width + 1))): Buffer {
  const part = (type: string, data: Buffer): Buffer => {
    const bytes = Buffer.concat([Buffer.alloc(4), Buffer.from(type), data, Buffer.alloc(4)]);
    bytes.writeUInt32BE(data.length, 0);
    bytes.writeUInt32BE(crc32(bytes.subarray(4, -4)), bytes.length - 4);
    return bytes;
  };
  const head = Buffer.alloc(13);
  head.writeUInt32BE(width, 0);
  head.writeUInt32BE(height, 4);
  head.set([8, 2, 0, 0, 0], 8);
  const signature = Buffer.from('89504e470d0a1a0a', 'hex');
  return Buffer.concat([
    signature,
    part('IHDR', head),
    part('IDAT', deflateSync(rows)),
    part('IEND', Buffer.alloc(0)),
  ]);
}

describe('opening a file', () => {
  it('takes regular files, also behind links, and nothing else', () => {
    const path = folder({ 'a.txt': 'abc' });
    symlinkSync('a.txt', join(path, 'link'));
    expect(readUtf8(join(path, 'link'))).toBe('abc');
    for (const other of [pipe(join(path, 'pipe')), '/dev/zero', '/dev/tty', path]) {
      expect(() => openFile(other)).toThrow(DataError);
      expect(() => openFile(other)).toThrow(/: (?:not a regular file|cannot be read)/);
    }
    expect(() => openFile(join(path, 'none'))).toThrow(/none: cannot be read \(no such file or directory\)/);
  });

  it('reads no more than it may', () => {
    const path = folder({ 'a.txt': 'abc' });
    expect(readBytes(join(path, 'a.txt'), 3).length).toBe(3);
    expect(() => readBytes(join(path, 'a.txt'), 2)).toThrow(
      /a\.txt: 3 bytes, more than the 2 that can be read/,
    );
  });

  it('a reason has no second place in it', () => {
    const file = pipe(join(folder(), 'p'));
    const error = (() => {
      try {
        openFile(file);
      } catch (cause) {
        return cause;
      }
      return null;
    })();
    expect(reasonOf(error)).toMatch(/^not a regular file/);
  });
});

describe('a name inside a folder', () => {
  it('may lead anywhere in it, and nowhere else', () => {
    const path = folder({ 'a/b.txt': 'x', '..c': 'y' });
    const outside = folder({ 'secret.txt': SECRET });
    symlinkSync('a/b.txt', join(path, 'inner'));
    symlinkSync(join(outside, 'secret.txt'), join(path, 'outer'));
    symlinkSync(outside, join(path, 'sub'));
    const link = join(root, 'link-to-folder');
    symlinkSync(path, link);
    for (const name of ['a/b.txt', 'inner', '..c']) expect(fileInside(link, name)).toBe(join(link, name));
    for (const name of ['outer', 'sub/secret.txt', `../${outside.split('/').at(-1)}/secret.txt`, '.', '..']) {
      expect(() => fileInside(path, name), name).toThrow(DataError);
    }
    expect(() => openFile(fileInside(path, 'none'))).toThrow(/none: cannot be read/);
  });
});

describe('what the user names', () => {
  it('is refused with a line where it is a pipe or a device', async () => {
    const path = folder();
    const fifo = pipe(join(path, 'pipe'));
    for (const args of [
      ['explain', '/dev/zero'],
      ['explain', fifo],
      ['data', 'prepare', 'custom', '--from', fifo, '--out', join(path, 'out')],
      ['data', 'validate', fifo],
      ['data', 'show', fifo],
    ]) {
      const { code, err } = await inside(...args);
      expect([code === 0, err], args.join(' ')).toEqual([false, expect.stringMatching(/^error: .*\n$/)]);
    }
    expect(() => loadRecipe(pipe(join(path, 'r.yaml')))).toThrow(ConfigError);
    await expect(readImage(fifo)).rejects.toThrow(/is not a file/);
  });

  it('is read where a shell passes it on', () => {
    const path = folder({
      's.csv': Array.from({ length: 60 }, (_, t) => Math.sin(t / 3).toFixed(3)).join('\n'),
    });
    const run = spawnSync(
      'bash',
      [
        '-c',
        `cat s.csv | "$0" "$1" explain /dev/stdin --out piped && "$0" "$1" explain <(cat s.csv) --out passed`,
        process.execPath,
        CLI,
      ],
      { cwd: path, encoding: 'utf8', timeout: 120_000 },
    );
    expect(run.stderr + run.stdout).toMatch(/stdin: 60 samples[\s\S]*: 60 samples/);
    expect(run.status).toBe(0);
  });
});

describe('a prepared data set', () => {
  let whole = '';
  beforeAll(async () => {
    whole = join(root, 'set');
    const { code } = await inside(
      ...[
        'data',
        'prepare',
        'anomllm/trend',
        '--count',
        'train=2,validation=1,test=1',
        '--length',
        '100',
        '--out',
        whole,
      ],
    );
    expect(code).toBe(0);
  });

  /** A copy in which `name` is what `replace` makes of it, validated in full. */
  async function validated(name: string, replace: (path: string) => void): Promise<string> {
    const path = join(root, `set${made++}`);
    cpSync(whole, path, { recursive: true });
    const file = join(path, name);
    renameSync(file, `${file}.moved`);
    replace(file);
    const { code, err, out } = await inside('data', 'validate', path, '--all');
    expect(code).not.toBe(0);
    expect(err + out).not.toContain('root:x');
    return err + out;
  }
  const NAMES = ['manifest.json', 'train.jsonl', 'train.prompts.jsonl', 'figures/train/000000.png'];

  it.each(NAMES)('%s as a pipe is refused at once', async (name) => {
    expect(await validated(name, (file) => void pipe(file))).toMatch(/not a regular file/);
  });

  it.each(NAMES)('%s as a link out of the folder is refused, and not quoted', async (name) => {
    const outside = folder({ secret: SECRET });
    const problem = await validated(name, (file) => symlinkSync(join(outside, 'secret'), file));
    expect(problem).toMatch(/leads out of /);
  });

  it('a figure larger than what it shows is not unpacked', async () => {
    const problem = await validated('figures/train/000000.png', (file) =>
      writeFileSync(file, png(5000, 5000)),
    );
    expect(problem).toMatch(/5000 × 5000 pixels are more than can be read/);
  });

  it('more lines than bytes are refused before memory is taken for them', () => {
    const path = join(folder({ lines: 'a\nb\n' }), 'lines');
    const facts = { count: 1e12, bytes: 4, sha256: '0'.repeat(64) };
    expect(() => new LineFile(path, facts, 'examples')).toThrow(/1000000000000 examples in 4 bytes/);
  });
});

describe('pictures', () => {
  it('of more pixels than can be read are refused by their header', () => {
    const bytes = png(26_000, 26_000, Buffer.alloc(10));
    expect(() => decodePng(bytes, 'a.png')).toThrow(
      /a\.png: .*26000 × 26000 pixels are more than can be read, 178956970/,
    );
    expect(() => decodePng(png(9, 9), 'a.png', 80)).toThrow(/9 × 9 pixels/);
    expect(decodePng(png(9, 9), 'a.png', 81).width).toBe(9);
  });
});

describe('a run', () => {
  it('whose state, manifest or log is a pipe is refused at once', () => {
    for (const [name, read] of [
      ['training.json', readState],
      ['timeseer.sha256', checkFiles],
    ] as const) {
      const path = folder({});
      pipe(join(path, name));
      expect(() => read(path), name).toThrow(CheckpointError);
    }
    const path = folder({});
    pipe(join(path, 'metrics.jsonl'));
    expect(() => readLog(join(path, 'metrics.jsonl'))).toThrow(/not a regular file/);
  });
});

describe('a checkpoint', () => {
  const index = (shard: string): string => JSON.stringify({ weight_map: { a: shard } });

  it('whose weights or configuration are a pipe or a device is refused at once', () => {
    const path = folder({ 'model.safetensors.index.json': index('w.safetensors') });
    pipe(join(path, 'w.safetensors'));
    expect(() => openCheckpoint(path)).toThrow(CheckpointError);
    expect(() => openCheckpoint(path)).toThrow(/w\.safetensors: cannot be read \(not a regular file/);
    symlinkSync('/dev/zero', join(path, 'config.json'));
    expect(() => readJson(join(path, 'config.json'))).toThrow(/config\.json: not a regular file/);
    rmSync(join(path, 'model.safetensors.index.json'));
    pipe(join(path, 'model.safetensors.index.json'));
    expect(() => openCheckpoint(path)).toThrow(/index\.json: not a regular file/);
  });

  it.each(['../w.safetensors', '../../x', '/etc/passwd', '..', '.', '', 'a\\b'])(
    'whose index names %j is refused',
    (shard) => {
      const path = folder({ 'model.safetensors.index.json': index(shard) });
      expect(() => openCheckpoint(path)).toThrow(/tensor a must name a file of the same directory/);
    },
  );
});

it('a WFDB header leads to signals beside it alone', () => {
  const outside = folder({ 'x.dat': Buffer.alloc(8) });
  const path = folder({ 'r.hea': 'r 1 100 2\nx.dat 16 200 16 0 0 0 0 x\n' });
  symlinkSync(join(outside, 'x.dat'), join(path, 'x.dat'));
  expect(() => [...readWfdb(join(path, 'r.hea'))]).toThrow(/x\.dat: leads out of /);
});
