/**
 * The messages of ONNX that a graph of ours consists of, with the field numbers of `onnx.proto3` (ONNX 1.17, IR version 9); protobufjs
 * encodes and decodes them.
 */
import protobuf from 'protobufjs';

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
export const ATTRIBUTE_TYPE = { float: 1, int: 2, string: 3, tensor: 4, floats: 6, ints: 7 } as const;

/** `TensorProto.DataLocation`. */
export const EXTERNAL = 1;
export const IR_VERSION = 9;
export const OPSET = 17;
/** Operators of onnxruntime beside those of ONNX, which every build of it has. */
export const MICROSOFT = 'com.microsoft';

const field = (id: number, type: string, rule?: 'repeated') => ({
  id,
  type,
  ...(rule === undefined ? {} : { rule }),
});

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
        s: field(4, 'bytes'),
        floats: field(7, 'float', 'repeated'),
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

export interface AttributeMessage {
  readonly name: string;
  readonly type: number;
  readonly f?: number;
  readonly i?: number;
  readonly s?: Uint8Array;
  readonly floats?: readonly number[];
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
      shape: { dim: shape.map((one) => (typeof one === 'number' ? { dimValue: one } : { dimParam: one })) },
    },
  },
});

export interface GraphMessage {
  readonly name: string;
  readonly node: readonly NodeMessage[];
  readonly initializer: readonly TensorMessage[];
  readonly input: readonly ValueMessage[];
  readonly output: readonly ValueMessage[];
}

/** The bytes of a model file. */
export function encodeModel(graph: GraphMessage, version: string): Uint8Array {
  const type = root.lookupType('ModelProto');
  return type
    .encode(
      type.fromObject({
        irVersion: IR_VERSION,
        producerName: 'timeseer',
        producerVersion: version,
        opsetImport: [
          { domain: '', version: OPSET },
          ...(graph.node.some(({ domain }) => domain === MICROSOFT)
            ? [{ domain: MICROSOFT, version: 1 }]
            : []),
        ],
        graph,
      }),
    )
    .finish();
}

/** A model file, read. */
export interface DecodedModel {
  readonly nodes: readonly NodeMessage[];
  readonly initializers: readonly {
    readonly name: string;
    readonly dims: readonly number[];
    readonly dataType: number;
    readonly rawData: Uint8Array;
    readonly external: Readonly<Record<string, string>> | null;
  }[];
  readonly inputs: { readonly name: string; readonly shape: readonly Dimension[] }[];
  readonly outputs: { readonly name: string; readonly shape: readonly Dimension[] }[];
  readonly opset: number;
}

/** Parses a model file. @throws Error for bytes that are not a model */
export function decodeModel(bytes: Uint8Array): DecodedModel {
  const type = root.lookupType('ModelProto');
  const { graph, opsetImport = [] } = type.toObject(type.decode(bytes), { longs: Number, arrays: true }) as {
    graph: {
      node: NodeMessage[];
      initializer: TensorMessage[];
      input: ValueMessage[];
      output: ValueMessage[];
    };
    opsetImport?: { domain?: string; version?: number }[];
  };
  const shaped = ({ name, type: { tensorType } }: ValueMessage) => ({
    name,
    shape: tensorType.shape.dim.map((one): Dimension => ('dimParam' in one ? one.dimParam : one.dimValue)),
  });
  return {
    nodes: graph.node,
    initializers: graph.initializer.map(
      ({ name, dims, dataType, rawData = new Uint8Array(), externalData = [] }) => ({
        ...{ name, dims, dataType, rawData },
        external:
          externalData.length === 0
            ? null
            : Object.fromEntries(externalData.map(({ key, value }) => [key, value])),
      }),
    ),
    inputs: graph.input.map(shaped),
    outputs: graph.output.map(shaped),
    opset: opsetImport.find(({ domain = '' }) => domain === '')?.version ?? 0,
  };
}
