/** A page of rendered examples: figure, right answer, what a policy is asked, and what the expert says. */

import type { ClassProfile } from '../src/expcot/class-profile.ts';
import { TRACE_VERSION } from '../src/expcot/trace.ts';
import { DataError, TimeseerError } from '../src/ground/errors.ts';
import { fileInside } from '../src/ground/files.ts';
import { fixed, plural } from '../src/ground/numbers.ts';
import { formatValue } from '../src/ground/progress.ts';
import type { Example, Gold, Picture } from '../src/ground/types.ts';
import { Html, html, page, pngSource, verbatim } from '../src/html/html.ts';
import { STYLE } from '../src/html/style.ts';
import { readImage } from '../src/plot/image-file.ts';
import { pngUri } from '../src/plot/png.ts';
import { LEAST_STRIP, render } from '../src/plot/raster.ts';
import { drawingOf, markTruth } from '../src/tasks/drawing.ts';
import { choosesClass, EXACT_WORDS, expertOn, goldParts, labelOf, taskKind } from '../src/tasks/kinds.ts';
import { nanoFigure } from './benchmarks/registry.ts';
import { learnProfile, wordsFor, wordsVersion } from './compose-materials.ts';
import { lengthOf } from './example.ts';
import type { ExampleOrigin, ExampleSet } from './example-set.ts';
import { classesOf, type Material, Materials } from './materials.ts';
import type { Split } from './split.ts';

/** Blind answer of the expert, from the values alone. */
interface BlindWords {
  readonly text: string;
  /** The expert's answer in words. */
  readonly says: string;
  /** True if its class or set of variates is right; null where the data do not name the class. */
  readonly right: boolean | null;
  /** F1 of its intervals or variates, in [0, 1]; null where there are none to mark. */
  readonly f1: number | null;
}

interface ExampleDetails {
  readonly prompt: string;
  /** Stored figure with its path in the data set; null: it is drawn. */
  readonly image: { readonly path: string; readonly picture: Picture } | null;
  /** Expert trace for the right answer; null where there is none. */
  readonly teacher: string | null;
  readonly blind: BlindWords | null;
  readonly notes: readonly string[];
}

type Describe = (shown: ShownExample, origin: ExampleOrigin) => Promise<ExampleDetails>;

export interface ShownExample {
  readonly split: Split;
  /** 0-based place in the split. */
  readonly index: number;
  readonly example: Example;
}

interface PageOptions {
  readonly describe?: Describe;
  /** True if the figure differs from the task's. */
  readonly redrawn?: boolean;
}

/** Compares the answer of the blind trace with the right one. */
function blindWords(text: string, example: Example): BlindWords {
  const { gold, channels, names } = example;
  const length = lengthOf(example);
  const kind = taskKind(gold.kind);
  const answer = kind.parse(text, { kind: gold.kind, length, channels: channels.length, ...EXACT_WORDS });
  const { class: named, f1 } = kind.agreement(kind.answerOf(answer), gold);
  const right = choosesClass(gold.kind) ? named : f1 === 1;
  return { text, says: kind.says(answer, names), right, f1 };
}

type Traces = Pick<ExampleDetails, 'teacher' | 'notes'> & { readonly blind: string | null };

/** Generates both traces; notes name what cannot be traced. */
function toldNow(example: Example, profile: ClassProfile | null): Traces {
  const because = (error: unknown): string => {
    if (!(error instanceof TimeseerError)) throw error;
    return error.message;
  };
  try {
    const expert = expertOn(example, example.gold.kind, profile);
    const blind = expert.blind().text;
    try {
      return { teacher: expert.teacher(example.gold).text, blind, notes: [] };
    } catch (error) {
      return { teacher: null, blind, notes: [`No expert trace for the right answer: ${because(error)}.`] };
    }
  } catch (error) {
    return { teacher: null, blind: null, notes: [`No expert traces: ${because(error)}.`] };
  }
}

interface DescribeOptions {
  /** All examples; classes are learned from the training split among them. */
  readonly training: () => Iterable<readonly [split: Split, example: Example]>;
  /** Prepared data set of the examples; null where they come from a task. */
  readonly set: ExampleSet | null;
  /** True if the figure differs from the data set's; its stored figures and prompts are then not used. */
  readonly redrawn: boolean;
}

function learned({ set, training }: DescribeOptions, stored: boolean): ReturnType<typeof learnProfile> {
  const profile = stored ? classesOf(set)() : null;
  if (profile !== null) return { profile, reason: null };
  const examples = function* (): Generator<Example> {
    for (const [split, example] of training()) if (split === 'train') yield example;
  };
  return learnProfile(examples());
}

/**
 * Supplies figure, prompt and expert traces of examples: those stored in a prepared data set, or new ones. Classes are learned from the
 * training split alone, once, when a trace first needs them. A note names each part that cannot be made.
 * @throws DataError for a prepared data set whose files are damaged
 */
