/** All tasks by name, in the order of lists. */
import { ConfigError } from '../../src/errors.ts';
import { suggestion } from '../../src/suggest.ts';
import { anomllmAll, anomllmKinds } from './anomllm.ts';
import type { TaskSpec } from './benchmark.ts';
import { ctu } from './ctu.ts';
import { custom } from './custom.ts';
import { ecg } from './ecg.ts';
import { emg } from './emg.ts';
import { har } from './har.ts';
import { nab } from './nab.ts';
import { nano5Task } from './nano5.ts';
import { rcw } from './rcw.ts';
import { tab } from './tab.ts';
import { tee } from './tee.ts';
import { tsbAd } from './tsb-ad.ts';
import { tsbUad } from './tsb-uad.ts';
import { vtaMissing, vtaUnivariate, vtaVariates } from './vta.ts';

export const TASKS: readonly TaskSpec[] = [
  ...[rcw, tee, ecg, emg, ctu, har],
  ...[nano5Task, anomllmAll, ...anomllmKinds],
  ...[vtaUnivariate, vtaMissing, vtaVariates],
  ...[tsbUad, tsbAd, tab, nab],
  custom,
];

/** A task by its name, in any case. @throws ConfigError with the known names and the closest */
export function taskNamed(name: string): TaskSpec {
  const wanted = name.toLowerCase();
  const task = TASKS.find((one) => one.name === wanted);
  if (task !== undefined) return task;
  const names = TASKS.map((one) => one.name);
  throw new ConfigError(
    `no task named '${name}'.${suggestion(name, names)} Known: ${names.join(', ')}; your own files: custom`,
  );
}
