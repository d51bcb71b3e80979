/** Figure + values → RGB: the one entry for stages that show pictures to a policy. */
import type { Picture } from '../types.ts';
import { renderColumns } from './column.ts';
import type { FigureValues } from './domain.ts';
import { type Figure, isBare } from './figure.ts';

/**
 * Draws a figure: bare ones by the column rasteriser, which draws the same picture faster, all others through vega, whose modules
 * take longer to load than all of ours and are loaded by the first figure that needs them. Training and evaluation see the same
 * pixels. Parameters and errors as `renderVega`.
 */
export async function render(figure: Figure, values: FigureValues, times?: Float64Array): Promise<Picture> {
  if (isBare(figure) && times === undefined) return renderColumns(figure, values);
  const { renderVega } = await import('./vega-raster.ts');
  return renderVega(figure, values, times);
}
