/** What stands beside each example of a prepared data set: its figure, its prompt and its expert traces. */

import { existsSync } from 'node:fs';
import { join } from 'node:path';
import { DataError, TimeseerError } from '../src/errors.ts';
import { type ClassProfile, learnClasses, profileToJson, readProfile } from '../src/expcot/class-profile.ts';
import { fileInside, readUtf8 } from '../src/files.ts';
import { axesText } from '../src/plot/figure.ts';
import { encodePng } from '../src/plot/png.ts';
import { render } from '../src/plot/raster.ts';
import { drawingOf } from '../src/tasks/drawing.ts';
import type { Agreement, TaskPrompt } from '../src/tasks/kind.ts';
import { agreement, expertOn, goldParts, taskKind } from '../src/tasks/kinds.ts';
import { promptText, promptVersion } from '../src/tasks/prompt.ts';
import { ANOMALY_CLASSES, type Example, type Gold } from '../src/types.ts';
import { promptFor } from './benchmarks/registry.ts';
import { lengthOf } from './example.ts';
import { CLASSES_FILE } from './example-manifest.ts';
import { type ExampleOrigin, ExampleSet } from './example-set.ts';
import type { Material } from './materials.ts';
import type { Split } from './split.ts';

const promptOf = ({ task, title, kind, prompt }: ExampleOrigin): TaskPrompt =>
  promptFor(task, kind, title, prompt);

/** What a policy that is not nano is asked about an example. @throws ConfigError as `promptText` */
export function wordsFor(example: Example, origin: ExampleOrigin): string {
  const length = lengthOf(example);
  const { figure, times } = drawingOf(example, origin.figure);
  return promptText(promptOf(origin), {
    length,
    axes: axesText(figure, length, times),
    channels: example.names,
    classes: origin.classes.length > 0 ? origin.classes : ANOMALY_CLASSES,
  });
}

/** Version of these words for all examples of a data set. */
export const wordsVersion = (origin: ExampleOrigin): string => promptVersion(promptOf(origin));

/** Which parts are wanted; prompts always are. */
export interface MaterialParts {
  readonly figures: boolean;
  readonly traces: boolean;
}

/** Milliseconds of wall clock. */
export interface Spent {
  reading: number;
  drawing: number;
  encoding: number;
  tracing: number;
}

/** A part that an example does not have, and why. */
export interface Lack {
  readonly part: 'figure' | 'blind' | 'teacher';
  readonly id: string;
  readonly reason: string;
}

export interface Composed {
  readonly material: Omit<Material, 'image'>;
  readonly png: Uint8Array | null;
  readonly gold: Gold;
  /** Of the blind answer with the right one; null without a blind trace. */
  readonly agreement: Agreement | null;
  readonly lacks: readonly Lack[];
  readonly spent: Spent;
}

/** What classes look like, as a file's text; or why they could not be learned. */
export type Learned =
  | { readonly profile: string; readonly heldOut: number | null; readonly reason: null }
  | { readonly profile: null; readonly reason: string };

/** Examples between two reports of progress. */
const REPORT = 64;

/** The classes of training examples, or why they cannot be learned. @throws DataError for a file that is wrong */
export function learnProfile(
  training: Iterable<Example>,
):
  | { readonly profile: ClassProfile; readonly reason: null }
  | { readonly profile: null; readonly reason: string } {
  let some = false;
  const examples = function* (): Generator<Example> {
    for (const example of training) {
      some = true;
      yield example;
    }
  };
  try {
    return { profile: learnClasses(examples()), reason: null };
  } catch (error) {
    if (!(error instanceof DataError) || error.file !== undefined) throw error;
    const reason = some
      ? `classes cannot be learned: ${error.message}`
      : 'there is no training split to learn classes from';
    return { profile: null, reason };
  }
}

