import { lengthOf } from '../../../datasets/example.ts';
import type { ExampleSet } from '../../../datasets/example-set.ts';
import { wordsFor, wordsVersion } from '../../../datasets/material-composer.ts';
import { classesOf, type Material, Materials } from '../../../datasets/materials.ts';
import type { Split } from '../../../datasets/split.ts';
import { DataError, reasonOf, TimeseerError } from '../../errors.ts';
import { type ClassProfile, learnClasses } from '../../expcot/class-profile.ts';
import { TRACE_VERSION } from '../../expcot/trace.ts';
import { fileInside, readBytes } from '../../files.ts';
import { decodePng, MOST_BYTES } from '../../plot/png.ts';
import { choosesClass, EXACT_WORDS, expertOn, taskKind } from '../../tasks/kinds.ts';
import type { Example } from '../../types.ts';
import type { BlindWords, Describe, ExampleDetails } from './page.ts';

/** The blind trace with its own answer, compared with the right one. */
function blindWords(text: string, example: Example): BlindWords {
  const { gold, channels, names } = example;
  const length = lengthOf(example);
  const kind = taskKind(gold.kind);
  const said = kind.parse(text, { kind: gold.kind, length, channels: channels.length, ...EXACT_WORDS });
  const { class: named, f1 } = kind.agreement(kind.answerOf(said), gold);
  const right = choosesClass(gold.kind) ? named : f1 === 1;
  return { text, says: kind.says(said, names), right, f1 };
}

type Traces = Pick<ExampleDetails, 'teacher' | 'notes'> & { readonly blind: string | null };

/** Both traces as they are told now; what cannot be told is said instead. */
function toldNow(example: Example, profile: ClassProfile | null): Traces {
  const because = (error: unknown): string => {
    if (!(error instanceof TimeseerError)) throw error;
    return error.message;
  };
  try {
    const expert = expertOn(example, example.gold.kind, profile);
    const blind = expert.blind().text;
    try {
      return { teacher: expert.teacher(example.gold).text, blind, notes: [] };
    } catch (error) {
      return { teacher: null, blind, notes: [`No expert trace for the right answer: ${because(error)}.`] };
    }
  } catch (error) {
    return { teacher: null, blind: null, notes: [`No expert traces: ${because(error)}.`] };
  }
}

export interface DescribeOptions {
  /** All examples that classes may be learned from; those of other splits are passed over. */
  readonly training: () => Iterable<readonly [split: Split, example: Example]>;
  /** The prepared data set that the examples are of; null where they come from a task. */
  readonly set: ExampleSet | null;
  /** Whether another figure is drawn than the data set's own: then its stored figures and prompts are not meant. */
  readonly redrawn: boolean;
}

interface Learned {
  readonly profile: ClassProfile | null;
  /** Why there is none. */
  readonly reason: string;
}

function learn({ set, training }: DescribeOptions, stored: boolean): Learned {
  if (stored) return { profile: classesOf(set)(), reason: '' };
  const examples = function* (): Generator<Example> {
    for (const [split, example] of training()) if (split === 'train') yield example;
  };
  const [first] = examples();
  if (first === undefined) {
    return { profile: null, reason: 'there is no training split to learn classes from' };
  }
  try {
    return { profile: learnClasses(examples()), reason: '' };
  } catch (error) {
    if (!(error instanceof DataError) || error.file !== undefined) throw error;
    return { profile: null, reason: `classes cannot be learned: ${error.message}` };
  }
}

/**
 * Figure, prompt and expert traces of examples: of a prepared data set those that stand beside its examples, which training takes
 * and which have no trace with the right answer of a test split; else what would stand there. Classes are learned from the training
 * split alone, once, when a trace first needs them. What cannot be told is left out, with a line that says why.
 *
 * @throws DataError for a prepared data set whose files are damaged
 */
export function describer(options: DescribeOptions): Describe {
  const { set, redrawn } = options;
  const materials = set === null ? null : Materials.of(set);
  const facts = materials?.facts;
  let learned: Learned | undefined;
  const now = (example: Example): Traces => {
    if (!taskKind(example.gold.kind).learnsClasses) return toldNow(example, null);
    learned ??= learn(options, (facts?.classes ?? null) !== null);
    if (learned.profile === null) {
      return { teacher: null, blind: null, notes: [`No expert traces: ${learned.reason}.`] };
    }
    return toldNow(example, learned.profile);
  };
  const tracesOf = (split: Split, example: Example, material: Material | null): Traces => {
    if (material === null || facts?.traces !== TRACE_VERSION) return now(example);
    const { teacher, blind } = material;
    const whole = blind !== null && (teacher !== null || split === 'test');
    if (whole) return { teacher, blind, notes: [] };
    return { teacher, blind, notes: now(example).notes };
  };
  const imageOf = (path: string | null): Pick<ExampleDetails, 'image' | 'notes'> => {
    if (set === null || path === null) return { image: null, notes: [] };
    try {
      return {
        image: { path, picture: decodePng(readStored(fileInside(set.directory, path)), path) },
        notes: [],
      };
    } catch (error) {
      if (!(error instanceof DataError)) throw error;
      return { image: null, notes: [`The stored figure is not shown: ${error.message}.`] };
    }
  };
  return async ({ split, index, example }, origin) => {
    const material = materials?.at(split, index) ?? null;
    const stored = redrawn ? null : material;
    const { image, notes } = imageOf(stored?.image ?? null);
    const traces = tracesOf(split, example, material);
    const prompt = stored?.prompt ?? wordsFor(example, origin);
    const version = stored === null ? wordsVersion(origin) : facts!.prompt;
    return {
      prompt: `${prompt}\n\n(prompt ${version})`,
      image,
      teacher: traces.teacher,
      blind: traces.blind === null ? null : blindWords(traces.blind, example),
      notes: [...notes, ...traces.notes],
    };
  };
}

function readStored(file: string): Buffer {
  try {
    return readBytes(file, MOST_BYTES);
  } catch (cause) {
    throw new DataError(`cannot be read (${reasonOf(cause)})`, { file, cause });
  }
}
