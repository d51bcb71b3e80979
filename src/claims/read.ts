/**
 * Claims of a reasoning: which quantity it states, where, and with which numbers. Statements that only expert traces make are matched by the
 * templates that print them (`src/expcot/phrase.ts`); everything else, of traces as of any model, by patterns over sentences in which every
 * number is one token (`sentence.ts`). A pattern reaches over a few linking words, never over a clause, so reading takes time in proportion
 * to the text. A number that nothing matches is part of no claim; every result shows the share of numbers that are. Questions, doubts,
 * suppositions and lists of alternatives state nothing, and what holds for an unnamed part is no claim about the series.
 *
 * A pattern stays while a recorded or hand-written answer (`test/golden/claims.json`) or an expert trace needs it.
 */
import { CYCLE_PHRASES } from '../expcot/anomaly.ts';
import { CLASS_PHRASES } from '../expcot/class-trace.ts';
import { NANO_DEPARTURES, NANO_FACTS, NANO_GRADES, NANO_PHRASES, SCAN } from '../expcot/nano.ts';
import type { Phrase, Slot } from '../expcot/phrase.ts';
import { TRACE_PHRASES } from '../expcot/trace.ts';
import { VARIATE_PHRASES } from '../expcot/variates.ts';
import type { Interval } from '../ground/types.ts';
import {
  NUMBER_WORDS,
  numbersIn,
  type PrintedNumber,
  type Sentence,
  sentences,
  tokenAt,
} from './sentence.ts';

type Relation = 'is' | 'above' | 'below';

/** One statement of a text about its series. */
export interface Claim {
  /** Name of what is stated; `check.ts` says how each is checked. */
  readonly quantity: string;
  /** Stated numbers, each with the tolerance that its printed digits imply; two for a range or an interval. */
  readonly numbers: readonly PrintedNumber[];
  /** True where two numbers are bounds of one ("30–35"), not two quantities. */
  readonly range: boolean;
  readonly relation: Relation;
  readonly hedged: boolean;
  readonly negated: boolean;
  /** Sample that the claim is about. */
  readonly at: PrintedNumber | null;
  /** Stretch that the claim is about, half-open; null: the series. From −n: the last n samples; to ∞: to the end. */
  readonly within: Interval | null;
  /** Stretch as shares of the length, for "the first half"; absent otherwise. */
  readonly share?: Interval;
  /** Index of the channel; null where the text does not say which of several. */
  readonly channel: number | null;
  /** Place in the text. */
  readonly span: readonly [start: number, end: number];
  /** True for the dominant one of several periods. */
  readonly isMain?: boolean;
  /** True for percentages, which are stated as parts: of a series in percent they are values. */
  readonly percent?: boolean;
  /** Places of all numbers that the claim uses. */
  readonly uses: readonly (readonly [start: number, end: number])[];
  /** True for a fall or a value below, false for a rise or a value above; absent otherwise. */
  readonly falls?: boolean;
  /** Template of a statement that expert traces make, with what its slots hold. */
  readonly statement?: Statement;
  /** Symbols of a scan, which are checked one by one. */
  readonly scan?: string;
}

export interface Statement {
  readonly phrase: Phrase;
  readonly contents: readonly Slot[];
  /** Numbers of each slot. */
  readonly numbers: readonly (readonly PrintedNumber[])[];
}

const DEPARTURES = new Set<object>([...Object.values(NANO_DEPARTURES), NANO_PHRASES.departure]);
/** Returns true for a statement of short traces about an annotated interval. */
export const statesDeparture = ({ statement }: Claim): boolean =>
  statement !== undefined && DEPARTURES.has(statement.phrase);

interface ClaimReading {
  readonly claims: readonly Claim[];
  /** Count of the numbers in digits that the text holds. */
  readonly numbers: number;
}

/** Maximum number of claims read from one text. */
const MOST_CLAIMS = 2000;
/** Maximum number of channels whose names are looked for. */
const MOST_NAMES = 64;

const words = (list: string): string => `(?:${list.trim().replace(/\s+/g, '|')})`;
const NUMBER_WORD = Object.keys(NUMBER_WORDS).join('|');
const GAP =
  words(`value values level is was are were be of at to about around close equal equals being reaches reaching reached = : only just
  slightly a an the has have had stands sits lies very not never exceed exceeds exceeding above below over under more less greater
  smaller higher lower than least most up estimated computed overall that it remains stays hovers here there approaching some
  constant fairly clear \\( its roughly dominant`);
const IS = `(?: ${GAP}){0,6}`;
/** Words behind a number that make it a difference, a ratio or the first of a range or list of two: none of them may follow. */
const NO_VALUE =
  '(?! (?:–|to|±) N| / N| % of| (?:(?:units?|points?|%|degrees) )?(?:above|below|higher|lower|larger|smaller|bigger|greater|faster|slower|longer|shorter|times|more|less|- ?fold)(?: |$))';
const V = `(?<v>between N and N(?! (?:is|are|was|were|has|the|it))|N(?: (?:–|to|±) N)?${NO_VALUE})`;
/** Value of the series, not a number of its samples. */
const VALUE = `${V}(?! (?:- )?(?:samples?|steps?|indices|cycles?|observations))`;
const CUE = words(
  'index indices sample samples point points step steps time times position positions t x n i observation observations',
);
const INDEX = `(?:the )?(?:${CUE} ){0,2}(?:number |no |= |of |about |# )?`;
const AT = `(?: (?:,|\\(|\\)|which|that|and|is|was|it|occurs|occurring|occurred|appears|appearing|lies|lying|located|found|reached|seen|right)){0,4} (?:at|near|around|@) (?:about )?${INDEX}(?<i>N)`;
const AT_OR_INDEX = `(?:${AT}| \\( (?:at )?${INDEX}(?<j>N))`;
const SUBJECT = words(
  'value reading amplitude level signal series it y x curve data measurement observation channel',
);
const ADVERB =
  '(?: (?:sharply|suddenly|abruptly|briefly|gradually|steadily|slowly|linearly|quickly|up|down|back|roughly|about|almost|only|monotonically|overall)){0,2}';
const RISE = words(
  'rise rises rising rose increase increases increasing increased climb climbs climbing climbed grow grows growing grew',
);
const FALL = words(
  'fall falls falling fell decrease decreases decreasing decreased drop drops dropping dropped decline declines declining declined',
);
const JUMP = `(?:${RISE}|${FALL}|${words('jump jumps jumped jumping spike spikes spiked spiking dip dips dipped dipping peak peaks peaked peaking shoots surges surged plunges plunged reaches reached hits moves goes')})`;
const NAME =
  '(?: (?:of|for|in|over) the (?:first|last|second|third|middle) (?:N )?(?:samples|points|steps|half|third|quarter))?(?: (?:of|for|in|along) (?:the )?[^ N]{1,40}(?: (?:channel|axis|series|signal|data|component))?)?';
const STD = '(?:standard deviations?|std(?: dev| deviation)?|sigma|s\\.d\\.)';
const SAMPLES = words('samples sample points point steps step indices index observations values');
const HOW = words(
  'clear distinct large small sharp major obvious isolated separate visible prominent strong short brief notable significant big main extreme single positive negative upward downward sudden narrow',
);
const CYCLES = '(?:full |complete |whole |regular |clear ){0,2}(?:cycles|periods|oscillations|repetitions)';
const COUNT = `(?<v>N|${NUMBER_WORD}|no)`;
const POINTS = words(
  'value values point points sample samples observation observations reading readings data',
);

interface Pattern {
  readonly quantity: string;
  readonly pattern: RegExp;
  /** Words before it by which it states another quantity; null: none do. */
  readonly notBehind: RegExp | null;
  /** True for levels of the series, which "apart from …" limits to a part of it. */
  readonly isLevel: boolean;
  /** True where words can stand for the number. */
  readonly takesWords: boolean;
  /** Relation that the words of the pattern itself state. */
  readonly relation: Relation | null;
}

const compiled = (source: string): RegExp => new RegExp(` ${source}(?= )`, 'dgu');

/** Words of a pattern, with those that may not stand before them where there are any. */
type Source = string | readonly [notBehind: string, source: string];

