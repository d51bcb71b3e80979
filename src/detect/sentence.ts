/**
 * Sentences with their claims: each number, and each word that compares, is kept with its quantity, place and tolerance, so that
 * `explain/verify.ts` can recompute it without parsing the sentence.
 */
import type { Finding } from './finding.ts';
import type { Candidate } from './scan.ts';

/** Quantities over samples [start, end) of one column, or of the report that a sentence is about. */
export const QUANTITIES = [
  // of the values
  ...(['value', 'least', 'mean', 'largest', 'mean step', 'mean step elsewhere', 'samples at'] as const),
  // of the detector: what was expected, and its seasons in samples
  ...(['expected', 'mean expected', 'low', 'high', 'band', 'pace', 'period', 'rhythm'] as const),
  // of earlier cycles of the season
  ...(['least before', 'largest before', 'cycles before'] as const),
  // of the extent
  ...(['samples', 'time', 'duration', 'state'] as const),
  // of the report
  ...(['column', 'columns', 'incidents', 'findings', 'other findings'] as const),
  ...(['ongoing findings', 'level', 'kind', 'change', 'lag'] as const),
] as const;
export type Quantity = (typeof QUANTITIES)[number];

export interface Place {
  readonly quantity: Quantity;
  /** Half-open, in samples. */
  readonly start: number;
  readonly end: number;
}

/** Claim of a sentence: a number or a word, and the condition under which it is true. */
export interface Stated extends Place {
  readonly text: string;
  /** Offset of the text in its sentence. */
  readonly at: number;
  /** Printed value of the quantity, and its largest rounding error. */
  readonly number?: number;
  readonly tolerance?: number;
  /** Quantity that this one is more, or less, than; for words that compare. */
  readonly more?: Place;
  readonly less?: Place;
  /** Id of the finding, in a sentence about several. */
  readonly finding?: string;
}

export interface Sentence {
  readonly text: string;
  readonly stated: readonly Stated[];
}

type Part = Sentence | Omit<Stated, 'at'>;

/** Builds a sentence: say`rose to ${figure} (${clause})`. */
export function say(words: readonly string[], ...parts: readonly Part[]): Sentence {
  let text = words[0]!;
  const stated: Stated[] = [];
  for (const [i, part] of parts.entries()) {
    const at = text.length;
    if ('quantity' in part) stated.push({ ...part, at });
    else stated.push(...part.stated.map((inner) => ({ ...inner, at: at + inner.at })));
    text += part.text + words[i + 1]!;
  }
  return { text, stated };
}

/** Joins sentences by a separator. */
export function joined(parts: readonly Part[], separator: string, last = separator): Sentence {
  const between = parts.slice(1).map((_, i) => (i === parts.length - 2 ? last : separator));
  return say(['', ...between, ...(parts.length === 0 ? [] : [''])], ...parts);
}

/** Rounding step of the numbers of a sentence: three digits of the largest, and two digits of their difference. */
export function stepFor(values: readonly number[], difference = 0): number {
  const largest = Math.max(0, ...values.map(Math.abs).filter(Number.isFinite));
  const power = (value: number, digits: number): number => 10 ** (Math.floor(Math.log10(value)) + 1 - digits);
  if (largest === 0) return 1;
  // Four digits from a thousand on: 1013 hPa, 2025 requests.
  const step = power(largest, largest < 1000 ? 3 : 4);
  return Math.max(difference > 0 ? Math.min(step, power(difference, 2)) : step, largest * 1e-14);
}

/** Rounds a number to a step; numbers too large or small for that keep four digits. */
function roundTo(value: number, step: number): { number: number; tolerance: number } {
  const decimals = Math.round(-Math.log10(step));
  if (Math.abs(value) >= 1e15 || decimals > 12)
    return { number: Number(value.toPrecision(4)), tolerance: 5.1e-4 * Math.abs(value) };
  const number =
    decimals >= 0 ? Number(value.toFixed(decimals)) : Math.round(value * 10 ** decimals) * 10 ** -decimals;
  // A 0 beside other zeros has no digits that were rounded away.
  return { number, tolerance: value === 0 ? 0 : Number(`0.51e${-decimals}`) };
}

/** Makes the claim of a rounded number. */
export function figure(value: number, step: number, place: Place): Omit<Stated, 'at'> {
  const { number, tolerance } = roundTo(value, step);
  return { ...place, text: String(number), number, tolerance };
}

