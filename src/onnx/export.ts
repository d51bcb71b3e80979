/**
 * ONNX export in the layout of transformers.js: `config.json`, tokenizer files, and three graphs in `onnx/`,
 * written from the architecture, not traced. Weights are read tensor by tensor.
 */
import { readdirSync, statSync } from 'node:fs';
import { join, resolve } from 'node:path';
import { CheckpointError, ConfigError } from '../ground/errors.ts';
import { checkNewDirectory, jsonText, writeFileAtomic, writeJson } from '../ground/files.ts';
import { checkFiles, writeManifestedDirectory } from '../ground/manifest.ts';
import { IMAGE_PROCESSOR, ImageProcessor } from '../policy/image-processor.ts';
import type { Json } from '../policy/json-file.ts';
import { layoutOf } from '../policy/layout.ts';
import { configJson, type Dims, GENERATION_CONFIG_FILE, parseDims } from '../policy/model-config.ts';
import { type PolicyParts, readParts } from '../policy/policy.ts';
import { elements, openCheckpoint, type StoredTensor } from '../policy/safetensors.ts';
import { BPE_CONFIG } from '../policy/tokenizer.ts';
import { byPublishedName, compareParts } from '../policy/weights.ts';
import {
  ATTRIBUTE_TYPE,
  DATA_BYTES,
  DATA_TYPE,
  EXTERNAL,
  encodeModel,
  type GraphBuilder,
  type NodeMessage,
  type TensorMessage,
} from './graph.ts';
import { decoderGraph, embeddingGraph, visionGraph } from './qwen-graphs.ts';
import { asFloat16, asFloat32, asInt8, type PackedTensor, SUFFIX, type WeightType } from './weights.ts';

/** Weights beyond these bytes stand in files of their own: a message of protobuf holds at most 2 GB. */
const MOST_INSIDE = 1.5e9;
/** Largest of these files, unless one tensor alone is larger: more than 2 GB in one piece many programs cannot hold. */
const SHARD_BYTES = 2e9;
/** Alignment of tensors in that file, bytes. */
const ALIGNMENT = 4096;

interface ExportOptions {
  /** Type of the matrices; norms, biases and all that is computed stay float32. */
  readonly types: readonly WeightType[];
  /** Version of timeseer, written into the files. */
  readonly version: string;
  /** Text files that are written beside, by name. */
  readonly files?: Readonly<Record<string, string>>;
  /** Bytes of weights that a model file holds itself. */
  readonly mostInside?: number;
  /** Largest file of weights beside it, bytes. */
  readonly shardBytes?: number;
  /** Told the file that is being written. */
  readonly onFile?: (name: string) => void;
}

/** A tensor of the model file, and the nodes that make the weight out of it. */
interface Placed {
  readonly name: string;
  readonly tensor: PackedTensor;
}

const convert = (type: string, name: string, input: readonly string[], to?: number): NodeMessage => ({
  ...{ opType: type, name, input, output: [name] },
  attribute: to === undefined ? [] : [{ name: 'to', type: ATTRIBUTE_TYPE.int, i: to }],
});

/** Tensors of a graph in a type, and what makes float32 of them; runtimes do that once, when they load the file. */
function packed(
  graph: GraphBuilder,
  stored: ReadonlyMap<string, StoredTensor>,
  type: WeightType,
): { tensors: Placed[]; nodes: NodeMessage[] } {
  const tensors: Placed[] = [];
  const nodes: NodeMessage[] = [];
  for (const { name, tensor: of, shape, matrix } of graph.weights) {
    const tensor = stored.get(of)!;
    if (!matrix || type === 'float32') tensors.push({ name, tensor: asFloat32(tensor, shape) });
    else if (type === 'float16') {
      tensors.push({ name: `${name}/float16`, tensor: asFloat16(tensor, shape) });
      nodes.push(convert('Cast', name, [`${name}/float16`], DATA_TYPE.float32));
    } else {
      const { values, scales } = asInt8(tensor, shape);
      tensors.push({ name: `${name}/int8`, tensor: values }, { name: `${name}/scale`, tensor: scales });
      nodes.push(convert('Cast', `${name}/whole`, [`${name}/int8`], DATA_TYPE.float32));
      nodes.push(convert('Mul', name, [`${name}/whole`, `${name}/scale`]));
    }
  }
  return { tensors, nodes };
}

