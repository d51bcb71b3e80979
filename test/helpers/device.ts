/** Device of the suites: the processor, or what TIMESEER_TEST_DEVICE says: `cuda`, or `test` under `npm run test:device`. */
export const DEVICE = process.env['TIMESEER_TEST_DEVICE'] ?? 'cpu';
