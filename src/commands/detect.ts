/** `timeseer detect`: finds anomalies in a CSV file or a Prometheus query with the classical detector. */
import { basename, extname } from 'node:path';
import { FAULTS } from '../../datasets/readers/quality.ts';
import type { Recording } from '../../datasets/readers/recording.ts';
import { KIND_WORDS, LEVELS, type Level } from '../detect/finding.ts';
import { checkScores, FORMATS, scoresCsv, toGrafana } from '../explain/formats.ts';
import { checkTarget, writeReport } from '../explain/report-page.ts';
import type { Alerts, AnomalyReport, FollowedFinding, ReportState } from '../explain/schema.ts';
import { type Once, readState, reportOnce, withState, writeState } from '../explain/state.ts';
import { verify } from '../explain/verify.ts';
import { ConfigError, DataError, TimeseerError } from '../ground/errors.ts';
import { STANDARD_INPUT, writeFileAtomic } from '../ground/files.ts';
import { withInterrupt } from '../ground/interrupt.ts';
import { plural } from '../ground/numbers.ts';
import { hash32 } from '../ground/random.ts';
import { parseShard } from '../ground/shard.ts';
import { firstNames, onOneLine, print, printJson, say, shellWord } from '../ground/terminal.ts';
import { detectAndAsk, NONE, readRequest } from '../run/detect.ts';
import { DEFAULT_WINDOW, type FollowEvent, follow } from '../run/follow.ts';
import { type Files, filesOf, readInputs } from '../run/inputs.ts';
import { WEBHOOK_FORMATS, Webhook } from '../run/webhook.ts';
import {
  DETECT_OPTIONS,
  detectRequest,
  exitCode,
  FILE_WORDS,
  LEVEL_WORDS,
  reportText,
} from './detect-options.ts';
import { choice, command, ENGINE_OPTIONS, flag, type Given, number, text } from './options.ts';

type DetectArguments = Given<typeof OPTIONS> & { readonly file?: readonly string[] | undefined };

/** Environment variable with the bearer token of a webhook. */
const WEBHOOK_TOKEN = 'TIMESEER_WEBHOOK_TOKEN';

/** Opens the webhook of a command line with what a state keeps for it; undefined without one. @throws ConfigError */
async function webhookOf(args: DetectArguments, file: string, several = false) {
  const { webhook: url, webhookFormat: format, caFile } = args;
  if (url === undefined) return undefined;
  if (args.state === undefined)
    throw new ConfigError('--webhook: needs --state, the file that remembers what was told');
  // Standard input has no name of its own, and several files share their state: an alert must close under the name it opened with.
  const isNamed = args.prometheus !== undefined || (file !== STANDARD_INPUT && !args.follow && !several);
  const source = args.prometheus !== undefined ? file : onOneLine(basename(isNamed ? file : args.state));
  const { bearerToken, readAuthorities } = await import('../endpoint/requests.ts');
  const token = bearerToken(undefined, WEBHOOK_TOKEN);
  const ca = readAuthorities(caFile);
  const open = (kept: Alerts | undefined): Webhook => new Webhook({ url, format, source, token, ca }, kept);
  open(undefined); // a wrong address is told before anything is read
  return open;
}

/** Formats an event of `--follow` as a line of text. */
function followText(event: FollowEvent): string {
  switch (event.event) {
    case 'start':
      return `following: window of ${event.window} samples; first analysis after ${event.first} samples, then every ${event.every}; reports are at most ${event.delay} samples late${openText(event.open)}`;
    case 'note':
      return `  note: ${event.text}`;
    case 'end':
      return `${event.rows} lines read; ${event.bad} left out, ${event.late} sorted in, ${event.tooLate} older than the window${openText(event.open)}`;
    default:
      return findingText(
        event,
        event.event === 'open' ? 'open' : `closed (${event.reason}, ${event.duration})`,
      );
  }
}

/** Returns the finding of an event. */
function withoutEvent({
  event: _,
  reason: __,
  ...finding
}: FollowedFinding & { event: string; reason?: string }) {
  return finding as FollowedFinding;
}

