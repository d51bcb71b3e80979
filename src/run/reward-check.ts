/** Checks rewards on responses of known worth: gold answers, answers with one thing wrong, and malformed text. */
import { performance } from 'node:perf_hooks';
import { isDeepStrictEqual } from 'node:util';
import { lengthOf } from '../../datasets/example.ts';
import { type DataFacts, type ExampleAddress, openExamples } from '../../datasets/source.ts';
import { RewardTimeoutError, TimeseerError } from '../ground/errors.ts';
import { getOrMake } from '../ground/maps.ts';
import { meanOrNull } from '../ground/numbers.ts';
import type { Example, Gold, Interval, Score } from '../ground/types.ts';
import { defaultRecipe, type Recipe } from '../recipe/recipe.ts';
import { goldResponse, mayChoose, parseResponse } from '../tasks/kinds.ts';
import { openRewards } from './rewards.ts';

/** Worth of a response in the check. */
export type CaseKind = 'gold' | 'perturbed' | 'garbage';

/** Responses of one sort, to all examples that there is one for. */
export interface CheckedCase {
  readonly name: string;
  readonly kind: CaseKind;
  readonly responses: number;
  /** Number of responses that the reward does not apply to. */
  readonly missing: number;
  /** Number of responses that it failed on. */
  readonly failed: number;
  /** Mean of the rewards; null where there is none. */
  readonly mean: number | null;
  readonly least: number | null;
  readonly most: number | null;
  /** Mean time of a response; where several are scored at once less than one takes. */
  readonly milliseconds: number;
}

export interface Violation {
  /**
   * `error`: the reward threw, had no answer in time, or returned anything but one finite number; `gold`: another response earns more
   * than the gold answer; `tie`: a response that is worse earns as much; `random`: a response has another score the second time;
   * `never`: no response has a score.
   */
  readonly kind: 'error' | 'gold' | 'tie' | 'random' | 'never';
  readonly case: string;
  /** First of the examples. */
  readonly example: string;
  /** Number of examples. */
  readonly examples: number;
  readonly message: string;
}

export interface RewardCheck {
  readonly rewards: readonly string[];
  readonly data: string;
  readonly examples: number;
  readonly cases: readonly CheckedCase[];
  /** Cases that were not scored because a call before them had no answer in time. */
  readonly unchecked: readonly string[];
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
      intervals.map((interval) => [interval[0] + half(interval), interval[1] + half(interval)]),
      length,
    ),
    widened: clip(
      [[intervals[0]![0] - half(intervals[0]!), intervals.at(-1)![1] + half(intervals.at(-1)!)]],
      length,
    ),
    halved: clip(
      intervals.map((interval) => [interval[0], interval[1] - half(interval)]),
      length,
    ),
    dropped: [],
    everything: all,
  };
}

/** Gold answers with one thing wrong, by name. */
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
    const wrong = classes.find((name) => name !== gold.class && mayChoose(gold.kind, name));
    if (wrong !== undefined) out['wrong class'] = { ...gold, class: wrong } as Gold;
  }
  if ('variates' in gold) {
    const missing = example.names.findIndex((_, id) => !gold.variates.includes(id));
    if (missing >= 0) {
      out['a variate too many'] = { ...gold, variates: [...gold.variates, missing].sort((a, b) => a - b) };
    }
    if (gold.variates.length > 0) out['a variate too few'] = { ...gold, variates: gold.variates.slice(1) };
  }
  // An interval of the whole series cannot be widened.
  return Object.fromEntries(Object.entries(out).filter(([, changed]) => !isDeepStrictEqual(changed, gold)));
}

interface Response {
  readonly example: Example;
  readonly text: string;
}

interface Case {
  readonly kind: CaseKind;
  readonly responses: Response[];
}

