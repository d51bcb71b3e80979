/** Finds what is unusual in an array of numbers. */
import { detect } from 'timeseer';

const HOUR = 3_600_000;
const start = Date.UTC(2026, 0, 1);
const times = Array.from({ length: 24 * 28 }, (_, i) => new Date(start + i * HOUR));
const load = times.map(
  (time, i) => 100 + 30 * Math.sin((2 * Math.PI * time.getUTCHours()) / 24) + Math.sin(i * i),
);
load.fill(0, 400, 406); // six hours without a reading of the meter

const { findings, seasons } = await detect(load, times, { severity: 3 });
console.log(`season of ${seasons[0]} hours`);
for (const { start: from, end, kind, observed, expected } of findings) {
  const means = `mean ${observed.mean.toFixed(0)}, expected ${expected.value.toFixed(0)}`;
  console.log(`${times[from]!.toISOString()}, ${end - from} h, ${kind}: ${means}`);
}
