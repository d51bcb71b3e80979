/**
 * Evidence for a class told as an expert chain of thought: Observation, Reasoning & Validation, Conclusion, then the class. Every number
 * is a number of the evidence, rounded; a feature is said to speak for a class only where its value is nearer to that class than
 * to the rival. Traces hold no '<' or '>' that could break the tags.
 */
import { DataError } from '../errors.ts';
import { type ClassEvidence, type Comparison, strongest } from './class-evidence.ts';
import { areAxes, PAIR_KIND } from './feature-kinds.ts';
import { MOST_CHANNELS } from './features.ts';
import { classIndex } from './profile-of-classes.ts';
import { counted, formatNumber } from './trace.ts';

/** A trace of a classification and what it concludes. */
export interface ClassTrace {
  /** The whole response: `<think>…</think><class>…</class>`. */
  readonly text: string;
  /** What stands inside the think tags. */
  readonly think: string;
  readonly class: string;
  /** The class it was weighed against. */
  readonly rival: string;
  /** Features cited for the class, strongest first. */
  readonly cited: readonly Comparison[];
  /** Features that are named because they speak for the rival. */
  readonly dissent: readonly Comparison[];
}

/** Features that one trace cites for its class, and against it. */
export const MOST_CITED = 4;
export const MOST_DISSENT = 2;
/** Channels that are described one by one. */
const MOST_DESCRIBED = 4;

/** Three significant digits: two values that read the same must not be said to differ by more than that. */
const say = (value: number): string =>
  formatNumber(Math.abs(value) < 1e-9 ? 0 : Number(value.toPrecision(3)));

function observe(evidence: ClassEvidence): string {
  const { length, channels, profile } = evidence;
  const several = channels.length > 1;
  const sentences = [
    several
      ? `The series has ${channels.length} channels of ${length} samples.`
      : `The series has ${length} samples.`,
  ];
  for (const { name, summary, bridged } of channels.slice(0, MOST_DESCRIBED)) {
    const { min, max, mean, std } = summary;
    const what = several ? name : 'It';
    const moves =
      profile.channels.length > MOST_CHANNELS ? '' : shape(evidence, several ? `${name}.` : '', std);
    // A mean that is rounding beside the spread is none.
    const level = Math.abs(mean) < 1e-6 * std ? 0 : mean;
    sentences.push(
      `${what} lies between ${say(min)} and ${say(max)}, mean ${say(level)}, standard deviation ${say(std)}${moves}.`,
    );
    if (bridged.missing > 0) {
      const gaps = bridged.gaps === 1 ? '1 gap' : `${bridged.gaps} gaps, the longest of ${bridged.longest}`;
      sentences.push(
        `${counted(bridged.missing)} missing${several ? ` of ${name}` : ''} (${gaps}); for the analyses straight lines bridge them.`,
      );
    }
  }
  if (channels.length > MOST_DESCRIBED)
    sentences.push(`${channels.length - MOST_DESCRIBED} more channels follow.`);
  if (several && channels.length <= MOST_DESCRIBED) sentences.push(relations(evidence));
  return sentences.join(' ');
}

function shape(evidence: ClassEvidence, prefix: string, std: number): string {
  if (std === 0) return '';
  const of = (key: string): string => say(evidence.feature(`${prefix}${key}`));
  const line = `; its strongest spectral line, of period ${of('period')}, has ${of('line')} of the power`;
  if (prefix !== '') return line;
  return `${line}; Mann–Kendall tau is ${of('tau')}; it crosses its mean ${of('crossings')} times per 100 samples`;
}

/** How axes share the vector that they make; of channels that make none, which move together. */
function relations(evidence: ClassEvidence): string {
  const names = evidence.channels.map(({ name }) => name);
  const of = (key: string): string => say(evidence.feature(key));
  if (areAxes(names)) {
    const parts = names.map((name) => `${name} ${of(`${name}.tilt`)} and ${of(`${name}.activity`)}`);
    return `Part of the mean vector and share of the movement by axis: ${parts.join(', ')}.`;
  }
  const pairs = names.flatMap((a, i) => {
    return names.slice(i + 1).map((b) => `${a} and ${b} ${of(`${a}~${b}.${PAIR_KIND.key}`)}`);
  });
  return `Correlation between the channels: ${pairs.join(', ')}.`;
}

