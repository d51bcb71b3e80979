/**
 * Scripted inspections: the path of one who knows where the anomalies are, each response in the short style of a trace about the window
 * shown. They are the supervised target; reinforcement alone does not induce the use of tools.
 *
 *   <think>pattern cycle; …; scan ....(#)....o........; level shift up 5 sd; spike 20 sd</think><tool>zoom 3 3</tool>
 *   <think>pattern cycle; …; scan .......(####).......; level shift up 5 sd</think><tool>mark [[196, 358]]</tool>
 *   <think>pattern cycle; …; scan ...........o........; spike 20 sd</think><tool>zoom 3 8</tool>
 *   <think>pattern cycle; …; scan .........o..........; spike 20 sd</think><answer>[[269, 275]]</answer><class>trend</class>
 *
 * A scan shows what is not marked yet; the first thing in it is looked at next, down to windows of about as many points as the picture has
 * columns. Some paths go wrong first: a scan sees something where nothing is, the window shows nothing, and the policy returns. The wrong
 * step is part of the history and never a target.
 */
import { mean } from '../ground/numbers.ts';
import type { Random } from '../ground/random.ts';
import type { Example, Interval } from '../ground/types.ts';
import { mergeIntervals } from '../series/intervals.ts';
import { nanoTrace } from '../tasks/kinds.ts';
import { MOST_HALVINGS, type View, viewInside, WHOLE, windowOf } from './tools.ts';

/** Response of a script, and whether a policy learns it. */
export interface ScriptedStep {
  readonly response: string;
  readonly target: boolean;
}

export interface ScriptOptions {
  /** Most responses, the answer included. */
  readonly turns: number;
  /** Share of the paths with a detour. */
  readonly detours: number;
  /** Share of the windows in which a further tool is called, and the tools to choose from. */
  readonly calls: number;
  readonly tools: readonly string[];
  /** Coordinates along a window, and those that traces round to. */
  readonly points: number;
  readonly steps: number;
  /** Cells of a scan. */
  readonly cells: number;
  /** True: scans name the level of cells without anything. */
  readonly levels: boolean;
}

/** Points of a window that needs no closer look: about one per column of the picture. */
const FINE = 500;
/** Lengths of an interval that its window holds at least. */
const MARGIN = 2.5;

/** Anomalies that one window shows, with what departs in them. */
interface Target {
  readonly intervals: readonly Interval[];
  readonly view: View;
}

const hullOf = (intervals: readonly Interval[]): Interval => [intervals[0]![0], intervals.at(-1)![1]];

/** Finds the window that shows an interval best: small, and the interval near its middle. */
function viewOf([start, end]: Interval, length: number): View {
  const level = Math.max(0, Math.floor(Math.log2(length / Math.max(FINE, MARGIN * (end - start)))));
  return viewAt((start + end) / 2, level, length);
}

/** Finds the window of a level whose middle is nearest to a sample. */
function viewAt(sample: number, level: number, length: number): View {
  const place = Math.round((sample * 2 ** (level + 1)) / length) - 1;
  return { level, place: Math.max(0, Math.min(2 ** (level + 1) - 2, place)) };
}

/** Joins anomalies that one window of the finest level of either shows. */
function targetsOf(intervals: readonly Interval[], length: number): Target[] {
  const out: Target[] = [];
  for (const interval of intervals) {
    const last = out.at(-1);
    const joined = last === undefined ? [] : [...last.intervals, interval];
    const hull = last === undefined ? interval : hullOf(joined);
    const view = viewOf(hull, length);
    const [from, to] = windowOf(view, length);
    if (last !== undefined && view.level >= last.view.level && hull[0] >= from && hull[1] <= to) {
      out[out.length - 1] = { intervals: joined, view };
    } else out.push({ intervals: [interval], view: viewOf(interval, length) });
  }
  return out;
}

/** Windows on the way from the whole series to one. */
function wayTo(view: View, sample: number, length: number): View[] {
  const out: View[] = [];
  for (let level = view.level; level > 0; level -= MOST_HALVINGS) {
    out.unshift(level === view.level ? view : viewAt(sample, level, length));
  }
  // A parent must hold its child; at the ends of the series the nearest one may not.
  return out.every((inner, i) => insideOf(out[i - 1] ?? WHOLE, inner) !== null) ? out : out.slice(0, 1);
}

/** Words of the zoom from a window into another; null where that does not lie inside. */
function insideOf(outer: View, inner: View): string | null {
  const halvings = inner.level - outer.level;
  const place = inner.place - viewInside(outer, halvings, 0).place;
  const inside = halvings >= 1 && halvings <= MOST_HALVINGS && place >= 0 && place <= 2 ** (halvings + 1) - 2;
  return inside ? `${halvings} ${place}` : null;
}

