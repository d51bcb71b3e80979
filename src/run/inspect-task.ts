/** Tasks of several turns: the environment of a policy's card, and the steps of scripted paths as examples of the supervised stage. */
import type { DataFacts } from '../../datasets/source.ts';
import { ConfigError, TimeseerError } from '../ground/errors.ts';
import { checkWhole } from '../ground/json-record.ts';
import { getOrMake } from '../ground/maps.ts';
import { Random } from '../ground/random.ts';
import type { Example, Picture } from '../ground/types.ts';
import { isModuleSpecifier } from '../ground/user-module.ts';
import { CodeInspection } from '../inspect/code.ts';
import { framePoints, Inspection, type Observation, viewOfKey } from '../inspect/environment.ts';
import { codePrompt } from '../inspect/sandbox.ts';
import { scriptOf, stepsToAnswer } from '../inspect/script.ts';
import { plainTools, TOOL_NAMES, type Tool, type Toolbox } from '../inspect/tools.ts';
import { figure } from '../plot/figure.ts';
import type { InspectCard, PolicyCard } from '../tasks/card.ts';
import { taskKind } from '../tasks/kinds.ts';
import type { Episodes, Task } from '../train/task.ts';

type InspectingCard = PolicyCard & { readonly inspect: InspectCard };

type InspectedFacts = Pick<DataFacts, 'title' | 'kind' | 'channels'>;

/** @throws ConfigError for data whose series cannot be inspected */
export function checkInspect({ title, kind, channels }: InspectedFacts): void {
  if (taskKind(kind).localises && channels.length === 1) return;
  throw new ConfigError(
    `inspect: ${title} asks for ${taskKind(kind).answers} of ${channels.length} channels; an inspection finds intervals in one channel: choose other data, or leave inspect out`,
  );
}

/** Inspection of a policy that was not trained to: all tools of timeseer. */
const DEFAULT_INSPECT: InspectCard = {
  ...{ turns: 6, tools: TOOL_NAMES, lengths: null },
  ...{ detours: 0, calls: 0, penalty: 0.1, success: 0.8 },
};

/** Responses of an inspection by code, as in CaveAgent. */
const CODE_TURNS = 10;

/** Forms of an inspection that large policies alone can take. */
export interface InspectForm {
  readonly runtime?: 'tools' | 'code' | undefined;
  readonly history?: 'turns' | 'optical' | undefined;
  /** Levels of windows that a small policy is shown without calling for them. */
  readonly tour?: number | undefined;
}

const MOST_LEVELS = 6;

/** Returns the card of a policy that looks closer before it answers. @throws ConfigError for a small policy that never learned to */
export function withInspect(
  card: PolicyCard,
  facts: InspectedFacts,
  { runtime, history, tour }: InspectForm = {},
): PolicyCard {
  if (tour !== undefined) {
    checkInspect(facts);
    if (card.style !== 'nano')
      throw new ConfigError('--tour: for small policies, which answer about single windows; leave it out');
    checkWhole('tour', tour, 1, MOST_LEVELS);
    return { ...card, inspect: { ...(card.inspect ?? DEFAULT_INSPECT), tour } };
  }
  const form = {
    ...(runtime === 'code' ? { runtime, turns: CODE_TURNS, tools: [] } : {}),
    ...(history === 'optical' ? { history } : {}),
  };
  const isPlain = Object.keys(form).length === 0;
  if (card.inspect !== undefined && isPlain) return card;
  checkInspect(facts);
  if (card.style === 'full' && card.numbers === null) {
    return { ...card, inspect: { ...(card.inspect ?? DEFAULT_INSPECT), ...form } };
  }
  if (card.style === 'nano' && !isPlain) {
    throw new ConfigError(
      '--runtime code, --history optical: small policies neither write code nor read pictures of text; leave them out',
    );
  }
  throw new ConfigError(
    card.style === 'full'
      ? 'inspect: a policy that reads numbers sees no pictures; leave --input numbers out'
      : 'inspect: this policy was not trained to look closer; ask `inspect`, which ships, or train one with `timeseer train --recipe inspect`',
  );
}

/** Describes the tools to a large policy. */
function toolHelp(tools: Readonly<Record<string, Tool>>, turns: number): string {
  const lines = Object.values(tools).map(({ usage, summary }) => `- <tool>${usage}</tool>: ${summary}`);
  return [
    `Before you answer you may look closer, in at most ${turns} responses, the answer included. A response is either the answer or your reasoning with one call:`,
    ...lines,
    'Indices always count the points of the whole series.',
  ].join('\n');
}

interface EpisodeParts {
  /** Writes the question of an example. */
  readonly question: (example: Example) => string;
  /** Opened tools; undefined: those of timeseer alone. */
  readonly tools: Toolbox['tools'] | undefined;
}

/** Makes the inspection of a series by a policy with this card; `asked`: the question of the first turn; `sharpen`: short marks are moved to the spike near them. */
export function inspectionOf(
  { style, inspect: { turns, runtime, tour = 0 }, figure }: InspectingCard,
  example: Pick<Example, 'id' | 'channels'>,
  asked: string,
  tools: Toolbox['tools'],
  sharpen = false,
): Inspection {
  const isCode = runtime === 'code';
  const help = isCode ? codePrompt(example.channels[0]!.length, turns) : toolHelp(tools, turns);
  const question = style === 'nano' ? asked : `${asked}\n${help}`;
  const form =
    style === 'nano'
      ? ({ frame: 'window', memory: 'state', tour, sharpen } as const)
      : ({ frame: 'series', memory: 'turns' } as const);
  return new (isCode ? CodeInspection : Inspection)(example, { tools, turns, figure, question, ...form });
}

