/**
 * A large policy with random weights against transformers on the same weights, prompts and responses, in turns:
 * npm run bench -- large, or npx tsx test/bench/large.ts [--size tiny|120m|3b] [--device cuda] [--dtype bfloat16] [--prompts P] [--group G]
 *   [--tokens T] [--batches 1,8] [--steps N] [--rounds N] [--only forward,backward,greedy,grpo] [--micro-batch TOKENS]
 *   [--recompute] [--alone] [--json]
 *
 * Passes: the prompts to the logits of their last token; gradients of a supervised loss; greedy decoding of N tokens at
 * several batch sizes; one GRPO update (forward, backward, clipping, AdamW). Beside the ratio to the peer stand the
 * bounds of this machine, measured in the same run: the largest product's FLOP/s and the bandwidth of its memory.
 */

import { availableParallelism } from 'node:os';
import { pathToFileURL } from 'node:url';
import { parseArgs } from 'node:util';
import type { Engine } from '../../src/engine/engine.ts';
import { openTorch } from '../../src/engine/torch/torch.ts';
import { type LargeAnswer, LargeContender } from './large-contender.ts';
import { largePolicy, largeWork, SIZES, type SizeName, writeWork } from './large-policy.ts';
import { type Machine, machineOf, median, table } from './measure.ts';
import { openPeer } from './peer.ts';
import type { Contender } from './team.ts';
import { withScratch } from './workload.ts';

interface Options {
  readonly size: SizeName;
  readonly device: string;
  readonly dtype: 'float32' | 'bfloat16';
  readonly prompts: number;
  readonly group: number;
  readonly tokens: number;
  readonly batches: readonly number[];
  readonly steps: number;
  readonly rounds: number;
  readonly only: readonly string[];
  /** Tokens that go through ours at once in an update. */
  readonly microBatch: number;
  /** Ours computes layers again in the backward pass. */
  readonly recompute: boolean;
  /** Without the peer. */
  readonly alone: boolean;
}

export interface LargeRow {
  readonly pass: string;
  readonly unit: string;
  /** Units per second: ours, the peer's. Null: it could not. */
  readonly ours: number | null;
  readonly peer: number | null;
  /** Units per second that this machine's memory or arithmetic allows at most. */
  readonly bound: number;
  readonly peakOurs: number | null;
  readonly peakPeer: number | null;
  /** What of both was compared, in words. */
  readonly agreement: string;
}

export interface LargeReport {
  readonly machine: Machine;
  readonly options: Options;
  readonly parameters: number;
  readonly flops: number;
  readonly bandwidth: number;
  readonly rows: readonly LargeRow[];
  readonly peer: string;
}

/** FLOP/s of the largest product that is quick to measure, and bytes per second of a copy that no cache holds. */
function bounds(engine: Engine, dtype: 'float32' | 'bfloat16'): { flops: number; bandwidth: number } {
  const gpu = engine.info.device !== 'cpu';
  const side = gpu ? 8192 : 1536;
  const length = (gpu ? 1 << 30 : 1 << 28) / 4;
  const best = (work: () => void): number => {
    let seconds = Number.POSITIVE_INFINITY;
    for (let i = 0; i < 5; i++) {
      const began = performance.now();
      engine.scope(work);
      engine.synchronize();

      seconds = Math.min(seconds, (performance.now() - began) / 1000);
    }
    return seconds;
  };
  return engine.noGrad(() =>
    engine.scope(() => {
      const a = engine.add(engine.zeros([side, side], dtype), 0.5);
      const from = engine.zeros([length]);
      const to = engine.zeros([length]);
      return {
        flops: (2 * side ** 3) / best(() => engine.matmul(a, a)),
        bandwidth: (2 * 4 * length) / best(() => engine.write(to, 0, 0, from)),
      };
    }),
  );
}

/** Largest relative difference of two lists, relative to the largest value of the second. */
function difference(a: readonly number[], b: readonly number[]): number {
  const scale = Math.max(...b.map(Math.abs));
  return Math.max(...b.map((value, i) => Math.abs((a[i] ?? Number.NaN) - value))) / scale;
}

function agreement(ours: LargeAnswer, peer: LargeAnswer): string {
  const parts: string[] = [];
  const relative = (what: string, a: number | undefined, b: number | undefined): void => {
    if (a !== undefined && b !== undefined) parts.push(`${what} ${Math.abs(a / b - 1).toExponential(0)}`);
  };
  if (ours.logits !== undefined && peer.logits !== undefined)
    parts.push(`logits ${difference(ours.logits, peer.logits).toExponential(0)}`);
  relative('loss', ours.loss, peer.loss);
  relative('log-prob', ours.logProb, peer.logProb);
  relative('gradient norm', ours.norm, peer.norm);
  if (ours.gradients !== undefined && peer.gradients !== undefined) {
    const names = Object.keys(ours.gradients);
    const theirs = new Map(
      Object.entries(peer.gradients).map(([name, value]) => [
        name.replace(/^model\.(language_model|visual)\./, '$1.'),
        value,
      ]),
    );
    const worst = names.map((name) => {
      const other = theirs.get(name.replace(/^model\./, 'language_model.')) ?? theirs.get(name) ?? Number.NaN;
      return Math.abs(ours.gradients![name]! - other) / Math.max(other, 1e-9);
    });
    parts.push(`${names.length} gradients ${Math.max(...worst).toExponential(0)}`);
  }
  if (ours.ids !== undefined && peer.ids !== undefined) {
    const same = ours.ids.flatMap((row, b) => row.map((id, t) => (peer.ids![b]?.[t] === id ? 1 : 0)));
    parts.push(`${((100 * same.reduce<number>((a, b) => a + b, 0)) / same.length).toFixed(0)} % of tokens`);
  }
  return parts.length === 0 ? '–' : parts.join(', ');
}

