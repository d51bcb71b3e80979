/**
 * Tools of an inspection: what a policy may call to look closer at a series. `TOOLS` lists ours by name; to add one, add a record. Those of
 * users are in `define.ts`.
 */
import { findSeason } from '../detect/season.ts';
import { type Choice, choiceNames } from '../ground/choice.ts';
import { ConfigError, reasonOf } from '../ground/errors.ts';
import { getOrMake } from '../ground/maps.ts';
import { extent } from '../ground/numbers.ts';
import type { Interval } from '../ground/types.ts';
import { isModuleSpecifier, moduleAddress } from '../ground/user-module.ts';
import { bridge } from '../series/missing.ts';
import { periodogram } from '../series/spectrum.ts';
import { moments } from '../series/stats.ts';
import { columnsOf, unusualLines } from '../tasks/drawing.ts';
import { hostTools, refuse } from './define.ts';

/**
 * Window on the dyadic grid with half overlap: at level L it is N / 2^L points long and starts at place · N / 2^(L + 1), so that every
 * stretch of at most half a window lies in one whole. Windows of different paths are equal exactly.
 */
export interface View {
  readonly level: number;
  readonly place: number;
}

export const WHOLE: View = { level: 0, place: 0 };

/** Returns the samples of a window of a series of `length` points. */
export function windowOf({ level, place }: View, length: number): Interval {
  const unit = length / 2 ** (level + 1);
  return [Math.round(place * unit), Math.round((place + 2) * unit)];
}

/** Lists all windows of levels 1 to `levels`, coarse ones first, in order of place. */
export const windowsTo = (levels: number): View[] =>
  Array.from({ length: levels }, (_, i) => i + 1).flatMap((level) =>
    Array.from({ length: 2 ** (level + 1) - 1 }, (_, place) => ({ level, place })),
  );

/** Points that a window must have at least. */
export const LEAST_WINDOW = 32;
/** Halvings in one zoom. */
const MOST_HALVINGS = 6;

/** Finds the window `halvings` deeper at a place of the window shown. */
export const viewInside = ({ level, place }: View, halvings: number, inner: number): View => ({
  level: level + halvings,
  place: place * 2 ** halvings + inner,
});

interface ToolCall {
  /** Whole series [N]; NaN marks a missing point. */
  readonly values: Float64Array;
  readonly view: View;
  /** Samples of the window shown. */
  readonly window: Interval;
  /** Words behind the tool's name. */
  readonly words: string;
  /** Windows shown so far beside the whole. */
  readonly shown: readonly View[];
}

/** Coordinates of answers: `points` of them cover the samples of `span`. */
export interface Frame {
  readonly points: number;
  readonly span: Interval;
}

/** Lines that a tool draws, each [n]. */
export interface ToolLines {
  readonly names: readonly string[];
  readonly lines: readonly Float64Array[];
}

/** Result of a tool: another window, a picture, or a text, as a turn of the user. */
export interface ToolResult {
  readonly view?: View;
  readonly lines?: ToolLines;
  readonly text?: string;
}

export interface Tool extends Choice {
  /** Call as the policy writes it. */
  readonly usage: string;
  /** Names of its words, each a whole number. Default: it takes any words. */
  readonly parameters?: readonly string[];
  /** Sign that calls it in the short responses of small policies. */
  readonly sign?: string;
  /** @throws ToolFailure for a call that makes no sense */
  readonly run: (call: ToolCall) => ToolResult | Promise<ToolResult>;
}

/** Maps intervals from the coordinates of a frame to samples. */
export function samplesOf(intervals: readonly Interval[], { points, span: [from, to] }: Frame): Interval[] {
  const scale = (to - from) / points;
  return intervals.map(([start, end]): Interval => {
    const first = Math.min(to - 1, Math.round(from + start * scale));
    return [first, Math.max(first + 1, Math.min(to, Math.round(from + end * scale)))];
  });
}

function noWords(words: string): void {
  if (words !== '') refuse('takes no words');
}

function zoom({ values, view, words }: ToolCall): ToolResult {
  const [, halvings, inner] =
    /^(\d{1,2}) (\d{1,4})$/.exec(words)?.map(Number) ?? refuse('expected LEVEL PLACE');
  if (halvings === 0) return inner === 0 ? { view: WHOLE } : refuse('only place 0 has level 0');
  const outside = halvings! > MOST_HALVINGS || inner! > 2 ** (halvings! + 1) - 2;
  if (outside) refuse('no such window');
  const wanted = viewInside(view, halvings!, inner!);
  const [start, end] = windowOf(wanted, values.length);
  return end - start < LEAST_WINDOW ? refuse('window too short') : { view: wanted };
}

/** Level of the windows that `next` shows, and columns of a plot. */
const NEXT_LEVEL = 3;
const COLUMNS = 560;

/** Lines of series by their columns: found once, for `next` and for the plots of windows. */
const drawn = new WeakMap<Float64Array, Map<number, readonly Float64Array[]>>();

