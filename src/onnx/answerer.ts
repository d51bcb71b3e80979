/** An export that answers by onnxruntime. */
import type { Answerer } from '../policy/answerer.ts';
import { layoutOf } from '../policy/layout.ts';
import { meanOfPictures } from '../policy/vision.ts';
import { generateOnnx } from './generate.ts';
import type { OnnxPolicy } from './policy.ts';

/** The policy belongs to the answerer from then on. */
export function onnxAnswerer(policy: OnnxPolicy): Answerer {
  const { dims, type, version, threads } = policy;
  return {
    ...{ prompting: policy, parameters: layoutOf(dims).size, dtype: type },
    info: { name: 'onnxruntime', version, device: 'cpu', threads },
    generate: (prompts, options) => generateOnnx(policy, prompts, options),
    pictureFeatures: async (prompts) =>
      prompts.length === 0 ? [] : meanOfPictures(dims, prompts, await policy.visualTokens(prompts)),
    dispose: () => policy.dispose(),
  };
}
