/** Metrics of a run as JSON lines: one object a line, appended as it happens. */
import { existsSync } from 'node:fs';
import { DataError } from '../errors.ts';
import { appendText, writeFileAtomic } from '../files.ts';
import { readUtf8 } from '../input-file.ts';

/** Every line has the number of its step, from 1. */
export interface LogLine {
  readonly step: number;
}

const ADVICE = 'the log is damaged: start the stage over with --force';

function isLogLine(value: unknown): value is LogLine {
  return typeof value === 'object' && value !== null && 'step' in value && Number.isInteger(value.step);
}

/**
 * Reads whole lines; a line that a killed process left half-written at the end is dropped.
 * @throws DataError naming file and line when another line is not JSON or has no step.
 */
export function readLog(file: string): LogLine[] {
  if (!existsSync(file)) return [];
  const lines = readUtf8(file).split('\n');
  const out: LogLine[] = [];
  lines.forEach((line, i) => {
    if (line.trim() === '') return;
    let value: unknown;
    try {
      value = JSON.parse(line);
    } catch (cause) {
      if (i === lines.length - 1) return;
      throw new DataError(`not a JSON line; ${ADVICE}`, { file, line: i + 1, cause });
    }
    if (!isLogLine(value)) throw new DataError(`a line without a step; ${ADVICE}`, { file, line: i + 1 });
    out.push(value);
  });
  return out;
}

export class RunLog {
  readonly file: string;

  /** Opens a log that keeps lines up to step `keep` (those of a checkpoint that a run resumes from). */
  constructor(file: string, keep = 0) {
    this.file = file;
    const kept = keep > 0 ? readLog(file).filter((line) => line.step <= keep) : [];
    writeFileAtomic(file, kept.map((line) => `${JSON.stringify(line)}\n`).join(''));
  }

  /** @throws WriteError when the disk is full. */
  append(line: LogLine): void {
    appendText(this.file, `${JSON.stringify(line)}\n`);
  }
}
