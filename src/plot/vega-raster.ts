/**
 * Figure + values → RGB through vega: vega-lite is compiled once per figure, its vega.View is reused with the data and axis
 * domains swapped, and drawn on one reused canvas. The same figure and values give the same pixels in every thread and run.
 */
import { setImmediate } from 'node:timers/promises';
import * as vega from 'vega';
import { type Changeset, changeset, type View } from 'vega';
import { compile, type TopLevelSpec } from 'vega-lite';
import type { Picture } from '../ground/types.ts';
import { canvas, opaquePixels, textWidth } from './canvas.ts';
import {
  channelsOf,
  checkTimes,
  type FigureValues,
  gridRows,
  lineRows,
  type Row,
  xDomain,
  yDomain,
} from './data.ts';
import { type Figure, FONT_FAMILY } from './figure.ts';
import { DATA, tickLabels, vegaLite, yTickSpace } from './spec.ts';

/** A compiled figure: its view and its canvas. */
class Raster {
  readonly #figure: Figure;
  readonly #view: View;
  /** Data in the view, by reference. */
  #rows: readonly Row[] = [];
  readonly #context: ReturnType<ReturnType<typeof canvas.createCanvas>['getContext']>;

  constructor(figure: Figure) {
    this.#figure = figure;
    this.#view = viewOf(vegaLite(figure));
    this.#context = canvas.createCanvas(figure.width, figure.height).getContext('2d');
  }

  async draw(channels: readonly Float64Array[], times: Float64Array | undefined): Promise<Picture> {
    const figure = this.#figure;
    const { width, height } = figure;
    if (figure.grid || figure.rows !== null) {
      yDomain(figure, channels); // refuses what cannot be drawn
      this.#show(gridRows(figure, channels, times));
    } else {
      const y = yDomain(figure, channels);
      const { ticks, room } = yTickSpace(figure);
      const labels = tickLabels(y, ticks, figure.tickSize, room);
      this.#view
        .signal(DATA.xDomain, xDomain(figure, channels[0]!.length, times))
        .signal(DATA.yDomain, y)
        .signal(DATA.yFormat, labels.format)
        .signal(DATA.yTickSize, labels.size);
      this.#show(lineRows(figure, channels, times));
    }
    const context = this.#context;
    context.reset();
    context.fillStyle = figure.background;
    context.fillRect(0, 0, width, height);
    await this.#view.toCanvas(1, { externalContext: context });
    return { width, height, data: opaquePixels(context.canvas.data()) };
  }

  /**
   * Swaps the data. As many rows as before change in place, which spares vega the bookkeeping of removed and new
   * ones; not with several channels or times, whose derived columns would keep old values.
   */
  #show(rows: readonly Row[]): void {
    const { time, channels, grid, rows: stacked, colors } = this.#figure;
    const panelled = grid || stacked !== null;
    const grouped = channels.length > 1 && !(panelled && colors.length === 1);
    if (time || grouped || rows.length !== this.#rows.length) {
      this.#view.data(DATA.table, rows);
      this.#rows = rows;
      return;
    }
    this.#rows.forEach((row, i) => {
      row.x = rows[i]!.x;
      row.y = rows[i]!.y;
    });
    // vega's types leave `reflow` out.
    this.#view.change(DATA.table, (changeset() as Changeset & { reflow(): Changeset }).reflow());
  }

  finalize(): void {
    this.#view.finalize();
  }
}

/** Compiled figures of this thread, the least recently used first. */
const rasters = new Map<string, Raster>();
const MAX_RASTERS = 16;

/** End of the queue of drawings: a view draws one series at a time. */
let turn: Promise<unknown> = Promise.resolve();

function rasterOf(figure: Figure): Raster {
  const key = JSON.stringify(figure);
  const raster = rasters.get(key) ?? new Raster(figure);
  rasters.delete(key);
  rasters.set(key, raster);
  for (const [oldest, unused] of rasters) {
    if (rasters.size <= MAX_RASTERS) break;
    unused.finalize();
    rasters.delete(oldest);
  }
  return raster;
}

/**
 * Draws any figure through vega, also the ones that the column rasteriser could draw.
 * @param values one array per channel [C][N]; missing samples (NaN, ±Infinity) break the line, or are left out, as the
 * figure says
 * @param times x values [N], not decreasing, exactly when `needsTimes`: UTC milliseconds for `figure.time`
 *
 * Throws DataError as `channelsOf`, `yDomain` and `checkTimes`.
 */
export async function renderVega(
  figure: Figure,
  values: FigureValues,
  times?: Float64Array,
): Promise<Picture> {
  const channels = channelsOf(figure, values);
  checkTimes(figure, times, channels[0]!.length);
  const drawn = turn.then(async () => {
    const picture = await rasterOf(figure).draw(channels, times);
    // Canvas memory is released by finalizers, which only run between turns of the event loop.
    await setImmediate();
    return picture;
  });
  turn = drawn.catch(() => undefined);
  return drawn;
}

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

/**
 * vega-lite specification → headless view, with text measured in the bundled font. It draws nothing by itself; call `finalize`
 * when it is no longer needed.
 */
export function viewOf(spec: TopLevelSpec): vega.View {
  const logger = vega.logger(vega.Error);
  return new vega.View(vega.parse(compile(spec, { logger }).spec), { renderer: 'none', logger });
}