/** Writes the path through a series, `turns` responses at most. */
export function scriptOf(
  { channels, names, gold, facts }: Pick<Example, 'channels' | 'names' | 'gold' | 'facts'>,
  random: Random,
  options: ScriptOptions,
): ScriptedStep[] {
  const [values] = channels as [Float64Array];
  const { length } = values;
  if (!('intervals' in gold)) throw new RangeError(`no script for answers of kind ${gold.kind}`);
  const { intervals } = gold;
  const steps: ScriptedStep[] = [];
  let left = options.turns;
  let view = WHOLE;
  let open: Target[] = targetsOf(intervals, length);

  const { points, steps: coordinates, cells, levels } = options;
  /** Intervals as far as the window shows them, in its coordinates. */
  const inWindow = (list: readonly Interval[]): Interval[] => {
    const [from, to] = windowOf(view, length);
    const scale = points / (to - from);
    return mergeIntervals(
      list.flatMap(([start, end]): Interval[] => {
        if (start >= to || end <= from) return [];
        const first = Math.min(points - 1, Math.max(0, Math.floor((start - from) * scale)));
        return [[first, Math.min(points, Math.max(first + 1, Math.round((end - from) * scale)))]];
      }),
    );
  };
  /** Writes the trace about the window shown, as if these intervals were all. */
  const trace = (list: readonly Interval[]): string => {
    const [from, to] = windowOf(view, length);
    const described = intervals.flatMap((interval, i) =>
      list.includes(interval) ? (facts?.departures[i] ?? []) : [],
    );
    const periods = facts?.periods.map((period) => (period * points) / (to - from)) ?? [];
    return nanoTrace(
      {
        ...{ channels: [columnsOf(values.subarray(from, to), points)], names },
        gold: { ...gold, intervals: inWindow(list) },
        ...(facts === undefined ? {} : { facts: { ...facts, periods, departures: described } }),
      },
      null,
      { cells, steps: coordinates, levels },
    );
  };
  const think = (list: readonly Interval[]): string => /^<think>(.*)<\/think>/.exec(trace(list))![1]!;
  const say = (thought: string, call: string, target = true): void => {
    steps.push({ response: `<think>${thought}</think><tool>${call}</tool>`, target });
    left--;
  };
  const unmarked = (): Interval[] => open.flatMap((target) => [...target.intervals]);
  const go = (to: View, thought: string, target = true): void => {
    say(thought, `zoom ${insideOf(view, to)!}`, target);
    view = to;
  };
  const costOf = ({ view: to, intervals: list }: Target): number =>
    wayTo(to, mean(hullOf(list)), length).length + 1;
  const budget = (): number => open.reduce((sum, target) => sum + costOf(target), 0);

  detour();
  // What does not fit in the turns is answered from the whole series, the largest first, which shows best there.
  const fromAfar: Target[] = open.filter((target) => target.view.level === 0);
  open = open.filter((target) => target.view.level > 0);
  while (open.length > 0 && budget() + (fromAfar.length > 0 ? 1 : 0) > left) {
    const widest = open.toSorted((a, b) => a.view.level - b.view.level)[0]!;
    open = open.filter((target) => target !== widest);
    fromAfar.push(widest);
  }
  const afar = fromAfar.flatMap((target) => [...target.intervals]).sort((a, b) => a[0] - b[0]);
  while (open.length > 0) {
    const [target] = open as [Target];
    const spare = left - budget() - (afar.length > 0 ? 1 : 0);
    const all = (): Interval[] => [...unmarked(), ...afar].sort((a, b) => a[0] - b[0]);
    for (const step of wayTo(target.view, mean(hullOf(target.intervals)), length)) go(step, think(all()));
    if (spare > 0) furtherCall(target.intervals);
    open = open.slice(1);
    if (open.length === 0 && afar.length === 0) return answer(target.intervals);
    say(think(target.intervals), `mark ${/<answer>(.*)<\/answer>/.exec(trace(target.intervals))![1]!}`);
    view = WHOLE;
  }
  return answer(afar);

  function answer(list: readonly Interval[]): ScriptedStep[] {
    return [...steps, { response: trace(list), target: true }];
  }

  /** Looks at a window in which nothing is, and returns; for a normal series that is the answer. */
  function detour(): void {
    const needed = Math.max(1, budget());
    if (random.uniform() >= options.detours || left - needed < 2) return;
    const level = Math.max(0, Math.floor(Math.log2(length / FINE)));
    const at = random.between(0, length);
    const wrong = viewAt(at, Math.min(level, MOST_HALVINGS), length);
    const [from, to] = windowOf(wrong, length);
    const isBlank = !values.subarray(from, to).some((value) => Number.isFinite(value));
    if (wrong.level === 0 || isBlank || intervals.some(([start, end]) => start < to && end > from)) return;
    const middle = Math.round((from + to) / 2);
    const seen = [...intervals, [middle, middle + 1] as const].sort((a, b) => a[0] - b[0]);
    go(wrong, think(seen), false);
    if (intervals.length === 0) return;
    say(think([]), 'zoom 0 0');
    view = WHOLE;
  }

  function furtherCall(list: readonly Interval[]): void {
    const { calls, tools } = options;
    if (tools.length > 0 && random.uniform() < calls) say(think(list), random.pick(tools));
  }
}

/** Means of a window over its columns [points]; NaN where all samples are missing. Shorter windows repeat samples. */
function columnsOf(values: Float64Array, points: number): Float64Array {
  const { length } = values;
  return Float64Array.from({ length: points }, (_, k) => {
    const from = Math.floor((k * length) / points);
    const cell = values.subarray(from, Math.max(from + 1, Math.floor(((k + 1) * length) / points)));
    const known = cell.filter((value) => !Number.isNaN(value));
    return known.length === 0 ? Number.NaN : mean(known);
  });
}
