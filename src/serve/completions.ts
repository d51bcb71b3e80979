/**
 * Completions by the policy: requests that wait when a batch begins are decoded together; each receives its text as it is sampled. A client
 * that waits for the batch of others gets one beside it, so that a long answer delays its own client alone.
 */
import type { LocalPolicy } from '../answer/answerer.ts';
import { TimeseerError } from '../ground/errors.ts';
import { Random } from '../ground/random.ts';
import { Row } from '../policy/generate.ts';
import type { GenerationConfig } from '../policy/model-config.ts';
import { TextStreamer, type Tokenizer } from '../policy/tokenizer.ts';
import type { Completion } from './chat-request.ts';

export interface CompletionJob extends Completion {
  readonly seed: number;
  /** Name of the client; default: that of all jobs without one. */
  readonly client?: string;
}

/** Part of an answer. Each sample gets its text in order, then its end. */
export type CompletionEvent =
  | { readonly kind: 'text'; readonly sample: number; readonly text: string }
  | {
      readonly kind: 'end';
      readonly sample: number;
      /** `stop`: by an end token or before a stop text; `length`: it was cut off. */
      readonly reason: 'stop' | 'length';
      /** Number of sampled tokens, the end token included. */
      readonly tokens: number;
    };

/** Filter of streamed text: passes it up to the first stop text, and keeps back what may be the beginning of one. */
export class StopTexts {
  readonly #stops: readonly string[];
  #kept = '';

  constructor(stops: readonly string[]) {
    this.#stops = stops;
  }

  /** Returns the text that can be sent, and true where a stop text has come. */
  push(text: string): { readonly text: string; readonly stopped: boolean } {
    if (this.#stops.length === 0) return { text, stopped: false };
    const all = this.#kept + text;
    const places = this.#stops.map((stop) => all.indexOf(stop)).filter((at) => at >= 0);
    if (places.length > 0) {
      this.#kept = '';
      return { text: all.slice(0, Math.min(...places)), stopped: true };
    }
    let kept = 0;
    for (const stop of this.#stops) {
      for (let n = Math.min(stop.length - 1, all.length); n > kept; n--) {
        if (all.endsWith(stop.slice(0, n))) kept = n;
      }
    }
    this.#kept = all.slice(all.length - kept);
    return { text: all.slice(0, all.length - kept), stopped: false };
  }

  /** Returns the text that was kept back. */
  end(): string {
    return this.#kept;
  }
}

/** Text of one sample while it is decoded. */
class Answer {
  readonly #streamer: TextStreamer;
  readonly #stops: StopTexts;
  #tokens = 0;
  ended = false;

  constructor(tokenizer: Tokenizer, stops: readonly string[]) {
    this.#streamer = new TextStreamer(tokenizer);
    this.#stops = new StopTexts(stops);
  }

  /** Adds tokens; returns the text that they complete, and the reason of the end where they end the answer. */
  push(
    ids: Int32Array,
    endTokens: ReadonlySet<number>,
    maxTokens: number,
  ): { text: string; reason: 'stop' | 'length' | null } {
    let text = '';
    for (const id of ids) {
      this.#tokens++;
      const last = endTokens.has(id) || this.#tokens === maxTokens;
      const piece = endTokens.has(id) ? '' : this.#streamer.push(id);
      const passed = this.#stops.push(last ? piece + this.#streamer.end() : piece);
      text += passed.text;
      if (!last && !passed.stopped) continue;
      this.ended = true;
      if (!passed.stopped) text += this.#stops.end();
      return { text, reason: passed.stopped || endTokens.has(id) ? 'stop' : 'length' };
    }
    return { text, reason: null };
  }

  get tokens(): number {
    return this.#tokens;
  }
}

/** Job that waits or is decoded. */
interface OpenJob {
  readonly job: CompletionJob;
  readonly onEvent: (event: CompletionEvent) => void;
  readonly resolve: () => void;
  readonly reject: (error: Error) => void;
  /** Empty until it is decoded. */
  rows: readonly Row[];
  /** Number of samples that have not ended. */
  left: number;
  aborted: boolean;
}

/** Batches that are decoded side by side at most, each of other clients. */
const MOST_BATCHES = 4;

export class Completions {
  readonly #policy: Pick<LocalPolicy, 'prompting' | 'decode'>;
  readonly #config: GenerationConfig;
  readonly #maxRows: number;
  #waiting: OpenJob[] = [];
  readonly #running = new Set<readonly OpenJob[]>();

