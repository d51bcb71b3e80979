/**
 * Task as one policy gets it: its card (from its training, else from recipe and data), figure, prompt, expert traces and reward.
 */

import {
  BENCHMARK_PROMPTS,
  limitationsOf,
  nanoFigure,
  promptFor,
} from '../../datasets/benchmarks/registry.ts';
import { lengthOf } from '../../datasets/example.ts';
import { classesOf, storedTraces } from '../../datasets/materials.ts';
import {
  type DataFacts,
  EpochOrder,
  type ExampleAddress,
  type ExampleSource,
  isGenerator,
  openExamples,
  reinforcementExamples,
  trainingExamples,
} from '../../datasets/source.ts';
import type { EvalTask } from '../../eval/harness.ts';
import type { Extension } from '../../rewards/judge.ts';
import type { RewardOptions } from '../../rewards/reward.ts';
import { CLASSIFICATION_WEIGHTS } from '../../rewards/timemaster.ts';
import { counterfactual } from '../claims/intervene.ts';
import {
  agreementOf,
  type CheckOptions,
  checkReasoning,
  gradeEnds,
  graderOf,
  type ReasoningGrader,
} from '../claims/reasoning.ts';
import type { ClassProfile } from '../expcot/class-profile.ts';
import { SCAN } from '../expcot/nano.ts';
import { resample } from '../explain/windows.ts';
import { ConfigError, DataError, TimeseerError } from '../ground/errors.ts';
import { getOrMake } from '../ground/maps.ts';
import { plural } from '../ground/numbers.ts';
import { Random } from '../ground/random.ts';
import type { Example } from '../ground/types.ts';
import type { Toolbox } from '../inspect/tools.ts';
import { PictureCache } from '../plot/cache.ts';
import { axesText, type Figure, figure, isBare } from '../plot/figure.ts';
import { render, renderColumns } from '../plot/raster.ts';
import type { Recipe } from '../recipe/recipe.ts';
import { type Augmentation, augment, UNCHANGED } from '../series/augment.ts';
import { mapBack } from '../series/intervals.ts';
import { bridge } from '../series/missing.ts';
import {
  checkedCard,
  FOREIGN_CARD,
  hasCard,
  type NumbersFormat,
  type PolicyCard,
  readCard,
} from '../tasks/card.ts';
import { checkFigure, columnsOf, drawingOf } from '../tasks/drawing.ts';
import { extensionTrace, hasExtension } from '../tasks/extension.ts';
import {
  genericTrace,
  markedShare,
  nanoTrace,
  ownQuestion,
  parseResponse,
  scoreAnswer,
  taskKind,
  teacherTrace,
} from '../tasks/kinds.ts';
import { numericText } from '../tasks/numeric-text.ts';
import { instruction, teacherInstruction } from '../tasks/prompt.ts';
import { letterOf } from '../tasks/question.ts';
import { type Reading, reasoningRange } from '../tasks/response.ts';
import type { StatedClaims, Task } from '../train/task.ts';
import { checkInspect, episodesOf, mixedTask, scriptedTask } from './inspect-task.ts';

/** Figure key for the figure of the data set. */
const OF_TASK = 'task';
/** Figure for foreign policies where the data set states none. */
const USUAL = 'anomllm';
/** Default figure of a recipe. */
const NANO = 'nano';

const factsOf = ({
  kind,
  task,
  classes,
}: DataFacts): Pick<PolicyCard, 'kind' | 'task' | 'classes' | 'limitations'> => ({
  ...{ kind, task },
  classes: [...classes],
  limitations: limitationsOf(task),
});

/** Number of channels of a small policy; null for variates, of which there may be any number. */
const channelsOf = ({ kind, channels }: DataFacts): number | null =>
  taskKind(kind).countsChannels ? null : channels.length;

/** Returns true for a policy that answers with what the data ask for: a large one always does. */
export const answersKind = ({ style, kind }: PolicyCard, facts: DataFacts): boolean =>
  style !== 'nano' || kind === facts.kind;

