/** Changes to prepared data sets that their manifests know of, as a careless hand or program makes them. */
import { createHash } from 'node:crypto';
import { readFileSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import type { Split } from '../../datasets/split.ts';

interface LooseManifest {
  splits: Record<string, { bytes: number; sha256: string; [key: string]: unknown }>;
  [key: string]: unknown;
}

/** Changes the manifest. */
export function editManifest(directory: string, change: (manifest: LooseManifest) => void): void {
  const file = join(directory, 'manifest.json');
  const manifest = JSON.parse(readFileSync(file, 'utf8')) as LooseManifest;
  change(manifest);
  writeFileSync(file, `${JSON.stringify(manifest, null, 2)}\n`);
}

/** Changes line `number` (from 1) of a split, and has the manifest say so. */
export function editLine(
  directory: string,
  split: Split,
  number: number,
  change: (record: Record<string, unknown>) => void,
): void {
  const file = join(directory, `${split}.jsonl`);
  const lines = readFileSync(file, 'utf8').split('\n');
  const record = JSON.parse(lines[number - 1]!) as Record<string, unknown>;
  change(record);
  lines[number - 1] = JSON.stringify(record);
  const text = lines.join('\n');
  writeFileSync(file, text);
  editManifest(directory, ({ splits }) => {
    splits[split]!.bytes = Buffer.byteLength(text);
    splits[split]!.sha256 = createHash('sha256').update(text).digest('hex');
  });
}
