/**
 * Alarms on quiet streams, and incidents found with their delay, in batch and by `--follow`:
 * npx tsx test/bench/stream.ts [--seed 101] [--seeds 1] [--each 3] [--only quiet|incidents|NAME] [--json] [--list]
 *
 * Rules are chosen with seeds below 200; 201 and later are for reporting.
 */
import { parseArgs } from 'node:util';
import { readRecording } from '../../datasets/readers/recording.ts';
import { LEVELS } from '../../src/detect/finding.ts';
import type { FollowedFinding, ReportFinding } from '../../src/explain/schema.ts';
import { detectRecording } from '../../src/run/detect.ts';
import { follow } from '../../src/run/follow.ts';
import { median, table } from './measure.ts';
import { DAY, incidentStreams, quietStreams, STEP_MS, type Stream } from './stream-shapes.ts';

export const WINDOW = 1000;
export const EVERY = 20;
/** Monday. */
const FIRST = Date.UTC(2025, 2, 3);

const ASKED = { columns: [], time: undefined, key: undefined, select: undefined, tz: undefined } as const;
const FILTERS = { severity: LEVELS.medium, direction: 'both', absoluteFloor: 0, relativeFloor: 0 } as const;

const linesOf = ({ values }: Stream): string[] => [
  'time,value',
  ...Array.from(
    values,
    (value, i) =>
      `${new Date(FIRST + i * STEP_MS).toISOString().slice(0, 16)},${Number(value.toPrecision(7))}`,
  ),
];

/** Events and findings of one run over a stream. */
export interface Said {
  /** Findings opened, with their span in samples and the samples read when they opened. */
  readonly opened: readonly {
    readonly from: number;
    readonly to: number;
    readonly at: number;
    readonly finding: Pick<FollowedFinding, 'level' | 'kind' | 'severity' | 'statement'>;
  }[];
  readonly reasons: readonly string[];
}

const sampleOf = (ms: number): number => Math.round((ms - FIRST) / STEP_MS);

async function batch(stream: Stream): Promise<Said> {
  const lines = linesOf(stream);
  const recording = readRecording(new TextEncoder().encode(lines.join('\n')));
  const { report } = await detectRecording('made', recording, FILTERS);
  return {
    opened: report.findings.map((finding: ReportFinding) => ({
      from: finding.start,
      to: finding.end,
      at: stream.values.length,
      finding,
    })),
    reasons: [],
  };
}

async function streamed(stream: Stream): Promise<Said> {
  let read = -1;
  const encoder = new TextEncoder();
  async function* parts(): AsyncGenerator<Uint8Array> {
    // Two days after an incident show whether it closes.
    const last = stream.truth === null ? stream.values.length : stream.truth.to + 2 * DAY;
    for (const line of linesOf(stream).slice(0, last + 1)) {
      read++;
      yield encoder.encode(`${line}\n`);
    }
  }
  const opened: Said['opened'][number][] = [];
  const reasons: string[] = [];
  const last = new Map<string, { to: number }>();
  await follow(
    parts(),
    { name: 'made', ...ASKED, ...FILTERS, window: WINDOW, every: EVERY, state: null },
    (event) => {
      if (event.event === 'open') {
        const one = {
          from: sampleOf(event.from!.ms),
          to: sampleOf(event.to!.ms) + 1,
          at: read,
          finding: event,
        };
        opened.push(one);
        last.set(event.id, one);
      }
      if (event.event === 'closed') {
        reasons.push(event.reason);
        const one = last.get(event.id);
        if (one !== undefined) one.to = Math.max(one.to, sampleOf(event.to!.ms) + 1);
      }
    },
  );
  return { opened, reasons };
}

/** Samples by which a finding may miss an incident. */
const NEAR = 3;

const hits = ({ opened }: Said, { from, to }: NonNullable<Stream['truth']>): Said['opened'] =>
  opened.filter((one) => one.from < to + NEAR && from - NEAR < one.to && one.at > from);

interface Row {
  readonly stream: Stream;
  readonly batch: Said;
  readonly stream_: Said;
}

const { values: given } = parseArgs({
  options: {
    seed: { type: 'string', default: '101' },
    seeds: { type: 'string', default: '1' },
    each: { type: 'string', default: '3' },
    only: { type: 'string' },
    json: { type: 'boolean', default: false },
    list: { type: 'boolean', default: false },
  },
});

const rows: Row[] = [];
for (let seed = Number(given.seed); seed < Number(given.seed) + Number(given.seeds); seed++) {
  const streams = [...quietStreams(seed), ...incidentStreams(seed, Number(given.each))].filter(
    ({ base, incident }) =>
      given.only === undefined ||
      [incident === null ? 'quiet' : 'incidents', incident === null ? base : incident].includes(given.only),
  );
  for (const stream of streams)
    rows.push({ stream, batch: await batch(stream), stream_: await streamed(stream) });
}

