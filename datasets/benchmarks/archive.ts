/** Tasks that are data sets of the time-series classification archive: two files, NAME_TRAIN and NAME_TEST. */

import { readRecords } from '../readers/formats.ts';
import type { RawRecord } from '../readers/record.ts';
import type { Split } from '../split.ts';
import type { Benchmark, Loaded } from './benchmark.ts';
import { filesBelow, folderOf, need } from './find-files.ts';
import { classesOf, labelReader } from './labels.ts';
import { refuseWindow } from './window.ts';

/** What is different from one data set of the archive to the next. */
export interface ArchiveBenchmark
  extends Pick<Benchmark, 'name' | 'title' | 'rate' | 'shape' | 'figure' | 'prompt'> {
  /** Its name in the archive. */
  readonly archive: string;
  readonly description: string;
  readonly licence: string;
  readonly citation: string | null;
  /** Class by label, in the order of prompts. */
  readonly labels: Readonly<Record<string, string>>;
  /** What is to be said of the archive's split. */
  readonly split: string;
}

/** Extensions in order of preference; `.txt` has the values of `.tsv` between blanks. */
const EXTENSIONS = ['ts', 'tsv', 'arff', 'txt'];
/** Where the archive offers its data sets. */
const ADDRESS = 'https://timeseriesclassification.com/aeon-toolkit';

/** The points that short series are filled up with at the end are no points. */
function withoutFill(channels: readonly Float64Array[]): Float64Array[] {
  let length = Math.max(...channels.map((channel) => channel.length));
  while (length > 0 && channels.every((channel) => !Number.isFinite(channel[length - 1]))) length--;
  return channels.map((channel) => {
    if (channel.length === length) return channel;
    const whole = new Float64Array(length).fill(Number.NaN);
    whole.set(channel.subarray(0, length));
    return whole;
  });
}

const channelNames = (count: number, names: readonly string[]): readonly string[] =>
  count === 1 ? ['value'] : names;

/** A task of the archive, from its facts. */
export function archiveBenchmark(facts: ArchiveBenchmark): Benchmark {
  const { archive, name, title, rate, shape, figure, prompt, labels } = facts;
  const classes = classesOf(labels);
  const read = labelReader(labels);
  const layout = `${archive}_TRAIN and ${archive}_TEST as .ts, .tsv, .arff or .txt`;
  const spec: Benchmark = {
    ...{ name, title, kind: 'classification', classes, rate, shape, figure, prompt, layout },
    generator: null,
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
      const found = (['train', 'test'] as const).map((split): [Split, string] => {
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
        files: found.map(([, file]) => file),
        classes: () => classes,
        parameters: {},
        total: null,
        notes: () => [],
        plan: {
          by: 'given',
          statement: `Split of the archive (${archive}_TRAIN and ${archive}_TEST). ${facts.split}`,
          recordingsApart: null,
          validation: 'example',
        },
        *load() {
          for (const [split, file] of found) {
            let index = 0;
            const format = file.toLowerCase().endsWith('.txt') ? 'ucr-tsv' : undefined;
            for (const record of readRecords(file, format)) yield exampleOf(split, record, index++);
          }
        },
      };
    },
  };
  return spec;
}
