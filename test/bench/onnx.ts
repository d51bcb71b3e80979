/**
 * Decoding on one thread: our engine, our loop over onnxruntime, and transformers.js on the same exported files, in turns:
 * npx tsx test/bench/onnx.ts [--json] [--rounds N] [--policy DIR]
 *
 * Every contender has the same prompts with pictures, already tokens and pixels, and decodes greedily the same number of tokens:
 * what ends a response is suppressed. Pictures and prompts are encoded each time. Every token must be the same.
 */
import { join } from 'node:path';
import { pathToFileURL } from 'node:url';
import { AutoModelForImageTextToText, env, Tensor } from '@huggingface/transformers';
import { openTorch } from '../../src/engine/torch/torch.ts';
import { exportOnnx } from '../../src/onnx/export.ts';
import { generateOnnx } from '../../src/onnx/generate.ts';
import { OnnxPolicy } from '../../src/onnx/policy.ts';
import type { EncodedPrompt } from '../../src/policy/batch.ts';
import { generate } from '../../src/policy/generate.ts';
import { type Dims, readGenerationConfig } from '../../src/policy/model-config.ts';
import { Policy } from '../../src/policy/policy.ts';
import {
  type BenchOptions,
  benchOptions,
  gflops,
  type Machine,
  machineOf,
  median,
  table,
} from './measure.ts';
import { examples, withPolicy, withScratch } from './workload.ts';

const TOKENS = 100;
const BATCHES = [1, 32] as const;
const FIRST = 3_000_000;

type Generate = (prompts: readonly EncodedPrompt[], tokens: number) => Promise<number[][]>;

interface Contender {
  readonly name: string;
  readonly generate: Generate;
}

export interface OnnxBenchRow {
  readonly batch: number;
  readonly name: string;
  /** Milliseconds of a step after the first token, median over rounds. */
  readonly step: number;
  readonly answersPerSecond: number;
  /** Its time over ours by onnxruntime in the same round, median. */
  readonly ratio: number;
}

export interface OnnxBenchReport {
  readonly machine: Machine;
  readonly onnxruntime: string;
  readonly transformers: string;
  readonly tokens: number;
  readonly rows: readonly OnnxBenchRow[];
  readonly gflops: number;
}

/** Pixels as the vision encoder takes them: every frame of a still image is the same. */
function pixelsOf(prompts: readonly EncodedPrompt[], { vision }: Dims): Tensor {
  const area = vision.patch * vision.patch;
  const values: number[] = [];
  for (const { images } of prompts) {
    for (const { patches } of images) {
      for (let at = 0; at < patches.length; at += area) {
        for (let frame = 0; frame < vision.temporal; frame++) values.push(...patches.subarray(at, at + area));
      }
    }
  }
  const width = 3 * vision.temporal * area;
  return new Tensor('float32', Float32Array.from(values), [values.length / width, width]);
}

const ints = (values: readonly number[], dims: number[]): Tensor =>
  new Tensor('int64', BigInt64Array.from(values, BigInt), dims);

async function transformersJs(
  exported: string,
  dims: Dims,
  suppress: readonly number[],
): Promise<{ generate: Generate; dispose: () => Promise<unknown> }> {
  env.allowRemoteModels = false;
  const model = await AutoModelForImageTextToText.from_pretrained(exported, {
    ...{ dtype: 'fp32', device: 'cpu' },
    session_options: { intraOpNumThreads: 1, interOpNumThreads: 1 },
  });
  const inputs = new Map<EncodedPrompt, Record<string, Tensor>>();
  const generateThere: Generate = async (prompts, tokens) => {
    const length = prompts[0]!.ids.length;
    let given = inputs.get(prompts[0]!);
    if (given?.['input_ids']?.dims[0] !== prompts.length) {
      const grids = prompts.flatMap(({ images }) =>
        images.flatMap(({ rows, columns }) => [1, rows, columns]),
      );
      given = {
        input_ids: ints(
          prompts.flatMap(({ ids }) => [...ids]),
          [prompts.length, length],
        ),
        attention_mask: ints(new Array(prompts.length * length).fill(1), [prompts.length, length]),
        pixel_values: pixelsOf(prompts, dims),
        image_grid_thw: ints(grids, [grids.length / 3, 3]),
      };
      inputs.set(prompts[0]!, given);
    }
    const answer = await model.generate({
      ...given,
      ...{ max_new_tokens: tokens, do_sample: false, suppress_tokens: [...suppress] },
    } as never);
    return ((answer as Tensor).tolist() as bigint[][]).map((ids) => ids.slice(length).map(Number));
  };
  return { generate: generateThere, dispose: () => model.dispose() };
}