const bytesOf = ({ type, shape }: PackedTensor): number => DATA_BYTES[type] * elements(shape);

function joined(parts: Iterable<Uint8Array>, size: number): Uint8Array {
  const out = new Uint8Array(size);
  let at = 0;
  for (const part of parts) {
    out.set(part, at);
    at += part.length;
  }
  return out;
}

/** Writes a graph; returns how many files hold its weights beside it. */
function writeGraph(
  directory: string,
  graph: GraphBuilder,
  stored: ReadonlyMap<string, StoredTensor>,
  type: WeightType,
  { version, mostInside = MOST_INSIDE, shardBytes = SHARD_BYTES, onFile }: ExportOptions,
): number {
  const name = `${graph.name}${SUFFIX[type]}.onnx`;
  onFile?.(name);
  const { tensors, nodes } = packed(graph, stored, type);
  const total = tensors.reduce((sum, { tensor }) => sum + bytesOf(tensor), 0);
  const outside = total > mostInside;
  const initializer: TensorMessage[] = [];
  const shards: { readonly location: string; readonly places: { tensor: PackedTensor; gap: number }[] }[] =
    [];
  let end = 0;
  for (const { name: tensorName, tensor } of tensors) {
    const { type: dataType, shape } = tensor;
    const size = bytesOf(tensor);
    const message = { name: tensorName, dims: shape, dataType: DATA_TYPE[dataType] };
    if (!outside) {
      initializer.push({ ...message, rawData: joined(tensor.bytes(), size) });
      continue;
    }
    let offset = Math.ceil(end / ALIGNMENT) * ALIGNMENT;
    if (shards.length === 0 || offset + size > shardBytes) {
      const number = shards.length === 0 ? '' : `_${shards.length}`;
      shards.push({ location: `${name}_data${number}`, places: [] });
      offset = end = 0;
    }
    const { location, places } = shards.at(-1)!;
    places.push({ tensor, gap: offset - end });
    end = offset + size;
    const entries = { location, offset: String(offset), length: String(size) };
    const externalData = Object.entries(entries).map(([key, value]) => ({ key, value }));
    initializer.push({ ...message, dataLocation: EXTERNAL, externalData });
  }
  for (const { name: constant, type: dataType, shape, bytes } of graph.constants) {
    initializer.push({ name: constant, dims: shape, dataType: DATA_TYPE[dataType], rawData: bytes });
  }
  for (const { location, places } of shards) {
    function* data(): Generator<Uint8Array> {
      for (const { tensor, gap } of places) {
        if (gap > 0) yield new Uint8Array(gap);
        yield* tensor.bytes();
      }
    }
    writeFileAtomic(join(directory, location), data());
  }
  const model = { name: graph.name, node: [...nodes, ...graph.nodes], initializer };
  writeFileAtomic(
    join(directory, name),
    encodeModel({ ...model, input: graph.inputs, output: graph.outputs }, version),
  );
  return shards.length;
}

/** The stored tensors of a policy by their published names, as its sizes ask for them. @throws CheckpointError for others */
function storedTensors(directory: string, dims: Dims): Map<string, StoredTensor> {
  const layout = layoutOf(dims);
  const stored = byPublishedName(layout, openCheckpoint(directory));
  const mismatch = compareParts(layout, stored);
  if (mismatch === null) return stored;
  throw new CheckpointError(`${directory}: the weights do not fit config.json: ${mismatch.problems}`);
}

/** Classes of transformers 5 that transformers.js has under other names. */
const TOKENIZER_CLASS: Readonly<Record<string, string>> = { TokenizersBackend: 'PreTrainedTokenizerFast' };

