/** Families of benchmarks that are opened alike: data sets of the classification archive, folders of labelled series, generated ones. */
import { basename, relative } from 'node:path';
import { ConfigError, DataError } from '../../src/ground/errors.ts';
import { ANOMALY_CLASSES, type AnomalyClass, type Example } from '../../src/ground/types.ts';
import { within } from '../../src/series/intervals.ts';
import { VALUE_CHANNEL } from '../example.ts';
import { readRecords } from '../readers/formats.ts';
import { anomalousIntervals, knownLength, type RawRecord, risingTimes } from '../readers/record.ts';
import { checkAddress, DEFAULT_SEED, SPLITS, type Split } from '../split.ts';
import type { Benchmark, BenchmarkOptions, Generator, Loaded, OpenBenchmark } from './benchmark.ts';
import {
  checkWindow,
  classesOf,
  evenWindows,
  filesBelow,
  folderOf,
  labelReader,
  need,
  refuseWindow,
} from './source-files.ts';

interface ArchiveBenchmark
  extends Pick<Benchmark, 'name' | 'title' | 'rate' | 'shape' | 'figure' | 'prompt'> {
  readonly archive: string;
  readonly description: string;
  readonly licence: string;
  readonly citation: string | null;
  /** Class by label, in the order of prompts. */
  readonly labels: Readonly<Record<string, string>>;
  readonly split: string;
}

/** Extensions in order of preference; `.txt` has the values of `.tsv` between blanks. */
export const EXTENSIONS = ['ts', 'tsv', 'arff', 'txt'];
const ADDRESS = 'https://timeseriesclassification.com/aeon-toolkit';

/** Cuts off the NaN with which the archive pads short series. */
function withoutFill(channels: readonly Float64Array[]): Float64Array[] {
  const length = knownLength(channels);
  return channels.map((channel) => {
    if (channel.length === length) return channel;
    const whole = new Float64Array(length).fill(Number.NaN);
    whole.set(channel.subarray(0, length));
    return whole;
  });
}

const channelNames = (count: number, names: readonly string[]): readonly string[] =>
  count === 1 ? ['value'] : names;

export function archiveBenchmark(facts: ArchiveBenchmark): Benchmark {
  const { archive, name, title, rate, shape, figure, prompt, labels } = facts;
  const classes = classesOf(labels);
  const read = labelReader(labels);
  const layout = `${archive}_TRAIN and ${archive}_TEST as .ts, .tsv, .arff or .txt`;
  const spec: Benchmark = {
    ...{ name, title, kind: 'classification', classes, rate, shape, figure, prompt, layout },
    needs: 'download',
    source: {
      description: facts.description,
      licence: facts.licence,
      citation: facts.citation,
      addresses: [{ url: `${ADDRESS}/${archive}.zip`, sha256: null, unpack: true }],
    },
    open({ directory, window }) {
      refuseWindow(name, window);
      const folder = folderOf(spec, directory);
      const all = filesBelow(folder);
      const parts = (['train', 'test'] as const).map((split): [Split, string] => {
        const names = EXTENSIONS.map((extension) => `${archive}_${split.toUpperCase()}.${extension}`);
        return [split, need(all, names, folder, spec)];
      });
      const exampleOf = (split: Split, record: RawRecord, index: number): Loaded => {
        const channels = withoutFill(record.channels);
        return {
          split,
          example: {
            id: `${name}/${split}/${index}`,
            task: name,
            channels,
            names: channelNames(channels.length, record.channelNames),
            times: null,
            gold: { kind: 'classification', class: read(record.label, record) },
            recording: null,
          },
        };
      };
      return {
        files: parts.map(([, file]) => file),
        classes: () => classes,
        parameters: {},
        plan: {
          by: 'given',
          statement: `Split of the archive (${archive}_TRAIN and ${archive}_TEST). ${facts.split}`,
          recordingsApart: null,
          validation: 'example',
        },
        *load() {
          for (const [split, file] of parts) {
            let index = 0;
            for (const record of readRecords(file)) yield exampleOf(split, record, index++);
          }
        },
      };
    },
  };
  return spec;
}

/** Default points of an example: those of AnomSeer's series. */
export const ANOMALY_WINDOW = 1000;

interface SeriesFiles {
  readonly series: readonly string[];
  /** Other files that are read. */
  readonly others?: readonly string[];
  readonly notes?: readonly string[];
  readonly read: (file: string) => Iterable<RawRecord>;
}

interface AnomalyFilesBenchmark
  extends Pick<Benchmark, 'name' | 'title' | 'source' | 'shape' | 'prompt' | 'layout' | 'needs'> {
  /** Finds its series among the files of a folder. @throws DataError where something else is missing */
  readonly find: (files: readonly string[], folder: string) => SeriesFiles;
  readonly statement: string;
}

interface AnomalyExampleOptions {
  readonly task: string;
  /** ID of the record; its windows get `/0`, `/1` … */
  readonly id: string;
  /** Maximum points of an example; null: never cut. */
  readonly window: number | null;
  /** Kind of its anomalies; null where it is unknown. */
  readonly class?: AnomalyClass | null;
  /** Default: the id. */
  readonly recording?: string | undefined;
  /** Receives notes on tolerated faults and parts left out. */
  readonly note: (text: string) => void;
}

/**
 * Cuts a labelled record into examples. The class of one without an anomaly is 'normal'.
 * @throws DataError for a record without labels, or with channels of different lengths
 */
