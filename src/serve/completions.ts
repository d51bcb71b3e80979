/** Completions by the policy: requests that wait when a batch begins are decoded together; each receives its text as it is sampled. */
import type { LocalPolicy } from '../answer/answerer.ts';
import { Random } from '../ground/random.ts';
import { Row } from '../policy/generate.ts';
import type { GenerationConfig } from '../policy/generation-config.ts';
import { TextStreamer, type Tokenizer } from '../policy/tokenizer.ts';
import type { Completion } from './chat-request.ts';

export interface CompletionJob extends Completion {
  readonly id: number;
  readonly seed: number;
}

/** What is told about a job. Of each of its samples: texts in order, then its end. */
export type CompletionEvent = { readonly id: number } & (
  | { readonly kind: 'text'; readonly sample: number; readonly text: string }
  | {
      readonly kind: 'end';
      readonly sample: number;
      /** `stop`: by an end token or before a text that ends it; `length`: it was cut off. */
      readonly reason: 'stop' | 'length';
      /** Tokens that were sampled, the end token included. */
      readonly tokens: number;
    }
  | { readonly kind: 'failed'; readonly message: string }
);

/** Lets text through up to the first of some texts, and holds back what may be the beginning of one. */
export class StopTexts {
  readonly #stops: readonly string[];
  #held = '';

  constructor(stops: readonly string[]) {
    this.#stops = stops;
  }

  /** What may be told, and whether one of the texts has come. */
  push(text: string): { readonly text: string; readonly stopped: boolean } {
    if (this.#stops.length === 0) return { text, stopped: false };
    const all = this.#held + text;
    const found = this.#stops.map((stop) => all.indexOf(stop)).filter((at) => at >= 0);
    if (found.length > 0) {
      this.#held = '';
      return { text: all.slice(0, Math.min(...found)), stopped: true };
    }
    let held = 0;
    for (const stop of this.#stops) {
      for (let n = Math.min(stop.length - 1, all.length); n > held; n--) {
        if (all.endsWith(stop.slice(0, n))) held = n;
      }
    }
    this.#held = all.slice(all.length - held);
    return { text: all.slice(0, all.length - held), stopped: false };
  }

  /** What was held back. */
  end(): string {
    return this.#held;
  }
}

/** One answer as it comes. */
class Answer {
  readonly #streamer: TextStreamer;
  readonly #stops: StopTexts;
  #tokens = 0;
  ended = false;

  constructor(tokenizer: Tokenizer, stops: readonly string[]) {
    this.#streamer = new TextStreamer(tokenizer);
    this.#stops = new StopTexts(stops);
  }

  /** Takes tokens: the text that is complete with them, and how the answer ends if it does. */
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
      const told = this.#stops.push(last ? piece + this.#streamer.end() : piece);
      text += told.text;
      if (!last && !told.stopped) continue;
      this.ended = true;
      if (!told.stopped) text += this.#stops.end();
      return { text, reason: told.stopped || endTokens.has(id) ? 'stop' : 'length' };
    }
    return { text, reason: null };
  }

  get tokens(): number {
    return this.#tokens;
  }
}

export class Completions {
  readonly #policy: Pick<LocalPolicy, 'prompting' | 'decode'>;
  readonly #config: GenerationConfig;
  readonly #maxRows: number;
  readonly #tell: (event: CompletionEvent) => void;
  #waiting: CompletionJob[] = [];
  /** Rows of the batch that is decoded, by job. */
  readonly #rows = new Map<number, readonly Row[]>();
  #running: Promise<void> | null = null;

  /** @param maxRows answers that are decoded together; more samples of one job are decoded all the same */
  constructor(
    policy: Pick<LocalPolicy, 'prompting' | 'decode'>,
    config: GenerationConfig,
    maxRows: number,
    tell: (event: CompletionEvent) => void,
  ) {
    this.#policy = policy;
    this.#config = config;
    this.#maxRows = maxRows;
    this.#tell = tell;
  }

  add(job: CompletionJob): void {
    this.#waiting.push(job);
    this.#running ??= this.#run().finally(() => (this.#running = null));
  }

  /** Nobody wants the answers to a job any more: nothing is told of it, and its places in the batch become free. */
  stop(id: number): void {
    this.#waiting = this.#waiting.filter((job) => job.id !== id);
    for (const row of this.#rows.get(id) ?? []) row.stop();
    this.#rows.delete(id);
  }

  /** Settles when nothing is left to do. */
  async idle(): Promise<void> {
    await this.#running;
  }

  async #run(): Promise<void> {
    while (this.#waiting.length > 0) {
      const jobs = this.#next();
      try {
        await this.#decode(jobs);
      } catch (error) {
        for (const { id } of jobs) {
          if (this.#rows.has(id)) this.#tell({ id, kind: 'failed', message: (error as Error).message });
        }
      }
      this.#rows.clear();
    }
  }

  /** The oldest job, and those behind it that are sampled alike, as far as there is room. */
  #next(): CompletionJob[] {
    const first = this.#waiting[0]!;
    const most = Math.max(1, Math.floor(this.#maxRows / first.samples));
    const alike = ({ samples, temperature, topP }: CompletionJob): boolean =>
      samples === first.samples && temperature === first.temperature && topP === first.topP;
    const jobs = this.#waiting.filter(alike).slice(0, most);
    this.#waiting = this.#waiting.filter((job) => !jobs.includes(job));
    return jobs;
  }

  async #decode(jobs: readonly CompletionJob[]): Promise<void> {
    const { stops, topK, repetitionPenalty, suppress } = this.#config;
    const endTokens = new Set([this.#policy.prompting.dims.special.end, ...stops]);
    const groups = jobs.map((job, prompt) => {
      const limits = { stops: endTokens, maxTokens: job.maxTokens, hidden: false };
      const rows = Array.from(
        { length: job.samples },
        (_, sample) => new Row(prompt, sample, new Random(job.seed, 'sample', 0, sample), limits),
      );
      this.#rows.set(job.id, rows);
      return { prompt: job.prompt, rows };
    });
    const answers = jobs.map(({ samples, stop }) =>
      Array.from({ length: samples }, () => new Answer(this.#policy.prompting.tokenizer, stop)),
    );
    const { temperature, topP } = jobs[0]!;
    await this.#policy.decode(groups, {
      ...{ temperature, topP, repetitionPenalty, suppress, free: true },
      ...(topK === null ? {} : { topK }),
      maxRows: Number.MAX_SAFE_INTEGER,
      onTokens: (row, ids) => {
        const { id, maxTokens } = jobs[row.prompt]!;
        const answer = answers[row.prompt]![row.sample]!;
        if (!this.#rows.has(id) || answer.ended) return;
        const { text, reason } = answer.push(ids, endTokens, maxTokens);
        const { sample } = row;
        if (text !== '') this.#tell({ id, kind: 'text', sample, text });
        if (reason === null) return;
        row.stop();
        this.#tell({ id, kind: 'end', sample, reason, tokens: answer.tokens });
      },
    });
  }
}
