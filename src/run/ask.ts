/** Asks a policy a prompt with pictures: sampling, display and timings of `timeseer ask`. */
import { performance } from 'node:perf_hooks';
import { text as readAll } from 'node:stream/consumers';
import type { Answerer, EngineName } from '../answer/answerer.ts';
import { ask } from '../answer/ask.ts';
import { openPolicy } from '../answer/open.ts';
import { checkIds, encodeUserPrompt, roomFor, type UserPrompt } from '../answer/prompt.ts';
import { ConfigError } from '../ground/errors.ts';
import { checkWhole } from '../ground/json-record.ts';
import { sum } from '../ground/numbers.ts';
import { isDirectory } from '../ground/paths.ts';
import { Progress } from '../ground/progress.ts';
import { print, printJson, say } from '../ground/terminal.ts';
import { readImage } from '../plot/image-file.ts';
import type { EncodedPrompt } from '../policy/batch.ts';
import type { Sampled } from '../policy/generate.ts';
import { type GenerationConfig, readGenerationConfig } from '../policy/model-config.ts';
import type { Prompting } from '../policy/policy.ts';
import { TextStreamer } from '../policy/tokenizer.ts';

export interface AskArguments {
  readonly policy: string;
  readonly adapter: string | undefined;
  readonly image: readonly string[] | undefined;
  readonly prompt: string | undefined;
  readonly system: string | undefined;
  readonly maxTokens: number | undefined;
  readonly temperature: number | undefined;
  readonly topP: number | undefined;
  readonly topK: number | undefined;
  readonly samples: number | undefined;
  readonly seed: number | undefined;
  readonly engine: EngineName | undefined;
  readonly device: string | undefined;
  readonly dtype: 'auto' | 'float32' | 'bfloat16' | undefined;
  readonly threads: number | undefined;
  readonly json: boolean;
}

const MOST_SAMPLES = 1024;

/** @throws ConfigError for a number out of its range */
function checkOptions(args: AskArguments): void {
  const { temperature, topP } = args;
  checkWhole('max-tokens', args.maxTokens, 1);
  if (temperature !== undefined && !(temperature >= 0 && Number.isFinite(temperature)))
    throw new ConfigError(`--temperature: expected a number of at least 0, got ${temperature}`);
  if (topP !== undefined && !(topP > 0 && topP <= 1))
    throw new ConfigError(`--top-p: expected a number above 0 and at most 1, got ${topP}`);
  checkWhole('top-k', args.topK, 0);
  checkWhole('samples', args.samples, 1, MOST_SAMPLES);
  checkWhole('seed', args.seed, 0);
  checkWhole('threads', args.threads, 1, 1024);
  if (args.adapter !== undefined && !isDirectory(args.adapter)) {
    throw new ConfigError(
      `--adapter ${args.adapter}: is not a directory; give the one with adapter_config.json`,
    );
  }
}

/** Sampling parameters of the checkpoint, with the user's changes. */
interface Sampling extends Omit<GenerationConfig, 'pad' | 'maxTokens'> {
  readonly samples: number;
}

/** @throws ConfigError for an option that greedy decoding makes void */
function samplingOf(args: AskArguments, config: GenerationConfig): Sampling {
  const temperature = args.temperature ?? config.temperature;
  const samples = args.samples ?? 1;
  if (temperature === 0) {
    const greedy = `decoding is greedy${args.temperature === 0 ? '' : ', as the checkpoint asks for'}; add a --temperature above 0`;
    if (args.topP !== undefined) throw new ConfigError(`--top-p: has no effect, ${greedy}`);
    if (args.topK !== undefined) throw new ConfigError(`--top-k: has no effect, ${greedy}`);
    if (samples > 1) throw new ConfigError(`--samples ${samples}: all would be the same, ${greedy}`);
  }
  return {
    stops: config.stops,
    suppress: config.suppress,
    temperature,
    topP: args.topP ?? config.topP,
    topK: args.topK === undefined ? config.topK : args.topK === 0 ? null : args.topK,
    repetitionPenalty: config.repetitionPenalty,
    samples,
  };
}

