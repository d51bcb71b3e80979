/** vega-lite specification of a figure: compiled once, with everything that depends on the data as a parameter. */
import type { TopLevelSpec } from 'vega-lite';
import { textWidth } from './canvas.ts';
import { type Figure, FONT_FAMILY, panels, plotSize } from './figure.ts';

/**
 * Names by which the compiled figure takes its data: a table of {x, y, channel}, the two axis domains, and number
 * format and font size of the y axis.
 */
export const DATA = {
  table: 'series',
  xDomain: 'xDomain',
  yDomain: 'yDomain',
  yFormat: 'yFormat',
  yTickSize: 'yTickSize',
} as const;

const TICK_SIZE = 4.5; // px
const LABEL_PADDING = 2;

/** Distance of the y axis title from the plot area in px: it ends at the picture's edge, so that nothing is cut. */
function yTitleEdge(figure: Figure): number {
  return figure.padding.left - (figure.yLabel === '' ? 1 : 1.25 * figure.labelSize + 2);
}

/** Approximate number of y ticks, and the px available to their labels. */
export function yTickSpace(figure: Figure): { readonly ticks: number; readonly room: number } {
  return {
    ticks: Math.max(2, Math.round(plotSize(figure).height / 36)),
    room: yTitleEdge(figure) - TICK_SIZE - LABEL_PADDING - 1,
  };
}

/** vega-lite specification; domains are parameters, so one compiled view serves every series of this shape. */
export function vegaLite(figure: Figure): TopLevelSpec {
  if (figure.grid || figure.rows !== null) return gridSpec(figure);
  return lineSpec(figure);
}

function frame(figure: Figure) {
  return {
    $schema: 'https://vega.github.io/schema/vega-lite/v6.json',
    ...plotSize(figure),
    padding: figure.padding,
    // 'fit' depends on what the view drew before: the same data would not give the same pixels twice.
    autosize: 'none',
    background: figure.background,
    ...(figure.title === '' ? {} : { title: { text: figure.title, fontSize: figure.titleSize, offset: 6 } }),
    data: { name: DATA.table },
  } as const;
}

function config(figure: Figure) {
  return {
    font: FONT_FAMILY,
    aria: false,
    view: { stroke: figure.axes ? '#000000' : null, strokeWidth: 1 },
    axis: {
      grid: false,
      domain: false,
      tickColor: '#000000',
      tickSize: TICK_SIZE,
      labelPadding: LABEL_PADDING,
      labelColor: '#000000',
      labelFontSize: figure.tickSize,
      titleColor: '#000000',
      titleFontSize: figure.labelSize,
      titleFontWeight: 'normal',
      titlePadding: 5,
    },
    title: { fontWeight: 'normal', color: '#000000' },
    legend: { labelFontSize: figure.tickSize, labelColor: '#000000', symbolStrokeWidth: figure.lineWidth },
  } as const;
}

const LINE = {
  type: 'line',
  aria: false,
  clip: false,
  strokeJoin: 'round',
  strokeCap: 'round',
  // A domain is given, so a missing value only breaks the line.
  invalid: 'break-paths-show-domains',
} as const;

/** Keeps the order of the samples; sorting them again costs time. The types lack the documented null. */
const IN_ORDER = { value: null as unknown as number };

const titled = (title: string) => (title === '' ? null : title);

function legendOf(figure: Figure) {
  if (!figure.axes) return null;
  return figure.legend === 'inside'
    ? ({ title: null, orient: 'top-right', fillColor: '#ffffffcc', padding: 4 } as const)
    : ({
        title: null,
        orient: 'top',
        direction: 'horizontal',
        offset: 4,
        padding: 0,
        symbolSize: 400,
      } as const);
}

function lineSpec(figure: Figure): TopLevelSpec {
  const { width } = plotSize(figure);
  const several = figure.channels.length > 1;
  const colors = figure.channels.map((_, i) => figure.colors[i % figure.colors.length]!);
  const axis = (title: string, ticks: number) => ({
    title: titled(title),
    tickCount: Math.max(2, Math.round(ticks)),
  });
  return {
    ...frame(figure),
    params: [
      { name: DATA.xDomain, value: [0, 1] },
      { name: DATA.yDomain, value: [0, 1] },
      { name: DATA.yFormat, value: '.1f' },
      { name: DATA.yTickSize, value: figure.tickSize },
    ],
    mark: { ...LINE, strokeWidth: figure.lineWidth },
    encoding: {
      x: {
        field: 'x',
        type: figure.time ? 'temporal' : 'quantitative',
        scale: {
          type: figure.time ? 'utc' : 'linear',
          domain: { expr: DATA.xDomain },
          nice: false,
          zero: false,
        },
        axis: figure.axes
          ? { ...axis(figure.xLabel, width / 110), ...(figure.time ? {} : { format: '~f' }) }
          : null,
      },
      y: {
        field: 'y',
        type: 'quantitative',
        scale: { domain: { expr: DATA.yDomain }, nice: false, zero: false },
        axis: figure.axes
          ? {
              ...axis(figure.yLabel, yTickSpace(figure).ticks),
              labelExpr: `format(datum.value, ${DATA.yFormat})`,
              labelFontSize: { expr: DATA.yTickSize },
              titleX: -yTitleEdge(figure),
            }
          : null,
      },
      order: IN_ORDER,
      color: several
        ? {
            field: 'channel',
            type: 'nominal',
            scale: { domain: [...figure.channels], range: colors },
            legend: legendOf(figure),
          }
        : { value: colors[0]! },
    },
    config: config(figure),
  };
}