/** @throws ConfigError where a small policy was trained on another answer kind */
function checkKind(directory: string, card: PolicyCard, facts: DataFacts): void {
  if (answersKind(card, facts)) return;
  const { kind } = card;
  throw new ConfigError(
    `${directory}: was trained to answer with ${taskKind(kind).answers}, but ${facts.task} asks for ${taskKind(facts.kind).answers}; ` +
      'choose a data set of its answer kind, or train it on this one with a supervised stage (timeseer sft)',
  );
}

/** Returns the figure: a small policy's own, or that of the data set for a large one. */
function figureOf(card: PolicyCard, { task, figure: shown }: DataFacts): string {
  return card.style === 'nano' || shown === null || card.task === task ? card.figure : shown.preset;
}

/**
 * Returns the card of a policy that is asked for advice after its answer.
 * @throws ConfigError where the data have no classes, or state no advice to ask for
 */
export function withExtension(card: PolicyCard, facts: DataFacts): PolicyCard {
  if (hasExtension(promptFor(facts.task, facts.kind, facts.title, facts.prompt)))
    return { ...card, extension: true };
  const names = BENCHMARK_PROMPTS.filter(hasExtension).map(({ name }) => name);
  throw new ConfigError(
    `${facts.title}: no advice is asked for with these data; leave the extension out, or take one of ${names.join(', ')}`,
  );
}

/**
 * Sets the extension and the inspection of a card by the recipe.
 * @throws ConfigError for an inspection of data other than anomalies in one channel
 */
function extended(card: PolicyCard, recipe: Recipe, facts: DataFacts): PolicyCard {
  const { extension: _, inspect: __, reasoning, ...rest } = card;
  const { inspect, sft } = recipe;
  // A supervised stage decides; reinforcement alone keeps the form that the policy has.
  const isBare = sft.samples > 0 ? sft.traces === 'none' : reasoning === false;
  const plain: PolicyCard = isBare ? { ...rest, reasoning: false } : rest;
  if (inspect.turns > 0) checkInspect(facts);
  const isForLarge = inspect.runtime === 'code' || inspect.history === 'optical';
  if (inspect.turns > 0 && card.style === 'nano' && isForLarge) {
    throw new ConfigError(
      'inspect.runtime code, inspect.history optical: small policies neither write code nor read pictures of text; set policy.init to a large one',
    );
  }
  const looking = inspect.turns === 0 ? plain : { ...plain, inspect };
  return recipe.extension.ask ? withExtension(looking, facts) : looking;
}

/** Returns the card of a new nano policy. @throws ConfigError for a figure that is unknown, or that the data set does not name */
export function nanoCard(recipe: Recipe, facts: DataFacts): PolicyCard {
  const { figure: wanted, input, numbers } = recipe;
  if (wanted === OF_TASK && facts.figure === null) {
    throw new ConfigError(`figure: ${facts.title} names no figure of its own; give a preset, such as nano`);
  }
  if (taskKind(facts.kind).readsWords) {
    throw new ConfigError(
      `${facts.title}: a nano or small policy has no vocabulary for questions; start from a Qwen2.5-VL checkpoint (--set policy.init=DIR)`,
    );
  }
  const preset = wanted === OF_TASK ? facts.figure!.preset : wanted === NANO ? nanoFigure(facts) : wanted;
  checkFigure(preset);
  const card: PolicyCard = {
    version: 1,
    style: 'nano',
    figure: preset,
    length: facts.length,
    ...factsOf(facts),
    channels: channelsOf(facts),
    numbers: input === 'numbers' ? { ...numbers } : null,
    stage: 'initial',
  };
  return checkedCard(extended(card, recipe, facts));
}

/**
 * Returns the card of the policy in `directory` for training on a data set. A policy trained here keeps its figure; a foreign one gets that
 * of the recipe or the data set. Both get the data set's question.
 */
