/** `timeseer export`: writes a policy for other runtimes. */
import { ConfigError } from '../ground/errors.ts';
import { print, printJson } from '../ground/terminal.ts';
import type { WeightType } from '../onnx/weights.ts';
import { command, flag, type Given, required } from './options.ts';

type ExportArguments = Given<typeof OPTIONS> & { readonly dtype: readonly WeightType[] };

const megabytes = (bytes: number): string => `${(bytes / 1e6).toFixed(bytes < 1e7 ? 2 : 0)} MB`;

async function runExport({ onnx, json, quiet, ...given }: ExportArguments): Promise<void> {
  if (!onnx) throw new ConfigError('export: name the format: --onnx');
  const { exportPolicy } = await import('../run/run-policy.ts');
  const { from, files } = exportPolicy({ ...given, quiet: quiet || json });
  if (json) printJson({ out: given.out, from, dtype: given.dtype, files });
  else {
    const list = files.map(({ name, bytes }) => `  onnx/${name}  ${megabytes(bytes)}\n`).join('');
    print(`${given.out}: ${from} as ONNX\n${list}`, '');
  }
}

const OPTIONS = {
  onnx: flag("Write ONNX: operator set 17 with onnxruntime's attention operator; the only format"),
  policy: required('Qwen2.5-VL directory, or directory of a run (its last trained policy)'),
  out: required(
    'Directory to write: config.json, tokenizer and image settings as transformers.js reads them, and onnx/ with vision_encoder, embed_tokens and decoder_model_merged',
  ),
  dtype: {
    array: true,
    choices: ['float32', 'float16', 'int8'] as const,
    default: ['float32'] as WeightType[],
    requiresArg: true,
    describe:
      'Storage type of the matrices (repeatable); files of float16 and int8 end in _fp16 and _int8. It saves disk space, not memory: weights are converted to float32 on loading',
  },
  quiet: flag('Do not show progress'),
  json: flag('Print the list of files as JSON'),
};

export const exportCommand = command({
  command: 'export',
  options: OPTIONS,
  examples: [
    [
      '$0 export --onnx --policy runs/mine --out exports/mine',
      'In float32, for transformers.js or onnxruntime',
    ],
    [
      '$0 export --onnx --policy models/Qwen2.5-VL-3B-Instruct --dtype float16 --dtype int8 --out exports/3b',
      'Two smaller variants; weights beyond 1.5 GB go into separate files',
    ],
  ],
  epilogue:
    'In transformers.js: AutoProcessor and AutoModelForImageTextToText. With onnxruntime alone: run vision_encoder once per prompt and ' +
    'embed_tokens on the ids; replace the embeddings of the image tokens by the image features; then run decoder_model_merged once per ' +
    'token, passing the outputs present.N of one step as the inputs past_key_values.N of the next.',
  handler: runExport,
});
