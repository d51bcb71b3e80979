/** A page of rendered examples with their right answers, for a person. */
import { classOf, lengthOf } from '../../../datasets/example.ts';
import type { ExampleOrigin } from '../../../datasets/example-set.ts';
import { goldParts } from '../../../datasets/gold-answer.ts';
import type { Split } from '../../../datasets/split.ts';
import { Html, html, page, pngSource } from '../../../eval/html.ts';
import { verbatim } from '../../../eval/report-examples.ts';
import { STYLE } from '../../../eval/report-style.ts';
import { encodePng } from '../../plot/png.ts';
import { render } from '../../plot/raster.ts';
import { formatValue } from '../../progress.ts';
import type { Example, Picture } from '../../types.ts';
import { drawingOf, markTruth } from '../task/figure.ts';

/** What a policy is told and what an expert would say, where the stages that write them are at hand. */
export interface ExampleDetails {
  readonly prompt: string;
  /** Null where there is no trace for it. */
  readonly trace: string | null;
}

export type Describe = (example: Example, origin: ExampleOrigin) => Promise<ExampleDetails>;

export interface ShownExample {
  readonly split: Split;
  readonly example: Example;
}

const uriOf = (picture: Picture): string => `data:image/png;base64,${encodePng(picture).toString('base64')}`;

const unnamed = ({ gold }: Example): boolean => gold.kind === 'anomaly' && gold.class === null;

function missingText({ channels }: Example): string {
  const missing = channels.reduce((sum, one) => sum + one.filter((value) => Number.isNaN(value)).length, 0);
  const points = channels.length * channels[0]!.length;
  return missing === 0 ? '' : `, ${formatValue((100 * missing) / points)} % missing`;
}

/** `1 example`, `6 examples`. */
export const counted = (n: number): string => `${n} ${n === 1 ? 'example' : 'examples'}`;

/** Pictures taller than this stand beside each other where there is room. */
const TALL = 400;

/** Rates below one per second are told by their period. */
const sampling = (rate: number): Html =>
  rate >= 1
    ? html`<dt>Samples per second</dt><dd>${formatValue(rate)}</dd>`
    : html`<dt>Seconds per sample</dt><dd>${formatValue(1 / rate)}</dd>`;

/** Text that can be folded away. */
function fold(title: string, text: Html, open: boolean): Html {
  return html`<details${open ? new Html(' open') : null}><summary>${title}</summary>${text}</details>`;
}

function pictureBlock(picture: Picture, alt: string, caption: string): Html {
  return html`<figure class="drawn"><img src="${pngSource(uriOf(picture))}" width="${picture.width}" height="${picture.height}" alt="${alt}"><figcaption>${caption}</figcaption></figure>`;
}

async function card(
  { split, example }: ShownExample,
  origin: ExampleOrigin,
  details: ExampleDetails | undefined,
  /** Whether the prompt is that of the example before. */
  repeated: boolean,
): Promise<Html> {
  const drawing = drawingOf(example, origin.figure);
  const picture = await render(drawing.figure, drawing.values, drawing.times);
  const truth = markTruth(drawing, picture, example);
  const { id, recording, channels } = example;
  const width = channels.length === 1 ? '' : ` × ${channels.length} channels`;
  const facts = `${split}; ${lengthOf(example)} points${width}${missingText(example)}${recording === null ? '' : `; recording ${recording}`}`;
  return html`<article class="example">
<h2><bdi>${id}</bdi></h2>
<p class="verdict"><strong><bdi>${classOf(example.gold)}</bdi></strong> \u00b7 ${facts}</p>
<div class="${picture.height > TALL ? 'pictures beside' : 'pictures'}">
${pictureBlock(picture, `Plot of ${id}`, `What a policy sees: ${picture.width} \u00d7 ${picture.height} px, figure ${origin.figure.preset}.`)}
${truth === null ? null : pictureBlock(truth, `Plot of ${id} with the right answer marked`, 'The right answer, in green.')}
</div>
<h3>Right answer</h3>
${verbatim(goldParts(example.gold))}
${unnamed(example) ? html`<p class="verdict">The data set says where this anomaly is, not of which kind: its class is not graded.</p>` : null}
${details === undefined ? null : fold(repeated ? 'Prompt, the same as above' : 'Prompt', verbatim(details.prompt), !repeated)}
${details === undefined || details.trace === null ? null : fold('Expert trace', verbatim(details.trace, 'prose'), true)}
</article>
`;
}

const OWN_STYLE =
  '.example h2{font-size:1.05rem;margin:0}.example h3{font-size:.85rem;color:var(--soft);margin:.8rem 0 .3rem}' +
  '.example pre{margin:0;max-height:none}.example summary{font-size:.85rem;font-weight:650;color:var(--soft);margin:.8rem 0 .3rem;' +
  'cursor:pointer}.pictures.beside{display:grid;grid-template-columns:repeat(auto-fit,minmax(min(100%,26rem),1fr));gap:0 1rem}.drawn{margin:0 0 .8rem;overflow-x:auto}.drawn img{display:block;max-width:100%;height:auto;' +
  'background:#fff;border:1px solid var(--rule)}.drawn figcaption{font-size:.8rem;color:var(--soft)}';

/**
 * A self-contained page of examples.
 *
 * @param describe adds prompt and trace to each
 * @throws as `drawingOf`, rendering, and `describe`
 */
export async function examplesPage(
  origin: ExampleOrigin,
  examples: readonly ShownExample[],
  describe?: Describe,
): Promise<string> {
  const cards: Html[] = [];
  let prompt: string | undefined;
  for (const one of examples) {
    const details = await describe?.(one.example, origin);
    cards.push(await card(one, origin, details, details?.prompt === prompt));
    prompt = details?.prompt;
  }
  const { source, split, classes, rate, notes } = origin;
  const body = html`<header class="top"><h1>${origin.title}</h1>
<p class="lead">${source.description}</p>
<dl class="facts"><dt>Task</dt><dd>${origin.task}</dd>
${classes.length === 0 ? null : html`<dt>Classes</dt><dd>${classes.join(', ')}</dd>`}
${rate === null ? null : sampling(rate)}
<dt>Split</dt><dd>${split.statement}</dd><dt>Licence</dt><dd>${source.licence}</dd>
${source.citation === null ? null : html`<dt>Source</dt><dd>${source.citation}</dd>`}
${notes.map((note) => html`<dt>Note</dt><dd>${note}</dd>`)}</dl></header>
<main>${cards}</main>`;
  return page({ title: `${origin.title}: ${counted(examples.length)}`, style: STYLE + OWN_STYLE, body });
}
