/**
 * Adapts a policy to recordings of the user. The output directory is a run, with the data that it was made from:
 *
 *   backgrounds/     models of the usual values of each source, learned from the first part of its recording
 *   data/            generated windows with made anomalies, and as many series of wild; the test split is of windows of the last part
 *   initial, sft, rl, eval, report.html     the run, as `quickstart` writes it
 *   kept/            the policy before training with the confidence fitted to the recordings, where training gained nothing
 *   adapt.json, adapt.html                  comparison and statistics
 *
 * Only the comparison at the end and the calibration see the last part.
 */
import { existsSync } from 'node:fs';
import { join } from 'node:path';
import { z } from 'zod';
import { type Backgrounds, wildOver } from '../../datasets/benchmarks/generated.ts';
import { isExampleSet } from '../../datasets/example-manifest.ts';
import type { Recorded } from '../../datasets/generators/wild/recorded.ts';
import { selectExamples, writeSelection } from '../../datasets/prepare.ts';
import { compareAnswers, type PairedComparison } from '../../eval/comparison.ts';
import { RunDirectory } from '../../eval/run-directory.ts';
import { openEngine, prepareEngine } from '../answer/local.ts';
import { findPolicy } from '../answer/reference.ts';
import {
  type Background,
  learnBackground,
  type Method,
  type OpenEngine,
  readBackgrounds,
  sampleBackground,
  type Window,
  writeBackgrounds,
} from '../background/background.ts';
import { type Likeness, likeness } from '../background/likeness.ts';
import { detect } from '../detect/detect.ts';
import { readConfidence } from '../explain/confidence.ts';
import { ConfigError } from '../ground/errors.ts';
import { namesInUse, writeFileAtomic, writeJson } from '../ground/files.ts';
import { withInterrupt } from '../ground/interrupt.ts';
import { readJson } from '../ground/json-files.ts';
import { type ProgressOptions, withProgress } from '../ground/progress.ts';
import { say } from '../ground/terminal.ts';
import { loadRecipe } from '../recipe/config.ts';
import { adaptCard, adaptPage } from './adapt-page.ts';
import { lazyEngine, openBackgrounds } from './backgrounds.ts';
import { calibratePolicy } from './calibrate.ts';
import { writeHistory } from './history.ts';
import { runQuickstart } from './quickstart.ts';
import { Run, setupEngine } from './run.ts';
import { LENGTH, readSources, type Source, valuesOf } from './sources.ts';

export interface AdaptRequest {
  /** Paths, patterns and directories of recordings. */
  readonly data: readonly string[];
  readonly columns: readonly string[];
  readonly out: string;
  readonly background: Method;
  /** Number of series to train on. */
  readonly series: number;
  readonly recipe: string;
  readonly set: readonly string[];
  readonly device: string;
  readonly resume: boolean;
  readonly quiet: boolean;
}

/** Generated windows that are compared with real ones. */
const COMPARED = 60;
const SEED = 42;

/**
 * Learned backgrounds, and held-out windows of the sources in the test split. Every other series of training is one of wild's own, as those
 * that `small` was taught with: there were fewer false alarms at equal recall so (test/bench/NOTES.md).
 */
function withHeldOut(learned: Backgrounds, sources: readonly Source[]): Backgrounds {
  const known = new Map<Window, Recorded>();
  return {
    ...learned,
    parameters: { ...learned.parameters, replay: 0.5 },
    at(seed, split, index) {
      if (split === 'train' && index % 2 === 1) return null;
      if (split === 'train') return learned.at(seed, split, index / 2);
      if (split !== 'test') return learned.at(seed, split, index);
      const { name, calendar, heldOut } = sources[index % sources.length]!;
      const turn = Math.floor(index / sources.length);
      // The golden ratio spreads any number of turns evenly over the windows.
      const window = heldOut[Math.floor(((turn * 0.6180339887) % 1) * heldOut.length)]!;
      const recorded = known.get(window) ?? { ...detect(window.values, { calendar }), values: window.values };
      known.set(window, recorded);
      return { source: name, recorded };
    },
  };
}

/** Source with its generated windows, for the page. */
export interface AdaptedSource {
  readonly source: Source;
  readonly likeness: Likeness;
  readonly generated: readonly Float64Array[];
}

export interface Adapted {
  /** Directory, a run, and its page. */
  readonly out: string;
  readonly page: string;
  readonly method: Method;
  /** Policy before and after on made anomalies in held-out windows. */
  readonly comparison: PairedComparison;
  /** Policy to name as --policy: `out`; where nothing is gained the one before, with a fitted confidence if there is enough to fit. */
  readonly policy: string;
  /** True where the interval of the gain in affiliation F1 is above 0, and that of no metric below. */
  readonly better: boolean;
  readonly verdict: string;
  readonly notes: readonly string[];
  readonly sources: readonly AdaptedSource[];
}