async function measureBatch(
  contenders: readonly Contender[],
  prompts: readonly EncodedPrompt[],
  rounds: number,
): Promise<OnnxBenchRow[]> {
  const whole = contenders.map((): number[] => []);
  const first = contenders.map((): number[] => []);
  let expected: string | undefined;
  for (let round = 0; round <= rounds; round++) {
    for (const [c, { name, generate: ask }] of contenders.entries()) {
      const began = performance.now();
      await ask(prompts, 1);
      const between = performance.now();
      const answers = await ask(prompts, TOKENS);
      const ended = performance.now();
      expected ??= JSON.stringify(answers);
      if (JSON.stringify(answers) !== expected)
        throw new Error(`${name}: other tokens than ${contenders[0]!.name}`);
      if (round === 0) continue; // warms up
      first[c]!.push(between - began);
      whole[c]!.push(ended - between);
    }
  }
  const ours = contenders.findIndex(({ name }) => name === OURS);
  return contenders.map(({ name }, c) => ({
    ...{ batch: prompts.length, name },
    step: median(whole[c]!.map((time, r) => (time - first[c]![r]!) / (TOKENS - 1))),
    answersPerSecond: (1000 * prompts.length) / median(whole[c]!),
    ratio: median(whole[c]!.map((time, r) => time / whole[ours]![r]!)),
  }));
}

const OURS = 'timeseer --engine onnx';

export async function measureOnnx({ policy: given, rounds }: BenchOptions): Promise<OnnxBenchReport> {
  const engine = openTorch({ threads: 1 });
  return withPolicy(given, 'cpu', (directory) =>
    withScratch(async (scratch) => {
      const exported = join(scratch, 'exported');
      exportOnnx(directory, exported, { types: ['float32'], version: 'bench' });
      const policy = Policy.load(engine, directory, { tuning: 'none' });
      const onnx = await OnnxPolicy.open(exported);
      const { suppress, stops } = readGenerationConfig(directory);
      const hidden = [...new Set([...suppress, ...stops, policy.dims.special.end])];
      const theirs = await transformersJs(exported, policy.dims, hidden);
      const options = { temperature: 0, seed: 0, suppress: hidden, stops };
      const contenders: Contender[] = [
        {
          name: `timeseer, libtorch ${engine.info.version}`,
          generate: async (prompts, maxTokens) =>
            (await generate(policy, prompts, { ...options, maxTokens })).map(({ ids }) => [...ids]),
        },
        {
          name: OURS,
          generate: async (prompts, maxTokens) =>
            (await generateOnnx(onnx, prompts, { ...options, maxTokens })).map(({ ids }) => [...ids]),
        },
        { name: 'transformers.js', generate: theirs.generate },
      ];
      const list = await examples(policy, directory, FIRST, Math.max(...BATCHES));
      const prompts = list.map(({ prompt }) => prompt);
      const rows: OnnxBenchRow[] = [];
      try {
        for (const batch of BATCHES) {
          rows.push(
            ...(await measureBatch(contenders, prompts.slice(0, batch), batch === 1 ? 3 * rounds : rounds)),
          );
        }
        const speed = gflops();
        return {
          ...{ machine: machineOf(engine), onnxruntime: onnx.version, transformers: env.version },
          ...{ tokens: TOKENS, rows, gflops: speed },
        };
      } finally {
        policy.dispose();
        await onnx.dispose();
        await theirs.dispose();
      }
    }),
  );
}

function text({ machine, onnxruntime, transformers, tokens, rows, gflops: speed }: OnnxBenchReport): string {
  return [
    `greedy decoding of ${tokens} tokens, one thread; Node ${machine.node}, libtorch ${machine.libtorch}, onnxruntime ${onnxruntime}, transformers.js ${transformers}; matmul on one thread ${speed.toFixed(0)} GFLOP/s`,
    table(
      ['', 'batch', 'ms a step', 'answers/s', 'time over ours by onnxruntime'],
      rows.map((row) => [
        ...[row.name, String(row.batch), row.step.toFixed(2), row.answersPerSecond.toFixed(2)],
        `${row.ratio.toFixed(2)}×`,
      ]),
    ),
    'every token the same in all',
  ].join('\n');
}

if (import.meta.url === pathToFileURL(process.argv[1] ?? '').href) {
  const options = benchOptions(3);
  const report = await measureOnnx(options);
  console.log(options.json ? JSON.stringify(report, null, 2) : text(report));
}
