/** What rewards make of responses whose worth is known: gold answers, answers a little or wholly wrong, and what is no answer. */
import { performance } from 'node:perf_hooks';
import { isDeepStrictEqual } from 'node:util';
import { lengthOf } from '../../datasets/example.ts';
import { type DataFacts, type ExampleAddress, openExamples } from '../../datasets/source.ts';
import { RewardTimeoutError, TimeseerError } from '../ground/errors.ts';
import type { Example, Gold, Interval, Score } from '../ground/types.ts';
import { defaultRecipe, type Recipe } from '../recipe/recipe.ts';
import { goldResponse, mayChoose, parseResponse } from '../tasks/kinds.ts';
import { openRewards } from './rewards.ts';

/** What a response stands for in the check. */
export type CaseKind = 'gold' | 'perturbed' | 'garbage';

/** Responses of one sort, to all examples that there is one for. */
export interface CheckedCase {
  readonly name: string;
  readonly kind: CaseKind;
  readonly responses: number;
  /** Responses that the reward does not apply to. */
  readonly missing: number;
  /** Of the rewards; null where there is none. */
  readonly mean: number | null;
  readonly least: number | null;
  readonly most: number | null;
  /** Mean time of a response; where several are scored at once less than one takes. */
  readonly milliseconds: number;
}

export interface Violation {
  /**
   * `error`: the reward threw, had no answer in time, or returned something else than one finite number; `gold`: another response
   * earns more than the gold answer; `random`: the same response has another score the second time.
   */
  readonly kind: 'error' | 'gold' | 'random';
  readonly case: string;
  readonly example: string | null;
  readonly message: string;
}

export interface RewardCheck {
  readonly rewards: readonly string[];
  readonly data: string;
  readonly examples: number;
  readonly cases: readonly CheckedCase[];
  readonly violations: readonly Violation[];
}

const THINK = 'The series was looked at from its beginning to its end, and this is what stands out.';

const PROSE =
  'I looked at the plot. There may be something unusual in the middle, but I cannot be sure of it.';

/** Texts that answer nothing: each is scored for every example. */
const GARBAGE: Readonly<Record<string, string>> = {
  empty: '',
  'white space': ' \n\t \n',
  prose: PROSE,
  'wrong tags': `<thought>${PROSE}</thought><result>[[1, 2]]</result><label>trend</label>`,
  'unclosed tags': '<think>It rises<answer>[[1, 2]]<class>trend',
  'nested tags': '<think><answer><class>trend</class>[[1, 2]]</answer></think>'.repeat(3),
  'empty tags': '<think></think><answer></answer><class></class>',
  'deep nesting': `<think>t</think><answer>${'['.repeat(5000)}${']'.repeat(5000)}</answer><class>trend</class>`,
  'huge numbers': '<think>t</think><answer>[[0, 999999999999999999999]]</answer><class>1e309</class>',
  unicode: '<think>\u202e𝔘𝔫𝔦 🚀 \u0000 ﷽ \ud800</think><answer>[[１, ２]]</answer><class>ｔｒｅｎｄ</class>',
  code: '```python\nimport os\nprint([[1, 2]])\n```\n<script>alert(1)</script>{{answer}} %s',
  json: '{"think": "t", "answer": [[1, 2]], "class": "trend"}',
  long: `${PROSE} `.repeat(2000),
};

const clip = (intervals: readonly Interval[], length: number): Interval[] =>
  intervals.flatMap(([start, end]): Interval[] => {
    const [from, to] = [Math.max(0, Math.round(start)), Math.min(length, Math.round(end))];
    return from < to ? [[from, to]] : [];
  });

/** Intervals that differ from the right ones by one thing. */
function otherIntervals(intervals: readonly Interval[], length: number): Record<string, readonly Interval[]> {
  const all: Interval[] = [[0, length]];
  if (intervals.length === 0)
    return { 'an interval too many': clip([[length / 4, length / 2]], length), everything: all };
  const half = ([start, end]: Interval): number => Math.max(1, (end - start) / 2);
  return {
    shifted: clip(
      intervals.map((one) => [one[0] + half(one), one[1] + half(one)]),
      length,
    ),
    widened: clip(
      [[intervals[0]![0] - half(intervals[0]!), intervals.at(-1)![1] + half(intervals.at(-1)!)]],
      length,
    ),
    halved: clip(
      intervals.map((one) => [one[0], one[1] - half(one)]),
      length,
    ),
    dropped: [],
    everything: all,
  };
}

