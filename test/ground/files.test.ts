import { execFileSync, spawnSync } from 'node:child_process';
import * as fs from 'node:fs';
import {
  cpSync,
  existsSync,
  lstatSync,
  mkdirSync,
  mkdtempSync,
  readdirSync,
  readFileSync,
  renameSync,
  rmSync,
  symlinkSync,
  writeFileSync,
} from 'node:fs';
import { tmpdir } from 'node:os';
import { dirname, join } from 'node:path';
import { crc32, deflateSync } from 'node:zlib';
import { afterAll, afterEach, beforeAll, beforeEach, describe, expect, it, test, vi } from 'vitest';
import { LineFile } from '../../datasets/example-set.ts';
import { readWfdb } from '../../datasets/readers/wfdb.ts';
import { CheckpointError, ConfigError, DataError, reasonOf } from '../../src/ground/errors.ts';
import {
  appendText,
  fileInside,
  namesInUse,
  neverRemake,
  OWNER,
  openFile,
  readBytes,
  readUtf8,
  tidyUp,
  WriteError,
  writeDirectoryAtomic,
  writeDirectoryAtomicAsync,
  writeFileAtomic,
} from '../../src/ground/files.ts';
import { checkFiles } from '../../src/ground/manifest.ts';
import { decodeImage, readImage } from '../../src/plot/image-file.ts';
import { readJson } from '../../src/policy/json-file.ts';
import { openCheckpoint } from '../../src/policy/safetensors.ts';
import { loadRecipe } from '../../src/recipe/config.ts';
import { readState } from '../../src/train/checkpoint.ts';
import { readLog } from '../../src/train/metrics.ts';
import { inside } from '../helpers/command-line.ts';
import { CLI } from '../helpers/program.ts';

const disk = vi.hoisted(() => ({ room: Number.POSITIVE_INFINITY }));

vi.mock('node:fs', async (load) => {
  const real = await load<typeof fs>();
  const writeSync = ((handle: number, data: Uint8Array, offset: number, length: number) => {
    if (disk.room <= 0) throw Object.assign(new Error('ENOSPC: no space left on device'), { code: 'ENOSPC' });
    const written = real.writeSync(handle, data, offset, Math.min(length, disk.room));
    disk.room -= written;
    return written;
  }) as typeof real.writeSync;
  return { ...real, default: { ...real, writeSync }, writeSync };
});

let directory: string;
beforeEach(() => {
  directory = mkdtempSync(join(tmpdir(), 'timeseer-files-'));
});
afterEach(() => {
  disk.room = Number.POSITIVE_INFINITY;
  rmSync(directory, { recursive: true, force: true });
});

describe('writeFileAtomic', () => {
  test('writes text, bytes and chunks, and makes missing directories', () => {
    const file = join(directory, 'a/b/c.txt');
    writeFileAtomic(file, 'Grüße\n');
    expect(readFileSync(file, 'utf8')).toBe('Grüße\n');
    writeFileAtomic(file, new Uint8Array([1, 2, 255]));
    expect([...readFileSync(file)]).toEqual([1, 2, 255]);
    writeFileAtomic(file, ['one ', new Uint8Array([116, 119, 111])]);
    expect(readFileSync(file, 'utf8')).toBe('one two');
    expect(readdirSync(join(directory, 'a/b'))).toEqual(['c.txt']);
  });

  test('a full disk is an error that says so, and the old file stays whole', () => {
    const file = join(directory, 'summary.json');
    writeFileAtomic(file, 'old');
    disk.room = 5;
    expect(() => writeFileAtomic(file, 'new and much longer')).toThrow(WriteError);
    disk.room = 5;
    expect(() => writeFileAtomic(file, 'new and much longer')).toThrow(
      /summary\.json: not written .*disk is full.*; the previous content is unchanged$/,
    );
    expect(readFileSync(file, 'utf8')).toBe('old');
    expect(readdirSync(directory)).toEqual(['summary.json']);
    disk.room = 5;
    expect(() => writeFileAtomic(join(directory, 'first.json'), 'new and much longer')).toThrow(
      /first\.json: not written \(the disk is full: free some space and .*--resume[^;]*\)$/,
    );
  });

  test('a writer that takes a few bytes at a time still writes everything', () => {
    disk.room = 12;
    writeFileAtomic(join(directory, 'f'), ['hello ', 'world!']);
    expect(readFileSync(join(directory, 'f'), 'utf8')).toBe('hello world!');
  });

  test('chunks that fail midway leave nothing behind and pass their error on', () => {
    function* chunks(): Generator<string> {
      yield 'half';
      throw new DataError('bad row', { file: 'x.csv', line: 3 });
    }
    expect(() => writeFileAtomic(join(directory, 'f'), chunks())).toThrow('x.csv:3: bad row');
    expect(readdirSync(directory)).toEqual([]);
  });

  test('a target that cannot be is named in the error', () => {
    writeFileSync(join(directory, 'file'), '');
    expect(() => writeFileAtomic(join(directory, 'file/below'), 'x')).toThrow(/file\/below: not written/);
  });
});

