/** `.out` files of TSB-UAD: `value,label` per line, no header; label 1 is an anomalous point. */
import { DataError } from '../../src/ground/errors.ts';
import { Column, fileFacts, pointLabel, type RawRecord, rawRecord, stem } from './record.ts';
import { COMMAS, END, LINE, type Scanner, scanning } from './scanner.ts';

const COMMA = 44;
/** The anomaly archive of UCR states the training length, and where its one anomaly begins and ends, in the name. */
const UCR_NAME = /^(\d+)_UCR_Anomaly_(.+)_(\d+)_(\d+)_(\d+)(?:\.(?:txt|out|csv))*$/i;

/**
 * Reads the one series of a `.out` file; its id is the file's name.
 *
 * `train` is stated only by names of the UCR anomaly archive (`ID_UCR_Anomaly_NAME_TRAIN_BEGIN_END`), with the
 * anomaly's begin and end. Tolerated: a byte-order mark; blank lines at the end; missing values (NaN).
 *
 * @throws DataError with line and column for a line that is not two fields, text, infinities, a label other than 0
 * and 1, a blank line inside; for an empty file, and a training length that the series does not have
 */
export function readTsbUad(path: string): Generator<RawRecord> {
  return scanning(path, readSeries);
}

function* readSeries(scanner: Scanner): Generator<RawRecord> {
  const { path } = scanner;
  const name = stem(path);
  const match = UCR_NAME.exec(name);
  const stated: Record<string, string> =
    match === null
      ? {}
      : { id: match[1]!, name: match[2]!, train: match[3]!, begin: match[4]!, end: match[5]! };
  const values = new Column();
  const labels = new Column();
  for (;;) {
    const stop = scanner.next(COMMAS);
    if (stop !== COMMA) {
      if (stop === END && scanner.empty) break;
      if (!scanner.empty) throw scanner.fail('one field; expected value,label');
      const { place } = scanner;
      while (scanner.peek() === LINE) scanner.skip();
      if (scanner.peek() !== END) throw new DataError('blank line inside the data', place);
      break;
    }
    values.push(scanner.number());
    const end = scanner.next(COMMAS);
    if (end === COMMA) throw scanner.fail('more than two fields; expected value,label');
    labels.push(pointLabel(scanner));
    if (end === END) break;
  }
  if (values.length === 0) throw new DataError('empty; expected lines of value,label', { file: path });
  const train = match === null ? null : Number(match[3]);
  if (train !== null && train > values.length) {
    throw new DataError(`the name states ${train} points of training, the file has ${values.length}`, {
      file: path,
    });
  }
  yield rawRecord(fileFacts(path, 'tsb-uad', { stated }), name, [values.take()], {
    channelNames: ['value'],
    anomalies: Uint8Array.from(labels.take()),
    train,
  });
}
