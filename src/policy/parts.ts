/** What a checkpoint directory holds beside its weights: read from it, and made for a policy that comes from none. */
import { existsSync } from 'node:fs';
import { join } from 'node:path';
import { CheckpointError } from '../errors.ts';
import { Chat } from './chat.ts';
import { type Dims, parseDims } from './dims.ts';
import { readJson, readText } from './json-file.ts';
import { parsePreprocessor, readPreprocessor } from './preprocessor-config.ts';
import { readTokenizer } from './tokenizer-files.ts';

/** Everything but the weights, as plain data: survives `structuredClone`, so that Workers can rebuild the policy. */
export interface PolicyParts {
  /** The parsed config.json; keys that are not used here are kept. */
  readonly config: Readonly<Record<string, unknown>>;
  readonly tokenizer: Readonly<Record<string, unknown>>;
  readonly tokenizerConfig: Readonly<Record<string, unknown>>;
  readonly template: string;
  readonly preprocessor: Readonly<Record<string, unknown>>;
  /**
   * Text of the checkpoint's files beside config.json and the weights, by name, as they are saved again. When absent they
   * are made from the parts above.
   */
  readonly files?: Readonly<Record<string, string>>;
}

/** What of a checkpoint directory is carried over to where the policy is saved, beside config.json and the weights. */
const CARRIED: readonly string[] = [
  'generation_config.json',
  'tokenizer.json',
  'tokenizer_config.json',
  'vocab.json',
  'merges.txt',
  'special_tokens_map.json',
  'added_tokens.json',
  'chat_template.jinja',
  'chat_template.json',
  'preprocessor_config.json',
  'video_preprocessor_config.json',
  'processor_config.json',
  'LICENSE',
  'NOTICE',
];

/** Text of a JSON file. */
export const pretty = (value: unknown): string => `${JSON.stringify(value, null, 2)}\n`;

/**
 * Reads all but the weights of a Hugging Face directory.
 * @throws CheckpointError when a file is missing, damaged, or of another architecture.
 */
export function readParts(directory: string): PolicyParts {
  const file = join(directory, 'config.json');
  if (!existsSync(file)) {
    throw new CheckpointError(
      `${directory}: no config.json there; give the directory of a saved policy or a Qwen2.5-VL checkpoint`,
    );
  }
  const config = readJson(file);
  const dims = parseDims(config, file); // another architecture is named before its other files are missed
  const tokenizer = readTokenizer(directory);
  const preprocessor = readPreprocessor(directory);
  parsePreprocessor(preprocessor.json, dims.vision, preprocessor.file); // its faults named by its file
  const present = CARRIED.filter((name) => existsSync(join(directory, name)));
  return {
    config: config as PolicyParts['config'],
    tokenizer: tokenizer.json,
    tokenizerConfig: tokenizer.config,
    template: Chat.load(directory).source,
    preprocessor: preprocessor.json as PolicyParts['preprocessor'],
    files: Object.fromEntries(present.map((name) => [name, readText(join(directory, name))])),
  };
}

/** The files of a policy that came without any. */
export function madeFiles(parts: PolicyParts, { special }: Dims): Readonly<Record<string, string>> {
  return {
    'generation_config.json': pretty({
      bos_token_id: special.pad,
      pad_token_id: special.pad,
      eos_token_id: [special.end, special.pad],
      do_sample: true,
      // Training gave them no probability, so nothing has taught the policy not to say them.
      suppress_tokens: [special.visionStart, special.visionEnd, special.image, special.video],
    }),
    'tokenizer.json': pretty(parts.tokenizer),
    'tokenizer_config.json': pretty(parts.tokenizerConfig),
    'preprocessor_config.json': pretty(parts.preprocessor),
    'chat_template.jinja': parts.template,
  };
}
