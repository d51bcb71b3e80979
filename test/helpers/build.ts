/** Builds the program before the first test and after each change: Workers and processes of tests run what users run. */
import { execSync } from 'node:child_process';
import { existsSync } from 'node:fs';
import { resolve } from 'node:path';
import type { TestProject } from 'vitest/node';

const ROOT = resolve(import.meta.dirname, '../..');

function build(): void {
  if (!existsSync(resolve(ROOT, 'node_modules/typescript'))) {
    console.warn(
      'no TypeScript here (test/bench/cuda-pack.sh leaves it out): Workers run from their sources',
    );
    return;
  }
  execSync('npm run --silent build', { cwd: ROOT, stdio: 'inherit' });
}

export function setup(project: TestProject): void {
  build();
  project.onTestsRerun(async () => build());
}
