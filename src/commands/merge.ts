/** `timeseer merge`: a checkpoint with a low-rank adapter added to its weights. */
import { existsSync, readdirSync, statSync } from 'node:fs';
import { join, resolve } from 'node:path';
import type { CommandModule } from 'yargs';
import { ConfigError } from '../errors.ts';
import { writeManifestedDirectory } from '../manifest.ts';
import { type Json, readJson } from '../policy/json-file.ts';
import { mergeAdapter } from '../policy/lora.ts';
import { statedDType } from '../policy/model-config.ts';
import { loadAdapter } from '../policy/peft.ts';
import { Policy } from '../policy/policy.ts';
import { openEngine } from '../run/engine.ts';
import { findPolicy } from '../run/run-policy.ts';
import { CARD_FILE, readCard, writeCard } from '../tasks/card.ts';
import { print, printJson } from '../terminal.ts';

export interface MergeArguments {
  readonly policy: string;
  readonly adapter: string;
  readonly out: string;
  readonly dtype: 'auto' | 'float32' | 'bfloat16';
  readonly json: boolean;
}

/** The checkpoint is never written over: a merge cannot be taken back. */
function checkTarget(out: string, sources: readonly string[]): void {
  const same = sources.find((source) => resolve(source) === resolve(out));
  if (same !== undefined) throw new ConfigError(`--out ${out}: is what is read; choose another directory`);
  if (!existsSync(out)) return;
  if (!statSync(out).isDirectory()) throw new ConfigError(`--out ${out}: is a file; choose a directory`);
  if (readdirSync(out).length > 0) {
    throw new ConfigError(`--out ${out}: holds files already; choose a new directory`);
  }
}

/**
 * Runs the command.
 * @throws ConfigError for a wrong option or target; CheckpointError when base and adapter do not belong together
 */
export function runMerge(args: MergeArguments): void {
  const base = findPolicy(args.policy);
  checkTarget(args.out, [base, args.adapter]);
  const engine = openEngine('cpu', 0);
  const stated = statedDType(readJson(join(base, 'config.json')) as Json);
  const policy = Policy.load(engine, base, {
    // `auto` of a loaded policy is what suits the processor; a file keeps the width that it has.
    dtype: args.dtype !== 'auto' ? args.dtype : /16$/.test(String(stated)) ? 'bfloat16' : 'float32',
    adapter: (dims) => loadAdapter(engine, dims, args.adapter),
  });
  const { options } = policy.adapter!;
  mergeAdapter(policy);
  // Run directories keep a card beside a policy: the adapter's, which was taught last, before the base's.
  const card = [args.adapter, base].find((directory) => existsSync(join(directory, CARD_FILE)));
  writeManifestedDirectory(args.out, (temporary) => {
    policy.write(temporary);
    if (card !== undefined) writeCard(temporary, readCard(card));
  });
  const { rank, alpha, rslora = false, targets } = options;
  const { dtype } = policy;
  policy.dispose();
  if (args.json) {
    printJson({ out: args.out, base, adapter: args.adapter, dtype, rank, alpha, rslora, targets });
  } else {
    const what = `rank ${rank}, alpha ${alpha}${rslora ? ', rsLoRA' : ''}, on ${targets.join(', ')}`;
    print(`${args.out}: ${base} with the adapter ${args.adapter} (${what}), ${dtype}`);
  }
}

export const merge: CommandModule<object, MergeArguments> = {
  command: 'merge',
  describe: 'Add a low-rank adapter (LoRA, PEFT) to the weights of its checkpoint',
  builder: (yargs) =>
    yargs
      .option('policy', {
        type: 'string',
        demandOption: true,
        requiresArg: true,
        describe: 'The checkpoint that the adapter belongs to, or the directory of a run',
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
        describe: 'Directory to write',
      })
      .option('dtype', {
        choices: ['auto', 'float32', 'bfloat16'] as const,
        default: 'auto' as const,
        requiresArg: true,
        describe: 'Of the weights that are written; auto: as in the checkpoint',
      })
      .option('json', { type: 'boolean', default: false, describe: 'Print the summary as JSON' })
      .example(
        '$0 merge --policy models/Qwen2.5-VL-3B-Instruct --adapter runs/lora/rl/adapter --out merged --dtype bfloat16',
        'A plain checkpoint, which transformers and vLLM load',
      ),
  handler: runMerge,
};