const findingText = ({ column, kind, level, severity, statement }: FollowedFinding, state: string): string =>
  `${level} ${severity.toFixed(1)}, ${column}: ${KIND_WORDS[kind]}, ${state}. ${statement}`;

const openText = (open: readonly FollowedFinding[]): string =>
  open.map((finding) => `\n  ${findingText(finding, 'still open')}`).join('');

/** Reads rows from `input` until it ends or the process is asked to stop. */
async function runFollow(args: DetectArguments): Promise<void> {
  const file = args.file?.find((name) => name !== STANDARD_INPUT);
  if (file !== undefined)
    throw new ConfigError(
      `--follow reads standard input; for a file that grows: tail -n +1 -F ${shellWord(file)} | timeseer detect --follow`,
    );
  if (args.since !== undefined)
    throw new ConfigError('--since: --follow reports only new findings; leave --since out');
  if (args.prometheus !== undefined)
    throw new ConfigError(
      '--prometheus: --follow reads standard input; run detect --state from a timer instead',
    );
  if (args.history !== undefined)
    throw new ConfigError(
      '--history: --follow learns from its first rows; put the earlier rows in front: (cat old.csv; tail -n +2 -F new.csv) | timeseer detect --follow',
    );
  for (const name of ['out', 'scores', 'policy', 'engine', 'device'] as const)
    if (args[name] !== undefined)
      throw new ConfigError(
        `--${name}: --follow does not keep the whole recording; run detect on a file instead`,
      );
  if (args.format !== 'text' && args.format !== 'json')
    throw new ConfigError(`--format ${args.format}: --follow prints one line per event, as text or json`);
  const asJson = args.json || args.format === 'json';
  const fail = args.failOn as Level | undefined;
  let failed = false;
  const tell = (event: FollowEvent): void => {
    if (asJson) printJson(event);
    else print(followText(event));
    const findings = 'level' in event ? [event] : 'open' in event ? event.open : [];
    if (args.failOnQuality && event.event === 'note') failed ||= FAULTS.has(event.code);
    if (fail !== undefined) failed ||= findings.some(({ level }) => LEVELS[level] >= LEVELS[fail]);
  };
  const { file: name, ...request } = detectRequest('standard input', args);
  const { every, state: path } = args;
  const window = args.window === undefined ? DEFAULT_WINDOW : Number(args.window);
  const openWebhook = await webhookOf(args, name);
  const work = async (signal: AbortSignal): Promise<void> => {
    const state = path === undefined ? null : await readState(path);
    const webhook = openWebhook?.(state?.alerts);
    let last = state;
    const save = (alerts = state?.alerts): void => {
      if (path === undefined || last === null) return;
      last = { ...last, ...(alerts === undefined ? {} : { alerts }) };
      writeState(path, last);
    };
    const remember = (now: ReportState): void => {
      last = now;
      save(webhook?.alerts);
    };
    const options = { ...request, name, window, every, state };
    const over = new AbortController();
    const sending = webhook?.run((alerts) => {
      try {
        save(alerts);
      } catch (error) {
        say(`webhook: ${(error as Error).message}`); // the next analysis writes the state again, or fails
      }
    }, over.signal);
    const heard = (event: FollowEvent): void => {
      tell(event);
      if (event.event === 'open') webhook?.add('open', withoutEvent(event));
      if (event.event === 'closed') webhook?.add('closed', withoutEvent(event), event.reason);
    };
    try {
      await follow(untilAborted(process.stdin, signal), options, heard, remember);
    } finally {
      over.abort();
      await sending;
    }
  };
  await withInterrupt(
    (signal) => (path === undefined ? work(signal) : withState(path, false, () => work(signal))),
    'stopping after the last rows have been analysed; press Ctrl-C again to quit at once',
  );
  if (failed) process.exitCode ??= 1;
}

/** The parts of a stream; it ends where it is asked to. */
async function* untilAborted(stream: NodeJS.ReadStream, signal: AbortSignal): AsyncGenerator<Uint8Array> {
  const stop = (): void => void stream.destroy();
  signal.addEventListener('abort', stop, { once: true });
  try {
    for await (const chunk of stream) {
      yield chunk as Uint8Array;
      if (signal.aborted) return;
    }
  } catch (error) {
    if (!signal.aborted) throw error;
  } finally {
    signal.removeEventListener('abort', stop);
  }
}

