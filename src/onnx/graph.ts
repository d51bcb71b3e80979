/**
 * Builder of ONNX graphs (nodes, constants, weights; operators of a transformer) and their encoder, through
 * protobufjs, by the field numbers of `onnx.proto3` (ONNX 1.17, IR version 9).
 */
import protobuf from 'protobufjs';
import { getOrMake } from '../ground/maps.ts';

/** A weight of the graph: its name there, and the stored tensor that it is, as it lies. */
interface GraphWeight {
  readonly name: string;
  /** Published name of the tensor. */
  readonly tensor: string;
  /** Shape in the graph, of as many elements. */
  readonly shape: readonly number[];
  /** Rows of a matrix may be stored in 8 bits. */
  readonly matrix: boolean;
}

/** A small constant. */
interface GraphConstant {
  readonly name: string;
  readonly type: DataType;
  readonly shape: readonly number[];
  readonly bytes: Uint8Array;
}

/** Attributes of a node by name: an integer, a float, or a list of integers. */
type Attributes = Readonly<Record<string, number | { readonly float: number } | readonly number[]>>;

const messagesOf = (attributes: Attributes): AttributeMessage[] =>
  Object.entries(attributes).map(([name, value]) => {
    if (typeof value === 'number') return { name, type: ATTRIBUTE_TYPE.int, i: value };
    if ('float' in value) return { name, type: ATTRIBUTE_TYPE.float, f: value.float };
    return { name, type: ATTRIBUTE_TYPE.ints, ints: value };
  });

export class GraphBuilder {
  readonly name: string;
  readonly nodes: NodeMessage[] = [];
  readonly inputs: ValueMessage[] = [];
  readonly outputs: ValueMessage[] = [];
  readonly weights: GraphWeight[] = [];
  readonly constants: GraphConstant[] = [];
  readonly #known = new Map<string, string>();
  readonly #counts = new Map<string, number>();

  constructor(name: string) {
    this.name = name;
  }

  input(name: string, type: DataType, shape: readonly Dimension[]): string {
    this.inputs.push(valueMessage(name, type, shape));
    return name;
  }

  /** Gives a value another name. */
  rename(name: string, value: string): void {
    const node = { opType: 'Identity', name: `output/${name}`, input: [value], output: [name] };
    this.nodes.push({ ...node, attribute: [] });
  }

  /** Makes a value an output of that name. */
  output(name: string, type: DataType, shape: readonly Dimension[], value: string): void {
    this.rename(name, value);
    this.outputs.push(valueMessage(name, type, shape));
  }

  /** A stored tensor, under its published name; of another shape where one is given. */
  weight(tensor: string, shape: readonly number[], matrix = false): string {
    if (!this.weights.some(({ name }) => name === tensor)) {
      this.weights.push({ name: tensor, tensor, shape, matrix });
    }
    return tensor;
  }

  op(type: string, inputs: readonly string[], attributes: Attributes = {}): string {
    return this.ops(type, inputs, 1, attributes)[0]!;
  }

  ops(type: string, inputs: readonly string[], outputs: number, attributes: Attributes = {}): string[] {
    const count = this.#counts.get(type) ?? 0;
    this.#counts.set(type, count + 1);
    const name = `${type}_${count}`;
    const output = Array.from({ length: outputs }, (_, i) => (outputs === 1 ? name : `${name}.${i}`));
    this.nodes.push({ opType: type, name, input: inputs, output, attribute: messagesOf(attributes) });
    return output;
  }

  /** An operator of onnxruntime's own, whose outputs have these names; '' for an input that is left out. */
  contributed(
    type: string,
    inputs: readonly string[],
    output: readonly string[],
    attributes: Attributes,
  ): void {
    const name = `${type}/${output[0]!}`;
    this.nodes.push({
      ...{ opType: type, name, domain: MICROSOFT, input: inputs, output },
      attribute: messagesOf(attributes),
    });
  }

