/**
 * Evidence about variates told as an expert chain of thought: Observation, Reasoning & Validation, Conclusion, then the list of
 * anomalous variates. Every number is one of the evidence, rounded; a variate is said to stand apart only where the rule finds
 * it so.
 */
import { DataError } from '../errors.ts';
import { formatNumber } from './trace.ts';
import { FAR, LEAST_STEP, type VariateEvidence, type VariatesEvidence } from './variates.ts';

export interface VariatesTrace {
  /** The whole response: `<think>…</think><answer>[ids]</answer>`. */
  readonly text: string;
  readonly think: string;
  readonly variates: readonly number[]; // ascending
}

/** Variates whose distances are told one by one. */
const MOST_TOLD = 6;

const say = (value: number): string => formatNumber(Number(value.toPrecision(3)));

function names(ids: readonly number[]): string {
  if (ids.length === 0) return 'no variate';
  const last = String(ids.at(-1));
  return ids.length === 1 ? `variate ${last}` : `variates ${ids.slice(0, -1).join(', ')} and ${last}`;
}

function observe({ length, variates, period, missing, longest }: VariatesEvidence): string {
  const gaps =
    missing === 0
      ? ''
      : ` ${missing} points are missing in all, at most ${longest} in a row; for the analyses straight lines bridge them.`;
  return `There are ${variates.length} variates of ${length} points. Their waves have a period of about ${say(period)} samples.${gaps}`;
}

function tell({ id, distance, shape, spectrum, autocorrelation, rank }: VariateEvidence): string {
  return `variate ${id} ${say(distance)} (shape ${say(shape)}, spectrum ${say(spectrum)}, autocorrelation ${say(autocorrelation)}; rank ${rank})`;
}

function compose(
  evidence: VariatesEvidence,
  told: readonly VariateEvidence[],
  verdict: string,
  ids: readonly number[],
): VariatesTrace {
  const shown = told.slice(0, MOST_TOLD).map(tell);
  const rest = told.length > MOST_TOLD ? `; and others, ${told.length} in all` : '';
  const reasoning = `Each variate is compared with the middle of the group, whatever its level, size, phase and speed: the shape of its mean cycle, the amplitudes of its harmonics, its autocorrelation over two periods. The three distances add up to ${say(evidence.distance)} for the middle one. Told in particular: ${shown.join('; ')}${rest}. ${verdict}`;
  const conclusion = ids.length === 0 ? 'no variate is anomalous.' : `anomalous: ${names(ids)}.`;
  const think = `Observation: ${observe(evidence)}\nReasoning & Validation: ${reasoning}\nConclusion: ${conclusion}`;
  return { text: `<think>${think}</think><answer>[${ids.join(', ')}]</answer>`, think, variates: ids };
}

/** What the rule makes of the distances. */
function verdictOf({ reading: { step, variates } }: VariatesEvidence): string {
  if (step !== null) {
    return `Sorted, the distances fall from ${say(step.above)} to ${say(step.below)} at their largest relative step, at least ${LEAST_STEP} times: ${names(variates)} above it.`;
  }
  return variates.length === 0
    ? `No step of ${LEAST_STEP} times separates some of them from the rest.`
    : `No step of ${LEAST_STEP} times separates them, but ${names(variates)} ${variates.length === 1 ? 'is' : 'are'} farther than ${FAR}.`;
}

const byRank = (evidence: VariatesEvidence): VariateEvidence[] =>
  [...evidence.variates].sort((a, b) => a.rank - b.rank);

/** The trace of the evidence alone: the variates that the rule finds apart, beside the next ones. */
export function blindVariates(evidence: VariatesEvidence): VariatesTrace {
  const { variates } = evidence.reading;
  return compose(evidence, byRank(evidence).slice(0, variates.length + 1), verdictOf(evidence), variates);
}

/**
 * The trace that teaches (training split only): concludes the gold variates (ascending), tells their distances, and says which of them
 * the evidence does not set apart, and what it sets apart besides. Throws a DataError for a variate that is not there.
 */
export function teacherVariates(evidence: VariatesEvidence, gold: readonly number[]): VariatesTrace {
  const unknown = gold.find((id) => evidence.variates[id] === undefined);
  if (unknown !== undefined) {
    throw new DataError(`variate ${unknown}: the series has ${evidence.variates.length}, counted from 0`);
  }
  const found = evidence.reading.variates;
  const missed = gold.filter((id) => !found.includes(id));
  const extra = found.filter((id) => !gold.includes(id));
  const told = byRank(evidence).filter(
    ({ id, rank }) => gold.includes(id) || extra.includes(id) || rank === 1,
  );
  const sentences = [verdictOf(evidence)];
  if (missed.length > 0) {
    sentences.push(
      `The distances alone do not set ${names(missed)} apart, yet ${missed.length === 1 ? 'it belongs' : 'they belong'} to the anomalous ones.`,
    );
  }
  if (extra.length > 0) {
    sentences.push(
      `${sentenceCase(names(extra))} ${extra.length === 1 ? 'is' : 'are'} unusual, but not anomalous.`,
    );
  }
  if (missed.length === 0 && extra.length === 0) sentences.push('This agrees with what the curves show.');
  return compose(evidence, told, sentences.join(' '), gold);
}

function sentenceCase(text: string): string {
  return `${text.charAt(0).toUpperCase()}${text.slice(1)}`;
}