export function trainingCard(directory: string, recipe: Recipe, facts: DataFacts): PolicyCard {
  const card = readCard(directory);
  const { input, numbers } = recipe;
  if (hasCard(directory)) {
    if ((card.numbers !== null) !== (input === 'numbers')) {
      throw new ConfigError(
        `input: ${input}, but the policy of ${directory} was trained with ${card.numbers === null ? 'pictures' : 'numbers'}; ` +
          `set input=${card.numbers === null ? 'picture' : 'numbers'}, or start from another policy`,
      );
    }
    // A supervised stage teaches another kind of answer; its plots are read by then.
    if (recipe.sft.samples === 0) checkKind(directory, card, facts);
    if (card.style === 'nano') checkTaught(directory, card, recipe, facts);
    // Coordinates of answers are taught by a supervised stage alone; without one, series are resampled to those that the policy knows.
    const length = card.length === null || recipe.sft.samples === 0 ? card.length : facts.length;
    const channels = card.channels === null ? null : channelsOf(facts);
    const adapted = { ...card, ...factsOf(facts), length, channels, figure: figureOf(card, facts) };
    return checkedCard(extended(adapted, recipe, facts));
  }
  const preset = recipe.figure === NANO || recipe.figure === OF_TASK ? facts.figure?.preset : recipe.figure;
  checkFigure(preset ?? USUAL);
  const shown = { ...card, figure: preset ?? USUAL, ...factsOf(facts) };
  const read = { ...shown, numbers: input === 'numbers' ? { ...numbers } : null };
  return checkedCard(extended(read, recipe, facts));
}

/** Refuses data that a small policy's former training rules out. @throws ConfigError */
function checkTaught(directory: string, card: PolicyCard, recipe: Recipe, facts: DataFacts): void {
  const { figure: wanted, sft } = recipe;
  if (wanted !== NANO && wanted !== OF_TASK && wanted !== card.figure) {
    throw new ConfigError(
      `figure: ${wanted}, but the policy of ${directory} was trained with ${card.figure}; leave the figure out, or start from policy.init=nano`,
    );
  }
  const channels = channelsOf(facts);
  if (card.channels !== null && channels !== null && card.channels !== channels) {
    // A supervised stage teaches to read further rows; in one plot lines would hide each other.
    const { rows, overlay } = figure(card.figure);
    const isTaught = card.numbers !== null || rows !== null || overlay !== null;
    if (sft.samples === 0 || !isTaught) {
      throw new ConfigError(
        `${directory}: was trained on series of ${plural(card.channels, 'channel')}, ${facts.task} has ${plural(channels, 'channel')}; choose data with as many, ` +
          `or start ${isTaught ? 'with a supervised stage on these data (timeseer sft)' : 'from policy.init=small or nano'}`,
      );
    }
  }
  const shared = card.classes.some((name) => facts.classes.includes(name));
  if (sft.samples === 0 && facts.classes.length > 0 && !shared) {
    throw new ConfigError(
      `${directory}: was trained on the classes ${card.classes.join(', ')}, and ${facts.task} has others (${facts.classes.join(', ')}); ` +
        'reinforcement cannot add classes: start with a supervised stage on these data (timeseer sft)',
    );
  }
}

/**
 * Returns the card to evaluate a policy with. A small policy answers the question of its training only; any other gets that of the data set.
 * @throws ConfigError where a small policy was trained on another answer kind
 */
export function evaluationCard(
  directory: string,
  facts: DataFacts,
  numbers?: PolicyCard['numbers'],
): PolicyCard {
  const card = readCard(directory);
  checkKind(directory, card, facts);
  const drawn = hasCard(directory) ? figureOf(card, facts) : (facts.figure?.preset ?? USUAL);
  const { extension = false, ...plain } = card;
  const advises = extension && hasExtension(promptFor(facts.task, facts.kind, facts.title, facts.prompt));
  return {
    ...plain,
    ...(advises ? { extension } : {}),
    ...factsOf(facts),
    figure: drawn,
    numbers: numbers === undefined ? card.numbers : numbers,
  };
}

/** Returns the card of a policy without a directory: an endpoint or a program. */
export function foreignCard(facts: DataFacts, numbers: PolicyCard['numbers']): PolicyCard {
  return { ...FOREIGN_CARD, ...factsOf(facts), figure: facts.figure?.preset ?? USUAL, numbers };
}

