/** Description, caveats and missing files of a run, from its directory. */

import { existsSync } from 'node:fs';
import { stringify } from 'yaml';
import { type DataFacts, isGenerator } from '../datasets/source.ts';
import { LOCALISATIONS, NORMALS, PAPER } from '../rewards/anomseer.ts';
import { readUtf8 } from '../src/ground/files.ts';
import type { Example, Gold } from '../src/ground/types.ts';
import { advantageLabel, comparesWithTraces, type Recipe } from '../src/recipe/recipe.ts';
import { imitatesAnswers } from '../src/tasks/evaluation.ts';
import { choosesClass, taskKind } from '../src/tasks/kinds.ts';
import type { Baselines } from './baselines.ts';
import { hasTransfer } from './harness.ts';
import type { ReportRun } from './report.ts';
import { POLICIES, type PolicyName, type RunDirectory } from './run-directory.ts';
import type { RunSummary } from './summary.ts';

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

/** Facts about the data of a run beside its recipe. */
interface RunData {
  readonly facts: DataFacts;
  /** The held-out examples, which were answered. */
  readonly series: readonly Example[];
  /** Number of test examples of a prepared data set; null for other data. */
  readonly available: number | null;
}

function describeData({ data, seed, rl, eval: evaluation }: Recipe, { facts, series, available }: RunData) {
  const count = series.length;
  const sampled = `Sampled answers: ${evaluation.samples} to each at temperature ${evaluation.temperature}`;
  const anchored = comparesWithTraces(rl)
    ? ` (${advantageLabel(rl)} compares responses with a trace that classical analyses write from the answer)`
    : '';
  const few =
    data.traces === null
      ? ''
      : `; ${data.traces} of them have expert traces, which the supervised stage repeats; reinforcement uses other series with answers only${anchored}`;
  if (isGenerator(data.name)) {
    return {
      trainingData: `${data.name}, series of ${data.length} points from the train split, seed ${seed}${few}`,
      heldOutData: `${data.name}, ${count} series from the test split, seed ${seed}; training never sees them. ${sampled}`,
    };
  }
  if (available === null) {
    return {
      trainingData: `${data.name}${few}`,
      heldOutData: `${data.name}, ${count} of the last ${data.heldOut} series; training never sees them. ${sampled}`,
    };
  }
  const some =
    available > count
      ? `${count} of the ${available} examples, drawn with seed ${seed},`
      : `all ${count} examples`;
  return {
    trainingData: `${facts.title} (${data.name}), train split${few}`,
    heldOutData: `${facts.title} (${data.name}), ${some} of the test split; training never sees them. ${facts.statement} ${sampled}`,
  };
}

/** Number in the environment record; null where it is not recorded. */
export function recorded(environment: RunSummary['environment'], key: string): number | null {
  const value = environment[key];
  return typeof value === 'number' && Number.isFinite(value) && value >= 0 ? value : null;
}

/** A command as it can be pasted into a shell where timeseer is a dependency. */
function pasted(command: string): string {
  return command.startsWith('timeseer ') ? `npx ${command}` : command;
}

/** Describes a run for the head of its report. @param method name of the advantage estimator */
export function describeRun(run: RunDirectory, data: RunData, method: string): ReportRun {
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
    ...(recipe.data.traces === null ? {} : { traces: recipe.data.traces }),
    temperature: recipe.eval.temperature,
    ...describeData(recipe, data),
  };
}

function aboutData(run: RunDirectory, { facts, series }: RunData): string[] {
  const unnamed = series.filter(
    ({ gold }) => choosesClass(gold.kind) && taskKind(gold.kind).className(gold) === null,
  ).length;
  const { name } = run.recipe.data;
  const split = isGenerator(name)
    ? 'The series are synthetic and clean, and training and held-out series come from the same generator: the numbers measure what the policy learned about the generator, not how well it would read recordings.'
    : facts.statement === null
      ? 'Training and held-out series are parts of one data set on disk: its last series were held out. If neighbouring series resemble each other, the numbers are too high.'
      : `Split of the data: ${facts.statement}`;
  return [
    split,
    ...(unnamed > 0
      ? [
          `The data do not name the kind of anomaly of ${unnamed} of the ${series.length} held-out series: for these, reward and class accuracy leave the class out.`,
        ]
      : []),
  ];
}

