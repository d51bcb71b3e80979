/**
 * Writes the golden pictures beside itself: `npx tsx test/golden/plot/make.ts`. Run it only when a change of the
 * pictures is meant, look at them, and raise RENDERING in src/plot/cache.ts.
 */
import { fileURLToPath } from 'node:url';
import { writeFileAtomic } from '../../../src/ground/files.ts';
import { encodePng } from '../../../src/plot/png.ts';
import { render } from '../../../src/plot/raster.ts';
import { GOLDEN } from '../../plot/golden.ts';

for (const [name, { figure, values, times }] of Object.entries(GOLDEN)) {
  const path = fileURLToPath(new URL(`./${name}.png`, import.meta.url));
  writeFileAtomic(path, encodePng(await render(figure, values, times)));
}