/** Compiles patterns by what they state. A lookbehind in front of a pattern would be tried at every place of a text. */
function patterns(
  isLevel: boolean,
  sources: Readonly<Record<string, readonly Source[]>>,
  relation: Relation | null = null,
): Pattern[] {
  return Object.entries(sources).flatMap(([quantity, list]) =>
    list.map((entry) => {
      const [words, source] = typeof entry === 'string' ? [null, entry] : entry;
      const takesWords = source.includes(NUMBER_WORD);
      const notBehind = words === null ? null : new RegExp(` (?:${words}) $`);
      return { quantity, pattern: compiled(source), notBehind, isLevel, takesWords, relation };
    }),
  );
}

/** Quantities whose rise is not that of the series. */
const OTHERS_OWN =
  'amplitudes?|deviations?|std|sigma|variance|spread|noise|period|frequency|peaks?|troughs?|maxima|minima|maximum|minimum|width|swings?|height|slope|cycle';
const CUED = INDEX.replace('){0,2}', '){1,2}');
/** Words before a cycle by which its length is no period. */
const FRACTION = `(?:(?:half|quarter|third|twice|double)(?: of)?(?: an?| the| each)?|N|${NUMBER_WORD}|several|full width at half)`;
const UNIT = '(?:hz|khz|s|seconds?|ms|min|minutes?|h|hours?|days?|weeks?|months?|years?|cycles?)';
/** Words before the name of a quantity that make it another's, a difference, or one of two that share their numbers. */
const NOT_OWN = `local|half|second|third|next|(?:minimum|maximum|mean|median|average|deviation|lowest|highest)(?: value)? and(?: the)?|(?:changes?|differences?|shifts?|jumps?|increases?|decreases?|rise|drop|fall|step) (?:in|of)(?: the)?`;
const SCORE = '(?:z-score|z score|standard score|z-value)';
const EXTREME = `(?! (?:absolute )?(?:z|number|distance|departure|gap|step|difference|slope|jump|deviation))(?: (?:value|point|reading|level|amplitude))?${NAME}(?: ,)?${IS} ${VALUE}(?:${AT_OR_INDEX})?`;
const PLACED = `(?: (?:of the series|of the signal))?(?: (?:is|was|occurs|occurred|located|lies|reached|appears|falls|happens)){1,2} (?:at|near|around)(?: about)? ${INDEX.replace('){0,2}', '){1,2}')}(?<v>N)`;
const NONE = `(?:no ${POINTS}|none of the ${POINTS}|never|not) (?:ever )?`;
const GOES = '(?:is|are|goes|go|rises?|falls?|drops?|gets?|climbs?|dips?|lies?|reach(?:es)?)';
const LEVEL = `${VALUE}(?! (?:- )?(?:%|times|sd|${STD}))`;
const ALL = `(?:all (?:of )?(?:the )?(?:${POINTS}|values)|every ${POINTS}|everything|the (?:whole )?(?:signal|series))(?: (?:are|is|stay|stays|remain|remains|lie|lies)){1,2}`;