  #constant(type: DataType, shape: readonly number[], values: ArrayBufferView): string {
    const bytes = new Uint8Array(values.buffer, values.byteOffset, values.byteLength);
    const key = `${type} ${shape.join()} ${Buffer.from(bytes).toString('base64')}`;
    return getOrMake(this.#known, key, () => {
      const name = `constant_${this.constants.length}`;
      this.constants.push({ name, type, shape, bytes: bytes.slice() });
      return name;
    });
  }

  /** Integers: [n]. */
  ints(...values: number[]): string {
    return this.#constant('int64', [values.length], BigInt64Array.from(values.map(BigInt)));
  }

  /** Integer without dimensions: []. */
  int(value: number): string {
    return this.#constant('int64', [], BigInt64Array.of(BigInt(value)));
  }

  float(value: number): string {
    return this.#constant('float32', [], Float32Array.of(value));
  }

  floats(values: Float32Array, shape: readonly number[] = [values.length]): string {
    return this.#constant('float32', shape, values);
  }

  reshape(x: string, ...shape: number[]): string {
    return this.op('Reshape', [x, this.ints(...shape)]);
  }

  transpose(x: string, ...perm: number[]): string {
    return this.op('Transpose', [x], { perm });
  }

  cast(x: string, type: DataType): string {
    return this.op('Cast', [x], { to: DATA_TYPE[type] });
  }

  /** Elements [start, end) along an axis. */
  slice(x: string, axis: number, start: number, end: number): string {
    return this.op('Slice', [x, this.ints(start), this.ints(end), this.ints(axis)]);
  }

  /** Size along an axis: [1]. */
  size(x: string, axis: number): string {
    return this.op('Slice', [this.op('Shape', [x]), this.ints(axis), this.ints(axis + 1)]);
  }

  /** 0, 1, … below a size [1]: [n]. */
  range(size: string): string {
    return this.op('Range', [this.int(0), this.op('Squeeze', [size]), this.int(1)]);
  }

  /** x · Wᵀ + b for x [n, inputs] and a stored weight [outputs, inputs]: [n, outputs]. */
  linear(
    x: string,
    module: string,
    outputs: number,
    inputs: number,
    bias: boolean,
    weight = `${module}.weight`,
  ): string {
    const w = this.weight(weight, [outputs, inputs], true);
    const all = bias ? [x, w, this.weight(`${module}.bias`, [outputs])] : [x, w];
    return this.op('Gemm', all, { transB: 1 });
  }

  /** x / √(mean x² + ε) · weight over the last axis, in the operators that onnxruntime makes one of. */
  rmsNorm(x: string, module: string, width: number, epsilon: number): string {
    const mean = this.op('ReduceMean', [this.op('Pow', [x, this.float(2)])], { axes: [-1], keepdims: 1 });
    const root = this.op('Sqrt', [this.op('Add', [mean, this.float(epsilon)])]);
    return this.op('Mul', [this.op('Div', [x, root]), this.weight(`${module}.weight`, [width])]);
  }

  silu(x: string): string {
    return this.op('Mul', [x, this.op('Sigmoid', [x])]);
  }

  /** x/2 · (1 + erf(x/√2)). */
  gelu(x: string): string {
    const erf = this.op('Erf', [this.op('Mul', [x, this.float(Math.SQRT1_2)])]);
    return this.op('Mul', [this.op('Mul', [x, this.float(0.5)]), this.op('Add', [erf, this.float(1)])]);
  }

  /** x · cos + rotate_half(x) · sin over the last axis of `width`. */
  rotary(x: string, cos: string, sin: string, width: number): string {
    const half = width / 2;
    const [first, second] = [this.slice(x, -1, 0, half), this.slice(x, -1, half, width)];
    const turned = this.op('Concat', [this.op('Neg', [second]), first], { axis: -1 });
    return this.op('Add', [this.op('Mul', [x, cos]), this.op('Mul', [turned, sin])]);
  }
}

/** `TensorProto.DataType`. */
export const DATA_TYPE = { float32: 1, int8: 3, int32: 6, int64: 7, bool: 9, float16: 10 } as const;
export type DataType = keyof typeof DATA_TYPE;
/** Bytes of an element. */
export const DATA_BYTES: Readonly<Record<DataType, number>> = {
  float32: 4,
  int8: 1,
  int32: 4,
  int64: 8,
  bool: 1,
  float16: 2,
};

/** `AttributeProto.AttributeType`. */
export const ATTRIBUTE_TYPE = { float: 1, int: 2, ints: 7 } as const;

/** `TensorProto.DataLocation`. */
export const EXTERNAL = 1;
const IR_VERSION = 9;
const OPSET = 17;
/** Operators of onnxruntime beside those of ONNX, which every build of it has. */
const MICROSOFT = 'com.microsoft';

const field = (id: number, type: string, rule?: 'repeated') => ({ id, type, ...(rule && { rule }) });

