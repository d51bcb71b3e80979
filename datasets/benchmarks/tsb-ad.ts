/** TSB-AD: cleaned univariate and multivariate series, a label for every point. */
import { parseTsbAdName, readTsbAd } from '../readers/tsb-ad.ts';
import { anomalyPrompt } from './benchmark.ts';
import { anomalyFilesBenchmark } from './families.ts';

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
