/** The TimerPO step in turns with the same step in PyTorch and transformers: same weights, responses, traces and rewards. */
import { join } from 'node:path';
import { openTorch } from '../../src/engine/torch/torch.ts';
import type { RlMetrics } from '../../src/train/metrics.ts';
import { type Comparison, OURS, takeTurns } from './compare.ts';
import type { SIZES } from './large-policy.ts';
import { median, table } from './measure.ts';
import { openPeer, sorted } from './peer.ts';
import { type Contender, openTeam } from './team.ts';
import { type StepJob, type StepSizes, writeResized, writeStep } from './timerpo-work.ts';
import type { StepAnswer } from './timerpo-worker.ts';
import { withScratch } from './workload.ts';

interface Setting extends StepSizes {
  readonly name: string;
  /** Null: the policy that is measured. */
  readonly size: keyof typeof SIZES | null;
  /** Cores, each of one worker or process. */
  readonly cores: readonly number[];
  /** Sequences that go through the peer at once. */
  readonly rows: number;
}

export const SETTINGS: readonly Setting[] = [
  { name: 'nano', size: null, prompts: 16, group: 8, maxTokens: 96, cores: [1, 2], rows: 32 },
  {
    ...{ name: '48 M parameters, random weights', size: '50m' },
    ...{ prompts: 4, group: 8, maxTokens: 48, cores: [2], rows: 16 },
  },
];

export interface StepSide extends Comparison {
  /** Milliseconds of the parts, mean over ranks, median over rounds. */
  readonly ms: RlMetrics['ms'];
  /** Of what both computed, the largest relative difference from ours in any round; null for ours. */
  readonly difference: number | null;
}

export interface StepComparison {
  readonly setting: string;
  readonly responses: number;
  /** Mean tokens of a response. */
  readonly tokens: number;
  readonly gflops: number;
  readonly sides: readonly StepSide[];
  readonly peers: readonly string[];
  /** Why a peer did not take part. */
  readonly skipped: readonly string[];
}

/** What both sides must agree on. */
const COMPARED = ['loss', 'gradNorm', 'kl', 'entropy', 'similarity', 'advantage'] as const;
/** Relative; of a loss whose parts nearly cancel, to .01. */
const TOLERANCE = 1e-4;
const LEAST_LOSS = 0.01;
const PARTS = ['data', 'rollout', 'transport', 'reference', 'update'] as const;

/** The numbers of a step over all ranks: ours has them on rank 0, a peer's losses are shares and its other numbers means. */
function whole(answers: readonly (StepAnswer | null)[]): Record<(typeof COMPARED)[number], number> {
  const ranks = answers.filter((answer) => answer !== null);
  const sum = (key: (typeof COMPARED)[number]): number =>
    ranks.reduce((total, rank) => total + rank[key]!, 0);
  const mean = (key: (typeof COMPARED)[number]): number => sum(key) / ranks.length;
  const squares = ranks.reduce((total, { advantage }) => total + advantage ** 2, 0);
  return {
    ...{ loss: sum('loss'), kl: sum('kl'), entropy: sum('entropy') },
    ...{ gradNorm: mean('gradNorm'), similarity: mean('similarity') },
    advantage: Math.sqrt(squares / ranks.length),
  };
}

/** @throws Error where a number of a peer is not ours */
function differenceOf(
  name: string,
  ours: readonly (StepAnswer | null)[],
  peer: readonly (StepAnswer | null)[],
): number {
  const [a, b] = [whole(ours), whole(peer)];
  const differences = COMPARED.map(
    (key) => Math.abs(a[key] - b[key]) / Math.max(Math.abs(a[key]), key === 'loss' ? LEAST_LOSS : 1e-12),
  );
  COMPARED.forEach((key, i) => {
    if (!(differences[i]! <= TOLERANCE))
      throw new Error(`timerpo-step: ${key} is ${a[key]} here and ${b[key]} in ${name}: not the same step`);
  });
  return Math.max(...differences);
}

