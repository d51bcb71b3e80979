/**
 * Scripted inspections: the path of one who knows where the anomalies are, each response the short trace about the window shown and, for the
 * whole, calls behind it. They are the supervised target; reinforcement alone does not induce the use of tools.
 *
 *   <think>pattern cycle; …; scan ....(#).......o....; level shift up 5 sd; flat line 2 sd</think><answer>[[80, 196], [330, 334]]</answer><class>trend</class>+3 8+3 12
 *   <think>pattern cycle; …; scan .........(#)......; flat line 2 sd</think><answer>[[269, 295]]</answer><class>shapelet</class>
 *   <think>pattern cycle; …; scan ..................</think><answer>[]</answer><class>normal</class>
 *
 * What is a few columns wide in the plot of the whole is looked at, and so are the places that stand out most, so that a look alone does not mean
 * that something is there.
 */
import { mean } from '../ground/numbers.ts';
import type { Random } from '../ground/random.ts';
import type { AnomalyClass, Example, Interval } from '../ground/types.ts';
import { mergeIntervals } from '../series/intervals.ts';
import { unusualLines } from '../tasks/drawing.ts';
import { nanoTrace } from '../tasks/kinds.ts';
import { columnsOf, TOOLS, type View, WHOLE, windowOf } from './tools.ts';

export interface ScriptOptions {
  /** Most responses, the last included. */
  readonly turns: number;
  /** Share of the paths that look at what stands out most, whatever it is. */
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

/** Level of the windows that are looked at: a policy does not see how many points the whole has. */
const LEVEL = 3;
/** Columns of the plot of the whole below which an anomaly is looked at: wider ones are read there as well as closer by. */
const THIN = 5;
/** Columns in which the place that stands out most is looked for. */
const COLUMNS = 560;

/** Finds the window whose middle is nearest to a sample. */
function viewAt(sample: number, length: number): View {
  const place = Math.round((sample * 2 ** (LEVEL + 1)) / length) - 1;
  return { level: LEVEL, place: Math.max(0, Math.min(2 ** (LEVEL + 1) - 2, place)) };
}

const isSame = (a: View, b: View): boolean => a.level === b.level && a.place === b.place;

const touch = ([start, end]: Interval, [from, to]: Interval): boolean => start < to && end > from;

/** Finds the windows that stand out most, `count` at most, none beside another. */
function suspiciousViews(values: Float64Array, count: number): View[] {
  const { length } = values;
  const [, deviation, unlike] = unusualLines(columnsOf(values, COLUMNS)) as [
    Float64Array,
    Float64Array,
    Float64Array,
  ];
  const height = (k: number): number => Math.abs(deviation[k]!) + unlike[k]!;
  const out: View[] = [];
  for (const k of [...deviation.keys()].sort((a, b) => height(b) - height(a))) {
    if (out.length === count) break;
    const view = viewAt(((k + 0.5) * length) / deviation.length, length);
    if (!out.some(({ place }) => Math.abs(place - view.place) < 2)) out.push(view);
  }
  return out;
}

/** Classes of kinds, where one anomaly of several is told alone. */
const CLASS_OF: Readonly<Record<string, AnomalyClass>> = {
  'level shift': 'trend',
  'trend change': 'trend',
  'missing cycle': 'seasonal',
  'frequency change': 'seasonal',
  'flat line': 'shapelet',
  'changed shape': 'shapelet',
  cutoff: 'shapelet',
};

/** Finds the windows of anomalies that are too thin for the plot of the whole. */
function thinViews(intervals: readonly Interval[], length: number, points: number): View[] {
  const views: View[] = [];
  for (const interval of intervals) {
    const view = viewAt(mean(interval), length);
    const isThin = ((interval[1] - interval[0]) * points) / length < THIN;
    if (isThin && !views.some((other) => isSame(other, view))) views.push(view);
  }
  return views;
}

/** Responses that one who knows where the anomalies are needs from a state on, by its key; null where the answer is no list of intervals. */
export function stepsToAnswer(
  { channels, gold }: Pick<Example, 'channels' | 'gold'>,
  points: number,
): ((key: string) => number) | null {
  if (!('intervals' in gold)) return null;
  const wanted = thinViews(gold.intervals, channels[0]!.length, points).map(
    ({ level, place }) => `zoom@${level}.${place}`,
  );
  return (key) => {
    const seen = key.split(' ');
    return 1 + wanted.filter((call) => !seen.includes(call)).length;
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
    return CLASS_OF[departures[top]!.kind] ?? 'contextual point';
  };

  const looks = thinViews(intervals, length, points);
  const most = options.turns - 1;
  if (looks.length < most && random.uniform() < options.detours) {
    for (const view of suspiciousViews(values, random.integer(1, 2))) {
      if (looks.length < most && !looks.some((other) => isSame(other, view))) looks.push(view);
    }
  }
  looks.sort((a, b) => a.place - b.place);
  looks.length = Math.min(looks.length, most);

  const { sign } = TOOLS.zoom;
  const responses = [trace(WHOLE) + looks.map(({ level, place }) => `${sign}${level} ${place}`).join('')];
  for (const [i, view] of looks.entries()) {
    const shown = trace(view);
    const spare = most - responses.length - (looks.length - i - 1);
    if (spare > 0 && options.tools.length > 0 && random.uniform() < options.calls) {
      responses.push(`${shown}${TOOLS[random.pick(options.tools)].sign}`);
    }
    responses.push(shown);
  }
  return responses;
}
