/** vega-lite specification → vega.View, headless, with text widths measured in the bundled font. */
import * as vega from 'vega';
import { compile, type TopLevelSpec } from 'vega-lite';
import { textWidth } from './canvas.ts';
import { FONT_FAMILY } from './figure.ts';

/** Exports of vega that its types leave out: the hook for text widths, and the CSS font of a text item. */
interface TextMeasures {
  readonly textMetrics: { width: (item: object, text: unknown) => number };
  readonly font: (item: object) => string;
}
const { textMetrics, font } = vega as unknown as TextMeasures;

// Without a canvas package that it knows, vega guesses widths; measured ones place titles and legends right.
// Whatever family an SVG names for the browser, the bundled font is the one to measure with.
textMetrics.width = (item, text) =>
  textWidth(font(item).replace(/px .*$/, `px "${FONT_FAMILY}"`), String(text ?? ''));

/** A view that draws nothing by itself; call `finalize` when it is no longer needed. */
export function viewOf(spec: TopLevelSpec): vega.View {
  const logger = vega.logger(vega.Error);
  return new vega.View(vega.parse(compile(spec, { logger }).spec), { renderer: 'none', logger });
}
