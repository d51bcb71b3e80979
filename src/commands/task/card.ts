/** How a policy is asked about a data set: what its card says, and where it has none, what the recipe and the data say. */
import type { DataFacts } from '../../../datasets/source.ts';
import { ConfigError } from '../../errors.ts';
import { figure } from '../../plot/figure.ts';
import type { Recipe } from '../../recipe.ts';
import { hasCard, type PolicyCard, readCard } from '../../train/card.ts';

/** Figure of the recipe that means: as the data set says. */
const OF_TASK = 'task';
/** Shows a foreign policy what the data set does not say how to draw. */
const USUAL = 'anomllm';

const taught = ({ kind, task, classes }: DataFacts): Pick<PolicyCard, 'kind' | 'task' | 'classes'> => ({
  ...{ kind, task },
  classes: [...classes],
});

/** A small policy knows one figure; a large one is shown each task as the data set says. */
function figureOf(card: PolicyCard, { task, figure: own }: DataFacts): string {
  return card.style === 'nano' || own === null || card.task === task ? card.figure : own.preset;
}

/** How a new nano policy is taught. @throws ConfigError for a figure that is unknown, or that the data set does not name */
export function nanoCard({ figure: wanted, input, numbers }: Recipe, facts: DataFacts): PolicyCard {
  if (wanted === OF_TASK && facts.figure === null) {
    throw new ConfigError(`figure: ${facts.title} names no figure of its own; give a preset, such as nano`);
  }
  const preset = wanted === OF_TASK ? facts.figure!.preset : wanted;
  figure(preset);
  return {
    version: 1,
    style: 'nano',
    figure: preset,
    length: facts.length,
    ...taught(facts),
    numbers: input === 'numbers' ? { ...numbers } : null,
    stage: 'initial',
  };
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
    const length = card.length === null ? null : facts.length;
    return { ...card, ...taught(facts), length, figure: figureOf(card, facts) };
  }
  const own = recipe.figure === 'nano' || recipe.figure === OF_TASK ? facts.figure?.preset : recipe.figure;
  return {
    ...card,
    figure: own ?? USUAL,
    ...taught(facts),
    numbers: input === 'numbers' ? { ...numbers } : null,
  };
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
  if (card.style === 'nano' && card.kind !== facts.kind) {
    const answers = {
      classification: 'classes',
      anomaly: 'intervals of anomalies',
      variates: 'numbers of variates',
    };
    throw new ConfigError(
      `${directory}: was taught to answer with ${answers[card.kind]}, but ${facts.task} asks for ${answers[facts.kind]}; ` +
        'evaluate it on a data set of its kind, or train a policy on this one',
    );
  }
  const drawn = hasCard(directory) ? figureOf(card, facts) : (facts.figure?.preset ?? USUAL);
  return {
    ...card,
    ...taught(facts),
    figure: drawn,
    numbers: numbers === undefined ? card.numbers : numbers,
  };
}
