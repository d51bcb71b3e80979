import { ConfigError } from '../ground/errors.ts';
import { checkWhole } from '../ground/json-record.ts';
import { print, printJson, say } from '../ground/terminal.ts';
import { command, DEVICE, flag, type Given, list, number, TRAINING_ENGINE, text } from './options.ts';

type PlanArguments = Given<typeof OPTIONS>;

const OPTIONS = {
  policy: text(
    'Policy: nano or small-random (new), small or inspect (which ship), a run, or a checkpoint directory (config.json suffices)',
    {
      defaultDescription: "the recipe's policy.init",
    },
  ),
  recipe: text('Recipe by name or path of a .yaml file', { default: 'quickstart' }),
  set: list('Set a recipe key, e.g. memory.tokens=8192 (repeatable)'),
  engine: TRAINING_ENGINE,
  device: DEVICE,
  processes: number(
    'Processes that share the work, as train --processes; the plan is of one. On the CPU they share the memory, with --device cuda each has a GPU',
    {
      default: 1,
    },
  ),
  memory: text('Memory of the target device, e.g. 80GB; tfjs divides it by its Workers + 1', {
    defaultDescription: 'memory of this machine',
  }),
  scale: text(
    'Forecast instead how the reinforcement of this run would scale to more ranks: its measured step, stretched by the slowest rank and by what is exchanged',
  ),
  ranks: text('Ranks of the forecast', { default: '2,4,8,64,256,1024' }),
  link: text('Speed of the link of one rank, per second, e.g. 12.5GB', { default: '12.5GB' }),
  latency: number('Latency of the link in microseconds', { default: 20 }),
  json: flag('Print the plan as JSON'),
};

const MOST_RANKS = 16_384;

export const plan = command({
  command: 'plan',
  options: OPTIONS,
  examples: [
    ['$0 plan --recipe quickstart', 'The quickstart on this machine'],
    [
      '$0 plan --policy models/Qwen2.5-VL-3B-Instruct --recipe anomseer-3b-lora --device cuda --memory 24GB',
      'A 3B policy on a GPU with 24 GB',
    ],
    [
      '$0 plan --recipe quickstart --processes 4',
      'One of four processes, which share the memory of this machine',
    ],
    [
      '$0 plan --policy models/Qwen2.5-VL-3B-Instruct --recipe anomseer-3b-lora --set policy.tune=all --set rl.kl=0 --set memory.rows=32 --set memory.tokens=2048 --device cuda --memory 24GB --processes 4 --set memory.zero=3',
      'All weights on four GPUs, each with a share of the optimizer state, the gradients and, in updates, the weights',
    ],
    [
      '$0 plan --scale runs/quickstart --ranks 8,64 --link 3GB --latency 50',
      'Its step, efficiency and throughput on 8 and 64 ranks with such a network',
    ],
    ['$0 plan --recipe small --engine tfjs', 'Over TensorFlow.js, whose Workers have at most 3.76 GB each'],
  ],
  epilogue:
    'Exit code 1 if a stage does not fit; the plan then lists the recipe changes that were tried. A plan uses at most 92 % of the memory; the ' +
    'rest is reserved for the system, device libraries and fragmentation. With the tfjs engine it is of one Worker, in float32: of its memory, ' +
    'the smaller of 3.76 GB and --memory / (Workers + 1), 65 % are used. A plan is measured on libtorch, also that of the tfjs engine.',
  handler: async (given: PlanArguments) => {
    if (given.scale !== undefined) return scale(given.scale, given);
    const [{ loadRecipe }, { findPolicy }, run, { planLines, trainingStages }, { isBuiltIn }] =
      await Promise.all([
        import('../recipe/config.ts'),
        import('../answer/reference.ts'),
        import('../run/stage-memory.ts'),
        import('../train/memory-plan.ts'),
        import('../policy/model-config.ts'),
      ]);
    checkWhole('processes', given.processes, 1);
    if (given.processes > 1 && given.engine === 'tfjs')
      throw new ConfigError(`--processes ${given.processes}: processes train with the torch engine`);
    if (!/^(cpu|cuda(:\d+)?)$/.test(given.device)) {
      throw new ConfigError(
        `unknown device '${given.device}': use 'cpu', 'cuda' or 'cuda:N'; for several GPUs --device cuda --processes N, one process on each`,
      );
    }
    const asked = loadRecipe(given.recipe, given.set);
    const name = given.policy ?? asked.policy.init;
    const directory = isBuiltIn(name) ? null : findPolicy(name);
    const recipe = directory === null ? { ...asked, policy: { ...asked.policy, init: name } } : asked;
    const memory = given.memory === undefined ? run.deviceMemory(given.device) : run.parseBytes(given.memory);
    const stages = trainingStages(recipe);
    if (stages.length === 0) throw new ConfigError('sft.samples and rl.steps are both 0: nothing is trained');
    if (directory !== null && !run.hasTokenizer(directory)) {
      say(
        `note: ${directory} has no tokenizer.json: the lengths of prompts and traces are estimated (upper bounds)`,
      );
    }
    const plans = [];
    for (const stage of stages) {
      const stagePlan = await run.planTrainingStage(
        stage,
        directory,
        recipe,
        given.device,
        memory,
        given.processes > 1 ? given.processes : undefined,
      );
      plans.push(stagePlan);
      if (!given.json) print(`${plans.length > 1 ? '\n' : ''}${planLines(stagePlan).join('\n')}`);
    }
    if (given.json) printJson(plans.map(jsonOf));
    if (plans.some(({ fits }) => fits === false)) process.exitCode = 1;
  },
});

/** Prints the forecast of a run. @throws ConfigError for ranks or a link that cannot be */
async function scale(directory: string, { ranks, link, latency, json }: PlanArguments): Promise<void> {
  const [{ scaledRun }, { parseBytes }] = await Promise.all([
    import('../run/scaling.ts'),
    import('../run/stage-memory.ts'),
  ]);
  const counts = ranks.split(',').map(Number);
  if (!counts.every((count) => Number.isInteger(count) && count >= 1 && count <= MOST_RANKS))
    throw new ConfigError(
      `--ranks ${ranks}: expected whole numbers from 1 to ${MOST_RANKS}, with commas between`,
    );
  if (!(latency >= 0 && latency < 1e6))
    throw new ConfigError(`--latency ${latency}: expected microseconds from 0`);
  const bandwidth = parseBytes(link.replace(/\/s$/, ''), '--link');
  const { lines, value } = scaledRun(directory, { bandwidth, latency: latency / 1e6 }, counts);
  if (json) printJson(value);
  else print(lines.join('\n'));
}

/** Turns maps into plain objects. */
function jsonOf<T extends object>(value: T): unknown {
  return JSON.parse(
    JSON.stringify(value, (_, inner: unknown) => (inner instanceof Map ? Object.fromEntries(inner) : inner)),
  );
}
