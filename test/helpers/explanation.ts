/** What an explanation of a made-up file looks like. */
import type { Explanation } from '../../src/explain/page.ts';
import { figureSvg } from '../../src/plot/svg.ts';

/** `change` may replace parts, for example by hostile text. */
export async function sampleExplanation(change: Partial<Explanation> = {}): Promise<Explanation> {
  const values = Float64Array.from(
    { length: 1440 },
    (_, i) =>
      Math.sin(i / 9) + (i >= 600 && i < 660 ? 0.03 * (i - 600) : 0) + (i >= 1100 && i < 1130 ? 2 : 0),
  );
  const intervals = [
    [600, 660],
    [1100, 1130],
  ] as const;
  return {
    file: 'pump-pressure.csv',
    column: 'pressure_bar',
    length: values.length,
    policy: 'runs/quickstart',
    class: 'trend',
    intervals: [
      { start: 600, end: 660, from: '2025-03-01 10:00', to: '2025-03-01 10:59', confirmed: true },
      { start: 1100, end: 1130, from: '2025-03-01 18:20', to: '2025-03-01 18:49', confirmed: false },
    ],
    windows: [
      {
        start: 0,
        end: 1000,
        intervals: [[600, 660]],
        class: 'trend',
        response: '<think>sine wave; period 57</think><answer>[[600, 660]]</answer><class>trend</class>',
        problem: null,
      },
      {
        start: 440,
        end: 1440,
        intervals: null,
        class: null,
        response: '<think>sine wave; period 5',
        problem: '</think> is missing',
      },
    ],
    classical: {
      class: 'trend',
      intervals: [[598, 655]],
      evidence: [
        {
          name: 'range test',
          finding: 'nothing beyond 3 sigma',
          intervals: [],
          numbers: { mean: 0.0642, std: 0.79123, 'largest |z|': 2.71 },
        },
        {
          name: 'trend test',
          finding: 'the slope leaves its band once',
          intervals: [[598, 655]],
          numbers: { threshold: 0.0312, peak: 0.0541, window: 21 },
        },
      ],
      trace: 'Observation. 1440 samples that repeat like a sine wave.\n\nConclusion. [[598, 655]], trend.',
    },
    figure: await figureSvg(values, { predicted: intervals, width: 880, height: 200 }),
    caveats: [
      'The policy was trained on synthetic series of 1000 points; windows of that length are what it knows.',
    ],
    environment: { timeseer: '0.1.0', node: 'v20.19.0' },
    ...change,
  };
}