/** The responses of every case, by its name; the gold answers first. */
function casesOf(examples: readonly Example[], { classes }: DataFacts): Map<string, Case> {
  const cases = new Map<string, Case>();
  const add = (name: string, kind: CaseKind, example: Example, text: string): void => {
    getOrMake(cases, name, () => ({ kind, responses: [] })).responses.push({ example, text });
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
  return cases;
}

/** Score of a response, null where the reward does not apply, or the error of a reward that failed. */
type Outcome = Score | null | TimeseerError;

const totalOf = (outcome: Outcome): number | null =>
  outcome === null || outcome instanceof TimeseerError ? null : outcome.total;

/**
 * Checks rewards, by name or file, combined as reinforcement combines them, on examples of a data set. Ends at a call without an answer
 * in time: every other would take as long.
 * @param onProgress receives the case that is being scored, and the number of those before it and of all
 * @throws ConfigError for a reward that cannot be opened; DataError for data that cannot be read
 */
export async function checkReward(
  rewards: NonNullable<Recipe['reward']>,
  address: ExampleAddress,
  options: Recipe['rl']['reward'] = defaultRecipe().rl.reward,
  onProgress: (name: string, done: number, total: number) => void = () => {},
): Promise<RewardCheck> {
  const source = openExamples(address);
  const { facts } = source;
  const examples = [...source];
  const opened = await openRewards(rewards, facts.kind, options);
  const checked: CheckedCase[] = [];
  const violations: Violation[] = [];
  const goldTotals = new Map<Example, number>();
  const score = async ({ example, text }: Response): Promise<Outcome> => {
    const { kind } = example.gold;
    const channels = example.channels.length;
    const shape = { kind, length: lengthOf(example), channels, classes: facts.classes };
    try {
      return await opened.score(text, parseResponse(text, shape), example);
    } catch (error) {
      if (error instanceof TimeseerError) return error;
      throw error;
    }
  };
  const cases = casesOf(examples, facts);
  try {
    for (const [name, { kind, responses }] of cases) {
      onProgress(name, checked.length, cases.size);
      /** Reports the responses whose fault has a message, once for all of them. */
      const report = (fault: Violation['kind'], messageOf: (i: number) => string | null): void => {
        const messages = responses.map((_, i) => messageOf(i));
        const first = messages.findIndex((message) => message !== null);
        if (first < 0) return;
        const count = messages.filter((message) => message !== null).length;
        const example = responses[first]!.example.id;
        violations.push({ kind: fault, case: name, example, examples: count, message: messages[first]! });
      };
      const before = performance.now();
      const outcomes = await Promise.all(responses.map(score));
      const milliseconds = (performance.now() - before) / responses.length;
      const totals = outcomes.flatMap((outcome) => totalOf(outcome) ?? []);
      const failed = outcomes.filter((outcome) => outcome instanceof TimeseerError);
      const missing = outcomes.length - totals.length - failed.length;
      checked.push({
        ...{ name, kind, responses: responses.length, missing, failed: failed.length, milliseconds },
        mean: meanOrNull(totals),
        least: totals.length === 0 ? null : Math.min(...totals),
        most: totals.length === 0 ? null : Math.max(...totals),
      });
      report('error', (i) => {
        const outcome = outcomes[i]!;
        return outcome instanceof TimeseerError ? outcome.message : null;
      });
      if (failed.some((error) => error instanceof RewardTimeoutError)) break;
      const again = await Promise.all(responses.map(score));
      report('random', (i) => {
        const [first, second] = [outcomes[i]!, again[i]!];
        if (first instanceof TimeseerError || second instanceof TimeseerError) return null;
        if (isDeepStrictEqual(first, second)) return null;
        return `scored ${first?.total ?? 'nothing'}, and ${second?.total ?? 'nothing'} the second time`;
      });
      const comparison = (i: number): readonly [total: number, gold: number] | null => {
        const { example } = responses[i]!;
        const total = totalOf(outcomes[i]!);
        if (kind === 'gold' && total !== null) goldTotals.set(example, total);
        const gold = goldTotals.get(example);
        return kind === 'gold' || total === null || gold === undefined ? null : [total, gold];
      };
      const compared = responses.map((_, i) => comparison(i));
      report('gold', (i) => {
        const [total, gold] = compared[i] ?? [0, 0];
        return total > gold ? `earns ${total}, the gold answer ${gold}` : null;
      });
      report('tie', (i) => {
        const pair = compared[i]!;
        return pair !== null && pair[0] === pair[1] ? `earns ${pair[0]}, as much as the gold answer` : null;
      });
    }
  } finally {
    await opened.close();
  }
  if (examples.length > 0 && checked.every(({ missing, responses }) => missing === responses)) {
    violations.push({
      ...{ kind: 'never', case: 'every answer', example: examples[0]!.id, examples: examples.length },
      message: 'returned null for all; return a number where it applies, or check it on data that it is for',
    });
  }
  return {
    rewards: rewards.map(({ use }) => use),
    data: address.name,
    examples: examples.length,
    cases: checked,
    unchecked: [...cases.keys()].slice(checked.length),
    violations,
  };
}
