import { Writable } from 'node:stream';
import { stripVTControlCharacters } from 'node:util';
import { describe, expect, test } from 'vitest';
import { formatValue, Progress, type ProgressOptions, timerText } from '../../src/ground/progress.ts';

/** A stream that keeps what it is given, and a clock that is set by hand. */
function bench(options: Partial<ProgressOptions> = {}, tty: { isTTY?: boolean; columns?: number } = {}) {
  let text = '';
  let time = 0;
  const sink = new Writable({
    write(chunk: Buffer, _encoding, done) {
      text += chunk.toString();
      done();
    },
  });
  const stream = Object.assign(sink, tty);
  const progress = new Progress({
    label: 'sft',
    total: 1000,
    unit: 'samples',
    stream,
    now: () => time,
    ...options,
  });
  return {
    progress,
    at: (ms: number) => {
      time = ms;
    },
    text: () => text,
    lines: () => text.split('\n').filter((line) => line !== ''),
  };
}

describe('without a terminal', () => {
  test('prints a plain line every few seconds with done, rate, time left and values', () => {
    const { progress, at, lines } = bench({ every: 5000 });
    for (let second = 1; second <= 11; second++) {
      at(second * 1000);
      progress.update(second * 50, { loss: 1 / second });
    }
    expect(lines()).toEqual([
      'sft  25 %  250/1000  50 samples/s  15 s left  loss 0.2',
      'sft  50 %  500/1000  50 samples/s  10 s left  loss 0.1',
    ]);
  });

  test('results that arrive in bursts far apart have the mean rate, also at the first of a burst', () => {
    const { progress, at, lines } = bench({ every: 5000 });
    for (let burst = 1; burst <= 3; burst++) {
      at(burst * 30_000);
      for (let k = 1; k <= 100; k++) progress.advance();
    }
    expect(lines()[1]).toBe('sft  10 %  101/1000  1.68 samples/s  8:54 left');
    expect(lines()[2]).toBe('sft  20 %  201/1000  2.23 samples/s  5:58 left');
  });

  test('the rate follows the last seconds, the end gives the mean of all', () => {
    const { progress, at, lines } = bench({ every: 1 });
    for (let second = 1; second <= 20; second++) {
      at(second * 1000);
      progress.update(second * 10);
    }
    for (let second = 21; second <= 40; second++) {
      at(second * 1000);
      progress.update(200 + (second - 20) * 40);
    }
    expect(lines().at(-1)).toContain('40 samples/s');
    progress.stop();
    expect(lines().at(-1)).toBe('sft  100 %  1000/1000  25 samples/s  in 40 s');
  });

  test('without a known total it says what is done and how fast, and no time left', () => {
    const { progress, at, lines } = bench({ every: 1000, total: null });
    at(1000);
    progress.update(50);
    at(2000);
    progress.update(100);
    progress.stop();
    expect(lines()).toEqual([
      'sft  50 samples  50 samples/s',
      'sft  100 samples  50 samples/s',
      'sft  100 samples  50 samples/s  in 2 s',
    ]);
  });

  test('values stay until they are given again', () => {
    const { progress, at, lines } = bench({ every: 1000 });
    at(1000);
    progress.update(1, { loss: 2, stage: 'warm-up' });
    at(2000);
    progress.update(2, { loss: 1 });
    expect(lines()[1]).toMatch(/loss 1 {2}stage warm-up$/);
  });

  test('a resumed run does not count what was done before into its rate', () => {
    const { progress, at, lines } = bench({ done: 900, every: 1 });
    at(10_000);
    progress.update(950);
    expect(lines()[0]).toContain('95 %  950/1000  5 samples/s  10 s left');
  });

  test('stopping twice, updating after and zero totals do no harm', () => {
    const { progress, text } = bench({ total: 0 });
    progress.stop();
    const before = text();
    progress.stop();
    progress.update(5);
    expect(text()).toBe(before);
    expect(text()).not.toMatch(/NaN|Infinity/);
  });

  test('silent writes nothing', () => {
    const { progress, at, text } = bench({ silent: true, every: 1 });
    at(10_000);
    progress.advance(10, { loss: 1 });
    progress.note('saved');
    progress.stop();
    expect(text()).toBe('');
  });
});

describe('on a terminal', () => {
  test('draws a bar that fits the width, and ends with a line', () => {
    const { progress, at, text } = bench({}, { isTTY: true, columns: 50 });
    at(2000);
    progress.update(500, { loss: 0.123456, reward: 0.98765 });
    progress.stop();
    expect(text()).toContain('██████████░░░░░░░░░░  50 %');
    expect(text().endsWith('\n')).toBe(true);
    const control = '\u001b[';
    const drawn = text().replaceAll(control, `\n${control}`).split(/\r|\n/).map(stripVTControlCharacters);
    expect(Math.max(...drawn.map((line) => line.length))).toBeLessThan(50);
  });

  test('leaves signals alone', () => {
    const before = process.listenerCount('SIGINT');
    const { progress } = bench({}, { isTTY: true, columns: 80 });
    expect(process.listenerCount('SIGINT')).toBe(before);
    progress.stop();
  });
});

describe('formatting', () => {
  test.each([
    [0, '0 s'],
    [59.4, '59 s'],
    [59.6, '1:00'],
    [65, '1:05'],
    [7389, '2:03:09'],
    [Number.POSITIVE_INFINITY, '?'],
  ])('%d seconds are %s', (seconds, text) => expect(timerText(seconds)).toBe(text));

  test.each([
    [3, '3'],
    [1234.5, '1235'],
    [0.123456, '0.123'],
    [0.00003, '3.0e-5'],
    ['warm-up', 'warm-up'],
  ])('the value %s is shown as %s', (value, text) => expect(formatValue(value)).toBe(text));
});
