/** EMG: healthy, myopathy or neuropathy, from a needle in a muscle of the shin. */
import { basename } from 'node:path';
import { DataError } from '../../src/ground/errors.ts';
import { readEmgdb } from '../readers/emgdb.ts';
import { readWfdb } from '../readers/wfdb.ts';
import type { Benchmark } from './benchmark.ts';
import { filesBelow, fixedWindow, folderOf, need, windowExamples } from './source-files.ts';

/** Class by recording. */
const RECORDINGS = {
  emg_healthy: 'Healthy',
  emg_myopathy: 'Myopathy',
  emg_neuropathy: 'Neuropathy',
} as const;
const CLASSES = Object.values(RECORDINGS);
const WINDOW = 1500;
const ADDRESS = 'https://physionet.org/files/emgdb/1.0.0';
/** SHA-256 of the recordings as their SHA256SUMS.txt lists them. The text form of the same signals has corrupt lines. */
const FILES = {
  'emg_healthy.hea': '61221ce33e167d246ec2ea8984ce2f25882b32b4d90bd7ef785c7b56ef95bac5',
  'emg_healthy.dat': '4990f34f0ffb314f6ce70c1d2089b7ce41fa96d19fcd9fb334815ca5033966fd',
  'emg_myopathy.hea': '752093a1e3af87cd87e39f553b8725133f57a75413661208e5d93c8d2c60e73b',
  'emg_myopathy.dat': '2c310a0f61843a5a5e906d413b6ff7f51370a91e516344af511c7fe6da9eaf7f',
  'emg_neuropathy.hea': 'a424c80b6a5cc5733456f0848c2650321cac3658d9b02b845e08b619b2807ce0',
  'emg_neuropathy.dat': '108c6c71d3792f3dba645539bd9241119fb4c6a3a0f3e515399694b072375dd5',
} as const;

const STATEMENT =
  'The published membership (122 and 41 of 204 windows) is not known. There are three recordings, one of each class, so windows ' +
  'of one recording are in all splits: results tell how well a recording is recognised, not a patient who was never seen.';

export const emg: Benchmark = {
  name: 'emg',
  title: 'Electromyogram: healthy, myopathy or neuropathy',
  kind: 'classification',
  source: {
    description:
      'PhysioNet emgdb: three recordings with a 25 mm concentric needle in the tibialis anterior, 4 kHz, in mV, while the foot is gently dorsiflexed.',
    licence: 'Open Data Commons Attribution 1.0 (PhysioNet)',
    citation: 'Goldberger et al.: PhysioBank, PhysioToolkit, and PhysioNet, Circulation 2000',
    addresses: Object.entries(FILES).map(([name, sha256]) => ({
      url: `${ADDRESS}/${name}`,
      sha256,
      unpack: false,
    })),
  },
  classes: CLASSES,
  rate: 4000,
  shape: '1500 points, 1 channel',
  figure: { preset: 'emg', missing: 'break' },
  prompt: {
    version: 1,
    context:
      'It is an electromyogram of the front shin muscle (tibialis anterior), taken with a concentric needle of 25 mm while the foot was gently lifted against resistance: 0.375 seconds at 4000 samples per second, in millivolts.',
    question: 'Decide what the muscle suffers from, if anything.',
    hints: {
      Healthy: 'separate motor unit potentials of moderate size and duration, mostly alike',
      Myopathy: 'many small, short and jagged potentials that come early and overlap',
      Neuropathy: 'few, large and long potentials with many phases, firing fast',
    },
    advice: 'advise which examination or treatment should follow',
    advised: {
      Healthy:
        'No treatment should follow; if weakness stays, examine other muscles and repeat the examination after some weeks.',
      Myopathy:
        'An examination of creatine kinase in the blood should follow, then genetic tests or a biopsy of the muscle before a treatment is chosen.',
      Neuropathy:
        'An examination of nerve conduction in both legs should follow, and a search for diabetes, pressure on the nerve or lack of vitamins as causes that treatment can remove.',
    },
  },
  needs: 'download',
  layout: 'emg_healthy, emg_myopathy and emg_neuropathy as .txt, or as .hea with .dat',
  open({ directory, window }) {
    const size = fixedWindow(window, WINDOW);
    const folder = folderOf(emg, directory);
    const all = filesBelow(folder);
    const recordings = Object.entries(RECORDINGS).map(([name, label]) => {
      const file = need(all, [`${name}.txt`, `${name}.dat`], folder, emg);
      const header = file.replace(/\.dat$/i, '.hea');
      return { name, label, file: header, parts: header === file ? [file] : [header, file] };
    });
    let notes: string[] = [];
    return {
      files: recordings.flatMap(({ parts }) => parts),
      classes: () => CLASSES,
      parameters: { window: size },
      notes: () => notes,
      plan: {
        by: 'example',
        sizes: { train: 122, validation: 41, test: 41 },
        statement: STATEMENT,
        recordingsApart: false,
      },
      *load() {
        notes = [];
        for (const { name, label, file } of recordings) {
          const text = file.toLowerCase().endsWith('.txt');
          for (const record of text ? readEmgdb(file) : readWfdb(file)) {
            const values = record.channels[0]!;
            if (record.faults > 0) notes.push(`${basename(file)}: ${record.faults} corrupt lines`);
            if (values.length < size) {
              throw new DataError(
                `${values.length} points, and a window has ${size}; choose a smaller --window`,
                { file },
              );
            }
            yield* windowExamples({ task: 'emg', recording: name, channel: 'EMG', label }, values, size);
          }
        }
      },
    };
  },
};
