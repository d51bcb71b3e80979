import { spawnSync } from 'node:child_process';
import { appendFileSync, mkdtempSync, readdirSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterEach, beforeEach, describe, expect, test } from 'vitest';
import { type LogLine, readLog } from '../../src/train/metrics.ts';
import { crc32c, fileHead, lineEvent, MetricsLog, scalarEvent } from '../../src/train/tensorboard.ts';
import { readEvents } from '../helpers/event-file.ts';

const GOLDEN = join(import.meta.dirname, '../golden');
const PYTHON = process.env['TIMESEER_PYTHON'] ?? 'python3';
const hasTensorBoard = spawnSync(PYTHON, ['-c', 'import tensorboard']).status === 0;

let stage = '';
beforeEach(() => {
  stage = mkdtempSync(join(tmpdir(), 'timeseer-events-'));
});
afterEach(() => rmSync(stage, { recursive: true, force: true }));

const line = (step: number, more: object = {}): LogLine =>
  ({ step, loss: 1 / step, reward: 0.5, learningRate: 1e-4, ...more }) as LogLine;

function written(steps: number, keep = 0): MetricsLog {
  const log = new MetricsLog('rl', stage, keep);
  for (let step = keep + 1; step <= steps; step++) log.append(line(step));
  return log;
}

/** The event files of the stage. */
const files = (): string[] => readdirSync(join(stage, 'tensorboard'));
const eventFile = (): string => join(stage, 'tensorboard', files()[0]!);
const steps = (): number[] =>
  readEvents(eventFile()).flatMap((one) => (one.scalars === null ? [] : one.step));

describe('event files', () => {
  test('CRC-32C is that of RFC 3720, B.4', () => {
    expect(crc32c(new Uint8Array(32))).toBe(0x8a9136aa);
    expect(crc32c(new Uint8Array(32).fill(0xff))).toBe(0x62a8ab43);
    expect(crc32c(Uint8Array.from({ length: 32 }, (_, i) => i))).toBe(0x46dd794e);
    expect(crc32c(Buffer.from('123456789'))).toBe(0xe3069283);
  });

  test('are byte for byte those of TensorBoard’s own writer', () => {
    const { began, events } = JSON.parse(readFileSync(join(GOLDEN, 'tensorboard/events.json'), 'utf8')) as {
      began: number;
      events: [time: number, step: number, scalars: [string, number][]][];
    };
    const own = Buffer.concat([fileHead(began), ...events.map((one) => scalarEvent(...one))]);
    const theirs = readFileSync(join(GOLDEN, 'tensorboard/events.out.tfevents.1767225600.golden'));
    expect(own.toString('hex')).toBe(theirs.toString('hex'));
  });

  test('hold the numbers of a metrics line under the tags of the glossary, with its step and time', () => {
    const log = new MetricsLog('rl', stage, 0);
    const parts = { format: 1, localisation: 0.25 };
    log.append(line(7, { parts, similarity: null, tokens: 40.5, ms: { rollout: 12 }, equalRewards: 0.125 }));
    const [version, start, event] = readEvents(eventFile());
    expect([version!.scalars, start!.scalars]).toEqual([null, null]);
    expect(event!.step).toBe(7);
    expect(event!.time).toBe((readLog(join(stage, 'metrics.jsonl'))[0] as { time?: number }).time);
    expect(event!.scalars).toEqual({
      'train/loss': Math.fround(1 / 7),
      'train/reward': 0.5,
      'train/learning_rate': Math.fround(1e-4),
      'train/rewards/format/mean': 1,
      'train/rewards/localisation/mean': 0.25,
      'train/completions/mean_length': 40.5,
      'time_ms/rollout': 12,
      'train/frac_reward_zero_std': 0.125,
    });
  });

  test('the same key of the two stages has the tag of its meaning', () => {
    const tags = (name: 'sft' | 'rl'): string => lineEvent(name, line(1, { tokens: 344 })).toString('latin1');
    expect(tags('sft')).toContain('train/batch_tokens');
    expect(tags('rl')).toContain('train/completions/mean_length');
  });

  test('hold the evaluations beside training, also those of before it was resumed', () => {
    const log = new MetricsLog('rl', stage, 0);
    for (const step of [1, 2, 3]) log.append(line(step));
    const evaluation = { step: 2, examples: 16, metrics: { reward: 0.75, point_f1: 0.5 } };
    writeFileSync(join(stage, 'validation.jsonl'), `${JSON.stringify(evaluation)}\n`);
    log.validated(evaluation);
    const found = () =>
      readEvents(eventFile()).filter(({ scalars }) => scalars !== null && 'eval/reward' in scalars);
    const scalars = { 'eval/reward': 0.75, 'eval/point_f1': 0.5 };
    expect(found()).toEqual([{ step: 2, time: expect.any(Number), scalars }]);
    new MetricsLog('rl', stage, 2);
    const [, second] = readLog(join(stage, 'metrics.jsonl')) as { step: number; time?: number }[];
    expect(found()).toEqual([{ step: 2, time: second!.time, scalars }]);
    new MetricsLog('rl', stage, 1);
    expect(found()).toEqual([]);
  });

  test('a line without a number that has a curve makes no event', () => {
    expect(lineEvent('rl', { step: 3, time: 5 })).toHaveLength(0);
  });
});

describe('a stage that is resumed', () => {
  test('has each step once, in one file, whatever was written after the checkpoint', () => {
    written(9);
    const before = readEvents(eventFile());
    written(7, 4);
    expect(files()).toHaveLength(1);
    expect(steps()).toEqual([1, 2, 3, 4, 5, 6, 7]);
    // Times of the steps that were kept are those of their lines.
    expect(readEvents(eventFile()).slice(2, 6)).toEqual(before.slice(2, 6));
  });

  test('does so when it was killed in the middle of a record, or before the file was renamed', () => {
    written(3);
    appendFileSync(eventFile(), readFileSync(eventFile()).subarray(0, 21));
    appendFileSync(join(stage, 'tensorboard/.events.out.tfevents.1.timeseer.1.tmp'), 'x');
    written(5, 3);
    expect(files()).toHaveLength(1);
    expect(steps()).toEqual([1, 2, 3, 4, 5]);
  });

  test('a new one drops the steps of the one before', () => {
    written(5);
    written(2);
    expect(steps()).toEqual([1, 2]);
  });
});

describe(`TensorBoard itself (${PYTHON})`, () => {
  test.skipIf(!hasTensorBoard)('reads the scalars of a stage that was resumed: every step once', () => {
    written(9);
    written(12, 6);
    const read = spawnSync(
      PYTHON,
      [join(GOLDEN, 'make_tensorboard.py'), 'read', join(stage, 'tensorboard')],
      {
        encoding: 'utf8',
      },
    );
    expect(read.stderr).not.toMatch(/Error/);
    const found = JSON.parse(read.stdout) as Record<string, [step: number, value: number, time: number][]>;
    expect(Object.keys(found).sort()).toEqual(['train/learning_rate', 'train/loss', 'train/reward']);
    const lines = readLog(join(stage, 'metrics.jsonl')) as (LogLine & { loss: number; time: number })[];
    expect(found['train/loss']).toEqual(lines.map((one) => [one.step, Math.fround(one.loss), one.time]));
  });
});
