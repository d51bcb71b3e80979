/** Text decoding for the encodings in which programs save tables. */
import { DataError } from '../../src/ground/errors.ts';

interface DecodedText {
  readonly text: string;
  /** Assumptions made, as plain sentences; empty for UTF-8. */
  readonly assumed: readonly string[];
}

/** First bytes of files that are mistaken for tables, with advice. */
const NO_TEXT: readonly (readonly [bytes: readonly number[], advice: string])[] = [
  [[0x1f, 0x8b], 'a gzip archive; unpack it first (gunzip)'],
  [[0x50, 0x4b, 0x03, 0x04], 'a zip archive or an Excel workbook; save the sheet as CSV, or unpack it first'],
  [[0xd0, 0xcf, 0x11, 0xe0], 'an old Excel workbook; save the sheet as CSV'],
  [[0x50, 0x41, 0x52, 0x31], 'a Parquet file; save it as CSV'],
  [
    [0x93, 0x4e, 0x55, 0x4d, 0x50, 0x59],
    "a NumPy array; save it as CSV: np.savetxt('x.csv', x, delimiter=',')",
  ],
  [[0x28, 0xb5, 0x2f, 0xfd], 'a Zstandard archive; unpack it first (unzstd)'],
  [[0x25, 0x50, 0x44, 0x46], 'a PDF document; save its table as CSV'],
];

/** Share of control characters from which bytes are no text; NUL bytes do not count. */
const MOST_CONTROLS = 0.05;

/** Returns true for bytes with more control characters than a text has. */
function isBinary(bytes: Uint8Array): boolean {
  const some = bytes.subarray(0, PROBE).filter((byte) => byte !== 0);
  const controls = some.filter((byte) => byte < 9 || (byte > 13 && byte < 32 && byte !== 27));
  return controls.length > MOST_CONTROLS * some.length;
}

/** Number of bytes inspected for UTF-16 without a byte-order mark. */
const PROBE = 4096;

/** Detects UTF-16 of Latin text, in which nearly every other byte is zero. */
function wide(bytes: Uint8Array): 'utf-16le' | 'utf-16be' | null {
  const length = Math.min(bytes.length, PROBE) & ~1;
  if (length < 8) return null;
  const zeros = [0, 0];
  for (let i = 0; i < length; i++) if (bytes[i] === 0) zeros[i & 1]!++;
  const half = length / 2;
  if (zeros[1]! > 0.9 * half && zeros[0]! < 0.1 * half) return 'utf-16le';
  if (zeros[0]! > 0.9 * half && zeros[1]! < 0.1 * half) return 'utf-16be';
  return null;
}

/**
 * The text of a file: UTF-8, UTF-16 of either byte order (by its mark, or by its zero bytes), and Windows-1252, which holds Latin-1,
 * where the bytes are no UTF-8. NUL bytes, which a log that was cut while it was written begins with, are left out.
 * @throws DataError for archives, workbooks and other binary data, and for a text that is longer than a string can be
 */
export function decodeText(bytes: Uint8Array, file: string): DecodedText {
  for (const [first, advice] of NO_TEXT) {
    if (first.every((byte, i) => bytes[i] === byte)) throw new DataError(`not text, but ${advice}`, { file });
  }
  const assumed: string[] = [];
  let text: string;
  try {
    const marked =
      bytes[0] === 0xff && bytes[1] === 0xfe
        ? 'utf-16le'
        : bytes[0] === 0xfe && bytes[1] === 0xff
          ? 'utf-16be'
          : null;
    const encoding = marked ?? wide(bytes);
    if (encoding === null && isBinary(bytes))
      throw new DataError('not text, but binary data, such as a picture; give the numbers as CSV', { file });
    if (encoding !== null) {
      text = new TextDecoder(encoding).decode(bytes);
      const order = encoding === 'utf-16le' ? 'little-endian' : 'big-endian';
      assumed.push(
        `The file is read as UTF-16, ${order}${marked === null ? ', though it has no byte-order mark' : ''}.`,
      );
    } else {
      try {
        text = new TextDecoder('utf-8', { fatal: true }).decode(bytes);
      } catch (cause) {
        // A browser's error has no code.
        if (!(cause instanceof TypeError)) throw cause;
        text = new TextDecoder('windows-1252').decode(bytes);
        assumed.push('The file is not UTF-8; it is read as Windows-1252 (Western European).');
      }
    }
  } catch (cause) {
    if (cause instanceof DataError) throw cause;
    throw new DataError(`${bytes.length} bytes, more text than can be held; cut the file into parts`, {
      file,
      cause,
    });
  }
  if (text.includes('\0')) {
    const all = text.length;
    text = text.replaceAll('\0', '');
    assumed.push(`${all - text.length} NUL bytes were left out.`);
  }
  return { text, assumed };
}
