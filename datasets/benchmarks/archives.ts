/** Published archives: classified series (CTU, RCW, TEE) and recordings with labelled anomalies (TSB-UAD, TSB-AD, TAB, NAB). */

import { basename } from 'node:path';
import { DataError } from '../../src/ground/errors.ts';
import {
  readNab,
  readNabWindows,
  readTab,
  readTsbAd,
  readTsbUad,
  tsbAdTrain,
} from '../readers/anomaly-files.ts';
import { formatOf } from '../readers/formats.ts';
import { anomalyPrompt } from './benchmark.ts';
import { anomalyFilesBenchmark, archiveBenchmark } from './families.ts';
import { pick } from './source-files.ts';

export const ctu = archiveBenchmark({
  name: 'ctu',
  title: 'Computers: desktop or laptop, from a day of electricity use',
  archive: 'Computers',
  description:
    'UK study "Powering the Nation", 251 households: electricity use of one computer over a day, one reading every two minutes.',
  licence: 'UCR archive: free for research, with citation',
  citation:
    'Lines, Bagnall, Caiger-Smith, Anderson: Classification of household devices by electricity usage profiles, IDEAL 2011; UCR time series archive',
  labels: { 1: 'Desktop', 2: 'Laptop' },
  rate: 1 / 120,
  shape: '720 points, 1 channel',
  figure: { preset: 'ctu', missing: 'break' },
  prompt: {
    version: 1,
    context:
      'It is the electricity use of one computer in a household of the United Kingdom over 24 hours, one reading every two minutes, scaled to mean 0 and standard deviation 1.',
    question: 'Decide what kind of computer it is.',
    hints: {
      Desktop: 'stays on for long at a high and restless level, and switches between clear levels',
      Laptop: 'lower and shorter use, with stretches in which a battery is charged and long rests',
    },
    advice: 'advise the household how to use less electricity with this computer',
    advised: {
      Desktop:
        'Advise the household to let this computer sleep after ten minutes without use and to switch it off at the wall at night, since a desktop draws electricity for as long as it stays on.',
      Laptop:
        'Advise the household to unplug the charger of this computer once the battery is full and to keep its energy saving mode on, since a laptop uses less electricity on battery than at the wall.',
    },
  },
  split: 'Published as 250 / 250. Households are not named, so days of one household may be in both.',
});

export const rcw = archiveBenchmark({
  name: 'rcw',
  title: 'Right whale calls in two seconds of a hydrophone signal',
  archive: 'RightWhaleCalls',
  description:
    'Cornell and Marinexplore, buoys off Massachusetts: two seconds at 2 kHz, with an up-call of a right whale (rising through about 60 to 250 Hz within about a second) or without.',
  licence: 'time-series classification archive: free for research; terms of the Marinexplore challenge',
  citation: 'Marinexplore and Cornell University whale detection challenge, 2013',
  labels: { RightWhale: 'RightWhale', NoWhale: 'NoWhale' },
  rate: 2000,
  shape: '4000 points, 1 channel',
  figure: { preset: 'rcw', missing: 'break' },
  prompt: {
    version: 1,
    context:
      'It is two seconds of underwater sound from a recording buoy (Cornell, Marinexplore), 2000 samples per second. An up-call of the North Atlantic right whale is a tone that rises smoothly from about 60 to 250 Hz within about one second; other whales, ships, ice and rain are heard as well.',
    question: 'Decide whether the recording holds a right whale call.',
    hints: {
      RightWhale: 'a rising tone stands out of the background for about a second',
      NoWhale: 'background noise, or sounds that do not rise in this way',
    },
    advice:
      'advise operators of ships and of the listening network what to do next, given how clear the call is and how safe the decision',
    advised: {
      RightWhale:
        'Operators of ships near this buoy should slow down to ten knots and post a lookout for a whale; the listening network should send the alert on, and keep it for a day, since a missed whale costs more than a slow passage.',
      NoWhale:
        'Operators of ships need to change nothing next; the listening network should keep on recording, since a silent clip is no safe sign that no whale is near.',
    },
  },
  split:
    'The split behind published results is not known (7027 calls and 22973 others are counts of classes), so numbers are not comparable digit by digit.',
});

