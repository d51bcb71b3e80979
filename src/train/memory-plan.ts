/**
 * Memory plan of a training: bytes held throughout by each stage, bytes added by its phases, whether it fits,
 * and recipe changes that make it fit.
 */
import {
  dryRun,
  EXAMPLES,
  ExampleReader,
  type Lengths,
  lengthsOf,
  type Phase,
  type PlannedPolicy,
  type PlannedTraining,
  type StageMeasure,
  type TrainingStage,
  UPDATE,
} from './dry-run.ts';
import type { Task } from './task.ts';

/**
 * Share of the device memory that a plan uses. The rest is for fragmentation, the CUDA context and library
 * workspaces (about 1 GB), or on a CPU for the system and this process.
 */
export const USABLE = 0.92;
/**
 * Share of a memory of tfjs that a plan uses. Measured, it grows to 1.3 to 1.5 times the bytes of the plan, which counts libtorch's
 * tensors: the engine copies more, and blocks leave gaps.
 */
const USABLE_HEAP = 0.65;

/** Changes to the options of a training by key of its recipe, as `--set` makes them. */
type RecipeChanges = Readonly<Record<string, string | number>>;

/** Changes that lower the peak together, each of them needed, and the peak with them. */
export interface Remedy {
  readonly changes: RecipeChanges;
  /** Bytes. */
  readonly peak: number;
  /** Bytes that the changed plan may use. */
  readonly usable: number;
  readonly fits: boolean;
}

export interface StagePlan extends StageMeasure {
  readonly lengths: Lengths;
  /** Measurement of the stage with the other choice of gradient checkpointing. */
  readonly otherwise: StageMeasure;
  /** Memory of the device, which Workers of tfjs divide, bytes; null where it is not known. */
  readonly total: number | null;
  /** Memory of the device, or of each Worker (`perWorker`), bytes; null where it is not known. */
  readonly memory: number | null;
  /** Part of the memory that the plan uses, bytes. */
  readonly usable: number | null;
  /** True if it fits; null if the memory is unknown. */
  readonly fits: boolean | null;
  /**
   * Changes that make the stage fit at the least cost in speed, or come closest (`fits: false`); null if none
   * is needed or helps.
   */
  readonly remedy: Remedy | null;
  /** Search for the remedy; null where the stage fits. */
  readonly search: Search | null;
}

/** Changes that were measured in search of a remedy, in order. */
export interface Search {
  readonly tried: readonly Omit<Remedy, 'fits'>[];
  /** False when time ran out. */
  readonly complete: boolean;
}

interface PlanInput {
  readonly subject: PlannedPolicy;
  readonly stage: TrainingStage;
  readonly recipe: PlannedTraining;
  readonly task: Task;
  readonly memory: number | null;
  /** Processes of this machine that share the stage, and its memory; default: none but this one. */
  readonly processes?: number | undefined;
  /** Seconds for the search for a remedy. Default: 20. */
  readonly searchSeconds?: number;
}

/** Stages that a recipe has. */
export function trainingStages({ sft, rl }: PlannedTraining): TrainingStage[] {
  return [...(sft.samples > 0 ? (['sft'] as const) : []), ...(rl.steps > 0 ? (['rl'] as const) : [])];
}

/** Inputs of the decision `memory.recompute=auto`. */
interface KeptMemory {
  /** Peak of the stage when every activation is kept, bytes: from its plan. */
  readonly kept: number;
  /** Memory of the device, bytes; null where it is not known. */
  readonly memory: number | null;
  /** Size of the policy. */
  readonly parameters: number;
}

/** Share of the memory that kept activations may fill: what a longer example, kernels and fragments need is left. */
const COMFORTABLE = 0.8;
/** Parameters from which a policy counts as large where the memory is unknown. */
const LARGE = 100e6;

/**
 * Returns true if layers are recomputed in the backward pass, about a third more computation for the same
 * gradients. `auto`: if keeping all activations would fill more than 80 % of the memory; with unknown memory,
 * from 100 million parameters.
 */
export function recomputes(
  recompute: PlannedTraining['memory']['recompute'],
  { kept, memory, parameters }: KeptMemory,
): boolean {
  if (recompute !== 'auto') return recompute === 'always';
  return memory === null ? parameters > LARGE : kept > COMFORTABLE * memory;
}

/** Returns the memory of the device, or of each Worker of tfjs, and the part of it that a plan uses, bytes; null where it is unknown. */
function limitOf(
  { subject: { heap, device: place }, memory: device, processes = 1 }: PlanInput,
  workers: number,
): Pick<StagePlan, 'memory' | 'usable'> {
  if (heap === undefined && processes > 1) {
    // On GPUs each process has one.
    const memory = device === null || place !== 'cpu' ? device : device / processes;
    return { memory, usable: memory === null ? null : Math.floor(USABLE * memory) };
  }
  // What Workers share has a copy beside theirs.
  const memory = heap === undefined ? device : Math.min(heap, (device ?? Infinity) / (workers + 1));
  const share = heap === undefined ? USABLE : USABLE_HEAP;
  return { memory, usable: memory === null ? null : Math.floor(share * memory) };
}

