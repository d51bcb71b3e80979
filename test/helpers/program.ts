/** The program as users have it, for tests that start it in a process of its own. */
import { resolve } from 'node:path';

/** The command line, built before the tests begin. */
export const CLI = resolve(import.meta.dirname, '../../dist/src/cli.js');
