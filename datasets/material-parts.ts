/**
 * Materials that several machines with a shared disk compose in parts. `OUT.parts/3-of-16` holds those of every sixteenth example, one line each,
 * and `part.json` with a key of the choice of examples, the options and the version of the program: a part is used for nothing else.
 */
import { hash, randomUUID } from 'node:crypto';
import { existsSync, readdirSync, rmSync, statSync } from 'node:fs';
import { join, resolve } from 'node:path';
import { z } from 'zod';
import { TRACE_VERSION } from '../src/expcot/trace.ts';
import { ConfigError, DataError } from '../src/ground/errors.ts';
import { readUtf8, writeDirectoryAtomicAsync, writeJson } from '../src/ground/files.ts';
import { parseRecord } from '../src/ground/json-record.ts';
import { removeEmpty } from '../src/ground/lock.ts';
import { packageVersion } from '../src/ground/paths.ts';
import type { Shard } from '../src/ground/shard.ts';
import {
  type Composed,
  composeSome,
  type MadeMaterials,
  type MaterialOptions,
  type MaterialParts,
} from './compose-materials.ts';
import type { ExampleManifest } from './example-manifest.ts';
import { type Line, LineFile, LineWriter } from './example-set.ts';
import { type Selection, writeSelection } from './prepare.ts';

const PART_FILE = 'part.json';
const LINES_FILE = 'materials.jsonl';
const NAME = /^([1-9]\d*)-of-([1-9]\d*)$/;
/** Examples that a part under way is composed from; each run has its own. */
const SCRATCH = '.examples';
const FIELDS = ['number', 'composed', 'png'] as const;

const partShape = z.strictObject({
  format: z.literal('timeseer-materials-part'),
  key: z.string().min(1),
  count: z.int().nonnegative(),
  bytes: z.int().nonnegative(),
  sha256: z.string().length(64),
});

const folderOf = (out: string): string => `${resolve(out)}.parts`;
const nameOf = ({ index, of }: Shard): string => `${index + 1}-of-${of}`;

const keyOf = (manifest: ExampleManifest, { figures, traces }: MaterialParts): string =>
  hash('sha256', JSON.stringify([packageVersion(), TRACE_VERSION, figures, traces, manifest]));

/** A part that was written, or was there. */
export interface WrittenPart {
  readonly count: number;
  readonly total: number;
  readonly wasThere: boolean;
}

/**
 * Composes the materials of one part of a selection, whole or not at all; a part that is there and fits is left as it is.
 * @param onWrite reports the examples written, which every part needs
 * @throws ConfigError for more parts than examples; as `writeSelection` and `addMaterials`
 */
export async function writePart(
  selection: Selection,
  out: string,
  shard: Shard,
  options: MaterialOptions,
  onWrite: (written: number, total: number) => void,
): Promise<WrittenPart> {
  const { total } = selection;
  const { signal, figures, traces } = options;
  if (shard.of > total) {
    throw new ConfigError(`--shard: ${shard.of} parts of ${total} examples: give at most ${total}`);
  }
  const place = join(folderOf(out), nameOf(shard));
  const examples = `${place}.${randomUUID()}${SCRATCH}`;
  const isMine = (number: number): boolean => number % shard.of === shard.index;
  const count = Array.from({ length: total }, (_, number) => number).filter(isMine).length;
  try {
    const manifest = await writeSelection(selection, examples, { signal, onProgress: onWrite });
    const key = keyOf(manifest, { figures, traces });
    const wasThere = isIntact(place, key);
    if (!wasThere) {
      await writeDirectoryAtomicAsync(place, async (temporary) => {
        const writer = new LineWriter(join(temporary, LINES_FILE));
        try {
          for await (const { number, composed } of composeSome(examples, manifest, isMine, options)) {
            const { png, ...rest } = composed;
            const image = png === null ? null : Buffer.from(png).toString('base64');
            writer.add(JSON.stringify({ number, composed: rest, png: image }));
          }
          const part = { format: 'timeseer-materials-part', key, ...writer.finish() };
          writeJson(join(temporary, PART_FILE), part);
        } finally {
          writer.close();
        }
      });
    }
    return { count, total, wasThere };
  } finally {
    rmSync(examples, { recursive: true, force: true });
    removeEmpty(folderOf(out));
  }
}

