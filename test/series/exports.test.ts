/** The analyses as a library: what `import … from 'timeseer/series'` gives, in the built package. */
import { execFileSync } from 'node:child_process';
import { resolve } from 'node:path';
import { expect, it } from 'vitest';
import * as sources from '../../src/series/index.ts';

const ROOT = resolve(import.meta.dirname, '../..');

/** Runs a module inside the package, which finds itself by its own name as a dependent would; returns what it prints as JSON. */
function run(program: string): unknown {
  const printed = execFileSync(process.execPath, ['--input-type=module', '-e', program], {
    cwd: ROOT,
    encoding: 'utf8',
    timeout: 100_000, // a program that never ends would hold the suite
  });
  return JSON.parse(printed);
}

it('exports the analyses of the sources from the built package', () => {
  const names = run(
    `const series = await import('timeseer/series'); console.log(JSON.stringify(Object.keys(series)))`,
  );
  expect(names).toEqual(Object.keys(sources).sort());
});

it('analyses series, with Workers where there is enough work', () => {
  const found = run(`
    import { anytimeMatrixProfile, ConfigError, matrixProfile, pelt, stl, topDiscords, unitRootTest } from 'timeseer/series';
    const wave = Float64Array.from({ length: 9000 }, (_, i) => Math.sin(i / 8) + Math.sin(i * i) / 20 + (i >= 4000 && i < 4020 ? 1 : 0));
    const step = Float64Array.from({ length: 100 }, (_, i) => Number(i >= 40) + Math.sin(i * i) / 20);
    const profile = await anytimeMatrixProfile(wave, { window: 50, threads: 2 });
    const exact = matrixProfile(wave, { window: 50 });
    let refused = null;
    try { pelt(step, { minSize: 0 }) } catch (error) { refused = error instanceof ConfigError && error.message }
    console.log(JSON.stringify({
      changes: pelt(step).changes,
      unitRoot: unitRootTest(wave).pValue < 0.01,
      residual: stl(wave, { period: 50 }).residual.length,
      discord: topDiscords(profile, 1)[0].start,
      exact: profile.exact && topDiscords(exact, 1)[0].start === topDiscords(profile, 1)[0].start,
      refused,
    }));
  `) as Record<string, unknown>;
  expect(found).toEqual({
    changes: [40],
    unitRoot: true,
    residual: 9000,
    discord: expect.toSatisfy((start: number) => start > 3940 && start < 4020),
    exact: true,
    refused: 'change points minSize: got 0, expected a whole number ≥ 1',
  });
});
