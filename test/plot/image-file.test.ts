/** Files of test/golden/processor, against what Pillow and transformers make of them (test/golden/make_processor.py). */
import { mkdirSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { crc32, deflateSync } from 'node:zlib';
import { afterAll, describe, expect, it } from 'vitest';
import { DataError } from '../../src/ground/errors.ts';
import { Random } from '../../src/ground/random.ts';
import { decodeImage, imageSize, readImage } from '../../src/plot/image-file.ts';
import { encodePng } from '../../src/plot/png.ts';

const GOLDEN = fileURLToPath(new URL('../golden/processor', import.meta.url));
const { files } = JSON.parse(readFileSync(join(GOLDEN, 'expected.json'), 'utf8')) as {
  files: { name: string; width: number; height: number; crc: number; mean: number }[];
};
const directory = mkdtempSync(join(tmpdir(), 'image-file-'));
afterAll(() => rmSync(directory, { recursive: true }));

function write(name: string, bytes: string | Uint8Array): string {
  const file = join(directory, name);
  writeFileSync(file, bytes);
  return file;
}
const golden = (name: string): Buffer => readFileSync(join(GOLDEN, name));

describe('reading pictures', () => {
  // The decoder multiplies WebP's transparency out before it is laid over white, which rounds once more.
  it.each(files.filter(({ name }) => name !== 'alpha.webp'))(
    '$name is the picture that the reference reads',
    async (want) => {
      const { width, height, data } = await readImage(join(GOLDEN, want.name));
      expect([width, height, crc32(data)]).toEqual([want.width, want.height, want.crc]);
    },
  );

  it('reads the upper 8 of 16 bits of grey', async () => {
    const levels = [0, 0x00ff, 0x0100, 0x7fff, 0xfffe];
    const row = Buffer.from([0, ...levels.flatMap((level) => [level >> 8, level & 255])]);
    const chunk = (type: string, data: Buffer): Buffer => {
      const out = Buffer.concat([Buffer.alloc(4), Buffer.from(type), data, Buffer.alloc(4)]);
      out.writeUInt32BE(data.length, 0);
      out.writeUInt32BE(crc32(out.subarray(4, -4)), out.length - 4);
      return out;
    };
    const header = Buffer.from([0, 0, 0, levels.length, 0, 0, 0, 1, 16, 0, 0, 0, 0]);
    const signature = golden('rgb.png').subarray(0, 8);
    const chunks = [chunk('IHDR', header), chunk('IDAT', deflateSync(row)), chunk('IEND', Buffer.alloc(0))];
    const { data } = await readImage(write('deep-grey.png', Buffer.concat([signature, ...chunks])));
    expect([...data]).toEqual(levels.flatMap((level) => [level >> 8, level >> 8, level >> 8]));
  });

  it('takes what is no orientation for upright', async () => {
    const upright = await readImage(join(GOLDEN, 'full.jpg'));
    const before = golden('full.jpg');
    const record = (orientation: number, start = 8): Buffer => {
      const entry = '0112' + '0003' + '00000001' + '00000000';
      const tiff = `4d4d002a00000000${'0001'}${entry}00000000`;
      const out = Buffer.from(`ffe10022${'457869660000'}${tiff}`, 'hex');
      out.writeUInt32BE(start, 14);
      out.writeUInt16BE(orientation, 28);
      return out;
    };
    const withRecord = (exif: Buffer): Buffer =>
      Buffer.concat([before.subarray(0, 2), exif, before.subarray(2)]);
    const turned = await readImage(write('turned.jpg', withRecord(record(6))));
    expect([turned.width, turned.height]).toEqual([upright.height, upright.width]);
    for (const exif of [record(0), record(9), record(6, 2 ** 31), record(6, 30)]) {
      expect(await readImage(write('upright.jpg', withRecord(exif)))).toEqual(upright);
    }
  });

  it.each(['raw-profile.png', 'turned-6.png', 'profile.png', 'profile.jpg', 'xmp.webp', 'xmp.png'])(
    'reads a %s of changed bytes or says what is wrong with it',
    async (name) => {
      const random = new Random(5, name);
      const whole = golden(name);
      for (let i = 0; i < 60; i++) {
        const bytes = Buffer.from(whole);
        for (let k = 0; k < 3; k++) bytes[random.integer(0, bytes.length - 1)] = random.integer(0, 255);
        for (let at = 8; name.endsWith('.png') && at + 12 <= bytes.length; ) {
          const end = at + 12 + bytes.readUInt32BE(at);
          if (end > bytes.length) break;
          bytes.writeUInt32BE(crc32(bytes.subarray(at + 4, end - 4)), end - 4); // past the first check
          at = end;
        }
        const error: unknown = await readImage(write(name, bytes)).catch((cause: unknown) => cause);
        if (error instanceof Error) expect(error).toBeInstanceOf(DataError);
      }
    },
  );

  it('lays transparent WebP over white to one grey level', async () => {
    const got = await readImage(join(GOLDEN, 'alpha.webp'));
    const same = await readImage(join(GOLDEN, 'rgba.png'));
    expect([got.width, got.height]).toEqual([same.width, same.height]);
    expect(Math.max(...got.data.map((v, i) => Math.abs(v - same.data[i]!)))).toBeLessThanOrEqual(1);
  });

  it('reads the pictures that the renderer writes', async () => {
    const picture = { width: 3, height: 2, data: Uint8Array.from({ length: 18 }, (_, i) => i * 14) };
    expect(await readImage(write('own.png', encodePng(picture)))).toEqual(picture);
  });

  it('refuses what is no picture, by name', async () => {
    await expect(readImage(join(directory, 'missing.png'))).rejects.toThrow(/missing\.png: no such file/);
    mkdirSync(join(directory, 'folder.png'));
    await expect(readImage(join(directory, 'folder.png'))).rejects.toThrow(/folder\.png: is not a file/);
    const svg = '<svg xmlns="http://www.w3.org/2000/svg" width="9" height="9"/>';
    for (const [name, text] of [
      ['text.png', 'hello'],
      ['a.svg', svg],
      ['empty.png', ''],
    ] as const) {
      await expect(readImage(write(name, text))).rejects.toThrow(DataError);
      await expect(readImage(write(name, text))).rejects.toThrow(`${name}: is no PNG, JPEG or WebP picture`);
    }
  });

  it.each(['rgb.png', 'full.jpg', 'lossy.webp'])(
    'refuses a truncated %s wherever it is cut',
    async (name) => {
      const bytes = golden(name);
      for (const length of [16, 200, bytes.length >> 1, bytes.length - 2]) {
        await expect(readImage(write(name, bytes.subarray(0, length)))).rejects.toThrow(
          /is truncated: copy it again/,
        );
      }
    },
  );

  it('refuses a damaged PNG', async () => {
    const bytes = golden('rgb.png');
    bytes[bytes.length >> 1]! ^= 4;
    await expect(readImage(write('flipped.png', bytes))).rejects.toThrow(/flipped\.png: is damaged in IDAT/);
  });

  it('refuses more pixels than any memory should hold, from the header alone', async () => {
    const png = golden('rgb.png');
    png.writeUInt32BE(30_000, 16);
    png.writeUInt32BE(30_000, 20);
    png.writeUInt32BE(crc32(png.subarray(12, 29)), 29);
    const jpeg = golden('full.jpg');
    jpeg.writeUInt16BE(0xfff0, jpeg.indexOf(Buffer.from('ffc0', 'hex')) + 5);
    jpeg.writeUInt16BE(0xfff0, jpeg.indexOf(Buffer.from('ffc0', 'hex')) + 7);
    const lossy = golden('lossy.webp');
    lossy.writeUInt16LE(0x3fff, 26);
    lossy.writeUInt16LE(0x3fff, 28);
    for (const [name, bytes, size] of [
      ['huge.png', png, '30000 × 30000'],
      ['huge.jpg', jpeg, '65520 × 65520'],
      ['huge.webp', lossy, '16383 × 16383'],
    ] as const) {
      await expect(readImage(write(name, bytes))).rejects.toThrow(`${name}: ${size} pixels are more`);
    }
  });

  it('tells the size of a picture without decoding it', async () => {
    for (const { name, width, height } of files) {
      const size = imageSize(golden(name));
      expect([size.width, size.height].sort()).toEqual([width, height].sort()); // as stored: perhaps on its side
    }
  });

  it('refuses damaged bytes with a typed error, wherever the damage is', async () => {
    const draw = new Random(9, 'damage');
    const names = files.map(({ name }) => name);
    for (let i = 0; i < 300; i++) {
      const bytes = Buffer.from(golden(names[i % names.length]!));
      for (let k = 0; k < 3; k++)
        bytes[draw.integer(0, Math.min(60, bytes.length - 1))] = draw.integer(0, 255);
      const part = bytes.subarray(0, draw.integer(0, bytes.length));
      for (const read of [async () => imageSize(part), async () => decodeImage(part)]) {
        const error: unknown = await read().catch((cause: unknown) => cause);
        if (error instanceof Error) expect(error).toBeInstanceOf(DataError);
      }
    }
  });
});
