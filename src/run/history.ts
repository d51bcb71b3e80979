/** Recordings that a policy was adapted to, saved with it: what is usual is learned from them when later ones are judged. */
import { z } from 'zod';
import type { Recording } from '../../datasets/readers/recording.ts';
import type { Earlier } from '../../datasets/readers/side-by-side.ts';
import { jsonText } from '../ground/files.ts';
import { addToManifest, readSaved } from '../ground/manifest.ts';

export const HISTORY_FILE = 'timeseer.history.json';
/** Latest samples of a recording that are kept. */
export const MOST_KEPT = 20_000;

const shape = z.strictObject({
  version: z.literal(1),
  recordings: z.array(
    z.strictObject({
      name: z.string(),
      step: z.number().positive(),
      zone: z.string().nullable(),
      /** Times in ms since 1970 UTC, ascending. */
      time: z.array(z.number()),
      /** Values at these times; null where missing. */
      columns: z.array(z.strictObject({ name: z.string(), values: z.array(z.number().nullable()) })),
    }),
  ),
});

/** Saves the latest samples of the recordings that have dates with a policy. */
export function writeHistory(directory: string, recordings: readonly Recording[]): void {
  const kept = recordings.flatMap(({ name, step, zone, origin, time, columns }) =>
    time === null || step === null || origin !== 'calendar'
      ? []
      : [
          {
            ...{ name, step, zone, time: [...time.subarray(-MOST_KEPT)] },
            columns: columns.map(({ name, values }) => ({
              name,
              values: Array.from(values.subarray(-MOST_KEPT), (value) =>
                Number.isNaN(value) ? null : value,
              ),
            })),
          },
        ],
  );
  const history: z.infer<typeof shape> = { version: 1, recordings: kept };
  addToManifest(directory, HISTORY_FILE, jsonText(history));
}

/** Reads the recordings that a policy was adapted to; none for other policies. @throws CheckpointError for a damaged file */
export function readHistory(directory: string): Earlier[] {
  const saved = { what: 'history of recordings', remedy: 'run timeseer adapt again' };
  const history = readSaved(directory, HISTORY_FILE, saved, (content) => shape.parse(content));
  return (history?.recordings ?? []).map(({ time, columns, ...recording }) => ({
    ...{ ...recording, origin: 'calendar', time: Float64Array.from(time) },
    columns: columns.map(({ name, values }) => ({
      name,
      values: Float64Array.from(values, (value) => value ?? Number.NaN),
    })),
  }));
}
