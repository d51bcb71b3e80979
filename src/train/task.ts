/** What training needs to know of a task. The caller composes it; training imports no data set and no reward. */
import type { LabeledSeries, Picture, Score } from '../types.ts';

export interface Task {
  readonly name: string;
  /** Training series number `index`: a pure function, so that runs repeat and resume. */
  series(index: number): LabeledSeries;
  /** What the policy sees of it. */
  picture(series: LabeledSeries): Picture | Promise<Picture>;
  /** What the policy is asked; must not depend on the labels. */
  instruction(series: LabeledSeries): string;
  /** The expert trace with the gold answer: target of supervision, anchor of the transport. Training split only. */
  trace(series: LabeledSeries): string;
  score(response: string, series: LabeledSeries): Score;
}
