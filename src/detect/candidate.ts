/** Stretches that a track of departures finds, before they are joined. */
import type { Stretch } from './scan.ts';

export type TrackName =
  | 'level'
  | 'local'
  | 'season'
  | 'analogue'
  | 'step'
  | 'movement'
  | 'size'
  | 'still'
  | 'limit';

export interface Track {
  readonly name: TrackName;
  /** Departures [N]. */
  readonly values: Float64Array;
  readonly floor: number;
  readonly windows: readonly number[];
  /** Small values are no departure. */
  readonly onlyAbove?: boolean;
}

/** Tracks of logarithms. */
export const LOGARITHMIC: ReadonlySet<TrackName> = new Set<TrackName>(['movement', 'size']);

export interface Candidate extends Stretch {
  readonly track: TrackName;
}
