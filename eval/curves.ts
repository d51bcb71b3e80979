/** Training curves of a report, from the lines that the stages logged. */
import type { RlLine, SftLine } from './metric-lines.ts';
import type { Curve, CurvePanel } from './report-input.ts';

type Value = number | null;

/** Odd width of a moving mean that leaves about 40 independent values. */
function smoothing(steps: number): number {
  return 2 * Math.floor(steps / 80) + 1;
}

/** Examples per second of each step, over all workers, from rank 0's clock. */
function throughput(lines: readonly SftLine[]): Value[] {
  return lines.map(({ samples, ms }, i) => {
    const total = Object.values(ms).reduce((sum, value) => sum + value, 0);
    const seen = samples - (lines[i - 1]?.samples ?? 0);
    return total > 0 && seen > 0 ? (1000 * seen) / total : null;
  });
}

/** Loss and throughput of the supervised stage; no panel without lines. */
export function sftPanels(lines: readonly SftLine[]): CurvePanel[] {
  if (lines.length === 0) return [];
  const x = lines.map((line) => line.samples);
  const smooth = smoothing(lines.length);
  return [
    {
      title: 'Supervised loss',
      definition: 'Mean negative log-likelihood of the expert trace, in nats per token; down is better.',
      xLabel: 'examples seen',
      curves: [{ name: 'loss', x, y: lines.map((line) => line.loss) }],
      smooth,
      log: true,
    },
    {
      title: 'Supervised throughput',
      definition:
        'Examples per second of each step: making the series, drawing, writing the trace, learning; higher is faster.',
      xLabel: 'examples seen',
      curves: [{ name: 'examples/s', x, y: throughput(lines) }],
      smooth,
    },
  ];
}

/** Panels of the reinforcement stage called `method`; no panel without lines, no curve without values. */
export function rlPanels(lines: readonly RlLine[], method: string): CurvePanel[] {
  if (lines.length === 0) return [];
  const x = lines.map((line) => line.step);
  const curve = (name: string, value: (line: RlLine) => Value | undefined): Curve => ({
    name,
    x,
    y: lines.map((line) => value(line) ?? null),
  });
  const parts = [...new Set(lines.flatMap((line) => Object.keys(line.parts)))];
  const phases = [...new Set(lines.flatMap((line) => Object.keys(line.ms)))];
  const panels: Omit<CurvePanel, 'xLabel'>[] = [
    {
      title: 'Reward of rollouts',
      definition: 'Mean over the sampled responses of a step, in all and by part; up is better.',
      curves: [
        curve('total', (line) => line.reward),
        ...parts.map((part) => curve(part, (line) => line.parts[part])),
      ],
      smooth: smoothing(4 * lines.length),
    },
    {
      title: 'Similarity to the expert traces',
      definition:
        'exp(\u2212transport cost / \u03c4), mean over responses; the orthogonal part of the advantage comes from it. It is not maximised itself: it may fall while the reward rises.',
      curves: [curve('similarity', (line) => line.similarity)],
      smooth: smoothing(4 * lines.length),
    },
    {
      title: 'KL to the reference',
      definition:
        'k3 estimate, nats per token, each at most 10, against the policy that the stage started from; small is close.',
      curves: [curve('KL', (line) => line.kl)],
    },
    {
      title: 'Entropy',
      definition: 'Of the next-token distribution, nats per token; a collapse to 0 ends exploration.',
      curves: [curve('entropy', (line) => line.entropy)],
    },
    {
      title: 'Clipped tokens',
      definition: 'Share of tokens whose probability ratio left its bounds; 0 while updates are on policy.',
      curves: [curve('clipped', (line) => line.clipped)],
    },
    {
      title: 'Groups that teach less',
      definition:
        'Share of prompt groups whose rewards are all equal, and of those skipped because every advantage is 0.',
      curves: [curve('equal rewards', (line) => line.equalRewards), curve('skipped', (line) => line.silent)],
    },
    {
      title: 'Gap between sampler and trainer',
      definition:
        'Mean difference of the log-probabilities that the two compute for one token; rounding only, or the update is biased.',
      curves: [curve('|\u0394 log \u03c0|', (line) => line.samplerGap)],
    },
    {
      title: 'Time of a step',
      definition: 'Seconds by phase, mean over the workers.',
      curves: phases.map((phase) =>
        curve(phase, (line) => {
          const ms = line.ms[phase];
          return ms === undefined ? null : ms / 1000;
        }),
      ),
    },
  ];
  return panels
    .map((panel) => ({ ...panel, curves: panel.curves.filter(({ y }) => y.some((value) => value !== null)) }))
    .filter((panel) => panel.curves.length > 0)
    .map((panel) => ({ ...panel, xLabel: `${method} step` }));
}