export function describer(options: DescribeOptions): Describe {
  const { set, redrawn } = options;
  const materials = set === null ? null : Materials.of(set);
  const facts = materials?.facts;
  let classes: ReturnType<typeof learnProfile> | undefined;
  const now = (example: Example): Traces => {
    if (!taskKind(example.gold.kind).learnsClasses) return toldNow(example, null);
    classes ??= learned(options, (facts?.classes ?? null) !== null);
    if (classes.profile === null) {
      return { teacher: null, blind: null, notes: [`No expert traces: ${classes.reason}.`] };
    }
    return toldNow(example, classes.profile);
  };
  const tracesOf = (split: Split, example: Example, material: Material | null): Traces => {
    if (material === null || facts?.traces !== TRACE_VERSION) return now(example);
    const { teacher, blind } = material;
    const whole = blind !== null && (teacher !== null || split === 'test');
    if (whole) return { teacher, blind, notes: [] };
    return { teacher, blind, notes: now(example).notes };
  };
  const imageOf = async (path: string | null): Promise<Pick<ExampleDetails, 'image' | 'notes'>> => {
    if (set === null || path === null) return { image: null, notes: [] };
    try {
      return { image: { path, picture: await readImage(fileInside(set.directory, path)) }, notes: [] };
    } catch (error) {
      if (!(error instanceof DataError)) throw error;
      return { image: null, notes: [`The stored figure is not shown: ${error.message}.`] };
    }
  };
  return async ({ split, index, example }, origin) => {
    const material = materials?.at(split, index) ?? null;
    const stored = redrawn ? null : material;
    const { image, notes } = await imageOf(stored?.image ?? null);
    const traces = tracesOf(split, example, material);
    const prompt = stored?.prompt ?? wordsFor(example, origin);
    const version = stored === null ? wordsVersion(origin) : facts!.prompt;
    return {
      prompt: `${prompt}\n\n(prompt ${version})`,
      image,
      teacher: traces.teacher,
      blind: traces.blind === null ? null : blindWords(traces.blind, example),
      notes: [...notes, ...traces.notes],
    };
  };
}

const unnamed = ({ gold }: Example): boolean =>
  choosesClass(gold.kind) && taskKind(gold.kind).className(gold) === null;

function missingText({ channels }: Example): string {
  const missing = channels.reduce(
    (sum, channel) => sum + channel.filter((value) => Number.isNaN(value)).length,
    0,
  );
  const points = channels.length * channels[0]!.length;
  return missing === 0 ? '' : `, ${formatValue((100 * missing) / points)} % missing`;
}

export const counted = (n: number): string => plural(n, 'example');

/** Pictures above this height in px are laid out side by side where there is room. */
const TALL = 400;

/** Intervals of few points are marked wider than they are. */
const truthCaption = ({ kind }: Gold): string =>
  taskKind(kind).localises
    ? `The right answer, in green; the strip along the top is at least ${LEAST_STRIP} px wide.`
    : 'The right answer, in green.';

/** Rates below one per second are shown as a period. */
const sampling = (rate: number): Html =>
  rate >= 1
    ? html`<dt>Samples per second</dt><dd>${formatValue(rate)}</dd>`
    : html`<dt>Seconds per sample</dt><dd>${formatValue(1 / rate)}</dd>`;

function fold(title: string | Html, text: Html, open: boolean): Html {
  return html`<details${open ? new Html(' open') : null}><summary>${title}</summary>${text}</details>`;
}

function pictureBlock(picture: Picture, alt: string, caption: string): Html {
  return html`<figure class="drawn"><img src="${pngSource(pngUri(picture))}" width="${picture.width}" height="${picture.height}" alt="${alt}"><figcaption>${caption}</figcaption></figure>`;
}

/** Blind trace, folded, with its verdict; open where it is the only one. */
function blindBlock({ text, says, right, f1 }: BlindWords, kind: Gold['kind'], open: boolean): Html {
  const both = choosesClass(kind) && taskKind(kind).measuresF1;
  const [good, bad] = both ? ['class right', 'class wrong'] : ['right', 'wrong'];
  const mark =
    right === null ? null : html`: <span class="${right ? 'met' : 'missed'}">${right ? good : bad}</span>`;
  const share = f1 === null ? null : html`${right === null ? ': ' : ', '}F1 ${fixed(f1, 2)}`;
  const title = html`Expert trace (blind: from values alone) says <bdi>${says}</bdi>${mark}${share}`;
  return fold(title, verbatim(text, 'prose'), open);
}

function figureCaption(
  preset: string,
  { width, height }: Picture,
  path: string | null,
  other: boolean,
): string {
  const size = `${width} \u00d7 ${height} px`;
  return `${other ? `Figure ${preset}` : `The task\u2019s figure, ${preset}`}: ${size}${path === null ? '' : `, ${path}`}.`;
}

