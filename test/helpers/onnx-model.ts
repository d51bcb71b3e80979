/** Reads ONNX files that the export wrote. */
import {
  type Dimension,
  MODEL,
  type NodeMessage,
  type TensorMessage,
  type ValueMessage,
} from '../../src/onnx/graph.ts';

/** Contents of a model file. */
interface DecodedModel {
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
  const { graph, opsetImport = [] } = MODEL.toObject(MODEL.decode(bytes), {
    longs: Number,
    arrays: true,
  }) as {
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
    shape: tensorType.shape.dim.map(
      (size): Dimension => ('dimParam' in size ? size.dimParam : size.dimValue),
    ),
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
