/** How a policy is asked about a data set: what its card says, and where it has none, what the recipe and the data say. */

import { nanoFigure } from '../../datasets/benchmarks/registry.ts';
import type { DataFacts } from '../../datasets/source.ts';
import { ConfigError } from '../errors.ts';
import type { Recipe } from '../recipe.ts';
import { checkedCard, hasCard, type PolicyCard, readCard } from '../tasks/card.ts';
import { checkFigure } from '../tasks/drawing.ts';
import { taskKind } from '../tasks/kinds.ts';

/** Figure of the recipe that means: as the data set says. */
const OF_TASK = 'task';
/** Shows a foreign policy what the data set does not say how to draw. */
const USUAL = 'anomllm';
/** Figure of a recipe that says nothing. */
const NANO = 'nano';

const taught = ({ kind, task, classes }: DataFacts): Pick<PolicyCard, 'kind' | 'task' | 'classes'> => ({
  ...{ kind, task },
  classes: [...classes],
});

/** How many channels a small policy knows; of variates there may be any number. */
const channelsOf = ({ kind, channels }: DataFacts): number | null =>
  taskKind(kind).countsChannels ? null : channels.length;

const counted = (channels: number): string => (channels === 1 ? '1 channel' : `${channels} channels`);

/** @throws ConfigError where a small policy was taught another kind of answer */
function checkKind(directory: string, { style, kind }: PolicyCard, facts: DataFacts): void {
  if (style !== 'nano' || kind === facts.kind) return;
  throw new ConfigError(
    `${directory}: was taught to answer with ${taskKind(kind).answers}, but ${facts.task} asks for ${taskKind(facts.kind).answers}; ` +
      'take a data set of its kind, or train another policy on this one',
  );
}

/** A small policy knows one figure; a large one is shown each task as the data set says. */
function figureOf(card: PolicyCard, { task, figure: own }: DataFacts): string {
  return card.style === 'nano' || own === null || card.task === task ? card.figure : own.preset;
}

/** How a new nano policy is taught. @throws ConfigError for a figure that is unknown, or that the data set does not name */
export function nanoCard({ figure: wanted, input, numbers }: Recipe, facts: DataFacts): PolicyCard {
  if (wanted === OF_TASK && facts.figure === null) {
    throw new ConfigError(`figure: ${facts.title} names no figure of its own; give a preset, such as nano`);
  }
  const preset = wanted === OF_TASK ? facts.figure!.preset : wanted === NANO ? nanoFigure(facts) : wanted;
  checkFigure(preset, facts.rate, facts.task);
  return checkedCard({
    version: 1,
    style: 'nano',
    figure: preset,
    length: facts.length,
    ...taught(facts),
    channels: channelsOf(facts),
    numbers: input === 'numbers' ? { ...numbers } : null,
    stage: 'initial',
  });
}

/**
 * The card of a policy in `directory` for training on a data set: one from elsewhere is shown what the recipe or the data set say,
 * one that was taught here what it was taught with; both are asked the data set's question.
 */
export function trainingCard(directory: string, recipe: Recipe, facts: DataFacts): PolicyCard {
  const card = readCard(directory);
  const { input, numbers } = recipe;
  if (hasCard(directory)) {
    if ((card.numbers !== null) !== (input === 'numbers')) {
      throw new ConfigError(
        `input: ${input}, but the policy of ${directory} was taught with ${card.numbers === null ? 'pictures' : 'numbers'}; ` +
          `set input=${card.numbers === null ? 'picture' : 'numbers'}, or begin with another policy`,
      );
    }
    checkKind(directory, card, facts);
    if (card.style === 'nano') checkTaught(directory, card, recipe, facts);
    const length = card.length === null ? null : facts.length;
    const channels = card.channels === null ? null : channelsOf(facts);
    return checkedCard({ ...card, ...taught(facts), length, channels, figure: figureOf(card, facts) });
  }
  const own = recipe.figure === NANO || recipe.figure === OF_TASK ? facts.figure?.preset : recipe.figure;
  checkFigure(own ?? USUAL, facts.rate, facts.task);
  return checkedCard({
    ...card,
    figure: own ?? USUAL,
    ...taught(facts),
    numbers: input === 'numbers' ? { ...numbers } : null,
  });
}

/** What a small policy cannot take over from its former training. @throws ConfigError */
function checkTaught(directory: string, card: PolicyCard, recipe: Recipe, facts: DataFacts): void {
  const { figure: wanted, sft } = recipe;
  if (wanted !== NANO && wanted !== OF_TASK && wanted !== card.figure) {
    throw new ConfigError(
      `figure: ${wanted}, but the policy of ${directory} was taught with ${card.figure}; leave the figure out, or begin with policy.init=nano`,
    );
  }
  const channels = channelsOf(facts);
  if (card.channels !== null && channels !== null && card.channels !== channels) {
    throw new ConfigError(
      `${directory}: was taught series of ${counted(card.channels)}, ${facts.task} has ${counted(channels)}; ` +
        'take data of as many, or begin with policy.init=nano',
    );
  }
  const shared = card.classes.some((name) => facts.classes.includes(name));
  if (sft.samples === 0 && facts.classes.length > 0 && !shared) {
    throw new ConfigError(
      `${directory}: was taught the classes ${card.classes.join(', ')}, none of which ${facts.task} has (${facts.classes.join(', ')}); ` +
        'reinforcement cannot find new ones: begin with a supervised stage on this data (timeseer sft)',
    );
  }
}

/**
 * The card to evaluate a policy with. A small policy answers the one kind of question that it was taught; any other is asked what
 * the data set asks.
 * @throws ConfigError where a small policy was taught another kind of answer
 */
export function evaluationCard(
  directory: string,
  facts: DataFacts,
  numbers?: PolicyCard['numbers'],
): PolicyCard {
  const card = readCard(directory);
  checkKind(directory, card, facts);
  const drawn = hasCard(directory) ? figureOf(card, facts) : (facts.figure?.preset ?? USUAL);
  return {
    ...card,
    ...taught(facts),
    figure: drawn,
    numbers: numbers === undefined ? card.numbers : numbers,
  };
}

/** Why the answers of a policy can say little about a data set, one sentence each; nothing for a large one. */
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
          `the policy was never taught ${strange.length === facts.classes.length ? 'any of the classes' : `the classes ${strange.join(', ')}`}`,
        ]),
    ...(card.channels === null || channels === null || card.channels === channels
      ? []
      : [`the policy was taught series of ${counted(card.channels)}, these have ${channels}`]),
    ...(was === is ? [] : [`the policy was taught with ${was}, and is asked with ${is}`]),
  ];
}
