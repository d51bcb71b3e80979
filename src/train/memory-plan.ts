/**
 * The memory plan of a training: what each stage holds throughout, what its phases take on top of that, whether it fits,
 * and what to change where it does not. Nothing is allocated for it.
 */
import {
  dryRun,
  type Phase,
  type PlannedTraining,
  type StageMeasure,
  type Subject,
  type TrainingStage,
} from './dry-run.ts';
import { EXAMPLES, ExampleReader, type Lengths, lengthsOf } from './dry-run-examples.ts';
import type { Task } from './task.ts';

/**
 * Share of the memory that a plan counts with. The rest is the device's own (the context of CUDA and the workspaces of its
 * libraries, which count as no tensor, take about 1 GB; on a CPU the system and this process), and what an allocator cannot
 * join.
 */
export const USABLE = 0.92;

/** Changes to the options of a training by key of its recipe, as `--set` makes them. */
export type RecipeChanges = Readonly<Record<string, string | number>>;

/** Changes that were found together, each of them needed, and the peak that the stage then has. */
export interface Remedy {
  readonly changes: RecipeChanges;
  /** Bytes. */
  readonly peak: number;
  readonly fits: boolean;
}

export interface StagePlan extends StageMeasure {
  readonly lengths: Lengths;
  /** The same stage the other way: with layers computed again, or with all of them kept. */
  readonly otherwise: StageMeasure;
  /** Memory of the device, bytes; null where it is not known. */
  readonly memory: number | null;
  /** How much of it the plan counts with, bytes. */
  readonly usable: number | null;
  /** Whether it fits; null where the memory is not known. */
  readonly fits: boolean | null;
  /**
   * What makes a stage fit that does not, at the least cost to speed; where nothing does (`fits` is false), what comes
   * closest. Null where there is nothing to mend, or nothing helps.
   */
  readonly remedy: Remedy | null;
}

export interface PlanInput {
  readonly subject: Subject;
  readonly stage: TrainingStage;
  readonly recipe: PlannedTraining;
  readonly task: Task;
  readonly memory: number | null;
}

/** The stages that a recipe has. */
export function stagesOf({ sft, rl }: PlannedTraining): TrainingStage[] {
  return [...(sft.samples > 0 ? (['sft'] as const) : []), ...(rl.steps > 0 ? (['rl'] as const) : [])];
}

/** What `memory.recompute=auto` decides by. */
export interface KeptMemory {
  /** Peak of the stage when every activation is kept, bytes: from its plan. */
  readonly kept: number;
  /** Memory of the device, bytes; null where it is not known. */
  readonly memory: number | null;
  /** Size of the policy. */
  readonly parameters: number;
}

/** Share of the memory that kept activations may fill: what a longer example, kernels and fragments need is left. */
const COMFORTABLE = 0.8;
/** Where the memory is not known: a policy from this size on is large. */
const LARGE = 100e6;

/**
 * Whether the layers of a training pass are computed again for their gradients. `auto` does so when keeping everything would
 * fill more than 80 % of the memory; where that is not known, when the policy has more than 100 million parameters. It costs
 * about a third more computation and gives the same gradients.
 */
export function recomputes(
  recompute: PlannedTraining['memory']['recompute'],
  { kept, memory, parameters }: KeptMemory,
): boolean {
  if (recompute !== 'auto') return recompute === 'always';
  return memory === null ? parameters > LARGE : kept > COMFORTABLE * memory;
}

/** Whether layers are computed again is `recomputes`' to say. */
export async function planStage(given: PlanInput): Promise<StagePlan> {
  const { subject, stage, recipe, task, memory } = given;
  const reader = new ExampleReader(subject, task);
  const lengths = lengthsOf(await reader.first(EXAMPLES));
  const base = { subject, stage, recipe, task, reader };
  const kept = await dryRun({ ...base, recompute: false });
  const again = await dryRun({ ...base, recompute: true });
  const parameters = kept.held.weights / (subject.dtype === 'bfloat16' ? 2 : 4);
  const auto = { kept: kept.peak, memory, parameters };
  const chosen = recomputes(recipe.memory.recompute, auto) ? again : kept;
  const usable = memory === null ? null : Math.floor(USABLE * memory);
  const fits = usable === null ? null : chosen.peak <= usable;
  const remedy = fits === false ? await remedyOf(given, reader, chosen, usable!) : null;
  return { ...chosen, lengths, otherwise: chosen === kept ? again : kept, memory, usable, fits, remedy };
}

