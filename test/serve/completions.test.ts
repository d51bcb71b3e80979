import fc from 'fast-check';
import { afterAll, describe, expect, it } from 'vitest';
import { torchPolicy } from '../../src/answer/local.ts';
import { generate } from '../../src/policy/generate.ts';
import { parseGenerationConfig } from '../../src/policy/model-config.ts';
import {
  type CompletionEvent,
  type CompletionJob,
  Completions,
  StopTexts,
} from '../../src/serve/completions.ts';
import { policy, prompts } from '../policy/generate-policy.ts';
import { engine } from '../policy/golden.ts';

const born = engine.live();
afterAll(() => expect(engine.live()).toBe(born));

const config = parseGenerationConfig({ do_sample: true });

/** A job with the number under which the test knows it. */
type NumberedJob = CompletionJob & { readonly id: number };
type NumberedEvent = CompletionEvent & { readonly id: number };

function job(id: number, changes: Partial<CompletionJob> = {}): NumberedJob {
  return {
    ...{ id, prompt: prompts[id % prompts.length]!, samples: 1, temperature: 1, topP: 1, maxTokens: 24 },
    ...{ seed: 40 + id, stop: [], ...changes },
  };
}

/** Records the events of jobs, and the answers made of them. */
class Recorder {
  readonly events: NumberedEvent[] = [];
  readonly completions: Completions;
  onEvent: (event: NumberedEvent) => void = () => {};

  constructor(maxRows = 8, how = config) {
    this.completions = new Completions(torchPolicy(policy), how, maxRows);
  }

  add({ id, ...rest }: NumberedJob, signal = new AbortController().signal): Promise<void> {
    const record = (event: CompletionEvent): void => {
      this.events.push({ ...event, id });
      this.onEvent({ ...event, id });
    };
    return this.completions.complete(rest, record, signal);
  }

  async answers(jobs: readonly NumberedJob[], signals: readonly AbortSignal[] = []): Promise<string[]> {
    await Promise.all(jobs.map((one, i) => this.add(one, signals[i])));
    return jobs.flatMap(({ id, samples }) =>
      Array.from({ length: samples }, (_, sample) =>
        this.events
          .filter((event) => event.id === id && event.sample === sample)
          .map((event) => (event.kind === 'text' ? event.text : ''))
          .join(''),
      ),
    );
  }

  ends(id: number): unknown[] {
    return this.events.filter((event) => event.id === id && event.kind === 'end');
  }
}

/** What `generate` answers to the prompt of a job alone. */
async function alone({
  prompt,
  samples,
  temperature,
  topP,
  maxTokens,
  seed,
}: CompletionJob): Promise<string[]> {
  const options = { samples, temperature, topP, maxTokens, seed, free: true };
  return (await generate(policy, [prompt], options)).map(({ text }) => text);
}