const RECORD = 'adapt.json';
const KEPT = 'kept';

/** Settings of an adaptation and its sources, which a resumed one must share. */
const askedShape = z.object({
  background: z.string(),
  series: z.number(),
  sources: z.record(z.string(), z.object({ samples: z.number(), sha256: z.string() })),
});
type Asked = z.infer<typeof askedShape>;

/** @throws ConfigError for a directory with other files, and for one that is not resumed, or with other settings */
function checkOut({ out, resume }: AdaptRequest, now: Asked): void {
  const file = join(out, RECORD);
  if (!existsSync(file)) {
    if (namesInUse(out).length === 0) return;
    throw new ConfigError(
      `--out ${out}: holds other files, which are never replaced; choose a new directory`,
    );
  }
  if (!resume) {
    throw new ConfigError(
      `--out ${out}: holds an adaptation: add --resume to resume it, or choose another directory`,
    );
  }
  const { asked: before } = readJson(
    file,
    z.object({ asked: askedShape }),
    'remove the directory to begin again',
  );
  const [changed] = (['background', 'series', 'sources'] as const).filter(
    (key) => JSON.stringify(before[key]) !== JSON.stringify(now[key]),
  );
  if (changed === undefined) return;
  throw new ConfigError(
    `--out ${out}: was begun with other ${changed === 'sources' ? 'recordings' : `--${changed}`} (${JSON.stringify(before[changed])}); resume it with those, or choose another directory`,
  );
}

/** @throws ConfigError for a recipe that trains nothing, or a --set that names other data */
function checkRecipe({ recipe, set: given }: AdaptRequest, set: readonly string[]): void {
  const other = given.find((override) => /^\s*data\b/.test(override));
  if (other !== undefined)
    throw new ConfigError(`--set ${other}: adapt trains on windows of the recordings; leave it out`);
  const { sft, rl } = loadRecipe(recipe, set);
  if (sft.samples === 0 && rl.steps === 0)
    throw new ConfigError(`--recipe ${recipe}: trains nothing; set sft.samples or rl.steps above 0`);
}

/** Runs a step with its progress; Ctrl-C leaves nothing of it behind. */
const step = (
  options: ProgressOptions,
  work: (update: (done: number) => void, signal: AbortSignal) => Promise<unknown>,
): Promise<unknown> =>
  withProgress(options, (update) => withInterrupt((signal) => work((done) => update(done), signal)));

/** Learns the backgrounds of all sources, unless they are there. */
async function learnAll(
  sources: readonly Source[],
  { background, quiet: silent }: AdaptRequest,
  directory: string,
  engine: OpenEngine,
): Promise<void> {
  if (existsSync(directory)) return;
  await step({ label: 'learn', total: 100, unit: '%', silent }, async (update, signal) => {
    const learned: Background[] = [];
    for (const [i, { name, training: windows, periods }] of sources.entries()) {
      const onStep = async (done: number, total: number): Promise<void> => {
        await new Promise(setImmediate);
        signal.throwIfAborted();
        update(Math.floor((100 * (i + done / total)) / sources.length));
      };
      const options = { seed: SEED, onStep };
      learned.push(await learnBackground(background, name, { windows, periods }, options, engine));
      await onStep(1, 1);
    }
    writeBackgrounds(directory, learned);
  });
}

/** Writes the data set, unless it is there. */
async function prepareAll(
  backgrounds: Backgrounds,
  { series, quiet: silent }: AdaptRequest,
  directory: string,
): Promise<void> {
  if (isExampleSet(directory)) return;
  const tenth = Math.max(20, Math.round(series / 10));
  const counts = { train: series, validation: tenth, test: tenth };
  const selection = await selectExamples(wildOver(backgrounds), { directory: null, counts });
  const options = { label: 'prepare', total: selection.total, unit: 'series', silent };
  await step(options, (onProgress, signal) => writeSelection(selection, directory, { signal, onProgress }));
}

/**
 * Fits the confidence of a policy to the recordings, unless that was done, or that of a copy. @returns a sentence: how well it fits, or why
 * it could not be fitted
 */