/** Caveats of policies that started from random weights. */
function aboutNano(kind: Gold['kind'], numbers: boolean): string[] {
  const input = numbers ? 'the numbers' : 'the picture';
  return [
    'The policy is very small and started from random weights. It shows that the method works; its numbers are not comparable with published ones of policies with billions of parameters on other data.',
    ...(taskKind(kind).evaluation.imitation?.(input) ?? [imitatesAnswers(input)]),
  ];
}

function aboutDetectors(run: RunDirectory, { kind }: DataFacts, baselines: Baselines): string[] {
  const { best, validationSeries, learned } = baselines;
  const { detector: what, detectorCaveats } = taskKind(kind).evaluation;
  const several = Object.keys(baselines.records).length > 1;
  const choice = !several
    ? `There is one classical ${what} for such series, ${best}.`
    : validationSeries === 0
      ? `The data set has no validation split to choose a classical ${what} on; ${best} was fixed in advance.`
      : `The best classical ${what} is the one with the highest mean reward on ${validationSeries} validation series; held-out series were not used for that choice.`;
  const generated = isGenerator(run.recipe.data.name);
  return [choice, ...detectorCaveats({ generated, several, learned })];
}

/** Names the reward that reinforcement maximised, where it is not that of the tables. */
function aboutReward({ rl: { steps, reward }, reward: listed }: Recipe, kind: Gold['kind']): string[] {
  if (listed !== null && steps > 0) {
    const each = listed.map(({ use, weight }) => `${use.replace(/^.*[/\\]/, '')} (weight ${weight})`);
    const what = each.length === 1 ? each[0]! : `the weighted mean of ${each.join(', ')}`;
    return [`Reinforcement maximised ${what}; the tables show the reward of the task.`];
  }
  const { localisation, normal } = reward;
  const departures = [
    ...(localisation === PAPER.localisation
      ? []
      : [`${LOCALISATIONS[localisation].label} instead of the ${LOCALISATIONS[PAPER.localisation].label}`]),
    ...(normal === PAPER.normal ? [] : [NORMALS[normal].label]),
  ];
  const graded = 'localisation' in taskKind(kind).reward.weights;
  return !graded || steps === 0 || departures.length === 0
    ? []
    : [
        `Reinforcement maximised a reward with ${departures.join(' and ')}; the tables show the reward of the paper.`,
      ];
}

/** Lists the caveats of a run, the most important first. */
export function caveatsOf(run: RunDirectory, baselines: Baselines | null, data: RunData): string[] {
  const { recipe } = run;
  const { kind } = data.facts;
  const numbers = recipe.input === 'numbers';
  const early = (['sft', 'rl'] as const).filter((stage) => run.cost(stage)?.complete === false);
  return [
    ...run.changes.map(
      ({ key, from, to, stage, step }) =>
        `${key === 'data' ? 'The data set' : key} was changed after step ${step} of the ${NAMES[stage]} stage${key === 'data' ? '' : `, from ${JSON.stringify(from)} to ${JSON.stringify(to)}`}: earlier steps used the old value.`,
    ),
    ...early.map(
      (stage) =>
        `The ${stage === 'sft' ? 'supervised' : 'reinforcement'} stage was stopped before its end; its numbers are of the policy that it left.`,
    ),
    ...aboutData(run, data),
    ...(recipe.policy.init === 'nano' ? aboutNano(kind, numbers) : []),
    ...(numbers ? ['The policy read the values as text and saw no picture.'] : []),
    ...taskKind(kind).evaluation.caveats,
    ...aboutReward(recipe, kind),
    ...(baselines === null ? [] : aboutDetectors(run, data.facts, baselines)),
    'Intervals are percentile bootstrap intervals over series. They do not cover the spread between training seeds: this is one run.',
  ];
}

