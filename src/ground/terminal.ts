/**
 * Output of commands: results on standard output, everything else on standard error. File names, table cells
 * and model answers are foreign text, so control characters (escape codes, carriage returns, bidirectional
 * overrides) are made visible. All text for people goes through here.
 */
import { reasonOf } from './errors.ts';
import { WriteError } from './files.ts';

/** `\x1b` for the escape character, `\u202e` for an override of the reading direction; newlines and tabs stay. */
export function visible(text: string): string {
  return text.replace(/[^\P{Cc}\n\t]|\p{Bidi_Control}|[\u2028\u2029]/gu, (character) => {
    const hex = character.codePointAt(0)!.toString(16);
    return hex.length <= 2 ? `\\x${hex.padStart(2, '0')}` : `\\u${hex.padStart(4, '0')}`;
  });
}

/** `visible` text on one line: the name of a column may have line breaks. */
export const onOneLine = (text: string) => visible(text).replaceAll('\n', '\\n').replaceAll('\t', '\\t');

/** Addresses without user name and password: `https://***@host/path`. */
export function withoutSecrets(text: string): string {
  return text.replace(/(:\/\/)[^\s/?#'"]*@(?:[^\s'"]*@)?/g, '$1***@');
}

/** Standard output takes no more: where it is a full disk, say. */
export function outputError(cause: unknown): WriteError {
  return new WriteError(`standard output: not written (${reasonOf(cause)})`, { cause });
}

function write(text: string): void {
  try {
    process.stdout.write(text);
  } catch (cause) {
    throw outputError(cause);
  }
}

/** A result, for people. */
export function print(text: string, end = '\n'): void {
  write(`${visible(text)}${end}`);
}

/** A result, for programs: one line of JSON, in which what JSON may leave as it is but a terminal obeys is escaped too. */
export function printJson(value: unknown): void {
  const line = JSON.stringify(value).replace(
    /\p{Cc}|\p{Bidi_Control}|[\u2028\u2029]/gu,
    (character) => `\\u${character.codePointAt(0)!.toString(16).padStart(4, '0')}`,
  );
  write(`${line}\n`);
}

/** Sanitises a line of progress, a warning or an error: `visible`, and without secrets. */
export function forPeople(text: string): string {
  return visible(withoutSecrets(text));
}

/** Writes to a stream that people may read while the work goes on, with them or without. */
export function tell(stream: NodeJS.WritableStream, text: string): void {
  try {
    stream.write(text);
  } catch {
    // a log on a full disk is no reason to end a training
  }
}

/** A line on standard error: a warning, an error, how far the work is. */
export function say(text: string): void {
  tell(process.stderr, `${forPeople(text)}\n`);
}

/** Lists the first names, and the number of the others. */
export function firstNames(names: readonly string[], most: number): string {
  return names.slice(0, most).join(', ') + (names.length > most ? ` and ${names.length - most} more` : '');
}

/** Joins rows of cells into lines, padding each column but the last to its widest cell. */
export function columns(rows: readonly (readonly string[])[]): string {
  const widths = rows[0]!.map((_, c) => Math.max(...rows.map((row) => row[c]!.length)));
  return rows
    .map((row) =>
      row
        .map((cell, c) => cell.padEnd(c === row.length - 1 ? 0 : widths[c]!))
        .join('  ')
        .trimEnd(),
    )
    .join('\n');
}

/** A word as a shell reads it back. */
export function shellWord(word: string): string {
  return /^[\w./:=,@+-]+$/.test(word) ? word : `'${word.replaceAll("'", "'\\''")}'`;
}

/** The command line, as the user typed it but for passwords in addresses: a run records it. */
export function commandLine(): string {
  return withoutSecrets(['timeseer', ...process.argv.slice(2)].map(shellWord).join(' '));
}