/** Reads the question, from the command line or standard input, without a line break at its end. */
export async function readPrompt(prompt: string | undefined): Promise<string> {
  if (prompt === undefined) {
    throw new ConfigError('--prompt: missing; give the text, or - to read it from standard input');
  }
  const text = prompt === '-' ? (await readAll(process.stdin)).replace(/\r?\n$/, '') : prompt;
  if (text.trim() === '') {
    throw new ConfigError(`--prompt: ${prompt === '-' ? 'standard input was empty' : 'the text is empty'}`);
  }
  return text;
}

interface Measured {
  readonly seconds: { readonly load: number; readonly prefill: number; readonly decode: number };
  /** Tokens per second after the first of each answer, which comes with the prompt; null when there were none. */
  readonly tokensPerSecond: number | null;
}

/** Clock of a run. */
class Timings {
  readonly #begun = performance.now();
  #loaded = this.#begun;
  #first: number | null = null;

  loaded(): void {
    this.#loaded = performance.now();
  }

  token(): void {
    this.#first ??= performance.now();
  }

  summary(tokens: number, samples: number): Measured {
    const now = performance.now();
    const first = this.#first ?? now;
    const seconds = (from: number, to: number): number => Number(((to - from) / 1000).toFixed(3));
    const rest = tokens - samples;
    return {
      seconds: {
        load: seconds(this.#begun, this.#loaded),
        prefill: seconds(this.#loaded, first),
        decode: seconds(first, now),
      },
      tokensPerSecond: rest <= 0 || now <= first ? null : Number(((rest * 1000) / (now - first)).toFixed(1)),
    };
  }
}

/** Shows an answer while it is sampled: the text itself, or a progress bar on a terminal. */
class Display {
  readonly #stream: TextStreamer | null;
  readonly #progress: Progress | null;
  readonly #stops: readonly number[];
  #tokens = 0;

  constructor(policy: Prompting, streams: boolean, stops: readonly number[], most: number) {
    this.#stops = stops;
    this.#stream = streams ? new TextStreamer(policy.tokenizer) : null;
    const bar = !streams && process.stderr.isTTY;
    this.#progress = bar ? new Progress({ label: 'ask', total: most, unit: 'tokens' }) : null;
  }

  token(id: number): void {
    const piece = this.#stops.includes(id) ? '' : (this.#stream?.push(id) ?? '');
    if (piece !== '') print(piece, '');
    this.#progress?.update(++this.#tokens);
  }

  /** Ends the line, also after an error. */
  end(): void {
    if (this.#stream !== null) print(this.#stream.end());
    this.#progress?.stop();
  }
}

const answerOf = ({ text, ids, finished }: Sampled) => ({
  text,
  ids: [...ids],
  tokens: ids.length,
  finished,
});

/** Formats several answers, each under its number. */
function listed(answers: readonly Pick<Sampled, 'text'>[]): string {
  return answers.map(({ text }, i) => `[${i + 1} of ${answers.length}]\n${text}\n`).join('\n');
}

/** Reports answers that were cut off and, on a terminal, the speed of sampling. */
function remark(answers: readonly Sampled[], maxTokens: number, measured: Measured): void {
  const cut = answers.filter(({ finished }) => !finished).length;
  const which = answers.length === 1 ? 'the answer was' : `${cut} of ${answers.length} answers were`;
  if (cut > 0) say(`${which} cut off after ${maxTokens} tokens (--max-tokens)`);
  if (!process.stderr.isTTY) return;
  const { load, prefill } = measured.seconds;
  const rate = measured.tokensPerSecond === null ? '' : `, ${measured.tokensPerSecond} tokens/s`;
  say(`policy read in ${load.toFixed(1)} s, prompt in ${prefill.toFixed(1)} s${rate}`);
}

/** Asks a policy elsewhere. @throws ConfigError for an option of local policies */
async function askElsewhere(policy: Answerer, args: AskArguments, question: UserPrompt): Promise<void> {
  const { temperature, samples, maxTokens, seed } = args;
  for (const [name, value] of [
    ['--adapter', args.adapter],
    ['--top-p', args.topP],
    ['--top-k', args.topK],
    ['--engine', args.engine],
    ['--device', args.device],
    ['--dtype', args.dtype],
    ['--threads', args.threads],
  ] as const) {
    if (value === undefined) continue;
    throw new ConfigError(
      `${name}: applies to local policies only, and ${policy.given} is not one; leave it out`,
    );
  }
  const { prompt, system } = question;
  const answers = await ask(policy, {
    prompt,
    pictures: question.pictures.map(({ picture }) => picture),
    ...(system === undefined ? {} : { system }),
    ...(temperature === undefined ? {} : { temperature }),
    ...(samples === undefined ? {} : { samples }),
    ...(maxTokens === undefined ? {} : { maxTokens }),
    ...(seed === undefined ? {} : { seed }),
  });
  if (args.json)
    printJson({ policy: policy.given, answers: answers.map(({ text, usage }) => ({ text, usage })) });
  else if (answers.length > 1) print(listed(answers), '');
  else print(answers[0]!.text);
}

/**
 * Runs the command: a single answer is written to standard output as it is sampled; several of them, or JSON, at the end.
 *
 * @throws ConfigError for a wrong option; DataError for a wrong picture or a prompt that is too long; CheckpointError for
 * a missing or damaged policy; EngineError without libtorch
 */
export async function runAsk(args: AskArguments): Promise<void> {
  checkOptions(args);
  const prompt = await readPrompt(args.prompt);
  const pictures: UserPrompt['pictures'][number][] = [];
  for (const file of args.image ?? []) pictures.push({ file, picture: await readImage(file) });
  const timings = new Timings();
  const { adapter, engine, device, threads, dtype } = args;
  let encoded!: EncodedPrompt;
  let maxTokens!: number;
  const opened = await openPolicy(args.policy, {
    ...{ engine, device, threads, dtype, adapter },
    beforeWeights: (prompting) => {
      checkIds(config, prompting.dims.vocabulary, directory);
      encoded = encodeUserPrompt(prompting, { prompt, system: args.system, pictures });
      maxTokens = roomFor(prompting, encoded.ids.length, args.maxTokens, config.maxTokens);
    },
  });
  const { local: source } = opened;
  if (source === null) {
    await askElsewhere(opened, args, { prompt, system: args.system, pictures }).finally(() =>
      opened.dispose(),
    );
    return;
  }
  const { directory } = source;
  const config = readGenerationConfig(directory);
  const sampling = samplingOf(args, config);
  const { samples, topK, stops, ...rest } = sampling;
  const policy = await source.load();
  try {
    const seed = args.seed ?? 0;
    timings.loaded();
    const display = new Display(policy.prompting, samples === 1 && !args.json, stops, samples * maxTokens);
    const answers = await policy
      .generate([encoded], {
        ...rest,
        free: true,
        ...(topK === null ? {} : { topK }),
        ...(stops.length === 0 ? {} : { stops }),
        samples,
        maxTokens,
        seed,
        onTokens: (_, ids) => {
          for (const id of ids) {
            timings.token();
            display.token(id);
          }
        },
      })
      .finally(() => display.end());
    const tokens = sum(answers.map(({ ids }) => ids.length));
    const measured = timings.summary(tokens, samples);
    if (args.json) {
      const { image } = policy.prompting.dims.special;
      const visual = encoded.ids.filter((id) => id === image).length;
      const summary = {
        policy: directory,
        ...(adapter === undefined ? {} : { adapter }),
        engine: policy.info.name,
        device: policy.info.device,
        dtype: policy.dtype,
        prompt: { tokens: encoded.ids.length, images: pictures.length, imageTokens: visual },
        sampling: { ...sampling, maxTokens, seed },
        ...(samples === 1 ? answerOf(answers[0]!) : { answers: answers.map(answerOf) }),
        ...measured,
      };
      printJson(summary);
    } else if (samples > 1) {
      print(listed(answers), '');
    }
    remark(answers, maxTokens, measured);
  } finally {
    await policy.dispose();
  }
}
