/** A memory plan for people: a table, and one line. */
import type { StagePlan } from './plan.ts';
import type { Phase } from './plan-watch.ts';

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
  forward: 'forward pass of the longest piece',
  logits: 'logits of a chunk of tokens, their log-probabilities, entropies and gradients',
  backward: 'gradients on their way back, a layer computed again where layers are',
  'optimizer step': 'chunks of the update',
};

function heldLines(plan: StagePlan): [name: string, bytes: number, note: string][] {
  const { held, workers } = plan;
  const lines: [string, number, string][] = [
    ['weights', held.weights, ''],
    ['adapter', held.adapter, 'float32'],
    ['reference policy', held.reference, 'rl.kl > 0'],
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

/** What to change, most effective first; empty where nothing has to be. */
export function remedyLines(plan: StagePlan): string[] {
  return plan.remedies.map(({ change, peak }) => `--set ${change}: ${bytesText(peak)}`);
}

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
    ...(plan.remedies.length === 0
      ? []
      : ['what lowers the peak, most first', ...remedyLines(plan).map((line) => `  ${line}`)]),
  ];
}
