/** NAB: server metrics, traffic, tweets and artificial series with windows around their anomalies. */
import { basename } from 'node:path';
import { DataError } from '../../src/ground/errors.ts';
import { readNab, readNabWindows } from '../readers/nab.ts';
import { anomalyPrompt } from './benchmark.ts';
import { anomalyFilesBenchmark } from './families.ts';
import { pick } from './source-files.ts';

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
