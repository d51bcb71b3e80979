/** What a policy answers to a prompt with pictures. */
import { statSync } from 'node:fs';
import { join } from 'node:path';
import { performance } from 'node:perf_hooks';
import { text as readAll } from 'node:stream/consumers';
import { CheckpointError, ConfigError, DataError } from '../ground/errors.ts';
import { cores } from '../ground/machine.ts';
import { Progress } from '../ground/progress.ts';
import { print, printJson, say } from '../ground/terminal.ts';
import type { Picture } from '../ground/types.ts';
import { readImage } from '../plot/image-file.ts';
import type { EncodedPrompt } from '../policy/batch.ts';
import type { Message } from '../policy/chat.ts';
import type { Sampled } from '../policy/generate.ts';
import {
  GENERATION_CONFIG_FILE,
  type GenerationConfig,
  readGenerationConfig,
} from '../policy/generation-config.ts';
import type { Prompting } from '../policy/policy.ts';
import { TextStreamer } from '../policy/tokenizer.ts';
import type { EngineName } from './engine-name.ts';
import { openAnswerer } from './open-answerer.ts';
import { findPolicy } from './run-policy.ts';

export interface TextArguments {
  readonly policy: string;
  readonly adapter: string | undefined;
  readonly image: readonly string[] | undefined;
  readonly prompt: string;
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
/** Tokens of an answer where nobody says how many. */
const MAX_TOKENS = 512;

/** @throws ConfigError for a number out of its range */
function checkOptions(args: TextArguments): void {
  const check = (
    name: string,
    value: number | undefined,
    ok: (v: number) => boolean,
    expected: string,
  ): void => {
    if (value !== undefined && !(Number.isFinite(value) && ok(value)))
      throw new ConfigError(`--${name}: expected ${expected}, got ${value}`);
  };
  const whole =
    (least: number, most = Number.MAX_SAFE_INTEGER) =>
    (v: number): boolean =>
      Number.isSafeInteger(v) && v >= least && v <= most;
  check('max-tokens', args.maxTokens, whole(1), 'a whole number of at least 1');
  check('temperature', args.temperature, (v) => v >= 0, 'a number of at least 0');
  check('top-p', args.topP, (v) => v > 0 && v <= 1, 'a number above 0 and at most 1');
  check('top-k', args.topK, whole(0), 'a whole number, 0 for all tokens');
  check('samples', args.samples, whole(1, MOST_SAMPLES), `a whole number from 1 to ${MOST_SAMPLES}`);
  check('seed', args.seed, whole(0), 'a whole number of at least 0');
  check('threads', args.threads, whole(1, 1024), 'a whole number from 1 to 1024');
  if (args.adapter !== undefined && !statSync(args.adapter, { throwIfNoEntry: false })?.isDirectory()) {
    throw new ConfigError(
      `--adapter ${args.adapter}: is no directory; give the one that adapter_config.json is in`,
    );
  }
}

/** What the checkpoint asks for, changed by what the user does. */
interface Sampling extends Omit<GenerationConfig, 'pad' | 'maxTokens'> {
  readonly samples: number;
}

/** @throws ConfigError for an option that greedy decoding makes void */
function samplingOf(args: TextArguments, config: GenerationConfig): Sampling {
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

/** @throws CheckpointError for an end token or a suppressed one that the policy cannot say */
export function checkIds({ stops, suppress }: GenerationConfig, vocabulary: number, directory: string): void {
  for (const [key, ids] of [
    ['eos_token_id', stops],
    ['suppress_tokens', suppress],
  ] as const) {
    const beyond = ids.find((id) => id >= vocabulary);
    if (beyond === undefined) continue;
    throw new CheckpointError(
      `${join(directory, GENERATION_CONFIG_FILE)}: '${key}' ${beyond} is beyond config.json's vocab_size, ${vocabulary}; ` +
        'take both files from one checkpoint',
    );
  }
}

/** What is asked; a picture with the name of its file. */
export interface Question {
  readonly prompt: string;
  readonly system: string | undefined;
  readonly pictures: readonly { readonly file: string; readonly picture: Picture }[];
}

/** The user's words, from the command line or standard input; a line's end that a shell or editor adds is left out. */
export async function readPrompt(prompt: string): Promise<string> {
  const text = prompt === '-' ? (await readAll(process.stdin)).replace(/\r?\n$/, '') : prompt;
  if (text.trim() === '') {
    throw new ConfigError(`--prompt: ${prompt === '-' ? 'standard input was empty' : 'the text is empty'}`);
  }
  return text;
}

/** @throws ConfigError when a text holds a special token, which the tokenizer would take for the prompt's structure */
function checkPlain(policy: Prompting, option: string, text: string): void {
  const token = policy.tokenizer.specialIn(text);
  if (token === null) return;
  throw new ConfigError(
    `--${option}: holds ${token}, which is not text to this policy but a part of its prompts' structure; ` +
      'write it another way, with a space inside, say',
  );
}

function messagesOf(images: number, prompt: string, system: string | undefined): Message[] {
  const pictures = Array.from({ length: images }, () => ({ type: 'image' as const }));
  return [
    ...(system === undefined ? [] : [{ role: 'system' as const, content: system }]),
    { role: 'user', content: [...pictures, { type: 'text', text: prompt }] },
  ];
}

/** @throws DataError naming a picture that cannot be shown, or when the prompt is too long */
export function encode(policy: Prompting, { prompt, system, pictures }: Question): EncodedPrompt {
  checkPlain(policy, 'prompt', prompt);
  if (system !== undefined) checkPlain(policy, 'system', system);
  for (const { file, picture } of pictures) {
    try {
      policy.processor.size(picture.width, picture.height);
    } catch (cause) {
      throw cause instanceof DataError ? new DataError(cause.message, { file, cause }) : cause;
    }
  }
  const text = policy.chat.render(messagesOf(pictures.length, prompt, system));
  return policy.encodePrompt(
    text,
    pictures.map(({ picture }) => picture),
  );
}

/**
 * Tokens that an answer may have: what the user asks for, else the checkpoint's number as far as the context reaches.
 * @throws DataError when there is no room behind the prompt; ConfigError when the user asks for more than there is
 */
export function roomFor(
  policy: Prompting,
  length: number,
  asked: number | undefined,
  usual: number | null,
): number {
  const { maxPositions } = policy.dims;
  const room = maxPositions - length;
  const context = `the prompt has ${length} tokens, and the checkpoint's context ends at ${maxPositions}`;
  if (room < 1) throw new DataError(`there is no room for an answer: ${context}`);
  if (asked !== undefined && asked > room)
    throw new ConfigError(`--max-tokens ${asked}: there is room for ${room}: ${context}`);
  return asked ?? Math.min(usual ?? MAX_TOKENS, room);
}

interface Measured {
  readonly seconds: { readonly load: number; readonly prefill: number; readonly decode: number };
  /** Of the tokens after each answer's first, which comes with the prompt; null when there were none. */
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

/** Shows what there is to show while it comes: the text itself, or, on a terminal, how far it is. */
class Display {
  readonly #stream: TextStreamer | null;
  readonly #progress: Progress | null;
  readonly #stops: readonly number[];
  #tokens = 0;

  constructor(policy: Prompting, streams: boolean, stops: readonly number[], most: number) {
    this.#stops = stops;
    this.#stream = streams ? new TextStreamer(policy.tokenizer) : null;
    const bar = !streams && process.stderr.isTTY;
    this.#progress = bar ? new Progress({ label: 'generate', total: most, unit: 'tokens' }) : null;
  }

  token(id: number): void {
    const piece = this.#stops.includes(id) ? '' : (this.#stream?.push(id) ?? '');
    if (piece !== '') print(piece, '');
    this.#progress?.update(++this.#tokens);
  }

  /** Ends the line, after an error too: what has been said stays. */
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

/** Several answers, each under its number. */
function listed(answers: readonly Sampled[]): string {
  return answers.map(({ text }, i) => `[${i + 1} of ${answers.length}]\n${text}\n`).join('\n');
}

/** What is worth a word on standard error: answers that were cut off; on a terminal, how fast it went. */
function remark(answers: readonly Sampled[], maxTokens: number, measured: Measured): void {
  const cut = answers.filter(({ finished }) => !finished).length;
  const which = answers.length === 1 ? 'the answer was' : `${cut} of ${answers.length} answers were`;
  if (cut > 0) say(`${which} cut off after ${maxTokens} tokens (--max-tokens)`);
  if (!process.stderr.isTTY) return;
  const { load, prefill } = measured.seconds;
  const rate = measured.tokensPerSecond === null ? '' : `, ${measured.tokensPerSecond} tokens/s`;
  say(`policy read in ${load.toFixed(1)} s, prompt in ${prefill.toFixed(1)} s${rate}`);
}

/**
 * Runs the command: a single answer is written to standard output as it is sampled; several of them, or JSON, at the end.
 *
 * @throws ConfigError for a wrong option; DataError for a wrong picture or a prompt that is too long; CheckpointError for
 * a missing or damaged policy; EngineError without libtorch
 */
export async function runText(args: TextArguments): Promise<void> {
  checkOptions(args);
  const prompt = await readPrompt(args.prompt);
  const pictures: Question['pictures'][number][] = [];
  for (const file of args.image ?? []) pictures.push({ file, picture: await readImage(file) });
  const directory = findPolicy(args.policy);
  const config = readGenerationConfig(directory);
  const sampling = samplingOf(args, config);
  const { samples, topK, stops, ...rest } = sampling;
  const timings = new Timings();
  const { adapter } = args;
  let encoded!: EncodedPrompt;
  let maxTokens!: number;
  const policy = await openAnswerer(directory, {
    ...{
      engine: args.engine,
      device: args.device,
      threads: args.threads ?? cores(),
      dtype: args.dtype,
      adapter,
    },
    beforeWeights: (prompting) => {
      checkIds(config, prompting.dims.vocabulary, directory);
      encoded = encode(prompting, { prompt, system: args.system, pictures });
      maxTokens = roomFor(prompting, encoded.ids.length, args.maxTokens, config.maxTokens);
    },
  });
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
    const tokens = answers.reduce((sum, { ids }) => sum + ids.length, 0);
    const measured = timings.summary(tokens, samples);
    if (args.json) {
      const visual = encoded.ids.reduce(
        (sum, id) => sum + (id === policy.prompting.dims.special.image ? 1 : 0),
        0,
      );
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