/** Lists reasons why the answers of a small policy may say little about a data set; empty for a large one. */
export function mismatches(directory: string, asked: PolicyCard, facts: DataFacts): string[] {
  const card = readCard(directory);
  if (card.style !== 'nano') return [];
  const strange = facts.classes.filter((name) => !card.classes.includes(name));
  const channels = channelsOf(facts);
  const [was, is] = [card, asked].map(({ numbers }) => (numbers === null ? 'pictures' : 'numbers'));
  return [
    ...(strange.length === 0 || taskKind(facts.kind).classes !== 'data'
      ? []
      : [
          `the policy was never trained on ${strange.length === facts.classes.length ? 'any of the classes' : `the classes ${strange.join(', ')}`}`,
        ]),
    ...(card.channels === null || channels === null || card.channels === channels
      ? []
      : [`the policy was trained on series of ${plural(card.channels, 'channel')}, these have ${channels}`]),
    ...(was === is ? [] : [`the policy was trained with ${was}, and is asked with ${is}`]),
  ];
}

/** Edge of a visual token in pixels: 2 × 2 patches of 14. */
const VISUAL_TOKEN = 28;

/** Task without its examples. */
export interface ExampleTask extends Omit<Task, 'example' | 'score' | 'reasoned'>, EvalTask {
  /** Returns the grader of reasonings about an example, as the policy sees it. */
  grader(example: Example): ReasoningGrader;
  /** Appends the advice to a trace, where advice is asked for. */
  traced(trace: string, example: Example): string;
  /** Returns the extension of a response for a judge; null where it is not asked for, or the answer is wrong or ill-formed. */
  extension(response: string, example: Example): Extension | null;
}

/** Task over training examples, with the reward of its answer kind. */
export type TrainingTask = ExampleTask & Pick<Task, 'example'>;

/** Parts of a task beside the card. */
export interface TaskParts {
  readonly facts: DataFacts;
  /** Profile of the classes, learned from the training split; traces of classifications need it. */
  readonly profile?: () => ClassProfile | null;
  /** Parsing of answers. Default: lenient. */
  readonly reading?: Reading;
  /** True (default): ask for reasoning before the answer. */
  readonly reasoning?: boolean;
  /** Grading of intervals in reinforcement. Default: the paper's, as in evaluation. */
  readonly reward?: RewardOptions;
  /** Cache of pictures, for examples that come again. */
  readonly cache?: PictureCache;
  /** Returns true for examples whose trace names the levels of the cells. */
  readonly levels?: (example: Example) => boolean;
  /** Opened tools of an inspection. Default: those of timeseer alone. */
  readonly tools?: Toolbox['tools'];
}

/** Returns the function that draws examples with a preset. @throws ConfigError for an unknown preset */
function painter(preset: string, { facts, cache }: TaskParts): Task['picture'] {
  const plain = figure(preset);
  const missing = facts.figure?.missing ?? plain.missing;
  if (!isBare(plain)) {
    return (example) => {
      const { figure: shape, values, times } = drawingOf(example, { preset, missing });
      return cache === undefined ? render(shape, values, times) : cache.render(shape, values, times);
    };
  }
  if (plain.overlay !== null) {
    return (example) => {
      const { figure: shape, values } = drawingOf(example, { preset, missing });
      return renderColumns(shape, values);
    };
  }
  const shapes = new Map<string, Figure>();
  return ({ channels, names }) => {
    if (channels.length === 1 && plain.channels.length === 1) return renderColumns(plain, channels[0]!);
    const shape = getOrMake(shapes, names.join('\n'), () => figure(preset, { channels: names }));
    return isBare(shape) ? renderColumns(shape, channels) : render(shape, channels);
  };
}

/** Writes a series as text; several channels get their names. */
function written({ channels, names }: Example, { digits, points }: NumbersFormat) {
  return numericText(channels, { digits, points, ...(channels.length > 1 ? { names } : {}) });
}

