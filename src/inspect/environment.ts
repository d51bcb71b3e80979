/**
 * Inspection of one long series over several turns, as an environment: `reset` and `step`. The policy sees the whole series as a plot; each
 * turn it calls one tool, `<tool>zoom 3 5</tool>`, or answers. The result of a tool comes back as a turn of the user.
 *
 * Deterministic: a transition is a function of series, state and response. States are JSON, and equal states have equal keys: the grid of
 * windows is dyadic, and what was seen is a set. A call that cannot be made is a failed step: it costs the penalty, uses up its turn, and
 * the policy is told why. Nothing that a response holds is thrown as an error.
 */
import { ConfigError } from '../ground/errors.ts';
import type { Example, Interval, Picture } from '../ground/types.ts';
import { type Figure, figure, isBare } from '../plot/figure.ts';
import { render } from '../plot/raster.ts';
import { clipAndMerge } from '../series/intervals.ts';
import { parseAnswer } from '../tasks/anomaly.ts';
import { unusualLines } from '../tasks/drawing.ts';
import { MAX_RESPONSE_LENGTH, reasoningRange } from '../tasks/response.ts';
import { ToolFailure } from './define.ts';
import {
  type Frame,
  samplesOf,
  type Tool,
  type ToolLines,
  type ToolResult,
  type View,
  WHOLE,
  windowOf,
} from './tools.ts';

export interface InspectionState {
  /** Window shown. */
  readonly view: View;
  /** Calls that returned something, by tool and window, sorted. */
  readonly seen: readonly string[];
  /** Intervals kept for the answer, in samples. */
  readonly marks: readonly Interval[];
  /** Responses so far. */
  readonly turn: number;
  /** Calls so far that failed. */
  readonly failures: number;
  /** Final response, its intervals in samples of the whole series; empty where the turns ended without one; null before the end. */
  readonly answer: string | null;
}

/** A turn of the user: words, and a window or lines that are drawn. */
export interface Observation {
  readonly text: string;
  readonly drawing: { readonly window: Interval } | ToolLines | null;
}

export interface Transition {
  readonly state: InspectionState;
  /** Null at the end. */
  readonly observation: Observation | null;
  /** Reason why the step failed; null for a step that did not. */
  readonly problem: string | null;
}

/** Key of the state that follows the answer. */
export const ANSWERED = 'answered';

/** Key of a state: window and evidence, without the number of the turn. */
export function stateKey({ view: { level, place }, seen, answer }: InspectionState): string {
  return answer === null ? `${level}.${place} ${seen.join(' ')}`.trim() : ANSWERED;
}

/** Returns the window of a state from its key. */
export function viewOfKey(key: string): View {
  const [level, place] = /^(\d+)\.(\d+)/.exec(key)?.slice(1).map(Number) ?? [];
  return level === undefined ? WHOLE : { level, place: place! };
}

/** Coordinates of answers of small policies, for every window as many: columns of an overlay figure, whose traces state single ones, or 1000. */
export const framePoints = ({ overlay, width }: Pick<Figure, 'overlay' | 'width'>): number =>
  overlay === null ? 1000 : width;

export interface InspectionOptions {
  readonly tools: Readonly<Record<string, Tool>>;
  /** Most responses of an episode, the answer included. */
  readonly turns: number;
  /** Figure preset of the plots. */
  readonly figure: string;
  /** Coordinates of answers: steps of the window shown (small policies), or samples of the series. */
  readonly frame: 'window' | 'series';
  /**
   * Prompt of a later turn: behind all earlier ones (turns), or of the state alone: the picture shown last, the calls so far and what is
   * marked. Small policies read one picture, as they were trained to: with several they look at the first.
   */
  readonly memory: 'turns' | 'state';
  /** Text of the first turn. */
  readonly question: string;
}

const CALL = /<tool>([^<]*)<\/tool>/g;

/** Finds the call of a response: its words, null for an answer. @throws ToolFailure for a response that is neither */
function callOf(response: string): string | null {
  if (response.length > MAX_RESPONSE_LENGTH) throw new ToolFailure('response too long');
  if (!/<\/?tool>/.test(response)) return null;
  const calls = [...response.matchAll(CALL)];
  if (calls.length > 1) throw new ToolFailure('two calls at once');
  if (/<\/?answer>/.test(response)) throw new ToolFailure('a call in the middle of an answer');
  if (calls.length === 0) throw new ToolFailure('unfinished call');
  return calls[0]![1]!.trim();
}