/** Gold answers with one thing wrong, by what it is. */
function perturbed(
  gold: Gold,
  { channels, ...example }: Example,
  classes: readonly string[],
): Record<string, Gold> {
  const out: Record<string, Gold> = {};
  const length = channels[0]!.length;
  if ('intervals' in gold) {
    for (const [name, intervals] of Object.entries(otherIntervals(gold.intervals, length))) {
      out[name] = { ...gold, intervals };
    }
  }
  if ('class' in gold && gold.class !== null) {
    const other = classes.find((name) => name !== gold.class && mayChoose(gold.kind, name));
    if (other !== undefined) out['wrong class'] = { ...gold, class: other } as Gold;
  }
  if ('variates' in gold) {
    const missing = example.names.findIndex((_, id) => !gold.variates.includes(id));
    if (missing >= 0) {
      out['a variate too many'] = { ...gold, variates: [...gold.variates, missing].sort((a, b) => a - b) };
    }
    if (gold.variates.length > 0) out['a variate too few'] = { ...gold, variates: gold.variates.slice(1) };
  }
  return out;
}

interface Asked {
  readonly example: Example;
  readonly text: string;
}

/** The responses of every case, by its name; the gold answers first. */
function casesOf(
  examples: readonly Example[],
  { classes }: DataFacts,
): Map<string, { kind: CaseKind; asked: Asked[] }> {
  const out = new Map<string, { kind: CaseKind; asked: Asked[] }>();
  const add = (name: string, kind: CaseKind, example: Example, text: string): void => {
    const one = out.get(name) ?? { kind, asked: [] };
    one.asked.push({ example, text });
    out.set(name, one);
  };
  for (const example of examples) add('gold', 'gold', example, goldResponse(example.gold, THINK));
  for (const example of examples) {
    for (const [name, gold] of Object.entries(perturbed(example.gold, example, classes))) {
      add(name, 'perturbed', example, goldResponse(gold, THINK));
    }
  }
  for (const [name, text] of Object.entries(GARBAGE)) {
    for (const example of examples) add(name, 'garbage', example, text);
  }
  return out;
}

/**
 * Checks rewards, by name or file, combined as reinforcement combines them, on examples of a data set.
 * @throws ConfigError for a reward that cannot be opened; DataError for data that cannot be read
 */
export async function checkReward(
  rewards: NonNullable<Recipe['reward']>,
  address: ExampleAddress,
  options: Recipe['rl']['reward'] = defaultRecipe().rl.reward,
): Promise<RewardCheck> {
  const source = openExamples(address);
  const { facts } = source;
  const examples = [...source];
  const opened = await openRewards(rewards, facts.kind, options);
  const cases: CheckedCase[] = [];
  const violations: Violation[] = [];
  const best = new Map<Example, number>();
  const scored = ({ example, text }: Asked): Promise<Score | null> => {
    const { kind } = example.gold;
    const shape = {
      kind,
      length: lengthOf(example),
      channels: example.channels.length,
      classes: facts.classes,
    };
    return opened.score(text, parseResponse(text, shape), example);
  };
  try {
    for (const [name, { kind, asked }] of casesOf(examples, facts)) {
      const before = performance.now();
      const first = await Promise.allSettled(asked.map(scored));
      const milliseconds = (performance.now() - before) / asked.length;
      const failed = first.findIndex(({ status }) => status === 'rejected');
      if (failed >= 0) {
        const { reason } = first[failed] as PromiseRejectedResult;
        if (!(reason instanceof TimeseerError)) throw reason;
        violations.push({
          kind: 'error',
          case: name,
          example: asked[failed]!.example.id,
          message: reason.message,
        });
      }
      const scores = first.map((one) => (one.status === 'fulfilled' ? one.value : null));
      const totals = scores.flatMap((score) => (score === null ? [] : [score.total]));
      cases.push({
        ...{ name, kind, responses: asked.length, missing: asked.length - totals.length, milliseconds },
        mean: totals.length === 0 ? null : totals.reduce((sum, total) => sum + total, 0) / totals.length,
        least: totals.length === 0 ? null : Math.min(...totals),
        most: totals.length === 0 ? null : Math.max(...totals),
      });
      // Every other case would take as long.
      if (first.some((one) => one.status === 'rejected' && one.reason instanceof RewardTimeoutError)) break;
      if (failed >= 0) continue;
      const second = await Promise.all(asked.map(scored));
      const random = scores.findIndex((score, i) => !isDeepStrictEqual(score, second[i]));
      if (random >= 0) {
        violations.push({
          ...{ kind: 'random', case: name, example: asked[random]!.example.id },
          message: `scored ${scores[random]?.total ?? 'nothing'}, and ${second[random]?.total ?? 'nothing'} the second time`,
        });
      }
      const above = scores.findIndex((score, i) => {
        const { example } = asked[i]!;
        if (score === null) return false;
        if (kind === 'gold') best.set(example, score.total);
        return score.total > (best.get(example) ?? Number.POSITIVE_INFINITY);
      });
      if (above >= 0) {
        const { example } = asked[above]!;
        violations.push({
          ...{ kind: 'gold', case: name, example: example.id },
          message: `earns ${scores[above]!.total}, the gold answer ${best.get(example)}`,
        });
      }
    }
  } finally {
    await opened.close();
  }
  return {
    rewards: rewards.map(({ use }) => use),
    data: address.name,
    examples: examples.length,
    cases,
    violations,
  };
}