/** Report to print, with the files that it was written to. */
interface Told {
  readonly report: AnomalyReport;
  readonly files: readonly string[];
  readonly seconds: number;
}

/** Exit code where some of several files could not be judged, and names or errors that are printed at most. */
const [FAILED, MOST_NAMED] = [3, 20];

/** Detects in one recording, writes its files, and gives what is to be reported, once the state has let it through. */
async function detectOne(
  args: DetectArguments,
  file: string | undefined,
  tell: (told: Told) => void,
  given?: { readonly recording: Recording; readonly once: Once },
): Promise<void> {
  const { out, policy = NONE, engine, device, state, since } = args;
  if (out !== undefined) checkTarget(out);
  if (args.scores !== undefined) checkScores(args.scores);
  const request = { ...detectRequest(file, args), window: args.window };
  const webhook = given === undefined ? await webhookOf(args, request.file) : undefined;
  const asked = { policy, engine, device };
  const { source, report, seconds, pictures } = await detectAndAsk(request, asked, since, given?.recording);
  const publish = (chosen: AnomalyReport): void => {
    if (state !== undefined) verify(chosen, source);
    const files: string[] = [];
    if (out !== undefined) files.push(...Object.values(writeReport(out, chosen, source, pictures)));
    if (args.scores !== undefined) {
      writeFileAtomic(args.scores, [...scoresCsv(source)].join(''));
      files.push(args.scores);
    }
    tell({ report: chosen, files, seconds });
  };
  if (given !== undefined) await given.once(report, source, publish);
  else if (state === undefined) publish(report);
  else await reportOnce(state, (once) => once(report, source, publish), webhook, false);
}

/** Prints a report as text, or reports in another format: several are one document, but for Markdown. */
function printReports(told: readonly Told[], format: string, several: boolean): void {
  const reports = told.map(({ report }) => report);
  const findings = reports.flatMap((report) => report.findings);
  if (format === 'text')
    for (const { report, files, seconds } of told) print(reportText(report, files, seconds));
  else if (format === 'json' && several) print(JSON.stringify(reports, null, 2));
  else if (format === 'grafana-annotations') print(JSON.stringify(reports.flatMap(toGrafana), null, 2));
  else if (reports.length > 0)
    for (const report of format === 'csv' ? [{ ...reports[0]!, findings }] : reports)
      print(FORMATS[format]!(report).trimEnd());
  if (format !== 'text') for (const { files } of told) for (const written of files) say(written);
}

