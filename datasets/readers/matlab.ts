/** MATLAB version 4 files (`save -v4`), such as the recordings of PhysioNet's 2017 challenge: `val`, one row per signal. */
import { ConfigError, DataError } from '../../src/ground/errors.ts';
import { type ByteSource, ELEMENTS, reading } from './byte-source.ts';
import { checkChannelCount, isInfinite, type RawRecord, rawRecord, stem } from './record.ts';

interface Variable {
  readonly name: string;
  readonly rows: number;
  readonly columns: number;
  readonly type: number;
  readonly littleEndian: boolean;
  readonly text: boolean;
  readonly complex: boolean;
  readonly sparse: boolean;
  /** Offset of the real part. */
  readonly offset: number;
}

/** Element types by the header's digit P. */
const TYPES = ['f8', 'f4', 'i4', 'i2', 'u2', 'u1'] as const;
const bytesOf = (type: number): number => Number(TYPES[type]!.slice(1));

const HEADER = 20;
const LONGEST_NAME = 1024;

/** Reads the header at `offset`: type MOPT as decimal digits, rows, columns, imaginary flag, length of the name. */
function readVariable(source: ByteSource, offset: number): { variable: Variable; next: number } {
  const fail = (message: string): DataError =>
    new DataError(`variable at byte ${offset}: ${message}`, { file: source.path });
  const head = source.read(offset, HEADER);
  const littleEndian = head.readUInt32LE(0) < 5000;
  const int = (at: number): number => (littleEndian ? head.readInt32LE(at) : head.readInt32BE(at));
  const mopt = int(0);
  const digit = (power: number): number => Math.floor(mopt / power) % 10;
  const machine = digit(1000);
  const type = digit(10);
  const kind = digit(1);
  if (mopt < 0 || mopt >= 5000 || digit(100) !== 0 || TYPES[type] === undefined || kind > 2) {
    throw fail(`no MATLAB version 4 header (type ${mopt})`);
  }
  if (machine > 1 || (machine === 0) !== littleEndian)
    throw fail(`numbers of another machine (type ${mopt})`);
  const rows = int(4);
  const columns = int(8);
  const imaginary = int(12);
  const nameLength = int(16);
  if (rows < 0 || columns < 0 || imaginary < 0 || imaginary > 1)
    throw fail(`a matrix of ${rows} × ${columns}`);
  if (nameLength < 1 || nameLength > LONGEST_NAME) throw fail(`a name of ${nameLength} bytes`);
  const name = source
    .read(offset + HEADER, nameLength)
    .toString('latin1')
    .replace(/\0.*$/s, '');
  const start = offset + HEADER + nameLength;
  const bytes = rows * columns * bytesOf(type);
  const next = start + bytes * (imaginary + 1);
  if (next > source.size) {
    throw fail(
      `"${name}" of ${rows} × ${columns} needs ${next - start} bytes, there are ${source.size - start}`,
    );
  }
  const variable: Variable = {
    name,
    rows,
    columns,
    type,
    littleEndian,
    text: kind === 1,
    complex: imaginary === 1,
    sparse: kind === 2,
    offset: start,
  };
  return { variable, next };
}

function readVariables(source: ByteSource): Variable[] {
  const start = source.read(0, Math.min(source.size, 12)).toString('latin1');
  if (/^MATLAB [57]|^.HDF/.test(start)) {
    throw new DataError('a MATLAB file of version 5 or later; save it with -v4', { file: source.path });
  }
  const variables: Variable[] = [];
  for (let offset = 0; offset < source.size; ) {
    const { variable, next } = readVariable(source, offset);
    variables.push(variable);
    offset = next;
  }
  return variables;
}

/** Channels of a matrix: its rows, as in PhysioNet; a vector is one channel either way. */
function channelsOf(source: ByteSource, variable: Variable): Float64Array[] {
  const { name, rows, columns, type, littleEndian, offset } = variable;
  const fail = (message: string): DataError =>
    new DataError(`variable ${JSON.stringify(name)}: ${message}`, { file: source.path });
  if (variable.text) throw fail('is text');
  if (variable.sparse) throw fail('is a sparse matrix; save full(...)');
  if (variable.complex) throw fail('is complex; save its real part or magnitude');
  if (rows * columns === 0) throw fail('is empty');
  const byRows = columns !== 1;
  const count = byRows ? rows : columns;
  checkChannelCount(count, { file: source.path });
  const [size, element] = [bytesOf(type), ELEMENTS[TYPES[type]!]!];
  const bytes = source.read(offset, rows * columns * size);
  const view = new DataView(bytes.buffer, bytes.byteOffset, bytes.byteLength);
  return Array.from({ length: count }, (_, c) => {
    const channel = new Float64Array(byRows ? columns : rows);
    for (let i = 0; i < channel.length; i++) {
      const value = element(view, (byRows ? i * rows + c : c * rows + i) * size, littleEndian);
      if (isInfinite(value))
        throw fail(`infinite value in channel ${c + 1}, point ${i + 1}; use NaN for a missing one`);
      channel[i] = value;
    }
    return channel;
  });
}

/**
 * Reads the numeric variables of a MATLAB version 4 file, each a record: id `name` where there is one, else
 * `name/variable`. All element types (double, single, int32, int16, uint16, uint8) in either byte order. Text
 * variables are no records. NaN is a missing value; values are as stored (2017: divide
 * by the gain of the `.hea`, 1000 per mV).
 * @param only name of the variable to read; without it, every numeric one is a record
 * @throws DataError for a damaged file, another version or machine, and unreadable variables. ConfigError for an unknown variable
 */
export function readMatlab(path: string, only?: string): Generator<RawRecord> {
  return reading(path, (source) => records(source, only));
}

function* records(source: ByteSource, only: string | undefined): Generator<RawRecord> {
  const { path } = source;
  const variables = readVariables(source);
  const chosen = variables.filter(({ name, text }) => (only === undefined ? !text : name === only));
  if (chosen.length === 0) {
    if (only === undefined) throw new DataError('no numeric variable', { file: path });
    const names = variables.map(({ name }) => JSON.stringify(name)).join(', ');
    throw new ConfigError(`${path} has no variable ${JSON.stringify(only)}; its variables: ${names}`);
  }
  for (const variable of chosen) {
    const id = chosen.length === 1 ? stem(path) : `${stem(path)}/${variable.name}`;
    yield rawRecord(path, id, channelsOf(source, variable));
  }
}
