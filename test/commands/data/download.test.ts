/** Every task that is downloaded, from the archives that its owners publish to a data set, over the command line. */
import { createHash } from 'node:crypto';
import { existsSync, mkdtempSync, readFileSync, rmSync } from 'node:fs';
import { createServer, type Server } from 'node:http';
import type { AddressInfo } from 'node:net';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterAll, afterEach, beforeAll, beforeEach, expect, it, vi } from 'vitest';
import type { Address } from '../../../datasets/benchmarks/benchmark.ts';
import { BENCHMARKS } from '../../../datasets/benchmarks/registry.ts';
import { inside } from '../../helpers/command-line.ts';
import { zipOf } from '../../helpers/numpy-files.ts';

const root = mkdtempSync(join(tmpdir(), 'timeseer-download-'));
const served = new Map<string, Buffer>();
const asked: string[] = [];
let server: Server;

beforeAll(async () => {
  server = createServer((request, response) => {
    const path = decodeURIComponent(request.url ?? '');
    asked.push(path);
    const content = served.get(path);
    if (content === undefined) response.writeHead(404).end();
    else response.end(content);
  });
  await new Promise<void>((done) => server.listen(0, '127.0.0.1', done));
});
afterAll(async () => {
  server.closeAllConnections();
  await new Promise((done) => server.close(done));
  rmSync(root, { recursive: true, force: true });
});
beforeEach(() => {
  vi.stubEnv('TIMESEER_MIRROR', `http://127.0.0.1:${(server.address() as AddressInfo).port}/mirror/`);
  vi.stubEnv('TIMESEER_CACHE', join(root, 'cache'));
});
afterEach(() => {
  vi.unstubAllEnvs();
  process.exitCode = undefined;
});

type Entries = readonly (readonly [name: string, content: string | Buffer])[];
const archive = (entries: Entries): Buffer =>
  zipOf(entries.map(([name, content]) => [name, Buffer.from(content)] as const));

const wave = (points: number, phase: number): number[] =>
  Array.from({ length: points }, (_, t) => Number(Math.sin(t / 5 + phase).toFixed(4)));

/** Both files of a data set of the classification archive, and what lies beside them there. */
function archived(name: string, labels: readonly string[], points: number): Buffer {
  const file = (phase: number): string =>
    `@problemName ${name}\n@timeStamps false\n@univariate true\n@classLabel true ${labels.join(' ')}\n@data\n` +
    [...labels, ...labels].map((label, i) => `${wave(points, phase + i).join(',')}:${label}\n`).join('');
  return archive([
    [`${name}.txt`, `About ${name}\n`],
    [`${name}_TEST.ts`, file(0.5)],
    [`${name}_TRAIN.ts`, file(0)],
  ]);
}

/** A recording of the ECG challenge: `val`, one row of 16-bit integers, as MATLAB 4 stores it. */
function recording(points: number, phase: number): Buffer {
  const head = Buffer.alloc(24);
  [30, 1, points, 0, 4].forEach((value, i) => void head.writeInt32LE(value, 4 * i));
  head.write('val\0', 20);
  return Buffer.concat([
    head,
    Buffer.from(new Int16Array(wave(points, phase).map((value) => 1000 * value)).buffer),
  ]);
}

const LABELS = ['N', 'A', 'O', '~'];
const names = Array.from({ length: 12 }, (_, i) => `A${String(i + 1).padStart(5, '0')}`);
const reference = names.map((name, i) => `${name},${LABELS[i % 4]}\n`).join('');