/** Patterns of statements that any text makes; earlier ones take their numbers from later ones. */
const PATTERNS: readonly Pattern[] = [
  ...patterns(false, {
    period: [
      [
        `${FRACTION}`,
        `(?:period|periodicity|wavelength|cycle length|season length|seasonality|cycle duration)(?: length)?(?! \\( )${IS} ${V}(?! ${UNIT} )`,
      ],
      [
        `crossings?|signs?|sign changes?|negative(?: peaks)?|troughs|zero`,
        `(?:repeats?|repeating|recurs?|recurring|cycles?|peaks?|pattern|oscillates|oscillation|occurs?|occurring|troughs|beats|waves?|cycle|itself)(?: (?:itself|regularly|about|roughly|with|appear|appears|occur|is|are|repeated)){0,3} every (?:about |single )?${V}(?: ${SAMPLES})?(?! ${UNIT} )`,
      ],
      `${V} - ${SAMPLES} (?:period|cycle|cycles|periodicity|oscillation|seasonality|pattern)`,
      [
        `${FRACTION}`,
        `(?:cycle|cycles|oscillation|oscillations|wave|waves)(?: each)? (?:of|lasting|lasts|takes|taking|spanning|spans) (?:about )?${V} ${SAMPLES}`,
      ],
      `(?:peaks|troughs|maxima|minima|beats|crests)(?: (?:are|is|lie|spaced|about|roughly|regularly|evenly|on average)){1,3} ${V}(?: ${SAMPLES})? apart`,
      `(?:distance|spacing|interval|gap) (?:between|of)(?: (?:the|consecutive|successive|adjacent|neighbou?ring|two)){0,2} (?:peaks|troughs|maxima|minima|beats|crests)${IS} ${V}(?! ${UNIT} )`,
    ],
    frequency: [
      `frequency(?! (?:test|\\w{1,9} test|bin))${IS} ${V}(?! hz| khz| / s| n - n| cycles (?!per (?:sample|step|point))| bin)`,
    ],
    cycles: [
      [
        `anomal\\w{1,5}|segment|burst|part|it|which`,
        `(?:there are|there're|shows?|completes?|contains?|has|have|see|count|observe) (?:about |exactly |only |a total of ){0,2}(?<v>N|${NUMBER_WORD}) ${CYCLES}(?! (?:per|every|each|of|in N|apart|later|where|in which|that|which))`,
      ],
      `(?<v>N|${NUMBER_WORD}) ${CYCLES} (?:are|is) (?:visible|seen|shown|present)`,
      `(?:completes|completing) (?<v>N|${NUMBER_WORD}) ${CYCLES}`,
    ],
    length: [
      `(?:(?:series|signal|data|dataset|plot|recording|record|channels?|variates|sequence) (?:has|have|contains?|comprises|consists of|spans|shows|covers|are)|(?:series|signal|channels|variates|variables|recording|data|plot|total) (?:of|with)|in total) (?:about |a total of |exactly |the )?${V} (?:data |time )?(?:samples|points|steps|observations|values|timepoints|readings)(?! (?:is|are|lie|lies|above|below|exceed|per|period|long|wide|missing|apart|after|later|before|at|outside|fall|far|that|which|where|with|deviat\\w{1,4}|stand|in (?:the|each|every|an?|this) (?!series|data|signal|record|plot|total)))`,
    ],
    channels: [
      [
        `first|last|other|these|those|all|remaining`,
        `${COUNT} (?:channels|variates|variables|dimensions)(?= (?:$|[,.:;()]|of|with|are (?:recorded|given|shown|present|available|measured)|in total|recorded|measured))`,
      ],
    ],
    missing: [`${COUNT} (?:samples|sample|points|point|values|value) (?:is|are) missing`],
    gaps: [`\\( ${COUNT} (?:gaps|gap)`],
    'longest gap': [`longest (?:gap )?of ${V}`],
    'missing at': [`(?:value|sample|point) at ${INDEX}(?<i>N) is (?:missing|nan|absent)`],
  }),
  ...patterns(
    true,
    {
      maximum: [
        `${NONE}(?:exceeds?|surpass(?:es)?|${GOES} (?:above|over|higher than|more than|greater than)|above|over) ${LEVEL}`,
        `${ALL} (?:below|under|less than|at most) ${LEVEL}`,
      ],
    },
    'below',
  ),
  ...patterns(
    true,
    {
      minimum: [
        `${NONE}(?:${GOES} (?:below|under|lower than|less than)|below|under) ${LEVEL}`,
        `${ALL} (?:above|over|greater than|at least) ${LEVEL}`,
      ],
    },
    'above',
  ),
  ...patterns(false, {
    'share within': [
      `(?<v>N) % of (?:all |the ){0,2}(?:data )?${POINTS}(?: points)? (?:lie |lies |are |fall |is )?(?:within|between|in|from) (?<w>N and N|N to N|N – N)`,
    ],
    'largest z': [
      `(?:largest|maximum|highest|greatest|peak|most extreme|top) (?:absolute )?${SCORE}${IS} ${V}`,
    ],
    z: [
      `(?:${SUBJECT}|spike|peak|point|dip)${AT} (?:is|lies|sits|stands|was) (?:about |around |more than |over |at least )?(?<v>N|${NUMBER_WORD}) (?:- )?${STD} (?:above|below|from|away from|off|over) (?:the )?(?:mean|average)`,
      `(?:(?:more than|over|at least|about|around) )?(?<v>N|${NUMBER_WORD}) (?:- )?${STD} (?:above|below|from|away from|off|over) (?:the )?(?:overall |series )?(?:mean|average)(?:${AT})?`,
      `${SCORE}${IS} ${V}${AT}`,
      `${SCORE}(?: of the value| of the point)?${AT}${IS} ${V}`,
    ],
    'times amplitude': [
      `(?<v>N|${NUMBER_WORD}|twice|double|triple|half) (?:times )?(?:as (?:large|high|big) as |larger than |higher than |greater than )?(?:the |its |that of the )?(?:usual |normal |typical |regular |baseline |average |rest |surrounding |overall ){1,2}(?:amplitude|swing|height|range)`,
    ],
  }),
  ...patterns(true, {
    value: [
      `(?:${SUBJECT}|spike|peak|dip|trough|outlier|value of [^ ]{1,40}|[^ ]{1,40} value)${AT}${IS} ${VALUE}`,
      `(?:at|around|near) (?:about )?(?:the )?${CUE} (?:= |number |of |about ){0,2}(?<i>N)(?: ,)? (?:where )?(?:the |its )?(?:[^ ]{1,20} )?${SUBJECT}(?: (?:is|was|equals|has|takes|stands)| ${JUMP}){1,2}(?: (?:at|to|a|value|about|around|up|down|the|sharply|suddenly|=|only|just)){0,4} ${VALUE}`,
      `${JUMP}${ADVERB} (?:to|at)(?: (?:a|an|about|around|value|of|level|the|nearly)){0,4} ${VALUE}(?: ${POINTS})?${AT_OR_INDEX}`,
      `(?:y|x|value|signal|series|values) (?:\\[|\\() (?<i>N) (?:\\]|\\)) (?:=|is|about|:|equals)(?: about)? ${V}`,
      `(?:local (?:maximum|minimum)|peak|spike|dip|trough|outlier|value|reading)(?: (?:value|with|reaching|a|an|of|about|around|at|=)){1,4} ${VALUE}(?: \\))?${AT_OR_INDEX}`,
      `(?:reaches|reached|hits|reaching|hitting|(?:dip|drop|jump|rise|fall|spike) (?:up |down )?to)(?: (?:a|an|about|value|of|level|maximum|minimum)){0,4} ${VALUE}${AT_OR_INDEX}`,
      `(?:at|around|near) (?:about )?(?:the )?${CUE} (?:= |number |of |about ){0,2}(?<i>N)(?: ,)? (?:there is|there's|there was|we see|i see|it shows) (?:a |an |the )?(?:[^ ]{1,20} ){0,2}(?:spike|peak|dip|value|trough|(?:jump|drop)(?: up| down)? to)(?: (?:up|down|to|of|reaching|with|a|value|about|at)){0,5} ${VALUE}`,
    ],
  }),
  ...patterns(false, {
    'index of maximum': [
      [
        `local`,
        `(?:global |overall )?(?:maximum|highest (?:value|point)|largest value|peak value|global peak)${PLACED}`,
      ],
    ],
    'index of minimum': [
      [`local`, `(?:global |overall )?(?:minimum|lowest (?:value|point)|smallest value)${PLACED}`],
    ],
  }),
  ...patterns(true, {
    maximum: [
      [
        `${NOT_OWN}`,
        `(?:maximum|highest|largest value|peak value|global peak|greatest value|top value|maxima)${EXTREME}`,
      ],
    ],
    minimum: [[`${NOT_OWN}`, `(?:minimum|lowest|smallest value|lowest value)${EXTREME}`]],
    'usual range': [
      `(?:normal|usual|typical|expected|regular|baseline) (?:range|band|values|level|oscillation)(?: (?:is|of|from|between|within|lies|stays|in|about)){0,3} (?<v>\\[ N , N \\]|± N|N (?:to|and|–) N)`,
    ],
    'kept range': [
      `(?:stays?|remains?|kept|bounded|confined|contained|stay within|all values lie|mostly|mainly|typically|usually) (?:within |between |in |from |lies |inside |varies |ranges |oscillates |the range |the band |values ){1,3}(?<v>N (?:and|to|–) N|\\[ N , N \\]|± N)`,
    ],
    swing: [
      `(?:oscillat\\w{1,5}|fluctuat\\w{1,5}|swings?|alternat\\w{1,5}|bounc\\w{1,4})(?: \\w{1,12}){0,3} (?:between|from|within) (?:about )?(?:\\+ )?(?<v>N (?:and|to|–) (?:about )?(?:\\+ )?N)(?! (?:is|are|was|were))`,
    ],
    range: [
      [
        `(?:anomaly|anomalies|anomalous|outliers?|segments?|bursts?|events?|stretch|intervals?|region|section|window|disturbance|(?:[a-z]-)?ax[ie]s|indices|index|time|plateau|gap|bump|burst|phase)(?: [a-z]{1,12}){0,2}`,
        `(?:ranges?|ranging|varies|varying|lies?|lying|spans?|spanning|runs?|going|extends?|extending|(?<=N )samples|values(?: are| range| lie)?) (?:in value |in the range |approximately |about |all |values ){0,2}(?:between|from|of) (?:about )?(?:\\+ )?(?<v>N (?:and|to|–) (?:about )?(?:\\+ )?N)(?! (?:is|are|was|were|${SAMPLES}))`,
      ],
      [
        `(?:located|found|seen|visible|occurs|occurred|appears|happens) (?:in|within)(?: the)?`,
        `(?:range|values in)(?: of values| of the values)?(?: (?:is|of|:|=|in)){0,2} \\[ (?<v>N , N) \\]`,
      ],
    ],
    'first value': [`(?:first|initial) (?:value|reading|observation|measurement)${NAME}${IS} ${VALUE}`],
    'last value': [`(?:last|final) (?:value|reading|observation|measurement)${NAME}${IS} ${VALUE}`],
    mean: [
      [
        `${NOT_OWN}`,
        `(?:mean|average)(?! (?:of the (?!series|signal|data|whole|channel|first|last|second|third|middle)|difference|shift|change|spacing|cycle|peak|period|slope|vector|distance|absolute|\\+|±))(?: value| level)?${NAME}${IS} ${VALUE}`,
      ],
    ],
    median: [[`${NOT_OWN}`, `median${NAME}${IS} ${VALUE}`]],
    noise: [
      `(?:noise|residuals?)(?: (?:with|has|having|of|\\(|a|an|the|its|whose|level|amplitude)){0,4}(?: ${STD})?${IS} ${VALUE}`,
    ],
    'standard deviation': [
      [`N|(?:period|lengths?|heights?) (?:has|have|with) an?|${NOT_OWN}`, `${STD}${NAME}${IS} ${VALUE}`],
    ],
    variance: [`variance${NAME}${IS} ${VALUE}`],
    'peak to peak': [`(?:peak-to-peak(?: amplitude| range| value| swing)?|total range|full range)${IS} ${V}`],
    amplitude: [
      `amplitude${NAME}(?: (?:jumps|grows|rises|increases|drops|falls|shrinks|doubles))?${IS} ${V}(?!(?: \\()? peak(?:-| )to(?:-| )(?:peak|trough))`,
    ],
    autocorrelation: [`(?:autocorrelation|acf) at (?:a )?lag (?:of )?(?<i>N)${IS} ${V}`],
  }),
  ...patterns(false, {
    slope: [
      [
        `maximum|largest|steepest|local|absolute|greatest`,
        `(?:slope|gradient|rate of (?:change|increase|decrease|growth)|trend (?:is|of|has a slope))(?! (?:test|at|\\w{1,9} test))(?: coefficient)?${IS} ${V}(?: per (?:step|sample|point|index|time step))?(?! (?:per|every|each|/))`,
      ],
      `(?:${RISE}|${FALL})${ADVERB} (?:by|at)(?: (?:about|around|a rate of|roughly)){0,2} ${V}(?: (?:units? )?(?:per|each|every) (?:step|sample|point|index|time|unit)| / (?:step|sample))`,
    ],
    rise: [
      `(?:${RISE}|${FALL})${ADVERB} by(?: about)? ${V} (?:in all|overall|in total|over the (?:whole |entire )?(?:series|record|length)|from start to end|altogether)`,
    ],
    'from to': [
      [
        `(?:${OTHERS_OWN})(?: [a-z]{1,12})?`,
        `(?:${RISE}|${FALL}|jumps|jumped|shifts|changes|goes|drifts|moves|ramps up|ramps down|ramps|trends)${ADVERB} from (?:about |around |a value of |a level of |a mean of ){0,2}(?<v>N (?:at the (?:start|beginning|left|very start) |° [cf] )?to (?:about |around )?N)(?! (?:${SAMPLES}|in N|in about|within|every|each|per|over (?!the (?:whole|entire|full|series|record|length))))(?:(?: by| near| around| at)(?: about)? ${CUED}(?<i>N))?`,
      ],
    ],
    spikes: [
      [
        `first|last|other|next|these|those|of the|regular`,
        `${COUNT} (?:${HOW} |, ){0,3}(?:spikes|spike|outliers|outlier)`,
      ],
    ],
    anomalies: [
      `${COUNT} (?:${HOW} |, ){0,3}(?:anomal(?:y|ies)|anomalous (?:segments?|intervals?|regions?|stretch(?:es)?|parts?|points?|windows?)|abnormal (?:segments?|intervals?|regions?))`,
      `and others , (?<v>N) in all`,
    ],
  }),
];

