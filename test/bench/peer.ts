/** Python programs to compare with: questions and answers as lines on their standard streams. */
import { type ChildProcessWithoutNullStreams, spawn } from 'node:child_process';
import { once } from 'node:events';
import { createInterface } from 'node:readline';
import { fileURLToPath } from 'node:url';
import type { Contender } from './team.ts';

/** The engine raises the thresholds at which the C library returns memory to the kernel; the peer gets the same. */
const MEMORY = {
  MALLOC_MMAP_THRESHOLD_: String(32 << 20),
  MALLOC_TRIM_THRESHOLD_: String(512 << 20),
  MALLOC_TOP_PAD_: String(64 << 20),
};

export interface Peer<Answer> extends Contender<Answer> {
  /** What it runs on, in words. */
  readonly versions: string;
}

/** Models that peers offer, and what tables call them. */
export const PEERS = [
  ['lean', 'PyTorch, hand-written'],
  ['transformers', 'PyTorch, transformers'],
] as const;

/** Those that run, in order, and why the others do not. */
export function sorted<Answer>(opened: readonly (Contender<Answer> | Peer<Answer> | string)[]): {
  readonly contenders: Contender<Answer>[];
  readonly peers: string[];
  readonly skipped: string[];
} {
  const contenders = opened.filter((one) => typeof one !== 'string');
  const versions = contenders.flatMap((one) => ('versions' in one ? [one.versions] : []));
  const skipped = opened.filter((one) => typeof one === 'string');
  return { contenders, peers: [...new Set(versions)], skipped: [...new Set(skipped)] };
}

/**
 * Starts `peer/PROGRAM.py` with the Python that TIMESEER_PYTHON names (`python3` without it) and waits until it is
 * ready. It answers each question with one JSON array, an element per process; before that it may ask in turn, with
 * {"request": …}, which `reply` answers.
 * @returns why it cannot run, when it cannot.
 */
export async function openPeer<Answer>(
  name: string,
  program: string,
  processes: number,
  args: readonly string[],
  threads = 1,
  own: { readonly python?: string | undefined; readonly reply?: (request: unknown) => unknown } = {},
): Promise<Peer<Answer> | string> {
  const python = own.python ?? process.env['TIMESEER_PYTHON'] ?? 'python3';
  const file = fileURLToPath(new URL(`./peer/${program}.py`, import.meta.url));
  const child: ChildProcessWithoutNullStreams = spawn(
    python,
    [file, '--processes', String(processes), ...args],
    {
      env: {
        ...process.env,
        ...MEMORY,
        OMP_NUM_THREADS: String(threads),
        TRANSFORMERS_VERBOSITY: 'error',
        HF_HUB_OFFLINE: '1',
      },
    },
  );
  let problem = '';
  child.stderr.on('data', (chunk: Buffer) => {
    problem = `${problem}${chunk.toString()}`.slice(-4000);
  });
  const gone = new Promise<never>((_, reject) => {
    child.once('error', (error) => reject(error));
    child.once('close', () => reject(new Error(problem.trim() || 'the peer ended without a word')));
  });
  gone.catch(() => {}); // asked for when an answer is awaited
  const lines = createInterface(child.stdout);
  const answer = async (): Promise<unknown> => {
    for (;;) {
      const [line] = (await Promise.race([once(lines, 'line'), gone])) as [string];
      const said = JSON.parse(line) as { readonly request?: unknown };
      if (said.request === undefined) return said;
      child.stdin.write(`${JSON.stringify(own.reply?.(said.request) ?? null)}\n`);
    }
  };
  try {
    const { versions } = (await answer()) as { versions: string };
    return {
      name,
      processes,
      versions,
      async ask(question) {
        const reply = answer();
        child.stdin.write(`${question}\n`);
        return (await reply) as Answer[];
      },
      async close() {
        child.stdin.end();
        if (child.exitCode === null) await once(child, 'close');
      },
    };
  } catch (error) {
    child.kill();
    return `${python}: ${(error as Error).message.trim().split('\n').at(-1)}`;
  }
}
