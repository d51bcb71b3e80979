/**
 * JSON schemas of a report and of the state file, with their types. Everything that writes reports imports the types alone: loading the
 * schema library takes longer than a detection.
 */
import { z } from 'zod';
import type { Finding } from '../detect/finding.ts';
import { KINDS, LEVELS, type Level } from '../detect/finding.ts';
import { QUANTITIES, type Stated } from '../detect/sentence.ts';
import { DataError } from '../ground/errors.ts';
import { DEPARTURE_KINDS } from '../ground/types.ts';
import { REPORT_SCHEMA, VERSION } from './report.ts';

const finite = z.number();
const index = z.int().nonnegative();
const LEVEL_NAMES = Object.keys(LEVELS) as [Level, ...Level[]];

const PLACE = { quantity: z.enum(QUANTITIES), start: index, end: index };

/** Claim of a sentence; see `detect/sentence.ts`. */
const STATED = z.strictObject({
  text: z.string(),
  at: index,
  ...PLACE,
  number: z.exactOptional(finite),
  tolerance: z.exactOptional(finite.nonnegative()),
  more: z.exactOptional(z.strictObject(PLACE)),
  less: z.exactOptional(z.strictObject(PLACE)),
  finding: z.exactOptional(z.string()),
});

/**
 * Instant: `ms` since 1970, or since the recording's `origin`; stamps without a zone count as UTC. `iso` is null where there is no date.
 */
const INSTANT = z.strictObject({ iso: z.string().nullable(), shown: z.string(), ms: finite });

/** Extent: half-open in samples, with the stamps of its first and its last sample. */
const EXTENT = z.strictObject({
  start: index,
  end: index,
  from: INSTANT.nullable(),
  to: INSTANT.nullable(),
});

const ROWS = z.strictObject({ first: z.int().positive(), last: z.int().positive() });

/** Assumption made when the file was read, or fault of its data, such as a gap: its place (null: the whole file) and number. */
const NOTE = z.strictObject({
  kind: z.string(),
  /** True for a fault. */
  quality: z.boolean(),
  column: z.string().nullable(),
  start: index.nullable(),
  end: index.nullable(),
  from: INSTANT.nullable(),
  to: INSTANT.nullable(),
  rows: ROWS.nullable(),
  count: index.nullable(),
  text: z.string(),
  /** Option that treats it, such as `--rate bytes`. */
  option: z.string().nullable(),
});

/** The detector's finding with its column, time, lines of the file and rank. */
const FINDING = z.strictObject({
  /** Hash of column, kind and beginning: stays the same in a later report of the same recording. */
  id: z.string(),
  /** 1 is the most severe. */
  rank: z.int().positive(),
  column: z.string(),
  ...EXTENT.shape,
  /** Length from the first sample to the end of the last one; null without time. */
  durationSeconds: finite.nonnegative().nullable(),
  /** "2 h 35 min", or "12 samples" without time. */
  duration: z.string(),
  kind: z.enum(KINDS),
  direction: z.enum(['above', 'below']).nullable(),
  severity: finite.nonnegative(),
  level: z.enum(LEVEL_NAMES),
  /** Sample with the largest departure. */
  peak: z.strictObject({ index, at: INSTANT.nullable() }),
  /** Values in the extent; null where all are missing. */
  observed: z.strictObject({
    least: finite.nullable(),
    mean: finite.nullable(),
    largest: finite.nullable(),
    peak: finite.nullable(),
  }),
  /** Expected value at the peak, and the band that holds 99 % of the other samples. */
  expected: z.strictObject({
    value: finite.nullable(),
    low: finite.nullable(),
    high: finite.nullable(),
  }),
  /**
   * Earlier cycles of the season at the same phase, latest first: their first samples, least and largest of the values (spike, dip) or of
   * the means over as long a stretch. Null without a season, or where fewer than two cycles are comparable.
   */
  before: z
    .strictObject({ period: finite.positive(), starts: z.array(index), least: finite, largest: finite })
    .nullable(),
  /** Samples before a step of the level, and their mean; null for findings that are no step. */
  stepped: z.strictObject({ since: index, mean: finite }).nullable(),
  /** Sentence: what happened when, the expected values, and earlier ones; `stated` lists its claims. */
  statement: z.string(),
  stated: z.array(STATED),
  evidence: z.strictObject({ for: z.array(z.string()), against: z.array(z.string()) }),
  similar: z.array(EXTENT),
  ongoing: z.boolean(),
  /** True for a level that moved and has stayed. */
  lasting: z.boolean(),
  /** Lines of the file; null where there are none. */
  rows: ROWS.nullable(),
  /**
   * Distance from what was expected, or from the level before a step: of the peak (spike, dip, trend) or the mean (level shift); null for
   * other kinds.
   */
  change: finite.nullable(),
  /** Id of its incident; null where it is alone. */
  incident: z.string().nullable(),
  /** True where a policy marks part of it as well; null where no policy was asked about it, or the policy abstains. */
  markedByPolicy: z.boolean().nullable(),
  /** Share of such findings that are right, by detector and policy; null where no calibrated policy answers. */
  confidence: finite.min(0).max(1).nullable(),
  /** True where an earlier run with the same state file has reported it, and it is still ongoing. */
  reported: z.boolean(),
});