const INTERVAL = compiled(
  `(?:between (?:about )?${INDEX}(?<a>N and (?:about )?${INDEX}N)|(?<b>(?:\\[|\\() N (?:,|–|to) N (?:\\]|\\)))|(?<d>(?:starts?|begins?|starting|beginning)(?: (?:at|from|around|about)){1,2} ${INDEX}N(?: (?:,|and|then|it)){0,2} (?:ends?|ending|finishes|lasts?|lasting|extends|continues|stops)(?: (?:at|to|until|around|about)){1,2} ${INDEX}N)|(?<c>N (?:to|–|until|through|till) (?:about )?${INDEX}N))`,
);
const POINT = compiled(
  `(?:(?:at|@|index|indices|step|position|,|and|(?:spike|outlier|anomaly|peak|dip) (?:near|around)) (?:about )?${INDEX}|(?:near|around) (?:about )?(?:the )?${CUE} (?:number |= )?)(?<v>N)(?! (?:%|hz|ms|times|samples per|: N))`,
);
const SIDE = new RegExp(
  ` (?:before|after|until|since|from|beyond|past) (?:about )?(?:the )?(?:${CUE}) (?:= |number )?N `,
  'u',
);
/** Parts of the series in words; the number is an index, or of samples at one end. */
const PART = compiled(
  `(?:(?<share>(?:first|second|third|fourth|middle|last|final|latter) (?:half|third|quarter))(?! of (?!(?:the |this )?(?:whole |entire )?(?:series|signal|data|record|recording|plot|time|samples)))` +
    `|(?:(?<first>first|initial)|last|final) (?:about )?(?<n>N) ${SAMPLES}` +
    `|(?:(?<before>before|until|till|prior to)|after|beyond|past|since) (?:about )?(?<i>${INDEX}N)` +
    `|(?:from|starting (?:at|from)) (?:about )?(?<j>${INDEX}N) (?:on|onwards?|to the end)` +
    `|(?:up to|(?<from>from|as of|starting (?:at|from)(?= (?:the )?${CUE} N ,))) (?:about )?(?:the )?(?<k>${CUE} (?:number |= )?N)(?! (?:to|–|until|through|till|and) )` +
    `|for (?:all )?${CUE} (?:(?<below><|≤|below|under|before|less than|smaller than|up to)|>|≥|above|over|after|beyond|greater than|larger than)(?: =)? (?<l>N))` +
    `(?! (?:%|times|N|/|:|–|(?:full |complete )?(?:cycles?|periods?|oscillations?|repetitions?|waves?|beats?|days?|hours?|weeks?|minutes?|seconds?|months?|years?|spikes?|peaks?|anomal\\w{1,4})))`,
);
const PART_CUE =
  / (?:half|third|quarter|first|initial|last|final|before|until|till|prior to|after|beyond|past|since|onwards?|N on|to the end|up to|starting|as of|from (?:index|sample|step|point|t|x|i|n)|for (?:all )?(?:t|x|i|n|indices|samples|index|points|steps|times)) /;
const SHARES: Readonly<Record<string, number>> = {
  ...{ first: 0, second: 1, third: 2, fourth: 3 },
  ...{ middle: 1, last: -1, final: -1, latter: -1 },
};
const WHOLE_PARTS: Readonly<Record<string, number>> = { half: 2, third: 3, quarter: 4 };
const EVENT = words(
  `shifts? drop jump spikes? step change peaks? burst anomal\\w{1,5} outliers? event gap rise fall dip end beginning start segments?
  part section region phase cycles? plateau baseline interval window middle`,
);
const OF_EVENT = `(?:after|before|during|between|since|until|without|at|in|inside|within|on|over|of|for|outside|towards)(?: (?:the|its|this|that|each|every|an?|any|all))?(?: [a-z]{1,12}){0,2} ${EVENT}`;
/** Words before a level in its clause that limit it to a part of the series that no number names. */
const LIMITED = new RegExp(
  ` (?:local|locally|residuals?|detrended|de-trended|differenced|smoothed|moving|rolling|running|within each|weekdays?|weekends?|nights?|days|(?:removing|subtracting) (?:the|its|an?|this)|${OF_EVENT}|(?:plateau|baseline|segment|anomaly)(?: [a-z]{1,12}){0,2}) `,
);
/** The same behind it. */
const LIMITED_BEHIND = new RegExp(
  `^(?: ${SAMPLES})?(?: \\))? (?:${OF_EVENT} |(?:before|earlier|afterwards?|later) (?:[,;]|$))`,
);
/** Words directly before a statement about the series as a whole, and about what is usual there. */
const OVERALL = / (?:overall|global|whole|total|entire)(?: [a-z]{1,12})? $/;
const USUAL_ONE = / (?:usual|normal|typical|regular)(?: [a-z]{1,12})? $/;

const ANOMALOUS =
  / (?:anomal\w{0,9}|spikes?|spiking|outliers?|unusual\w{0,2}|abnormal\w{0,4}|departs?|departure|(?<! standard )deviat\w{1,4}|discords?|irregular\w{0,4}|flagged|suspicious|odd|disrupt\w{0,4}|distort\w{0,4}|breaks?|glitch|flaw|atypical|unlike|faulty|stands? out|decides|different from) /;
const DENIED = new RegExp(
  ` (?:no|not|n't|nothing|none|never|without|neither|nor)(?! (?:only|just|doubt|longer)) (?:(?!and |but |with |[,;:] )[^ ]{1,20} ){0,3}${ANOMALOUS.source.slice(1)}`,
);
/** Words by which a clause with a word of `ANOMALOUS` does not call a stretch anomalous; the first ones deny that it is. */
const EXCLUDED = / (?:ruled out|excluded) /;
const CALM =
  / (?:(?:is|are|was|were|looks?|seems?|appears?|stays?|remains?|behaves?|oscillates?|continues?|repeats?)(?: [a-z]{1,12})? (?:normal|normally|regular|regularly|stable|fine)|(?:regular|periodic|recurring|repeating|repeated)(?: [a-z-]{1,12})? (?:spikes?|outliers?)) /;
/** Words before a stretch by which it is what others are compared with, or bounds of a value. */
const COMPARED =
  / (?:unlike|(?:compared|contrast|relative|similar) (?:to|with)|than (?=in |at |from |between |the ))(?: (?!,)[^ ]{1,12}){0,3} $/;
const CHANGES = new RegExp(
  ` (?:${RISE}|${FALL}|jumps?|jumped|shifts?|shifted|changes?|changed|goes|moves|drifts|switches)(?: [a-z]{1,12})? from $`,
);
/** Words before a statement in its clause by which it is doubted, denied, supposed or still to be checked. */
const DOUBTED =
  / (?:wrong|false|untrue|incorrect|not (?:true|right|correct|the case|clear|sure)|no (?:sign|evidence|indication|hint) (?:that|of)|(?<!no )doubt\w{0,4}|unlikely|impossible|mistake\w{0,3}|if|whether|unless|suppos\w{1,4}|assum\w{1,5}|hypothe\w{1,8}|imagine|maybe|perhaps|possibly|presumably|guess|might|may|could|would|should|(?:look|search|check|test)\w{0,3} for) /;
