/** NumPy's `.npz` archives: one array of series, and with it perhaps an array of labels. */
import { ConfigError, DataError } from '../../src/errors.ts';
import { pointLabels } from './anomaly-label.ts';
import { type Axes, axesOf, caseCount, casesOf, type NpyArray, readNpyHeader, vector } from './npy.ts';
import { fileFacts, type RawRecord, rawRecord, stem } from './record.ts';
import { type ByteSource, reading } from './source.ts';
import { readZip } from './zip.ts';

export interface NpzReadOptions {
  /** Name of the array of series; by default the only array beside the labels, else `X`, `x`, `data` or `values`. */
  readonly values?: string | undefined;
  /** Name of the array of labels; by default `y`, `Y`, `label` or `labels` where there is one. */
  readonly labels?: string | undefined;
  /** Default by rank: `t`, `nt`, `nct`. */
  readonly axes?: Axes | undefined;
}

const VALUES = ['X', 'x', 'data', 'values'];
const LABELS = ['y', 'Y', 'label', 'labels'];

/** Which of the archive's arrays hold the series and the labels. */
function choose(names: readonly string[], options: NpzReadOptions, path: string): [string, string | null] {
  const list = names.map((name) => JSON.stringify(name)).join(', ');
  for (const wanted of [options.values, options.labels]) {
    if (wanted !== undefined && !names.includes(wanted)) {
      throw new ConfigError(`${path} has no array ${JSON.stringify(wanted)}; its arrays: ${list}`);
    }
  }
  const labels =
    options.labels ?? LABELS.find((name) => names.includes(name) && name !== options.values) ?? null;
  const others = names.filter((name) => name !== labels);
  const values =
    options.values ?? (others.length === 1 ? others[0] : VALUES.find((name) => others.includes(name)));
  if (values !== undefined) return [values, labels];
  throw new DataError(
    names.length === 0 ? 'no arrays' : `${names.length} arrays: ${list}; say which holds the series`,
    { file: path },
  );
}

/**
 * Reads the series of an `.npz` archive (stored or deflated entries, zip64). With an axis of cases, `labels` has one
 * number per case, which becomes the record's label; without one, and as many labels as points, they are point
 * labels (0 or 1). Ids as in `readNpy`.
 *
 * @throws DataError as `readNpy` and `readZip`; for several arrays of which none is known by name; for labels of
 * another number than the cases, or that are text or objects. ConfigError for a name that is not there
 */
export function readNpz(path: string, options: NpzReadOptions = {}): Generator<RawRecord> {
  return reading(path, (source) => records(source, options));
}

function* records(source: ByteSource, options: NpzReadOptions): Generator<RawRecord> {
  const { path } = source;
  const entries = new Map(readZip(source).map((entry) => [entry.name.replace(/\.npy$/, ''), entry]));
  const [valuesName, labelsName] = choose([...entries.keys()], options, path);
  const array: NpyArray = readNpyHeader(entries.get(valuesName)!.open());
  const axes = axesOf(array, options.axes);
  let labels: Float64Array | null = null;
  if (labelsName !== null) {
    const marks = readNpyHeader(entries.get(labelsName)!.open());
    const expected = axes.includes('n') ? caseCount(array, axes) : array.shape[axes.indexOf('t')]!;
    const flat = marks.shape.reduce((product, size) => product * size, 1);
    if (flat !== expected || marks.shape[0] !== expected) {
      throw new DataError(`labels of shape (${marks.shape.join(', ')}); expected (${expected})`, {
        file: marks.data.path,
      });
    }
    labels = vector(marks);
    const absent = labels.findIndex((label) => !Number.isFinite(label));
    if (absent >= 0) throw new DataError(`label ${absent} is ${labels[absent]}`, { file: marks.data.path });
  }
  const file = fileFacts(path, 'npz');
  const name = stem(path);
  if (!axes.includes('n')) {
    const anomalies = labels === null ? null : pointLabels(labels, labelsName!, path);
    for (const channels of casesOf(array, axes)) yield rawRecord(file, name, channels, { anomalies });
    return;
  }
  let index = 0;
  for (const channels of casesOf(array, axes)) {
    const label = labels === null ? null : String(labels[index]!);
    yield rawRecord(file, `${name}/${index++}`, channels, { label });
  }
}