async function compareSetting(policy: string, rounds: number, setting: Setting): Promise<StepComparison> {
  return withScratch(async (scratch) => {
    const engine = openTorch({ device: 'cpu', threads: 2 });
    const measured = setting.size === null ? policy : join(scratch, 'policy');
    if (setting.size !== null) writeResized(engine, policy, setting.size, measured);
    const { job, args, tokens } = await writeStep(engine, scratch, measured, 'cpu', setting);
    const peer = (cores: number, processes: number, name: string) =>
      openPeer<StepAnswer>(
        name,
        'step',
        processes,
        [...args, '--rows', String(setting.rows), '--threads', String(cores / processes)],
        cores / processes,
      ).then((opened) => (typeof opened === 'string' ? opened : { ...opened, processes: cores }));
    const { contenders, peers, skipped } = sorted<StepAnswer | null>(
      await Promise.all(
        setting.cores.flatMap((cores) => [
          openTeam<StepJob, StepAnswer | null>(OURS, './timerpo-worker', cores, job),
          peer(cores, cores, 'PyTorch, transformers'),
          ...(cores === 1 ? [] : [peer(cores, 1, 'the same, one process')]),
        ]),
      ),
    );
    const answers = contenders.map((): (readonly (StepAnswer | null)[])[] => []);
    const recorded = contenders.map(
      (contender, c): Contender<StepAnswer | null> => ({
        ...contender,
        ask: async (question) => {
          const given = await contender.ask(question);
          answers[c]!.push(given);
          return given;
        },
      }),
    );
    try {
      const turns = await takeTurns(recorded, 'step', () => 1, rounds, 'cpu');
      const sides = turns.rows.map((row, c): StepSide => {
        const part = (name: (typeof PARTS)[number]): number =>
          median(
            answers[c]!.slice(1).map((ranks) => {
              const there = ranks.filter((rank) => rank !== null);
              return there.reduce((sum, { ms }) => sum + ms[name], 0) / there.length;
            }),
          );
        const differences = answers[c]!.map((given, round) =>
          differenceOf(row.name, answers[0]![round]!, given),
        );
        return {
          ...row,
          ms: Object.fromEntries(PARTS.map((name) => [name, part(name)])) as RlMetrics['ms'],
          difference: row.name === OURS ? null : Math.max(...differences),
        };
      });
      const responses = setting.prompts * setting.group;
      const { gflops } = turns;
      return { setting: setting.name, responses, tokens: tokens / responses, gflops, sides, peers, skipped };
    } finally {
      for (const contender of contenders) await contender.close();
    }
  });
}

export async function compareSteps(
  policy: string,
  rounds: number,
  settings: readonly Setting[] = SETTINGS,
): Promise<StepComparison[]> {
  const out: StepComparison[] = [];
  for (const setting of settings) out.push(await compareSetting(policy, rounds, setting));
  return out;
}

export function comparisonText({
  setting,
  responses,
  tokens,
  gflops,
  sides,
  peers,
  skipped,
}: StepComparison): string {
  const cell = (value: number): string => value.toFixed(value < 10 ? 1 : 0);
  return [
    `${setting}: the step in turns, ${responses} responses of ${tokens.toFixed(1)} tokens; matmul on one thread ${gflops.toFixed(0)} GFLOP/s; ${peers.join('; ')}`,
    table(
      ['ms', 'cores', ...PARTS, 'step', 'theirs/ours', 'largest difference'],
      sides.map((side) => [
        side.name,
        String(side.processes),
        ...PARTS.map((part) => (side.name !== OURS && part === 'data' ? '–' : cell(side.ms[part]))),
        cell(1000 / side.perSecond),
        side.ratio === null ? '–' : `${side.ratio.toFixed(2)}×`,
        side.difference === null ? '–' : side.difference.toExponential(0),
      ]),
    ),
    ...skipped.map((why) => `SKIPPED ${why} (set TIMESEER_PYTHON to a Python with torch and transformers)`),
  ].join('\n');
}
