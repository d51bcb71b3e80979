/** `timeseer merge`: merges a LoRA adapter into the weights of its checkpoint. */
import { print, printJson } from '../ground/terminal.ts';
import { type MergeRequest, mergePolicy } from '../run/run-policy.ts';
import { choice, command, flag, required } from './options.ts';

interface MergeArguments extends MergeRequest {
  readonly json: boolean;
}

async function runMerge({ out, adapter, json, ...given }: MergeArguments): Promise<void> {
  const { base, dtype, options } = await mergePolicy({ ...given, out, adapter });
  const { rank, alpha, rslora = false, targets } = options;
  if (json) {
    printJson({ out, base, adapter, dtype, rank, alpha, rslora, targets });
  } else {
    const settings = `rank ${rank}, alpha ${alpha}${rslora ? ', rsLoRA' : ''}, on ${targets.join(', ')}`;
    print(`${out}: ${base} with the adapter ${adapter} (${settings}), ${dtype}`);
  }
}

const OPTIONS = {
  policy: required('Base checkpoint of the adapter, or a run'),
  adapter: required('Directory with adapter_config.json'),
  out: required('Output directory'),
  dtype: choice(
    ['auto', 'float32', 'bfloat16'],
    'Data type of the merged weights; auto: as in the checkpoint',
    { default: 'auto' },
  ),
  json: flag('Print the summary as JSON'),
};

export const merge = command({
  command: 'merge',
  options: OPTIONS,
  examples: [
    [
      '$0 merge --policy models/Qwen2.5-VL-3B-Instruct --adapter runs/lora/rl/adapter --out merged --dtype bfloat16',
      'A plain checkpoint for transformers and vLLM',
    ],
  ],
  handler: runMerge,
});