/** Resamples a series to a number of points, with the intervals and facts of its answer, as `explain` does with windows. */
function resampled(example: Example, points: number): Example {
  const { channels, gold, facts } = example;
  const whole = lengthOf(example);
  const scale = points / whole;
  const known = (values: Float64Array): Float64Array =>
    values.some(Number.isFinite) ? bridge(values).values : values;
  const intervals = 'intervals' in gold ? mapBack(gold.intervals, whole, [0, points]) : [];
  // Intervals that have become one share no facts.
  const isTold = facts !== undefined && facts.departures.length === intervals.length;
  const { facts: _, ...rest } = example;
  return {
    ...rest,
    channels: channels.map((values) => resample(known(values), points)),
    times: null,
    gold: 'intervals' in gold ? { ...gold, intervals } : gold,
    ...(isTold
      ? {
          facts: {
            ...facts,
            periods: facts.periods.map((period) => period * scale),
            step: facts.step / scale,
          },
        }
      : {}),
  };
}

const ANSWER_TAGS = ['<answer>', '</answer>'] as const;

/** Finds the claims of a response with their verdicts and corrections: facts, cells of the scan, and ends of the answer. */
function statedClaims(
  response: string,
  example: Example,
  parse: EvalTask['parse'],
  classes: readonly string[],
  grader: ReasoningGrader,
): StatedClaims {
  const [start, end] = reasoningRange(response) ?? [0, 0];
  const think = response.slice(start, end);
  const grade = grader.grade(think);
  const at = (from: number, to: number) => [start + from, start + to] as const;
  const stated = grade.claims.flatMap((graded) => {
    const { claim, fact, verdict, correction } = graded;
    if (graded.void || verdict.verdict === 'unchecked') return [];
    return [{ fact, span: at(...claim.span), holds: verdict.verdict === 'true', correction }];
  });
  const cells = grade.cells.map(({ span, holds }, k) => ({ fact: `cell ${k}`, span: at(...span), holds }));
  const answer = parse(response, example);
  const length = lengthOf(example);
  const claims = grade.claims.map(({ claim }) => claim);
  const agrees = think === '' ? null : agreementOf(think, claims, answer, classes, length);
  const symbols = SCAN.exec(think)?.[1];
  const answered = answer.intervals === null ? -1 : response.indexOf(ANSWER_TAGS[1], end);
  const ends =
    symbols === undefined || answered < 0 ? [] : gradeEnds(response, [end, answered], symbols, length);
  const concluded =
    ends.length > 0
      ? ends.map(({ part, ...graded }) => ({ fact: `answer ${part}`, ...graded }))
      : agrees === null
        ? []
        : [{ fact: 'conclusion', span: [end, response.length] as const, holds: agrees }];
  // The conclusion is one fact more.
  const right = grade.recalled + (agrees === true ? 1 : 0);
  const wrong = grade.false + (agrees === false ? 1 : 0);
  const all = grade.facts + (agrees === null ? 0 : 1);
  const amendments = grade.amendments.map(({ fact, span, text }) => {
    return { fact, span: at(...span), holds: false, correction: text };
  });
  return {
    claims: [...stated, ...cells, ...concluded],
    amendments,
    f1: all === 0 ? null : (2 * right) / (right + wrong + all),
  };
}

