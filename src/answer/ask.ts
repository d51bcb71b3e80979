/** One question to a policy, whatever answers it: `ask` of the library. */
import { DataError, EndpointError } from '../ground/errors.ts';
import type { Gold, Picture, TokenUsage } from '../ground/types.ts';
import { type Answerer, type Prompt, remedyFor } from './answerer.ts';
import { promptOf } from './prompt.ts';

export interface AskRequest {
  /** Words of the question. Policies read them; baselines and detectors read `values` instead. */
  readonly prompt?: string;
  readonly system?: string;
  /** Pictures before the words, in order. */
  readonly pictures?: readonly Picture[];
  /** Series that the question is about: one channel, or several of one length. */
  readonly values?: Float64Array | readonly Float64Array[];
  /** Number of responses; default 1. */
  readonly samples?: number;
  /** 0 (default): greedy. */
  readonly temperature?: number;
  /** Longest response in tokens; default 256. */
  readonly maxTokens?: number;
  /** Seed of sampling; default 0. */
  readonly seed?: number;
  readonly signal?: AbortSignal;
  /** Receives text as it is sampled, from policies on this machine. */
  readonly onText?: (text: string, sample: number) => void;
}

export interface PolicyAnswer {
  /** Empty for baselines and detectors, which write no text. */
  readonly text: string;
  /** Answer of a baseline or detector; null for text. */
  readonly answer: Gold | null;
  /** Tokens with their log-probabilities and whether the end token came, from policies on this machine; null elsewhere. */
  readonly tokens: {
    readonly ids: Int32Array;
    readonly logProbs: Float32Array;
    readonly finished: boolean;
  } | null;
  /** Tokens of prompt and response; null where that is not known. */
  readonly usage: TokenUsage | null;
}

/**
 * Puts one question to an answerer; returns its responses in the order of the samples.
 * @throws DataError for a picture that cannot be shown, a prompt that is too long, or a series that cannot be answered; EndpointError for
 * a response that did not come; ConfigError for an option out of its range
 */
export async function ask(answerer: Answerer, request: AskRequest): Promise<PolicyAnswer[]> {
  const { prompt: text, system, pictures = [], values, samples = 1, signal, onText } = request;
  const { temperature = 0, maxTokens = 256, seed = 0 } = request;
  if (answerer.reads === 'prompt' && text === undefined) {
    throw new DataError(`ask: ${answerer.name} answers words; give a prompt`);
  }
  const words = { prompt: text ?? '', system };
  const prompt = async (): Promise<Prompt> => {
    if (answerer.local === null) {
      const more = system === undefined ? {} : { system };
      return { ...more, shots: [], pictures, text: words.prompt };
    }
    const { prompting } = await answerer.local.load();
    const named = pictures.map((picture, i) => ({ file: `picture ${i}`, picture }));
    return promptOf(prompting, { ...words, pictures: named });
  };
  const channels = values === undefined ? [] : values instanceof Float64Array ? [values] : values;
  const names = channels.map((_, i) => (channels.length === 1 ? 'value' : `channel ${i}`));
  const series = values === undefined ? null : { id: 'series', task: '', channels, names, times: null };
  const count = answerer.reads === 'values' ? 1 : samples;
  const answers = new Array<PolicyAnswer>(count);
  await answerer.answer(
    [
      {
        ...{ key: 0, samples: Array.from({ length: count }, (_, sample) => sample) },
        ...{ prompt, series: () => series },
      },
    ],
    {
      ...{ temperature, maxTokens, seed, data: null },
      ...(signal === undefined ? {} : { signal }),
      ...(onText === undefined ? {} : { onText: (piece, { sample }) => onText(piece, sample) }),
    },
    ({ sample, text: response, answer = null, sampled, usage = null, failure }) => {
      if (failure !== undefined) throw new EndpointError(failure, { advice: remedyFor(answerer.given) });
      if (typeof answer === 'string') throw new DataError(`${answerer.name}: ${answer}`);
      const tokens =
        sampled === undefined
          ? null
          : { ids: sampled.ids, logProbs: sampled.logProbs, finished: sampled.finished };
      answers[sample] = { text: response, answer, tokens, usage };
    },
  );
  return answers;
}
