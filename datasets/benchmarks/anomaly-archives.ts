/** Published collections of recordings with labelled anomalies: TSB-UAD, TSB-AD, TAB and NAB. */

import { basename } from 'node:path';
import { DataError } from '../../src/ground/errors.ts';
import { formatOf } from '../readers/formats.ts';
import { readNab, readNabWindows } from '../readers/nab.ts';
import { readTab } from '../readers/tab.ts';
import { parseTsbAdName, readTsbAd, readTsbUad } from '../readers/tsb.ts';
import { anomalyPrompt } from './benchmark.ts';
import { anomalyFilesBenchmark } from './families.ts';
import { pick } from './source-files.ts';

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

export const tsbAd = anomalyFilesBenchmark({
  name: 'tsb-ad',
  title: 'TSB-AD: curated series with labelled points, univariate and multivariate',
  source: {
    description: '1070 curated series from 40 collections, with a label for every point.',
    licence: 'each collection has its own; see its owners',
    citation:
      'Liu, Paparrizos: The elephant in the room, towards a reliable time-series anomaly detection benchmark, NeurIPS 2024',
    addresses: [
      { url: 'https://www.thedatum.org/datasets/TSB-AD-U.zip', sha256: null, unpack: true },
      { url: 'https://www.thedatum.org/datasets/TSB-AD-M.zip', sha256: null, unpack: true },
    ],
  },
  shape: 'series of any length, 1 or more channels',
  prompt: anomalyPrompt(
    'It was recorded by sensors, machines, bodies or computer systems; most of it is usual behaviour. With several channels, an anomaly may show in some of them only.',
  ),
  needs: 'download',
  layout: 'csv files named ID_DATASET_id_N_DOMAIN_tr_TRAIN_1st_FIRST.csv',
  find: (files) => ({
    series: files.filter((file) => /\.csv$/i.test(file) && parseTsbAdName(file) !== null),
    read: readTsbAd,
  }),
  statement:
    'TSB-AD is made for evaluation: it publishes lists of series to tune and to evaluate on, which are not applied here. Series are whole: the ' +
    'anomaly-free beginning that detectors may fit is part of them.',
});

export const tab = anomalyFilesBenchmark({
  name: 'tab',
  title: 'TAB: series of the unified anomaly detection benchmark',
  source: {
    description:
      'Univariate and multivariate series of public collections in one long format, with a label for every point.',
    licence: 'each collection has its own; see its owners',
    citation: 'Qiu et al.: TAB, unified benchmarking of time series anomaly detection methods, VLDB 2025',
    addresses: [],
  },
  shape: 'series of any length, 1 or more channels',
  prompt: anomalyPrompt(
    'It was recorded in a real system; most of it is usual behaviour. With several channels, an anomaly may show in some of them only.',
  ),
  needs: 'files',
  layout: 'csv files with the columns data and cols, a stack named label among them',
  find: (files) => ({
    series: files.filter((file) => /\.csv$/i.test(file) && formatOf(file) === 'tab'),
    read: readTab,
  }),
  statement: 'TAB is made for evaluation; its own training parts belong to single series.',
});

const WINDOWS = 'combined_windows.json';

export const nab = anomalyFilesBenchmark({
  name: 'nab',
  title: 'Numenta anomaly benchmark: windows around anomalies of streams',
  source: {
    description: '58 series of real and artificial metrics, one value every five minutes in most of them.',
    licence: 'AGPL-3.0 in release 1.1; MIT in the repository since 2024 (numenta/NAB)',
    citation:
      'Lavin, Ahmad: Evaluating real-time anomaly detection algorithms, the Numenta anomaly benchmark, ICMLA 2015',
    addresses: [
      { url: 'https://github.com/numenta/NAB/archive/refs/tags/v1.1.zip', sha256: null, unpack: true },
    ],
  },
  shape: 'series of 1127 to 22695 points, 1 channel',
  prompt: anomalyPrompt(
    'It is a metric of a running system, such as the load of a server, traffic, or mentions of a company, one value every five minutes in most cases; most of it is usual behaviour. Daily and weekly patterns are normal.',
  ),
  needs: 'download',
  layout: `${WINDOWS} and the csv files that it names`,
  find: (files, folder) => {
    const file = pick(files, [WINDOWS]);
    if (file === undefined) {
      throw new DataError(`holds no ${WINDOWS}, which says where the anomalies are`, { file: folder });
    }
    const windows = readNabWindows(file);
    // The repository has other tables too, of results and for its tests: series are those that the windows name.
    const named = new Set([...windows.keys()].map((name) => basename(name)));
    const tables = files.filter((one) => one.toLowerCase().endsWith('.csv'));
    const series = tables.filter((one) => named.has(basename(one)));
    const left = tables.length - series.length;
    return {
      series,
      others: [file],
      notes: left === 0 ? [] : [`${left} csv files that ${WINDOWS} does not name are left out`],
      read: (one) => readNab(one, windows),
    };
  },
  statement:
    'NAB is made for evaluation and publishes no training split. Its windows are wide: an anomaly lies somewhere inside.',
});
