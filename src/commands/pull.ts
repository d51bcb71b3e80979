/** `timeseer pull`: downloads a checkpoint from the Hugging Face hub, or a mirror of it. */
import { join } from 'node:path';
import { performance } from 'node:perf_hooks';
import { ConfigError } from '../ground/errors.ts';
import { withInterrupt } from '../ground/interrupt.ts';
import { inClaimed } from '../ground/lock.ts';
import { Progress } from '../ground/progress.ts';
import { print, printJson, say } from '../ground/terminal.ts';
import { Hub, parseRepo } from '../hub/hub.ts';
import { type Pulled, type PullProgress, pull } from '../hub/pull.ts';
import { command, flag, type Given, several, text } from './options.ts';

type PullArguments = Given<typeof OPTIONS> & { readonly repo: string };

/** File size in bytes from which checking a hash is announced. */
const SLOW_CHECK = 5e8;

/** Formats bytes in powers of ten: 7.51 GB. */
function size(bytes: number): string {
  if (bytes >= 1e9) return `${(bytes / 1e9).toFixed(2)} GB`;
  return bytes >= 1e6 ? `${(bytes / 1e6).toFixed(1)} MB` : `${Math.ceil(bytes / 1e3)} kB`;
}

/** Progress bar in megabytes; starts at the bytes already on disk. */
class Meter {
  #bar: Progress | undefined;
  #state: PullProgress | undefined;

  show(state: PullProgress, silent: boolean): void {
    const before = this.#state;
    this.#state = state;
    const megabytes = Math.round(state.bytes / 1e6);
    this.#bar ??= new Progress({
      label: 'pull',
      total: Math.round(state.totalBytes / 1e6),
      done: megabytes,
      unit: 'MB',
      silent,
    });
    // Chunks are small: most of them change nothing that is shown.
    if (before?.files === state.files && Math.round(before.bytes / 1e6) === megabytes) return;
    this.#bar.update(megabytes, { files: `${state.files}/${state.totalFiles}` });
  }

  note(text: string): void {
    if (this.#bar === undefined) say(text);
    else this.#bar.note(text);
  }

  stop(): void {
    this.#bar?.stop();
  }

  /** Text on the bytes kept: '1.20 GB of 7.51 GB kept; '; empty until the total is known. */
  get kept(): string {
    return this.#state === undefined
      ? ''
      : `${size(this.#state.bytes)} of ${size(this.#state.totalBytes)} kept; `;
  }
}

function summary(pulled: Pulled, seconds: number): string {
  const { directory, repo, commit, files, bytes, fetched, removed, incomplete } = pulled;
  const news =
    fetched.length === 0
      ? 'complete and verified already'
      : `${fetched.length} fetched and verified in ${seconds.toFixed(1)} s`;
  return [
    `${directory}: ${repo} at ${commit.slice(0, 12)}, ${files.length} files, ${size(bytes)}; ${news}`,
    ...(removed.length > 0 ? [`removed (no longer in the repository): ${removed.join(', ')}`] : []),
    incomplete === null
      ? `next: timeseer ask --policy ${directory} --image X.png --prompt "…"`
      : `not a whole policy yet: ${incomplete}`,
  ].join('\n');
}

/**
 * Runs the command: progress on standard error, a summary on standard output. Ctrl-C keeps the bytes downloaded so far.
 * @throws ConfigError for a wrong name, option or target; the errors of `pull`
 */
export async function runPull(args: PullArguments): Promise<void> {
  const repo = parseRepo(args.repo);
  const out = args.out ?? join('models', repo.slice(repo.indexOf('/') + 1));
  if (args.revision.trim() === '') throw new ConfigError('--revision: expected a branch, a tag or a commit');
  const started = performance.now();
  const meter = new Meter();
  const endpoint = args.endpoint ?? (process.env['HF_ENDPOINT'] || undefined);
  const hub = new Hub({
    token: args.token ?? process.env['HF_TOKEN'],
    onRetry: (message) => meter.note(message),
    ...(endpoint === undefined ? {} : { endpoint }),
  });
  await withInterrupt((signal) =>
    inClaimed(out, async (held) => {
      try {
        const pulled = await pull({
          hub,
          repo,
          out,
          revision: args.revision,
          include: args.include ?? [],
          exclude: args.exclude ?? [],
          force: args.force,
          signal,
          onCheck: ({ path, size: length }) => {
            if (length >= SLOW_CHECK && !args.json) meter.note(`checking ${path}, ${size(length)}`);
          },
          onProgress: (state) => meter.show(state, args.json),
        });
        meter.stop();
        if (!held()) return;
        const seconds = (performance.now() - started) / 1000;
        if (args.json) printJson({ ...pulled, seconds: Number(seconds.toFixed(3)) });
        else print(summary(pulled, seconds));
      } catch (error) {
        meter.stop();
        if (!signal.aborted || !held()) throw error;
        say(`${out}: ${meter.kept}run the same command again to resume`);
      }
    }),
  );
}

const OPTIONS = {
  out: text('Directory to fill (default: models/NAME)'),
  revision: text('Branch, tag or commit', { default: 'main' }),
  token: text('Access token. Prefer the variable HF_TOKEN, which other users of the machine cannot see'),
  endpoint: text('URL of the hub or a mirror (default: HF_ENDPOINT, else https://huggingface.co)'),
  include: several("Download only files that match, e.g. '*.json' (default: the files of a policy)"),
  exclude: several('Skip files that match'),
  force: flag('Replace existing files that were not pulled and differ'),
  json: flag('Print the summary as JSON, no progress'),
};

export const pullCommand = command({
  command: 'pull <repo>',
  positionals: { repo: 'Repository: OWNER/NAME or its URL' },
  options: OPTIONS,
  examples: [
    ['$0 pull Qwen/Qwen2.5-VL-3B-Instruct', 'Into models/Qwen2.5-VL-3B-Instruct, 7.5 GB'],
    ['$0 pull OWNER/NAME --revision v1.0 --out models/mine', 'A tag, into another directory'],
  ],
  epilogue:
    'Downloads config, tokenizer, templates and safetensors weights, and verifies the hash of each file. Run it again to resume ' +
    'after an interruption, or later to update.',
  handler: runPull,
});
