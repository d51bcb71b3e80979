/** The short trace of an example of any kind of answer. */
import type { Example } from '../types.ts';
import { analyseWithGaps, teacherAnomaly } from './anomaly.ts';
import type { ClassProfile } from './class-profile.ts';
import { ClassEvidence } from './class-trace.ts';
import { analyse } from './evidence.ts';
import { needProfile } from './expert.ts';
import { type NanoOptions, nanoTeacher, nanoVariatesTeacher } from './nano.ts';
import { nanoClassTeacher } from './nano-class.ts';
import { analyseVariates } from './variates.ts';

/** More classes than these are told apart by more features. */
const FEW_CLASSES = 3;

/**
 * The short target of a training example. Where the data do not name the kind of an anomaly, or it has several channels, the kind and the
 * channel are those of the full trace.
 * @param profile what was learned from the training split; needed for classification alone
 * @throws as `expertTrace`
 */
export function nanoTrace(
  { channels, names, gold }: Pick<Example, 'channels' | 'names' | 'gold'>,
  profile: ClassProfile | null,
  options: NanoOptions = {},
): string {
  if (gold.kind === 'classification') {
    const known = needProfile(profile);
    const features = known.classes.length <= FEW_CLASSES ? 3 : 6;
    return nanoClassTeacher(new ClassEvidence(known, channels), gold.class, { ...options, features });
  }
  if (gold.kind === 'variates') return nanoVariatesTeacher(analyseVariates(channels), gold.variates);
  const { intervals } = gold;
  const [only] = channels;
  if (gold.class !== null && channels.length === 1) {
    const whole = !only!.some(Number.isNaN);
    const evidence = whole ? analyse(only!) : analyseWithGaps(only!).evidence;
    return nanoTeacher(evidence, { intervals, class: gold.class }, options);
  }
  const { evidence, class: kind } = teacherAnomaly(channels, names, intervals, gold.class);
  return nanoTeacher(evidence, { intervals, class: kind }, options);
}