  /** @param maxRows number of answers that are decoded together; more samples of one job are decoded all the same */
  constructor(policy: Pick<LocalPolicy, 'prompting' | 'decode'>, config: GenerationConfig, maxRows: number) {
    this.#policy = policy;
    this.#config = config;
    this.#maxRows = maxRows;
  }

  /**
   * Completes a job; resolves when its samples have ended. Aborting the signal resolves it at once, without further events, and frees its
   * places in the batch.
   * @throws (rejects with) TimeseerError where the policy fails
   */
  complete(
    job: CompletionJob,
    onEvent: (event: CompletionEvent) => void,
    signal: AbortSignal,
  ): Promise<void> {
    if (signal.aborted) return Promise.resolve();
    return new Promise((resolve, reject) => {
      const open: OpenJob = { job, onEvent, resolve, reject, rows: [], left: job.samples, aborted: false };
      const abort = (): void => {
        open.aborted = true;
        this.#waiting = this.#waiting.filter((waiting) => waiting !== open);
        for (const row of open.rows) row.stop();
        resolve();
        this.#run();
      };
      signal.addEventListener('abort', abort, { once: true });
      this.#waiting.push(open);
      this.#run();
    });
  }

  /** Begins batches of what may begin. */
  #run(): void {
    while (this.#running.size < MOST_BATCHES) {
      const batch = this.#next();
      if (batch.length === 0) return;
      this.#running.add(batch);
      this.#decode(batch)
        .catch((cause) => {
          const error = new TimeseerError(`the policy failed: ${(cause as Error).message}`, { cause });
          for (const { reject } of batch) reject(error);
        })
        .finally(() => {
          this.#running.delete(batch);
          this.#run();
        });
    }
  }

  /** Takes the oldest job of a client that has none in decoding, and those behind it with the same sampling, as far as there is room. */
  #next(): OpenJob[] {
    const busy = new Set(
      [...this.#running]
        .flat()
        .flatMap(({ job, left, aborted }) => (left > 0 && !aborted ? [job.client] : [])),
    );
    const waiting = this.#waiting.filter(({ job }) => !busy.has(job.client));
    const first = waiting[0]?.job;
    if (first === undefined) return [];
    const most = Math.max(1, Math.floor(this.#maxRows / first.samples));
    const alike = ({ job: { samples, temperature, topP } }: OpenJob): boolean =>
      samples === first.samples && temperature === first.temperature && topP === first.topP;
    const batch = waiting.filter(alike).slice(0, most);
    this.#waiting = this.#waiting.filter((open) => !batch.includes(open));
    return batch;
  }

  async #decode(batch: readonly OpenJob[]): Promise<void> {
    const { stops, topK, repetitionPenalty, suppress } = this.#config;
    const endTokens = new Set([this.#policy.prompting.dims.special.end, ...stops]);
    const groups = batch.map((open, prompt) => {
      const { job } = open;
      const limits = { stops: endTokens, maxTokens: job.maxTokens, hidden: false };
      const rows = Array.from(
        { length: job.samples },
        (_, sample) => new Row(prompt, sample, new Random(job.seed, 'sample', 0, sample), limits),
      );
      open.rows = rows;
      return { prompt: job.prompt, rows };
    });
    const answers = batch.map(({ job: { samples, stop } }) =>
      Array.from({ length: samples }, () => new Answer(this.#policy.prompting.tokenizer, stop)),
    );
    const { temperature, topP } = batch[0]!.job;
    await this.#policy.decode(groups, {
      ...{ temperature, topP, repetitionPenalty, suppress, free: true },
      ...(topK === null ? {} : { topK }),
      maxRows: Number.MAX_SAFE_INTEGER,
      onTokens: (row, ids) => {
        const { prompt, sample } = row;
        const open = batch[prompt]!;
        const answer = answers[prompt]![sample]!;
        if (open.aborted || answer.ended) return;
        const { text, reason } = answer.push(ids, endTokens, open.job.maxTokens);
        if (text !== '') open.onEvent({ kind: 'text', sample, text });
        if (reason === null) return;
        row.stop();
        open.onEvent({ kind: 'end', sample, reason, tokens: answer.tokens });
        if (--open.left > 0) return;
        open.resolve();
        queueMicrotask(() => this.#run());
      },
    });
  }
}