function activities(): Buffer {
  const window = (phase: number): string =>
    `${wave(128, phase)
      .map((value) => ` ${value.toExponential(7)}`)
      .join(' ')}\n`;
  const entries = (['train', 'test'] as const).flatMap((split): Entries => {
    const rows = [1, 2, 3, 4, 5, 6, 1, 2, 3, 4, 5, 6];
    const [first, last] = split === 'train' ? [1, 3] : [2, 4];
    return [
      [`UCI HAR Dataset/${split}/y_${split}.txt`, rows.map((row) => `${row}\n`).join('')],
      [
        `UCI HAR Dataset/${split}/subject_${split}.txt`,
        rows.map((_, i) => `${i < 6 ? first : last}\n`).join(''),
      ],
      ...['x', 'y', 'z'].map(
        (axis, c) =>
          [
            `UCI HAR Dataset/${split}/Inertial Signals/total_acc_${axis}_${split}.txt`,
            rows.map((row, i) => window(row + i + c)).join(''),
          ] as const,
      ),
    ];
  });
  const inner = archive([...entries, ['__MACOSX/UCI HAR Dataset/._README.txt', 'x']]);
  return archive([
    ['UCI HAR Dataset.zip', inner],
    ['UCI HAR Dataset.names', 'Human activity\n'],
  ]);
}

const labelled = (phase: number, header = ''): string =>
  header +
  wave(60, phase)
    .map((value, t) => `${value},${t >= 20 && t < 30 ? 1 : 0}\n`)
    .join('');

function numenta(): Buffer {
  const time = (t: number): string =>
    `2014-04-01 ${String(Math.floor(t / 12)).padStart(2, '0')}:${String((t % 12) * 5).padStart(2, '0')}:00`;
  const series = wave(60, 0)
    .map((value, t) => `${time(t)},${value}\n`)
    .join('');
  return archive([
    ['NAB-1.1/README.md', '# NAB\n'],
    ['NAB-1.1/data/realTweets/Twitter_volume_TINY.csv', `timestamp,value\n${series}`],
    ['NAB-1.1/results/null/realTweets/null_Twitter_volume_TINY.csv', 'timestamp,value,anomaly_score,label\n'],
    [
      'NAB-1.1/labels/combined_windows.json',
      JSON.stringify({
        'realTweets/Twitter_volume_TINY.csv': [[`${time(20)}.000000`, `${time(29)}.000000`]],
      }),
    ],
  ]);
}

/** A recording of 16-bit samples, as PhysioNet has them. */
function needle(name: string): readonly (readonly [string, Buffer])[] {
  const samples = Buffer.from(new Int16Array(wave(3000, name.length).map((value) => 1000 * value)).buffer);
  const first = samples.readInt16LE(0);
  let sum = 0;
  for (let at = 0; at < samples.length; at += 2) sum = (sum + samples.readInt16LE(at)) & 0xffff;
  const signed = sum >= 0x8000 ? sum - 0x10000 : sum;
  const header = `${name} 1 4000 3000\n${name}.dat 16 1000/mV 16 0 ${first} ${signed} 0 EMG\n`;
  return [
    [`${name}.hea`, Buffer.from(header)],
    [`${name}.dat`, samples],
  ];
}

const NEEDLES = ['emg_healthy', 'emg_myopathy', 'emg_neuropathy'].flatMap(needle);

interface Published {
  readonly task: string;
  /** What lies at its addresses, in their order. */
  readonly files: readonly Buffer[];
  /** Examples of a split of the data set. */
  readonly counts: Readonly<Record<string, number>>;
  readonly options?: readonly string[];
}

const PUBLISHED: readonly Published[] = [
  { task: 'rcw', files: [archived('RightWhaleCalls', ['RightWhale', 'NoWhale'], 400)], counts: { test: 4 } },
  {
    task: 'tee',
    files: [archived('Lightning7', ['0', '1', '2', '3', '4', '5', '6'], 319)],
    counts: { test: 14 },
  },
  { task: 'ctu', files: [archived('Computers', ['1', '2'], 720)], counts: { test: 4 } },
  {
    task: 'ecg',
    files: [
      archive(names.map((name, i) => [`training2017/${name}.mat`, recording(1500, i)] as const)),
      Buffer.from(reference),
    ],
    counts: { train: 4, validation: 4, test: 4 },
    options: ['--shares', '1,1,1'],
  },
  {
    task: 'emg',
    files: NEEDLES.map(([, content]) => content),
    counts: { test: 2 },
    options: ['--shares', '1,1,1'],
  },
  { task: 'har', files: [activities()], counts: { test: 12 } },
  {
    task: 'tsb-uad',
    files: [archive([['TSB-UAD-Public/NAB/NAB_data_tiny_1.out', labelled(0)]])],
    counts: { test: 1 },
  },
  {
    task: 'tsb-ad',
    files: ['U', 'M'].map((kind, i) =>
      archive([
        [
          `TSB-AD-${kind}/00${i + 1}_NAB_id_${i + 1}_WebService_tr_10_1st_20.csv`,
          labelled(i, 'Data,Label\n'),
        ],
      ]),
    ),
    counts: { test: 2 },
  },
  { task: 'nab', files: [numenta()], counts: { test: 1 } },
];