/** Plans a stage; `recomputes` decides whether its layers are computed again. */
export async function planStage(given: PlanInput): Promise<StagePlan> {
  const { subject, stage, recipe, task, processes } = given;
  const { heap } = subject;
  const reader = new ExampleReader(subject, task);
  const lengths = lengthsOf(await reader.first(EXAMPLES));
  const base = { subject, stage, recipe, task, reader, processes };
  const kept = await dryRun({ ...base, recompute: false });
  const began = performance.now();
  const again = await dryRun({ ...base, recompute: true });
  const took = performance.now() - began;
  const parameters = kept.held.weights / (subject.dtype === 'bfloat16' ? 2 : 4);
  const { memory, usable } = limitOf(given, kept.workers);
  const auto = { kept: kept.peak, memory: heap === undefined ? memory : usable, parameters };
  const chosen = recomputes(recipe.memory.recompute, auto) ? again : kept;
  const fits = usable === null ? null : chosen.peak <= usable;
  const { remedy, search } =
    fits === false ? await searchRemedy(given, reader, chosen, took) : { remedy: null, search: null };
  const otherwise = chosen === kept ? again : kept;
  return { ...chosen, lengths, otherwise, total: given.memory, memory, usable, fits, remedy, search };
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

/** A change is worth its cost when it lowers the peak, as a share of what is usable, to this much of it at most. */
const WORTH = 0.99;

/** Phases whose memory grows with the tokens of a micro-batch. */
const PASSES: ReadonlySet<Phase> = new Set<Phase>([
  'transport',
  'reference',
  'forward',
  'logits',
  'backward',
]);

/** Bytes that a stage holds throughout. */
const heldBytes = (measure: StageMeasure): number => {
  const { gradients: _, ...shared } = measure.held;
  return Object.values(shared).reduce((sum, bytes) => sum + bytes, buffers(measure) * measure.held.gradients);
};

/** Gradient buffers in the memory that is planned: that of a process holds its own alone. */
const buffers = ({ workers, perWorker, place }: StageMeasure): number =>
  perWorker && place === 'process' ? 1 : workers;

/**
 * Changes that may lower the peak, cheapest in speed first: more in shares, smaller micro-batches, fewer rows, recomputation,
 * fewer workers; then those that change what is learnt. If the bytes held throughout do not fit, only changes
 * that reduce them.
 */
function candidates(
  recipe: PlannedTraining,
  measure: StageMeasure,
  dtype: PlannedPolicy['dtype'],
  usable: number,
): [string, string | number][] {
  const { stage, at, workers, recompute, perWorker, place } = measure;
  const apart = perWorker && place === 'process';
  const { memory, policy, rl } = recipe;
  const list: [string, string | number][] = [];
  const fewer = (key: string, value: number): void => {
    for (let less = Math.floor(value / 2); less >= 1 && less > value / 128; less = Math.floor(less / 4))
      list.push([key, less]);
  };
  const stages = policy.tune === 'adapter' ? 2 : 3;
  if (workers > 1 && apart && recompute)
    for (let stage = memory.zero + 1; stage <= stages; stage++) list.push(['memory.zero', stage]);
  if (heldBytes(measure) <= usable) {
    if (PASSES.has(at)) fewer('memory.tokens', memory.tokens);
    if (at === 'rollout') fewer('memory.rows', memory.rows);
    if (PASSES.has(at) && !recompute) list.push(['memory.recompute', 'always']);
  }
  if (workers > 1 && !apart) list.push([`${stage}.workers`, Math.ceil(workers / 2)]);
  if (dtype === 'float32' && (apart || !perWorker)) list.push(['policy.dtype', 'bfloat16']);
  const alone = rl.distillation.weight === 0 || rl.distillation.teacher === 'current';
  if (stage === 'rl' && rl.kl > 0 && alone && policy.tune !== 'adapter') list.push(['rl.kl', 0]);
  if (policy.tune === 'all') list.push(['policy.tune', 'decoder']);
  if (policy.tune !== 'adapter') list.push(['policy.tune', 'adapter']);
  return list;
}

/** Seconds for the search for a remedy: a dry run of a policy of billions of parameters takes several. */
const SEARCH_SECONDS = 20;

/**
 * Adds changes one by one until the stage fits, then drops those made needless by later ones. Beyond the
 * first, nothing is measured that would probably exceed the search time; with time for one more, the largest
 * saving is tried.
 * @param took milliseconds of one dry run
 */
async function searchRemedy(
  given: PlanInput,
  reader: ExampleReader,
  chosen: StageMeasure,
  took: number,
): Promise<{ readonly remedy: Remedy | null; readonly search: Search }> {
  const { subject, stage, recipe, task, processes, searchSeconds = SEARCH_SECONDS } = given;
  // Fewer Workers of tfjs have more memory each.
  const usableOf = ({ workers }: StageMeasure): number => limitOf(given, workers).usable!;
  const isWithin = (measure: StageMeasure): boolean => measure.peak <= usableOf(measure);
  const began = performance.now();
  const tried: Omit<Remedy, 'fits'>[] = [];
  let longest = took;
  const runsLeft = (): number => (1000 * searchSeconds - (performance.now() - began)) / longest;
  const measured = async (changes: RecipeChanges): Promise<StageMeasure> => {
    const start = performance.now();
    const variant = changed(recipe, changes);
    const dtype = changes['policy.dtype'] === 'bfloat16' ? 'bfloat16' : subject.dtype;
    const recompute = chosen.recompute || variant.memory.recompute === 'always';
    const measure = await dryRun({
      subject: { ...subject, dtype },
      ...{ stage, recipe: variant, task, recompute, reader, processes },
    });
    longest = Math.max(longest, performance.now() - start);
    tried.push({ changes, peak: measure.peak, usable: usableOf(measure) });
    return measure;
  };
  let changes: RecipeChanges = {};
  let best = chosen;
  let [improved, complete, skipped] = [true, true, false];
  while (!isWithin(best) && improved && complete) {
    improved = false;
    const dtype = 'policy.dtype' in changes ? 'bfloat16' : subject.dtype;
    const list = candidates(changed(recipe, changes), best, dtype, usableOf(best));
    for (let i = 0; i < list.length; i++) {
      if (runsLeft() < 1 && tried.length > 0) complete = false;
      if (!complete) break;
      // With time for one more, the last of the list saves the most.
      if (runsLeft() < 2 && i < list.length - 1) [i, skipped] = [list.length - 1, true];
      const [key, value] = list[i]!;
      const more = { ...changes, [key]: value };
      const measure = await measured(more);
      if (measure.peak / usableOf(measure) > (WORTH * best.peak) / usableOf(best)) continue;
      [changes, best, improved] = [more, measure, true];
      break;
    }
  }
  const fits = isWithin(best);
  for (const key of fits ? Object.keys(changes).slice(0, -1).reverse() : []) {
    if (runsLeft() < 1) break;
    const { [key]: _, ...rest } = changes;
    const measure = await measured(rest);
    if (isWithin(measure)) [changes, best] = [rest, measure];
  }
  const remedy =
    Object.keys(changes).length === 0 ? null : { changes, peak: best.peak, usable: usableOf(best), fits };
  return { remedy, search: { tried, complete: complete && !skipped } };
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
  load: 'weights, before the optimiser is created',
  rollout: 'prompts encoded once, caches of their responses, logits of the next token',
  transport: 'hidden states of responses and traces, cost matrices in float64',
  reference: 'forward pass of the reference, logits chunk by chunk',
  forward: 'forward pass of the longest micro-batch',
  logits: 'logits of a chunk of tokens, their log-probabilities, entropies and gradients',
  backward: 'gradients; with gradient checkpointing also the recomputed layer',
  'optimizer step': 'chunks of the update, of other processes with their gradients',
  weights: 'weights of layers on their way into shares and back',
  checkpoint: 'state of other processes, a bucket at a time, which the first one writes',
};

function heldLines(plan: StagePlan): [name: string, bytes: number, note: string][] {
  const { held } = plan;
  const count = buffers(plan);
  const lines: [string, number, string][] = [
    [
      'weights',
      held.weights,
      plan.shared > 0 ? `of which ${bytesText(plan.shared)} are in shares during an update` : '',
    ],
    ['adapter', held.adapter, 'float32'],
    ['reference policy', held.reference, 'rl.kl > 0, or the initial teacher of rl.distillation'],
    ['master copy', held.master, 'float32, of bfloat16 weights'],
    ['moments', held.moments, 'of the optimiser, float32'],
    ['prepared weights', held.prepared, 'for products of tfjs, forward and backward'],
    [
      'gradients',
      count * held.gradients,
      `float32${count > 1 ? `, one buffer for each of ${count} workers` : ''}`,
    ],
  ];
  return lines.filter(([, bytes]) => bytes > 0);
}

const usableText = (usable: number): string => `${bytesText(usable)} usable`;

/** One-line summary of a plan. */
export function planLine(plan: StagePlan): string {
  const { usable, fits, perWorker, place } = plan;
  const of = usable === null ? '' : ` of ${usableText(usable)}${perWorker ? ` in each ${place}` : ''}`;
  const verdict = fits === null ? '' : fits ? ', fits' : ', does not fit';
  const layers = plan.recompute ? 'gradient checkpointing' : 'all activations kept';
  return `${plan.stage}: memory ${bytesText(plan.peak)}${of} in ${plan.at}, ${layers}${verdict}`;
}

const settings = (changes: RecipeChanges): string =>
  Object.entries(changes)
    .map(([key, value]) => `--set ${key}=${value}`)
    .join(' ');

/** Advice for a stage that does not fit; '' where it fits. */
export function remedyLine({
  fits,
  remedy,
  search,
  stage,
  perWorker,
  place,
  memory,
  total,
}: StagePlan): string {
  if (fits !== false) return '';
  const bytes = remedy === null ? '' : `${bytesText(remedy.peak)} of ${usableText(remedy.usable)}`;
  if (remedy?.fits) return `${settings(remedy.changes)} makes it fit: ${bytes}`;
  const none = search?.complete === false ? 'no change that was tried makes' : 'nothing in the recipe makes';
  const apart = memory === total ? 'more --processes, each with a device' : 'fewer --processes';
  const other = perWorker ? (place === 'process' ? apart : '--engine torch') : 'a larger device';
  const closest = remedy === null ? '' : `: ${settings(remedy.changes)} still takes ${bytes};`;
  return `${none} ${stage} fit${closest === '' ? ':' : closest} take a smaller policy or ${other}`;
}

/** Changes that were tried, with the peak of each. */
function searchLines({ search, perWorker }: StagePlan): string[] {
  if (search === null || search.tried.length === 0) return [];
  return [
    search.complete ? 'tried' : 'tried, until the search time was over',
    ...search.tried.map(
      ({ changes, peak, usable }) =>
        `  ${bytesText(peak)}${perWorker ? ` of ${usableText(usable)}` : ''}  ${settings(changes)}`,
    ),
  ];
}

/** Says where the usable bytes come from. */
function usableLine({ total, memory, usable, workers, perWorker, place }: StagePlan): string[] {
  if (memory === null || usable === null) return [];
  if (perWorker && place === 'process') {
    const share = memory === total ? '' : ` / ${workers}`; // on GPUs each process has one
    return [
      `usable: ${bytesText(usable)} in each process, ${100 * USABLE} % of ${bytesText(total!)}${share}; the rest is for the system and this process`,
    ];
  }
  if (!perWorker) {
    return [
      `usable: ${bytesText(usable)}, ${100 * USABLE} % of ${bytesText(memory)}; the rest is for the system, the device's libraries and fragmentation`,
    ];
  }
  const share = `${100 * USABLE_HEAP} % of ${bytesText(memory)}; the rest is for copies and fragmentation`;
  const parts = workers + 1;
  const origin =
    total !== null && total / parts <= memory
      ? `${bytesText(total)} / ${parts}, for ${workers} Worker${workers > 1 ? 's' : ''} and one copy of what they share`
      : 'the 4 GiB of a WebAssembly memory less a reserve of 512 MiB';
  return [`usable: ${bytesText(usable)} in each Worker, ${share}`, `${bytesText(memory)}: ${origin}`];
}

/** Formats the whole plan of a stage. */
export function planLines(plan: StagePlan): string[] {
  const { lengths, otherwise, phases, workers, perWorker, place } = plan;
  const rows: [string, string, string][] = [];
  const heading = (text: string): number => rows.push([text, '', '']);
  heading('held throughout');
  for (const [name, bytes, note] of heldLines(plan)) rows.push([`  ${name}`, bytesText(bytes), note]);
  const held = heldBytes(plan);
  rows.push(['  together', bytesText(held), '']);
  const whose = perWorker
    ? `, each of ${workers} ${place === 'process' ? 'processes' : 'workers'}`
    : `, ${workers} workers together`;
  heading(`added by each phase${workers > 1 ? whose : ''}`);
  for (const [name, bytes] of phases) {
    if (name === 'load') continue;
    const there = held - (UPDATE.has(name) ? plan.shared : 0);
    rows.push([`  ${name}`, bytesText(Math.max(0, bytes - there)), MEANING[name]]);
  }
  const [kept, again] = plan.recompute ? [otherwise, plan] : [plan, otherwise];
  heading('activations kept for the backward pass, per worker');
  rows.push(['  all kept', bytesText(kept.activations), `peak ${bytesText(kept.peak)}`]);
  rows.push(['  gradient checkpointing', bytesText(again.activations), `peak ${bytesText(again.peak)}`]);
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
    ...usableLine(plan),
    ...searchLines(plan),
    ...(plan.fits === false ? [remedyLine(plan)] : []),
  ];
}
