/** Trainable weights of an export: the tensors of its graphs as those of a checkpoint. */
import { existsSync, readdirSync, readFileSync } from 'node:fs';
import { join } from 'node:path';
import { CheckpointError } from '../ground/errors.ts';
import { readJson } from '../policy/json-file.ts';
import { layoutOf } from '../policy/layout.ts';
import { parseDims } from '../policy/model-config.ts';
import type { StoredDType, WrittenTensor } from '../policy/safetensors.ts';
import { DATA_TYPE, MODEL, type TensorMessage } from './graph.ts';

/** Folder of the graphs in the directory of an export. */
const GRAPHS = 'onnx';
/** Ending of the names of tensors that a graph holds in 16 bits. */
const HALF = '/float16';
const STORED: Readonly<Record<number, StoredDType>> = {
  [DATA_TYPE.float16]: 'F16',
  [DATA_TYPE.float32]: 'F32',
};

/** True for a directory that holds graphs and no checkpoint. */
export const isExport = (directory: string): boolean =>
  existsSync(join(directory, GRAPHS)) &&
  !readdirSync(directory).some((name) => name.endsWith('.safetensors'));

/**
 * Reads the weights of an export in 16 or 32 bits, in the order of a checkpoint. Those of 16 bits are rounded, which training makes good.
 * @throws CheckpointError for an export in 8 bits, or one whose weights lie in files beside its graphs
 */
export function exportedWeights(directory: string): WrittenTensor[] {
  const found = new Map<string, TensorMessage>();
  // Graphs in 32 bits come last and win.
  const files = readdirSync(join(directory, GRAPHS)).filter((file) => /(?<!_int8)\.onnx$/.test(file));
  for (const name of files.sort().reverse()) {
    const model = MODEL.toObject(MODEL.decode(readFileSync(join(directory, GRAPHS, name))), {
      longs: Number,
    });
    const { initializer = [] } = (model as { graph: { initializer?: TensorMessage[] } }).graph;
    for (const tensor of initializer) found.set(tensor.name.replace(HALF, ''), tensor);
  }
  const file = join(directory, 'config.json');
  const { parameters } = layoutOf(parseDims(readJson(file), file));
  return parameters.flatMap(({ parts }) =>
    parts.map(({ name, shape }): WrittenTensor => {
      const tensor = found.get(name);
      const dtype = STORED[tensor?.dataType ?? -1];
      const raw = tensor?.rawData;
      if (dtype === undefined || raw === undefined || raw.length === 0) {
        throw new CheckpointError(
          `${directory}: ${name} cannot be trained: start from an export in 16 or 32 bits with its weights inside, or from a checkpoint`,
        );
      }
      return { name, shape, dtype, bytes: () => [raw] };
    }),
  );
}
