/**
 * `rl/completions.html`: the responses of a reinforcement stage as a page that grows with it, from completions.jsonl and
 * metrics.jsonl. It is bounded: the last steps and an even sample of those before, in so many bytes.
 */
import { openExamples } from '../../datasets/source.ts';
import { seenPicture } from '../../eval/report-examples.ts';
import type { RunDirectory } from '../../eval/run-directory.ts';
import { TimeseerError } from '../ground/errors.ts';
import { writeFileAtomic } from '../ground/files.ts';
import { getOrMake } from '../ground/maps.ts';
import type { Html } from '../html/html.ts';
import { advantageLabel } from '../recipe/recipe.ts';
import { CARD_FILE } from '../tasks/card.ts';
import { type Completion, readLog } from '../train/metrics.ts';
import type { Task } from '../train/task.ts';
import { type CompletionGroup, completionsPage, type ShownExample, stepBody } from './completions-page.ts';
import { type ExampleTask, exampleTask, stageExamples, trainingCard, trainingTask } from './policy-task.ts';

/** Number of last steps shown. */
const LATEST = 20;
/** Maximum number of earlier steps shown. */
const SAMPLED = 40;
/** Maximum bytes of all steps; the rest of the page has about 20 kB. */
const MOST_BYTES = 4_000_000;

/**
 * Returns true for the last steps and a sample of those before: the first, and every 2ᵏ-th with the least k that leaves few enough.
 * A step once left out stays out.
 */
export function isShown(step: number, last: number): boolean {
  if (step > last - LATEST || step === 1) return true;
  let stride = 1;
  while ((last - LATEST) / stride > SAMPLED) stride *= 2;
  return step % stride === 0;
}

/** Opens the examples and pictures of a run; a text says why there are none. */
function exampleTaskOf(
  run: RunDirectory,
): (Pick<ExampleTask, 'parse'> & Pick<Task, 'example' | 'picture'>) | string {
  const { recipe } = run;
  const base = run.lastPolicyWith(CARD_FILE);
  if (base === undefined) return 'the run has no policy left, which would state its figure';
  try {
    const address = stageExamples('rl', recipe);
    const { facts } = openExamples(address);
    const card = trainingCard(base, recipe, facts);
    const { example, picture } = trainingTask(card, address, 'rl');
    return { example, picture, parse: exampleTask(card, { facts, reading: recipe.answers }).parse };
  } catch (error) {
    if (error instanceof TimeseerError) return error.message;
    throw error;
  }
}

export class CompletionsPage {
  readonly #run: RunDirectory;
  #task: ReturnType<typeof exampleTaskOf> | null = null;
  /** Mean rewards of all steps so far. */
  readonly #rewards: { step: number; reward: number | null }[] = [];
  /** Completions of the steps shown. */
  readonly #completions = new Map<number, Completion[]>();
  readonly #bodies = new Map<number, Html>();
  #writing: Promise<void> | null = null;
  #again = false;

  constructor(run: RunDirectory) {
    this.#run = run;
  }

  /** Creates the page from the files of a run. @throws DataError when they are damaged */
  static of(run: RunDirectory): CompletionsPage {
    const page = new CompletionsPage(run);
    page.reward(readLog(run.file('rl', 'metrics.jsonl')) as { step: number; reward: number | null }[]);
    page.add(readLog(run.file('rl', 'completions.jsonl')) as Completion[]);
    return page;
  }

  get file(): string {
    return this.#run.file('rl', 'completions.html');
  }

  /** Adds the responses of some steps, in order. */
  add(completions: readonly Completion[]): void {
    for (const completion of completions) {
      getOrMake(this.#completions, completion.step, () => []).push(completion);
    }
    const last = Math.max(0, ...this.#completions.keys());
    for (const step of this.#completions.keys()) {
      if (isShown(step, last)) continue;
      this.#completions.delete(step);
      this.#bodies.delete(step);
    }
  }

  /** Adds mean rewards of steps, in order. */
  reward(steps: readonly { readonly step: number; readonly reward: number | null }[]): void {
    for (const { step, reward } of steps) this.#rewards.push({ step, reward });
  }

  /** Writes the page; while it is being written, once more afterwards. @throws WriteError */
  async write(): Promise<void> {
    this.#again = true;
    this.#writing ??= this.#work().finally(() => {
      this.#writing = null;
    });
    return this.#writing;
  }

  async #work(): Promise<void> {
    while (this.#again) {
      this.#again = false;
      writeFileAtomic(this.file, await this.#page());
    }
  }

  async #page(): Promise<string> {
    const steps: { step: number; body: Html }[] = [];
    let bytes = 0;
    const newest = [...this.#completions.keys()].sort((a, b) => b - a);
    for (const step of newest) {
      const body = this.#bodies.get(step) ?? (await this.#body(step));
      this.#bodies.set(step, body);
      bytes += Buffer.byteLength(body.markup);
      if (bytes > MOST_BYTES && steps.length > 0) break;
      steps.push({ step, body });
    }
    const { name, recipe } = this.#run;
    return completionsPage({
      run: name,
      method: advantageLabel(recipe.rl),
      rewards: this.#rewards,
      steps,
    });
  }

  async #body(step: number): Promise<Html> {
    const groups: Completion[][] = [];
    for (const completion of this.#completions.get(step)!) {
      const group = groups.at(-1);
      if (group?.[0]?.example === completion.example && group?.[0]?.seriesId === completion.seriesId)
        group.push(completion);
      else groups.push([completion]);
    }
    return stepBody(await Promise.all(groups.map((group) => this.#group(group))));
  }

  async #group(completions: readonly Completion[]): Promise<CompletionGroup> {
    const { seriesId, example: index } = completions[0]!;
    const alone = (why: string): CompletionGroup => ({
      seriesId,
      example: why,
      completions: completions.map((completion) => ({ ...completion, answer: null })),
    });
    this.#task ??= exampleTaskOf(this.#run);
    const task = this.#task;
    if (typeof task === 'string') return alone(task);
    try {
      const example = task.example(index);
      if (example.id !== seriesId) return alone('the data have changed since');
      const shown: ShownExample = {
        length: example.channels[0]!.length,
        gold: example.gold,
        names: example.names,
        ...seenPicture(await task.picture(example)),
      };
      const answered = completions.map((completion) => ({
        ...completion,
        answer: task.parse(completion.response, example),
      }));
      return { seriesId, example: shown, completions: answered };
    } catch (error) {
      if (error instanceof TimeseerError || error instanceof RangeError) return alone(error.message);
      throw error;
    }
  }
}