/** What one feature says, and for which class. */
function cite({ says, value, one, other }: Comparison, name: string, rival: string): string {
  return `the ${says} is ${say(value)}, where ${name} has ${say(one)} and ${rival} ${say(other)}`;
}

function weigh(
  evidence: ClassEvidence,
  name: string,
  rival: string,
): Pick<ClassTrace, 'cited' | 'dissent'> & { text: string } {
  const comparisons = evidence.compare(name, rival);
  const cited = strongest(comparisons, 1, MOST_CITED);
  const dissent = strongest(comparisons, -1, MOST_DISSENT);
  const counts = [name, rival].map((own) => {
    return `${own} (${evidence.profile.classes[classIndex(evidence.profile, own)]!.count})`;
  });
  const sentences = [
    `The closest classes are ${counts.join(' and ')}, training examples in brackets; values are typical ones.`,
  ];
  if (cited.length === 0) sentences.push(`No feature by itself speaks for ${name}.`);
  else {
    sentences.push(`For ${name}: ${cited.map((one) => cite(one, name, rival)).join('; ')}.`);
  }
  if (dissent.length > 0) {
    sentences.push(
      `Against it, nearer to ${rival}: ${dissent.map((one) => cite(one, name, rival)).join('; ')}.`,
    );
  }
  return { text: sentences.join(' '), cited, dissent };
}

function compose(
  evidence: ClassEvidence,
  name: string,
  rival: string,
  verdict: string,
  conclusion: string,
): ClassTrace {
  const { text, cited, dissent } = weigh(evidence, name, rival);
  const think = `Observation: ${observe(evidence)}\nReasoning & Validation: ${text} ${verdict}\nConclusion: ${conclusion}`;
  if (/[<>]/.test(think)) {
    const odd = evidence.profile.channels.filter((channel) => /[<>]/.test(channel));
    throw new DataError(
      `channel ${odd.map((channel) => JSON.stringify(channel)).join(', ')}: < or > would break the tags of a trace; rename it in the data, and learn the classes again`,
    );
  }
  return { text: `<think>${think}</think><class>${name}</class>`, think, class: name, rival, cited, dissent };
}

function probabilities(evidence: ClassEvidence, names: readonly string[]): string {
  const parts = names.map((name) => {
    return `${evidence.candidates.find((candidate) => candidate.class === name)!.percent} % to ${name}`;
  });
  return `the linear rule over all ${evidence.values.length} features gives ${parts.join(' and ')}`;
}

/** The trace of the evidence alone: concludes the class that the rule finds most probable. */
export function blindClass(evidence: ClassEvidence): ClassTrace {
  const [best, next] = evidence.candidates as [
    (typeof evidence.candidates)[0],
    (typeof evidence.candidates)[0],
  ];
  const verdict = `Taken together, ${probabilities(evidence, [best.class, next.class])}.`;
  return compose(evidence, best.class, next.class, verdict, `the class is ${best.class}.`);
}

/**
 * The trace that teaches (training split only): concludes the gold class, cites the features that support it against the most probable
 * other class, names those that do not, and says where the rule disagrees.
 * @throws ConfigError for a class that the profile does not know
 */
export function teacherClass(evidence: ClassEvidence, gold: string): ClassTrace {
  classIndex(evidence.profile, gold);
  const rival = evidence.candidates.find((candidate) => candidate.class !== gold)!.class;
  const agrees = evidence.candidates[0]!.class === gold;
  const verdict = agrees
    ? `Taken together, ${probabilities(evidence, [gold, rival])}, in agreement.`
    : `Taken together, ${probabilities(evidence, [gold, rival])}: the evidence is closer to ${rival}, but this one is an unusual example of ${gold}.`;
  return compose(evidence, gold, rival, verdict, `the class is ${gold}.`);
}