describe.each([
  [
    'writeDirectoryAtomic',
    async (path: string, fill: (t: string) => void) => writeDirectoryAtomic(path, fill),
  ],
  [
    'writeDirectoryAtomicAsync',
    (path: string, fill: (t: string) => void) => writeDirectoryAtomicAsync(path, async (t) => fill(t)),
  ],
] as const)('%s', (_name, write) => {
  test('swaps a whole directory in, replacing what was there', async () => {
    const target = join(directory, 'set');
    mkdirSync(target);
    writeFileSync(join(target, 'stale'), '');
    await write(target, (temporary) => {
      expect(existsSync(join(target, 'stale'))).toBe(true);
      writeFileSync(join(temporary, 'fresh'), 'x');
    });
    expect(readdirSync(target)).toEqual(['fresh']);
    expect(readdirSync(directory)).toEqual(['set']);
  });

  test('refuses the folder in which the command runs, and those above it, before anything is made', async () => {
    const link = join(directory, 'link');
    symlinkSync(process.cwd(), link);
    for (const target of ['.', '..', process.cwd(), dirname(process.cwd()), link]) {
      const made = async () =>
        write(target, () => {
          throw new Error('begun');
        });
      await expect(made(), target).rejects.toThrow(
        /contains the working directory, which would be replaced; run the command from another folder/,
      );
    }
  });

  test('a failure midway keeps the old directory and removes the new', async () => {
    const target = join(directory, 'set');
    mkdirSync(target);
    writeFileSync(join(target, 'old'), '');
    const failing = write(target, (temporary) => {
      writeFileSync(join(temporary, 'half'), 'x');
      throw new Error('no more');
    });
    await expect(failing).rejects.toThrow('no more');
    expect(readdirSync(target)).toEqual(['old']);
    expect(readdirSync(directory)).toEqual(['set']);
  });

  test('a full disk is a WriteError', async () => {
    disk.room = 0;
    const failing = write(join(directory, 'set'), (temporary) => {
      const handle = fs.openSync(join(temporary, 'x'), 'w');
      try {
        fs.writeSync(handle, new Uint8Array(8), 0, 8);
      } finally {
        fs.closeSync(handle);
      }
    });
    await expect(failing).rejects.toThrow(WriteError);
    expect(readdirSync(directory)).toEqual([]);
  });
});

describe('what killed processes have left', () => {
  const gone = OWNER.replace(/\d+$/, '1'); // this process id, of a process that started before any
  const leave = (name: string): string => {
    const path = join(directory, name);
    mkdirSync(path);
    writeFileSync(join(path, 'part'), name);
    return path;
  };

  test('goes, but for names that do not concern, processes that live and files of others', () => {
    for (const owner of [gone, OWNER]) leave(`.d.${owner}.1a.tmp`);
    writeFileSync(join(directory, `.stage.json.${gone}.2b.tmp`), '{');
    for (const other of ['.d.tmp', '.d.123.abc.tmp', `d.${gone}.1a.tmp`]) leave(other);
    tidyUp(directory, (name) => name === 'd');
    expect(readdirSync(directory).sort()).toEqual(
      [
        '.d.tmp',
        '.d.123.abc.tmp',
        `d.${gone}.1a.tmp`,
        `.d.${OWNER}.1a.tmp`,
        `.stage.json.${gone}.2b.tmp`,
      ].sort(),
    );
    tidyUp(directory, () => true);
    expect(existsSync(join(directory, `.stage.json.${gone}.2b.tmp`))).toBe(false);
    tidyUp(join(directory, 'nowhere'), () => true);
  });

  test('of another boot or container goes once nobody has written to it for an hour', () => {
    const [fresh, old] = ['.a.json.12345678-77-99.1a.tmp', '.a.json.12345678-77-99.1b.tmp'];
    for (const name of [fresh, old]) writeFileSync(join(directory, name!), '{');
    const before = new Date(Date.now() - 2 * 3_600_000);
    fs.utimesSync(join(directory, old!), before, before);
    tidyUp(directory, () => true);
    expect(readdirSync(directory)).toEqual([fresh]);
  });

  test('a directory that was moved away and not replaced is put back', () => {
    leave(`.d.${gone}.1a.tmp`);
    leave(`.d.${gone}.1b.old.tmp`);
    tidyUp(directory, (name) => name === 'd');
    expect(readdirSync(directory)).toEqual(['d']);
    expect(readFileSync(join(directory, 'd/part'), 'utf8')).toBe(`.d.${gone}.1b.old.tmp`);
  });

  test('goes when the same directory is written again', async () => {
    leave(`.d.${gone}.1a.tmp`);
    writeDirectoryAtomic(join(directory, 'd'), () => {});
    expect(readdirSync(directory)).toEqual(['d']);
    leave(`.d.${gone}.1a.tmp`);
    await writeDirectoryAtomicAsync(join(directory, 'd'), async () => {});
    expect(readdirSync(directory)).toEqual(['d']);
  });
});

