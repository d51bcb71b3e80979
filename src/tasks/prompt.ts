/** Instruction of a prompt, beside the picture or with the numbers. Never depends on labels. */
import { ConfigError } from '../ground/errors.ts';
import type { Gold } from '../ground/types.ts';
import type { PromptRequest, TaskPrompt } from './kind.ts';
import { choosesClass, taskKind } from './kinds.ts';
import { RESERVED } from './response.ts';

/** User's description of the data: measurement, classes, request for the extension. */
export interface OwnWords {
  /** Description of the measurement (quantity, method, rate); empty for none. */
  readonly description?: string;
  /** Description of each class by name; for anomalies it replaces the default words. */
  readonly hints?: Readonly<Record<string, string>>;
  /** Request for the extension; absent for none. */
  readonly advice?: string | null;
}

/** The prompt of a user's own data. @throws ConfigError where a text holds `RESERVED` text */
export function customPrompt(kind: Gold['kind'], words: OwnWords = {}): TaskPrompt {
  const { description = '', hints = {}, advice = null } = words;
  for (const text of [description, advice ?? '', ...Object.entries(hints).flat()]) {
    if (RESERVED.test(text)) {
      throw new ConfigError(
        `custom prompt: ${JSON.stringify(text)} holds a tag of the answer or a special token; leave it out`,
      );
    }
  }
  const { question, hints: usual } = taskKind(kind);
  return {
    name: 'custom',
    version: 2,
    ...{ kind, question },
    context: description.trim(),
    hints: { ...usual, ...hints },
    advice: advice?.trim() ?? null,
  };
}

/** Raised with every change of the words below or of a kind; part of what manifests keep as the version of a prompt. */
const FORM_VERSION = 2;

/** The question of an example, with its options. */
function ownQuestion({ text, options }: NonNullable<PromptRequest['question']>): string {
  const asked = `Question: ${text.trim()}`;
  if (options.length === 0) return asked;
  return `${asked}\nThe options are:\n${options.map((option, i) => `${String.fromCharCode(65 + i)}) ${option.trim()}`).join('\n')}`;
}

/** Version of a prompt as manifests keep it: that of the task's words and that of the common ones. */
export function promptVersion({ name, version }: TaskPrompt): string {
  return `${name}@${version}.${FORM_VERSION}`;
}

/** A request and a prompt with the classes that an example brings in place of the task's. */
function withOwn(prompt: TaskPrompt, request: PromptRequest): readonly [TaskPrompt, PromptRequest] {
  const { among } = request;
  if (among === undefined) return [prompt, request];
  return [
    { ...prompt, hints: among },
    { ...request, classes: Object.keys(among) },
  ];
}

function choices({ hints }: TaskPrompt, classes: readonly string[]): string {
  const named = classes.map((name) => {
    const hint = Object.hasOwn(hints, name) ? hints[name] : undefined;
    return hint === undefined ? `- ${name}` : `- ${name}: ${hint}`;
  });
  return `The classes are:\n${named.join('\n')}`;
}

/**
 * Writes a prompt without its picture: series, origin, question and form of the answer. It depends on the
 * request alone.
 * @throws ConfigError for a length below 1, no channels, no classes to choose from, a class with a tag or a
 * line end, or an extension for a task that has none
 */
export function promptText(given: TaskPrompt, wanted: PromptRequest): string {
  const [prompt, request] = withOwn(given, wanted);
  const { length, channels, classes, numbers, extension = false, reasoning = true } = request;
  const fail = (message: string): never => {
    throw new ConfigError(`prompt of ${prompt.name}: ${message}`);
  };
  if (!Number.isInteger(length) || length < 1) fail(`a series of ${length} points; expected at least 1`);
  if (channels.length === 0) fail('no channels');
  const kind = taskKind(prompt.kind);
  const choosing = choosesClass(prompt.kind);
  if (choosing && classes.length === 0) fail('no classes to choose from');
  const odd = classes.find((name) => !/^[^<>\n\r]+$/.test(name));
  if (odd !== undefined) fail(`class ${JSON.stringify(odd)} is empty or holds <, > or a line end`);
  const token = channels.find((name) => RESERVED.test(name) || /[\n\r]/.test(name));
  if (token !== undefined)
    fail(
      `channel ${JSON.stringify(token)} holds a tag of the answer, a special token or a line end; rename it`,
    );
  if (extension && prompt.advice === null) fail('this task has no extension; leave it out');
  const place = numbers === undefined ? 'in the picture' : 'in the numbers';
  const form = kind.form(prompt, request);
  const text = [
    [kind.shown(request), prompt.context].filter((part) => part !== '').join(' '),
    request.question !== undefined
      ? ownQuestion(request.question)
      : choosing
        ? `${prompt.question} ${choices(prompt, classes)}`
        : prompt.question,
    reasoning
      ? `Reason step by step about what you see ${place} between <think> and </think>. ${form} Write nothing else.`
      : `Answer from what you see ${place}, without any reasoning. ${form.replace(/^Then ./, (then) => then.slice(-1).toUpperCase())} Write nothing else.`,
  ].join('\n');
  return numbers === undefined ? text : `${text}\n\n${numbers.text}`;
}

/**
 * Writes the prompt of the teacher in self-distillation: the question, a correct answer with its reasoning,
 * and in the full style the request to answer anew (small policies do not know the words).
 */
export function teacherInstruction(style: 'nano' | 'full', question: string, trace: string): string {
  if (style === 'nano') return `${question}\n${trace}`;
  return `${question}\n\nThis is a correct answer with its reasoning:\n${trace}\n\nNow give your own answer to the question, in the form that it asks for.`;
}

/**
 * Instruction for a policy. `nano`: the kind's phrase; `full`: the whole prompt. @throws ConfigError as
 * `promptText`
 */
export function instruction(style: 'nano' | 'full', prompt: TaskPrompt, request: PromptRequest): string {
  if (style === 'full') return promptText(prompt, request);
  const { phrase } = taskKind(prompt.kind);
  const described = Object.entries(request.among ?? {}).map(([name, words]) => `${name}: ${words}`);
  const numbers = request.numbers === undefined ? [] : [request.numbers.text];
  return [phrase, ...described, ...numbers].join('\n');
}
