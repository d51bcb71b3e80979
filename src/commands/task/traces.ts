/** What a prepared data set has ready for training: what its classes look like, and the expert traces with the right answer. */
import { existsSync, readFileSync } from 'node:fs';
import { join } from 'node:path';
import type { ExampleSet } from '../../../datasets/example-set.ts';
import { CLASSES_FILE } from '../../../datasets/material-facts.ts';
import { Materials } from '../../../datasets/materials.ts';
import { readProfile } from '../../expcot/profile-file.ts';
import { type ClassProfile, learnClasses } from '../../expcot/profile-of-classes.ts';
import { TRACE_VERSION } from '../../expcot/trace-version.ts';

function load(set: ExampleSet): ClassProfile | null {
  if (set.manifest.kind !== 'classification') return null;
  const file = join(set.directory, CLASSES_FILE);
  if (set.manifest.materials !== undefined && existsSync(file)) {
    return readProfile(readFileSync(file, 'utf8'), file);
  }
  return set.count('train') === 0 ? null : learnClasses(set.read('train'));
}

/**
 * What the classes look like, when it is first asked for: from the file beside the examples, or else learned from the training split;
 * null without one, and where there are no classes. @throws DataError for a damaged file, or classes that cannot be learned
 */
export function classesOf(set: ExampleSet | null): () => ClassProfile | null {
  let profile: ClassProfile | null | undefined;
  return () => {
    if (profile === undefined) profile = set === null ? null : load(set);
    return profile;
  };
}

/** The full trace of a training example by its place in the split; null where none is stored in the words of this version. */
export function storedTraces(set: ExampleSet | null): (index: number) => string | null {
  const materials = set === null ? null : Materials.of(set);
  if (materials === null || materials.facts.traces !== TRACE_VERSION) return () => null;
  return (index) => materials.at('train', index).teacher;
}