interface Pass {
  readonly name: string;
  readonly question: string;
  readonly unit: string;
  readonly units: number;
  /** Seconds that the bounds allow at least. */
  readonly least: number;
  /** Asked before it; its seconds are subtracted. */
  readonly less?: string;
}

async function measurePass(
  pass: Pass,
  ours: Contender<LargeAnswer>,
  peer: Contender<LargeAnswer> | null,
  rounds: number,
): Promise<LargeRow> {
  const speeds: [number[], number[]] = [[], []];
  const last: (LargeAnswer | undefined)[] = [undefined, undefined];
  const peaks = [0, 0];
  for (let round = 0; round <= rounds; round++) {
    for (const [i, contender] of [ours, peer].entries()) {
      if (contender === null || last[i]?.failed !== undefined) continue;
      let began = performance.now();
      let given: LargeAnswer;
      try {
        if (pass.less !== undefined) {
          await contender.ask(pass.less);
          began = 2 * performance.now() - began; // as if the other had begun after it
        }
        [given] = (await contender.ask(pass.question)) as [LargeAnswer];
      } catch (error) {
        given = { failed: (error as Error).message.split('\n')[0]! };
      }
      last[i] = given;
      if (given.failed !== undefined)
        process.stderr.write(`${contender.name}, ${pass.name}: ${given.failed}\n`);
      else if (round > 0) speeds[i as 0 | 1].push((1000 * pass.units) / (performance.now() - began));
      peaks[i] = Math.max(peaks[i]!, given.peak ?? 0);
    }
  }
  const speed = (i: 0 | 1): number | null => (speeds[i].length === 0 ? null : median(speeds[i]));
  return {
    pass: pass.name,
    unit: pass.unit,
    ours: speed(0),
    peer: speed(1),
    bound: pass.units / pass.least,
    peakOurs: peaks[0] || null,
    peakPeer: peaks[1] || null,
    agreement: last[0] === undefined || last[1] === undefined ? '–' : agreement(last[0], last[1]),
  };
}

export async function measureLarge(options: Options): Promise<LargeReport> {
  const { device, dtype, prompts, group, tokens } = options;
  const threads = availableParallelism();
  const engine = openTorch({ device, threads });
  const { flops, bandwidth } = bounds(engine, dtype);
  return withScratch(async (scratch) => {
    const size = SIZES[options.size];
    const made = largePolicy(engine, size, 11, dtype);
    made.save(`${scratch}/policy`);
    const work = largeWork(made, size, { prompts, group, tokens });
    writeWork(scratch, made, work);
    const { dims, layout } = made;
    made.dispose();
    const peer = options.alone
      ? 'left out'
      : await openPeer<LargeAnswer>(
          'transformers',
          'large',
          1,
          Object.entries({
            policy: `${scratch}/policy`,
            work: scratch,
            device,
            dtype,
            threads,
            rows: group,
          }).flatMap(([key, value]) => [`--${key}`, String(value)]),
          threads,
        );
    const ours = new LargeContender(engine, `${scratch}/policy`, work, {
      dtype,
      tokens: options.microBatch,
      recompute: options.recompute,
    });
    const length = work.prompts[0]!.ids.length;
    const sum = (chosen: RegExp): number =>
      layout.parameters.filter(({ name }) => chosen.test(name)).reduce((total, one) => total + one.size, 0);
    const layers = sum(/^layers\./); // multiplied with every token
    const head = dims.vocabulary * dims.width; // with every token that predicts
    const sight = sum(/^(vision|merger)\./) * 4 * (length - size.text); // four patches to a visual token
    const width = dtype === 'float32' ? 4 : 2;
    const promptFlops = 2 * (prompts * (layers * length + sight));
    const cached = 2 * dims.layers * dims.kvHeads * dims.headDim; // keys and values of a token
    const passes: Pass[] = [
      {
        name: 'prefill',
        question: 'forward',
        unit: 'tokens/s',
        units: prompts * length,
        least: (promptFlops + 2 * prompts * head) / flops,
      },
      {
        name: 'supervised gradient',
        question: 'backward',
        unit: 'tokens/s',
        units: prompts * (length + tokens),
        least: (3 * (promptFlops + 2 * prompts * tokens * (layers + head))) / flops,
      },
      ...options.batches.flatMap((batch) => [
        {
          name: `greedy, batch ${batch}, ${options.steps} tokens`,
          question: `greedy ${batch} ${options.steps}`,
          unit: 'tokens/s',
          units: batch * options.steps,
          // Weights are read once per step, or multiplied with every row, whichever takes longer; the cache is left out.
          least:
            options.steps *
              Math.max((width * (layers + head)) / bandwidth, (2 * batch * (layers + head)) / flops) +
            (2 * batch * (layers * length + sight)) / flops,
        },
        {
          name: `its ${options.steps - 1} steps alone`,
          question: `greedy ${batch} ${options.steps}`,
          less: `greedy ${batch} 1`,
          unit: 'tokens/s',
          units: batch * (options.steps - 1),
          // Weights and the cache of each row are read once per step.
          least:
            (options.steps - 1) *
            Math.max(
              (width * (layers + head + batch * cached * (length + options.steps / 2))) / bandwidth,
              (2 * batch * (layers + head)) / flops,
            ),
        },
      ]),
      {
        name: `GRPO, ${prompts} × ${group} × ${tokens}`,
        question: 'grpo',
        unit: 'tokens/s',
        units: prompts * group * tokens,
        least: (3 * (promptFlops + 2 * prompts * group * tokens * (layers + head))) / flops,
      },
    ];
    const rows: LargeRow[] = [];
    const opponent = typeof peer === 'string' ? null : peer;
    try {
      for (const pass of passes) {
        if (!options.only.includes(pass.question.split(' ')[0]!)) continue;
        rows.push(await measurePass(pass, ours, opponent, options.rounds));
      }
    } finally {
      await opponent?.close();
      await ours.close();
    }
    const machine = machineOf(engine);
    const versions = typeof peer === 'string' ? `SKIPPED ${peer}` : peer.versions;
    return { machine, options, parameters: layout.size, flops, bandwidth, rows, peer: versions };
  });
}

