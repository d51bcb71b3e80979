/** A trained policy for other runtimes. */
import { existsSync } from 'node:fs';
import { join } from 'node:path';
import { readUtf8 } from '../files.ts';
import { type Exported, exportOnnx } from '../onnx/export.ts';
import type { WeightType } from '../onnx/weights.ts';
import { packageVersion } from '../paths.ts';
import { CARD_FILE } from '../tasks/card.ts';
import { say } from '../terminal.ts';
import { findPolicy } from './run-policy.ts';

export interface ExportRequest {
  /** Directory of a policy, or of a run. */
  readonly policy: string;
  readonly out: string;
  /** Of the matrices, one or several. */
  readonly dtype: readonly WeightType[];
  readonly quiet: boolean;
}

/** Writes a policy as ONNX, with its card. @returns where it was read, and what was written @throws as `findPolicy` and `exportOnnx` */
export function exportPolicy({
  policy,
  out,
  dtype,
  quiet,
}: ExportRequest): Exported & { readonly from: string } {
  const from = findPolicy(policy);
  const card = join(from, CARD_FILE);
  const written = exportOnnx(from, out, {
    types: [...new Set(dtype)],
    version: packageVersion(),
    files: existsSync(card) ? { [CARD_FILE]: readUtf8(card) } : {},
    ...(quiet ? {} : { onFile: (name) => say(`writing ${name}`) }),
  });
  return { from, ...written };
}
