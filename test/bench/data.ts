/**
 * Preparing AnomLLM's 3200 training series (400 of each kind) with figures, prompts and expert traces, whole and on the disk:
 * npx tsx test/bench/data.ts [--json] [--rounds N]. Beside it the least that its parts take: processor time of each for a sample of the
 * series in one thread, spread over all cores.
 */

import { mkdtempSync, rmSync } from 'node:fs';
import { availableParallelism, loadavg, tmpdir } from 'node:os';
import { join } from 'node:path';
import { pathToFileURL } from 'node:url';
import { benchmarkNamed } from '../../datasets/benchmarks/registry.ts';
import { addMaterials } from '../../datasets/compose-materials.ts';
import { ExampleSet } from '../../datasets/example-set.ts';
import { prepare } from '../../datasets/prepare.ts';
import type { Picture } from '../../src/ground/types.ts';
import { encodePng } from '../../src/plot/png.ts';
import { render } from '../../src/plot/raster.ts';
import { drawingOf } from '../../src/tasks/drawing.ts';
import { expertOn } from '../../src/tasks/kinds.ts';
import { benchOptions, median, table } from './measure.ts';

const SERIES = 3200;
/** Series that the parts are measured on, after as many that warm up. */
const SAMPLE = 160;
/** The project's own target, on two cores. */
const TARGET_SECONDS = 180;

const PARTS = ['reading', 'drawing', 'encoding', 'tracing'] as const;
type Part = (typeof PARTS)[number];

export interface PrepareRound {
  readonly seconds: number;
  readonly seriesPerSecond: number;
  /** Processor time of all threads. */
  readonly processorSeconds: number;
  /** Of this process so far, Workers included. */
  readonly peakMegabytes: number;
}

/** One run from the task's name to a finished directory; `path` must not exist yet. */
async function run(path: string): Promise<PrepareRound> {
  const began = performance.now();
  const cpu = process.cpuUsage();
  const { signal } = new AbortController();
  await prepare(benchmarkNamed('anomllm'), path, {
    directory: null,
    splits: ['train'],
    counts: { train: SERIES },
    complete: (temporary, examples) =>
      addMaterials(temporary, examples, { figures: true, traces: true, signal }),
  });
  const seconds = (performance.now() - began) / 1000;
  const { user, system } = process.cpuUsage(cpu);
  return {
    seconds,
    seriesPerSecond: SERIES / seconds,
    processorSeconds: (user + system) / 1e6,
    peakMegabytes: process.resourceUsage().maxRSS / 1024,
  };
}

/** Milliseconds of processor time per series of each part, in this thread alone. */
async function alone(path: string): Promise<Record<Part, number>> {
  const set = new ExampleSet(path);
  const measured = async (work: (index: number) => unknown): Promise<number> => {
    for (let index = 0; index < SAMPLE; index++) await work(index);
    const before = process.cpuUsage();
    for (let index = 0; index < SAMPLE; index++) await work(SAMPLE + index);
    const { user, system } = process.cpuUsage(before);
    return (user + system) / 1000 / SAMPLE;
  };
  const examples = Array.from({ length: 2 * SAMPLE }, (_, index) => set.at('train', index));
  const pictures: Picture[] = [];
  return {
    reading: await measured((index) => set.at('train', index)),
    drawing: await measured(async (index) => {
      const { figure, values, times } = drawingOf(examples[index]!, set.manifest.figure);
      pictures[index] = await render(figure, values, times);
    }),
    encoding: await measured((index) => encodePng(pictures[index]!)),
    tracing: await measured((index) => {
      const example = examples[index]!;
      const expert = expertOn(example, example.gold.kind, null);
      return [expert.blind(), expert.teacher(example.gold)];
    }),
  };
}

export interface PrepareReport {
  readonly series: number;
  readonly cores: number;
  readonly load: number;
  readonly rounds: readonly PrepareRound[];
  /** Milliseconds of processor time per series, one thread. */
  readonly parts: Readonly<Record<Part, number>>;
  /** Seconds that drawing, and all parts, take at least on all cores. */
  readonly boundOfDrawing: number;
  readonly boundOfAll: number;
}

/** Runs the whole comparison; about a minute a round on two cores. */
export async function measurePreparing(rounds = 1): Promise<PrepareReport> {
  const root = mkdtempSync(join(tmpdir(), 'timeseer-bench-'));
  try {
    const load = loadavg()[0]!;
    const list: PrepareRound[] = [];
    for (let round = 0; round < rounds; round++) list.push(await run(join(root, `set${round}`)));
    const parts = await alone(join(root, 'set0'));
    const cores = availableParallelism();
    const bound = (ms: number): number => (ms * SERIES) / cores / 1000;
    const all = PARTS.reduce((sum, part) => sum + parts[part], 0);
    return {
      ...{ series: SERIES, cores, load, rounds: list, parts },
      ...{ boundOfDrawing: bound(parts.drawing), boundOfAll: bound(all) },
    };
  } finally {
    rmSync(root, { recursive: true, force: true });
  }
}

function text({ series, cores, load, rounds, parts, boundOfDrawing, boundOfAll }: PrepareReport): string {
  const of = (key: keyof PrepareRound): number => median(rounds.map((round) => round[key]));
  const seconds = of('seconds');
  const rows = PARTS.map((part) => [part, `${parts[part].toFixed(2)} ms`]);
  return [
    `${series} series with figures, prompts and traces: ${seconds.toFixed(1)} s (target: below ${TARGET_SECONDS}), ${of('seriesPerSecond').toFixed(0)} series/s, ${cores} cores`,
    `processor time ${of('processorSeconds').toFixed(1)} s; peak memory ${of('peakMegabytes').toFixed(0)} MB; load of the machine before ${load.toFixed(1)}`,
    table(['', 'one thread, a series'], rows),
    `all cores, at least: drawing alone ${boundOfDrawing.toFixed(1)} s, all parts ${boundOfAll.toFixed(1)} s (${(seconds / boundOfAll).toFixed(2)}× of that measured)`,
  ].join('\n');
}

if (import.meta.url === pathToFileURL(process.argv[1] ?? '').href) {
  const { json, rounds } = benchOptions(1);
  const report = await measurePreparing(rounds);
  console.log(json ? JSON.stringify(report) : text(report));
}
