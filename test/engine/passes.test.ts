/** The kernels that are compiled for CUDA, run on the processor by fibers in place of threads. */
import { execFileSync } from 'node:child_process';
import { readFileSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { describe, expect, it } from 'vitest';
import { findCompiler } from '../../src/engine/torch/build.ts';
import { temporary } from '../helpers/temporary.ts';

const source = readFileSync(new URL('../../src/engine/torch/passes.cc', import.meta.url), 'utf8');
const here = fileURLToPath(new URL('./passes/', import.meta.url));

/** The text of a kernel source, as C++ of a processor reads it: one block's memory, and names in a namespace of their own. */
function kernels(name: string): string {
  const text = new RegExp(`constexpr const char\\* ${name} = R"\\((.*?)\\)";`, 's').exec(source)![1]!;
  return text
    .replaceAll('extern "C" ', '')
    .replace('extern __shared__ float shared[];', 'float* shared = ::shared;');
}

/** Files of cases, by the source whose kernels they run. */
const CASES = { kRows: 'row-cases.h', kStep: 'step-cases.h', kDraw: 'draw-cases.h' } as const;

interface Program {
  readonly body: keyof typeof CASES;
  readonly type: 'float' | 'Bf16';
  readonly constants: string;
  readonly calls: readonly string[];
}

/** stepCase(name, prompts, group, heads, before, used, columns, chunk, masked, counted, ownAngles) */
const STEPS = [
  'stepCase("one block, no prefix", 3, 1, 2, 0, 20, 24, 64, false, false, false)',
  'stepCase("several rounds of each warp", 2, 1, 2, 9, 130, 140, 160, true, false, false)',
  'stepCase("several blocks and a shared prefix", 2, 3, 2, 37, 50, 61, 32, true, false, true)',
  'stepCase("a column that the device knows, blocks behind it", 2, 2, 3, 5, 40, 130, 32, true, true, true)',
  'stepCase("the first column of all", 1, 2, 2, 0, 0, 70, 32, false, true, false)',
];

/** drawCase(name, width, temperature, masked, a logit that is not a number) */
const DRAWS = [
  'drawCase("greedy", 3 * THREADS * N + 5 * N, 0, true)',
  'drawCase("greedy of less than a tile, without a mask", 2 * N, 0, false)',
  'drawCase("draws", 4 * THREADS * N, 1, false)',
  'drawCase("draws at a temperature under a mask", 2 * THREADS * N + N, .7, true)',
  'drawCase("greedy with NaN", THREADS * N + N, 0, true, NAN)',
  'drawCase("draws with NaN", THREADS * N + N, 1, true, NAN)',
];

const PROGRAMS: readonly Program[] = [
  { body: 'kRows', type: 'float', constants: 'constexpr int N = 4;', calls: ['rowCases()'] },
  { body: 'kRows', type: 'Bf16', constants: 'constexpr int N = 8;', calls: ['rowCases()'] },
  { body: 'kRows', type: 'Bf16', constants: 'constexpr int N = 1;', calls: ['rowCases()'] },
  { body: 'kStep', type: 'float', constants: 'constexpr int E = 1, R = 3;', calls: STEPS },
  { body: 'kStep', type: 'Bf16', constants: 'constexpr int E = 4, R = 8;', calls: STEPS.slice(1) },
  { body: 'kStep', type: 'float', constants: 'constexpr int E = 2, R = 7;', calls: STEPS.slice(3) },
  { body: 'kStep', type: 'float', constants: 'constexpr int E = 8, R = 1;', calls: STEPS.slice(3, 4) },
  { body: 'kStep', type: 'Bf16', constants: 'constexpr int E = 8, R = 6;', calls: STEPS.slice(1, 2) },
  { body: 'kDraw', type: 'float', constants: 'constexpr int N = 4, WARPS = 8;', calls: DRAWS },
  { body: 'kDraw', type: 'Bf16', constants: 'constexpr int N = 8, WARPS = 4;', calls: DRAWS },
  { body: 'kDraw', type: 'Bf16', constants: 'constexpr int N = 1, WARPS = 2;', calls: DRAWS },
];

/** One program that runs all cases and prints a line of JSON for each. */
function harness(): string {
  const common = kernels('kCommon');
  const split = common.indexOf('template <int N> struct alignas');
  const parts = PROGRAMS.map(({ body, type, constants, calls }, i) => {
    return [
      `namespace program${i} {`,
      common.slice(0, split),
      `using T = ${type};\n${constants}`,
      common.slice(split) + kernels(body),
      `#define NAME "${type}, ${constants.slice('constexpr int '.length, -1)}:"`,
      // A product of bfloat16 rounds once to 2⁻⁹ of its size.
      `#define ALLOWED ${type === 'float' ? '5e-6' : '4e-3'}`,
      `#include "${here}${CASES[body]}"`,
      `static void all() {\n${calls.map((call) => `  ${call};\n`).join('')}}\n#undef NAME\n#undef ALLOWED\n}`,
    ].join('\n');
  });
  const calls = PROGRAMS.map((_, i) => `  program${i}::all();`);
  return `#include "${here}fibers.h"\n${parts.join('\n')}\nint main() {\n${calls.join('\n')}\n}\n`;
}

const compiler = findCompiler(process.env);
const scratch = temporary('passes');

describe.skipIf(compiler === null)('the kernels for CUDA, run on the processor', () => {
  it('give what plain loops in double precision give, whatever the order of their threads', () => {
    const [file, program] = [join(scratch, 'passes.cc'), join(scratch, 'passes')];
    writeFileSync(file, harness());
    const [command, ...flags] = compiler!.command;
    execFileSync(command!, [...flags, '-std=c++17', '-O1', '-w', file, '-o', program], { stdio: 'pipe' });
    const lines = execFileSync(program, { encoding: 'utf8' }).trim().split('\n');
    const seen = lines.map((line) => JSON.parse(line) as { name: string; worst: number; allowed: number });
    expect(seen).toHaveLength(3 * (4 + 6) + 2 * (5 + 4 + 2 + 1 + 1) + 3 * 2 * DRAWS.length);
    for (const { name, worst, allowed } of seen) expect(worst, name).toBeLessThan(allowed);
  });
});
