/** What a policy makes of pictures before it reads a word. */
import type { EncodedPrompt } from './batch.ts';
import type { Policy } from './policy.ts';
import { encodeImages } from './vision.ts';

/** The mean of the visual tokens of each prompt, behind the merger: [P][D]. Every prompt has at least one picture. */
export function pictureFeatures(
  { engine, dims, weights }: Policy,
  prompts: readonly EncodedPrompt[],
): Float32Array[] {
  if (prompts.length === 0) return [];
  const images = prompts.flatMap((prompt) => prompt.images);
  const tokens = engine.scope(() =>
    engine.noGrad(() => engine.floats(encodeImages(engine, weights, dims.vision, images))),
  ); // [Σ rows · columns / merge², D]
  const { width, vision } = dims;
  let at = 0;
  return prompts.map((prompt) => {
    const count = prompt.images.reduce(
      (sum, { rows, columns }) => sum + (rows * columns) / vision.merge ** 2,
      0,
    );
    const mean = new Float32Array(width);
    for (let t = 0; t < count; t++, at++) {
      for (let d = 0; d < width; d++) mean[d]! += tokens[at * width + d]! / count;
    }
    return mean;
  });
}
