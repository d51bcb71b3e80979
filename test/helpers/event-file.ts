/** Reads TensorBoard event files without the program's own encoder: checksums, framing and the fields that it uses. */
import { readFileSync } from 'node:fs';

/** Bit by bit, as the polynomial has it. */
function crc32c(data: Uint8Array): number {
  let crc = 0xffffffff;
  for (const byte of data) {
    for (let bit = 0; bit < 8; bit++) crc = ((crc ^ (byte >> bit)) & 1 ? 0x82f63b78 : 0) ^ (crc >>> 1);
  }
  return ~crc >>> 0;
}

function unmasked(value: number): number {
  const rotated = (value - 0xa282ead8) >>> 0;
  return ((rotated << 15) | (rotated >>> 17)) >>> 0;
}

type Field = readonly [number: number, value: number | Buffer];

/** The fields of a message; numbers for all but length-delimited ones. */
function fields(message: Buffer): Field[] {
  const found: Field[] = [];
  let at = 0;
  const varint = (): number => {
    let value = 0;
    for (let shift = 1; ; shift *= 128) {
      const byte = message[at++]!;
      value += (byte & 127) * shift;
      if (byte < 128) return value;
    }
  };
  while (at < message.length) {
    const tag = varint();
    const [number, wire] = [tag >> 3, tag & 7];
    if (wire === 0) found.push([number, varint()]);
    else {
      const length = wire === 1 ? 8 : wire === 5 ? 4 : varint();
      const content = message.subarray(at, at + length);
      at += length;
      const value = wire === 1 ? content.readDoubleLE() : wire === 5 ? content.readFloatLE() : content;
      found.push([number, value]);
    }
  }
  return found;
}

export interface FoundEvent {
  readonly time: number;
  readonly step: number;
  /** Null of an event that is no summary. */
  readonly scalars: Readonly<Record<string, number>> | null;
}

/** The events of a file. @throws Error for a wrong checksum or a record that is cut */
export function readEvents(file: string): FoundEvent[] {
  const bytes = readFileSync(file);
  const events: FoundEvent[] = [];
  for (let at = 0; at < bytes.length; ) {
    const length = Number(bytes.readBigUInt64LE(at));
    const data = bytes.subarray(at + 12, at + 12 + length);
    for (const [part, sum] of [
      [bytes.subarray(at, at + 8), at + 8],
      [data, at + 12 + length],
    ] as const) {
      if (crc32c(part) !== unmasked(bytes.readUInt32LE(sum))) throw new Error(`${file}: checksum at ${sum}`);
    }
    const message = new Map(fields(data));
    const summary = message.get(5) as Buffer | undefined;
    const scalars = (summary === undefined ? [] : fields(summary)).map(([, value]) => {
      const one = new Map(fields(value as Buffer));
      return [String(one.get(1)), one.get(2) as number] as const;
    });
    events.push({
      time: (message.get(1) ?? 0) as number,
      step: (message.get(2) ?? 0) as number,
      scalars: summary === undefined ? null : Object.fromEntries(scalars),
    });
    at += 12 + length + 4;
  }
  return events;
}