export function* anomalyExamples(record: RawRecord, options: AnomalyExampleOptions): Iterable<Example> {
  const { task, id, window, note, recording = id } = options;
  const { channels, channelNames, path } = record;
  const length = channels[0]!.length;
  if (channels.some((channel) => channel.length !== length)) {
    throw new DataError(`${record.id}: channels of different lengths`, { file: path });
  }
  const intervals = anomalousIntervals(record);
  if (intervals === null) throw new DataError('no labels; expected a label for every point', { file: path });
  const name = basename(path);
  const times = risingTimes(record);
  if (times !== record.times)
    note(`${name}: times that fall are left out; points are in the order of the file`);
  const windows = evenWindows(length, window);
  let blank = 0;
  for (const [index, span] of windows.entries()) {
    const [start, end] = span;
    const parts = channels.map((channel) => channel.slice(start, end));
    if (end - start < 2 || parts.every((part) => part.every((value) => Number.isNaN(value)))) {
      blank++;
      continue;
    }
    const marked = within(intervals, span);
    yield {
      id: window === null ? id : `${id}/${index}`,
      task,
      channels: parts,
      names: channels.length === 1 ? [VALUE_CHANNEL] : channelNames,
      times: times === null ? null : times.slice(start, end),
      gold: {
        kind: 'anomaly',
        class: marked.length === 0 ? 'normal' : (options.class ?? null),
        intervals: marked,
      },
      recording,
    };
  }
  if (blank > 0) note(`${name}: ${blank} of ${windows.length} windows without a value are left out`);
}

/** Split plan of evaluation sets: all test, unless a split by series is requested. */
function evaluationPlan(statement: string): OpenBenchmark['plan'] {
  return {
    by: 'recording',
    sizes: { train: 0, validation: 0, test: 1 },
    statement,
    recordingsApart: true,
  };
}

export function anomalyFilesBenchmark(facts: AnomalyFilesBenchmark): Benchmark {
  const { find, statement, ...rest } = facts;
  const spec: Benchmark = {
    ...rest,
    kind: 'anomaly',
    // Kinds are not named: an answer may be any of them, and only 'normal' can be graded.
    classes: ANOMALY_CLASSES,
    rate: null,
    figure: { preset: 'line', missing: 'break' },
    open({ directory, window = ANOMALY_WINDOW }: BenchmarkOptions): OpenBenchmark {
      checkWindow(window);
      const folder = folderOf(spec, directory);
      const { series, others = [], notes: left = [], read } = find(filesBelow(folder), folder);
      if (series.length === 0) {
        throw new DataError(`holds none of its files; ${spec.name} needs ${spec.layout}`, { file: folder });
      }
      let notes = [...left];
      return {
        files: [...others, ...series],
        classes: () => ANOMALY_CLASSES,
        parameters: { window },
        notes: () => notes,
        plan: evaluationPlan(statement),
        *load(): Iterable<Loaded> {
          notes = [...left];
          for (const file of series) {
            const id = `${spec.name}/${relative(folder, file).replaceAll('\\', '/')}`;
            for (const record of read(file)) {
              const note = (text: string): void => void notes.push(text);
              for (const example of anomalyExamples(record, { task: spec.name, id, window, note })) {
                yield { split: null, example };
              }
            }
          }
        },
      };
    },
  };
  return spec;
}

export interface GeneratedBenchmark
  extends Generator,
    Pick<Benchmark, 'name' | 'title' | 'kind' | 'shape' | 'figure' | 'prompt' | 'classes'> {
  /** Limitations of policies trained on it from random weights, beside that of all synthetic series. */
  readonly limitations?: readonly string[];
  readonly description: string;
  readonly citation: string | null;
  /** Note on the relation between examples of one split. */
  readonly pairing?: string;
  /** Default number of examples per split. */
  readonly counts: Readonly<Record<Split, number>>;
}

const STATEMENT =
  'Generated: splits draw from random streams of their own, so no example is in two of them, whatever the seeds.';

const SYNTHETIC = 'It learned to look and to describe from synthetic series alone.';

export function generatedBenchmark(facts: GeneratedBenchmark): Benchmark {
  const { name, title, kind, shape, figure, prompt, classes, description, citation } = facts;
  const { minimumLength, parameters, at } = facts;
  return {
    ...{ name, title, kind, shape, figure, prompt, classes },
    limitations: [SYNTHETIC, ...(facts.limitations ?? [])],
    generator: { length: facts.length, minimumLength, parameters, at },
    rate: null,
    needs: 'nothing',
    layout: 'no files',
    source: { description, licence: 'none needed: generated', citation, addresses: [] },
    open(options) {
      if (options.directory !== null) throw new ConfigError(`${name}: is generated; leave --from out`);
      if (options.window != null) {
        throw new ConfigError(`${name}: is generated in any length; leave --window out, and give --length`);
      }
      const { length = facts.length, seed, offset = 0 } = options;
      const counts = { ...facts.counts, ...options.counts };
      for (const split of SPLITS) {
        const last = offset + Math.max(counts[split] - 1, 0);
        for (const index of [offset, last]) {
          checkAddress(seed ?? DEFAULT_SEED[split], index, length, minimumLength);
        }
      }
      const seeds = Object.fromEntries(SPLITS.map((split) => [split, seed ?? DEFAULT_SEED[split]]));
      return {
        files: [],
        classes: () => classes ?? [],
        parameters: { seeds, length, ...(offset === 0 ? {} : { offset }), ...parameters },
        total: SPLITS.reduce((sum, split) => sum + counts[split], 0),
        plan: {
          by: 'given',
          statement: facts.pairing === undefined ? STATEMENT : `${STATEMENT} ${facts.pairing}`,
          recordingsApart: null,
          validation: { refused: 'it is generated as well, with a stream of its own' },
        },
        *load(): Iterable<Loaded> {
          for (const split of SPLITS) {
            for (let index = 0; index < counts[split]; index++) {
              yield { split, example: at(seed ?? DEFAULT_SEED[split], split, offset + index, length) };
            }
          }
        },
      };
    },
  };
}
