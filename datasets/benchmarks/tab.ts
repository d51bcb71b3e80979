/** TAB: univariate and multivariate series in long csv files. */
import { formatOf } from '../readers/formats.ts';
import { readTab } from '../readers/tab.ts';
import { anomalyPrompt } from './benchmark.ts';
import { anomalyFilesBenchmark } from './families.ts';

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
