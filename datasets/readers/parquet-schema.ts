/** Columns of a Parquet file that hold numbers or text, flat or in lists of one level. */
import { type FileMetaData, parquetSchema, type SchemaElement, type SchemaTree } from 'hyparquet';
import type { Leaf } from './parquet-column.ts';
import type { Stored } from './parquet-values.ts';

/** A top-level column that can be read. */
export interface ParquetColumn {
  readonly name: string;
  readonly path: string;
  readonly leaf: Leaf;
  readonly convert: ((value: number) => number) | null;
  readonly instant: boolean;
}

const UNITS: Readonly<Record<string, number>> = { MILLIS: 1e3, MICROS: 1e6, NANOS: 1e9 };

/** How a leaf is stored and what its numbers mean; null for what is neither a number nor a text. */
function storedAs(
  element: SchemaElement,
): { stored: Stored; convert: ((value: number) => number) | null; instant: boolean } | null {
  const { type, converted_type: old, logical_type: logical } = element;
  const number = (stored: Stored, divisor = 1, instant = false) => ({
    stored,
    convert: divisor === 1 ? null : (value: number): number => value / divisor,
    instant,
  });
  if (type === 'BYTE_ARRAY') {
    return old === 'DECIMAL' || logical?.type === 'DECIMAL' ? null : number('TEXT');
  }
  if (type === 'BOOLEAN' || type === 'FLOAT' || type === 'DOUBLE') return number(type);
  if (type !== 'INT32' && type !== 'INT64') return null;
  if (logical?.type === 'TIMESTAMP') return number(type, UNITS[logical.unit] ?? 1, true);
  if (old === 'TIMESTAMP_MILLIS') return number(type, 1e3, true);
  if (old === 'TIMESTAMP_MICROS') return number(type, 1e6, true);
  if (old === 'DATE' || logical?.type === 'DATE') {
    return { stored: type, convert: (days) => days * 86400, instant: true };
  }
  if (old === 'DECIMAL' || logical?.type === 'DECIMAL') return number(type, 10 ** (element.scale ?? 0));
  if (logical?.type === 'INTEGER' ? !logical.isSigned : old?.startsWith('UINT_')) {
    return number(type === 'INT32' ? 'UINT32' : 'UINT64');
  }
  return number(type);
}

/** A top-level column as a flat one or a list of one level; null for structures, maps and lists of lists. */
function readable(top: SchemaTree): ParquetColumn | null {
  let node = top;
  let definition = 0;
  let repetition = 0;
  let elementDefinition = 0;
  for (;;) {
    const kind = node.element.repetition_type;
    if (kind !== 'REQUIRED') definition++;
    if (kind === 'REPEATED') {
      repetition++;
      elementDefinition = definition;
    }
    if (node.children.length === 0) break;
    if (node.children.length > 1) return null;
    node = node.children[0]!;
  }
  if (typeof top.element.name !== 'string') throw new TypeError('a column without a name');
  const stored = storedAs(node.element);
  if (stored === null || repetition > 1 || (repetition === 0 && node !== top)) return null;
  return {
    name: top.element.name,
    path: node.path.join('.'),
    leaf: {
      stored: stored.stored,
      maximumDefinition: definition,
      maximumRepetition: repetition === 1 ? 1 : 0,
      elementDefinition,
    },
    convert: stored.convert,
    instant: stored.instant,
  };
}

/** All top-level columns that can be read, in the file's order. @throws Error for a schema that is none */
export function readableColumns(footer: FileMetaData): ParquetColumn[] {
  return parquetSchema(footer)
    .children.map(readable)
    .filter((column) => column !== null);
}
