/** What a prepared data set has ready for training: what its classes look like, and the expert traces with the right answer. */

import { createHash } from 'node:crypto';
import { existsSync } from 'node:fs';
import { join } from 'node:path';
import { DataError } from '../src/errors.ts';
import { type ClassProfile, learnClasses, readProfile } from '../src/expcot/class-profile.ts';
import { TRACE_VERSION } from '../src/expcot/trace.ts';
import { fileInside, readBytes } from '../src/files.ts';
import { taskKind } from '../src/tasks/kinds.ts';
import type { ExampleSet } from './example-set.ts';
import { CLASSES_FILE } from './material-facts.ts';
import { Materials } from './materials.ts';

const ADVICE = 'prepare the data set again, or remove the file to have the classes learned anew';

/**
 * What the classes look like as the file beside the examples says; null where there is none.
 * @throws DataError for a file that is damaged or not the one of the manifest, or of other classes or channels than the training split
 */
export function storedClasses(set: ExampleSet): ClassProfile | null {
  const { kind, materials, splits } = set.manifest;
  const facts = materials?.classes ?? null;
  const file = join(set.directory, CLASSES_FILE);
  if (!taskKind(kind).learnsClasses || facts === null || !existsSync(file)) return null;
  const bytes = readBytes(fileInside(set.directory, CLASSES_FILE));
  if (createHash('sha256').update(bytes).digest('hex') !== facts.sha256) {
    throw new DataError(
      `SHA-256 is not the one in the manifest (${bytes.length} bytes, the manifest says ${facts.bytes}): the file was changed or cut ` +
        `after it was written; ${ADVICE}`,
      { file },
    );
  }
  const profile = readProfile(bytes.toString('utf8'), file);
  const known = profile.classes.map(({ name }) => name);
  const strange = Object.keys(splits.train?.classes ?? {}).find((name) => !known.includes(name));
  if (strange !== undefined) {
    throw new DataError(
      `knows ${known.join(', ')}, not the class ${strange} of the training split; ${ADVICE}`,
      { file },
    );
  }
  const channels = set.count('train') === 0 ? profile.channels : set.at('train', 0).names;
  if (channels.join('\n') !== profile.channels.join('\n')) {
    throw new DataError(
      `learned from the channels ${profile.channels.join(', ')}, but the training split has ${channels.join(', ')}; ${ADVICE}`,
      { file },
    );
  }
  return profile;
}

function load(set: ExampleSet): ClassProfile | null {
  if (!taskKind(set.manifest.kind).learnsClasses) return null;
  return storedClasses(set) ?? (set.count('train') === 0 ? null : learnClasses(set.read('train')));
}

/**
 * What the classes look like, when it is first asked for: from the file beside the examples, or else learned from the training split;
 * null without one, and where there are no classes. @throws DataError as `storedClasses`, or for classes that cannot be learned
 */
export function classesOf(set: ExampleSet | null): () => ClassProfile | null {
  let profile: ClassProfile | null | undefined;
  return () => {
    if (profile === undefined) profile = set === null ? null : load(set);
    return profile;
  };
}

/** The stored traces of a set that training can use: none in the words of another version. */
function usableTraces(set: ExampleSet | null): Materials | null {
  const materials = set === null ? null : Materials.of(set);
  return materials?.facts.traces === TRACE_VERSION ? materials : null;
}

/** Reads the stored traces of the training split once. @throws DataError where they are not whole, or not those of the manifest */
export function checkTraces(set: ExampleSet): void {
  for (const _ of usableTraces(set)?.read('train') ?? []);
}

/** The full trace of a training example by its place in the split; null where none is stored in the words of this version. */
export function storedTraces(set: ExampleSet | null): (index: number) => string | null {
  const materials = usableTraces(set);
  return materials === null ? () => null : (index) => materials.at('train', index).teacher;
}