// ---- what to change ------------------------------------------------------------------------------------------------

function changed(recipe: PlannedTraining, changes: RecipeChanges): PlannedTraining {
  const all = { ...recipe } as unknown as Record<string, object>;
  for (const [path, value] of Object.entries(changes)) {
    const [section, key] = path.split('.') as [string, string];
    all[section] = { ...all[section], [key]: value };
  }
  return all as unknown as PlannedTraining;
}

/** A change is worth its cost when it lowers the peak to this share at most. */
const WORTH = 0.99;

/** Phases whose memory grows with the tokens of a micro-batch. */
const PASSES: ReadonlySet<Phase> = new Set<Phase>([
  'transport',
  'reference',
  'forward',
  'logits',
  'backward',
]);

/**
 * Changes that may lower a peak, those that cost the least speed first: smaller micro-batches, fewer responses side by
 * side, layers computed again, fewer workers; then those that change what is learnt.
 */
function candidates(
  recipe: PlannedTraining,
  measure: StageMeasure,
  dtype: Subject['dtype'],
): [string, string | number][] {
  const { stage, at, workers, recompute } = measure;
  const { memory, policy, rl } = recipe;
  const found: [string, string | number][] = [];
  const fewer = (key: string, value: number): void => {
    for (let less = Math.floor(value / 2); less >= 1 && less > value / 128; less = Math.floor(less / 4))
      found.push([key, less]);
  };
  if (PASSES.has(at)) fewer('memory.tokens', memory.tokens);
  if (at === 'rollout') fewer('memory.rows', memory.rows);
  if (PASSES.has(at) && !recompute) found.push(['memory.recompute', 'always']);
  if (workers > 1) found.push([`${stage}.workers`, Math.ceil(workers / 2)]);
  if (dtype === 'float32') found.push(['policy.dtype', 'bfloat16']);
  const alone = rl.distillation.weight === 0 || rl.distillation.teacher === 'current';
  if (stage === 'rl' && rl.kl > 0 && alone && policy.tune !== 'adapter') found.push(['rl.kl', 0]);
  if (policy.tune === 'all') found.push(['policy.tune', 'decoder']);
  if (policy.tune !== 'adapter') found.push(['policy.tune', 'adapter']);
  return found;
}

/**
 * Takes one change after the other until the stage fits, each against the phase of the peak; then leaves out those that the
 * later ones made needless.
 */
async function remedyOf(
  { subject, stage, recipe, task }: PlanInput,
  reader: ExampleReader,
  chosen: StageMeasure,
  usable: number,
): Promise<Remedy | null> {
  const measured = (changes: RecipeChanges): Promise<StageMeasure> => {
    const other = changed(recipe, changes);
    const dtype = changes['policy.dtype'] === 'bfloat16' ? 'bfloat16' : subject.dtype;
    const recompute = chosen.recompute || other.memory.recompute === 'always';
    return dryRun({ subject: { ...subject, dtype }, stage, recipe: other, task, recompute, reader });
  };
  let changes: RecipeChanges = {};
  let best = chosen;
  let found = true;
  while (best.peak > usable && found) {
    found = false;
    const dtype = 'policy.dtype' in changes ? 'bfloat16' : subject.dtype;
    for (const [key, value] of candidates(changed(recipe, changes), best, dtype)) {
      const more = { ...changes, [key]: value };
      const measure = await measured(more);
      if (measure.peak > WORTH * best.peak) continue;
      [changes, best, found] = [more, measure, true];
      break;
    }
  }
  const fits = best.peak <= usable;
  for (const key of fits ? Object.keys(changes).slice(0, -1).reverse() : []) {
    const { [key]: _, ...rest } = changes;
    const measure = await measured(rest);
    if (measure.peak <= usable) [changes, best] = [rest, measure];
  }
  return Object.keys(changes).length === 0 ? null : { changes, peak: best.peak, fits };
}

// ---- for people ----------------------------------------------------------------------------------------------------

/** Bytes in the units of memory vendors: powers of 1000, three digits. */
export function bytesText(bytes: number): string {
  const units = ['B', 'kB', 'MB', 'GB', 'TB'];
  let value = bytes;
  let unit = 0;
  while (value >= 999.5 && unit < units.length - 1) {
    value /= 1000;
    unit++;
  }
  return `${unit === 0 ? value : value.toPrecision(3)} ${units[unit]}`;
}

