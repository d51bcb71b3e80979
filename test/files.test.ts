import * as fs from 'node:fs';
import {
  existsSync,
  lstatSync,
  mkdirSync,
  mkdtempSync,
  readdirSync,
  readFileSync,
  rmSync,
  symlinkSync,
  writeFileSync,
} from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterEach, beforeEach, describe, expect, test, vi } from 'vitest';
import { DataError } from '../src/errors.ts';
import {
  appendText,
  neverRemake,
  tidyUp,
  WriteError,
  writeDirectoryAtomic,
  writeDirectoryAtomicAsync,
  writeFileAtomic,
} from '../src/files.ts';
import { OWNER } from '../src/owner.ts';

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
      /summary\.json: not written .*disk is full/,
    );
    expect(readFileSync(file, 'utf8')).toBe('old');
    expect(readdirSync(directory)).toEqual(['summary.json']);
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
    const removed = /run.*: was removed or replaced while it was worked on/;
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