const DENIES = / (?:no|not|never|without|nor|neither|hardly) /;
/** Denial of the words that follow it. */
const NEGATED = / (?:no|not|never|without|nor|neither)(?: [^ ]{1,20}){0,2} $/;
/** Those that leave it possible. */
const MODAL = / (?:maybe|perhaps|possibly|presumably|guess|might|may|could|would|should) /;
/** Denial of a statement a few words before it; directly before it, it is denied. */
const REMOTELY_DENIED =
  / (?:no|not|never|without|nor|neither|hardly)(?! (?:only|just|doubt))(?: (?!and |but |with )[a-z][^ ,;:()]*){1,3} $/;
/** Words behind a statement by which it is denied. */
const REFUTED =
  /^(?: [^ ;.N]{1,20}){0,4} (?:wrong|false|untrue|incorrect|not (?:true|right|correct|the case)|ruled out|excluded|unlikely|impossible|implausible|doubtful|mistaken?|not (?:supported|plausible|possible|fit|match|hold)|can not be) /;
/** Other numbers behind a stated one, which leave open which is meant. */
const LISTED = new RegExp(
  `^(?: ${SAMPLES})?(?: [,;(])?(?: (?:or|versus|vs|alternatively|maybe|perhaps|possibly)(?: [a-z]{1,12}){0,2} N| and(?: about)? N(?= (?:${SAMPLES} )?(?:[,;:)(]|and|or|$))|(?<= ;) N(?= (?:[,;]|$))|(?<= ,) N(?! (?:units? |% )?(?:above|below|higher|lower|more|less|times) )) `,
);
const HEDGE = / (?:about|around|some|close|up to|or so|hovers|estimated|fairly|slightly|near) /;
const HERE =
  / (?:there|this (?:interval|segment|stretch|region|window|range|part|section|period)|inside it|within it|in it|that (?:interval|segment|stretch|region|window|part)) /;
const WHOLE = / (?:overall|global|globally|entire|whole|full series) /;
const DOWN = new RegExp(` (?:${FALL}|below|under|downward) `);
const UP = new RegExp(` (?:${RISE}|above|over|upward) `);
/** Changes that happen at one index, and levels that do not lie on a line. */
const ABRUPT = / (?:jumps|jumped|shifts|changes|mean|average|median) /;
/** Direction of a trend whose slope follows. */
const SLOPING =
  / (?:(downward|negative|decreasing|declining|falling|decrease|decline)|upward|positive|increasing|rising|increase|rise)(?: (?:trend|line|drift|with|has|of|and|a|an|constant|linear|steady|the)){0,6} $/;
const MAIN = / (?:dominant|main|primary|strongest|principal) /;
const SIGNED = / (?:positive|negative|upward|downward) /;
const DIP = / (?:dips?|dipped|dipping|troughs?|plunges|plunged|local minimum|lowest) /;
const PEAK = / (?:peaks?|peaked|peaking|surges|surged|shoots|local maximum|highest) /;
const EXCEPT =
  / (?:apart from|except|other than|otherwise|aside from|excluding|outside|elsewhere|rest|remaining|without|besides|(?:all|every) other) /;
const MOSTLY =
  / (?:mostly|mainly|usually|typically|generally|normally|most of the time|(?:most|(?:about|nearly|almost) all)(?: of)?(?: the)? (?:values|points|samples|readings|counts)) /;
const CLAUSE = / (?:;|while|whereas|but|however) /gu;
/** Borders of a contrast, and of what is said of one place. */
const CONTRAST = / (?:while|whereas|but|however|though|although|, then) /gu;
const PLACE_CLAUSE =
  / (?:;|while|whereas|but|however|though|although|, then|, and(?! (?:N|at|near|around|index|indices|from|between|to|another) )) /gu;

interface Place {
  readonly interval: Interval;
  readonly numbers: readonly PrintedNumber[];
  readonly at: number;
  readonly end: number;
  /** True for a part of the series that limits what is said ("before index 200"), and is no place itself. */
  readonly isPart: boolean;
  /** As `Claim.share`. */
  readonly share?: Interval;
}

const isIndex = ({ value, rounding }: PrintedNumber): boolean =>
  rounding === 0.5 && Number.isInteger(value) && value >= 0;

/** Values of words that stand for numbers. */
const WORD_VALUES: Readonly<Record<string, number>> = {
  ...NUMBER_WORDS,
  ...{ twice: 2, double: 2, triple: 3, half: 0.5, no: 0, zero: 0 },
};

/** Windows that an inspection lists in its answer. */
const PATH = /\blooked at \w+@[\d.]+(?:, \w+@[\d.]+)*/;

/** Reads the claims of a text about a series whose channels have these names, in the order of the text. */
export function claimsOf(text: string, names: readonly string[] = ['value']): ClaimReading {
  const claims: Claim[] = [];
  const phrases = channelPhrases(names);
  const scan = SCAN.exec(text);
  const [scanFrom, scanTo] = scan === null ? [0, 0] : [scan.index, scan.index + scan[0].length];
  const path = PATH.exec(text);
  const [pathFrom, pathTo] = path === null ? [0, 0] : [path.index, path.index + path[0].length];
  let numbers = 0;
  let channel: number | null = names.length === 1 ? 0 : null;
  let last: Interval | null = null;
  for (const sentence of sentences(text)) {
    const mentions = names.length === 1 ? [] : mentionsOf(sentence, phrases, names.length);
    // Digits of a scan are its ruler or levels, those of a path the windows.
    numbers += sentence.tokens.filter(
      ({ number: printed }) =>
        printed !== null &&
        !(printed.span[0] >= scanFrom && printed.span[1] <= scanTo) &&
        !(printed.span[0] >= pathFrom && printed.span[1] <= pathTo),
    ).length;
    if (claims.length < MOST_CLAIMS && !sentence.asks && /\p{L}/u.test(sentence.text.replaceAll('N', ''))) {
      const read = claimsOfSentence(text, sentence, { mentions, channel, last });
      claims.push(...read.claims.slice(0, MOST_CLAIMS - claims.length));
      last = read.places.findLast(({ isPart }) => !isPart)?.interval ?? last;
    }
    const named = new Set(mentions.map((mention) => mention.channel));
    if (named.size > 0 && names.length > 1) channel = named.size === 1 ? [...named][0]! : null;
  }
  if (scan !== null) {
    const place = { at: null, within: null, channel, span: [scanFrom, scanTo] as const };
    claims.push({ ...PLAIN, ...place, quantity: 'scan', numbers: [], uses: [], scan: scan[1]! });
  }
  return { claims, numbers };
}

interface Mention {
  readonly at: number;
  readonly channel: number;
  readonly number: PrintedNumber | null;
}

function channelPhrases(names: readonly string[]): (readonly [phrase: string, channel: number])[] {
  const phrases: [string, number][] = [];
  for (const [c, name] of names.slice(0, MOST_NAMES).entries()) {
    const first = sentences(name).next();
    if (!first.done) phrases.push([first.value.text, c]);
  }
  // "acc x total" is not "acc x".
  return phrases.sort((a, b) => b[0].length - a[0].length);
}

