/** Static report figures: one series with its true and predicted intervals, as an SVG string to inline in HTML. */
import type { TopLevelSpec } from 'vega-lite';
import { ConfigError, DataError } from '../ground/errors.ts';
import type { Interval } from '../ground/types.ts';
import { m4, yDomain } from './data.ts';
import { figure as preset } from './figure.ts';
import { LEAST_STRIP } from './raster.ts';
import { tickLabels } from './spec.ts';

interface SvgOptions {
  /** True intervals: a strip along the top edge and a light band. */
  readonly gold?: readonly Interval[];
  /** Predicted intervals: a strip along the bottom edge and a light band with dashed sides. */
  readonly predicted?: readonly Interval[];
  /** Legend labels instead of true and predicted; up to about 10 characters each. */
  readonly names?: { readonly gold: string; readonly predicted: string };
  readonly width?: number; // px, 640
  readonly height?: number; // px, 150
  readonly title?: string;
}

type Kind = 'true' | 'predicted';

/** Bands that differ in position, side lines and hue, for readers who do not tell red from green. */
const BANDS = {
  true: { color: '#2ca02c', opacity: 0.18 },
  predicted: { color: '#d62728', opacity: 0.1 },
} as const;
const COLORS = { line: '#1f4e79', text: '#333333', frame: '#bbbbbb' };
const FONT = 'DejaVu Sans, sans-serif';
const STRIP = 5; // px

/** Width of a legend entry in px: symbol, gaps and name. */
function legendWidth(name: string): number {
  return 26 + Math.ceil(6.5 * name.length);
}

/** Rectangles from sample start − ½ to end − ½: exactly the cells of the interval's samples. */
function bandRows(intervals: readonly Interval[], length: number, kind: Kind) {
  return intervals.map(([start, end]) => {
    if (!(start >= 0 && end > start && end <= length)) {
      throw new DataError(`${kind} interval [${start}, ${end}) lies outside the series of ${length} samples`);
    }
    return { start: start - 0.5, end: end - 0.5, kind };
  });
}

type Layer = Extract<TopLevelSpec, { layer: readonly unknown[] }>['layer'][number];

/** Light band over the whole height, a solid strip of at least `LEAST_STRIP` px at one edge, and dashed sides for predictions. */
function bandLayers(
  rows: ReturnType<typeof bandRows>,
  kinds: readonly Kind[],
  nameOf: Readonly<Record<Kind, string>>,
  size: { readonly width: number; readonly height: number },
  /** Samples along the x axis. */
  extent: number,
): Layer[] {
  const kind = rows[0]?.kind;
  if (kind === undefined) return [];
  const { color, opacity } = BANDS[kind];
  const span = { x: { field: 'start', type: 'quantitative' }, x2: { field: 'end' } } as const;
  const top = kind === 'true' ? 0 : size.height - STRIP;
  const legend = { domain: kinds.map((each) => nameOf[each]), range: kinds.map((each) => BANDS[each].color) };
  const least = (Math.min(LEAST_STRIP, size.width) * extent) / size.width;
  const named = rows.map((row) => {
    const wide = Math.max(row.end - row.start, least);
    const start = Math.max(-0.5, Math.min((row.start + row.end - wide) / 2, extent - 0.5 - wide));
    return { start, end: start + wide, name: nameOf[kind] };
  });
  const layers: Layer[] = [
    { data: { values: rows }, mark: { type: 'rect', color, opacity }, encoding: span },
    {
      data: { values: named },
      mark: { type: 'rect', opacity: 0.95 },
      encoding: {
        ...span,
        y: { value: top },
        y2: { value: top + STRIP },
        color: { field: 'name', type: 'nominal', scale: legend },
      },
    },
  ];
  if (kind === 'true') return layers;
  const sides = (['start', 'end'] as const).map(
    (field): Layer => ({
      data: { values: rows },
      mark: { type: 'rule', color, strokeDash: [3, 2], strokeWidth: 1, opacity: 0.8 },
      encoding: { x: { field, type: 'quantitative' } },
    }),
  );
  return [...layers, ...sides];
}

/** Rounds coordinates to one decimal: sharper than the eye, and a third of the size. */
function shorten(svg: string): string {
  return svg.replace(/-?\d+\.\d{2,}(?:e-?\d+)?/g, (number) => String(Math.round(Number(number) * 10) / 10));
}

/**
 * SVG of `values` [N] with shaded true and predicted intervals and a legend for those that are given.
 *
 * Under 40 kB whatever N: more than two samples per pixel are reduced by M4. Missing samples (NaN, ±Infinity)
 * break the line. Text is escaped; the font is DejaVu Sans where the reader has it, a sans-serif one elsewhere.
 *
 * Throws DataError for intervals outside the series, and as `yDomain`; ConfigError for a size without room.
 */
