/** Draws a series as a policy sees it, and lists what the classical analyses say of it. */
import { writeFile } from 'node:fs/promises';
import { analyse, encodePng, render } from 'timeseer';

const values = Float64Array.from({ length: 400 }, (_, i) => Math.sin(i / 8) + (i === 250 ? 6 : 0));
const picture = await render(values, 'anomllm');
if (process.argv[2] !== undefined) await writeFile(process.argv[2], await encodePng(picture));
console.log(`${picture.width} × ${picture.height} pixels`);
console.log(JSON.stringify(await analyse(values)).slice(0, 200));
