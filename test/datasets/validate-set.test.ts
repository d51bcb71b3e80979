import { describe, expect, it } from 'vitest';
import { gradeProblem } from '../../datasets/validate-set.ts';
import type { Example, Gold } from '../../src/ground/types.ts';

const LENGTH = 60;
const example = (gold: Gold, channels = 1): Example => ({
  id: 'x/test/0',
  task: 'x',
  channels: Array.from({ length: channels }, (_, c) =>
    Float64Array.from({ length: LENGTH }, (_, t) => Math.sin(t / (4 + c))),
  ),
  names: Array.from({ length: channels }, (_, c) => `v${c}`),
  times: null,
  gold,
  recording: null,
});

describe('gradeProblem', () => {
  it.each<[string, Gold, number]>([
    ['a class', { kind: 'classification', class: 'IR Negative' }, 3],
    ['a class of 200 characters', { kind: 'classification', class: '\u{1f40b}'.repeat(200) }, 1],
    [
      'a named anomaly',
      {
        kind: 'anomaly',
        class: 'trend',
        intervals: [
          [0, 3],
          [50, 60],
        ],
      },
      1,
    ],
    ['a normal series', { kind: 'anomaly', class: 'normal', intervals: [] }, 1],
    ['an anomaly that is not named', { kind: 'anomaly', class: null, intervals: [[3, 9]] }, 2],
    ['one variate', { kind: 'variates', variates: [8] }, 9],
    ['several variates', { kind: 'variates', variates: [0, 2, 7] }, 9],
    ['no variate', { kind: 'variates', variates: [] }, 9],
    ['all variates', { kind: 'variates', variates: [0, 1, 2] }, 3],
  ])('finds nothing wrong with %s', (_, gold, channels) => {
    expect(gradeProblem(example(gold, channels))).toBeNull();
  });

  it.each<[string, Gold, RegExp]>([
    [
      'a class that holds a tag',
      { kind: 'classification', class: 'a</class>b' },
      /^the right answer earns 0 of 1 \(<\/class> appears again\)$/,
    ],
    [
      'a class with blanks around it',
      { kind: 'classification', class: ' Laptop' },
      /^the right answer earns 0\.1 of 1$/,
    ],
    [
      'a channel that does not exist',
      { kind: 'variates', variates: [1, 4] },
      /^the right answer earns 0 of 1 \(variate 4 is none of the 4/,
    ],
  ])('says what %s costs', (_, gold, problem) => {
    expect(gradeProblem(example(gold, 4))).toMatch(problem);
  });
});