/**
 * Files beside the graphs: those of the checkpoint, and complete versions of those that transformers.js
 * reads, because it has other defaults than transformers (pictures are not normalised) and ignores other
 * layouts.
 */
function textFiles(parts: PolicyParts, dims: Dims): Record<string, string> {
  const carried = parts.files ?? {};
  const files: Record<string, string> = { ...carried };
  const settings = new ImageProcessor(dims.vision, parts.preprocessor).json();
  const type = settings['image_processor_type'];
  const whole = { ...parts.preprocessor, ...settings, image_processor_type: IMAGE_PROCESSOR };
  files['preprocessor_config.json'] = jsonText(whole);
  // timeseer and transformers read this file first: the resize of another processor stays theirs.
  if (type !== IMAGE_PROCESSOR && carried['processor_config.json'] === undefined) {
    files['processor_config.json'] = jsonText({
      processor_class: settings['processor_class'],
      image_processor: { ...whole, image_processor_type: type },
    });
  }
  const tokenizerFile = carried['tokenizer.json'];
  const complete =
    tokenizerFile !== undefined &&
    JSON.stringify(JSON.parse(tokenizerFile)) === JSON.stringify(parts.tokenizer);
  if (!complete) files['tokenizer.json'] = jsonText(parts.tokenizer);
  const { tokenizer_class: name = BPE_CONFIG.tokenizer_class } = parts.tokenizerConfig;
  files['tokenizer_config.json'] = jsonText({
    ...BPE_CONFIG,
    ...parts.tokenizerConfig,
    tokenizer_class: TOKENIZER_CLASS[String(name)] ?? name,
    chat_template: parts.template,
  });
  const generation = JSON.parse(carried[GENERATION_CONFIG_FILE] ?? '{}') as Json;
  if ((generation['eos_token_id'] ?? null) === null) {
    const { end, pad } = dims.special;
    files[GENERATION_CONFIG_FILE] = jsonText({ ...generation, eos_token_id: [end], pad_token_id: pad });
  }
  return files;
}

/** Files written by an export. */
export interface Exported {
  /** Files in `onnx/`, with their bytes. */
  readonly files: readonly { readonly name: string; readonly bytes: number }[];
}

/**
 * Exports a Qwen2.5-VL directory to ONNX, whole or not at all.
 * @throws CheckpointError for a damaged or foreign directory; ConfigError for a wrong target; WriteError
 */
export function exportOnnx(from: string, out: string, options: ExportOptions): Exported {
  if (resolve(out) === resolve(from))
    throw new ConfigError(`--out ${out}: is the policy that is read; choose another directory`);
  checkNewDirectory(out);
  checkFiles(from);
  const parts = readParts(from);
  const dims = parseDims(parts.config, join(from, 'config.json'));
  const stored = storedTensors(from, dims);
  const graphs = [visionGraph(dims), embeddingGraph(dims), decoderGraph(dims)];
  let files: Exported['files'] = [];
  writeManifestedDirectory(out, (temporary) => {
    const external: Record<string, number> = {};
    const folder = join(temporary, 'onnx');
    for (const type of options.types) {
      for (const graph of graphs) {
        const beside = writeGraph(folder, graph, stored, type, options);
        if (beside > 0) external[`${graph.name}${SUFFIX[type]}.onnx`] = beside;
      }
    }
    const config = {
      ...configJson(dims, 'float32'),
      ...(Object.keys(external).length === 0
        ? {}
        : { 'transformers.js_config': { use_external_data_format: external } }),
    };
    writeJson(join(temporary, 'config.json'), config);
    for (const [name, text] of Object.entries({ ...textFiles(parts, dims), ...options.files }))
      writeFileAtomic(join(temporary, name), text);
    files = readdirSync(folder)
      .sort()
      .map((name) => ({ name, bytes: statSync(join(folder, name)).size }));
  });
  return { files };
}
