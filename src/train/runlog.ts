/** Metrics of a run as JSON lines: one object a line, appended as it happens. */
import { appendFileSync, existsSync, mkdirSync, readFileSync } from 'node:fs';
import { dirname } from 'node:path';
import { DataError } from '../errors.ts';
import { writeFileAtomic } from '../files.ts';

/** Every line has the number of its step, from 1. */
export interface LogLine {
  readonly step: number;
}

/** Reads whole lines; a line that a killed process left half-written at the end is dropped. */
export function readLog<T extends LogLine>(file: string): T[] {
  if (!existsSync(file)) return [];
  const lines = readFileSync(file, 'utf8').split('\n');
  const out: T[] = [];
  lines.forEach((line, i) => {
    if (line.trim() === '') return;
    try {
      out.push(JSON.parse(line) as T);
    } catch (cause) {
      if (i < lines.length - 1) throw new DataError('not a JSON line', { file, line: i + 1, cause });
    }
  });
  return out;
}

export class RunLog {
  readonly file: string;

  /** Opens a log that keeps lines up to step `keep` (those of a checkpoint that a run resumes from). */
  constructor(file: string, keep = 0) {
    this.file = file;
    mkdirSync(dirname(file), { recursive: true });
    const kept = keep > 0 ? readLog(file).filter((line) => line.step <= keep) : [];
    writeFileAtomic(file, kept.map((line) => `${JSON.stringify(line)}\n`).join(''));
  }

  append(line: LogLine): void {
    appendFileSync(this.file, `${JSON.stringify(line)}\n`);
  }
}