/** Messages of `onnx.proto3` that a graph needs. */
const root = protobuf.Root.fromJSON({
  nested: {
    ModelProto: {
      fields: {
        irVersion: field(1, 'int64'),
        producerName: field(2, 'string'),
        producerVersion: field(3, 'string'),
        graph: field(7, 'GraphProto'),
        opsetImport: field(8, 'OperatorSetIdProto', 'repeated'),
      },
    },
    OperatorSetIdProto: { fields: { domain: field(1, 'string'), version: field(2, 'int64') } },
    GraphProto: {
      fields: {
        node: field(1, 'NodeProto', 'repeated'),
        name: field(2, 'string'),
        initializer: field(5, 'TensorProto', 'repeated'),
        input: field(11, 'ValueInfoProto', 'repeated'),
        output: field(12, 'ValueInfoProto', 'repeated'),
      },
    },
    NodeProto: {
      fields: {
        input: field(1, 'string', 'repeated'),
        output: field(2, 'string', 'repeated'),
        name: field(3, 'string'),
        opType: field(4, 'string'),
        attribute: field(5, 'AttributeProto', 'repeated'),
        domain: field(7, 'string'),
      },
    },
    AttributeProto: {
      fields: {
        name: field(1, 'string'),
        f: field(2, 'float'),
        i: field(3, 'int64'),
        ints: field(8, 'int64', 'repeated'),
        type: field(20, 'int32'),
      },
    },
    TensorProto: {
      fields: {
        dims: field(1, 'int64', 'repeated'),
        dataType: field(2, 'int32'),
        name: field(8, 'string'),
        rawData: field(9, 'bytes'),
        externalData: field(13, 'StringStringEntryProto', 'repeated'),
        dataLocation: field(14, 'int32'),
      },
    },
    StringStringEntryProto: { fields: { key: field(1, 'string'), value: field(2, 'string') } },
    ValueInfoProto: { fields: { name: field(1, 'string'), type: field(2, 'TypeProto') } },
    TypeProto: { fields: { tensorType: field(1, 'TensorTypeProto') } },
    TensorTypeProto: { fields: { elemType: field(1, 'int32'), shape: field(2, 'TensorShapeProto') } },
    TensorShapeProto: { fields: { dim: field(1, 'DimensionProto', 'repeated') } },
    DimensionProto: { fields: { dimValue: field(1, 'int64'), dimParam: field(2, 'string') } },
  },
});

interface AttributeMessage {
  readonly name: string;
  readonly type: number;
  readonly f?: number;
  readonly i?: number;
  readonly ints?: readonly number[];
}

export interface NodeMessage {
  readonly opType: string;
  readonly name: string;
  readonly input: readonly string[];
  readonly output: readonly string[];
  readonly attribute: readonly AttributeMessage[];
  /** Domain of the operator. Default: ONNX itself. */
  readonly domain?: string;
}

export interface TensorMessage {
  readonly name: string;
  readonly dims: readonly number[];
  readonly dataType: number;
  readonly rawData?: Uint8Array;
  readonly dataLocation?: number;
  readonly externalData?: readonly { readonly key: string; readonly value: string }[];
}

/** A number, or the name of a size that is not fixed. */
export type Dimension = number | string;

export interface ValueMessage {
  readonly name: string;
  readonly type: {
    readonly tensorType: {
      readonly elemType: number;
      readonly shape: { readonly dim: readonly ({ dimValue: number } | { dimParam: string })[] };
    };
  };
}

export const valueMessage = (name: string, type: DataType, shape: readonly Dimension[]): ValueMessage => ({
  name,
  type: {
    tensorType: {
      elemType: DATA_TYPE[type],
      shape: {
        dim: shape.map((size) => (typeof size === 'number' ? { dimValue: size } : { dimParam: size })),
      },
    },
  },
});

interface GraphMessage {
  readonly name: string;
  readonly node: readonly NodeMessage[];
  readonly initializer: readonly TensorMessage[];
  readonly input: readonly ValueMessage[];
  readonly output: readonly ValueMessage[];
}

/** Message type of a model file. */
export const MODEL = root.lookupType('ModelProto');

/** Encodes a model file. */
export function encodeModel(graph: GraphMessage, version: string): Uint8Array {
  return MODEL.encode(
    MODEL.fromObject({
      irVersion: IR_VERSION,
      producerName: 'timeseer',
      producerVersion: version,
      opsetImport: [
        { domain: '', version: OPSET },
        ...(graph.node.some(({ domain }) => domain === MICROSOFT) ? [{ domain: MICROSOFT, version: 1 }] : []),
      ],
      graph,
    }),
  ).finish();
}