describe('completions', () => {
  it('answers each job as if it were alone, whatever its seed, samples, length and sampling', async () => {
    const jobs = [
      job(0),
      job(1, { maxTokens: 5 }),
      job(2, { temperature: 0, maxTokens: 11 }),
      job(3, { samples: 3 }),
      job(4, { topP: 0.6 }),
      job(5, { seed: 2 ** 40 + 3, maxTokens: 40 }),
    ];
    const recorder = new Recorder();
    expect(await recorder.answers(jobs)).toEqual((await Promise.all(jobs.map(alone))).flat());
    expect(recorder.ends(1)).toEqual([{ id: 1, kind: 'end', sample: 0, reason: 'length', tokens: 5 }]);
    expect(recorder.ends(3)).toHaveLength(3);
  });

  it('decodes jobs together that wait when a batch begins and are sampled alike', async () => {
    const recorder = new Recorder(3);
    // The first goes alone, as nothing waits beside it; of the others three fit into a batch, and one is sampled otherwise.
    const jobs = [0, 1, 2, 3, 4].map((id) => job(id, id === 2 ? { temperature: 0.5 } : {}));
    void recorder.add(job(9));
    await new Promise(setImmediate);
    await recorder.answers(jobs);
    const span = (id: number): [number, number] => {
      const at = recorder.events.flatMap((event, i) => (event.id === id ? [i] : []));
      return [at[0]!, at.at(-1)!];
    };
    const overlap = (a: number, b: number): boolean => span(a)[0] < span(b)[1] && span(b)[0] < span(a)[1];
    expect([overlap(0, 1), overlap(1, 3), overlap(0, 3)]).toEqual([true, true, true]);
    expect([9, 2, 4].map((id) => [0, 1, 3].some((other) => overlap(id, other)))).toEqual([
      false,
      false,
      false,
    ]);
    expect(span(9)[1]).toBeLessThan(Math.min(span(0)[0], span(1)[0], span(3)[0]));
  });

  it('does not let a client wait for the long answers of another', async () => {
    const recorder = new Recorder();
    const long = [0, 1, 2].map((id) => job(id, { client: 'a', maxTokens: 200, temperature: 0.1 * (id + 1) }));
    const all = long.map((one) => recorder.add(one));
    await new Promise(setImmediate);
    const short = job(5, { client: 'b', maxTokens: 3 });
    expect(await recorder.answers([short])).toEqual(await alone(short));
    expect(long.map(({ id }) => recorder.ends(id).length)).toEqual([0, 0, 0]);
    await Promise.all(all);
    expect(await alone(long[1]!)).toEqual(await new Recorder().answers([long[1]!]));
    const spans = long.map(({ id }) => recorder.events.findIndex((event) => event.id === id));
    expect(spans).toEqual(spans.toSorted((a, b) => a - b));
  });

  it('tells text as it is decoded', async () => {
    const recorder = new Recorder();
    await recorder.answers([job(1, { maxTokens: 200 })]);
    expect(recorder.events.filter(({ kind }) => kind === 'text').length).toBeGreaterThan(10);
  });

  it('tells nothing more of a job that is stopped, decodes it no further, and goes on with the others', async () => {
    const recorder = new Recorder();
    let looks = 0;
    const stop = new AbortController();
    recorder.onEvent = ({ id }) => {
      if (id === 1 && ++looks === 3) stop.abort();
    };
    const jobs = [job(0), job(1, { maxTokens: 4000, samples: 1 }), job(2)];
    const never = new AbortController().signal;
    const texts = await recorder.answers(jobs, [never, stop.signal, never]);
    expect(recorder.events.filter(({ id }) => id === 1)).toHaveLength(3);
    expect(texts[0]).toBe((await alone(job(0)))[0]);
    expect(texts[2]).toBe((await alone(job(2)))[0]);
    expect(engine.live()).toBe(born);
  });

  it('does not begin a job that is stopped while it waits', async () => {
    const recorder = new Recorder(1);
    const first = recorder.add(job(0));
    const stop = new AbortController();
    const second = recorder.add(job(1), stop.signal);
    stop.abort();
    await Promise.all([first, second]);
    expect(new Set(recorder.events.map(({ id }) => id))).toEqual(new Set([0]));
  });

  it('says how an answer ended and how many tokens it took, the end token among them', async () => {
    // Any of forty tokens ends an answer, so that some end early and some are cut off.
    const stops = Array.from({ length: 40 }, (_, id) => id);
    const recorder = new Recorder(8, parseGenerationConfig({ do_sample: true, eos_token_id: stops }));
    const jobs = [2, 9, 30].map((maxTokens, id) => job(id, { samples: 4, maxTokens }));
    const texts = await recorder.answers(jobs);
    const ends = jobs.flatMap(({ id }) =>
      (recorder.ends(id) as { sample: number; reason: string; tokens: number }[]).sort(
        (a, b) => a.sample - b.sample,
      ),
    );
    const wanted = (
      await Promise.all(jobs.map((one) => generate(policy, [one.prompt], { ...one, stops, free: true })))
    ).flat();
    expect(ends.map(({ reason, tokens }) => [reason, tokens])).toEqual(
      wanted.map(({ finished, ids }) => [finished ? 'stop' : 'length', ids.length]),
    );
    expect(texts).toEqual(wanted.map(({ text }) => text));
    expect(new Set(ends.map(({ reason }) => reason)).size).toBe(2);
  });

  it('ends an answer before a stop text, and counts the tokens up to it', async () => {
    const whole = (await alone(job(1, { maxTokens: 60 })))[0]!;
    const stop = whole.slice(20, 23);
    const recorder = new Recorder();
    const [text] = await recorder.answers([job(1, { maxTokens: 60, stop: ['nowhere in it', stop] })]);
    expect(text).toBe(whole.slice(0, whole.indexOf(stop)));
    expect(recorder.ends(1)).toMatchObject([{ reason: 'stop' }]);
    expect((recorder.ends(1)[0] as { tokens: number }).tokens).toBeLessThan(60);
  });

  it('fails the jobs of a batch that cannot be decoded, and answers the next', async () => {
    const recorder = new Recorder();
    const broken = { ...prompts[0]!, ids: Int32Array.of(10 ** 6) };
    await expect(recorder.add(job(0, { prompt: broken }))).rejects.toThrow(/^the policy failed: /);
    expect(recorder.events).toEqual([]);
    expect(await recorder.answers([job(1)])).toEqual(await alone(job(1)));
    expect(engine.live()).toBe(born);
  });
});

describe('stop texts', () => {
  it('let through what comes before the first of them, in whatever pieces it comes', () => {
    const letters = fc.string({ unit: fc.constantFrom('a', 'b', 'c'), maxLength: 30 });
    const stops = fc.array(fc.string({ unit: fc.constantFrom('a', 'b', 'c'), minLength: 1, maxLength: 4 }), {
      maxLength: 4,
    });
    fc.assert(
      fc.property(fc.array(letters, { maxLength: 8 }), stops, (pieces, texts) => {
        const filter = new StopTexts(texts);
        let told = '';
        let stopped = false;
        for (const piece of pieces) {
          const one = filter.push(piece);
          told += one.text;
          stopped = one.stopped;
          if (stopped) break;
        }
        if (!stopped) told += filter.end();
        // The text that is complete first ends the answer; of several, the one that begins first.
        const whole = pieces.join('');
        let end = whole.length;
        let upTo = 0;
        for (const piece of pieces) {
          upTo += piece.length;
          const found = texts.map((text) => whole.slice(0, upTo).indexOf(text)).filter((at) => at >= 0);
          if (found.length === 0) continue;
          end = Math.min(...found);
          break;
        }
        expect(told).toBe(whole.slice(0, end));
      }),
    );
  });
});
