/**
 * Webhooks: findings that open and close, told to a receiver once each. What is to be told waits in the state file, which is written before a
 * request is sent and after it was taken, so that neither a kill nor a receiver that is down loses an event; an event that was taken just
 * before a kill is sent again, with the same id.
 */
import { randomUUID } from 'node:crypto';
import { setTimeout as sleep } from 'node:timers/promises';
import { excerpt, openConnections, type Posted, serverAddress, Timeout } from '../endpoint/requests.ts';
import type { Alert, Alerts, AnomalyReport, FollowedFinding, ReportFinding } from '../explain/schema.ts';
import { isSame, spanOf } from '../explain/state.ts';
import { retryAfter } from '../ground/download.ts';
import { ConfigError } from '../ground/errors.ts';
import { plural } from '../ground/numbers.ts';
import { say } from '../ground/terminal.ts';
import { followed } from './incidents.ts';

export interface WebhookOptions {
  /** Address of the receiver, or `env:NAME` for that in an environment variable: some addresses are secrets. */
  readonly url: string;
  readonly format: string;
  /** Name of the recording in messages. */
  readonly source: string;
  /** Bearer token; null: none. */
  readonly token: string | null;
  readonly ca?: string | undefined;
  /** ms of back-off after the first failure; default 1000. */
  readonly pause?: number | undefined;
}

/** Events that wait at most; the oldest are given up. */
const MOST_WAITING = 1000;
/** Seconds until a request counts as failed, and longest pause between two. */
const [TIMEOUT, LONGEST_PAUSE] = [10, 300];
/** Requests for an event in a run that ends, and seconds after which it leaves the rest to the next run. */
const [ATTEMPTS, LONGEST_DELIVERY] = [3, 60];
/** Statuses by which a receiver refuses what is sent: sending it again is of no use. */
const REFUSED: ReadonlySet<number> = new Set([400, 413, 422]);
/** Days after which Alertmanager ends an alert about whose end it was not told. */
const DAYS = 7;
/** Longest text in a message of Slack. */
const LONGEST_TEXT = 2900;

const waitWords = (events: number): string => plural(events, 'event waits', 'events wait');

const escaped = (text: string): string =>
  text.replaceAll('&', '&amp;').replaceAll('<', '&lt;').replaceAll('>', '&gt;').slice(0, LONGEST_TEXT);

