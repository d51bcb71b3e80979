/** TSB-UAD: univariate series of many collections, a label for every point. */
import { readTsbUad } from '../readers/tsb-uad.ts';
import { anomalyPrompt } from './benchmark.ts';
import { anomalyFilesBenchmark } from './families.ts';

export const tsbUad = anomalyFilesBenchmark({
  name: 'tsb-uad',
  title: 'TSB-UAD: univariate series with labelled points',
  source: {
    description:
      '1980 univariate series from 18 public collections (the public part), with a label for every point.',
    licence: 'each collection has its own; see its owners',
    citation:
      'Paparrizos, Kang, Boniol, Tsay, Palpanas, Franklin: TSB-UAD, an end-to-end benchmark suite for univariate time-series anomaly detection, VLDB 2022',
    addresses: [
      {
        url: 'https://www.thedatum.org/datasets/TSB-UAD-Public.zip',
        sha256: 'ff4aa83a5a111835d410d962152e8dbebcda1039b778bae45b6b9c3f46dd49a1',
        unpack: true,
      },
    ],
  },
  shape: 'series of any length, 1 channel',
  prompt: anomalyPrompt(
    'It was recorded by a sensor, a machine, a body or a computer system; most of it is usual behaviour.',
  ),
  needs: 'download',
  layout: '.out files of value,label',
  find: (files) => ({ series: files.filter((file) => /\.out$/i.test(file)), read: readTsbUad }),
  statement: 'TSB-UAD is made for evaluation and publishes no training split for models of all series.',
});
