/** `timeseer export`: a policy for other runtimes. */
import type { CommandModule } from 'yargs';
import { ConfigError } from '../ground/errors.ts';
import { print, printJson } from '../ground/terminal.ts';
import type { WeightType } from '../onnx/weights.ts';

interface ExportArguments {
  readonly onnx: boolean;
  readonly policy: string;
  readonly out: string;
  readonly dtype: readonly WeightType[];
  readonly quiet: boolean;
  readonly json: boolean;
}

const megabytes = (bytes: number): string => `${(bytes / 1e6).toFixed(bytes < 1e7 ? 2 : 0)} MB`;

async function runExport({ onnx, json, quiet, ...given }: ExportArguments): Promise<void> {
  if (!onnx) throw new ConfigError('export: name the format: --onnx');
  const { exportPolicy } = await import('../run/export.ts');
  const { from, files } = exportPolicy({ ...given, quiet: quiet || json });
  if (json) printJson({ out: given.out, from, dtype: given.dtype, files });
  else {
    const list = files.map(({ name, bytes }) => `  onnx/${name}  ${megabytes(bytes)}\n`).join('');
    print(`${given.out}: ${from} as ONNX\n${list}`, '');
  }
}

export const exportCommand: CommandModule<object, ExportArguments> = {
  command: 'export',
  describe: 'Write a policy as ONNX, for transformers.js and onnxruntime',
  builder: (yargs) =>
    yargs
      .option('onnx', {
        type: 'boolean',
        default: false,
        describe: "As ONNX (operator set 17, with onnxruntime's own attention), the only format",
      })
      .option('policy', {
        type: 'string',
        demandOption: true,
        requiresArg: true,
        describe: 'A Qwen2.5-VL directory, or the directory of a run (its furthest trained policy)',
      })
      .option('out', {
        type: 'string',
        demandOption: true,
        requiresArg: true,
        describe:
          'Directory to write: config.json, tokenizer, and in onnx/ vision_encoder, embed_tokens, decoder_model_merged',
      })
      .option('dtype', {
        array: true,
        choices: ['float32', 'float16', 'int8'] as const,
        default: ['float32'] as WeightType[],
        requiresArg: true,
        describe:
          'How matrices are stored (repeatable): _fp16 and _int8 are added to the names of their files. They become float32 when a file is loaded: files are smaller, memory is not',
      })
      .option('quiet', { type: 'boolean', default: false, describe: 'No progress' })
      .option('json', { type: 'boolean', default: false, describe: 'Print what was written as JSON' })
      .example(
        '$0 export --onnx --policy runs/mine --out exports/mine',
        'In float32; load it with pipeline() or onnxruntime',
      )
      .example(
        '$0 export --onnx --policy models/Qwen2.5-VL-3B-Instruct --dtype float16 --dtype int8 --out exports/3b',
        'Two smaller forms; weights beyond 1.5 GB go into files of their own',
      )
      .epilogue(
        'A program runs vision_encoder once for the pictures, embed_tokens for the ids, puts the image features in the place of the image tokens, ' +
          'and decoder_model_merged with the cache of keys and values that the run before gave (present.N) as past_key_values.N.',
      ) as never,
  handler: runExport,
};
