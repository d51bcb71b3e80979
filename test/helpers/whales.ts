/** Two seconds of a hydrophone at 2 kHz as the archive's files have them: noise of the sea, in every other one an up-call. */
import { mkdirSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { Random } from '../../src/ground/random.ts';

const RATE = 2000;
const POINTS = 4000;
const HEADER = `#Synthetic
@problemName RightWhaleCalls
@timestamps false
@missing false
@univariate true
@equalLength true
@seriesLength ${POINTS}
@classLabel true NoWhale RightWhale
@data`;

/** A second of a tone that climbs from about 90 to 200 Hz, over noise that grows towards low frequencies. */
function signal(random: Random, call: boolean): Float64Array {
  const start = 0.3 + 0.5 * random.uniform();
  const from = 80 + 30 * random.uniform();
  const to = 170 + 60 * random.uniform();
  let low = 0;
  let phase = 0;
  return Float64Array.from({ length: POINTS }, (_, t) => {
    const noise = (): number => random.uniform() + random.uniform() - 1;
    low = 0.97 * low + 0.02 * noise();
    const at = t / RATE - start;
    let value = low + 0.05 * noise();
    if (at >= 0 && at <= 1) {
      phase += (2 * Math.PI * (from + (to - from) * at * at)) / RATE;
      if (call) value += 0.15 * Math.sin(Math.PI * at) * Math.sin(phase);
    }
    return value;
  });
}

/** Writes RightWhaleCalls_TRAIN.ts and _TEST.ts, with as many calls as other sounds, into a new folder. @returns its path */
export function writeWhales(folder: string, counts = { TRAIN: 8, TEST: 4 }): string {
  mkdirSync(folder);
  for (const [split, count] of Object.entries(counts)) {
    const rows = Array.from({ length: count }, (_, n) => {
      const call = n % 2 === 0;
      const values = Array.from(signal(new Random(n, `whales/${split}`), call), (value) => value.toFixed(5));
      return `${values.join(',')}:${call ? 'RightWhale' : 'NoWhale'}`;
    });
    writeFileSync(join(folder, `RightWhaleCalls_${split}.ts`), `${[HEADER, ...rows].join('\n')}\n`);
  }
  return folder;
}
