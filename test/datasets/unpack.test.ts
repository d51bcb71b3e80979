import { existsSync, readdirSync, readFileSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { crc32, deflateRawSync } from 'node:zlib';
import { describe, expect, it } from 'vitest';
import { unpack } from '../../datasets/readers/zip.ts';
import { DataError } from '../../src/ground/errors.ts';
import { temporary } from '../helpers/temporary.ts';

const root = temporary('unpack');
let made = 0;

/** A zip archive of deflated entries; `size` lies about what comes out. */
function zip(entries: readonly (readonly [name: string, content: string | Buffer])[], size?: number): Buffer {
  const locals: Buffer[] = [];
  const central: Buffer[] = [];
  let offset = 0;
  for (const [name, content] of entries) {
    const raw = Buffer.from(content);
    const packed = deflateRawSync(raw);
    const label = Buffer.from(name);
    const head = Buffer.alloc(30);
    head.writeUInt32LE(0x04034b50, 0);
    head.writeUInt16LE(8, 8);
    head.writeUInt16LE(label.length, 26);
    locals.push(head, label, packed);
    const entry = Buffer.alloc(46);
    entry.writeUInt32LE(0x02014b50, 0);
    entry.writeUInt16LE(8, 10);
    entry.writeUInt32LE(crc32(raw), 16);
    entry.writeUInt32LE(packed.length, 20);
    entry.writeUInt32LE(size ?? raw.length, 24);
    entry.writeUInt16LE(label.length, 28);
    entry.writeUInt32LE(offset, 42);
    central.push(entry, label);
    offset += 30 + label.length + packed.length;
  }
  const directory = Buffer.concat(central);
  const end = Buffer.alloc(22);
  end.writeUInt32LE(0x06054b50, 0);
  end.writeUInt16LE(entries.length, 10);
  end.writeUInt32LE(directory.length, 12);
  end.writeUInt32LE(offset, 16);
  return Buffer.concat([...locals, directory, end]);
}

/** Writes an archive; returns it and the folder to unpack into. */
function place(archive: Buffer): [archive: string, folder: string] {
  const folder = join(root, `u${made++}`);
  writeFileSync(`${folder}.zip`, archive);
  return [`${folder}.zip`, folder];
}

describe('unpacking', () => {
  it('gives the files of an archive, and of archives inside it, without what systems add', async () => {
    const inner = zip([['train/y.txt', '1\n2\n']]);
    const [archive, folder] = place(
      zip([
        ['a/', ''],
        ['a/b.ts', 'values'],
        ['__MACOSX/a/._b.ts', 'x'],
        ['a/.DS_Store', 'x'],
        ['UCI HAR Dataset.zip', inner],
      ]),
    );
    expect(await unpack(archive, folder)).toBe(2);
    expect(readFileSync(join(folder, 'a/b.ts'), 'utf8')).toBe('values');
    expect(readFileSync(join(folder, 'UCI HAR Dataset/train/y.txt'), 'utf8')).toBe('1\n2\n');
    expect(readdirSync(folder).sort()).toEqual(['UCI HAR Dataset', 'a']);
  });

  it.each([
    '../out.txt',
    'a/../../out.txt',
    '/out.txt',
    'C:\\out.txt',
    '..\\out.txt',
    'a\0b',
    './x',
    `${'n'.repeat(300)}`,
  ])('refuses an entry called %j', async (name) => {
    const [archive, folder] = place(zip([[name, 'x']]));
    await expect(unpack(archive, folder)).rejects.toThrow(/leads out of the folder/);
    expect(existsSync(join(root, 'out.txt'))).toBe(false);
  });

  it('refuses names that occur twice, sizes that cannot be, too many bytes, and what is no archive', async () => {
    const cases: readonly [Buffer, RegExp][] = [
      [
        zip([
          ['a', '1'],
          ['a', '2'],
        ]),
        /twice/,
      ],
      [zip([['a', 'x']], 2 ** 31), /cannot hold/],
      [zip([['a', 'x'.repeat(2000)]]), /more than 1000 bytes/],
      [zip([['a/', '']]), /holds no files/],
      [Buffer.from('not a zip archive, but long enough to be looked at'), /not a zip archive/],
    ];
    for (const [content, reason] of cases) {
      const [archive, folder] = place(content);
      const failed = unpack(archive, folder, { maximum: 1000 });
      await expect(failed).rejects.toThrow(DataError);
      await expect(failed).rejects.toThrow(reason);
    }
  });

  it('stops on request', async () => {
    const stop = new AbortController();
    stop.abort(new Error('enough'));
    const [archive, folder] = place(zip([['a', 'x']]));
    await expect(unpack(archive, folder, { signal: stop.signal })).rejects.toThrow('enough');
  });
});