/** Makes the claim of a count, which is not rounded. */
export const count = (number: number, place: Place, text = String(number)): Omit<Stated, 'at'> => ({
  ...place,
  ...{ text, number, tolerance: 0 },
});

/** Makes the claim of a word that compares: the first of the pair if the quantity is `more` than the other. */
function comparison(pair: readonly [string, string], more: boolean, of: Place, than: Place): Part {
  return { ...of, text: pair[more ? 0 : 1], ...(more ? { more: than } : { less: than }) };
}

/** Numbers used only in the sentence of a finding. */
interface Measured {
  /** Mean of the expected values, missing samples left out. */
  readonly meanExpected: number;
  /** Mean step from sample to sample inside the stretch, and elsewhere. */
  readonly step: number;
  readonly usualStep: number;
  /** Samples after which the pattern repeats in the stretch, and elsewhere. */
  readonly pace: number | undefined;
  /** Rhythm of events that breaks in the stretch. */
  readonly rhythm: Candidate['rhythm'];
  readonly period: number | null;
  /** End of a drift: its mean, over so many samples. */
  readonly late: { readonly mean: number; readonly samples: number } | null;
  /** Samples that have the least, and the largest value. */
  readonly atLeast: number;
  readonly atLargest: number;
}

const MOVED = ['rose', 'fell'] as const;

/**
 * Writes the statement of a finding, to follow the name of its column ("fell to 0"), and clauses about the expected values. Only numbers
 * that differ as printed are compared, so that no sentence contradicts itself.
 */
export function stateFinding(finding: Described, measured: Measured): Finding['says'] {
  const { fact, context } = clausesOf(finding, measured);
  // Of values near the largest that float64 holds the band overflows.
  const finite = ({ stated }: Sentence): boolean => stated.every(({ number = 0 }) => Number.isFinite(number));
  return { fact, context: context.filter(finite) };
}

type Described = Pick<
  Finding,
  'start' | 'end' | 'kind' | 'direction' | 'peak' | 'observed' | 'expected' | 'stepped' | 'lasting'
>;