/** Finding as an event of `--follow` has it: without fields that depend on the window or explain the finding. */
const FOLLOWED = FINDING.omit({
  ...{
    rank: true,
    start: true,
    end: true,
    peak: true,
    before: true,
    stepped: true,
    stated: true,
    similar: true,
  },
  ...{
    change: true,
    incident: true,
    evidence: true,
    lasting: true,
    markedByPolicy: true,
    reported: true,
    confidence: true,
  },
});
export type FollowedFinding = z.infer<typeof FOLLOWED>;

/** Findings of several columns at the same time. */
const INCIDENT = z.strictObject({
  id: z.string(),
  ...EXTENT.shape,
  /** Columns by falling severity, with their findings, the most severe first. */
  columns: z.array(
    z.strictObject({ column: z.string(), findings: z.array(z.string()), severity: finite.nonnegative() }),
  ),
  /**
   * Column that departs before all others, and the lag of the next one; null where the beginnings are too uncertain: a slow departure is
   * found late, by up to half of its length.
   */
  first: z
    .strictObject({
      column: z.string(),
      samplesEarlier: z.int().positive(),
      secondsEarlier: finite.nonnegative().nullable(),
    })
    .nullable(),
  durationSeconds: finite.nonnegative().nullable(),
  duration: z.string(),
  severity: finite.nonnegative(),
  level: z.enum(LEVEL_NAMES),
  ongoing: z.boolean(),
  statement: z.string(),
  stated: z.array(STATED),
});

const COUNTS = z.strictObject({ low: index, medium: index, high: index, critical: index, ongoing: index });

/** Counts of findings that detector and policy agree on, and that only one of them has. */
const AGREEMENT = z.strictObject({
  /** Findings that the policy marks as well, and findings that it does not mark. */
  both: index,
  detectorAlone: index,
  /** Findings in columns about which the policy gives no answer. */
  unanswered: index,
  /** Intervals of the policy where there is no finding. */
  policyAlone: index,
});
export type Agreement = z.infer<typeof AGREEMENT>;

/** A departure that a policy claims. */
const POLICY_CLAIM = z.strictObject({
  /** Class of the whole answer. */
  class: z.string().nullable(),
  /** Kind, direction and size (in standard deviations of the noise) of the departure; null where the reasoning states none. */
  kind: z.enum(DEPARTURE_KINDS).nullable(),
  direction: z.enum(['up', 'down']).nullable(),
  size: z.number().positive().nullable(),
});
export type PolicyClaim = z.infer<typeof POLICY_CLAIM>;

/** Reasons not to trust an answer about a window; `trust.ts` measures each. */
const DOUBTS = ['unreadable', 'unlike', 'unsure', 'samples', 'shifts', 'repeated'] as const;
export type Doubt = (typeof DOUBTS)[number];

/** Answer about the window [start, end). */
const ANSWER = z.strictObject({
  start: index,
  end: index,
  /** True if the window was drawn without the season of the series. */
  deseasonalised: z.literal(true).optional(),
  /** Marked intervals in samples of the series; null if the answer cannot be read. For a turn of an inspection: those of all turns so far. */
  intervals: z.array(z.tuple([index, index])).nullable(),
  class: z.string().nullable(),
  /** Verbatim. */
  response: z.string(),
  /** Format error; null for a well-formed answer. */
  problem: z.string().nullable(),
  /** Mean log-probability of its tokens (natural logarithm). */
  logProbability: finite.nullable(),
  /** Distance of the picture from the training data; null where the policy has no record of those. */
  distance: finite.nonnegative().nullable(),
  /** Intersection over union among sampled answers; null for a window that was asked once. */
  sampleAgreement: finite.min(0).max(1).nullable(),
  /** Intersection over union with the overlapping windows; null where none of them marks anything. */
  shiftAgreement: finite.min(0).max(1).nullable(),
  doubts: z.array(z.enum(DOUBTS)),
});
export type PolicyAnswer = z.infer<typeof ANSWER>;

