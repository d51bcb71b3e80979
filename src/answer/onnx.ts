/** Policies that onnxruntime computes, in Node and in browsers. */
import { decodeGroupsOnnx, generateOnnx } from '../onnx/generate.ts';
import type { OnnxPolicy } from '../onnx/policy.ts';
import { layoutOf } from '../policy/layout.ts';
import { meanOfPictures } from '../policy/vision.ts';
import type { LocalPolicy } from './answerer.ts';

/** Wraps a policy on onnxruntime, which it owns from then on. */
export function onnxPolicy(policy: OnnxPolicy): LocalPolicy {
  const { dims, type, version, threads } = policy;
  return {
    ...{ prompting: policy, parameters: layoutOf(dims).size, dtype: type },
    info: { name: 'onnxruntime', version, device: 'cpu', threads },
    decode: (groups, options) => decodeGroupsOnnx(policy, groups, options),
    generate: (prompts, options) => generateOnnx(policy, prompts, options),
    pictureFeatures: async (prompts) =>
      prompts.length === 0 ? [] : meanOfPictures(dims, prompts, await policy.visualTokens(prompts)),
    dispose: () => policy.dispose(),
  };
}
