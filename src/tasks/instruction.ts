/** What a policy is asked, beside the picture or with the numbers. Never depends on labels. */
import { ConfigError } from '../errors.ts';
import { customPrompt, type TaskPrompt, taskPrompt } from '../task-prompts.ts';
import type { Gold } from '../types.ts';
import { promptText } from './prompt.ts';

/** One phrase: a small policy is always asked the same. */
const SHORT: Readonly<Record<Gold['kind'], string>> = {
  classification: 'Name the class.',
  anomaly: 'Find the anomalies.',
  variates: 'Find the odd variates.',
};

/** Whom the words are for, and what they ask. */
export interface Addressee {
  readonly style: 'nano' | 'full';
  readonly kind: Gold['kind'];
  readonly task: string | null;
  readonly classes: readonly string[];
}

/** What is asked about. */
export interface Asked {
  /** Points of the series, N. */
  readonly length: number;
  /** Names of the channels, in the order of the picture: [C]. */
  readonly channels: readonly string[];
  /** What the picture's axes count, as a clause; default: the index. */
  readonly axes?: string;
  /** The series as numbers, where it is not shown. */
  readonly numbers?: { readonly text: string; readonly points: number };
  /** What the data set says of itself, for tasks without a prompt of their own. */
  readonly title?: string;
  /** The user's words, for the same. */
  readonly own?: OwnWords;
}

/** What users say of their data: what was measured, what classes look like, what an extension is asked for. */
export interface OwnWords {
  readonly description: string;
  readonly hints: Readonly<Record<string, string>>;
  readonly advice: string | null;
}

/**
 * A task's own prompt; for data without one (null, or an unknown name), the user's words, or the title, around the question that
 * suits the kind of answer. Data of the task `custom` have a title that says nothing.
 */
export function promptFor(task: string | null, kind: Gold['kind'], title = '', own?: OwnWords): TaskPrompt {
  const custom = (): TaskPrompt => {
    if (own === undefined) return customPrompt({ kind, description: task === 'custom' ? '' : title });
    const { description, hints, advice } = own;
    return customPrompt({ kind, description, hints, ...(advice === null ? {} : { advice }) });
  };
  if (task === null) return custom();
  try {
    return taskPrompt(task, kind);
  } catch (error) {
    if (!(error instanceof ConfigError)) throw error;
    return custom();
  }
}

/**
 * `nano`: one phrase, without the length, which is always the trained one; `full`: the task's prompt, with context, classes and
 * the form of the answer.
 * @throws ConfigError as `promptText`
 */
export function instruction({ style, kind, task, classes }: Addressee, asked: Asked): string {
  const { length, channels, axes, numbers, title, own } = asked;
  if (style === 'nano') return numbers === undefined ? SHORT[kind] : `${SHORT[kind]}\n${numbers.text}`;
  const shown = numbers === undefined ? (axes === undefined ? {} : { axes }) : { numbers };
  const request = { length, channels, classes, ...shown };
  return promptText(promptFor(task, kind, title, own), request);
}
