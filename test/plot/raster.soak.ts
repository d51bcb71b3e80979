import { describe, expect, it } from 'vitest';
import { figure } from '../../src/plot/figure.ts';
import { renderVega } from '../../src/plot/vega-raster.ts';

// Our own output; geometry against matplotlib is in figure.test.ts and tasks.test.ts.
describe('render', () => {
  it('does not grow over 2000 pictures', async () => {
    const fig = figure('line', { width: 200, height: 100 });
    const draw = async (count: number) => {
      for (let i = 0; i < count; i++) {
        await renderVega(
          fig,
          Float64Array.from({ length: 20 }, (_, k) => Math.sin(k + i)),
        );
      }
    };
    await draw(500);
    const before = process.memoryUsage().rss;
    await draw(2000);
    // Unreleased canvases alone would be 160 MB.
    expect((process.memoryUsage().rss - before) / 2 ** 20).toBeLessThan(60);
  });
});
