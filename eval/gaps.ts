/** What a run lacks of what it should hold, so that a report says what it leaves out and why. */
import { existsSync } from 'node:fs';
import { readUtf8 } from '../src/input-file.ts';
import { hasTransfer } from './requirements.ts';
import { POLICIES, type PolicyName, type RunDirectory } from './run-directory.ts';

type Stage = 'sft' | 'rl';

const NAMES = { sft: 'supervised', rl: 'reinforcement' } as const;
const AFTER = {
  initial: 'before training',
  sft: 'after the supervised stage',
  rl: 'after reinforcement',
} as const;

/** Whether anything of a stage is there. */
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
      `${name('greedy')} is missing: every number of the policy ${AFTER[policy]}, and what is required of it, is left out`,
    ];
  }
  if (sampled === true) return [];
  return [`${name('sampled')} is missing: sampled rewards of the policy ${AFTER[policy]} are left out`];
}

/**
 * One line for each file that a run of its recipe holds and this one does not, or holds in part, with what the report
 * leaves out for it; empty for a whole run.
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
