/** Export of a trained policy for other runtimes. */
import { existsSync } from 'node:fs';
import { join } from 'node:path';
import { findPolicy } from '../answer/reference.ts';
import { CONFIDENCE_FILE } from '../explain/confidence.ts';
import { readUtf8 } from '../ground/files.ts';
import { packageVersion } from '../ground/paths.ts';
import { say } from '../ground/terminal.ts';
import { type Exported, exportOnnx } from '../onnx/export.ts';
import type { WeightType } from '../onnx/weights.ts';
import { CARD_FILE } from '../tasks/card.ts';
import { REFERENCE_FILE } from '../tasks/reference.ts';

export interface ExportRequest {
  /** Directory of a policy, or of a run. */
  readonly policy: string;
  readonly out: string;
  /** Storage types of the matrices. */
  readonly dtype: readonly WeightType[];
  readonly quiet: boolean;
}

/** Writes a policy as ONNX with its card, reference and confidence. @returns the source directory and the files written @throws as `findPolicy` and `exportOnnx` */
export function exportPolicy({
  policy,
  out,
  dtype,
  quiet,
}: ExportRequest): Exported & { readonly from: string } {
  const from = findPolicy(policy);
  const beside = [CARD_FILE, REFERENCE_FILE, CONFIDENCE_FILE].filter((name) => existsSync(join(from, name)));
  const written = exportOnnx(from, out, {
    types: [...new Set(dtype)],
    version: packageVersion(),
    files: Object.fromEntries(beside.map((name) => [name, readUtf8(join(from, name))])),
    ...(quiet ? {} : { onFile: (name) => say(`writing ${name}`) }),
  });
  return { from, ...written };
}