/** Returns the lines of a plot of `columns` columns of a whole series. */
export function linesOf(values: Float64Array, columns: number): readonly Float64Array[] {
  const known = getOrMake(drawn, values, () => new Map<number, readonly Float64Array[]>());
  // `small`, of which inspections are begun, has learned plots of the whole whose deviation is that of the means.
  return getOrMake(known, columns, () =>
    columns > COLUMNS
      ? unusualLines(values, columns)
      : unusualLines(values.length > columns ? columnsOf(values, columns) : values),
  );
}

/** Windows of a series that stand out, the farthest first, by series: found once. */
const standing = new WeakMap<Float64Array, readonly View[]>();

/** Finds the window of an eighth of a series whose middle is nearest to a sample. */
function viewAt(sample: number, length: number): View {
  const places = 2 ** (NEXT_LEVEL + 1);
  const place = Math.round((sample * places) / length) - 1;
  return { level: NEXT_LEVEL, place: Math.max(0, Math.min(places - 2, place)) };
}

/**
 * Finds the windows of an eighth of a series that stand out most, none beside another: by the deviation of a column from its neighbours and
 * the distance of the stretch around it to all others, in turns as the plots of windows show them and as that of the whole does. Only the
 * former show what is shorter than a column of the whole, only the latter what is slow.
 *
 * Measured on 300 validation series of wild-long: of anomalies below five columns of the whole the first window, two and five hold .51, .71 and .88
 * at 20 000 points, .51, .67 and .93 at 5000; by the plot of the whole alone .32, .51, .78 and .28, .50, .83.
 */
export const standingViews = (values: Float64Array): readonly View[] =>
  getOrMake(standing, values, () => findViews(values));

function findViews(values: Float64Array): View[] {
  const { length } = values;
  const ranked = [COLUMNS * 2 ** NEXT_LEVEL, COLUMNS].map((columns) => {
    const [, deviation, unlike] = linesOf(values, columns) as [Float64Array, Float64Array, Float64Array];
    const height = deviation.map((z, k) => Math.abs(z) + unlike[k]!);
    const order = [...height.keys()].sort((a, b) => height[b]! - height[a]!);
    return order.map((k) => viewAt(((k + 0.5) * length) / height.length, length));
  });
  const views: View[] = [];
  const isApart = (view: View): boolean => views.every(({ place }) => Math.abs(place - view.place) > 1);
  for (;;) {
    const found = ranked.flatMap((list) => {
      const view = list.find(isApart);
      if (view !== undefined) views.push(view);
      return view ?? [];
    });
    if (found.length === 0) return views;
  }
}

function next({ values, words, shown }: ToolCall): ToolResult {
  noWords(words);
  if (values.length / 2 ** NEXT_LEVEL < LEAST_WINDOW) refuse('windows too short');
  const isShown = (view: View): boolean =>
    shown.some(({ level, place }) => level === view.level && place === view.place);
  return { view: standingViews(values).find((view) => !isShown(view)) ?? refuse('nothing else stands out') };
}

const windowValues = ({ values, window: [start, end] }: ToolCall): Float64Array => {
  const slice = values.subarray(start, end);
  return slice.some(Number.isFinite) ? bridge(slice).values : refuse('no values there');
};

function powerOf(call: ToolCall): ToolResult {
  noWords(call.words);
  const { power } = periodogram(windowValues(call));
  let strongest = 1;
  for (let k = 2; k < power.length; k++) if (power[k]! > power[strongest]!) strongest = k;
  const total = power.reduce((sum, value) => sum + value, 0);
  const lines = [power.map((value) => Math.log10(Math.max(value, 1e-12 * total, 1e-300)))];
  const period = Math.round((call.window[1] - call.window[0]) / strongest);
  return { lines: { names: ['log power'], lines }, text: `cycle ${period}` };
}

/** Period of the season by series, null without one: searched once. */
const periods = new WeakMap<Float64Array, number | null>();

const periodOf = (values: Float64Array): number | null =>
  getOrMake(periods, values, () => findSeason(bridge(values).values)?.period ?? null);

/** Finds the start of the stretch that a window is compared with: whole cycles earlier, else later, else as far away as there are samples. */
function comparedWith(values: Float64Array, [start, end]: Interval): number {
  const length = end - start;
  const period = periodOf(values) ?? length;
  const lag = Math.round(period * Math.ceil(length / period));
  if (start - lag >= 0) return start - lag;
  if (end + lag <= values.length) return start + lag;
  return start > values.length - end ? 0 : values.length - length;
}

