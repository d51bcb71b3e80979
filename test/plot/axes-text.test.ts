import { expect, test } from 'vitest';
import { axesText } from '../../src/plot/axes-text.ts';
import { figure } from '../../src/plot/figure.ts';

test.each([
  ['anomllm', {}, 1000, 'the x axis is the index, 0 to 999'],
  ['tee', {}, 319, 'the x axis is the time in µs, 0 to 797'],
  ['emg', {}, 1500, 'the x axis is the time in s, 0 to 0.375'],
  ['nano-har', {}, 128, 'each channel has a row of its own, from the top; the x axis is the index, 0 to 127'],
  [
    'vta-grid',
    { channels: ['a', 'b'] },
    200,
    'each channel has a small plot of its own, row by row from the upper left; the x axis is the index, 0 to 199',
  ],
  ['line', { time: true, xLabel: '' }, 50, 'the x axis is the date'],
] as const)('%s with %j tells its axes', (preset, more, length, text) => {
  expect(axesText(figure(preset, more), length)).toBe(text);
});

test('a spectrogram is called one, with its time and frequencies', () => {
  expect(axesText(figure('rcw-spectrogram'), 4000)).toBe(
    'it is shown as a spectrogram: the x axis is the time in s, 0 to 2, the y axis the frequency, 0 to 505 Hz on the mel ' +
      'scale, and the brighter the stronger',
  );
});

test('x values of the series itself give the range', () => {
  const shape = figure('line', { step: null, xLabel: 'Time' });
  expect(axesText(shape, 3, Float64Array.of(2.5, 4, 17.25))).toBe('the x axis is the time, 2.5 to 17.3');
});