/** Measure of the reliability of the answers about a column. */
const SIGNAL = z.strictObject({
  name: z.enum(DOUBTS),
  /** Label of the measure. */
  text: z.string(),
  /** Mean, median or share over the column; null where it could not be measured. */
  value: finite.nullable(),
  /** Limit beyond which a window is doubtful; null where no limit is known and the measure is not used. */
  limit: finite.nullable(),
  /** Windows measured, and windows beyond the limit. */
  windows: index,
  doubtful: index,
});
export type PolicySignal = z.infer<typeof SIGNAL>;

/** Answers about one column, without the intervals, to which the report adds times. */
const POLICY_COLUMN = z.strictObject({
  column: z.string(),
  /**
   * `abstains`: too many answers are doubtful, so none counts, or an inspection ended without an answer that can be read; `not asked`: all
   * values are equal; `too short`: fewer samples than a fifth of the length that the policy was trained on.
   */
  status: z.enum(['answers', 'abstains', 'not asked', 'too short']),
  /** Sentence: the answer, or the reason for none. */
  statement: z.string(),
  /** Samples per window; null where it was not asked. */
  window: index.nullable(),
  /** Number of doubtful windows; they have no vote. */
  doubtful: index,
  /** Share of doubtful windows above which the policy abstains on the column. */
  limit: finite.min(0).max(1),
  /** Class of most marked samples, over the answers that count; null where none counts. */
  class: z.string().nullable(),
  signals: z.array(SIGNAL),
  answers: z.array(ANSWER),
});
export type PolicyColumn = z.infer<typeof POLICY_COLUMN>;

/** The policy, and caveats for all of its answers. */
const POLICY_HEAD = z.strictObject({
  name: z.string(),
  /** Number of parameters, stage, figure, engine, device. */
  record: z.record(z.string(), z.union([z.string(), z.number()])),
  notes: z.array(z.string()),
});
export type PolicyHead = z.infer<typeof POLICY_HEAD>;

/** Answers of a policy about the same recording; they change no finding, rank or level. */
const POLICY = POLICY_HEAD.extend({
  agreement: AGREEMENT,
  /**
   * One ranking of what detector and policy tell, most confident first, from a confidence of 0.1 on. `finding`: id
   * of the finding there, null where only the policy tells of it. Empty for a policy that was not calibrated.
   */
  ranking: z.array(
    EXTENT.extend({
      column: z.string(),
      confidence: finite.min(0).max(1),
      by: z.enum(['both', 'detector', 'policy']),
      finding: z.string().nullable(),
    }),
  ),
  columns: z.array(
    POLICY_COLUMN.extend({
      /**
       * Marked intervals; empty where it abstains. `finding`: true where a finding of the column overlaps. `confidence`: share of such
       * intervals that are right, null where unknown, absent for a policy that was not calibrated.
       */
      intervals: z.array(
        EXTENT.extend({
          finding: z.boolean(),
          ...POLICY_CLAIM.shape,
          confidence: z.exactOptional(finite.min(0).max(1).nullable()),
        }),
      ),
    }),
  ),
});

/** The published shape of a report. A version has these fields and no others. */
export const REPORT = z.strictObject({
  schema: z.literal(REPORT_SCHEMA),
  version: z.literal(VERSION),
  file: z.string(),
  samples: index,
  /** Stamps of the first and the last sample. */
  from: INSTANT.nullable(),
  to: INSTANT.nullable(),
  stepSeconds: finite.positive().nullable(),
  /** Stretch that was judged, against all before it; null where all was judged. */
  window: EXTENT.nullable(),
  origin: z.enum(['calendar', 'midnight', 'start']),
  zone: z.string().nullable(),
  notes: z.array(NOTE),
  columns: z.array(
    z.strictObject({
      name: z.string(),
      missing: index,
      least: finite.nullable(),
      mean: finite.nullable(),
      largest: finite.nullable(),
      /** Sentence: season and band of the series without the findings. */
      structure: z.string(),
      stated: z.array(STATED),
      /** Seasons in samples. */
      seasons: z.array(finite),
      findings: index,
    }),
  ),
  headline: z.string(),
  stated: z.array(STATED),
  counts: COUNTS,
  findings: z.array(FINDING),
  incidents: z.array(INCIDENT),
  /** Absent where no policy was asked. */
  policy: POLICY.optional(),
});

export type AnomalyReport = z.infer<typeof REPORT>;
type Agrees<A extends B, B> = A;
/** Finding of a report: the detector's record, with its clauses made into a statement. */
export type ReportFinding = Agrees<
  AnomalyReport['findings'][number],
  Omit<Finding<number | null>, 'says'> & { readonly stated: readonly Stated[] }
>;
export type ReportIncident = AnomalyReport['incidents'][number];
export type Instant = z.infer<typeof INSTANT>;