export async function figureSvg(values: Float64Array, options: SvgOptions = {}): Promise<string> {
  const { gold = [], predicted = [], title = '' } = options;
  const { names = { gold: 'true', predicted: 'predicted' } } = options;
  const { width = 640, height = 150 } = options;
  const length = values.length;
  if (length === 0) throw new DataError('a series without samples cannot be drawn; give at least one');
  const trueRows = bandRows(gold, length, 'true');
  const predictedRows = bandRows(predicted, length, 'predicted');
  const kinds = [...new Set([...trueRows, ...predictedRows].map((row) => row.kind))];
  const header = title !== '' || kinds.length > 0;
  const padding = {
    left: 46,
    top: header ? 24 : 8,
    // Half of the widest index label may stand beyond the plot.
    right: Math.max(18, Math.ceil(3.2 * length.toLocaleString('en').length)),
    bottom: 22,
  };
  const inner = {
    width: width - padding.left - padding.right,
    height: height - padding.top - padding.bottom,
  };
  if (!(inner.width >= 40 && inner.height >= 4 * STRIP)) {
    throw new ConfigError(
      `figureSvg: ${width} × ${height} px leaves no room for the plot; use at least 120 × 80`,
    );
  }
  const [lo, hi] = yDomain({ ...preset('line'), yMargin: 0.1 }, [values]);
  const ticks = Math.max(2, Math.round(inner.height / 32));
  const labels = tickLabels([lo, hi], ticks, 10, 37);
  const nameOf = { true: names.gold, predicted: names.predicted };
  const legendX = inner.width - kinds.reduce((sum, kind) => sum + legendWidth(nameOf[kind]), 0);
  const spec: TopLevelSpec = {
    $schema: 'https://vega.github.io/schema/vega-lite/v6.json',
    width: inner.width,
    height: inner.height,
    padding,
    autosize: 'none',
    layer: [
      ...bandLayers(trueRows, kinds, nameOf, inner, length + 0.5),
      ...bandLayers(predictedRows, kinds, nameOf, inner, length + 0.5),
      {
        data: { values: lineRows(values, inner.width) },
        mark: {
          type: 'line',
          color: COLORS.line,
          strokeWidth: 1.2,
          strokeJoin: 'round',
          strokeCap: 'round',
          invalid: 'break-paths-show-domains',
        },
        encoding: {
          x: {
            field: 'x',
            type: 'quantitative',
            scale: { domain: [-0.5, length], nice: false, zero: false },
            axis: { title: null, tickCount: Math.max(2, Math.round(inner.width / 80)) },
          },
          y: {
            field: 'y',
            type: 'quantitative',
            scale: { domain: [lo, hi], nice: false, zero: false },
            axis: { title: null, tickCount: ticks, format: labels.format, labelFontSize: labels.size },
          },
          // The types leave out the documented null.
          order: { value: null as unknown as number },
        },
      },
      ...titleLayers(title, legendX - 12),
    ],
    config: {
      font: FONT,
      aria: false,
      background: 'transparent',
      view: { stroke: COLORS.frame },
      axis: {
        domain: false,
        gridColor: '#eeeeee',
        tickColor: COLORS.frame,
        tickSize: 4,
        labelColor: COLORS.text,
        labelFontSize: 10,
        labelFlush: false,
      },
      legend: {
        title: null,
        orient: 'none',
        direction: 'horizontal',
        legendX,
        legendY: -19,
        labelColor: COLORS.text,
        labelFontSize: 11,
        symbolType: 'square',
        symbolStrokeWidth: 0,
        symbolSize: 80,
      },
    },
  };
  const { viewOf } = await import('./vega-raster.ts');
  const view = viewOf(spec);
  try {
    return shorten(await view.toSVG());
  } finally {
    view.finalize();
  }
}

/** A title in line with the legend, cut before it; vega's own title would move above the legend. */
function titleLayers(text: string, limit: number): Layer[] {
  if (text === '') return [];
  const mark = { type: 'text', text, x: 0, y: -12, align: 'left', baseline: 'middle', limit } as const;
  return [{ data: { values: [{}] }, mark: { ...mark, fontSize: 12, color: COLORS.text } }];
}

/** Maximum pixel columns for M4, which bounds the size of the file. */
const MAX_COLUMNS = 560;

/** Samples to draw: all, or their M4 selection where there are more than two per pixel column. */
function lineRows(values: Float64Array, width: number): { x: number; y: number | null }[] {
  const columns = Math.min(width, MAX_COLUMNS);
  const row = (i: number) => ({ x: i, y: Number.isFinite(values[i]!) ? values[i]! : null });
  if (values.length <= 2 * columns) return Array.from(values, (_, i) => row(i));
  return Array.from(
    m4(values, (i) => Math.floor(((i + 0.5) * columns) / values.length)),
    row,
  );
}