function mentionsOf(
  sentence: Sentence,
  phrases: readonly (readonly [string, number])[],
  channels: number,
): Mention[] {
  const mentions: Mention[] = [];
  const covered: [number, number][] = [];
  for (const [phrase, channel] of phrases) {
    if (phrase.includes('N')) continue;
    for (let at = sentence.text.indexOf(phrase); at >= 0; at = sentence.text.indexOf(phrase, at + 1)) {
      const end = at + phrase.length;
      const free = covered.every(([from, to]) => end <= from + 1 || at >= to - 1);
      const follows = sentence.text.slice(end, end + 5);
      if (!free || (phrase.length === 3 && /^(?:=|axis|\[)/.test(follows))) continue;
      covered.push([at, end]);
      mentions.push({ at, channel, number: null });
    }
  }
  for (const match of sentence.text.matchAll(/ (?:channel|variate|variable|sensor|dimension) N(?= )/gu)) {
    const [number] = numbersIn(sentence, [match.index, match.index + match[0].length]);
    if (number !== undefined && isIndex(number) && number.value < channels) {
      mentions.push({ at: match.index, channel: number.value, number });
    }
  }
  return mentions.sort((a, b) => a.at - b.at);
}

interface Around {
  readonly mentions: readonly Mention[];
  readonly channel: number | null;
  readonly last: Interval | null;
}

function claimsOfSentence(
  text: string,
  sentence: Sentence,
  around: Around,
): { claims: Claim[]; places: Place[] } {
  const taken = new Set<PrintedNumber>();
  const drafts: Draft[] = [];
  // Most sentences neither doubt nor deny anything.
  const doubts = DOUBTED.test(sentence.text) || DENIES.test(sentence.text);
  const add = (rule: Pattern, match: RegExpExecArray): void => {
    const groups = match.indices!.groups!;
    const stated = rangeOf(sentence, groups.v);
    const second = rangeOf(sentence, groups.w);
    const place = rangeOf(sentence, groups.i ?? groups.j)[0] ?? null;
    const used = [...stated, ...second, ...(place === null ? [] : [place])];
    if (used.length === 0 || used.some((number) => taken.has(number))) return;
    if (rule.notBehind?.test(` ${sentence.text.slice(Math.max(0, match.index - 40), match.index)} `)) return;
    const inner = place !== null && stated.length === 0;
    for (const number of used) taken.add(number);
    const end = match.index + match[0].length;
    if (isDoubted(sentence, match.index, end, doubts)) return;
    const said = sentence.text.slice(groups.v?.[0] ?? 0, groups.v?.[1] ?? 0);
    const before = `${sentence.text.slice(Math.max(0, match.index - 24), match.index)} `.replace(
      /^[^ ]*/,
      '',
    );
    const gap = ` ${sentence.text.slice(match.index + 1, groups.v?.[0] ?? end)} `;
    const { relation, negated, hedged } = modifiers(rule, gap, before);
    const relevant = numbersOfQuantity(rule, stated, sentence, groups.v);
    drafts.push({
      at: match.index,
      end,
      isLevel: rule.isLevel,
      claim: {
        quantity: rule.quantity,
        numbers: inner ? [place] : [...relevant, ...second],
        range: relevant.length === 2 && !PAIRS.has(rule.quantity) && second.length === 0,
        relation,
        hedged:
          hedged ||
          / (?:about|or so) /.test(` ${said} `) ||
          / or so /.test(sentence.text.slice(end, end + 8)),
        negated,
        at: place,
        within: null,
        channel: channelAt(around, sentence, match.index, end),
        span: spanOf(sentence, match.index + 1, end),
        ...(isPercent(sentence, groups.v) && !rule.quantity.startsWith('share') ? { percent: true } : {}),
        ...(rule.quantity === 'period' && MAIN.test(`${before}${match[0]} `) ? { isMain: true } : {}),
        ...directionOf(rule, match[0], `${sentence.text.slice(Math.max(0, match.index - 40), match.index)} `),
        uses: used.map(({ span }) => span),
      },
    });
  };
  for (const template of TEMPLATES) {
    if (!template.needs.every((words) => sentence.text.includes(words))) continue;
    for (const match of matchesOf(template.pattern, sentence.text)) {
      const statement = statementOf(text, sentence, template.phrase, match);
      const used = numbersIn(sentence, [match.index, match.index + match[0].length]);
      const end = match.index + match[0].length;
      // "Flat line" of "flat line 2 sd" is no shape.
      const within = used.length === 0 && drafts.some((draft) => match.index < draft.end && end > draft.at);
      if (within || used.some((number) => taken.has(number))) continue;
      if (isProse(sentence, match.index, end, doubts)) continue;
      for (const number of used) taken.add(number);
      drafts.push({
        at: match.index,
        end,
        isLevel: false,
        claim: {
          ...PLAIN,
          quantity: template.phrase.quantity,
          numbers: statement.numbers.flat(),
          at: null,
          within: null,
          channel: channelAt(around, sentence, match.index, end),
          span: spanOf(sentence, match.index + 1, end),
          uses: used.map(({ span }) => span),
          statement,
        },
      });
    }
  }
  for (const { number } of around.mentions) if (number !== null) taken.add(number);
  const hasNumber = sentence.tokens.some(({ number }) => number !== null);
  for (const rule of PATTERNS) {
    if (!rule.takesWords && !hasNumber) continue;
    for (const match of matchesOf(rule.pattern, sentence.text)) add(rule, match);
  }
  const places = placesOf(sentence, taken);
  for (const place of places) for (const number of place.numbers) taken.add(number);
  // "No anomaly between …" counts none there.
  const counted = drafts.filter(
    ({ claim }) =>
      claim.quantity !== 'anomalies' || claim.numbers[0]!.value > 0 || places.every(({ isPart }) => isPart),
  );
  const claims = counted.map((draft) => placed(draft, sentence, places, around));
  const departs = ANOMALOUS.test(sentence.text);
  const located = places
    .filter(
      ({ interval, isPart }) => !isPart && (departs || !claims.some(({ within }) => within === interval)),
    )
    .map((place): Claim => {
      const { interval, numbers, at, end } = place;
      const lead = ` ${sentence.text.slice(Math.max(0, at - 16), at)} `;
      const called = departs ? calledAnomalous(sentence, place) : null;
      return {
        ...PLAIN,
        quantity: called === null ? 'place' : 'anomaly',
        numbers,
        hedged:
          called === 'perhaps' ||
          (called !== null && (HEDGE.test(lead) || HEDGE.test(sentence.text.slice(at, end)))),
        negated: called === 'no',
        at: null,
        within: interval,
        channel: channelAt(around, sentence, at, end),
        span: spanOf(sentence, at + 1, end),
        uses: numbers.map(({ span }) => span),
      };
    });
  return { claims: [...claims, ...located].sort((a, b) => a.span[0] - b.span[0]), places };
}

/** Claim as its pattern reads it, before the places of its sentence are known. */
interface Draft {
  readonly claim: Claim;
  readonly at: number;
  readonly end: number;
  readonly isLevel: boolean;
}

/** Quantities of the whole series that may yet be said of a part. */
const COUNTS = new Set(['anomalies', 'missing', 'gaps']);

/** Limits a claim to the stretch that its clause names; its quantity is "of a part" where that is not known. */
function placed(
  { claim: stated, at, end, isLevel }: Draft,
  sentence: Sentence,
  places: readonly Place[],
  around: Around,
): Claim {
  const { text } = sentence;
  const claim = ofMost(stated, sentence, at, end);
  const ofPart = { ...claim, quantity: `${claim.quantity} of a part` };
  if (claim.at !== null || claim.statement !== undefined) return claim;
  const [from, to] = clauseOf(sentence, at);
  const clause = ` ${text.slice(from, to)} `;
  const lead = `${text.slice(from, at)} `;
  const inside = places.filter(
    (place) =>
      place.at >= from && place.at < to && (place.isPart || place.interval[1] > place.interval[0] + 1),
  );
  if (WHOLE_SERIES.has(claim.quantity)) {
    const isLimited =
      EXCEPT.test(clause) || LIMITED_BEHIND.test(text.slice(end, to)) || inside.some(({ isPart }) => isPart);
    return COUNTS.has(claim.quantity) && isLimited ? ofPart : claim;
  }
  const point = places.findLast(
    (place) => !place.isPart && place.numbers.length === 1 && place.at >= from && place.at < at,
  );
  if (claim.quantity === 'from to' && point !== undefined) {
    const [index] = point.numbers as [PrintedNumber];
    return { ...claim, at: index, uses: [...claim.uses, index.span] };
  }
  if (
    claim.quantity === 'spikes' &&
    claim.falls === undefined &&
    / (?:dips?|drops?|troughs?) /.test(clause)
  ) {
    return ofPart;
  }
  if (OVERALL.test(lead) || claim.quantity === 'usual range') return claim;
  if (USUAL_ONE.test(lead)) return isLevel ? ofPart : claim;
  const behind = inside.find((place) => place.at >= end);
  const follows =
    behind !== undefined &&
    /^(?: [^ ,;]{1,12})?$/.test(text.slice(end, behind.at)) &&
    !/ and$/.test(text.slice(end, behind.at));
  const near = follows
    ? behind
    : (inside.filter((place) => place.at < at + 1).at(-1) ?? inside.find((place) => place.at > at));
  if (near !== undefined) {
    const left = ` ${text.slice(from, near.at)} `;
    if (EXCEPT.test(left) && !inside.some((place) => place.at < near.at)) return ofPart;
    const uses = [...claim.uses, ...near.numbers.map(({ span }) => span)];
    return near.share === undefined
      ? { ...claim, within: near.interval, uses }
      : { ...claim, share: near.share, uses };
  }
  if (SIDE.test(clause) || (EXCEPT.test(clause) && isLevel)) return ofPart;
  const earlier = places.findLast((place) => !place.isPart && place.at < from)?.interval ?? around.last;
  const here = HERE.test(clause) && !WHOLE.test(clause) ? earlier : null;
  if (here !== null) return { ...claim, within: here };
  const isAbrupt = ABRUPT.test(`${lead.slice(-24)}${text.slice(at + 1, end)} `);
  if (claim.quantity === 'from to') return isAbrupt || LIMITED.test(lead) ? ofPart : claim;
  if (!isLevel && claim.quantity !== 'slope') return claim;
  const isLimited =
    LIMITED.test(`${lead}${text.slice(at + 1, end)} `) || LIMITED_BEHIND.test(text.slice(end, to));
  return isLimited ? ofPart : claim;
}

/** Returns true for a place that the words around it call anomalous, false where they deny that, and null where they do neither. */
function calledAnomalous(sentence: Sentence, { at, interval }: Place): 'yes' | 'perhaps' | 'no' | null {
  const { text } = sentence;
  const [from, to] = clauseOf(sentence, at, PLACE_CLAUSE);
  const [start] = clauseOf(sentence, at, CONTRAST);
  const own = ` ${text.slice(from, to)} `;
  const lead = `${text.slice(from, at)} `;
  if (EXCEPT.test(` ${lead}`) || COMPARED.test(` ${lead}`)) return null;
  if (interval[1] > interval[0] + 1 && CHANGES.test(` ${lead}`)) return null;
  const said = ANOMALOUS.test(own) ? own : CALM.test(own) ? '' : ` ${text.slice(start, from)} `;
  if (!ANOMALOUS.test(said)) return null;
  if (DENIED.test(said) || EXCLUDED.test(said)) return 'no';
  if (CALM.test(said)) return null;
  const doubt = DOUBTED.exec(` ${text.slice(start, at)} `)?.[0];
  if (doubt === undefined) return 'yes';
  return MODAL.test(doubt) ? 'perhaps' : null;
}

/** Returns the direction that the words of a statement have; of a value also dips and peaks have one. */
function directionOf({ quantity }: Pattern, words: string, before: string): { falls?: boolean } {
  const sloping = quantity === 'slope' ? SLOPING.exec(before) : null;
  if (sloping !== null) return { falls: sloping[1] !== undefined };
  if (quantity === 'spikes' && SIGNED.test(words)) return { falls: / (?:negative|downward) /.test(words) };
  const isDip = quantity === 'value' && DIP.test(words);
  const isPeak = quantity === 'value' && PEAK.test(words);
  if (isDip && isPeak) return {};
  const said = quantity === 'slope' ? words.replace(/ (?:above|over|below|under)(?= )/g, '') : words;
  if (DOWN.test(said) || isDip) return { falls: true };
  return UP.test(said) || isPeak ? { falls: false } : {};
}

/** Returns the clause up to a place. */
function clauseBefore(sentence: Sentence, at: number): string {
  const [from] = clauseOf(sentence, at);
  return `${sentence.text.slice(from, at)} `;
}

/** Returns true for a statement that its clause doubts, denies or supposes, or that lists other numbers beside its own. */
function isDoubted(sentence: Sentence, at: number, end: number, doubts: boolean): boolean {
  const behind = sentence.text.slice(end, end + 80);
  if (REFUTED.test(behind) || LISTED.test(behind)) return true;
  if (!doubts) return false;
  const before = clauseBefore(sentence, at);
  return DOUBTED.test(before) || REMOTELY_DENIED.test(before);
}

/** Returns true for the words of a trace's statement in a sentence that denies them, or compares a size with the mean. */
function isProse(sentence: Sentence, at: number, end: number, doubts: boolean): boolean {
  if (/^ (?:above|below|from|away|off|over) /.test(sentence.text.slice(end, end + 8))) return true;
  if (!doubts) return false;
  const before = clauseBefore(sentence, at);
  return NEGATED.test(before) || DOUBTED.test(before);
}

const BOUNDS = new Set(['range', 'kept range', 'swing']);

/** Takes bounds that are said of most values for those of the usual range. */
function ofMost(claim: Claim, { text }: Sentence, at: number, end: number): Claim {
  if (!BOUNDS.has(claim.quantity)) return claim;
  const around = ` ${text.slice(Math.max(0, at - 32), end + 20)} `;
  return MOSTLY.test(around) ? { ...claim, quantity: 'usual range' } : claim;
}

/** Lists the matches of a pattern with the flag g. `matchAll` would copy every pattern for every sentence: a sixth of the time. */
function matchesOf(pattern: RegExp, text: string): RegExpExecArray[] {
  const out: RegExpExecArray[] = [];
  pattern.lastIndex = 0;
  for (let match = pattern.exec(text); match !== null; match = pattern.exec(text)) {
    out.push(match);
    if (match[0] === '') pattern.lastIndex++;
  }
  return out;
}

/** Attributes of a claim that neither compares, hedges nor denies. */
const PLAIN = { range: false, relation: 'is', hedged: false, negated: false } as const;

interface Template {
  readonly phrase: Phrase;
  /** Words without which no sentence matches: the opening, and the longest literal. */
  readonly needs: readonly string[];
  readonly pattern: RegExp;
}

/** Returns words as a pattern over tokens, each with a space before it. */
function tokensOf(words: string): string {
  const { value } = sentences(words).next();
  return value === undefined ? '' : value.text.trimEnd().replace(/[.*+?^${}()|[\]\\]/g, '\\$&');
}

function templateOf(phrase: Phrase): Template {
  const parts = phrase.literals.map((literal, k) => {
    const slot = phrase.slots[k];
    if (slot === undefined) return tokensOf(literal);
    return `${tokensOf(literal)}(${slot.pattern ?? slot.kind.split('|').map(tokensOf).join('|')})`;
  });
  const literals = [...phrase.literals].sort((a, b) => b.length - a.length);
  const needs = [phrase.opening ?? '', literals[0]!].map((words) => tokensOf(words).replaceAll('\\', ''));
  return {
    phrase,
    needs: needs.filter((words) => words !== ''),
    pattern: new RegExp(`${parts.join('')}(?= )`, 'dgu'),
  };
}

/** Statements of traces by table; earlier ones take their numbers from later ones. */
export const PHRASE_TABLES: readonly Readonly<Record<string, Phrase>>[] = [
  ...TRACE_PHRASES,
  CYCLE_PHRASES,
  CLASS_PHRASES,
  VARIATE_PHRASES,
  NANO_PHRASES,
  NANO_FACTS,
  NANO_DEPARTURES,
  NANO_GRADES,
];

const TEMPLATES: readonly Template[] = PHRASE_TABLES.flatMap((phrases) =>
  Object.values<Phrase>(phrases).map(templateOf),
);

function statementOf(text: string, sentence: Sentence, phrase: Phrase, match: RegExpExecArray): Statement {
  const numbers: PrintedNumber[][] = [];
  const contents = phrase.slots.map(({ kind }, k): Slot => {
    const [from, to] = match.indices![k + 1]!;
    const stated = numbersIn(sentence, [from, to]);
    const isText = kind === 'label' || kind === 'name';
    numbers.push(isText ? [] : stated);
    if (isText) return text.slice(...spanOf(sentence, from + 1, to));
    if (kind === 'n' || kind === 'int') return stated[0]!.value;
    if (kind === 'pairs') return null;
    if (kind !== 'list') return match[k + 1]!.trim();
    return Array.from({ length: stated.length >> 1 }, (_, i): Interval => {
      return [stated[2 * i]!.value, stated[2 * i + 1]!.value];
    });
  });
  return { phrase, contents, numbers };
}

/** Quantities of which two numbers are two, not bounds of one. */
const PAIRS = new Set(['range', 'usual range', 'kept range', 'swing', 'from to']);
const WHOLE_SERIES = new Set([
  'length',
  'channels',
  'missing',
  'gaps',
  'longest gap',
  'anomalies',
  'index of maximum',
  'index of minimum',
  'missing at',
]);

function rangeOf(sentence: Sentence, group: readonly [number, number] | undefined): PrintedNumber[] {
  if (group === undefined) return [];
  const numbers = numbersIn(sentence, group);
  if (numbers.length > 0) return numbers;
  const word = sentence.text.slice(...group).trim();
  if (!Object.hasOwn(WORD_VALUES, word)) return [];
  return [{ value: WORD_VALUES[word]!, rounding: 0, span: spanOf(sentence, ...group) }];
}

/** Converts numbers to the unit of the quantity: percentages to parts, "± b" to both ends. */
function numbersOfQuantity(
  { quantity }: Pattern,
  stated: readonly PrintedNumber[],
  sentence: Sentence,
  group: readonly [number, number] | undefined,
): PrintedNumber[] {
  const text = group === undefined ? '' : sentence.text.slice(...group);
  if (text.includes('±')) {
    const [a, b] =
      stated.length === 2
        ? [stated[0]!, stated[1]!]
        : [{ value: 0, rounding: 0, span: stated[0]!.span }, stated[0]!];
    return [
      { value: a.value - b.value, rounding: a.rounding, span: a.span },
      { value: a.value + b.value, rounding: a.rounding, span: b.span },
    ];
  }
  if (isPercent(sentence, group) && !quantity.startsWith('share')) {
    return stated.map(({ value, rounding, span }) => ({
      value: value / 100,
      rounding: rounding / 100,
      span,
    }));
  }
  return [...stated];
}

const isPercent = ({ text }: Sentence, group: readonly [number, number] | undefined): boolean =>
  group !== undefined && text.startsWith(' %', group[1]);

function modifiers(
  rule: Pattern,
  gap: string,
  before: string,
): { relation: Relation; negated: boolean; hedged: boolean } {
  const hedged = HEDGE.test(
    gap.replace(/ (?:at|near|around) (?=(?:index|sample|step|point|position|t|x) )/g, ' '),
  );
  if (rule.relation !== null) {
    const flips = / not /.test(gap) && !/^ (?:no|none|never|not|all|every|everything|the) /.test(gap);
    const turned = rule.relation === 'above' ? 'below' : 'above';
    return { relation: flips ? turned : rule.relation, negated: false, hedged };
  }
  const denied = / (?:not|never) /.test(gap);
  const above = / (?:above|exceeds?|exceeding|over|(?:more|greater|larger|higher) than|at least) /.test(gap);
  const below = / (?:below|under|(?:less|smaller|lower) than|at most) /.test(gap);
  if (above !== below) {
    const up = above !== denied;
    return { relation: up ? 'above' : 'below', negated: false, hedged };
  }
  return { relation: 'is', negated: denied || / (?:no|not) (?:a |the )?$/.test(before), hedged };
}

function spanOf(sentence: Sentence, from: number, to: number): readonly [number, number] {
  const { tokens } = sentence;
  const first = tokens[tokenAt(sentence, from)]!;
  const last = tokens[tokenAt(sentence, Math.max(from, to - 1))]!;
  return [first.span[0], last.span[1]];
}

function clauseOf({ text }: Sentence, at: number, border = CLAUSE): readonly [number, number] {
  let from = 0;
  for (const match of matchesOf(border, text)) {
    if (match.index > at) return [from, match.index];
    from = match.index + 1;
  }
  return [from, text.length];
}

/** Words before a channel's name by which others are compared with it, and by which a number is its own. */
const OTHER_CHANNEL =
  / (?:than|unlike|(?:compared|relative|contrast|contrary) (?:to|with))(?: (?:the|that|of|in|for))* $/;
const OWN_CHANNEL = / (?:in|for|of) (?:the )?$/;

/** Returns the channel of a statement: one named in it, or behind it up to the next comma, or the last one before. */
function channelAt(
  { mentions, channel }: Around,
  { text }: Sentence,
  at: number,
  end: number,
): number | null {
  if (mentions.length === 0) return channel;
  const leads = (mention: Mention, words: RegExp): boolean =>
    words.test(` ${text.slice(Math.max(0, mention.at - 24), mention.at + 1)}`);
  const own = mentions.filter((mention) => !leads(mention, OTHER_CHANNEL));
  const comma = text.slice(end).search(/ [,;] /);
  const clauseEnd = comma < 0 ? text.length : end + comma;
  const named =
    own.filter((mention) => mention.at > at && mention.at < end).at(-1) ??
    own.find((mention) => mention.at >= end - 1 && mention.at < clauseEnd && leads(mention, OWN_CHANNEL)) ??
    own.filter((mention) => mention.at <= at).at(-1);
  return (named ?? own[0] ?? mentions[0])?.channel ?? channel;
}

/** Finds intervals, parts and indices that no other claim has taken. */
function placesOf(sentence: Sentence, taken: ReadonlySet<PrintedNumber>): Place[] {
  const { text } = sentence;
  const places: Place[] = [];
  const isFree = sentence.tokens.some(({ number }) => number !== null && !taken.has(number));
  const hasParts = PART_CUE.test(text);
  if (!isFree && !hasParts) return places;
  const used = new Set(taken);
  const add = (
    match: RegExpExecArray,
    interval: Interval,
    numbers: readonly PrintedNumber[],
    part = {},
  ): void => {
    for (const number of numbers) used.add(number);
    const end = match.index + match[0].length;
    places.push({ interval, numbers, at: match.index, end, isPart: false, ...part });
  };
  for (const match of isFree ? matchesOf(INTERVAL, text) : []) {
    const groups = match.indices!.groups!;
    const bracketed = groups.b !== undefined;
    const [first, second, more] = numbersIn(sentence, groups.a ?? groups.b ?? groups.c ?? groups.d!);
    if (first === undefined || second === undefined || more !== undefined) continue;
    if (used.has(first) || used.has(second) || !isIndex(first) || !isIndex(second)) continue;
    if (first.value >= second.value && !bracketed) continue;
    add(match, [first.value, second.value], [first, second]);
  }
  for (const match of hasParts ? matchesOf(PART, text) : []) {
    const { share, first, before, from, below, n, ...ends } = match.indices!.groups!;
    if (share !== undefined) {
      const [which, part] = text.slice(...share).split(' ') as [string, string];
      const count = WHOLE_PARTS[part]!;
      const index = SHARES[which]!;
      const k = index < 0 ? count - 1 : index;
      if (k >= count || (which === 'middle' && count !== 3)) continue;
      add(match, [0, 1], [], { isPart: true, share: [k / count, (k + 1) / count] });
      continue;
    }
    const [number] = numbersIn(sentence, n ?? ends.i ?? ends.j ?? ends.k ?? ends.l!);
    if (number === undefined || used.has(number) || !isIndex(number)) continue;
    const { value } = number;
    const isFirst =
      n !== undefined
        ? first !== undefined
        : ends.j === undefined &&
          (ends.k !== undefined ? from === undefined : (before ?? below) !== undefined);
    const interval = isFirst
      ? ([0, value] as const)
      : n !== undefined
        ? ([-value, Infinity] as const)
        : ([value, Infinity] as const);
    add(match, interval, [number], { isPart: true });
  }
  for (const match of isFree ? matchesOf(POINT, text) : []) {
    const [number] = rangeOf(sentence, match.indices!.groups!.v);
    if (number === undefined || used.has(number) || !isIndex(number)) continue;
    const listed = / (?:,|and) N$/.test(match[0]) || /^ (?:,|and) /.test(match[0]);
    if (listed && places.every(({ numbers }) => numbers.length === 2)) continue;
    add(match, [number.value, number.value + 1], [number]);
  }
  return places.sort((a, b) => a.at - b.at);
}
