/** ECG: rhythm of the heart, from five seconds of a single lead. */
import { basename } from 'node:path';
import { DataError } from '../../src/ground/errors.ts';
import { readText } from '../readers/csv.ts';
import { readMatlab } from '../readers/matlab.ts';
import type { Benchmark } from './benchmark.ts';
import {
  classesOf,
  filesBelow,
  fixedWindow,
  folderOf,
  labelReader,
  need,
  windowExamples,
} from './source-files.ts';

const LABELS = {
  N: 'normal sinus rhythm',
  A: 'atrial fibrillation',
  O: 'other cardiac rhythms',
  '~': 'noise',
} as const;
const CLASSES = classesOf(LABELS);
const WINDOW = 1500;
/** Units of the files per mV. */
const GAIN = 1000;
const ADDRESS = 'https://physionet.org/files/challenge-2017/1.0.0';
const SUMS = `${ADDRESS}/SHA256SUMS.txt`;

const read = labelReader(LABELS);

/** Recordings and their labels in file order. @throws DataError with file and line */
function readReference(file: string): { name: string; label: string; line: number }[] {
  const rows = readText(file).split(/\r\n|\n|\r/);
  const seen = new Set<string>();
  return rows.flatMap((row, i) => {
    if (row.trim() === '') return [];
    const [name = '', label = '', ...rest] = row.split(',').map((cell) => cell.trim());
    const at = { file, line: i + 1 };
    if (!/^\w+$/.test(name) || label === '' || rest.length > 0) {
      throw new DataError(`got ${JSON.stringify(row.slice(0, 60))}, expected a recording and its label`, at);
    }
    if (seen.has(name)) throw new DataError(`recording ${name} is listed twice`, at);
    seen.add(name);
    return [{ name, label, line: i + 1 }];
  });
}

export const ecg: Benchmark = {
  name: 'ecg',
  title: 'Electrocardiogram: normal rhythm, atrial fibrillation, another rhythm or noise',
  kind: 'classification',
  source: {
    description:
      'PhysioNet/CinC challenge 2017: 8528 recordings of a hand-held single-lead device, 9 to 61 s at 300 Hz; windows of 5 s.',
    licence: 'Open Data Commons Attribution 1.0 (PhysioNet)',
    citation:
      'Clifford et al.: AF classification from a short single lead ECG recording, Computing in Cardiology 2017',
    addresses: [
      { url: `${ADDRESS}/training2017.zip`, sha256: null, sums: SUMS, unpack: true },
      { url: `${ADDRESS}/REFERENCE-v3.csv`, sha256: null, sums: SUMS, unpack: false },
    ],
  },
  classes: CLASSES,
  rate: 300,
  shape: '1500 points, 1 channel',
  figure: { preset: 'ecg', missing: 'break' },
  prompt: {
    version: 1,
    context:
      'It is five seconds of an electrocardiogram of one lead from a handheld recorder, 300 samples per second, in millivolts.',
    question: 'Decide which rhythm it shows.',
    hints: {
      'normal sinus rhythm': 'evenly spaced QRS complexes, each after a P wave',
      'atrial fibrillation': 'irregularly spaced QRS complexes, no P waves, an unsteady baseline',
      'other cardiac rhythms': 'an abnormal rhythm that is not atrial fibrillation',
      noise: 'too disturbed to be read',
    },
    advice: 'advise which examination or care should follow, and how urgent it is',
    advised: {
      'normal sinus rhythm':
        'No urgent care should follow; repeat the examination with twelve leads if palpitations or dizziness come again.',
      'atrial fibrillation':
        'An examination with twelve leads should follow within days to confirm it, with an assessment of the stroke risk for anticoagulation; care is urgent with chest pain, breathlessness or a fast pulse.',
      'other cardiac rhythms':
        'An examination with twelve leads and a recording over a day should follow soon to name the rhythm; care is urgent after fainting or with chest pain.',
      noise:
        'The examination should be repeated after cleaning the skin and fixing the electrodes, since no care can follow from what cannot be read.',
    },
  },
  needs: 'download',
  layout: 'A00001.mat … and REFERENCE-v3.csv',
  open({ directory, window }) {
    const size = fixedWindow(window, WINDOW);
    const folder = folderOf(ecg, directory);
    const all = filesBelow(folder);
    const reference = need(all, ['REFERENCE-v3.csv', 'REFERENCE.csv'], folder, ecg);
    const old = basename(reference).toLowerCase() === 'reference.csv';
    const byName = new Map(all.map((file) => [basename(file), file]));
    const recordings = readReference(reference).map(({ name, label, line }) => {
      const file = byName.get(`${name}.mat`);
      if (file !== undefined) return { name, label, file };
      throw new DataError(`${name}.mat is not there`, { file: reference, line });
    });
    let short = 0;
    return {
      files: [reference, ...recordings.map(({ file }) => file)],
      classes: () => CLASSES,
      parameters: { window: size },
      notes: () => [
        ...(old ? ['labels of the first version (REFERENCE.csv): version 3 corrects many'] : []),
        ...(short > 0 ? [`${short} recordings are shorter than a window`] : []),
      ],
      plan: {
        by: 'recording',
        sizes: { train: 8, validation: 1, test: 1 },
        statement:
          'The benchmark publishes 43673 windows but no membership. All windows of a recording are in one split; stratified by the ' +
          'class of the recording.',
        recordingsApart: true,
      },
      *load() {
        short = 0;
        for (const { name, label, file } of recordings) {
          for (const record of readMatlab(file, 'val')) {
            const values = record.channels[0]!.map((value) => value / GAIN);
            if (values.length < size) short++;
            const facts = { task: 'ecg', recording: name, channel: 'ECG', label: read(label, record) };
            yield* windowExamples(facts, values, size);
          }
        }
      },
    };
  },
};
