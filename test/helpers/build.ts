/** Builds the program before the first test and after each change: Workers and processes of tests run what users run. */
import { execSync } from 'node:child_process';
import { resolve } from 'node:path';
import type { TestProject } from 'vitest/node';

function build(): void {
  execSync('npm run --silent build', { cwd: resolve(import.meta.dirname, '../..'), stdio: 'inherit' });
}

export function setup(project: TestProject): void {
  build();
  project.onTestsRerun(async () => build());
}