describe('a directory that was removed', () => {
  test('is not made again by what writes into it', () => {
    const run = join(directory, 'run');
    writeFileAtomic(join(run, 'log'), 'one\n');
    const release = neverRemake(run);
    appendText(join(run, 'log'), 'two\n');
    expect(readFileSync(join(run, 'log'), 'utf8')).toBe('one\ntwo\n');
    rmSync(run, { recursive: true });
    const removed = /run.*: was removed or replaced during the work/;
    expect(() => appendText(join(run, 'log'), 'three\n')).toThrow(removed);
    expect(() => writeFileAtomic(join(run, 'a/b'), 'x')).toThrow(removed);
    expect(() => writeDirectoryAtomic(join(run, 'a/b'), () => {})).toThrow(WriteError);
    expect(existsSync(run)).toBe(false);
    release();
    writeFileAtomic(join(run, 'a/b'), 'x');
  });
});

describe('a directory behind a link', () => {
  test('is replaced, and the link stays', async () => {
    const [real, link] = [join(directory, 'real'), join(directory, 'link')];
    mkdirSync(real);
    symlinkSync(real, link);
    writeDirectoryAtomic(link, (temporary) => writeFileSync(join(temporary, 'a'), '1'));
    expect(readFileSync(join(real, 'a'), 'utf8')).toBe('1');
    await writeDirectoryAtomicAsync(link, async (temporary) => writeFileSync(join(temporary, 'b'), '2'));
    expect(readdirSync(real)).toEqual(['b']);
    expect(lstatSync(link).isSymbolicLink()).toBe(true);
    expect(readdirSync(directory).sort()).toEqual(['link', 'real']);
  });
});

describe('a place where nothing can be made', () => {
  test.skipIf(!existsSync('/proc/self'))(
    'a file system that refuses new entries is an error, not a wait',
    () => {
      expect(() => writeFileAtomic('/proc/timeseer/deep/file.txt', 'x')).toThrow(WriteError);
    },
  );

  test('a file in the way is named for what it is', () => {
    const file = join(directory, 'file');
    writeFileSync(file, 'kept');
    for (const target of [join(file, 'below.txt'), join(file, 'deep', 'below.txt')]) {
      expect(() => writeFileAtomic(target, 'x')).toThrow(/not written \(a .*file.*: choose another place/);
    }
    expect(readFileSync(file, 'utf8')).toBe('kept');
  });
});

// Files that block, never end or lie elsewhere: wherever a name leads to one, it is refused at once.

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
      expect(() => openFile(other)).toThrow(/: (?:not a regular file|a directory|cannot be read)/);
    }
    expect(() => openFile(path)).toThrow(`${path}: a directory, where a file is expected; name a file in it`);
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
      ['explain', '/dev/zero', '--policy', 'none'],
      ['explain', fifo, '--policy', 'none'],
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
        `cat s.csv | "$0" "$1" explain /dev/stdin --policy none --out piped && "$0" "$1" explain <(cat s.csv) --policy none --out passed`,
        process.execPath,
        CLI,
      ],
      { cwd: path, encoding: 'utf8', timeout: 120_000 },
    );
    expect(run.stderr + run.stdout).toMatch(
      /stdin: Nothing unusual in 60 samples[\s\S]*: Nothing unusual in 60 samples/,
    );
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
    expect(problem).toMatch(/5000 × 5000 pixels, it is drawn with/);
  });

  it('more lines than bytes are refused before memory is taken for them', () => {
    const path = join(folder({ lines: 'a\nb\n' }), 'lines');
    const facts = { count: 1e12, bytes: 4, sha256: '0'.repeat(64) };
    expect(() => new LineFile(path, facts, 'examples')).toThrow(/1000000000000 examples in 4 bytes/);
  });
});

describe('pictures', () => {
  it('of more pixels than can be read are refused by their header', async () => {
    await expect(decodeImage(png(26_000, 26_000, Buffer.alloc(10)))).rejects.toThrow(
      /26000 × 26000 pixels are more than can be read, 178956970/,
    );
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

test('a directory is free where it holds hidden files and output of a scheduler alone', () => {
  const path = folder({ '.gitkeep': '', 'slurm-7.out': 'x' });
  expect(namesInUse(path)).toEqual([]);
  expect(namesInUse(join(path, 'none'))).toEqual([]);
  writeFileSync(join(path, 'notes.txt'), 'mine');
  expect(namesInUse(path)).toEqual(['notes.txt']);
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
    writeFileSync(join(path, 'with-mark.json'), '\uFEFF{"a":1}');
    expect(readJson(join(path, 'with-mark.json'))).toEqual({ a: 1 });
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
