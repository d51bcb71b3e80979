/**
 * Classification (TimeMaster): `<think>…</think><class>…</class>`, then `<extension>…</extension>` where the task asks for one.
 */
import { timemaster } from '../../rewards/timemaster.ts';
import { ConfigError, DataError } from '../errors.ts';
import type { ClassProfile } from '../expcot/class-profile.ts';
import { blindClass, ClassEvidence, teacherClass } from '../expcot/class-trace.ts';
import { nanoClassTeacher } from '../expcot/nano-class.ts';
import { type Place, show, stringField } from '../json-record.ts';
import type { ClassificationGold, ParsedAnswer } from '../types.ts';
import { type Asked, chooseOne, shownSeries, type TaskKind } from './kind.ts';
import {
  labelProblem,
  nameClass,
  partOf,
  readLabel,
  readTagged,
  tagFormat,
  thinkProblem,
} from './response.ts';

const FORMAT = tagFormat('think', 'class');
const WITH_EXTENSION = tagFormat('think', 'class', 'extension');

/** What the name of a class may be: one line that a response can carry between tags. */
export const CLASS = /^[^\s<>](?:[^\n\r<>]{0,198}[^\s<>])?$/u;
/** The same in words. */
export const CLASS_RULE = 'one line of 1 to 200 characters without < and >, and without blanks around it';

/** More classes than these are told apart by more features. */
const FEW_CLASSES = 3;

/** @throws DataError unless a response can carry this class between tags */
export function checkClass(name: string, at: Place = {}): void {
  if (CLASS.test(name)) return;
  throw new DataError(`class: got ${show(name)}, expected ${CLASS_RULE}`, at);
}

/** @throws ConfigError where there is none */
function needProfile(profile: ClassProfile | null): ClassProfile {
  if (profile !== null) return profile;
  throw new ConfigError(
    'a trace of a classification needs a profile of classes, learned from the training split',
  );
}

/**
 * Reads a classification response, with an extension part exactly when the task asks for one; only then the result has
 * an `extension`, trimmed.
 *
 * Example: `parseClassification('<think>two levels</think><class>laptop</class>', { classes: ['Desktop', 'Laptop'] })`.
 */
export function parseClassification(
  response: string,
  { extension = false, classes = [], reading = 'lenient' }: Partial<Asked> = {},
): ParsedAnswer {
  const tagged = readTagged(response, extension ? WITH_EXTENSION : FORMAT);
  const { class: named = null, think = null } = tagged.parts;
  const label = readLabel(named);
  const part = (name: string) => partOf(tagged, name, response, reading);
  const advice = tagged.parts['extension']?.trim() || null;
  const problem =
    tagged.problem ??
    labelProblem(label) ??
    thinkProblem(think) ??
    (extension && advice === null ? 'the extension is blank' : null);
  return {
    think: part('think'),
    intervals: null,
    class: reading === 'strict' ? label : nameClass(part('class'), classes),
    ...(extension ? { extension: part('extension')?.trim() || null } : {}),
    wellFormed: problem === null,
    problem,
  };
}

export const classification: TaskKind<ClassificationGold> = {
  name: 'classification',
  answers: 'classes',
  column: 'classes',
  classes: 'data',
  learnsClasses: true,
  countsPoints: false,
  countsChannels: false,
  nanoFigure: 'nano-channels',
  localises: false,
  measuresF1: false,

  fields: ['kind', 'class'],
  read: (record, at) => ({ kind: 'classification', class: stringField(record, 'class', at) }),
  check: (gold, _, at) => checkClass(gold.class, at),
  className: (gold) => gold.class,
  label: (gold) => gold.class,
  parts: (gold) => `<class>${gold.class}</class>`,
  marks: () => null,
  state: (stated, found, _, missing) => ({
    kind: 'classification',
    class: stated.class ?? found?.class ?? missing('--class'),
  }),

  phrase: 'Name the class.',
  question: 'Decide which class it belongs to.',
  hints: {},
  shown: (request) => shownSeries(request, false),
  form(prompt, { classes, extension }) {
    const more = extension
      ? ` Finally, between <extension> and </extension>, ${prompt.advice}. Be specific to what this series shows.`
      : '';
    return `${chooseOne(classes)}${more}`;
  },

  parse: parseClassification,
  reward: timemaster,

  expert({ channels }, profile) {
    const evidence = new ClassEvidence(needProfile(profile), channels);
    return {
      evidence: () => evidence,
      blind() {
        const { text, think, class: own } = blindClass(evidence);
        return { text, think, answer: { kind: 'classification', class: own } };
      },
      teacher(gold) {
        const { text, think } = teacherClass(evidence, gold.class);
        return { text, think, answer: gold };
      },
    };
  },
  nanoTrace({ channels }, gold, profile, options) {
    const known = needProfile(profile);
    const features = known.classes.length <= FEW_CLASSES ? 3 : 6;
    return nanoClassTeacher(new ClassEvidence(known, channels), gold.class, { ...options, features });
  },
  answerOf: (said) => ({ kind: 'classification', class: said.class ?? '' }),
  says: (said) => said.class ?? 'unreadable',
  agreement: (answer, gold) => ({ class: answer.class === gold.class, f1: null }),
};
