/** Files of one JSON object a line, read strictly: every line is checked against its shape. */
import type { z } from 'zod';
import { DataError, reasonOf } from '../src/errors.ts';
import { readUtf8 } from '../src/input-file.ts';

/** Text of a file that must be there; `advice` says how to get it. @throws DataError */
export function readText(file: string, advice: string): string {
  try {
    return readUtf8(file);
  } catch (cause) {
    const code = (cause as NodeJS.ErrnoException).code;
    throw new DataError(
      `${code === 'ENOENT' ? 'no such file' : `not readable (${reasonOf(cause)})`}; ${advice}`,
      {
        file,
        cause,
      },
    );
  }
}

/** What a failed check found, with the key it concerns. */
function complaint(error: z.ZodError): string {
  const issue = error.issues[0];
  const key = issue?.path.join('.') ?? '';
  return `${key === '' ? '' : `"${key}": `}${issue?.message ?? 'wrong shape'}`;
}

/** One JSON file against its shape. @throws DataError when it is missing, not JSON, or of another shape. */
export function readJson<Shape extends z.ZodType>(
  file: string,
  shape: Shape,
  advice: string,
): z.infer<Shape> {
  const text = readText(file, advice);
  let value: unknown;
  try {
    value = JSON.parse(text);
  } catch (cause) {
    throw new DataError(`not JSON (${(cause as Error).message}); ${advice}`, { file, cause });
  }
  const checked = shape.safeParse(value);
  if (checked.success) return checked.data;
  throw new DataError(`${complaint(checked.error)}; ${advice}`, { file });
}

export interface JsonLinesOptions {
  /** How to get a good file, at the end of every complaint. */
  readonly advice: string;
  /** Drop a last line without its line feed: a process that was killed while it appended left it. */
  readonly tornEnd?: boolean;
}

/**
 * All lines of a file. Blank lines are passed over.
 * @throws DataError naming file and line when a line is not JSON or of another shape, or the file is missing.
 */
export function readJsonLines<Shape extends z.ZodType>(
  file: string,
  shape: Shape,
  { advice, tornEnd = false }: JsonLinesOptions,
): z.infer<Shape>[] {
  const lines = readText(file, advice).split('\n');
  const out: z.infer<Shape>[] = [];
  lines.forEach((line, i) => {
    if (line.trim() === '') return;
    const at = { file, line: i + 1 };
    let value: unknown;
    try {
      value = JSON.parse(line);
    } catch (cause) {
      if (tornEnd && i === lines.length - 1) return;
      throw new DataError(`not a JSON line (${(cause as Error).message}); ${advice}`, { ...at, cause });
    }
    const checked = shape.safeParse(value);
    if (!checked.success) throw new DataError(`${complaint(checked.error)}; ${advice}`, at);
    out.push(checked.data);
  });
  return out;
}

/** One line for each value. */
export function* jsonLines(values: Iterable<unknown>): Generator<string> {
  for (const value of values) yield `${JSON.stringify(value)}\n`;
}
