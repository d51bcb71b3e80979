/** NAB: server metrics, traffic, tweets and artificial series with windows around their anomalies. */
import { basename } from 'node:path';
import { DataError } from '../../src/errors.ts';
import { readNab, readNabWindows } from '../readers/nab.ts';
import { anomalyFilesTask } from './anomaly-files.ts';
import { pick } from './find-files.ts';

const WINDOWS = 'combined_windows.json';

export const nab = anomalyFilesTask({
  name: 'nab',
  title: 'Numenta anomaly benchmark: windows around anomalies of streams',
  source: {
    description: '58 series of real and artificial metrics, one value every five minutes in most of them.',
    licence: 'AGPL-3.0 in release 1.1; see numenta/NAB',
    citation:
      'Lavin, Ahmad: Evaluating real-time anomaly detection algorithms, the Numenta anomaly benchmark, ICMLA 2015',
    addresses: [
      { url: 'https://github.com/numenta/NAB/archive/refs/tags/v1.1.zip', sha256: null, unpack: true },
    ],
  },
  shape: 'series of 1127 to 22695 points, 1 channel',
  needs: 'download',
  layout: `${WINDOWS} and the csv files that it names`,
  isSeries: (file) => file.toLowerCase().endsWith('.csv') && !/[\\/]results[\\/]/.test(file),
  others: (files) => files.filter((file) => basename(file) === WINDOWS).slice(0, 1),
  reader: (files, folder) => {
    const found = pick(files, [WINDOWS]);
    if (found === undefined) {
      throw new DataError(`holds no ${WINDOWS}, which says where the anomalies are`, { file: folder });
    }
    const windows = readNabWindows(found);
    return (file) => readNab(file, windows);
  },
  statement:
    'NAB is made for evaluation and publishes no training split. Its windows are wide: an anomaly lies somewhere inside.',
});