function toSlack({ event, source, reason, finding, opened }: Alert): object {
  const state = event === 'open' ? `${opened.level} ${finding.severity.toFixed(1)}` : `closed (${reason})`;
  const head = escaped(`${state}: ${finding.column}, ${source}`.replaceAll(/[*_~`\s]+/g, ' '));
  return {
    text: `${head}: ${escaped(finding.statement)}`,
    blocks: [
      { type: 'section', text: { type: 'mrkdwn', text: `*${head}*` } },
      {
        type: 'section',
        text: { type: 'plain_text', emoji: false, text: finding.statement.slice(0, LONGEST_TEXT) },
      },
    ],
  };
}

/** Labels of a series in Prometheus' notation. */
function seriesLabels(column: string): Record<string, string> {
  const pairs = column.matchAll(/[{,]([a-zA-Z_]\w*)=("(?:[^"\\]|\\.)*")/g);
  return Object.fromEntries(Array.from(pairs, ([, label, text]) => [label, String(JSON.parse(text!))]));
}

/** First and last instant of a finding in ms; now for one without dates, and for an end that is to come. */
function instantsOf({ from, durationSeconds }: FollowedFinding, now: number) {
  const dated = from !== null && from.iso !== null;
  const starts = dated ? from.ms : now;
  return { dated, starts, ends: dated ? Math.min(now, starts + 1000 * (durationSeconds ?? 0)) : now };
}

/** Alert of Alertmanager's API v2. It is known by its labels, which are those of its opening. */
function toAlertmanager({ event, source, finding, opened }: Alert): object {
  const { column, statement } = finding;
  const now = Date.now();
  const { dated, starts, ends } = instantsOf(finding, now);
  const iso = (ms: number): string => new Date(ms).toISOString();
  return [
    {
      labels: {
        ...seriesLabels(column),
        ...{ alertname: 'TimeseerFinding', finding: opened.id, column, source },
        ...{ severity: opened.level, kind: opened.kind },
      },
      annotations: { summary: `${column}: ${opened.kind}`, description: statement },
      ...(dated ? { startsAt: iso(starts) } : {}),
      endsAt: iso(event === 'open' ? now + DAYS * 86_400_000 : ends),
    },
  ];
}

/** Tags by which Grafana finds the annotation of a finding; it stores 100 characters of each. */
const tagsOf = ({ opened, source }: Alert): string[] =>
  ['timeseer', `finding:${opened.id}`, `source:${source}`].map((tag) => tag.slice(0, 100).trim());

/** Annotation of Grafana: a moment while the finding is open, then a region. */
function toAnnotation(alert: Alert): object {
  const { event, source, finding, opened } = alert;
  const { starts, ends } = instantsOf(finding, Date.now());
  return {
    ...{ time: Math.round(starts), timeEnd: Math.round(event === 'open' ? starts : ends) },
    tags: [...tagsOf(alert), opened.level, opened.kind, finding.column.slice(0, 100)],
    text: escaped(`${finding.statement} (${source})`),
  };
}

/** Body of a request by the name of its format. */
export const WEBHOOK_FORMATS: Readonly<Record<string, (alert: Alert) => object>> = {
  generic: ({ opened: _, ...alert }) => ({ schema: 'timeseer.webhook', version: 1, ...alert }),
  slack: toSlack,
  alertmanager: toAlertmanager,
  grafana: toAnnotation,
};

/** Paths of the APIs that an address may leave out. */
const PATHS: Readonly<Record<string, string>> = {
  ...{ alertmanager: '/api/v2/alerts', grafana: '/api/annotations' },
};

/** @throws ConfigError, without the address */
function addressOf({ url, format }: WebhookOptions): URL {
  const [, variable] = /^env:(.+)$/s.exec(url) ?? [];
  const given = variable === undefined ? url : process.env[variable]?.trim();
  if (given === undefined || given === '')
    throw new ConfigError(`--webhook ${url}: the environment has no such variable; set it to the address`);
  const address = serverAddress(given, '--webhook', 'https://example.org/hook');
  const path = PATHS[format] ?? '';
  if (!address.pathname.endsWith(path)) address.pathname = `${address.pathname.replace(/\/+$/, '')}${path}`;
  return address;
}

/** Events of one state file that wait for a receiver, and what it was told is open. */
export class Webhook {
  readonly #options: WebhookOptions;
  readonly #post: ReturnType<typeof openConnections>;
  readonly #address: URL;
  readonly #open: Map<string, FollowedFinding>;
  #queue: Alert[];
  #lost: number;
  #failures = 0;
  #wake = (): void => {};

  /** @param kept what the state holds @throws ConfigError for a wrong address */
  constructor(options: WebhookOptions, kept: Alerts | undefined) {
    this.#options = options;
    this.#address = addressOf(options);
    const { token, ca } = options;
    this.#post = openConnections(
      this.#address,
      {
        ...{ 'content-type': 'application/json', 'user-agent': 'timeseer' },
        ...(token === null ? {} : { authorization: `Bearer ${token}` }),
      },
      { ca },
    );
    this.#open = new Map(kept?.open.map((finding) => [finding.id, finding]));
    this.#queue = [...(kept?.queue ?? [])];
    this.#lost = kept?.lost ?? 0;
  }

  /** Events and open findings for the state file. */
  get alerts(): Alerts {
    return { open: [...this.#open.values()], queue: this.#queue, lost: this.#lost };
  }

  /** Queues an event, unless the receiver was told that it is open, or not told so. */
  add(event: Alert['event'], finding: FollowedFinding, reason?: string): void {
    const opened = this.#open.get(finding.id) ?? finding;
    if (this.#open.has(finding.id) === (event === 'open')) return;
    if (event === 'open') this.#open.set(finding.id, finding);
    else this.#open.delete(finding.id);
    const { source } = this.#options;
    this.#queue.push({
      ...{ id: randomUUID(), event, source, ...(reason === undefined ? {} : { reason }), finding, opened },
    });
    if (this.#queue.length > MOST_WAITING) {
      this.#queue.shift();
      this.#give('the oldest event was given up, as too many wait');
    }
    this.#wake();
  }

  /** Queues what a report of a growing recording changes: findings that are new, and open ones that are over. */
  update(report: AnomalyReport, fresh: AnomalyReport): void {
    const isKnown = (finding: ReportFinding, { id, column, ...known }: FollowedFinding): boolean =>
      isSame(finding, { id, column, ...spanOf({ ...known, start: 0, end: 0 }) }, report.findings);
    for (const known of [...this.#open.values()]) {
      // Nothing is known about a series that is not there.
      if (!report.columns.some(({ name }) => name === known.column)) continue;
      const here = report.findings
        .filter((finding) => isKnown(finding, known))
        .sort((a, b) => spanOf(a).to - spanOf(b).to);
      if (here.some(({ ongoing }) => ongoing)) continue;
      const last = here.at(-1);
      if (last === undefined) this.add('closed', { ...known, ongoing: false }, 'no longer found');
      else this.add('closed', followed(last, known.id), 'over');
    }
    for (const finding of fresh.findings) {
      const again = [...this.#open.values()].some((known) => isKnown(finding, known));
      if (again || (finding.reported && !finding.ongoing)) continue;
      this.add('open', followed(finding, finding.id));
      if (!finding.ongoing) this.add('closed', followed(finding, finding.id), 'over');
    }
  }

  /** Sends what waits, the oldest first, until nothing does or the receiver fails too often. @param save writes the state */
  async deliver(save: (alerts: Alerts) => void, attempts = ATTEMPTS): Promise<void> {
    const end = performance.now() + 1000 * LONGEST_DELIVERY;
    for (let tries = 1; this.#queue.length > 0 && performance.now() < end; ) {
      const pause = await this.#send(save);
      if (pause === null) tries = 1;
      else if (tries++ < attempts) await sleep(Math.min(pause, 1000 * TIMEOUT));
      else break;
    }
    this.#waits();
  }

  /** Sends events as they come, with pauses after failures, until `signal` aborts. @param save writes the state */
  async run(save: (alerts: Alerts) => void, signal: AbortSignal): Promise<void> {
    const ended = new Promise<void>((resolve) => {
      signal.addEventListener('abort', () => resolve(), { once: true });
    });
    while (!signal.aborted) {
      if (this.#queue.length === 0) {
        const added = new Promise<void>((resolve) => {
          this.#wake = resolve;
        });
        await Promise.race([added, ended]);
      } else {
        const pause = await this.#send(save);
        if (pause !== null) await sleep(pause, undefined, { signal }).catch(() => undefined);
      }
    }
    if (this.#failures === 0) await this.deliver(save, 1);
    else this.#waits();
  }

  #waits(): void {
    if (this.#queue.length > 0)
      say(`webhook: ${waitWords(this.#queue.length)} in the state for the next run`);
  }

  /** Sends the oldest event. @returns null where it is done with, else ms to wait before it is sent again */
  async #send(save: (alerts: Alerts) => void): Promise<number | null> {
    const alert = this.#queue[0]!;
    // An address may be secret, but for its origin.
    const shown = this.#address.origin;
    let answer: Posted | null = null;
    let problem: string;
    try {
      answer = await this.#exchange(alert);
      const said = excerpt(this.#masked(answer.text));
      const { status } = answer;
      const isWrong = status === 404 || status === 405 || (status >= 300 && status < 400);
      const part = isWrong ? 'address of --webhook' : 'token in TIMESEER_WEBHOOK_TOKEN';
      const advice = isWrong || status === 401 || status === 403 ? `; check the ${part}` : '';
      problem = `answers with status ${status}${said === '' ? '' : ` (${said})`}${advice}`;
    } catch (error) {
      problem =
        error instanceof Timeout
          ? `has not answered within ${TIMEOUT} s`
          : excerpt(this.#masked((error as Error).message));
    }
    const status = answer?.status ?? 0;
    const taken = status >= 200 && status < 300;
    if (!taken && !REFUSED.has(status)) {
      this.#failures++;
      if (this.#failures === 1)
        say(`webhook: ${shown}: ${problem}; ${waitWords(this.#queue.length)} to be sent again`);
      const wait = answer === null ? undefined : retryAfter(answer);
      const { pause = 1000 } = this.#options;
      const doubled = pause * 2 ** Math.min(20, this.#failures - 1) * (1 + Math.random() / 2);
      return Math.min(1000 * LONGEST_PAUSE, wait === undefined ? doubled : 1000 * wait);
    }
    // The queue may have been cut while the request was under way.
    if (this.#queue[0] === alert) this.#queue.shift();
    if (!taken) this.#give(`${shown} ${problem}; the event is given up: ${alert.finding.statement}`);
    else if (this.#failures > 0) say(`webhook: ${shown} answers again`);
    this.#failures = 0;
    save(this.alerts);
    return null;
  }

  /** Posts an event; an annotation that Grafana has is changed, so that it is never there twice. */
  async #exchange(alert: Alert): Promise<Posted> {
    const { format } = this.#options;
    const body = Buffer.from(JSON.stringify(WEBHOOK_FORMATS[format]!(alert)));
    const send = (content: Buffer, other = {}): Promise<Posted> =>
      this.#post(content, TIMEOUT, new AbortController().signal, other);
    if (format !== 'grafana') return send(body);
    const query = new URLSearchParams({ type: 'annotation', limit: '1' });
    for (const tag of tagsOf(alert)) query.append('tags', tag);
    const found = await send(Buffer.alloc(0), { method: 'GET', path: `${this.#address.pathname}?${query}` });
    if (found.status !== 200) return found;
    if (/^\s*</.test(found.text))
      throw new Error('sends a web page (status 200), no annotations; check the address of --webhook');
    const id = (JSON.parse(found.text) as { readonly id?: unknown }[] | null)?.[0]?.id;
    return send(
      body,
      Number.isInteger(id) ? { method: 'PATCH', path: `${this.#address.pathname}/${id}` } : {},
    );
  }

  #masked(text: string): string {
    const { token } = this.#options;
    return token === null ? text : text.replaceAll(token, '[token]');
  }

  #give(why: string): void {
    this.#lost++;
    say(`webhook: ${why} (${this.#lost} lost so far)`);
  }
}
