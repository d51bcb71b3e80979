/** The vega-lite specification that a figure stands for: compiled once, with everything that data change as a parameter. */
import type { TopLevelSpec } from 'vega-lite';
import { type Figure, FONT_FAMILY, plotSize } from './figure.ts';

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

/** Where the y axis' title ends, px left of the plot area: at the edge of the picture, so that nothing cuts it. */
function yTitleEdge(figure: Figure): number {
  return figure.padding.left - (figure.yLabel === '' ? 1 : 1.25 * figure.labelSize + 2);
}

/** About how many ticks the y axis has, and how many px their labels may take. */
export function yTickSpace(figure: Figure): { readonly ticks: number; readonly room: number } {
  return {
    ticks: Math.max(2, Math.round(plotSize(figure).height / 36)),
    room: yTitleEdge(figure) - TICK_SIZE - LABEL_PADDING - 1,
  };
}

/** The figure in vega-lite. Domains are parameters, so one compiled view serves every series of this shape. */
export function vegaLite(figure: Figure): TopLevelSpec {
  const { width, height } = plotSize(figure);
  const several = figure.channels.length > 1;
  const colors = figure.channels.map((_, i) => figure.colors[i % figure.colors.length]!);
  const axis = (title: string, ticks: number) => ({
    title: title === '' ? null : title,
    tickCount: Math.max(2, Math.round(ticks)),
  });
  return {
    $schema: 'https://vega.github.io/schema/vega-lite/v6.json',
    width,
    height,
    padding: figure.padding,
    // 'fit' depends on what the view drew before: the same data would not give the same pixels twice.
    autosize: 'none',
    background: figure.background,
    ...(figure.title === '' ? {} : { title: { text: figure.title, fontSize: figure.titleSize, offset: 6 } }),
    params: [
      { name: DATA.xDomain, value: [0, 1] },
      { name: DATA.yDomain, value: [0, 1] },
      { name: DATA.yFormat, value: '.1f' },
      { name: DATA.yTickSize, value: figure.tickSize },
    ],
    data: { name: DATA.table },
    mark: {
      type: 'line',
      aria: false,
      clip: false,
      strokeWidth: figure.lineWidth,
      strokeJoin: 'round',
      strokeCap: 'round',
      // A domain is given, so a missing value only breaks the line.
      invalid: 'break-paths-show-domains',
    },
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
      // Samples come in order; sorting them again costs time. The types leave out the documented null.
      order: { value: null as unknown as number },
      color: several
        ? {
            field: 'channel',
            type: 'nominal',
            scale: { domain: [...figure.channels], range: colors },
            legend: figure.axes
              ? { title: null, orient: 'top-right', fillColor: '#ffffffcc', padding: 4 }
              : null,
          }
        : { value: colors[0]! },
    },
    config: {
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
    },
  };
}
