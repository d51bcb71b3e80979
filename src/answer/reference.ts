/** References to policies: their syntax, and the directories that they name. */
import { existsSync, statSync } from 'node:fs';
import { join } from 'node:path';
import { CheckpointError, ConfigError } from '../ground/errors.ts';
import { isDirectory, policiesDirectory } from '../ground/paths.ts';
import { isModuleSpecifier, type ModuleAddress, moduleAddress } from '../ground/user-module.ts';

/** Policy that is asked where none is named. */
export const DEFAULT_POLICY = 'small';
/** Policy that is asked to look closer where none is named. */
export const INSPECTING_POLICY = 'inspect';

const ENDPOINT = 'openai:';
const BASELINE = 'baseline:';

export const REFERENCE_SYNTAX =
  'small or inspect (which ship with timeseer), DIRECTORY (a Qwen2.5-VL checkpoint, an ONNX export, or a run), openai:MODEL@URL, baseline:NAME, or FILE[#NAME] (a module with definePolicy or defineDetector)';

export type Reference =
  | { readonly kind: 'directory'; readonly directory: string }
  | { readonly kind: 'endpoint'; readonly model: string; readonly url: string }
  | { readonly kind: 'baseline'; readonly name: string }
  | { readonly kind: 'module'; readonly module: ModuleAddress };

/** Address of endpoints that are named without one. */
const OPENAI = 'https://api.openai.com/v1';

/** True for a reference to an endpoint. */
export const isEndpoint = (reference: string): boolean => reference.startsWith(ENDPOINT);

/**
 * Reads `openai:MODEL@URL`; without an address, that of OPENAI_BASE_URL or else OpenAI's own.
 * @throws ConfigError where no model is named
 */
export function parseEndpoint(reference: string): { readonly model: string; readonly url: string } {
  const text = reference.slice(ENDPOINT.length);
  const at = text.search(/@https?:\/\//);
  const model = (at < 0 ? text : text.slice(0, at)).trim();
  if (model === '' || /^https?:/.test(model)) {
    throw new ConfigError(
      `--policy ${reference}: names no model; expected ${ENDPOINT}MODEL@URL, such as ${ENDPOINT}qwen2.5vl:7b@http://localhost:11434/v1`,
    );
  }
  return { model, url: at < 0 ? (process.env['OPENAI_BASE_URL'] ?? OPENAI) : text.slice(at + 1) };
}

/**
 * Reads a reference to a policy, and finds its directory where it names one.
 * @throws ConfigError for an empty one, an endpoint without a model, or an unknown name; CheckpointError, with the syntax, for a path where
 * nothing is
 */
export function parseReference(reference: string): Reference {
  if (reference.trim() === '') throw new ConfigError(`--policy: is empty; expected ${REFERENCE_SYNTAX}`);
  if (isEndpoint(reference)) return { kind: 'endpoint', ...parseEndpoint(reference) };
  if (reference.startsWith(BASELINE)) return { kind: 'baseline', name: reference.slice(BASELINE.length) };
  if (isModuleSpecifier(reference) && !isDirectory(reference))
    return { kind: 'module', module: moduleAddress(reference, '.') };
  const there = existsSync(reference) || shippedPolicy(reference) !== null;
  try {
    return { kind: 'directory', directory: findPolicy(reference) };
  } catch (error) {
    if (there || !(error instanceof CheckpointError)) throw error;
    // A bare name is a choice that does not exist, a path is a file that is missing.
    const Refusal = /[\\/]/.test(reference) ? CheckpointError : ConfigError;
    throw new Refusal(`${error.message}. Expected ${REFERENCE_SYNTAX}`, { cause: error });
  }
}

/** Policies that a run directory may hold, the furthest trained first. */
export const RUN_POLICIES = [
  'rl/policy',
  'rl/checkpoint',
  'sft/policy',
  'sft/checkpoint',
  'initial',
] as const;

const QUICKSTART = '`npx timeseer quickstart` makes one in runs/quickstart';

const isPolicy = (directory: string): boolean => existsSync(join(directory, 'config.json'));

/** Directory of a policy that ships with timeseer; null where there is none of that name. */
export function shippedPolicy(name: string): string | null {
  if (!/^\w+$/.test(name)) return null;
  const directory = join(policiesDirectory(), name);
  return isPolicy(directory) ? directory : null;
}

/** Suggests what to do about a path where nothing is: it may be meant as a repository of a hub, or as a download of one. */
function advice(path: string): string {
  const [, owner, name] = /^([\w.-]*\w)\/(\w[\w.-]*)\/?$/.exec(path) ?? [];
  if (owner === undefined || name === undefined || owner === 'runs' || owner.startsWith('.'))
    return QUICKSTART;
  if (owner === 'models') return `\`npx timeseer pull OWNER/${name}\` downloads it from the Hugging Face hub`;
  if (existsSync(owner)) return QUICKSTART;
  const download = join('models', name);
  return isPolicy(download)
    ? `the download of that name is ${download}`
    : `if it is a repository of the Hugging Face hub, \`npx timeseer pull ${owner}/${name}\` downloads it into ${download}`;
}

/**
 * Finds the directory of a policy: one that ships with timeseer by its name (a directory of that name is `./NAME`), `path` itself where it
 * holds a `config.json`, else the furthest trained policy of the run `path`, in the order of RUN_POLICIES.
 * @throws CheckpointError naming what was looked for, and how to make one
 */
export function findPolicy(path: string): string {
  const shipped = shippedPolicy(path);
  if (shipped !== null) return shipped;
  const directory = ['', ...RUN_POLICIES].map((name) => join(path, name)).find(isPolicy);
  if (directory !== undefined) return directory;
  const entry = statSync(path, { throwIfNoEntry: false });
  if (entry === undefined) throw new CheckpointError(`${path}: no such directory; ${advice(path)}`);
  if (!entry.isDirectory()) {
    throw new CheckpointError(
      `${path}: is a file; give the directory of a policy or of a run; ${QUICKSTART}`,
    );
  }
  if (existsSync(join(path, 'adapter_config.json'))) {
    throw new CheckpointError(
      `${path}: is an adapter; give its base checkpoint with --policy, and the adapter to \`ask\`, \`eval\` or \`merge\` with --adapter`,
    );
  }
  throw new CheckpointError(
    `${path}: no policy there (looked for config.json in it and in ${RUN_POLICIES.join(', ')}); ${QUICKSTART}`,
  );
}