/** Composes materials of one data set, one example at a time; each thread has its own. */
export class MaterialComposer {
  readonly #set: ExampleSet;
  readonly #parts: MaterialParts;
  #profile: ClassProfile | null | undefined;

  /** @throws DataError as `ExampleSet` */
  constructor(directory: string, parts: MaterialParts) {
    this.#set = new ExampleSet(directory);
    this.#parts = parts;
  }

  /** Learns the classes from the training split alone. @throws DataError for a file that changed */
  learn(onProgress?: (read: number) => void): Learned {
    const set = this.#set;
    let read = 0;
    const examples = function* (): Generator<Example> {
      if (set.count('train') === 0) return;
      for (const example of set.read('train')) {
        yield example;
        if (++read % REPORT === 0) onProgress?.(read);
      }
    };
    const { profile, reason } = learnProfile(examples());
    if (profile === null) return { profile, reason };
    return { profile: profileToJson(profile), heldOut: profile.rule.heldOutAccuracy, reason };
  }

  /** The profile beside the examples; null where there is none, and where none is needed. */
  #classes(): ClassProfile | null {
    if (this.#profile === undefined) {
      const file = join(this.#set.directory, CLASSES_FILE);
      const there = taskKind(this.#set.manifest.kind).learnsClasses && existsSync(file);
      this.#profile = there
        ? readProfile(readUtf8(fileInside(this.#set.directory, CLASSES_FILE)), file)
        : null;
    }
    return this.#profile;
  }

  /**
   * Materials of example number `index` of a split (0-based). What cannot be drawn or traced is left out and named in `lacks`.
   * @throws DataError for a line that cannot be read
   */
  async compose(split: Split, index: number): Promise<Composed> {
    const set = this.#set;
    const spent: Spent = { reading: 0, drawing: 0, encoding: 0, tracing: 0 };
    const lacks: Lack[] = [];
    let now = performance.now();
    const lap = (name: keyof Spent): void => {
      const before = now;
      now = performance.now();
      spent[name] += now - before;
    };
    const example = set.at(split, index);
    const { id, gold } = example;
    lap('reading');
    const lack = (part: Lack['part'], error: unknown): void => {
      if (!(error instanceof TimeseerError)) throw error;
      lacks.push({ part, id, reason: error.message });
    };
    let png: Uint8Array | null = null;
    if (this.#parts.figures) {
      try {
        const { figure, values, times } = drawingOf(example, set.manifest.figure);
        const picture = await render(figure, values, times);
        lap('drawing');
        png = new Uint8Array(encodePng(picture));
        lap('encoding');
      } catch (error) {
        lack('figure', error);
      }
    }
    const traces = this.#trace(split, example, lack);
    lap('tracing');
    return {
      material: {
        id,
        prompt: wordsFor(example, set.manifest),
        gold: goldParts(gold),
        ...{ teacher: traces.teacher, blind: traces.blind },
      },
      ...{ png, gold, lacks, spent, agreement: traces.agreement },
    };
  }

  #trace(
    split: Split,
    example: Example,
    lack: (part: Lack['part'], error: unknown) => void,
  ): Pick<Composed, 'agreement'> & Pick<Material, 'teacher' | 'blind'> {
    const none = { teacher: null, blind: null, agreement: null };
    const { gold } = example;
    if (!this.#parts.traces) return none;
    const profile = this.#classes();
    // Without a profile no classification has traces: said once for all of them, not as a lack of each.
    if (taskKind(gold.kind).learnsClasses && profile === null) return none;
    try {
      const expert = expertOn(example, gold.kind, profile);
      const { text, answer } = expert.blind();
      let teacher: string | null = null;
      try {
        // Traces with the right answers of a test split must not exist anywhere.
        if (split !== 'test') teacher = expert.teacher(gold).text;
      } catch (error) {
        lack('teacher', error);
      }
      return { teacher, blind: text, agreement: agreement(answer, gold) };
    } catch (error) {
      lack('blind', error);
      return none;
    }
  }
}