/** Composes the task of a card over examples of a data set. */
export function exampleTask(card: PolicyCard, parts: TaskParts): ExampleTask {
  const { facts, profile = () => null, reading = 'lenient' } = parts;
  const { style, numbers, extension = false } = card;
  const reasoning = card.reasoning ?? parts.reasoning ?? true;
  const missing = facts.figure?.missing ?? figure(card.figure).missing;
  const prompt = promptFor(card.task, card.kind, facts.title, facts.prompt);
  const { width, overlay } = figure(card.figure);
  const cells = Math.max(1, Math.round(width / VISUAL_TOKEN)); // one scan symbol per visual token of a row
  // With an overlay, traces also state single steps.
  const coordinates = overlay === null ? { cells } : { cells, steps: width };
  const axesOf = (example: Example): { readonly axes?: string } => {
    if (style === 'nano') return {};
    const { figure: shape, times } = drawingOf(example, { preset: card.figure, missing });
    return { axes: axesText(shape, lengthOf(example), times) };
  };
  const resizes =
    style === 'nano' &&
    numbers === null &&
    card.length !== null &&
    card.inspect === undefined &&
    taskKind(card.kind).localises;
  const seenAs = new WeakMap<Example, Example>();
  const columns = style === 'nano' && card.inspect !== undefined && overlay !== null ? width : null;
  const seenAnew = (example: Example): Example | null => {
    if (resizes) return lengthOf(example) === card.length ? null : resampled(example, card.length!);
    // Without a generator's facts, traces speak of samples.
    if (columns === null || example.facts === undefined || example.plotted !== undefined) return null;
    return { ...example, plotted: example.channels.map((values) => columnsOf(values, columns)) };
  };
  /**
   * Small policies answer in points of the length that they were taught: other series are resampled to it. Those that look closer answer in
   * points of any series, and state facts of its plot.
   */
  const asSeen = (example: Example): Example =>
    getOrMake(seenAs, example, () => seenAnew(example) ?? example);
  const parse: EvalTask['parse'] = (response, example) => {
    const seen = asSeen(example);
    const own = ownQuestion(example.gold);
    const answer = parseResponse(response, {
      kind: example.gold.kind,
      length: lengthOf(seen),
      channels: example.channels.length,
      classes: Object.keys(own.among ?? {}).concat(own.among === undefined ? facts.classes : []),
      options: own.question?.options ?? [],
      ...{ reading, reasoning, extension },
    });
    if (seen === example || answer.intervals === null) return answer;
    return { ...answer, intervals: mapBack(answer.intervals, lengthOf(seen), [0, lengthOf(example)]) };
  };
  const score: EvalTask['score'] = (response, example) =>
    scoreAnswer(parse(response, example), example.gold, lengthOf(example), parts.reward);
  const traced = (text: string, { channels, names, gold }: Example): string => {
    const name = taskKind(gold.kind).className(gold);
    if (!extension || name === null) return text;
    return `${text}<extension>${extensionTrace({ channels, names }, name, prompt, style)}</extension>`;
  };
  const expertTrace = (example: Example): string =>
    style === 'nano'
      ? nanoTrace(example, profile(), { ...coordinates, levels: parts.levels?.(example) ?? false })
      : teacherTrace(example, profile()).text;
  const traces = new WeakMap<Example, string | null>();
  /** Returns what reasonings about an example, as it is seen, are checked against. */
  const checksOf = (seen: Example): CheckOptions => {
    if (!traces.has(seen)) traces.set(seen, reasoning ? orNothing(() => expertTrace(seen)) : null);
    learned ??= { profile: orNothing(profile) };
    const options = ownQuestion(seen.gold).question?.options ?? [];
    const letters = options.map((_, i) => letterOf(i));
    return { classes: letters.length > 0 ? letters : facts.classes, ...learned, trace: traces.get(seen)! };
  };
  let learned: { readonly profile: ClassProfile | null } | undefined;
  /** Null for what the analyses cannot explain, such as a series that is too short, or classes of one example: nothing is compared with it. */
  const orNothing = <T>(compute: () => T): T | null => {
    try {
      return compute();
    } catch (error) {
      if (error instanceof DataError || error instanceof ConfigError) return null;
      throw error;
    }
  };
  const question = (example: Example): string =>
    instruction(style, prompt, {
      length: lengthOf(example),
      channels: example.names,
      classes: card.classes,
      ...{ reasoning, extension },
      ...ownQuestion(example.gold),
      ...(numbers === null ? axesOf(example) : { numbers: written(example, numbers) }),
    });
  const { inspect } = card;
  const episodes =
    inspect === undefined ? undefined : episodesOf({ ...card, inspect }, { question, tools: parts.tools });
  const observation = (example: Example) => episodes!.open(example).reset().observation;
  const paint = painter(card.figure, parts);
  return {
    name: facts.task,
    weights: {
      ...taskKind(facts.kind).reward.weights,
      ...(extension ? { extension: CLASSIFICATION_WEIGHTS.extension } : {}),
    },
    picture:
      episodes !== undefined
        ? (example) => episodes.open(example).picture(observation(example))
        : numbers === null
          ? (example) => paint(asSeen(example))
          : () => null,
    instruction: episodes === undefined ? question : (example) => observation(example).text,
    ...(episodes === undefined ? {} : { episodes }),
    teacherInstruction: (example, trace) => teacherInstruction(style, question(example), trace),
    trace: (example) => {
      const seen = asSeen(example);
      const text = reasoning ? expertTrace(seen) : taskKind(seen.gold.kind).parts(seen.gold, true);
      return traced(text, example);
    },
    traced,
    asSeen,
    genericTrace: genericTrace(facts.kind, style),
    reasoning: reasoningRange,
    parse,
    score,
    extension(response, example) {
      const { accuracy, format } = score(response, example).parts;
      const { extension: text } = parse(response, example);
      const name = taskKind(example.gold.kind).className(example.gold);
      if (text == null || name === null || accuracy !== 1 || format !== 1) return null;
      const { context, advice } = prompt;
      return { text, asked: advice ?? '', context, class: name, classes: facts.classes, example };
    },
    classes: facts.classes,
    grader: (example) => graderOf(asSeen(example), checksOf(asSeen(example))),
    claims: (response, example) => {
      const seen = asSeen(example);
      return statedClaims(response, seen, parse, facts.classes, graderOf(seen, checksOf(seen)));
    },
    counterfactual: (response, example, random) => {
      const seen = asSeen(example);
      const { wellFormed, intervals } = parse(response, seen);
      const reasoned = reasoningRange(response);
      if (!wellFormed || intervals === null || reasoned === null) return null;
      const opening = response.indexOf(ANSWER_TAGS[0], reasoned[1]) + ANSWER_TAGS[0].length;
      const range = [opening, response.indexOf(ANSWER_TAGS[1], opening)] as const;
      const shape = { names: example.names, length: lengthOf(seen) };
      return counterfactual(response, reasoned, range, shape, random);
    },
    reasoned: (response, example) => {
      const seen = asSeen(example);
      const answer = parse(response, seen);
      return answer.think === null ? null : checkReasoning(answer, seen, checksOf(seen));
    },
    marked: (response, example) => {
      const shape = { length: lengthOf(example), channels: example.channels.length };
      const predicted = markedShare(parse(response, example), shape);
      const gold = markedShare(taskKind(example.gold.kind).evaluation.said(example.gold), shape);
      return predicted === null || gold === null ? null : { predicted, gold };
    },
  };
}