/** The inspection of one series. */
export class Inspection {
  readonly #values: Float64Array;
  readonly #options: InspectionOptions;
  readonly #shape: Figure;
  readonly #pictures = new Map<string, Picture | Promise<Picture>>();

  /** @throws ConfigError for a series of several channels */
  constructor({ id, channels }: Pick<Example, 'id' | 'channels'>, options: InspectionOptions) {
    const [values] = channels;
    if (values === undefined || channels.length > 1) {
      throw new ConfigError(`${id}: an inspection looks at one channel, and there are ${channels.length}`);
    }
    this.#values = values;
    this.#options = options;
    this.#shape = figure(options.figure);
  }

  /** Call with about the longest observation, for memory plans. */
  get longestCall(): string {
    return '<tool>zoom 0 0</tool>';
  }

  get turns(): number {
    return this.#options.turns;
  }

  get memory(): InspectionOptions['memory'] {
    return this.#options.memory;
  }

  reset(): { readonly state: InspectionState; readonly observation: Observation } {
    const state = { view: WHOLE, seen: [], marks: [], turn: 0, failures: 0, answer: null };
    const drawing = { window: windowOf(WHOLE, this.#values.length) };
    return { state, observation: { text: this.#options.question, drawing } };
  }

  /** Takes a response. Waits for tools of users alone. @throws ConfigError after the end */
  step(state: InspectionState, response: string): Transition | Promise<Transition> {
    if (state.answer !== null) throw new ConfigError('inspection: the episode is over');
    let words: string | null;
    try {
      words = callOf(response);
    } catch (error) {
      return this.#failed(state, error);
    }
    if (words === null) {
      const answer = this.#answerOf(state, response);
      return { state: { ...state, turn: state.turn + 1, answer }, observation: null, problem: null };
    }
    const [name = '', ...rest] = words.split(/\s+/);
    const { tools, turns } = this.#options;
    if (!Object.hasOwn(tools, name))
      return this.#failed(state, new ToolFailure(`no tool ${name.slice(0, 24)}`));
    // Nothing can follow the call of the last turn.
    if (state.turn + 1 >= turns) return this.#failed(state, new ToolFailure('no turn left'));
    try {
      const result = tools[name]!.run({
        ...{ values: this.#values, view: state.view, window: this.#window(state) },
        ...{ words: rest.join(' '), frame: this.#frame(state) },
      });
      return result instanceof Promise
        ? result.then(
            (outcome) => this.#called(state, name, outcome),
            (error: unknown) => this.#failed(state, error),
          )
        : this.#called(state, name, result);
    } catch (error) {
      return this.#failed(state, error);
    }
  }

  /** Draws the picture of a turn; null where it has none. Pictures of windows are kept: episodes come back to them. */
  picture({ drawing }: Observation): Picture | Promise<Picture> | null {
    if (drawing === null) return null;
    if (!('window' in drawing)) return this.#draw(drawing.names, drawing.lines, null);
    const key = drawing.window.join(' ');
    const kept = this.#pictures.get(key);
    if (kept !== undefined) return kept;
    const [start, end] = drawing.window;
    const values = this.#values.subarray(start, end);
    const picture =
      this.#shape.overlay !== null
        ? render(this.#shape, unusualLines(values, this.#shape.width))
        : this.#draw(['value'], [values], start);
    this.#pictures.set(key, picture);
    return picture;
  }

  /** Draws lines; `first`: x value of the first point, null where x is no index. */
  #draw(
    names: readonly string[],
    lines: readonly Float64Array[],
    first: number | null,
  ): Picture | Promise<Picture> {
    const shape = this.#shape;
    if (shape.overlay !== null) {
      const blank = new Float64Array(lines[0]!.length);
      return render(
        shape,
        shape.overlay.map((_, k) => lines[k] ?? blank),
      );
    }
    // Bare figures have one line: of several, the last is what the others are for.
    if (isBare(shape)) return render(shape, [lines.at(-1)!]);
    const axes = first === null ? { xLabel: '' } : { step: null };
    const times = first === null ? undefined : lines[0]!.map((_, t) => first + t);
    return render(figure(shape.name, { ...axes, channels: names }), lines, times);
  }

  #window({ view }: InspectionState): Interval {
    return windowOf(view, this.#values.length);
  }

  #frame(state: InspectionState): Frame {
    const { length } = this.#values;
    return this.#options.frame === 'window'
      ? { points: framePoints(this.#shape), span: this.#window(state) }
      : { points: length, span: [0, length] };
  }

  /** Makes the turn behind a step: words of the tool, a picture, and the number of turns that are left. */
  #turn(state: InspectionState, text: string, drawing: Observation['drawing']): Observation {
    const left = `${this.#options.turns - state.turn} left`;
    const words = (...parts: readonly string[]): string => [...parts, left].filter(Boolean).join('; ');
    if (this.#options.memory === 'turns') return { text: words(text), drawing };
    const { points, span } = this.#frame(state);
    const scale = points / (span[1] - span[0]);
    const marks = clipAndMerge(
      state.marks.map(([start, end]) => [
        Math.round((start - span[0]) * scale),
        Math.max(1, Math.round((end - span[0]) * scale)),
      ]),
      points,
    );
    const marked = marks.length === 0 ? '' : `marked ${JSON.stringify(marks).replaceAll(',', ', ')}`;
    return {
      text: `${this.#options.question} ${words(...state.seen, marked, text)}`,
      drawing: drawing ?? { window: this.#window(state) },
    };
  }

  #called(state: InspectionState, name: string, result: ToolResult): Transition {
    const { view = state.view, marks = [], text = '', lines } = result;
    const turn = state.turn + 1;
    const { level, place } = result.view ?? state.view;
    // A window that was left and shown again is the same evidence: windows are listed by the calls made in them.
    const call =
      name === 'mark' ? `mark@${state.view.level}.${state.view.place}` : `${name}@${level}.${place}`;
    const seen = [...new Set([...state.seen, call])].sort();
    const next: InspectionState = {
      ...state,
      ...{ view, seen, turn },
      marks: clipAndMerge([...state.marks, ...marks], this.#values.length),
    };
    const drawing = lines ?? (result.view === undefined ? null : { window: this.#window(next) });
    return { state: next, observation: this.#turn(next, text, drawing), problem: null };
  }

  /** A step that failed: told, or without a turn left the end. */
  #failed(state: InspectionState, error: unknown): Transition {
    // A tool of ours that throws otherwise has a defect; of users every error comes as a ToolFailure.
    if (!(error instanceof ToolFailure)) throw error;
    const problem = error.message.replace(/[<>|]/g, ' ').slice(0, 200);
    const turn = state.turn + 1;
    const over = turn >= this.#options.turns;
    const next = { ...state, turn, failures: state.failures + 1, answer: over ? '' : null };
    const observation = over ? null : this.#turn(next, `failed: ${problem}`, null);
    return { state: next, observation, problem };
  }

  /**
   * Rewrites an answer for the whole series: intervals in samples, with those that were marked; the path in place of the scan, whose cells
   * are those of a window. A malformed answer stays malformed.
   */
  #answerOf(state: InspectionState, response: string): string {
    const { length } = this.#values;
    const frame = this.#frame(state);
    const { intervals, wellFormed } = parseAnswer(response, frame.points);
    // Steps beyond the window might be read as samples of the series.
    if (intervals === null) return response.replace(/<\/?answer>/gi, ' ');
    const all = clipAndMerge([...state.marks, ...samplesOf(intervals, frame)], length);
    const list = JSON.stringify(all.map(([start, end]) => [start, end]));
    const text = response.replace(
      /(<answer>)(?![\s\S]*<answer>)[\s\S]*?(<\/answer>)/i,
      (_, open: string, close: string) => `${open}${list}${close}`,
    );
    const think = reasoningRange(text);
    const path = `looked at ${state.seen.length === 0 ? 'the whole' : state.seen.join(', ')}`;
    const whole =
      think === null || this.#options.frame === 'series'
        ? text
        : `${text.slice(0, think[0])}${[path, behindScan(text.slice(...think))].filter(Boolean).join('; ')}${text.slice(think[1])}`;
    return wellFormed ? whole : `malformed: ${whole}`;
  }
}

/** Returns what a reasoning says behind its scan: the departures. What comes before is about the window, not the series. */
const behindScan = (think: string): string => /\bscan [.()#ox\d]*(?:; )?(.*)$/s.exec(think)?.[1] ?? '';