const MEANING: Readonly<Record<Phase, string>> = {
  load: 'weights, before the optimiser is there',
  rollout: 'prompts encoded once, caches of their responses, logits of the next token',
  transport: 'hidden states of responses and traces, cost matrices in float64',
  reference: 'forward pass of the reference, logits chunk by chunk',
  forward: 'forward pass of the longest micro-batch',
  logits: 'logits of a chunk of tokens, their log-probabilities, entropies and gradients',
  backward: 'gradients on their way back, a layer computed again where layers are',
  'optimizer step': 'chunks of the update',
};

function heldLines(plan: StagePlan): [name: string, bytes: number, note: string][] {
  const { held, workers } = plan;
  const lines: [string, number, string][] = [
    ['weights', held.weights, ''],
    ['adapter', held.adapter, 'float32'],
    ['reference policy', held.reference, 'rl.kl > 0, or the initial teacher of rl.distillation'],
    ['master copy', held.master, 'float32, of bfloat16 weights'],
    ['moments', held.moments, 'AdamW, float32'],
    [
      'gradients',
      workers * held.gradients,
      `float32${workers > 1 ? `, one buffer for each of ${workers} workers` : ''}`,
    ],
  ];
  return lines.filter(([, bytes]) => bytes > 0);
}

/** What a plan comes to. */
export function planLine(plan: StagePlan): string {
  const { memory, fits } = plan;
  const of = memory === null ? '' : ` of ${bytesText(memory)}`;
  const verdict = fits === null ? '' : fits ? ', fits' : ', does not fit';
  const layers = plan.recompute ? 'layers computed again' : 'activations kept';
  return `${plan.stage}: memory ${bytesText(plan.peak)}${of} in ${plan.at}, ${layers}${verdict}`;
}

/** What to change where a stage does not fit; '' where nothing has to be. */
export function remedyLine({ fits, remedy, stage }: StagePlan): string {
  if (fits !== false) return '';
  if (remedy === null)
    return `nothing in the recipe makes ${stage} fit: take a smaller policy or a larger device`;
  const set = Object.entries(remedy.changes).map(([key, value]) => `--set ${key}=${value}`);
  if (remedy.fits) return `${set.join(' ')} makes it fit: ${bytesText(remedy.peak)}`;
  return (
    `nothing in the recipe makes ${stage} fit: ${set.join(' ')} still takes ${bytesText(remedy.peak)}; ` +
    'take a smaller policy or a larger device'
  );
}

const usableLine = (usable: number): string =>
  `usable: ${bytesText(usable)}, ${100 * USABLE} % of the memory; the rest is left to the system, the device's own libraries and fragments`;

/** The whole plan of a stage, as lines. */
export function planLines(plan: StagePlan): string[] {
  const { lengths, otherwise, phases, workers } = plan;
  const rows: [string, string, string][] = [];
  const heading = (text: string): number => rows.push([text, '', '']);
  heading('held throughout');
  for (const [name, bytes, note] of heldLines(plan)) rows.push([`  ${name}`, bytesText(bytes), note]);
  const held = heldLines(plan).reduce((sum, [, bytes]) => sum + bytes, 0);
  rows.push(['  together', bytesText(held), '']);
  heading(`on top of it${workers > 1 ? `, ${workers} workers together` : ''}`);
  for (const [name, bytes] of phases) {
    if (name === 'load') continue;
    rows.push([`  ${name}`, bytesText(Math.max(0, bytes - held)), MEANING[name]]);
  }
  const [kept, again] = plan.recompute ? [otherwise, plan] : [plan, otherwise];
  heading('activations that wait for the backward pass, per worker');
  rows.push(['  all kept', bytesText(kept.activations), `peak ${bytesText(kept.peak)}`]);
  rows.push(['  layers computed again', bytesText(again.activations), `peak ${bytesText(again.peak)}`]);
  const widths = [0, 1].map((column) =>
    Math.max(...rows.filter(([, bytes]) => bytes !== '').map((row) => row[column]!.length)),
  );
  const table = rows.map(([name, bytes, note]) =>
    bytes === '' ? name : `${name.padEnd(widths[0]!)}  ${bytes.padStart(widths[1]!)}  ${note}`.trimEnd(),
  );
  return [
    planLine(plan),
    `longest of the first examples: prompt ${lengths.prompt} tokens (${lengths.patches} patches), trace ${lengths.trace} tokens`,
    ...table,
    ...(plan.usable === null ? [] : [usableLine(plan.usable)]),
    ...(plan.fits === false ? [remedyLine(plan)] : []),
  ];
}