/** Detects in several files: in one report those that share their times, the largest first, with an index line. */
async function detectMany(args: DetectArguments, files: Files, format: string): Promise<void> {
  const failed: string[] = [];
  const told: Told[] = [];
  let usage = true;
  const fails = (error: unknown, file: string): void => {
    // A fault in the judgement of one file, also of timeseer itself, ends no other's.
    if (!(error instanceof Error)) throw error;
    usage &&= error instanceof ConfigError;
    const { message } = error;
    const at = error instanceof TimeseerError ? '' : `${file}: `;
    if (failed.push(file) <= MOST_NAMED) say(`error: ${at}${message}`);
  };
  const tell = (one: Told): void => {
    told.push(one);
    if (format === 'text') printReports([one], format, true);
  };
  const read = (file: string): Promise<Recording> => readRequest(detectRequest(file, args), args.since);
  const shard = parseShard(args.shard);
  let [reports, own] = [0, 0];
  /** Reports by the name in their files: a/b.csv and a-b.csv have one. */
  const named = new Map<string, number>();
  const work = async (once: Once): Promise<void> => {
    for await (const { name, recording } of readInputs(files, read, fails)) {
      reports++;
      const base = recording.name.replaceAll('/', '-');
      const number = (named.get(base) ?? 0) + 1;
      named.set(base, number);
      // By name, so that a file which is new for one part moves no other report to another part.
      if (shard !== null && hash32(recording.name) % shard.of !== shard.index) continue;
      own++;
      const label = number === 1 ? base : `${base}-${number}`;
      const target = (path: string | undefined, ending = extname(path ?? '')): string | undefined =>
        path === undefined || (told.length === 0 && shard === null)
          ? path
          : `${path.slice(0, path.length - ending.length)}.${label}${ending}`;
      const paths = { out: target(args.out, ''), scores: target(args.scores) };
      const given = { recording, once };
      await detectOne({ ...args, ...paths }, name, tell, given).catch((error) => fails(error, name));
    }
    if (told.length === 0 && (own > 0 || reports === 0))
      throw new (usage ? ConfigError : DataError)(`none of the ${files.files.size} files could be judged`);
    if (format !== 'text') printReports(told, format, true);
  };
  const webhook = await webhookOf(args, STANDARD_INPUT, true);
  if (args.state === undefined) await work(async (report, _, publish) => publish(report));
  else await reportOnce(args.state, work, webhook);
  const found = told.flatMap(({ report: { file, findings } }) =>
    findings.length === 0 ? [] : [`${plural(findings.length, 'finding')} in ${file}`],
  );
  const index = [
    plural(files.files.size, 'file'),
    ...(shard === null
      ? []
      : [`part ${shard.index + 1} of ${shard.of}: ${told.length} of ${plural(reports, 'report')}`]),
    ...(told.length > 1 && shard === null
      ? [`${told.length} reports, as not all files share their times`]
      : []),
    found.length === 0 ? 'no findings' : firstNames(found, MOST_NAMED),
    ...(failed.length === 0 ? [] : [`not judged: ${firstNames(failed, MOST_NAMED)}`]),
  ].join('; ');
  if (format === 'text') print(index);
  else say(index);
  const codes = told.map(({ report }) => exitCode(report, args));
  process.exitCode = failed.length > 0 ? FAILED : codes.includes(1) ? 1 : codes[0];
}

async function runDetect(args: DetectArguments): Promise<void> {
  if (args.schema) return printJson((await import('../explain/schema.ts')).reportSchema());
  if (args.shard !== undefined) {
    parseShard(args.shard);
    for (const name of ['follow', 'state', 'webhook'] as const)
      if (args[name])
        throw new ConfigError(`--shard and --${name}: cannot be combined; leave one of them out`);
  }
  if (args.follow) return runFollow(args);
  if (args.every !== undefined)
    throw new ConfigError('--every: needs --follow; add it, or leave --every out');
  const { window } = args;
  if (window !== undefined) {
    if (/^\d+$/.test(window))
      throw new ConfigError(
        `--window ${window}: a number of samples needs --follow; add it, or give FROM..TO`,
      );
    for (const name of ['since', 'policy', 'state'] as const)
      if (args[name] !== undefined)
        throw new ConfigError(`--${name}: cannot be combined with --window, which judges one span once`);
  }
  const format = args.json ? 'json' : args.format;
  const { prometheus, file = [] } = args;
  const files = prometheus === undefined ? await filesOf(file) : null;
  if (args.shard !== undefined && files?.several !== true)
    throw new ConfigError('--shard: needs several files, a quoted pattern or a directory; leave it out');
  if (files?.several) return detectMany(args, files, format);
  await detectOne(args, file[0], (told) => {
    printReports([told], format, false);
    process.exitCode = exitCode(told.report, args);
  });
}

