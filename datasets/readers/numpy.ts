/** NumPy: `.npy` arrays (format versions 1 to 3), and `.npz` archives of series with labels. */
import { endianness } from 'node:os';
import { DataError } from '../../src/ground/errors.ts';
import { type ByteSource, ELEMENTS, partOf, reading } from './byte-source.ts';
import { checkChannelCount, isInfinite, pointLabels, type RawRecord, rawRecord, stem } from './record.ts';
import { readZip, type ZipEntry } from './zip.ts';

interface NpyArray {
  /** Kind and size as NumPy writes it, without the byte order: `f8`, `i2`, `b1`, … */
  readonly type: string;
  readonly shape: readonly number[];
  /** Elements from one to the next along each axis. */
  readonly strides: readonly number[];
  readonly itemSize: number;
  readonly littleEndian: boolean;
  readonly data: ByteSource;
}

const MAGIC = '\x93NUMPY';
/** Maximum bytes of a header; NumPy's own limit for trusted files is far below. */
const LONGEST_HEADER = 1 << 20;

const REFUSED: Readonly<Record<string, string>> = {
  O: 'Python objects, which only Python can read; save numbers (dtype float64)',
  U: 'text; save numbers',
  S: 'bytes; save numbers',
  V: 'structures; save one array per field',
  c: 'complex numbers; save their real parts or magnitudes',
  M: 'dates; save them as numbers',
  m: 'durations; save them as numbers',
  f: 'floating-point numbers of this size; save float64',
};

/**
 * Reads the header of an array.
 * @param text accepts texts as well (type `U3`, of four bytes a character)
 * @throws DataError for a damaged header, an element type that is not a number, an empty axis, and missing bytes
 */
