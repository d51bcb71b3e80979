/** The words of a prompt: what is shown, where it comes from, what is asked, and the form of the answer. */
import { ConfigError } from '../errors.ts';
import { RESERVED, type TaskPrompt } from '../task-prompts.ts';

/** What is known of a series before it is looked at: nothing that depends on its label. */
export interface PromptRequest {
  /** Points of the series, N. */
  readonly length: number;
  /** Names of the channels, in the order of the picture: [C]. */
  readonly channels: readonly string[];
  /** Classes to choose from, in order; ignored where the answer has none. */
  readonly classes: readonly string[];
  /** What the picture's axes count, as a clause; default: the x axis is the index. Not of variates, whose grid the prompt tells. */
  readonly axes?: string;
  /** Whether the series is shown as a picture (default), or as numbers, with at most as many values per channel as points. */
  readonly numbers?: { readonly text: string; readonly points: number };
  /** Whether an extension is asked for, where the task has one; default false, as everywhere until something judges it. */
  readonly extension?: boolean;
}

/** Raised with every change of the words below; part of what manifests keep as the version of a prompt. */
const FORM_VERSION = 2;

/** Version of a prompt as manifests keep it: that of the task's words and that of the common ones. */
export function promptVersion({ name, version }: TaskPrompt): string {
  return `${name}@${version}.${FORM_VERSION}`;
}

const listed = (names: readonly string[]): string =>
  names.length < 2 ? names.join() : `${names.slice(0, -1).join(', ')} and ${names.at(-1)}`;

/** Variates are told by number in a grid; channels by name. */
function shown({ kind }: TaskPrompt, { length, channels, axes, numbers }: PromptRequest): string {
  const count = channels.length;
  const index = `the x axis is the index, 0 to ${length - 1}`;
  if (kind === 'variates') {
    const ids = `numbered 0 to ${count - 1}`;
    return numbers === undefined
      ? `The picture shows ${count} variates of one time series of ${length} points in a grid of small plots, ${ids} row by row from the upper left.`
      : `The numbers below are ${count} variates of one time series of ${length} points, one line each, ${ids}.`;
  }
  const several = count > 1 ? ` with ${count} channels, ${listed(channels)}` : '';
  if (numbers === undefined) {
    // Answers with intervals count points, whatever the axis does.
    const told = kind === 'anomaly' && axes?.endsWith(index) === false;
    const points = told ? `; the index of a point runs from 0 to ${length - 1}` : '';
    return `The plot shows one time series of ${length} points${several}; ${axes ?? index}${points}.`;
  }
  const blocks =
    numbers.points < length
      ? ` Each of the ${numbers.points} values${count > 1 ? ' of a channel' : ''} is the mean of about ${Math.round(length / numbers.points)} neighbouring points; indices are those of the points.`
      : '';
  return `The numbers below are one time series of ${length} points${several}, in order; their index runs from 0 to ${length - 1}.${blocks}`;
}

function choices({ hints }: TaskPrompt, classes: readonly string[]): string {
  const named = classes.map((name) => {
    const hint = Object.hasOwn(hints, name) ? hints[name] : undefined;
    return hint === undefined ? `- ${name}` : `- ${name}: ${hint}`;
  });
  return `The classes are:\n${named.join('\n')}`;
}

function form(prompt: TaskPrompt, { classes, extension }: PromptRequest, asPicture: boolean): string {
  const think = `Reason step by step about what you see ${asPicture ? 'in the picture' : 'in the numbers'} between <think> and </think>.`;
  const name = `Then give one class, spelled as in the list, between <class> and </class>: ${classes.join(', ')}.`;
  if (prompt.kind === 'variates') {
    return `${think} Then give the numbers of the variates as a list between <answer> and </answer>, for example <answer>[2, 7]</answer>. Write nothing else.`;
  }
  if (prompt.kind === 'anomaly') {
    return `${think} Then give the intervals as half-open index ranges between <answer> and </answer>, for example <answer>[[120, 180], [400, 420]]</answer>, or <answer>[]</answer> when nothing is anomalous. ${name} Write nothing else.`;
  }
  const more = extension
    ? ` Finally, between <extension> and </extension>, ${prompt.advice}. Be specific to what this series shows.`
    : '';
  return `${think} ${name}${more} Write nothing else.`;
}

/**
 * The text of a prompt, without its picture. It depends on the request alone: the same for every series of a task with as many
 * points and channels.
 *
 * @throws ConfigError for a length below 1, no channels, no classes where one is to be chosen, a class that holds a tag or a line
 * end, or an extension for a task that has none
 */
export function promptText(prompt: TaskPrompt, request: PromptRequest): string {
  const { length, channels, classes, numbers, extension = false } = request;
  const fail = (message: string): never => {
    throw new ConfigError(`prompt of ${prompt.name}: ${message}`);
  };
  if (!Number.isInteger(length) || length < 1) fail(`a series of ${length} points; expected at least 1`);
  if (channels.length === 0) fail('no channels');
  if (prompt.kind !== 'variates' && classes.length === 0) fail('no classes to choose from');
  const odd = classes.find((name) => !/^[^<>\n\r]+$/.test(name));
  if (odd !== undefined) fail(`class ${JSON.stringify(odd)} is empty or holds <, > or a line end`);
  const token = channels.find((name) => RESERVED.test(name) || /[\n\r]/.test(name));
  if (token !== undefined)
    fail(
      `channel ${JSON.stringify(token)} holds a tag of the answer, a special token or a line end; rename it`,
    );
  if (extension && prompt.advice === null) fail('this task has no extension; leave it out');
  const parts = [
    [shown(prompt, request), prompt.context].filter((part) => part !== '').join(' '),
    prompt.kind === 'variates' ? prompt.question : `${prompt.question} ${choices(prompt, classes)}`,
    form(prompt, request, numbers === undefined),
  ];
  return numbers === undefined ? parts.join('\n') : `${parts.join('\n')}\n\n${numbers.text}`;
}