export const tee = archiveBenchmark({
  name: 'tee',
  title: 'Transient electromagnetic events: seven kinds of lightning',
  archive: 'Lightning7',
  description: 'FORTE satellite: power density of radio transients from lightning over 800 µs, 319 samples.',
  licence: 'UCR archive: free for research, with citation',
  citation:
    'Eads, Hill, Davis, Perkins, Ma, Porter, Theiler: Genetic algorithms and support vector machines for time series classification, SPIE 2002; UCR time series archive',
  labels: {
    0: 'CG Positive',
    1: 'IR Negative',
    2: 'Subsequent Return Stroke',
    3: 'Impulsive',
    4: 'Impulsive Pair',
    5: 'Gradual Intra-Cloud',
    6: 'Off-record',
  },
  rate: 319 / 800e-6,
  shape: '319 points, 1 channel',
  figure: { preset: 'tee', missing: 'break' },
  prompt: {
    version: 1,
    context:
      'It is the radio power density of a lightning event as the satellite FORTE received it, 800 microseconds around the trigger.',
    question: 'Decide which kind of lightning event it is.',
    hints: {
      'CG Positive':
        'positive cloud-to-ground stroke: a sudden onset, then hundreds of microseconds of noisy radiation',
      'IR Negative':
        'initial negative return stroke: power climbs slowly to the attachment, peaks sharply and falls quickly',
      'Subsequent Return Stroke':
        'later negative stroke: a sudden onset without a slow climb, then a quick fall with little noise after',
      Impulsive: 'one isolated spike of a few microseconds',
      'Impulsive Pair': 'two isolated spikes close to each other',
      'Gradual Intra-Cloud':
        'discharge inside the cloud: power rises and falls gradually, without a sharp edge',
      'Off-record': 'only part of an event, cut off by an end of the record',
    },
    advice: 'advise storm monitoring and aviation what this event means for the risk in the area',
    advised: {
      'CG Positive':
        'For storm monitoring and aviation this event means a strong stroke to the ground, often from the anvil far from the core: warn of fire and keep the area wide around the storm clear.',
      'IR Negative':
        'For storm monitoring and aviation this event means that a new channel has reached the ground: the risk of further strokes at the same place in the area is high within a second.',
      'Subsequent Return Stroke':
        'For storm monitoring and aviation this event means an active channel to the ground: the risk in the area lasts, so stop work outside until it has been quiet for half an hour.',
      Impulsive:
        'For storm monitoring and aviation this event means a discharge within the cloud: the risk on the ground in the area is small, but the storm may grow, so keep watching its rate.',
      'Impulsive Pair':
        'For storm monitoring and aviation this event means a strong discharge high in the cloud with its echo from the ground: aircraft should avoid flight through the area near the cloud top.',
      'Gradual Intra-Cloud':
        'For storm monitoring and aviation this event means activity within the cloud: the risk to aircraft in the area rises, and strokes to the ground may follow within minutes.',
      'Off-record':
        'For storm monitoring and aviation this event means little by itself, since it is cut off: judge the risk in the area by the records before and after it.',
    },
  },
  split: 'Published as 70 / 73.',
});

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
    series: files.filter((file) => /\.csv$/i.test(file) && tsbAdTrain(file) !== null),
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
    const tables = files.filter((file) => file.toLowerCase().endsWith('.csv'));
    const series = tables.filter((file) => named.has(basename(file)));
    const left = tables.length - series.length;
    return {
      series,
      others: [file],
      notes: left === 0 ? [] : [`${left} csv files that ${WINDOWS} does not name are left out`],
      read: (file) => readNab(file, windows),
    };
  },
  statement:
    'NAB is made for evaluation and publishes no training split. Its windows are wide: an anomaly lies somewhere inside.',
});