type Stage = 'sft' | 'rl';

const NAMES = { sft: 'supervised', rl: 'reinforcement' } as const;
const AFTER = {
  initial: 'before training',
  sft: 'after the supervised stage',
  rl: 'after reinforcement',
} as const;

/** Returns true where a stage has left anything. */
function begun(run: RunDirectory, stage: Stage): boolean {
  return existsSync(run.file(stage));
}

function stageGaps(run: RunDirectory, stage: Stage): string[] {
  const wanted = stage === 'sft' ? run.recipe.sft.samples > 0 : run.recipe.rl.steps > 0;
  if (!begun(run, stage)) {
    return wanted
      ? [
          `${stage}/ is missing: the ${NAMES[stage]} stage of the recipe was not run, or its files were removed`,
        ]
      : [];
  }
  const cost = run.cost(stage);
  const gaps: string[] = [];
  if (cost === null) {
    gaps.push(
      `${stage}/stage.json is missing: time and size of the ${NAMES[stage]} stage, and its entry in summary.json, are left out`,
    );
  }
  const file = run.file(stage, 'metrics.jsonl');
  if (!existsSync(file)) {
    gaps.push(`${stage}/metrics.jsonl is missing: the curves of the ${NAMES[stage]} stage are left out`);
    return gaps;
  }
  const lines = stage === 'sft' ? run.sftLines() : run.rlLines();
  const last = lines.at(-1)?.step ?? 0;
  if (cost !== null && last < cost.steps) {
    gaps.push(
      `${stage}/metrics.jsonl ends at step ${last} of ${cost.steps}: the curves of the ${NAMES[stage]} stage stop there`,
    );
  } else if (lines.length < last) {
    gaps.push(
      `${stage}/metrics.jsonl holds ${lines.length} of ${last} steps: the curves of the ${NAMES[stage]} stage have gaps`,
    );
  } else if (lines.length > 0 && !readUtf8(file).endsWith('\n')) {
    gaps.push(`${stage}/metrics.jsonl is cut in its last line: the curves leave that step out`);
  }
  return gaps;
}

function answerGaps(run: RunDirectory, policy: PolicyName): string[] {
  if (policy !== 'initial' && !begun(run, policy)) return [];
  const name = (mode: 'greedy' | 'sampled'): string => `eval/${policy}.${mode}.jsonl`;
  const [greedy, sampled] = (['greedy', 'sampled'] as const).map((mode) =>
    existsSync(run.answersFile(policy, mode)),
  );
  if (greedy !== true) {
    return [
      `${name('greedy')} is missing: every number of the policy ${AFTER[policy]}, and its requirements, are left out`,
    ];
  }
  if (sampled === true) return [];
  return [`${name('sampled')} is missing: sampled rewards of the policy ${AFTER[policy]} are left out`];
}

/**
 * Lists missing and incomplete files of a run, with the parts of the report that are left out for them; empty for a whole run.
 * @throws DataError when a file is damaged beyond leaving it out
 */
export function gapsOf(run: RunDirectory): string[] {
  const last = POLICIES.toReversed().find((policy) => existsSync(run.answersFile(policy, 'greedy')));
  const trained = last !== undefined && last !== 'initial';
  return [
    ...(['sft', 'rl'] as const).flatMap((stage) => stageGaps(run, stage)),
    ...POLICIES.flatMap((policy) => answerGaps(run, policy)),
    ...(trained && hasTransfer(run.recipe) && run.transfer()?.by !== last
      ? [
          `eval/${last}.anomllm.greedy.jsonl is missing: the answers of that policy to the AnomLLM tasks are left out`,
        ]
      : []),
    ...(existsSync(run.file('environment.json'))
      ? []
      : [
          'environment.json is missing: machine, versions and the time of set-up and evaluation are left out',
        ]),
  ];
}