function readNpyHeader(source: ByteSource, text = false): NpyArray {
  const fail = (message: string): DataError => new DataError(message, { file: source.path });
  if (source.size < 12 || source.read(0, 6).toString('latin1') !== MAGIC) throw fail('not an .npy array');
  const head = source.read(0, 12);
  const version = head[6]!;
  if (version < 1 || version > 3) throw fail(`.npy version ${version}; versions 1 to 3 are read`);
  const start = version === 1 ? 10 : 12;
  const length = version === 1 ? head.readUInt16LE(8) : head.readUInt32LE(8);
  if (length > LONGEST_HEADER) throw fail(`a header of ${length} bytes`);
  const header = source.read(start, length).toString('latin1');

  const descr = /['"]descr['"]\s*:\s*(['"])(.*?)\1/.exec(header)?.[2];
  const fortran = /['"]fortran_order['"]\s*:\s*(True|False)/.exec(header)?.[1];
  const dimensions = /['"]shape['"]\s*:\s*\(([\d\s,L]*)\)/.exec(header)?.[1];
  if (/['"]descr['"]\s*:\s*\[/.test(header)) throw fail(`an array of ${REFUSED['V']}`);
  if (descr === undefined || fortran === undefined || dimensions === undefined) {
    throw fail('a header without descr, fortran_order and shape');
  }
  const [, order, type] = /^([<>=|])([a-zA-Z]\d+)$/.exec(descr) ?? [];
  const words = text && type?.[0] === 'U';
  if (type === undefined || (ELEMENTS[type] === undefined && !words)) {
    const kind =
      REFUSED[(type ?? descr.replace(/^[<>=|]/, ''))[0] ?? ''] ?? 'an element type that is not read';
    throw fail(`an array of dtype ${JSON.stringify(descr.slice(0, 40))}: ${kind}`);
  }
  const shape = dimensions
    .split(',')
    .map((text) => text.trim().replace(/L$/, ''))
    .filter((text) => text !== '')
    .map(Number);
  if (shape.length === 0) throw fail('a single number; expected an array');
  if (shape.some((size) => size === 0)) throw fail(`an empty array of shape (${shape.join(', ')})`);
  const itemSize = Number(type.slice(1)) * (words ? 4 : 1);
  const bytes = shape.reduce((product, size) => product * size, itemSize);
  const available = source.size - start - length;
  if (!(bytes <= available))
    throw fail(`shape (${shape.join(', ')}) needs ${bytes} bytes, there are ${available}`);
  const strides: number[] = [];
  let step = 1;
  const axes = shape.map((_, axis) => axis);
  for (const axis of fortran === 'True' ? axes : axes.reverse()) {
    strides[axis] = step;
    step *= shape[axis]!;
  }
  const littleEndian = order === '<' || (order !== '>' && endianness() === 'LE');
  return { type, shape, strides, itemSize, littleEndian, data: partOf(source, start + length, bytes) };
}

function vector(array: NpyArray): Float64Array {
  const element = ELEMENTS[array.type]!;
  const bytes = array.data.read(0, array.data.size);
  const view = new DataView(bytes.buffer, bytes.byteOffset, bytes.byteLength);
  return Float64Array.from({ length: array.shape[0]! }, (_, i) =>
    element(view, i * array.itemSize, array.littleEndian),
  );
}

/** Texts of an array of type `U`: UTF-32, filled up with zeros. @throws DataError for a code that is no character */
function texts({ data, shape, itemSize, littleEndian }: NpyArray): string[] {
  const bytes = data.read(0, data.size);
  return Array.from({ length: shape[0]! }, (_, i) => {
    let text = '';
    for (let at = i * itemSize; at < (i + 1) * itemSize; at += 4) {
      const code = littleEndian ? bytes.readUInt32LE(at) : bytes.readUInt32BE(at);
      if (code > 0x10ffff) throw new DataError(`text ${i} is not Unicode`, { file: data.path });
      if (code !== 0) text += String.fromCodePoint(code);
    }
    return text;
  });
}

/**
 * Size and stride of an array's axes: time of one axis; cases and time of two; cases, channels and time of three, where a last axis of one
 * is the channel, as tslearn and Keras have it.
 * @throws DataError for more than three
 */
function axesOf({
  shape,
  strides,
  data,
}: NpyArray): Record<'cases' | 'channels' | 'points', [number, number]> {
  const rank = shape.length;
  if (rank > 3) throw new DataError(`an array of ${rank} axes; at most 3 are read`, { file: data.path });
  const along = (axis: number): [size: number, stride: number] => [shape[axis]!, strides[axis]!];
  const time = rank === 3 && shape[2] === 1 ? 1 : rank - 1;
  return {
    cases: rank > 1 ? along(0) : [1, 0],
    channels: rank > 2 ? along(3 - time) : [1, 0],
    points: along(time),
  };
}

/**
 * The channels [C][T] of every case, in order.
 *
 * A case whose elements lie together is read alone; otherwise the array is held whole, up to 1 GiB.
 * @throws DataError for infinities, and for an array too large to be held
 */
function* casesOf(array: NpyArray): Generator<Float64Array[]> {
  const { data, itemSize, littleEndian } = array;
  const fail = (message: string): DataError => new DataError(message, { file: data.path });
  const element = ELEMENTS[array.type]!;
  const axes = axesOf(array);
  const [cases, caseStride] = axes.cases;
  const [channels, channelStride] = axes.channels;
  const [points, pointStride] = axes.points;
  checkChannelCount(channels, { file: data.path });
  const together = cases === 1 || caseStride === channels * points;
  const whole = together ? null : data.read(0, data.size);
  for (let n = 0; n < cases; n++) {
    const bytes = whole ?? data.read(n * channels * points * itemSize, channels * points * itemSize);
    const view = new DataView(bytes.buffer, bytes.byteOffset, bytes.byteLength);
    const base = whole === null ? 0 : n * caseStride;
    const out: Float64Array[] = [];
    for (let c = 0; c < channels; c++) {
      const channel = new Float64Array(points);
      for (let t = 0; t < points; t++) {
        const value = element(view, (base + c * channelStride + t * pointStride) * itemSize, littleEndian);
        if (isInfinite(value))
          throw fail(`infinite value in case ${n}, channel ${c}, point ${t}; use NaN for a missing one`);
        channel[t] = value;
      }
      out.push(channel);
    }
    yield out;
  }
}

/**
 * Reads the series of an `.npy` file: versions 1 to 3; float16/32/64, signed and unsigned integers of 8 to 64 bits,
 * booleans; either byte order; C and Fortran order. Several cases have ids `name/index` from 0. NaN is a missing
 * value.
 * @param rows reads an array of two axes as one series with a row for each point and a column for each channel
 * @throws DataError as `readNpyHeader` and `casesOf`, and for more than three axes
 */
export function readNpy(path: string, rows = false): Generator<RawRecord> {
  return reading(path, (source) => {
    const array = readNpyHeader(source);
    const [points, channels, more] = array.shape;
    if (!rows || channels === undefined || more !== undefined) return records(path, array);
    const [down, across] = array.strides as [number, number];
    return records(path, { ...array, shape: [1, channels, points!], strides: [0, across, down] });
  });
}

function* records(path: string, array: NpyArray): Generator<RawRecord> {
  const name = stem(path);
  let index = 0;
  for (const channels of casesOf(array)) {
    yield rawRecord(path, array.shape.length > 1 ? `${name}/${index++}` : name, channels);
  }
}

const VALUES = ['X', 'x', 'data', 'values'];
const LABELS = ['y', 'Y', 'label', 'labels'];
const GROUPS = ['group', 'groups', 'subject', 'subjects'];

const SPLIT = 'train|test|val|valid|validation';
const BEHIND = new RegExp(`^(.+)_(${SPLIT})$`, 'i');
const BEFORE = new RegExp(`^(${SPLIT})_(.+)$`, 'i');

/** An array by the part of the data that its name begins or ends with: `X_train`, `train_X`. */
interface Named {
  readonly name: string;
  readonly split: string | null;
  /** The name without its part. */
  readonly short: string;
}

function named(name: string): Named {
  const [, short, split] = BEHIND.exec(name) ?? [];
  const [, ahead, rest] = BEFORE.exec(name) ?? [];
  return { name, split: (split ?? ahead)?.toLowerCase() ?? null, short: short ?? rest ?? name };
}

/** Arrays by the part of the data that they belong to. One part of all arrays if no name has a part, or a usual name lacks one. */
function partsOf(names: readonly string[]): [split: string | null, arrays: Named[]][] {
  const all = names.map(named);
  const splits = new Set(all.flatMap(({ split }) => split ?? []));
  const usual = [...VALUES, ...LABELS];
  if (splits.size === 0 || all.some(({ split, short }) => split === null && usual.includes(short)))
    return [[null, names.map((name) => ({ name, split: null, short: name }))]];
  return Array.from(splits, (split) => [split, all.filter((one) => one.split === split)]);
}

/** Names of the arrays that hold the series of a part, their labels and groups; of several, by the usual names. */
interface Chosen {
  readonly values: string;
  readonly labels: string | null;
  readonly groups: string | null;
}

function choose(all: readonly Named[], path: string): Chosen {
  const nameOf = (usual: readonly string[]): string | null =>
    usual.flatMap((short) => all.filter((one) => one.short === short))[0]?.name ?? null;
  const [labels, groups] = [nameOf(LABELS), nameOf(GROUPS)];
  const others = all.map(({ name }) => name).filter((name) => name !== labels && name !== groups);
  const values = others.length === 1 ? others[0]! : nameOf(VALUES);
  if (values !== null) return { values, labels, groups };
  const list = all.map(({ name }) => JSON.stringify(name)).join(', ');
  throw new DataError(
    all.length === 0
      ? 'no arrays; save the series as X and their labels as y'
      : `${list}: none of these is known to hold the series; call them X, and their labels y, or X_train, y_train, X_test and y_test`,
    { file: path },
  );
}

/** Names of arrays of series, labels or groups. */
const TELLING = /^(?:[xy]|data|values|labels?|groups?|subjects?)(?:_|$)|_[xy]$/i;

/** Names of arrays that only describe those. */
const DESCRIBING = /_(?:names?|map|mean|std|description|info)s?$/i;

/** @throws DataError for an array that is not read though its name says series, labels or groups, and for groups in some parts only */
function checkRead(names: readonly string[], parts: readonly Chosen[], path: string): void {
  const read = new Set(parts.flatMap(({ values, labels, groups }) => [values, labels, groups]));
  const left = names.filter((name) => !read.has(name) && TELLING.test(name) && !DESCRIBING.test(name));
  if (left.length > 0) {
    throw new DataError(
      `${left.map((name) => JSON.stringify(name)).join(', ')}: what it holds is not clear beside ${[...read].filter(Boolean).join(', ')}; leave it out, or name all arrays by their part: X_train, y_train, subject_train, X_test, …`,
      { file: path },
    );
  }
  const without = parts.find(({ groups }) => groups === null);
  if (without !== undefined && parts.some(({ groups }) => groups !== null)) {
    throw new DataError(`${JSON.stringify(without.values)} has no groups, and another part has; add them`, {
      file: path,
    });
  }
}

/**
 * Reads the series of an `.npz` archive (stored or deflated entries, zip64). With an axis of cases, `labels` and `groups` have a number or
 * a text per case: the record's label and group. Without one, and as many labels as points, they are point labels (0 or 1). Arrays
 * `X_train`, `y_train`, `X_test` and `y_test` (or `train_X`, …) are the parts of one data set, which each record names. Arrays of other
 * names, such as `classes`, are not read. Ids as in `readNpy`, with the part before the index.
 * @throws DataError as `readNpy` and `readZip`; for arrays whose role is not clear, and labels or groups that do not fit
 */
export function readNpz(path: string): Generator<RawRecord> {
  return reading(path, npzRecords);
}

function* npzRecords(source: ByteSource): Generator<RawRecord> {
  const { path } = source;
  const entries = new Map(readZip(source).map((entry) => [entry.name.replace(/\.npy$/, ''), entry]));
  const parts = partsOf([...entries.keys()]).map(([split, arrays]) => ({ split, ...choose(arrays, path) }));
  checkRead([...entries.keys()], parts, path);
  for (const { split, ...names } of parts) yield* partRecords(entries, names, split, path);
}

/** One number, or text, per case. @throws DataError for another shape, and for a number that is not finite, or an empty text */
function perCase(
  entry: ZipEntry,
  kind: 'label' | 'group',
  expected: number,
  text: boolean,
): Float64Array | string[] {
  const array = readNpyHeader(entry.open(), text);
  const { shape, data } = array;
  const size = shape.reduce((product, along) => product * along, 1);
  if (size !== expected || shape[0] !== expected) {
    const isHot = shape.length === 2 && shape[0] === expected;
    const fix = isHot ? ', a number per series, as argmax(axis=1) gives for one-hot labels' : '';
    throw new DataError(`${kind}s of shape (${shape.join(', ')}); expected (${expected})${fix}`, {
      file: data.path,
    });
  }
  const values = array.type[0] === 'U' ? texts(array) : vector(array);
  const absent = values.findIndex(
    (value) => value === '' || (typeof value === 'number' && !Number.isFinite(value)),
  );
  if (absent >= 0)
    throw new DataError(
      `${kind} of series ${absent} is ${values[absent] === '' ? 'empty' : values[absent]}`,
      { file: data.path },
    );
  return values;
}

function* partRecords(
  entries: ReadonlyMap<string, ZipEntry>,
  names: Chosen,
  split: string | null,
  path: string,
): Generator<RawRecord> {
  const array: NpyArray = readNpyHeader(entries.get(names.values)!.open());
  const isSeries = array.shape.length === 1;
  const each = (name: string | null, kind: 'label' | 'group'): Float64Array | string[] | null =>
    name === null ? null : perCase(entries.get(name)!, kind, array.shape[0]!, !isSeries);
  const labels = each(names.labels, 'label');
  const name = split === null ? stem(path) : `${stem(path)}/${split}`;
  if (isSeries) {
    const anomalies = labels === null ? null : pointLabels(labels as Float64Array, names.labels!, path);
    for (const channels of casesOf(array)) yield rawRecord(path, name, channels, { anomalies, split });
    return;
  }
  const groups = each(names.groups, 'group');
  const at = (all: Float64Array | string[] | null, index: number): string | null =>
    all === null ? null : String(all[index]!);
  let index = 0;
  for (const channels of casesOf(array)) {
    const [label, group] = [at(labels, index), at(groups, index)];
    yield rawRecord(path, `${name}/${index++}`, channels, { label, group, split });
  }
}
