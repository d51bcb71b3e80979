/** What was run, in words and numbers, from the files of the run. */
import { stringify } from 'yaml';
import { type DataFacts, isGenerator } from '../datasets/source.ts';
import type { Recipe } from '../src/recipe.ts';
import type { ReportRun } from './report-input.ts';
import type { RunDirectory } from './run-directory.ts';
import type { Summary } from './summary.ts';

function describePolicy(run: RunDirectory): ReportRun['policy'] {
  const { init } = run.recipe.policy;
  const name = init === 'nano' ? 'Qwen2.5-VL nano' : init;
  const size = run.policySize();
  if (size === null) {
    return { name, parameters: null, description: 'No checkpoint of the run is left to measure.' };
  }
  const { dims, parameters } = size;
  return {
    name,
    parameters,
    description:
      `The Qwen2.5-VL architecture: a vision tower of ${dims.vision.depth} layers, ${dims.vision.width} wide, ` +
      `a decoder of ${dims.layers} layers, ${dims.width} wide, ${dims.vocabulary} tokens` +
      `${init === 'nano' ? '; started from random weights' : `; started from ${init}`}.`,
  };
}

/** What is known of the data of a run beside its recipe. */
export interface HeldOutFacts {
  readonly facts: DataFacts;
  /** Held-out examples that were answered. */
  readonly count: number;
  /** All examples of the test split of a prepared data set; null of other data. */
  readonly available: number | null;
}

function describeData({ data, seed, eval: evaluation }: Recipe, { facts, count, available }: HeldOutFacts) {
  const sampled = `Sampled answers: ${evaluation.samples} to each at temperature ${evaluation.temperature}`;
  if (isGenerator(data.name)) {
    return {
      trainingData: `${data.name}, series of ${data.length} points from the train split, seed ${seed}`,
      heldOutData: `${data.name}, ${count} series from the test split, seed ${seed}; training never sees them. ${sampled}`,
    };
  }
  if (available === null) {
    return {
      trainingData: data.name,
      heldOutData: `${data.name}, ${count} of the last ${data.heldOut} series; training never sees them. ${sampled}`,
    };
  }
  const some =
    available > count
      ? `${count} of the ${available} examples, drawn with seed ${seed},`
      : `all ${count} examples`;
  return {
    trainingData: `${facts.title} (${data.name}), train split`,
    heldOutData: `${facts.title} (${data.name}), ${some} of the test split; training never sees them. ${facts.statement} ${sampled}`,
  };
}

/** A number that whoever ran the stages left in the environment record, in seconds. */
export function recorded(environment: Summary['environment'], key: string): number | null {
  const value = environment[key];
  return typeof value === 'number' && Number.isFinite(value) && value >= 0 ? value : null;
}

/** A command as it can be pasted into a shell where timeseer is a dependency. */
function pasted(command: string): string {
  return command.startsWith('timeseer ') ? `npx ${command}` : command;
}

/** What was run, for the head of the report. `method` is the reinforcement's name. */
export function describeRun(run: RunDirectory, data: HeldOutFacts, method: string): ReportRun {
  const { recipe } = run;
  const [sft, rl, environment] = [run.cost('sft'), run.cost('rl'), run.environment];
  const seconds: [string, number | null | undefined][] = [
    ['set-up', recorded(environment, 'install_s')],
    ['supervised', sft?.seconds],
    [method, rl?.seconds],
    ['evaluation', recorded(environment, 'evaluation_s')],
  ];
  return {
    name: run.name,
    command: pasted(run.command),
    recipe: run.name,
    recipeText: stringify(recipe),
    finished: run.finished(),
    policy: describePolicy(run),
    method,
    seeds: { run: recipe.seed, bootstrap: recipe.seed },
    seconds: Object.fromEntries(
      seconds.filter((entry): entry is [string, number] => typeof entry[1] === 'number'),
    ),
    samples: sft?.samples ?? 0,
    steps: rl?.steps ?? 0,
    temperature: recipe.eval.temperature,
    ...describeData(recipe, data),
  };
}