function compared(call: ToolCall): ToolResult {
  noWords(call.words);
  const { values, window } = call;
  const [start, end] = window;
  const shown = windowValues(call);
  const from = comparedWith(values, window);
  if (from === start) refuse('nothing to compare with');
  const other = windowValues({ ...call, window: [from, from + end - start] });
  const [low, high] = extent(shown);
  // Both lines on the scale of the window: differences of its whole range reach the edge.
  const scale = high > low ? 2 / (high - low) : 1;
  const clip = (value: number): number => Math.min(1, Math.max(-1, value));
  const usual = other.map((value) => clip((value - low) * scale - 1));
  const difference = shown.map((value, t) => clip(((value - other[t]!) * scale) / 2));
  return {
    lines: { names: ['window', 'earlier', 'difference'], lines: [shown, usual, difference] },
    text: from < start ? `${start - from} before` : `${from - start} after`,
  };
}

function statistics(call: ToolCall): ToolResult {
  noWords(call.words);
  const whole = bridge(call.values).values;
  const shown = windowValues(call);
  const [all, inner] = [moments(whole), moments(shown)];
  const [low, high] = extent(whole);
  const percent = (value: number, of: number): number => (of > 0 ? Math.round((100 * value) / of) : 0);
  const level = percent(inner.mean - low, high - low);
  return { text: `level ${level}; spread ${percent(inner.std, all.std)}` };
}

export const TOOLS = {
  zoom: {
    label: 'Zoom',
    sign: '+',
    usage: 'zoom LEVEL PLACE',
    summary:
      'a window of the window shown, LEVEL times halved (1 to 6), at place 0 to 2^(LEVEL + 1) - 2 in steps of half a window; zoom 0 0 is the whole series',
    parameters: ['level', 'place'],
    run: zoom,
  },
  next: {
    label: 'Next',
    sign: '*',
    usage: 'next',
    summary: 'the window of an eighth of the series that stands out most of those not shown yet',
    parameters: [],
    run: next,
  },
  compare: {
    label: 'Compare',
    sign: '=',
    usage: 'compare',
    summary: 'the window shown, the same window some cycles earlier, and their difference',
    parameters: [],
    run: compared,
  },
  spectrum: {
    label: 'Spectrum',
    sign: '~',
    usage: 'spectrum',
    summary: 'the power spectrum of the window shown, and its strongest cycle in samples',
    parameters: [],
    run: powerOf,
  },
  stats: {
    label: 'Statistics',
    sign: '?',
    usage: 'stats',
    summary: 'mean (percent of the range) and deviation (percent of that of the whole) of the window shown',
    parameters: [],
    run: statistics,
  },
} as const satisfies Readonly<Record<string, Tool>>;

export const TOOL_NAMES = choiceNames(TOOLS);

/** Tools of an inspection, ours and those of users, and the thread of the latter. */
export interface Toolbox {
  readonly tools: Readonly<Record<string, Tool>>;
  readonly close: () => Promise<void>;
}

/** Opens tools by name or module. @throws ConfigError for an unknown name, and for a module that exports no tool */
export async function openTools(uses: readonly string[]): Promise<Toolbox> {
  const plain = plainTools(uses.filter((use) => !isModuleSpecifier(use)));
  const modules = uses.filter(isModuleSpecifier).map((use) => moduleAddress(use, '.'));
  if (modules.length === 0) return { tools: plain, close: async () => {} };
  const hosted = await hostTools(modules);
  const taken = Object.keys(hosted.tools).find((name) => Object.hasOwn(TOOLS, name));
  if (taken !== undefined) {
    await hosted.close();
    throw new ConfigError(
      `inspect.tools: ${taken} is a tool of timeseer; give that of the module another name`,
    );
  }
  return { tools: { ...plain, ...hosted.tools }, close: hosted.close };
}

/**
 * Opens tools and calls each user's tool whose usage is its name once, about a sine of 1000 points; `warn` is told of those that fail.
 * @throws ConfigError as `openTools`
 */
export async function checkTools(uses: readonly string[], warn: (text: string) => void): Promise<void> {
  const { tools, close } = await openTools(uses);
  const values = Float64Array.from({ length: 1000 }, (_, t) => Math.sin((2 * Math.PI * t) / 50));
  const call: ToolCall = { values, view: WHOLE, window: [0, values.length], words: '', shown: [] };
  try {
    for (const [name, { usage, run }] of Object.entries(tools)) {
      if (Object.hasOwn(TOOLS, name) || usage !== name) continue;
      // A tool may refuse such a series for a reason; a step in which it fails costs the penalty.
      await Promise.resolve(run(call)).catch((cause: unknown) =>
        warn(
          `warning: inspect.tools: ${name} failed when it was tried on a sine of 1000 points: ${reasonOf(cause)}`,
        ),
      );
    }
  } finally {
    await close();
  }
}

/** Returns tools of ours. @throws ConfigError for an unknown name */
export function plainTools(names: readonly string[]): Readonly<Record<string, Tool>> {
  const table: Readonly<Record<string, Tool>> = TOOLS;
  return Object.fromEntries(
    names.map((name) => {
      if (Object.hasOwn(table, name)) return [name, table[name]!];
      throw new ConfigError(
        `inspect.tools: no tool called ${name}; known are ${TOOL_NAMES.join(', ')}, and modules such as ./mine.ts`,
      );
    }),
  );
}