function clausesOf(finding: Described, measured: Measured): Finding['says'] {
  const { start, end, kind, observed, expected, stepped } = finding;
  const at = finding.peak.index;
  const place = (quantity: Quantity, from = start, to = end): Place => ({ quantity, start: from, end: to });
  const peak = place('value', at, at + 1);
  const expectedThere = place('expected', at, at + 1);
  const reference =
    stepped?.mean ?? (kind === 'level' || kind === 'flat' ? measured.meanExpected : expected.value);
  const ofDrift = kind === 'trend' && stepped !== null ? measured.late!.mean : null;
  const subject = ofDrift ?? (kind === 'level' || kind === 'flat' ? observed.mean : observed.peak);
  // The sentence of a standstill does not state the expected values.
  const shown = kind === 'flat' ? [subject] : [subject, reference];
  const step = stepFor(shown, Math.abs(subject - reference));
  const value = (number: number, where: Place): Omit<Stated, 'at'> => figure(number, step, where);
  const differ = (a: number, b: number): boolean => roundTo(a, step).number !== roundTo(b, step).number;
  const range =
    observed.least === observed.largest
      ? []
      : [
          say`observed ${value(observed.least, place('least'))} to ${value(observed.largest, place('largest'))}`,
        ];
  const usual = say`usual range ${value(expected.low, place('low', at, at + 1))} to ${value(expected.high, place('high', at, at + 1))}`;
  const about = say`expected about ${value(expected.value, expectedThere)}`;
  const average = observed.least === observed.largest ? say`` : say` on average`;
  const before = (): Sentence => {
    const { since, mean } = stepped!;
    const samples = count(start - since, place('samples', since, start));
    const earlier = value(mean, place('mean', since, start));
    return start - since === 1
      ? say`${earlier} in the sample before`
      : say`${earlier} in the ${samples} samples before`;
  };
  switch (kind) {
    case 'spike':
    case 'dip':
    case 'trend': {
      if (stepped !== null) {
        const { mean, samples } = measured.late!;
        const end_ = place('mean', end - samples, end);
        const moved = comparison(MOVED, mean > stepped.mean, end_, place('mean', stepped.since, start));
        const last = count(samples, place('samples', end - samples, end));
        return {
          fact: say`${moved} steadily to ${value(mean, end_)}`,
          context: [say`mean of its last ${last} samples`, before()],
        };
      }
      if (!differ(observed.peak, expected.value))
        return { fact: say`was ${value(observed.peak, peak)}`, context: [usual] };
      const pair = kind === 'trend' ? (['drifted up', 'drifted down'] as const) : MOVED;
      const moved = comparison(pair, observed.peak > expected.value, peak, expectedThere);
      return { fact: say`${moved} to ${value(observed.peak, peak)}`, context: [about, usual] };
    }
    case 'level': {
      const mean = value(observed.mean, place('mean'));
      if (!differ(observed.mean, reference)) return { fact: say`was ${mean}${average}`, context: range };
      const than = stepped === null ? place('mean expected') : place('mean', stepped.since, start);
      const moved = comparison(MOVED, observed.mean > reference, place('mean'), than);
      const fact = say`${moved} to ${mean}${average}${finding.lasting ? say` and stayed there` : say``}`;
      const usually = say`expected about ${value(measured.meanExpected, place('mean expected'))}`;
      return { fact, context: [stepped === null ? usually : before(), ...range] };
    }
    case 'variance': {
      const { step: inside, usualStep } = measured;
      const fine = stepFor([inside, usualStep], Math.abs(inside - usualStep));
      const mean = figure(inside, fine, place('mean step'));
      const elsewhere = figure(usualStep, fine, place('mean step elsewhere'));
      const more = inside > usualStep;
      const context = [say`by ${mean} from sample to sample on average, ${elsewhere} elsewhere`];
      if (mean.text === elsewhere.text || more !== (finding.direction === 'above'))
        return { fact: say`varied unusually`, context };
      const word = comparison(['more', 'less'], more, place('mean step'), place('mean step elsewhere'));
      return { fact: say`varied ${word} than usual`, context };
    }
    case 'flat':
      return {
        fact: say`${range.length === 0 ? say`stayed at` : say`hardly moved from`} ${value(observed.mean, place('mean'))}`,
        context: range,
      };
    case 'cutoff': {
      const up = finding.direction === 'above';
      const quantity = up ? 'largest' : 'least';
      const limit = up ? observed.largest : observed.least;
      const fact = say`was cut off at ${value(limit, place(quantity))}`;
      if (!differ(expected.value, limit) || expected.value > limit !== up) {
        const times = up ? measured.atLargest : measured.atLeast;
        // Rounded by itself: what was expected, which may be larger, is not told.
        return {
          fact: say`was cut off at ${figure(limit, stepFor([limit]), place(quantity))}`,
          context: [
            say`${count(times, place('samples at'))} ${times === 1 ? say`sample` : say`samples`} there`,
          ],
        };
      }
      const beyond = comparison(['up', 'down'], up, expectedThere, place(quantity));
      return { fact, context: [say`expected ${beyond} to ${value(expected.value, expectedThere)}`] };
    }
    case 'frequency': {
      if (measured.rhythm !== undefined) return rhythmClauses(measured.rhythm, place);
      const samples = (number: number, quantity: Quantity): Part =>
        figure(number, stepFor([number]), place(quantity));
      const fact = say`repeated every ${samples(measured.pace!, 'pace')} samples instead of every ${samples(measured.period!, 'period')}`;
      return { fact, context: [] };
    }
    case 'shape': {
      const far = say`${value(observed.peak, peak)} where it departs most, ${about}`;
      const context = differ(observed.peak, expected.value) ? [far, ...range] : range;
      return { fact: say`had an unusual shape`, context };
    }
  }
}

/** Clauses about a rhythm that breaks. */
function rhythmClauses(
  { of, every, what }: NonNullable<Candidate['rhythm']>,
  place: (quantity: Quantity) => Place,
): Finding['says'] {
  const usual = figure(every, stepFor([every]), place('rhythm'));
  const event = of === 'peak' ? say`peak` : say`drop`;
  const context = [say`one comes every ${usual} samples`];
  switch (what) {
    case 'missing':
      return { fact: say`has no ${event} where one is due`, context };
    case 'additional':
      return { fact: say`has a ${event} where none is due`, context };
    case 'faster':
      return { fact: say`has ${event}s at shorter distances than usual`, context };
  }
}

/** Statement with its context in parentheses: "fell to 0 (expected about 310)". */
export function statementOf({ fact, context }: Finding['says']): string {
  return context.length === 0 ? fact.text : say`${fact} (${joined(context, '; ')})`.text;
}