/** Returns the JSON Schema (draft 2020-12) of a report. */
export function reportSchema(): object {
  return z.toJSONSchema(REPORT);
}

/** Finding that was reported before. */
const SEEN = z.strictObject({
  column: z.string(),
  kind: z.string(),
  /** First and last stamp in ms, or first and last sample of a recording without time. */
  from: finite,
  to: finite,
  /** Last event of `--follow` about it, while it is open. */
  open: z.exactOptional(FOLLOWED),
  /** Last stamp of the first of the judgements in a row that did not find it going on, in ms, while it is open. */
  missed: z.exactOptional(finite),
  /** Level before it, and the change from it. */
  before: z.exactOptional(z.strictObject({ level: finite, change: finite })),
  /** Reason for which it is not unusual after all. */
  explained: z.exactOptional(z.enum(['withdrawn', 'became usual'])),
});

/** Finding as `--follow` remembers it, reported or not. */
const WATCHED = SEEN.pick({ column: true, kind: true, from: true, to: true }).extend({
  direction: z.string().nullable(),
  /** Distance of its peak from the expected value. */
  size: finite,
  /** Last stamp of the first judgement that found it, in ms, and the distance of its end from that. */
  since: finite,
  late: finite,
  /** Judgements in a row that did not find it. */
  misses: index,
});
export type WatchedFinding = z.infer<typeof WATCHED>;

/** Line, time in ms and one value for each column; null where missing. */
const ROW = z.tuple([z.int().positive(), finite], finite.nullable());

/** Hour of the wall clock since 1970; mean, least and largest value of each column in it, null where all are missing. */
const HOUR = z.tuple([z.int(), z.array(z.tuple([finite, finite, finite]).nullable())]);
export type FollowedHour = z.infer<typeof HOUR>;

/** Rows that `--follow` keeps, so that a later run goes on with them. */
const FOLLOWED_ROWS = z.strictObject({
  /** Options by which the rows were read, as JSON. */
  read: z.string(),
  /** Header and first rows of the input, which decide how rows are read. */
  first: z.string(),
  rows: z.array(ROW),
  /** Row far ahead of all others, which the next row has to confirm. */
  ahead: z.exactOptional(ROW),
  watched: z.exactOptional(z.array(WATCHED)),
  /** Hours of the last weeks; absent from states of version 1. */
  hours: z.exactOptional(z.array(HOUR)),
});
export type FollowedRows = z.infer<typeof FOLLOWED_ROWS>;

/** Event for a webhook: a finding that opened, or closed. */
const ALERT = z.strictObject({
  /** Stays the same however often it is sent. */
  id: z.string(),
  event: z.enum(['open', 'closed']),
  source: z.string(),
  reason: z.exactOptional(z.string()),
  finding: FOLLOWED,
  /** The finding when it opened. */
  opened: FOLLOWED,
});
export type Alert = z.infer<typeof ALERT>;

/** Findings that the receiver of webhooks knows as open or will be told, events that wait for it, and the number given up. */
const ALERTS = z.strictObject({ open: z.array(FOLLOWED), queue: z.array(ALERT), lost: index });
export type Alerts = z.infer<typeof ALERTS>;

/** State file: the findings that were reported before, by id. */
const STATE = z.strictObject({
  schema: z.literal('timeseer.anomalies.state'),
  version: z.union([z.literal(1), z.literal(2)]),
  timed: z.boolean(),
  seen: z.record(z.string(), SEEN),
  /** Instant at which each column was last read, in ms. */
  columns: z.exactOptional(z.record(z.string(), finite)),
  /** Samples of the recording, by which another one is recognised: time in ms or number of the sample, and values by column. */
  samples: z.exactOptional(z.array(z.tuple([finite, z.record(z.string(), finite.nullable())]))),
  followed: z.exactOptional(FOLLOWED_ROWS),
  alerts: z.exactOptional(ALERTS),
});
export type ReportState = z.infer<typeof STATE>;
export type SeenFinding = z.infer<typeof SEEN>;

/** Reads a state from its JSON. @throws DataError naming the first wrong field, with a remedy */
export function checkState(value: unknown, file: string, remedy: string): ReportState {
  const { schema, version } = Object(value) as { schema?: unknown; version?: unknown };
  const another = `a state of version ${String(version)}, which this timeseer does not know`;
  if (schema === STATE.shape.schema.value && !STATE.shape.version.safeParse(version).success)
    throw new DataError(`${another}; ${remedy}`, { file });
  const checked = STATE.safeParse(value);
  if (checked.success) return checked.data;
  const issue = checked.error.issues[0]!;
  const place = issue.path.join('.') || 'the whole';
  throw new DataError(`not a state file: ${place}: ${issue.message}; ${remedy}`, { file });
}
