/** `timeseer merge`: merges a LoRA adapter into the weights of its checkpoint. */
import type { CommandModule } from 'yargs';
import { print, printJson } from '../ground/terminal.ts';
import { type MergeRequest, mergePolicy } from '../run/run-policy.ts';

export interface MergeArguments extends MergeRequest {
  readonly json: boolean;
}

export function runMerge({ out, adapter, json, ...given }: MergeArguments): void {
  const { base, dtype, options } = mergePolicy({ ...given, out, adapter });
  const { rank, alpha, rslora = false, targets } = options;
  if (json) {
    printJson({ out, base, adapter, dtype, rank, alpha, rslora, targets });
  } else {
    const what = `rank ${rank}, alpha ${alpha}${rslora ? ', rsLoRA' : ''}, on ${targets.join(', ')}`;
    print(`${out}: ${base} with the adapter ${adapter} (${what}), ${dtype}`);
  }
}

export const merge: CommandModule<object, MergeArguments> = {
  command: 'merge',
  describe: 'Merge a LoRA adapter (PEFT format) into the weights of its checkpoint',
  builder: (yargs) =>
    yargs
      .option('policy', {
        type: 'string',
        demandOption: true,
        requiresArg: true,
        describe: 'Base checkpoint of the adapter, or a run',
      })
      .option('adapter', {
        type: 'string',
        demandOption: true,
        requiresArg: true,
        describe: 'Directory with adapter_config.json',
      })
      .option('out', {
        type: 'string',
        demandOption: true,
        requiresArg: true,
        describe: 'Output directory',
      })
      .option('dtype', {
        choices: ['auto', 'float32', 'bfloat16'] as const,
        default: 'auto' as const,
        requiresArg: true,
        describe: 'Data type of the merged weights; auto: as in the checkpoint',
      })
      .option('json', { type: 'boolean', default: false, describe: 'Print the summary as JSON' })
      .example(
        '$0 merge --policy models/Qwen2.5-VL-3B-Instruct --adapter runs/lora/rl/adapter --out merged --dtype bfloat16',
        'A plain checkpoint for transformers and vLLM',
      ),
  handler: runMerge,
};
