import { appendFileSync, mkdtempSync, readFileSync, rmSync, truncateSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterEach, beforeEach, describe, expect, test, vi } from 'vitest';
import { DataError } from '../../src/ground/errors.ts';
import { WriteError } from '../../src/ground/files.ts';
import { completionsOf, RunLog, readLog } from '../../src/train/metrics.ts';
import type { RolloutGroup } from '../../src/train/rollout.ts';
import { MetricsLog } from '../../src/train/tensorboard.ts';

let directory = '';
let file = '';
let stderr = vi.spyOn(process.stderr, 'write');
beforeEach(() => {
  stderr = vi.spyOn(process.stderr, 'write').mockReturnValue(true);
  directory = mkdtempSync(join(tmpdir(), 'timeseer-runlog-'));
  file = join(directory, 'sft', 'metrics.jsonl');
});
afterEach(() => {
  stderr.mockRestore();
  rmSync(directory, { recursive: true, force: true });
});

function filled(steps: number): RunLog {
  const log = new RunLog(file);
  for (let step = 1; step <= steps; step++) log.append({ step, loss: 1 / step } as { step: number });
  return log;
}

describe('RunLog', () => {
  test('writes a line for each step, in a directory that need not be there', () => {
    filled(3);
    expect(readFileSync(file, 'utf8')).toBe(
      '{"step":1,"loss":1}\n{"step":2,"loss":0.5}\n{"step":3,"loss":0.3333333333333333}\n',
    );
    expect(readLog(file).map(({ step }) => step)).toEqual([1, 2, 3]);
  });

  test('a new log drops the lines of an older one; a resumed one keeps those up to its checkpoint', () => {
    filled(5);
    new RunLog(file, 3).append({ step: 4 });
    expect(readLog(file).map(({ step }) => step)).toEqual([1, 2, 3, 4]);
    new RunLog(file);
    expect(readFileSync(file, 'utf8')).toBe('');
  });

  test('a last line that was torn apart is dropped, at whichever byte', () => {
    filled(2);
    const whole = readFileSync(file, 'utf8');
    const second = whole.indexOf('\n') + 1;
    for (let length = second; length < whole.length; length++) {
      writeFileSync(file, whole);
      truncateSync(file, length);
      const torn = length < whole.length - 1;
      expect(readLog(file).map(({ step }) => step)).toEqual(torn ? [1] : [1, 2]);
      new RunLog(file, 9).append({ step: 3 });
      expect(readLog(file).map(({ step }) => step)).toEqual(torn ? [1, 3] : [1, 2, 3]);
    }
  });

  test('says that a torn line was dropped', () => {
    filled(2);
    truncateSync(file, readFileSync(file).length - 4);
    new RunLog(file, 1);
    new RunLog(file, 1);
    expect(stderr.mock.calls.map(([text]) => text)).toEqual([
      `${file}: the last line was cut off; it is dropped\n`,
    ]);
  });

  test.each([
    [2, 'the lines of 2 steps from 3 to 4 are missing, but the checkpoint is of step 4'],
    [3, 'the line of step 4 is missing'],
    [0, 'the lines of 4 steps from 1 to 4 are missing'],
  ])('a stage whose log ends after step %d is not resumed from step 4', (steps, message) => {
    filled(steps);
    const before = readFileSync(file, 'utf8');
    const resume = () => new MetricsLog('sft', join(directory, 'sft'), 4);
    expect(resume).toThrow(DataError);
    expect(resume).toThrow(message);
    expect(resume).toThrow('restore the whole file, or start the stage over with --force');
    expect(readFileSync(file, 'utf8')).toBe(before);
  });

  test.each([
    ['{"step":1}\n{"st\n{"step":3}\n', /metrics\.jsonl:2:5: not a JSON line.*--force/],
    ['{"step":1}\n{"loss":3}\n', /metrics\.jsonl:2: a line without a step.*--force/],
    ['{"step":1.5}\n', /metrics\.jsonl:1: a line without a step/],
    ['null\n', /metrics\.jsonl:1: a line without a step/],
  ])('damage before the end is an error that names the line: %j', (text, message) => {
    filled(0);
    appendFileSync(file, text);
    expect(() => readLog(file)).toThrow(DataError);
    expect(() => new RunLog(file, 5)).toThrow(message);
    expect(readFileSync(file, 'utf8')).toBe(text);
  });

  test('there is nothing to read where nothing was written', () => {
    expect(readLog(file)).toEqual([]);
  });

  test('what cannot be written is a WriteError', () => {
    const log = filled(1);
    rmSync(join(directory, 'sft'), { recursive: true });
    writeFileSync(join(directory, 'sft'), 'a file where a directory was');
    expect(() => log.append({ step: 2 })).toThrow(WriteError);
    expect(() => new RunLog(file)).toThrow(WriteError);
  });
});

test('the notes of an episode number its turns, and say why a step failed', () => {
  const turns = [
    { instruction: 'Find the anomalies.', response: '+9 9', problem: 'no such window' },
    { instruction: 'failed: no such window; 1 left', response: 'none', problem: null },
  ];
  const group = {
    ...{ example: { id: 'wild/0' }, responses: [{ text: 'none' }], scores: [null] },
    episodes: [{ turns }],
  } as unknown as RolloutGroup;
  const zero = [0];
  const [completion] = completionsOf(
    1,
    0,
    group,
    { advantage: zero, main: zero, orthogonal: zero },
    undefined,
  );
  expect(completion!.notes).toBe(
    'Turn 1: Find the anomalies. → +9 9 (failed: no such window)\nTurn 2: failed: no such window; 1 left → none',
  );
});