const quiet = rows.filter(({ stream }) => stream.truth === null);
const put = rows.filter(({ stream }) => stream.truth !== null);
const count = (list: readonly Row[], of: (row: Row) => number): number =>
  list.reduce((sum, row) => sum + of(row), 0);
const critical = ({ opened }: Said): number =>
  opened.filter(({ finding }) => finding.level === 'critical').length;
const names = [...new Set(put.map(({ stream }) => stream.incident!))];

if (given.list)
  for (const { stream, batch, stream_ } of rows)
    for (const [where, said] of [
      ['batch', batch],
      ['stream', stream_],
    ] as const) {
      const found = stream.truth === null ? [] : hits(said, stream.truth);
      if (stream.truth !== null)
        console.log(
          `${where} ${stream.incident} in ${stream.base} [${stream.truth.from}, ${stream.truth.to}): ${found.length > 0 ? 'found' : 'MISSED'}`,
        );
      for (const one of said.opened)
        console.log(
          `  ${where} ${stream.base}${found.includes(one) ? ' (incident)' : ''} at ${one.at} [${one.from}, ${one.to}) ${one.finding.level} ${one.finding.severity.toFixed(1)} ${one.finding.kind}: ${one.finding.statement}`,
        );
    }

/** Samples from the end of an incident, or from its beginning where it opens before, to the event, over the pace. */
const delayOf = ({ stream, stream_ }: Row): number[] => {
  const at = Math.min(...hits(stream_, stream.truth!).map((one) => one.at));
  return Number.isFinite(at) ? [Math.max(0, at - stream.truth!.to) / EVERY] : [];
};
const sinceBegun = ({ stream, stream_ }: Row): number[] => {
  const at = Math.min(...hits(stream_, stream.truth!).map((one) => one.at));
  return Number.isFinite(at) ? [at - stream.truth!.from] : [];
};
const middle = (list: readonly number[]): number => (list.length === 0 ? Number.NaN : median(list));
const found = (list: readonly Row[], of: (row: Row) => Said): number =>
  count(list, (row) => (hits(of(row), row.stream.truth!).length > 0 ? 1 : 0));
const figures = {
  quiet: {
    series: quiet.length,
    batch: count(quiet, (row) => row.batch.opened.length),
    stream: count(quiet, (row) => row.stream_.opened.length),
    critical: count(quiet, (row) => critical(row.batch) + critical(row.stream_)),
  },
  incidents: {
    streams: put.length,
    batch: found(put, (row) => row.batch),
    stream: found(put, (row) => row.stream_),
    others: count(put, (row) => row.stream_.opened.length - hits(row.stream_, row.stream.truth!).length),
    several: count(put, (row) => Math.max(0, hits(row.stream_, row.stream.truth!).length - 1)),
    delay: middle(put.flatMap(delayOf)),
    begun: middle(put.flatMap(sinceBegun)),
  },
};
if (given.json) console.log(JSON.stringify(figures));
else {
  console.log(`window of ${WINDOW} samples of 5 minutes, judged every ${EVERY}; 18 days\n`);
  console.log(
    table(
      ['quiet series', 'alarms in batch', 'alarms in the stream', 'critical'],
      [
        ...[...new Set(quiet.map(({ stream }) => stream.base))].map((base) => {
          const some = quiet.filter(({ stream }) => stream.base === base);
          return [
            base,
            count(some, (row) => row.batch.opened.length),
            count(some, (row) => row.stream_.opened.length),
            count(some, (row) => critical(row.batch) + critical(row.stream_)),
          ].map(String);
        }),
        ['all', figures.quiet.batch, figures.quiet.stream, figures.quiet.critical].map(String),
      ],
    ),
  );
  console.log();
  console.log(
    table(
      [
        'incident',
        'streams',
        'found in batch',
        'found in the stream',
        'median delay over the pace',
        'samples from its beginning',
      ],
      [
        ...names.map((name) => {
          const some = put.filter(({ stream }) => stream.incident === name);
          return [
            name,
            some.length,
            found(some, (row) => row.batch),
            found(some, (row) => row.stream_),
            middle(some.flatMap(delayOf)).toFixed(2),
            middle(some.flatMap(sinceBegun)),
          ].map(String);
        }),
        [
          'all',
          figures.incidents.streams,
          figures.incidents.batch,
          figures.incidents.stream,
          figures.incidents.delay.toFixed(2),
          figures.incidents.begun,
        ].map(String),
      ],
    ),
  );
  console.log(
    `\nother findings opened in streams with an incident: ${figures.incidents.others}; incidents reported more than once: ${figures.incidents.several}`,
  );
}
