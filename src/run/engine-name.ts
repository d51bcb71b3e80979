/** The engines that answer, by the names that users give them. */

export const ENGINES = ['torch', 'onnx'] as const;
export type EngineName = (typeof ENGINES)[number];

export const ENGINE_WORDS =
  'What computes the policy: torch, or onnx (onnxruntime, on the processor; takes exports too). Default: torch, and onnx where no libtorch is found or the directory holds ONNX graphs alone';
