/** Stored tensors as they stand in a model file: float32, float16, or 8 bits a weight with a scale for each row; read and converted in pieces. */
import { closeSync } from 'node:fs';
import { CheckpointError } from '../ground/errors.ts';
import { openRegular } from '../ground/files.ts';
import { fromHalf, halfOf } from '../ground/half.ts';
import { elements, readAt, STORED_BYTES, type StoredTensor } from '../policy/safetensors.ts';
import type { DataType } from './graph.ts';

export const WEIGHT_TYPES = ['float32', 'float16', 'int8'] as const;
export type WeightType = (typeof WEIGHT_TYPES)[number];
/** End of a model file's name by the type of its weights, as transformers.js looks for it. */
export const SUFFIX: Readonly<Record<WeightType, string>> = { float32: '', float16: '_fp16', int8: '_int8' };

/** Elements that are converted at once. */
const PIECE = 1 << 20;

const bits = new DataView(new ArrayBuffer(4));

function float32Of(bytes: Uint8Array, dtype: StoredTensor['dtype'], count: number): Float32Array {
  const view = new DataView(bytes.buffer, bytes.byteOffset, bytes.byteLength);
  const out = new Float32Array(count);
  for (let i = 0; i < count; i++) {
    if (dtype === 'F32') out[i] = view.getFloat32(4 * i, true);
    else if (dtype === 'F64') out[i] = view.getFloat64(8 * i, true);
    else if (dtype === 'F16') out[i] = fromHalf(view.getUint16(2 * i, true));
    else {
      bits.setUint32(0, view.getUint16(2 * i, true) << 16);
      out[i] = bits.getFloat32(0);
    }
  }
  return out;
}

/** Values of a tensor in pieces of whole rows of `row` elements. @throws CheckpointError for values that are not finite */
export function* pieces(
  { file, name, offset, shape, dtype }: StoredTensor,
  row = 1,
): Generator<Float32Array> {
  const total = elements(shape);
  const step = row * Math.max(1, Math.floor(PIECE / row));
  const size = STORED_BYTES[dtype];
  const { handle } = openRegular(file);
  try {
    for (let at = 0; at < total; at += step) {
      const count = Math.min(step, total - at);
      const values = float32Of(readAt(handle, file, offset + at * size, count * size), dtype, count);
      if (!values.every(Number.isFinite)) {
        throw new CheckpointError(`${file}: tensor ${name} holds NaN or Infinity; take another checkpoint`);
      }
      yield values;
    }
  } finally {
    closeSync(handle);
  }
}

const bytesOf = (view: ArrayBufferView): Uint8Array =>
  new Uint8Array(view.buffer, view.byteOffset, view.byteLength);

/** Initialisers written for a stored tensor: one tensor, or values and scales. */
export interface PackedTensor {
  readonly type: DataType;
  readonly shape: readonly number[];
  readonly bytes: () => Iterable<Uint8Array>;
}

/** Largest magnitude of each row over 127; 1 for a row of zeros. */
function rowScales(tensor: StoredTensor, rows: number): Float32Array {
  const width = elements(tensor.shape) / rows;
  const scales = new Float32Array(rows);
  let row = 0;
  for (const values of pieces(tensor, width)) {
    for (let at = 0; at < values.length; at += width, row++) {
      let most = 0;
      for (let i = at; i < at + width; i++) most = Math.max(most, Math.abs(values[i]!));
      scales[row] = most === 0 ? 1 : most / 127;
    }
  }
  return scales;
}

/** Makes a function that packs tensors as floats; `convert` turns float32 values into that type. */
const asFloats =
  (type: 'float32' | 'float16', convert: (values: Float32Array) => ArrayBufferView) =>
  (tensor: StoredTensor, shape: readonly number[]): PackedTensor => ({
    ...{ type, shape },
    *bytes() {
      for (const values of pieces(tensor)) yield bytesOf(convert(values));
    },
  });
export const asFloat32 = asFloats('float32', (values) => values);
export const asFloat16 = asFloats('float16', (values) => Uint16Array.from(values, halfOf));

/** A matrix [rows, columns] as whole numbers from −127 to 127, and the scale of each row [rows, 1]. */
export function asInt8(
  tensor: StoredTensor,
  [rows = 1, columns = 1]: readonly number[],
): { readonly values: PackedTensor; readonly scales: PackedTensor } {
  let known: Float32Array | undefined;
  const scales = (): Float32Array => {
    known ??= rowScales(tensor, rows);
    return known;
  };
  return {
    values: {
      ...{ type: 'int8', shape: [rows, columns] },
      *bytes() {
        let row = 0;
        for (const values of pieces(tensor, columns)) {
          const out = new Int8Array(values.length);
          for (let at = 0; at < values.length; at += columns, row++) {
            const scale = scales()[row]!;
            for (let i = at; i < at + columns; i++) out[i] = Math.round(values[i]! / scale);
          }
          yield bytesOf(out);
        }
      },
    },
    scales: {
      ...{ type: 'float32', shape: [rows, 1] },
      *bytes() {
        yield bytesOf(scales());
      },
    },
  };
}
