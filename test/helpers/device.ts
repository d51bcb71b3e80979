/** Device of the suites: the processor, or what TIMESEER_TEST_DEVICE says: `cuda`, or `test` under `npm run test:device`. */
export const DEVICE = process.env['TIMESEER_TEST_DEVICE'] ?? 'cpu';

/** True if a run repeats to the bit there: CUDA may sum a gradient in another order from run to run. */
export const REPEATS = !DEVICE.startsWith('cuda');
