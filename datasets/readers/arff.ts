/**
 * `.arff` files (Weka) of the UCR and UEA archives: one series per line, either one numeric attribute per point, or
 * one relational attribute that holds a quoted matrix whose rows (`\n`) are the channels. The class is a nominal
 * attribute.
 */
import { DataError } from '../../src/ground/errors.ts';
import { Column, checkChannelCount, type RawRecord, rawRecord, stem } from './record.ts';
import { COMMAS, END, LINE, LINES, type Scanner, scanning, stopsAt } from './scanner.ts';

const COMMA = 44;
const COMMENTS = new Set([37]); // %
const BRACE = 123;
const AT = 64;
const BACKSLASH = 92;
const SINGLE = 39;
const DOUBLE = 34;
const N = 110;

const MATRIX: Readonly<Record<number, Uint8Array>> = { [SINGLE]: stopsAt(",\\'"), [DOUBLE]: stopsAt(',\\"') };
const QUOTED: Readonly<Record<number, Uint8Array>> = { [SINGLE]: stopsAt("'"), [DOUBLE]: stopsAt('"') };

const ATTRIBUTE = /^@attribute\s+('(?:[^'\\]|\\.)*'|"(?:[^"\\]|\\.)*"|[^\s{'"]+)\s*(.*)$/is;
const CLASS_NAME = /^(?:class|classatt|target|label)$/i;

interface Header {
  readonly width: number;
  /** Index of the class among them; −1 without one. */
  readonly label: number;
  readonly relational: boolean;
}

const bare = (name: string): string => name.replace(/^(['"])(.*)\1$/s, '$2').replace(/\\(.)/g, '$1');

function readHeader(scanner: Scanner): Header {
  let width = 0;
  let numeric = 0;
  let label = -1;
  let lastName = '';
  let relational = -1;
  let inside = false;
  for (;;) {
    if (!scanner.atLine(COMMENTS)) throw new DataError('no @data line', { file: scanner.path });
    scanner.next(LINES);
    const text = scanner.text();
    if (/^@data\b/i.test(text)) break;
    if (/^@relation\b/i.test(text)) continue;
    if (/^@end\b/i.test(text)) inside = false;
    else if (/^@attribute\b/i.test(text)) {
      const match = ATTRIBUTE.exec(text);
      if (match === null) throw scanner.fail('expected @attribute NAME TYPE');
      const name = bare(match[1]!);
      const type = match[2]!.trim();
      if (inside) {
        if (!/^(?:numeric|real|integer)\b/i.test(type)) {
          throw scanner.fail(`attribute "${name}" of a relational attribute is not numeric`);
        }
        continue;
      }
      if (type.startsWith('{')) {
        if (label >= 0) throw scanner.fail(`a second nominal attribute, "${name}"; expected one class`);
        label = width;
      } else if (/^relational\b/i.test(type)) {
        if (relational >= 0) throw scanner.fail('a second relational attribute; expected one');
        relational = width;
        inside = true;
      } else if (/^(?:numeric|real|integer)\b/i.test(type)) numeric++;
      else
        throw scanner.fail(
          `attribute "${name}" is of type "${type.slice(0, 40)}"; expected numeric or a class`,
        );
      lastName = name;
      width++;
    } else throw scanner.fail('expected @relation, @attribute or @data');
  }
  if (label < 0 && CLASS_NAME.test(lastName) && width > 1) {
    label = width - 1; // a number to be predicted
    numeric--;
  }
  if (relational < 0 ? numeric < 1 : numeric > 0) {
    throw scanner.fail('expected numeric attributes, or one relational attribute, and at most one class');
  }
  return { width, label, relational: relational >= 0 };
}

/** A nominal value, quoted or not, and the byte that ends its field. */
function readLabel(scanner: Scanner): { label: string; stop: number } {
  const quote = QUOTED[scanner.peek()];
  let label: string;
  let stop: number;
  if (quote === undefined) {
    stop = scanner.next(COMMAS);
    label = scanner.text();
  } else {
    scanner.skip();
    const end = scanner.next(quote);
    label = scanner.text();
    if (end === LINE || end === END) throw scanner.fail('this quote never closes');
    stop = scanner.next(COMMAS);
    if (!scanner.empty) throw scanner.fail('text after a closing quote');
  }
  if (label === '' || label === '?') throw scanner.fail('a missing class');
  return { label, stop };
}

/** The quoted matrix of a relational attribute: channels between `\n`, values between commas. */
function readMatrix(scanner: Scanner, values: Column): { channels: Float64Array[]; stop: number } {
  const stops = MATRIX[scanner.peek()];
  if (stops === undefined) {
    scanner.next(COMMAS);
    throw scanner.fail('expected a quoted matrix');
  }
  scanner.skip();
  const channels: Float64Array[] = [];
  for (;;) {
    const stop = scanner.next(stops);
    if (stop === LINE || stop === END) throw scanner.fail('this quote never closes');
    const closing = stop !== COMMA && stop !== BACKSLASH;
    if (!(closing && scanner.empty && values.length === 0)) values.push(scanner.number());
    if (stop === COMMA) continue;
    if (values.length > 0) channels.push(values.take());
    checkChannelCount(channels.length, scanner.place);
    if (stop === BACKSLASH) {
      if (scanner.peek(false) !== N) {
        scanner.next(COMMAS);
        throw scanner.fail('expected \\n between the channels');
      }
      scanner.skip();
    } else break;
  }
  if (channels.length === 0) throw scanner.fail('a series without values');
  const stop = scanner.next(COMMAS);
  if (!scanner.empty) throw scanner.fail('text after a closing quote');
  return { channels, stop };
}

/**
 * Reads the series of an `.arff` file in the order of its lines; ids are `name/index` from 0.
 *
 * Tolerated: a byte-order mark; comments and blank lines anywhere; header words in any case; classes that were not
 * declared; `?`, `NaN` and empty fields, which are missing values (NaN); channels of unequal lengths and another
 * number of them per line. The class is the only nominal attribute wherever it stands, else a last numeric
 * attribute named class, target or label.
 * @throws DataError with line and column for content of another form; for a file without `@data` or series
 */
export function readArff(path: string): Generator<RawRecord> {
  return scanning(path, readSeries);
}

function* readSeries(scanner: Scanner): Generator<RawRecord> {
  const { width, label: labelAt, relational } = readHeader(scanner);
  const name = stem(scanner.path);
  const values = new Column();
  let index = 0;
  while (scanner.atLine(COMMENTS)) {
    const code = scanner.peek();
    if (code === BRACE || code === AT) {
      scanner.next(LINES);
      throw scanner.fail(
        code === AT ? 'a header line among the data' : 'a sparse row ({index value, …}); write it in full',
      );
    }
    let channels: Float64Array[] = [];
    let label: string | null = null;
    let fields = 0;
    for (let stop = COMMA; stop === COMMA; fields++) {
      if (fields === width) {
        scanner.next(COMMAS);
        throw scanner.fail(`more fields than the ${width} attributes`);
      }
      if (fields === labelAt) ({ label, stop } = readLabel(scanner));
      else if (relational) ({ channels, stop } = readMatrix(scanner, values));
      else {
        stop = scanner.next(COMMAS);
        values.push(scanner.number());
      }
    }
    if (fields !== width) throw scanner.fail(`${fields} fields, there are ${width} attributes`);
    if (!relational) channels = [values.take()];
    yield rawRecord(scanner.path, `${name}/${index++}`, channels, { label });
  }
  if (index === 0) throw new DataError('no series after @data', { file: scanner.path });
}
