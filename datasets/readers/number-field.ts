/** Number fields that are no plain decimals: missing, quoted, infinite or wrong. */
import { decimal } from './decimal.ts';

const MISSING = /^(?:\?|[+-]?nan|na|n\/a|#n\/a|null|none)?$/i;
const INFINITE = /^[+-]?inf(?:inity)?$/i;

const show = (text: string): string => JSON.stringify(text.length > 40 ? `${text.slice(0, 37)}...` : text);

/** A field of a file: `bytes[from, to)`, and the error to throw where it is wrong. */
export interface Field {
  readonly bytes: Buffer;
  readonly from: number;
  readonly to: number;
  fail(reason: string): Error;
}

/**
 * The number of a field of which `decimal` gave no finite `value`; NaN when it is missing. Quotes around it do not count.
 *
 * @throws what the field's `fail` makes of the reason, for other text and for infinities
 */
export function specialNumber(field: Field, value: number): number {
  const { bytes, from, to } = field;
  const raw = bytes.toString('latin1', from, Math.min(to, from + 64));
  const quoted = /^"(.*)"$/.exec(raw)?.[1]?.trim();
  if (quoted !== undefined && quoted !== '') {
    const own = Buffer.from(quoted, 'latin1');
    const inside = decimal(own, 0, own.length);
    if (Number.isFinite(inside)) return inside;
  }
  const text = quoted ?? raw;
  if (MISSING.test(text)) return Number.NaN;
  if (INFINITE.test(text) || !Number.isNaN(value)) {
    throw field.fail(`${show(text)} is not a finite number; write ? or NaN for a missing value`);
  }
  throw field.fail(`${show(text)} is not a number`);
}
