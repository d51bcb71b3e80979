/** Safetensors files of raw bytes, written without the code under test. */
import { writeFileSync } from 'node:fs';

export interface Entry {
  dtype: string;
  shape: number[];
  bytes: Buffer;
}

/** A file of this header, given as text, and these data. */
export function craftText(file: string, header: string, data: Buffer): void {
  const json = Buffer.from(header);
  const length = Buffer.alloc(8);
  length.writeUInt32LE(json.length);
  writeFileSync(file, Buffer.concat([length, json, data]));
}

export function craft(file: string, entries: Record<string, Entry>): void {
  const header: Record<string, unknown> = {};
  let offset = 0;
  for (const [name, { dtype, shape, bytes }] of Object.entries(entries)) {
    header[name] = { dtype, shape, data_offsets: [offset, offset + bytes.length] };
    offset += bytes.length;
  }
  craftText(file, JSON.stringify(header), Buffer.concat(Object.values(entries).map(({ bytes }) => bytes)));
}

export function floats(values: number[]): Buffer {
  return Buffer.from(Float32Array.from(values).buffer);
}

/** The upper halves of float32 values that bfloat16 holds exactly. */
export function brains(values: ArrayLike<number>): Buffer {
  const words = new Uint16Array(Float32Array.from(values).buffer).filter((_, i) => i % 2 === 1);
  return Buffer.from(words.buffer);
}