/** Returns the address of the examples of a stage. */
export const stageExamples = (
  stage: 'sft' | 'rl',
  { data, seed }: Pick<Recipe, 'data' | 'seed'>,
): ExampleAddress => (stage === 'sft' ? trainingExamples : reinforcementExamples)(data, seed);

/** Returns facts about the data that a recipe trains on. */
export const trainingFacts = (recipe: Pick<Recipe, 'data' | 'seed'>): DataFacts =>
  openExamples(stageExamples('sft', recipe)).facts;

/** Adds the example to an error that does not name its place. */
function failureOf(error: unknown, { id }: Example, file: string): unknown {
  const placed = error instanceof DataError && error.file !== undefined;
  if (!(error instanceof TimeseerError) || placed || error.message.includes(id)) return error;
  return new DataError(`${id}: ${error.message}`, { file, cause: error });
}

/**
 * Composes the task over training examples. A generator makes fresh ones, unless the address counts them, and the traces of the first
 * `levels` name levels; other sources are repeated in epochs by `sourceTask`.
 */
export function trainingTask(
  card: PolicyCard,
  address: ExampleAddress,
  stage: 'sft' | 'rl' = 'sft',
  options: TrainingOptions = {},
): TrainingTask {
  const { inspect } = card;
  if (inspect === undefined) return plainTask(card, address, stage, options);
  const tasks = (inspect.lengths ?? [address.length]).map((length) =>
    plainTask(card, isGenerator(address.name) ? { ...address, length } : address, stage, options),
  );
  const mixed = mixedTask(tasks, address.seed);
  return stage === 'sft'
    ? scriptedTask(mixed, { ...card, inspect }, address.seed, options.levels ?? 0)
    : mixed;
}

type TrainingOptions = Pick<TaskParts, 'reading' | 'reward' | 'tools'> &
  Pick<SourceOptions, 'augment'> & { readonly levels?: number };