async function calibrated(
  { policy, copy }: { readonly policy: string; readonly copy?: string },
  sources: readonly Source[],
  { device, series, quiet }: AdaptRequest,
): Promise<{ readonly note: string; readonly fitted: boolean }> {
  const recordings = sources.map(({ name, values, heldOutFrom: from, calendar }) => ({
    ...{ file: name, calendar, from, columns: [{ name, values }] },
  }));
  const count = Math.max(20, Math.round(series / 10));
  const place = copy ?? policy;
  try {
    const before = existsSync(place) ? readConfidence(place) : null;
    const { fitted } =
      before?.recordingsAlone === true
        ? before
        : (
            await calibratePolicy({
              ...{ policy, recordings, count, seed: SEED, device, quiet },
              ...(copy === undefined ? {} : { out: copy }),
            })
          ).model;
    const error = fitted.error === undefined ? '' : `, expected calibration error ${fitted.error.toFixed(3)}`;
    return {
      fitted: true,
      note: `Its confidence is fitted to ${fitted.series} stretches of the held-out parts with made anomalies${error}. On other days the error is larger.`,
    };
  } catch (error) {
    if (!(error instanceof ConfigError)) throw error;
    return { fitted: false, note: `Its confidence is not calibrated: ${error.message}` };
  }
}

/**
 * Adapts the policy of the recipe to recordings; a resumed adaptation continues after its last finished step.
 * @throws as `readSources`, `runQuickstart` and `calibratePolicy`; ConfigError for a directory that is not its own; EngineError for the device
 */
export async function adapt(given: AdaptRequest): Promise<Adapted> {
  const { out, background, quiet } = given;
  const { sources, recordings } = await readSources(given);
  const [learned, data] = [join(out, 'backgrounds'), join(out, 'data')];
  const set = [...given.set, `data.name=${JSON.stringify(data)}`, `data.length=${LENGTH}`];
  checkRecipe(given, set);
  const now: Asked = {
    ...{ background, series: given.series },
    sources: Object.fromEntries(sources.map(({ name, samples, sha256 }) => [name, { samples, sha256 }])),
  };
  checkOut(given, now);
  await setupEngine(given.device, quiet ? () => {} : say);
  await prepareEngine(given.device);
  openEngine(given.device); // throws for one that is not there, before anything is written
  const engine = lazyEngine(given.device);
  if (!quiet) for (const { name, notes } of sources) say(`${name}: ${notes.join(' ')}`);
  const record = (result: object): void =>
    writeJson(join(out, RECORD), { version: 1, asked: now, ...result });
  if (!existsSync(join(out, RECORD))) record({});
  await learnAll(sources, given, learned, engine);
  await prepareAll(withHeldOut(openBackgrounds(learned, engine), sources), given, data);
  const resume = Run.begun(out);
  await runQuickstart({ ...given, recipe: given.recipe, set, resume, force: false }, null);
  const run = new RunDirectory(out);
  const { init: was } = run.recipe.policy;
  const [before, after] = [run.answers('initial'), run.answers('rl') ?? run.answers('sft')];
  const comparison = compareAnswers(
    { name: was, records: before!.greedy, data: null },
    { name: 'adapted', records: after!.greedy, data: null },
  );
  const gain = comparison.metrics.find(({ metric }) => metric === 'affiliation_f1')!.difference;
  const better = gain.ci95[0] > 0 && comparison.metrics.every(({ difference }) => difference.ci95[1] >= 0);
  let { fitted, note } = await calibrated({ policy: findPolicy(out) }, sources, given);
  const copy = join(out, KEPT);
  if (!better) ({ fitted, note } = await calibrated({ policy: run.policy('initial'), copy }, sources, given));
  for (const place of fitted && !better ? [out, copy] : [out]) writeHistory(findPolicy(place), recordings);
  const policy = better ? out : fitted ? copy : run.policy('initial');
  const verdict = better
    ? `The adapted policy finds made anomalies in the held-out part better than ${was}.`
    : `No better than ${was} here: keep ${was}${fitted ? `, whose confidence is fitted to these recordings in ${copy}` : ''}.`;
  const notes = [note];
  const shown: AdaptedSource[] = [];
  for (const [i, model] of readBackgrounds(learned).entries()) {
    const source = sources[i]!;
    const generated = sampleBackground(model, COMPARED, SEED, engine);
    const [real, training] = [valuesOf(source.heldOut), valuesOf(source.training)];
    shown.push({ source, generated, likeness: await likeness(real, generated, training) });
  }
  const page = join(out, 'adapt.html');
  const adapted: Adapted = {
    out,
    page,
    policy,
    verdict,
    better,
    comparison,
    method: background,
    notes,
    sources: shown,
  };
  writeFileAtomic(page, await adaptPage(adapted));
  writeFileAtomic(join(out, 'README.md'), adaptCard(adapted));
  const figures = shown.map(({ source, likeness }) => ({ name: source.name, notes: source.notes, likeness }));
  record({ verdict, better, policy, metrics: comparison.metrics, notes, sources: figures });
  return adapted;
}
