/**
 * Goes through the examples of a data set on disk once, before a stage begins: what would stop it on its way is found before
 * anything is written. A generator's examples need no check.
 */

import { join } from 'node:path';
import { lengthOf } from '../../datasets/example.ts';
import { splitFile } from '../../datasets/example-manifest.ts';
import { type CheckedLine, ExampleSet } from '../../datasets/example-set.ts';
import { checkTraces, storedClasses } from '../../datasets/materials.ts';
import { type DataFacts, hasSplits, isGenerator } from '../../datasets/source.ts';
import type { Split } from '../../datasets/split.ts';
import { DataError, TimeseerError } from '../errors.ts';
import type { Place } from '../json-record.ts';
import { LARGEST_DRAWABLE } from '../plot/data.ts';
import { figure } from '../plot/figure.ts';
import type { PolicyCard } from '../tasks/card.ts';
import { drawingOf } from '../tasks/drawing.ts';
import { taskKind } from '../tasks/kinds.ts';
import type { Example } from '../types.ts';
import { type PromptReader, PromptRoom } from './prompt-room.ts';
import { exampleTask } from './task.ts';

export interface DataCheck {
  /** Generator, or directory of a data set. */
  readonly name: string;
  readonly facts: DataFacts;
  /** Of a prepared data set; those that it does not have are passed over. */
  readonly splits: readonly Split[];
  /** How its examples are shown. */
  readonly card: PolicyCard;
  /** What reads prompts with numbers; asked for only where the card says numbers. */
  readonly reader: () => PromptReader;
}

/** What examples are checked for, beside what makes them examples at all. */
class ExampleCheck {
  readonly #facts: DataFacts;
  readonly #card: PolicyCard;
  readonly #ids = new Set<string>();
  readonly #shapes = new Set<string>();
  readonly #room: PromptRoom | null;
  readonly #task: ReturnType<typeof exampleTask>;
  #names: string | null = null;

  constructor({ facts, card, reader }: DataCheck) {
    this.#facts = facts;
    this.#card = card;
    this.#task = exampleTask(card, { facts });
    this.#room = card.numbers === null ? null : new PromptRoom(reader(), card.numbers.points);
  }

  /** @throws DataError with the example's place and id */
  add(example: Example, at: Place): void {
    const { id, channels, names, gold } = example;
    const fail = (why: string): DataError => new DataError(`${id}: ${why}`, at);
    if (this.#ids.has(id)) throw fail('this id occurs twice');
    this.#ids.add(id);
    for (const [c, channel] of channels.entries()) {
      for (let t = 0; t < channel.length; t++) {
        if (Math.abs(channel[t]!) > LARGEST_DRAWABLE) {
          throw fail(
            `channels[${c}][${t}]: ${channel[t]} is beyond ±${LARGEST_DRAWABLE}; rescale the series`,
          );
        }
      }
    }
    // Prompts list the manifest's classes; an anomaly of unnamed kind is not graded by its class.
    const { classes } = this.#facts;
    const kind = taskKind(gold.kind);
    const name = kind.className(gold);
    if (name !== null && !classes.includes(name)) {
      throw fail(`class ${JSON.stringify(name)} is none of the manifest's: ${classes.join(', ')}`);
    }
    if (kind.learnsClasses) {
      // Features of classes are compared channel by channel; other tasks may have as many as they like.
      this.#names ??= names.join(', ');
      if (names.join(', ') !== this.#names) {
        throw fail(`channels ${names.join(', ')}, but the first example has ${this.#names}`);
      }
    }
    let instruction: string | null;
    try {
      instruction = this.#look(example);
    } catch (error) {
      if (!(error instanceof TimeseerError)) throw error;
      throw new DataError(`${id}: ${error.message}`, { ...at, cause: error });
    }
    if (instruction !== null) this.#room?.add(id, at, instruction);
  }

  /** Figures of one shape are alike; prompts with numbers are all different, and given back. */
  #look(example: Example): string | null {
    if (this.#room !== null) return this.#task.instruction(example);
    const shape = `${example.channels.length} × ${lengthOf(example)}`;
    if (this.#shapes.has(shape)) return null;
    this.#shapes.add(shape);
    const preset = this.#card.figure;
    drawingOf(example, { preset, missing: this.#facts.figure?.missing ?? figure(preset).missing });
    return null;
  }

  /** What is known after the last one. @throws DataError as `PromptRoom.check` */
  finish(): void {
    this.#room?.check();
  }
}

/** What training takes from beside the examples. */
function checkBeside(set: ExampleSet, { style }: PolicyCard): void {
  const { kind, splits } = set.manifest;
  if (splits.train === undefined) return;
  const classes = Object.keys(splits.train.classes);
  if (taskKind(kind).learnsClasses && classes.length < 2) {
    throw new DataError(
      `the training split has one class only (${classes.join('')}), and there is nothing to tell apart; prepare the data set again`,
      { file: join(set.directory, splits.train.file) },
    );
  }
  storedClasses(set);
  if (style === 'full') checkTraces(set);
}

/**
 * Checks that a stage, or an evaluation, can go through the examples: every line is one, with an id of its own, values that can be
 * drawn, a class of the manifest and, in a classification, the channels of the first; files are those of the manifest (SHA-256);
 * figures of each shape exist; prompts with numbers fit the context; learned classes and stored traces are whole.
 *
 * @throws DataError with file, line and id
 */
export function checkData(options: DataCheck): void {
  const { name, splits, card } = options;
  if (isGenerator(name)) return;
  const check = new ExampleCheck(options);
  const go = (lines: Iterable<CheckedLine>, file: string): void => {
    for (const { line, example, problem } of lines) {
      if (example === null) throw problem;
      check.add(example, { file: join(name, file), line });
    }
  };
  const set = new ExampleSet(name);
  checkBeside(set, card);
  for (const split of hasSplits(name) ? splits : set.splits) {
    if (set.count(split) > 0) go(set.check(split), splitFile(split));
  }
  check.finish();
}
