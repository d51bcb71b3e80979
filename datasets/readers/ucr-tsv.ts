/** `.tsv` files of the UCR archive (2018), and its older comma or blank separated ones: label first, then values. */
import { DataError } from '../../src/ground/errors.ts';
import { Column, NUMBER, type RawRecord, rawRecord, stem } from './record.ts';
import { COMMAS, END, LINE, type Scanner, scanning, stopsAt, WORDS } from './scanner.ts';

const TABS = stopsAt('\t');

/** Detects the separator in the first bytes of a line: tab, else comma, else blanks. */
function detect(head: string): Uint8Array {
  if (head.includes('\t')) return TABS;
  return head.includes(',') ? COMMAS : WORDS;
}

/**
 * Reads the series of a UCR file in the order of its lines; ids are `name/index` from 0.
 *
 * The separator is the tab, else the comma, else blanks, whichever occurs in the first line. Tolerated: a
 * byte-order mark; blank lines; lines of unequal lengths; `NaN`, `?` and empty fields, which are missing values
 * (NaN). The archive fills short series with NaN at the end: they stay as they are here (`data prepare custom` leaves them out). A label written with an exponent, `1.0000000e+00`, is
 * that number, `1`.
 * @throws DataError with line and column for content of another form; for a file without series
 */
export function readUcrTsv(path: string): Generator<RawRecord> {
  return scanning(path, readSeries);
}

function* readSeries(scanner: Scanner): Generator<RawRecord> {
  const { path } = scanner;
  const name = stem(path);
  const values = new Column();
  let stops: Uint8Array | null = null;
  for (let index = 0; ; ) {
    const code = scanner.peek(false);
    if (code === END) break;
    if (code === LINE) {
      scanner.skip();
      continue;
    }
    stops ??= detect(scanner.ahead());
    let stop = scanner.next(stops);
    const text = scanner.unquoted();
    const label = /e/i.test(text) && NUMBER.test(text) ? String(Number(text)) : text;
    if (stop === LINE || stop === END) {
      if (label === '') continue;
      throw scanner.fail('a label without values');
    }
    if (label === '' || /^nan$/i.test(label)) throw scanner.fail('a missing label; the label stands first');
    do {
      stop = scanner.next(stops);
      const ends = stop === LINE || stop === END;
      if (!(ends && scanner.empty)) values.push(scanner.number()); // a separator may end the line
    } while (stop !== LINE && stop !== END);
    if (values.length === 0) throw scanner.fail('a label without values');
    yield rawRecord(path, `${name}/${index++}`, [values.take()], { label });
  }
  if (stops === null) throw new DataError('empty; expected lines of a label and values', { file: path });
}