function text({ machine, options, parameters, flops, bandwidth, rows, peer }: LargeReport): string {
  const { size, dtype, device } = options;
  const speed = (value: number | null): string => (value === null ? '–' : value.toFixed(value < 100 ? 1 : 0));
  const bytes = (value: number | null): string => (value === null ? '–' : (value / 1e9).toFixed(2));
  return [
    `${size}: ${(parameters / 1e6).toFixed(0)} M parameters, ${dtype} on ${device} (${machine.device}); libtorch ${machine.libtorch}, ${machine.blas}; ${peer}`,
    `bounds: ${(flops / 1e9).toFixed(0)} GFLOP/s, ${(bandwidth / 1e9).toFixed(1)} GB/s`,
    table(
      ['', 'unit', 'ours', 'transformers', 'ratio', 'of bound', 'peak GB', 'theirs', 'difference'],
      rows.map((row) => [
        row.pass,
        row.unit,
        speed(row.ours),
        speed(row.peer),
        row.ours === null || row.peer === null ? '–' : `${(row.ours / row.peer).toFixed(2)}×`,
        row.ours === null ? '–' : `${((100 * row.ours) / row.bound).toFixed(0)} %`,
        bytes(row.peakOurs),
        bytes(row.peakPeer),
        row.agreement,
      ]),
    ),
  ].join('\n');
}

function parse(): { options: Options; json: boolean } {
  const { values } = parseArgs({
    options: {
      size: { type: 'string', default: '120m' },
      device: { type: 'string', default: 'cpu' },
      dtype: { type: 'string', default: 'float32' },
      prompts: { type: 'string', default: '8' },
      group: { type: 'string', default: '8' },
      tokens: { type: 'string', default: '128' },
      batches: { type: 'string', default: '1,8' },
      steps: { type: 'string', default: '64' },
      rounds: { type: 'string', default: '2' },
      only: { type: 'string', default: 'forward,backward,greedy,grpo' },
      'micro-batch': { type: 'string', default: '4096' },
      recompute: { type: 'boolean', default: false },
      alone: { type: 'boolean', default: false },
      json: { type: 'boolean', default: false },
    },
  });
  const { size, dtype } = values;
  if (!Object.hasOwn(SIZES, size))
    throw new RangeError(`--size ${size}: one of ${Object.keys(SIZES).join(', ')}`);
  if (dtype !== 'float32' && dtype !== 'bfloat16')
    throw new RangeError(`--dtype ${dtype}: float32 or bfloat16`);
  const options: Options = {
    size: size as SizeName,
    device: values.device,
    dtype,
    prompts: Number(values.prompts),
    group: Number(values.group),
    tokens: Number(values.tokens),
    batches: values.batches.split(',').map(Number),
    steps: Number(values.steps),
    rounds: Number(values.rounds),
    only: values.only.split(','),
    microBatch: Number(values['micro-batch']),
    recompute: values.recompute,
    alone: values.alone,
  };
  return { options, json: values.json };
}

if (import.meta.url === pathToFileURL(process.argv[1] ?? '').href) {
  const { options, json } = parse();
  const report = await measureLarge(options);
  console.log(json ? JSON.stringify(report, null, 2) : text(report));
}
