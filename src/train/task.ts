/** What training needs to know of a task. The caller composes it; training imports no data set and no reward. */
import type { Example, Picture, Score } from '../types.ts';

export interface Task {
  readonly name: string;
  /** Names of the parts that scores may have. */
  readonly parts: readonly string[];
  /** Training example number `index`: a pure function, so that runs repeat and resume. */
  example(index: number): Example;
  /** What the policy sees of it; null where it reads numbers in the instruction instead. */
  picture(example: Example): Picture | null | Promise<Picture | null>;
  /** What the policy is asked; must not depend on the labels. */
  instruction(example: Example): string;
  /** The expert trace with the gold answer: target of supervision, anchor of the transport. Training split only. */
  trace(example: Example): string;
  score(response: string, example: Example): Score;
}