function detailBlocks(details: ExampleDetails, kind: Gold['kind'], repeated: boolean): Html {
  const { prompt, teacher, blind, notes } = details;
  return html`${fold(repeated ? 'Prompt, the same as above' : 'Prompt', verbatim(prompt), !repeated)}
${teacher === null ? null : fold('Expert trace (teacher: argues for the right answer)', verbatim(teacher, 'prose'), true)}
${blind === null ? null : blindBlock(blind, kind, teacher === null)}
${notes.map((note) => html`<p class="verdict lack">${note}</p>`)}`;
}

async function card(
  { split, example }: ShownExample,
  { figure }: ExampleOrigin,
  details: ExampleDetails | undefined,
  look: {
    readonly repeated: boolean;
    readonly redrawn: boolean;
  },
): Promise<Html> {
  const drawing = drawingOf(example, figure);
  const image = details?.image ?? null;
  const picture = image?.picture ?? (await render(drawing.figure, drawing.values, drawing.times));
  const truth = markTruth(drawing, picture, example);
  const { id, recording, channels, gold } = example;
  const width = channels.length === 1 ? '' : ` \u00d7 ${channels.length} channels`;
  const facts = `${split}; ${lengthOf(example)} points${width}${missingText(example)}${recording === null ? '' : `; recording ${recording}`}`;
  const caption = figureCaption(figure.preset, picture, image?.path ?? null, look.redrawn);
  return html`<article class="example">
<h2><bdi>${id}</bdi></h2>
<p class="verdict"><strong><bdi>${labelOf(gold)}</bdi></strong> \u00b7 ${facts}</p>
<div class="${picture.height > TALL ? 'pictures beside' : 'pictures'}">
${pictureBlock(picture, `Plot of ${id}`, caption)}
${truth === null ? null : pictureBlock(truth, `Plot of ${id} with the right answer marked`, truthCaption(gold))}
</div>
<h3>Right answer</h3>
${verbatim(goldParts(gold))}
${unnamed(example) ? html`<p class="verdict">The data set says where this anomaly is, not of which kind: its class is not graded.</p>` : null}
${details === undefined ? null : detailBlocks(details, gold.kind, look.repeated)}
</article>
`;
}

const OWN_STYLE =
  '.example h2{font-size:1.05rem;margin:0}.example h3{font-size:.85rem;color:var(--soft);margin:.8rem 0 .3rem}' +
  '.example pre{margin:0;max-height:none}.example summary{font-size:.85rem;font-weight:650;color:var(--soft);margin:.8rem 0 .3rem;' +
  'cursor:pointer}.example .lack{margin:.8rem 0 0}.pictures.beside{display:grid;grid-template-columns:repeat(auto-fit,minmax(min(100%,26rem),1fr));gap:0 1rem}.drawn{margin:0 0 .8rem;overflow-x:auto}.drawn img{display:block;max-width:100%;height:auto;' +
  'background:#fff;border:1px solid var(--rule)}.drawn figcaption{font-size:.8rem;color:var(--soft)}';

/** A self-contained page of examples. @throws as `drawingOf`, rendering, and `options.describe` */
export async function examplesPage(
  origin: ExampleOrigin,
  examples: readonly ShownExample[],
  options: PageOptions = {},
): Promise<string> {
  const { describe, redrawn = false } = options;
  const cards: Html[] = [];
  let prompt: string | undefined;
  for (const shown of examples) {
    const details = await describe?.(shown, origin);
    const repeated = details !== undefined && details.prompt === prompt;
    cards.push(await card(shown, origin, details, { repeated, redrawn }));
    prompt = details?.prompt;
  }
  const { source, split, classes, rate, notes } = origin;
  const [first] = examples;
  const body = html`<header class="top"><h1>${origin.title}</h1>
<p class="lead">${source.description}</p>
<dl class="facts"><dt>Task</dt><dd>${origin.task}</dd>
${classes.length === 0 ? null : html`<dt>Classes</dt><dd>${classes.join(', ')}</dd>`}
${rate === null ? null : sampling(rate)}
${first === undefined || taskKind(origin.kind).readsWords ? null : html`<dt>Small policies</dt><dd>are shown figure ${nanoFigure({ task: origin.task, kind: origin.kind, channels: first.example.names })}, unless their recipe says otherwise</dd>`}
<dt>Split</dt><dd>${split.statement}</dd><dt>Licence</dt><dd>${source.licence}</dd>
${source.citation === null ? null : html`<dt>Source</dt><dd>${source.citation}</dd>`}
${notes.map((note) => html`<dt>Note</dt><dd>${note}</dd>`)}</dl></header>
<main>${cards}</main>`;
  return page({ title: `${origin.title}: ${counted(examples.length)}`, style: STYLE + OWN_STYLE, body });
}
