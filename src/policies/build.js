/** Makes the graphs of the policies that ship from their weights, and puts both into dist/policies: run by `npm run build`. */
import { cpSync, mkdtempSync, readdirSync, rmSync, statSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { MANIFEST_FILE, writeManifestedDirectory } from '../../dist/src/ground/manifest.js';
import { policiesDirectory } from '../../dist/src/ground/paths.js';
import { WEIGHTS } from '../../dist/src/policy/safetensors.js';
import { exportPolicy } from '../../dist/src/run/run-policy.js';

const SOURCES = import.meta.dirname;
const isPolicy = (name) => statSync(join(SOURCES, name)).isDirectory();
const work = mkdtempSync(join(tmpdir(), 'timeseer-policies-'));
try {
  for (const name of readdirSync(SOURCES).filter(isPolicy)) {
    const policy = join(SOURCES, name);
    const exported = join(work, name);
    exportPolicy({ policy, out: exported, dtype: ['float16'], quiet: true });
    rmSync(join(exported, MANIFEST_FILE));
    cpSync(join(policy, WEIGHTS), join(exported, WEIGHTS));
    writeManifestedDirectory(join(policiesDirectory(), name), (temporary) => {
      cpSync(exported, temporary, { recursive: true });
    });
  }
} finally {
  rmSync(work, { recursive: true, force: true });
}