const OPTIONS = {
  ...DETECT_OPTIONS,
  state: text(
    'File that remembers reported findings: each is reported once, and again while it is ongoing; --follow goes on with its rows. Another recording is refused where its times overlap those remembered, and only there: give each recording its own file',
  ),
  format: choice(['text', ...Object.keys(FORMATS)], 'Output format', { default: 'text' }),
  out: text('Also write an HTML page and a JSON file: path without extension'),
  policy: text(
    'Also ask a policy, and rank what both find by confidence: small or inspect (which ship with timeseer), a run or policy directory',
  ),
  ...ENGINE_OPTIONS,
  follow: flag(
    'Read rows from standard input as they arrive; report each finding when it appears and when it ends',
  ),
  window: text(
    `Judge only FROM..TO, against what came before: which columns moved, the most certain first (2025-03-04T05:00..2025-03-04T10:00, 6h..2h, 6h..). With --follow: number of latest samples to keep and analyse, 50 to 100000 (default: ${DEFAULT_WINDOW})`,
  ),
  every: number(
    'With --follow: analyse after this many new samples (default: 1/200 of the window; up to 1/4 when rows arrive faster than they are analysed)',
  ),
  shard: text(
    'Judge one part of the reports of several files, e.g. 2/4, while other machines judge the other parts. All read the same files; the name of a report decides on its part. Without --state',
  ),
  webhook: text(
    `With --state: tell this address, once each, when a finding opens and when it closes; env:NAME takes the address from the environment, ${WEBHOOK_TOKEN} there is sent as bearer token`,
  ),
  'webhook-format': choice(
    Object.keys(WEBHOOK_FORMATS),
    'Body of a webhook: JSON of timeseer, a message for Slack, alerts for the API of Alertmanager, or annotations of Grafana, which become regions when findings close',
    { default: 'generic' },
  ),
  schema: flag('Print the JSON Schema of a report'),
  json: flag('Same as --format json'),
};

export const detectCommand = command({
  command: 'detect [file..]',
  positionals: {
    file: {
      ...{ type: 'string', array: true },
      describe: `${FILE_WORDS}; several files, a quoted pattern or a directory are judged together`,
    },
  },
  options: OPTIONS,
  examples: [
    ['$0 detect metrics.csv', 'Findings in all numeric columns, ranked by severity'],
    [
      "$0 detect 'metrics/*.csv'",
      'Several files, or a directory: those that share their times side by side in one report, the others one after the other',
    ],
    [
      '$0 detect metrics.csv --column requests --format csv --scores scores.csv',
      'One column: findings as CSV, and the score of every sample',
    ],
    [
      "$0 detect metrics.csv --key host --select '*'",
      'A long table of many hosts: every one of them, side by side',
    ],
    [
      "$0 detect telegraf.lp --key measurement,host --select '*' --column usage_idle",
      'Line protocol of InfluxDB: one field of all hosts. Tags and keys are columns: JSON lines {"http": {"ms": 3}} have the column http.ms',
    ],
    [
      "$0 detect '/shared/metrics/*.csv' --shard 3/16 --out /shared/reports/metrics",
      'The third of 16 parts: each machine reads all files, judges its reports, and writes each under its own name',
    ],
    [
      '$0 detect metrics.csv --window 2025-03-04T05:00..2025-03-04T10:00',
      'What moved? The columns by how far they departed in that span from before',
    ],
    [
      '$0 detect metrics.csv --since 2h --state seen.json --fail-on high',
      'In a cron job: report each new finding once',
    ],
    [
      '$0 detect today.csv --history last-week.csv',
      'A file of one day: what is usual at its hours is learned from the week before',
    ],
    [
      '$0 detect metrics.csv --policy small',
      'With the answers of a policy, and a confidence for each finding',
    ],
    [
      '$0 detect --prometheus http://prometheus:9090 --query node_load1 --since 6h --history 7d --state load.json',
      'All hosts of a Prometheus, from cron: a week shows what is usual, six hours are reported',
    ],
    [
      '$0 detect metrics.csv --since 6h --state seen.json --webhook env:SLACK_URL --webhook-format slack',
      'Tell a channel when a finding opens and when it closes',
    ],
    [
      `${WEBHOOK_TOKEN}=… $0 detect metrics.csv --state seen.json --webhook http://grafana:3000 --webhook-format grafana`,
      'Annotations on dashboards; the token of a service account that may read, write and create annotations',
    ],
    [
      'tail -n +1 -F metrics.csv | $0 detect --follow --json',
      'Streaming rows: one line of JSON when a finding appears, and one when it ends',
    ],
  ],
  epilogue: `${LEVEL_WORDS} Events that a webhook does not take wait in the state file, at most 1000; each has an id that stays the same when it is sent again. Reports of several files, a pattern or a directory are a list in JSON, also of one; they share one --state, and their columns bear the names of files. --out and --scores of the largest report are named as given; others have the name of a file before the ending (scores.web-1.csv), as all have with --shard.`,
  handler: runDetect,
});