const hashOf = (bytes: Buffer): string => createHash('sha256').update(bytes).digest('hex');
const addressesOf = (task: string): readonly Address[] =>
  BENCHMARKS.find(({ name }) => name === task)!.source.addresses;
const pathOf = ({ url }: Address): string =>
  `/mirror/${new URL(url).host}${decodeURIComponent(new URL(url).pathname)}`;

/** Puts what a task's owners publish on the server. */
function publish({ task, files }: Published): void {
  addressesOf(task).forEach((address, i) => void served.set(pathOf(address), files[i]!));
}

it('there is an archive below for each task that is downloaded', () => {
  const downloaded = BENCHMARKS.filter(({ needs }) => needs === 'download').map(({ name }) => name);
  expect(PUBLISHED.map(({ task }) => task).sort()).toEqual(downloaded.sort());
});

it.each(PUBLISHED)('$task comes from its address to a data set', async (published) => {
  const { task, counts, options = [] } = published;
  publish(published);
  const addresses = addressesOf(task);
  const pinned = addresses.map(({ sha256 }) => sha256);
  const out = join(root, task);
  const args = ['data', 'prepare', task, '--out', out, '--no-figures', '--no-traces', ...options];
  if (pinned.some((sha256) => sha256 !== null)) {
    const { code, err } = await inside(...args);
    expect([code, err]).toEqual([
      3,
      expect.stringMatching(/was discarded: its hash is sha256:[0-9a-f]{64}, expected sha256:[0-9a-f]{64}/),
    ]);
  }
  try {
    // What is served here is as the owners pack it, but smaller: it has another SHA-256.
    addresses.forEach((address, i) => {
      if (address.sha256 !== null) Object.assign(address, { sha256: hashOf(published.files[i]!) });
    });
    const { code, err } = await inside(...args);
    expect([code, err]).toEqual([0, expect.not.stringContaining('error')]);
  } finally {
    addresses.forEach((address, i) => void Object.assign(address, { sha256: pinned[i] }));
  }
  const { splits } = JSON.parse(readFileSync(join(out, 'manifest.json'), 'utf8'));
  for (const [split, count] of Object.entries(counts)) expect(splits[split].count).toBe(count);
  // The second time nothing is asked for.
  asked.length = 0;
  expect((await inside(...args, '--force')).code).toBe(0);
  expect(asked).toEqual([]);
});

it('an archive without files leaves nothing behind, and says so', async () => {
  const ctu = PUBLISHED.find(({ task }) => task === 'ctu')!;
  vi.stubEnv('TIMESEER_CACHE', join(root, 'other'));
  publish({ ...ctu, files: [archive([['Computers/', '']])] });
  const out = join(root, 'empty');
  const { code, err } = await inside('data', 'prepare', 'ctu', '--out', out);
  expect([code, err]).toEqual([3, expect.stringMatching(/Computers\.zip: holds no files/)]);
  expect(existsSync(join(root, 'other', 'datasets', 'ctu'))).toBe(false);
});

it('a mirror that is no address is refused, without showing it', async () => {
  for (const mirror of ['mirror.example', 'ftp://mirror.example', 'https://me:secret@mirror.example']) {
    vi.stubEnv('TIMESEER_MIRROR', mirror);
    vi.stubEnv('TIMESEER_CACHE', join(root, 'third'));
    const { code, err } = await inside('data', 'prepare', 'ctu', '--out', join(root, 'none'));
    expect([code, err]).toEqual([2, expect.stringMatching(/TIMESEER_MIRROR: expected an address/)]);
    expect(err).not.toContain('secret');
  }
});