/** Specification of a grid or of rows: frames and names are static; the table is in px, so that one line mark draws all panels. */
function gridSpec(figure: Figure): TopLevelSpec {
  const { width, height } = plotSize(figure);
  const places = panels(figure);
  const scale = (domain: [number, number]) => ({ domain, nice: false, zero: false });
  const x = { field: 'x', type: 'quantitative' as const, scale: scale([0, width]), axis: null };
  const y = { field: 'y', type: 'quantitative' as const, scale: scale([height, 0]), axis: null };
  const colors = figure.channels.map((_, i) => figure.colors[i % figure.colors.length]!);
  const frames = places.map((panel) => ({
    x: panel.x,
    y: panel.y,
    right: panel.x + panel.width,
    bottom: panel.y + panel.height,
  }));
  const names = places.map((panel, i) => ({ x: panel.x, y: panel.y, name: figure.channels[i]! }));
  const surroundings = [
    {
      data: { values: frames },
      mark: { type: 'rect', filled: false, stroke: '#000000', strokeWidth: 1 },
      encoding: { x, y, x2: { field: 'right' }, y2: { field: 'bottom' } },
    },
    {
      data: { values: names },
      mark: {
        type: 'text',
        align: 'left',
        baseline: 'alphabetic',
        dx: 1,
        dy: -3,
        fontSize: figure.labelSize,
        color: '#000000',
      },
      encoding: { x, y, text: { field: 'name' } },
    },
  ] as const;
  return {
    ...frame(figure),
    layer: [
      ...(figure.grid ? surroundings : []),
      {
        mark: { ...LINE, strokeWidth: figure.lineWidth },
        encoding: {
          x,
          y,
          order: IN_ORDER,
          // One colour needs no groups: gaps part the panels' lines, in a third of the time.
          color:
            figure.colors.length === 1
              ? { value: colors[0]! }
              : {
                  field: 'channel',
                  type: 'nominal',
                  scale: { domain: [...figure.channels], range: colors },
                  legend: null,
                },
        },
      },
    ],
    config: { ...config(figure), view: { stroke: null } },
  };
}

interface TickLabels {
  readonly format: string;
  readonly size: number;
}

const SMALLEST_LABEL = 6; // px, just readable

/**
 * Labels of the y axis that fit beside the plot, whatever the values: for ticks on [lo, hi]: plain decimals with as many digits as the tick step needs; SI prefixes (60k, 2.5M,
 * 300n) or exponents where the numbers are large or small and the step is not minute beside them.
 * @param ticks about how many ticks there are
 * @param size wished font size, px
 * @param room px that a label may take; wider ones are set smaller, down to 6 px
 */
export function tickLabels(
  [lo, hi]: readonly [number, number],
  ticks: number,
  size: number,
  room: number,
): TickLabels {
  const magnitude = Math.max(Math.abs(lo), Math.abs(hi));
  const span = hi - lo;
  const step = 10 ** Math.floor(Math.log10(span / ticks));
  const decimals = Math.min(100, Math.max(0, -Math.floor(Math.log10(step))));
  const plain = magnitude < 1e4 && magnitude >= 1e-3;
  // Three digits tell the ticks apart unless they all begin with the same ones.
  const short = span * 100 > magnitude;
  const [format, longest] =
    !plain && short
      ? magnitude >= 1e18 || magnitude < 1e-18
        ? ['.2~e', '−1.25e+300']
        : ['.3~s', '−125k']
      : magnitude < 1e15
        ? [
            `.${decimals}f`,
            [lo, hi].map((value) => value.toFixed(decimals)).sort((a, b) => a.length - b.length)[1]!,
          ]
        : ['.8~e', '−1.23456789e+300'];
  const width = textWidth(`${size}px "${FONT_FAMILY}"`, longest.replace('-', '−'));
  return {
    format,
    size: Math.max(SMALLEST_LABEL, Math.min(size, Math.floor((size * room) / width / 0.1) * 0.1)),
  };
}