/** Two agents with the same weights: one sees the whole and says where to look, the other answers about the windows. */
const roleOf = (state: string): string => (viewOfKey(state).level === 0 ? 'whole' : 'window');

/** Composes the environment of a policy's card. @throws ConfigError for an unknown tool */
export function episodesOf(card: InspectingCard, parts: EpisodeParts): Episodes {
  const { turns, penalty, success, history, tools: uses } = card.inspect;
  const tools = parts.tools ?? plainTools(uses.filter((use) => !isModuleSpecifier(use)));
  const opened = new WeakMap<Example, Inspection>();
  return {
    ...{ turns, penalty, success },
    role: roleOf,
    ...(card.style === 'nano'
      ? { stepsFrom: (example) => stepsToAnswer(example, framePoints(figure(card.figure))) }
      : {}),
    ...(history === undefined ? {} : { history }),
    open(example) {
      return getOrMake(opened, example, () => inspectionOf(card, example, parts.question(example), tools));
    },
  };
}

/** Draws each example from one of several tasks, which differ in the length of the series. */
export function mixedTask<T extends Task>(tasks: readonly T[], seed: number): T {
  const [first] = tasks as readonly [T, ...T[]];
  if (tasks.length === 1) return first;
  return {
    ...first,
    example: (index) =>
      tasks[new Random(seed, 'inspection lengths', index).integer(0, tasks.length - 1)]!.example(index),
  };
}

/** Place of an example of the supervised stage: a step of the path through a series. */
interface ScriptPlace {
  readonly start: Example;
  readonly responses: readonly string[];
  readonly at: number;
}

/** Indices behind those of the first series of a pair; a path of one step gives one example only. */
const SECOND = 2 ** 30;

/**
 * Makes an example of each step of scripted paths: its prompt is the history, its trace the response. Two examples are from one series where
 * its path has two steps to learn.
 */
export function scriptedTask<T extends Task>(task: T, card: InspectingCard, seed: number, levels: number): T {
  const { turns, tools, detours, calls } = card.inspect;
  const shape = figure(card.figure);
  const points = framePoints(shape);
  const coordinates = { points, steps: shape.overlay === null ? 100 : points };
  const cells = Math.max(1, Math.round(shape.width / 28));
  const further = (['compare', 'spectrum', 'stats'] as const).filter((name) => tools.includes(name));
  const places = new WeakMap<Example, ScriptPlace>();
  const looks = tools.includes('next');
  /** Path through a series, for both examples of a pair. */
  const scriptAt = (series: number, withLevels: boolean): Omit<ScriptPlace, 'at'> => {
    const start = task.example(series);
    const random = new Random(seed, 'scripted inspection', series);
    const form = { turns, looks, detours, calls, tools: further };
    const responses = scriptOf(start, random, { ...form, ...coordinates, cells, levels: withLevels });
    return { start, responses };
  };
  let last: { readonly key: string; readonly script: Omit<ScriptPlace, 'at'> } | null = null;
  const placeOf = (index: number, series: number, nth: number): ScriptPlace | null => {
    const withLevels = index < levels;
    const key = `${series} ${withLevels}`;
    if (last?.key !== key) last = { key, script: scriptAt(series, withLevels) };
    const { script } = last;
    const at = new Random(seed, 'inspection steps', series).permutation(script.responses.length)[nth];
    return at === undefined ? null : { ...script, at };
  };
  const seen = new WeakMap<ScriptPlace, readonly Observation[]>();
  /** Observations up to the step of an example. */
  const observations = (place: ScriptPlace): readonly Observation[] => {
    const known = seen.get(place);
    if (known !== undefined) return known;
    const { start, responses, at } = place;
    const inspection = task.episodes!.open(start);
    let { state, observation } = inspection.reset();
    const out = [observation];
    for (const response of responses.slice(0, at)) {
      const transition = inspection.step(state, response);
      if (transition instanceof Promise || transition.observation === null) {
        throw new TimeseerError(`${start.id}: the scripted path ends early`);
      }
      ({ state, observation } = transition as { state: typeof state; observation: Observation });
      out.push(observation);
    }
    seen.set(place, out);
    return out;
  };
  return {
    ...task,
    example(index) {
      const pair = index >> 1;
      const place =
        index % 2 === 0
          ? placeOf(index, pair, 0)
          : (placeOf(index, pair, 1) ?? placeOf(index, SECOND + pair, 0));
      const example = { ...place!.start, id: `${place!.start.id}/${place!.at}` };
      places.set(example, place!);
      return example;
    },
    instruction: (example) => observations(places.get(example)!).at(-1)!.text,
    trace: (example) => {
      const { responses, at } = places.get(example)!;
      return responses[at]!;
    },
    async turns(example) {
      const place = places.get(example)!;
      const inspection = task.episodes!.open(place.start);
      const all = observations(place);
      const shown = inspection.memory === 'state' ? all.slice(-1) : all;
      const pictures: (Picture | null)[] = [];
      for (const observation of shown) pictures.push(await inspection.picture(observation));
      const shots = shown.slice(0, -1).map(({ text }, i) => ({
        ...{ picture: pictures[i]!, instruction: text },
        response: place.responses[i]!,
      }));
      return { shots, picture: pictures.at(-1)!, instruction: shown.at(-1)!.text };
    },
  };
}