interface OpenPart {
  readonly key: string;
  readonly lines: LineFile;
}

/** Opens a part and reads it through, so that nothing damaged is used. @throws DataError */
function openPart(directory: string): OpenPart {
  const file = join(directory, PART_FILE);
  try {
    const { key, format: _, ...facts } = partShape.parse(JSON.parse(readUtf8(file)));
    const lines = new LineFile(join(directory, LINES_FILE), facts, 'materials');
    for (const _ of lines.read());
    return { key, lines };
  } catch (cause) {
    throw new DataError('is no whole part of a data set: it was cut or changed; make it again with --shard', {
      file: directory,
      cause,
    });
  }
}

/** Returns true where a part with this key is there, whole. */
function isIntact(directory: string, key: string): boolean {
  try {
    return openPart(directory).key === key;
  } catch {
    return false;
  }
}

/** Parts beside a data set that is being put together. */
export class PartFiles implements MadeMaterials {
  readonly of: number;
  /** Parts that are not there, counted from 1. */
  readonly missing: readonly number[];
  readonly #folder: string;
  readonly #lines: ReadonlyMap<number, { readonly path: string; readonly lines: Generator<Line> }>;

  private constructor(folder: string, of: number, parts: ReadonlyMap<number, OpenPart>) {
    this.#folder = folder;
    this.of = of;
    this.missing = Array.from({ length: of }, (_, k) => k + 1).filter((k) => !parts.has(k - 1));
    this.#lines = new Map(
      [...parts].map(([index, { lines }]) => [index, { path: lines.path, lines: lines.read() }]),
    );
  }

  /** Opens the parts of a data set; null where there are none. @throws DataError for parts of something else, or of several divisions */
  static open(out: string, manifest: ExampleManifest, parts: MaterialParts): PartFiles | null {
    const folder = folderOf(out);
    if (!existsSync(folder)) return null;
    if (!statSync(folder).isDirectory()) {
      throw new DataError('is where parts of the data set would be, and no folder; move it away', {
        file: folder,
      });
    }
    const found = readdirSync(folder).flatMap((name) => {
      const [, number, of] = (NAME.exec(name) ?? []).map(Number);
      return number === undefined || number > of! ? [] : [{ name, index: number - 1, of: of! }];
    });
    const [first] = found;
    if (first === undefined) return null;
    const key = keyOf(manifest, parts);
    const opened = new Map<number, OpenPart>();
    for (const { name, index, of } of found) {
      const file = join(folder, name);
      if (of !== first.of) {
        throw new DataError(`is of another division than ${first.name}; remove one of them`, { file });
      }
      const part = openPart(file);
      opened.set(index, part);
      if (part.key !== key) {
        throw new DataError(
          'was made from other data, options or another version; remove it, or make it again with this command and --shard',
          { file },
        );
      }
    }
    return new PartFiles(folder, first.of, opened);
  }

  has(number: number): boolean {
    return this.#lines.has(number % this.of);
  }

  take(number: number): Composed {
    const { path, lines } = this.#lines.get(number % this.of)!;
    const { value: line, done } = lines.next();
    if (done === true) throw new DataError(`ends before example ${number}; make it again`, { file: path });
    const at = { file: path, line: line.number };
    const { number: stated, composed, png } = parseRecord(line.text, FIELDS, at);
    if (stated !== number) throw new DataError(`number: got ${stated}, expected ${number}`, at);
    const image = png === null ? null : new Uint8Array(Buffer.from(png as string, 'base64'));
    return { ...(composed as Omit<Composed, 'png'>), png: image };
  }

  /** Removes the parts, which the data set holds now, what runs that were killed left, and the folder unless something else is in it. */
  remove(): void {
    const scratch = readdirSync(this.#folder).filter((name) => name.endsWith(SCRATCH));
    const parts = [...this.#lines.keys()].map((index) => nameOf({ index, of: this.of }));
    for (const name of [...scratch, ...parts]) {
      rmSync(join(this.#folder, name), { recursive: true, force: true });
    }
    removeEmpty(this.#folder);
  }
}
