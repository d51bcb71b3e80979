/**
 * Scripted inspections: the path of one who knows where the anomalies are, each response the short trace about the window shown and, for all but
 * the last, the call for the window that stands out next. They are the supervised target; reinforcement alone does not induce the use of tools.
 *
 *   <think>pattern cycle; …; scan ....(#).......o....; level shift up 5 sd; flat line 2 sd</think><answer>[[80, 196], [330, 334]]</answer><class>trend</class>*
 *   <think>pattern cycle; …; scan .........(#)......; flat line 2 sd</think><answer>[[269, 295]]</answer><class>shapelet</class>*
 *   <think>pattern cycle; …; scan ..................</think><answer>[]</answer><class>normal</class>
 *
 * The windows that stand out are looked at one after the other until they have shown what is a few columns wide in the plot of the whole. Some
 * paths look though nothing is there, so that a look alone does not mean that something is. Where to look is computed, since the policy
 * chose badly: of 58 such anomalies of 200 validation series its own zooms reached 18, the first two windows that stand out reach half.
 */
import { mean } from '../ground/numbers.ts';
import type { Random } from '../ground/random.ts';
import { type AnomalyClass, CLASS_OF_KIND, type Example, type Interval } from '../ground/types.ts';
import { mergeIntervals } from '../series/intervals.ts';
import { columnsOf } from '../tasks/drawing.ts';
import { nanoTrace } from '../tasks/kinds.ts';
import { standingViews, TOOLS, type View, WHOLE, windowOf } from './tools.ts';

interface ScriptOptions {
  /** Most responses, the last included. */
  readonly turns: number;
  /** True where the policy can call for what stands out most; false: all paths answer at once. */
  readonly looks: boolean;
  /** Share of the paths that look at what stands out most though nothing is to be found there. */
  readonly detours: number;
  /** Share of the windows in which a further tool is called, and the tools to choose from. */
  readonly calls: number;
  readonly tools: readonly (keyof typeof TOOLS)[];
  /** Coordinates along a window, and those that traces round to. */
  readonly points: number;
  readonly steps: number;
  /** Cells of a scan. */
  readonly cells: number;
  /** True: scans name the level of cells without anything. */
  readonly levels: boolean;
}

/** Columns of the plot of the whole below which an anomaly is looked at: wider ones are read there as well as closer by. */
const THIN = 5;
/** Looks at what stands out where nothing is to be found. */
const DETOURS = [2, 5] as const;

const touch = ([start, end]: Interval, [from, to]: Interval): boolean => start < to && end > from;

/** Number of windows that stand out which must be looked at, in their order, until they have shown every thin anomaly that they show at all. */
function looksNeeded(values: Float64Array, intervals: readonly Interval[], points: number): number {
  const { length } = values;
  const thin = intervals.filter(([start, end]) => ((end - start) * points) / length < THIN);
  const windows = standingViews(values).map((view) => windowOf(view, length));
  const shownBy = (interval: Interval): number =>
    windows.findIndex(([from, to]) => mean(interval) >= from && mean(interval) < to);
  return Math.max(0, ...thin.map((interval) => shownBy(interval) + 1));
}

/** Responses that one who knows where the anomalies are needs from a state on, by its key; null where the answer is no list of intervals. */
export function stepsToAnswer(
  { channels, gold }: Pick<Example, 'channels' | 'gold'>,
  points: number,
): ((key: string) => number) | null {
  if (!('intervals' in gold)) return null;
  const [values] = channels as [Float64Array];
  const calls = standingViews(values)
    .slice(0, looksNeeded(values, gold.intervals, points))
    .map(({ level, place }) => `zoom@${level}.${place}`);
  return (key) => {
    const seen = key.split(' ');
    return 1 + calls.filter((call) => !seen.includes(call)).length;
  };
}

/** Writes the path through a series: responses, `turns` at most. */
export function scriptOf(
  { channels, names, gold, facts }: Pick<Example, 'channels' | 'names' | 'gold' | 'facts'>,
  random: Random,
  options: ScriptOptions,
): string[] {
  const [values] = channels as [Float64Array];
  const { length } = values;
  if (!('intervals' in gold)) throw new RangeError(`no script for answers of kind ${gold.kind}`);
  const { intervals } = gold;
  const { points, steps: coordinates, cells, levels } = options;

  /** Writes the trace about a window. */
  const trace = (view: View): string => {
    const window = windowOf(view, length);
    const [from, to] = window;
    const scale = points / (to - from);
    const shown = intervals.flatMap((interval, i) => (touch(interval, window) ? [i] : []));
    const inside = mergeIntervals(
      shown.map((i): Interval => {
        const [start, end] = intervals[i]!;
        const first = Math.min(points - 1, Math.max(0, Math.floor((start - from) * scale)));
        return [first, Math.min(points, Math.max(first + 1, Math.round((end - from) * scale)))];
      }),
    );
    const departures = facts?.departures ?? [];
    const described = shown.flatMap((i) => departures[i] ?? []);
    const periods = facts?.periods.map((period) => (period * points) / (to - from)) ?? [];
    return nanoTrace(
      {
        ...{ channels: [columnsOf(values.subarray(from, to), points)], names },
        gold: { ...gold, intervals: inside, class: classIn(shown) },
        ...(facts === undefined ? {} : { facts: { ...facts, periods, departures: described } }),
      },
      null,
      { cells, steps: coordinates, levels },
    );
  };

  /** Returns the class of what a window shows: that of the most visible, which names the series. */
  const classIn = (shown: readonly number[]): AnomalyClass => {
    if (shown.length === 0) return 'normal';
    const departures = facts?.departures;
    if (departures === undefined || shown.length === intervals.length) return gold.class as AnomalyClass;
    const visible = (i: number): number => departures[i]!.visibility;
    const first = (list: readonly number[]): number =>
      list.reduce((a, b) => (visible(b) > visible(a) ? b : a));
    const top = first(shown);
    if (top === first([...intervals.keys()])) return gold.class as AnomalyClass;
    const { kind } = departures[top]!;
    return kind === 'spike' || kind === 'dip' ? 'contextual point' : CLASS_OF_KIND[kind];
  };

  const most = options.turns - 1;
  const needed = options.looks ? looksNeeded(values, intervals, points) : 0;
  // Beyond the turns nothing is found: such a series is left as soon as one without anything.
  const detour = options.looks && random.uniform() < options.detours ? random.integer(...DETOURS) : 0;
  const looks = standingViews(values).slice(
    0,
    needed > 0 && needed <= most ? needed : Math.min(detour, most),
  );
  const { sign } = TOOLS.next;
  const onwards = (i: number): string => (i < looks.length ? sign : '');
  const responses = [trace(WHOLE) + onwards(0)];
  for (const [i, view] of looks.entries()) {
    const shown = trace(view);
    const spare = most - responses.length - (looks.length - i - 1);
    if (spare > 0 && options.tools.length > 0 && random.uniform() < options.calls) {
      responses.push(`${shown}${TOOLS[random.pick(options.tools)].sign}`);
    }
    responses.push(shown + onwards(i + 1));
  }
  return responses;
}
