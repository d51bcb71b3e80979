/** NumPy arrays and zip archives byte by byte, with what is to be wrong about them. */
import { crc32, deflateRawSync } from 'node:zlib';

/** An `.npy` file of version 1 with this header text and these bytes. */
export function npy(header: string, data: Uint8Array = Buffer.alloc(0)): Buffer {
  const head = Buffer.alloc(10);
  head.write('\x93NUMPY\x01\x00', 'latin1');
  head.writeUInt16LE(header.length, 8);
  return Buffer.concat([head, Buffer.from(header, 'latin1'), data]);
}

/** The header of a C-ordered array. */
export const dict = (descr: string, shape: string, fortran = 'False'): string =>
  `{'descr': ${descr}, 'fortran_order': ${fortran}, 'shape': (${shape}), }\n`;

export interface ZipChanges {
  readonly method?: number;
  readonly flags?: number;
  readonly crc?: number;
  /** Size before packing, as the directory states it. */
  readonly unpacked?: number;
  /** Puts sizes, offset and directory into zip64 fields. */
  readonly zip64?: boolean;
}

/** A zip archive of one entry whose bytes are `packed`. */
export function zip(name: string, packed: Buffer, content: Buffer, changes: ZipChanges = {}): Buffer {
  const { method = 0, flags = 0, crc = crc32(content), unpacked = content.length, zip64 = false } = changes;
  const wide = 0xffffffff;
  const local = Buffer.alloc(30);
  local.writeUInt32LE(0x04034b50, 0);
  local.writeUInt16LE(name.length, 26);
  const extra = Buffer.alloc(zip64 ? 28 : 0);
  if (zip64) {
    extra.writeUInt16LE(1, 0);
    extra.writeUInt16LE(24, 2);
    extra.writeBigUInt64LE(BigInt(unpacked), 4);
    extra.writeBigUInt64LE(BigInt(packed.length), 12);
    extra.writeBigUInt64LE(0n, 20);
  }
  const central = Buffer.alloc(46);
  central.writeUInt32LE(0x02014b50, 0);
  central.writeUInt16LE(flags, 8);
  central.writeUInt16LE(method, 10);
  central.writeUInt32LE(crc, 16);
  central.writeUInt32LE(zip64 ? wide : packed.length, 20);
  central.writeUInt32LE(zip64 ? wide : unpacked, 24);
  central.writeUInt16LE(name.length, 28);
  central.writeUInt16LE(extra.length, 30);
  central.writeUInt32LE(zip64 ? wide : 0, 42);
  const offset = 30 + name.length + packed.length;
  const size = 46 + name.length + extra.length;
  const end = Buffer.alloc(22);
  end.writeUInt32LE(0x06054b50, 0);
  end.writeUInt16LE(zip64 ? 0xffff : 1, 10);
  end.writeUInt32LE(zip64 ? wide : size, 12);
  end.writeUInt32LE(zip64 ? wide : offset, 16);
  const record = Buffer.alloc(zip64 ? 76 : 0);
  if (zip64) {
    record.writeUInt32LE(0x06064b50, 0);
    record.writeBigUInt64LE(1n, 32);
    record.writeBigUInt64LE(BigInt(size), 40);
    record.writeBigUInt64LE(BigInt(offset), 48);
    record.writeUInt32LE(0x07064b50, 56);
    record.writeBigUInt64LE(BigInt(offset + size), 64);
  }
  return Buffer.concat([local, Buffer.from(name), packed, central, Buffer.from(name), extra, record, end]);
}

/** A zip archive of several entries, deflated. */
export function zipOf(entries: readonly (readonly [name: string, content: Buffer])[]): Buffer {
  const parts: Buffer[] = [];
  const directory: Buffer[] = [];
  let offset = 0;
  for (const [name, content] of entries) {
    const packed = deflateRawSync(content);
    const whole = zip(name, packed, content, { method: 8 });
    const local = 30 + name.length + packed.length;
    parts.push(whole.subarray(0, local));
    const central = Buffer.from(whole.subarray(local, local + 46 + name.length));
    central.writeUInt32LE(offset, 42);
    directory.push(central);
    offset += local;
  }
  const listing = Buffer.concat(directory);
  const end = Buffer.alloc(22);
  end.writeUInt32LE(0x06054b50, 0);
  end.writeUInt16LE(entries.length, 10);
  end.writeUInt32LE(listing.length, 12);
  end.writeUInt32LE(offset, 16);
  return Buffer.concat([...parts, listing, end]);
}
