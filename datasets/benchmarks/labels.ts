/** Labels of files as the classes that rewards compare. */
import { DataError } from '../../src/errors.ts';
import type { RawRecord } from '../readers/record.ts';

/** `2`, `2.0` and ` 2` are one label; case, blanks, `-` and `_` do not tell labels apart. */
function plain(label: string): string {
  const number = Number(label);
  return label.trim() !== '' && Number.isFinite(number)
    ? String(number)
    : label.toLowerCase().replaceAll(/[\s_-]+/g, '');
}

/**
 * What reads the class of a record.
 *
 * @param classes class by label, in the order of prompts; a class is a label of itself
 * @returns a function that throws DataError for a record without a label, or with another one
 */
export function labelReader(
  classes: Readonly<Record<string, string>>,
): (label: string | null, record: Pick<RawRecord, 'id' | 'file'>) => string {
  const known = new Map<string, string>();
  for (const [label, name] of Object.entries(classes)) {
    known.set(plain(label), name);
    known.set(plain(name), name);
  }
  return (label, { id, file }) => {
    const name = label === null ? undefined : known.get(plain(label));
    if (name !== undefined) return name;
    const what = label === null ? 'no label' : `the unknown label ${JSON.stringify(label.slice(0, 40))}`;
    const expected = Object.entries(classes).map(([key, value]) =>
      key === value ? key : `${key} (${value})`,
    );
    throw new DataError(`${id}: ${what}; known labels: ${expected.join(', ')}`, { file: file.path });
  };
}

/** Classes in the order of the labels, each once. */
export function classesOf(labels: Readonly<Record<string, string>>): string[] {
  return [...new Set(Object.values(labels))];
}