/** Augmentation of a supervised stage; null for none. @throws ConfigError for one under which answers do not stay true, or of new series */
export function augmentationOf(
  augment: Augmentation | undefined,
  { kind, task }: DataFacts,
  address?: ExampleAddress,
): Augmentation | null {
  const wanted = Object.entries(augment ?? {}).filter(([, strength]) => strength > 0);
  if (augment === undefined || wanted.length === 0) return null;
  const allowed: readonly string[] = taskKind(kind).augments ?? [];
  const wrong = wanted.find(([name]) => !allowed.includes(name));
  if (wrong === undefined) {
    if (address === undefined || !isGenerator(address.name) || address.count !== undefined) return augment;
    throw new ConfigError(`sft.augment: ${address.name} makes every series anew; leave it out`);
  }
  throw new ConfigError(
    `sft.augment.${wrong[0]}: got ${wrong[1]}, expected 0 for ${task}: its answers are ${taskKind(kind).answers}, which may not stay true; ` +
      `${allowed.length === 0 ? 'no change leaves them true' : `allowed: ${allowed.join(', ')}`}`,
  );
}

function plainTask(
  card: PolicyCard,
  address: ExampleAddress,
  stage: 'sft' | 'rl',
  { levels = 0, ...grading }: TrainingOptions,
): TrainingTask {
  const source = openExamples(address);
  const { facts, set } = source;
  if (isGenerator(address.name) && address.count === undefined) {
    augmentationOf(grading.augment, facts, address);
    const early = new WeakSet<Example>();
    return {
      ...exampleTask(card, { facts, ...grading, levels: (example) => early.has(example) }),
      example: (index) => {
        const example = source.at(index);
        if (stage === 'sft' && index < levels) early.add(example);
        return example;
      },
    };
  }
  const stored = card.style === 'full' && card.reasoning !== false ? storedTraces(set) : () => null;
  const { name, seed } = address;
  return sourceTask(card, source, { name, seed, stage, profile: classesOf(set), stored, ...grading });
}

export interface SourceOptions extends Pick<TaskParts, 'reading' | 'reward' | 'profile' | 'tools'> {
  /** Name of the data in messages. */
  readonly name: string;
  /** Seed of the order, together with the stage. */
  readonly seed: number;
  readonly stage: 'sft' | 'rl';
  /** Stored expert trace of the example at a place; null where there is none. */
  readonly stored?: (place: number) => string | null;
  /** Random changes of the series, by seed and number of the draw. Default: none. */
  readonly augment?: Augmentation;
}

/** Composes the task over a fixed number of examples, repeated in epochs, each with its own order. */
export function sourceTask(
  card: PolicyCard,
  source: Pick<ExampleSource, 'facts' | 'count' | 'at'>,
  { name, seed, stage, stored = () => null, augment: wanted, ...parts }: SourceOptions,
): TrainingTask {
  const augmentation = stage === 'sft' ? augmentationOf(wanted, source.facts) : null;
  const { facts } = source;
  // Changed series do not come again.
  const cached = augmentation === null ? { cache: new PictureCache() } : {};
  const task = exampleTask(card, { facts, ...parts, ...cached });
  const order = new EpochOrder(source.count, seed, stage);
  const places = new Map<string, number>();
  const traces = new Map<string, string>();
  return {
    ...task,
    picture: async (example) => {
      try {
        return await task.picture(example);
      } catch (error) {
        throw failureOf(error, example, name);
      }
    },
    example: (index) => {
      const place = order.place(index);
      const example = source.at(place);
      places.set(example.id, place);
      if (augmentation === null) return example;
      const { facts: _, ...rest } = example;
      const random = new Random(seed, 'augmentation', index);
      const isKept = random.uniform() < UNCHANGED;
      return {
        ...rest,
        channels: isKept ? example.channels : augment(example.channels, augmentation, random),
      };
    },
    trace: (example) => {
      try {
        if (augmentation !== null) return task.trace(example);
        const kept = stored(places.get(example.id)!);
        const text =
          traces.get(example.id) ?? (kept === null ? task.trace(example) : task.traced(kept, example));
        traces.set(example.id, text);
        return text;
      } catch (error) {
        throw failureOf(error, example, name);
      }
    },
  };
}
