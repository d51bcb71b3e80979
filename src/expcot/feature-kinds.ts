/**
 * The catalogue of features by which a trace tells classes of series apart: what each one measures, in words that fit into "The …
 * is 0.41", and the scale on which its values are compared.
 */
export interface FeatureKind {
  /** Unique in the catalogue, stable over versions of a profile. */
  readonly key: string;
  /** Noun phrase, singular, without article; `of x` follows where the series has several channels. */
  readonly name: string;
  /** Null: values are compared as they are. Otherwise as ln(floor + value), for values ≥ 0 that span magnitudes. */
  readonly floor: number | null;
}

/** Equal stretches of a series whose level and spread are features of their own. */
export const STRETCHES = 8;
/** Edges of the frequency bands, in cycles per sample: octaves down from the highest frequency, and the rest. */
export const BAND_EDGES = [0, 1 / 128, 1 / 64, 1 / 32, 1 / 16, 1 / 8, 1 / 4, 1 / 2] as const;

const kind = (key: string, name: string, floor: number | null = null): FeatureKind => ({ key, name, floor });

const ORDINALS = ['first', 'second', 'third', 'fourth', 'fifth', 'sixth', 'seventh', 'last'];

const bandName = (band: number): string => {
  const edge = (b: number): string => String(1 / BAND_EDGES[b]!);
  return band === 0
    ? `share of power at periods above ${edge(1)} samples`
    : `share of power at periods of ${edge(band + 1)} to ${edge(band)} samples`;
};

/** Features of one channel, in the order in which they are computed. "Standard deviations" are those of the channel. */
export const CHANNEL_KINDS: readonly FeatureKind[] = [
  kind('level', 'mean'),
  kind('spread', 'standard deviation', 1e-6),
  kind('range', 'distance between the 10 % and 90 % quantiles', 1e-6),
  kind('skew', 'skewness'),
  kind('tails', 'kurtosis', 0.1),
  kind('top', 'height of the maximum above the median in standard deviations', 0.1),
  kind('bottom', 'depth of the minimum below the median in standard deviations', 0.1),
  kind('floor', 'share of samples within a twentieth of the range above the minimum', 0.01),
  kind('ceiling', 'share of samples within a twentieth of the range below the maximum', 0.01),
  kind('duty', 'share of samples above the middle of the range', 0.01),
  kind('plateaus', 'share of samples equal to the one before', 0.01),
  kind('zeros', 'share of samples that are exactly zero', 0.01),
  kind(
    'quiet',
    'longest stretch that moves by less than a twentieth of the range, as a share of the series',
    0.01,
  ),
  kind('tau', 'Mann–Kendall tau of the trend'),
  kind('rise', 'rise of the Theil–Sen line over the series in standard deviations'),
  kind('roughness', 'standard deviation of the differences between neighbours in standard deviations', 0.001),
  kind('jump', 'largest difference between neighbours in standard deviations', 0.01),
  kind('jumps', 'number of jumps by more than one standard deviation per 100 samples', 0.1),
  kind('asymmetry', 'skewness of the differences between neighbours'),
  kind('crossings', 'number of crossings of the mean per 100 samples', 0.1),
  kind('turns', 'number of turning points per 100 samples', 1),
  kind('period', 'dominant period in samples', 1),
  kind('line', 'share of power in the strongest spectral line', 0.001),
  kind('repeat', 'autocorrelation at the dominant period'),
  kind('memory', 'lag at which the autocorrelation falls below 0.37', 1),
  kind('neighbours', 'autocorrelation of neighbouring samples'),
  kind('centroid', 'mean frequency of the power in cycles per 100 samples', 0.01),
  kind('flatness', 'spectral entropy relative to that of white noise'),
  ...BAND_EDGES.slice(1).map((_, band) => kind(`band${band}`, bandName(band), 1e-4)),
  kind('pulses', 'number of pulses above one standard deviation per 1000 samples', 1),
  kind('pulseHeight', 'mean height of the pulses above one standard deviation', 0.1),
  kind('pulseWidth', 'mean width of the pulses above one standard deviation in samples', 1),
  kind('pulseRhythm', 'variation of the spacing between pulses relative to its mean', 0.01),
  kind('burst', 'variation of the energy between sixteenths of the series relative to its mean', 0.01),
  kind('peakAt', 'position of the largest deflection from the median as a share of the series'),
  kind('attack', 'number of samples from half height up to the largest deflection', 1),
  kind('decay', 'number of samples from the largest deflection down to half height', 1),
  kind('centre', 'position of the centre of energy as a share of the series'),
  kind('duration', 'spread of the energy in time as a share of the series', 0.001),
  ...ORDINALS.map((which, s) => kind(`level${s}`, `mean of the ${which} eighth in standard deviations`)),
  ...ORDINALS.map((which, s) =>
    kind(`spread${s}`, `standard deviation of the ${which} eighth relative to the whole`, 0.01),
  ),
  kind('missing', 'share of missing samples', 0.01),
];

/** Features of one channel among several, of whatever units. */
export const SHARE_KINDS: readonly FeatureKind[] = [
  kind('tilt', 'mean relative to the Euclidean length of all means'),
  kind('activity', 'share of the summed variance', 0.001),
];

/** The same features in the words of axes: channels of one unit that make a vector in space. */
export const AXIS_KINDS: readonly FeatureKind[] = [
  kind('tilt', 'part of the mean vector along the axis'),
  kind('activity', 'share of the movement', 0.001),
];

/** Name of the derived channel: Euclidean length of the vector of 2 … 4 channels. */
export const MAGNITUDE = 'magnitude';
/** What it is called where the channels are no axes. */
export const MAGNITUDE_OF_ANY = 'root of the summed squares of all channels';

/** Whether channels are axes of one vector by their names: `x y z`, `acc_x acc_y`, `gyroX gyroY gyroZ`; one prefix, different letters. */
export function areAxes(names: readonly string[]): boolean {
  const parts = names.map((name) => /^(?:(.*[^a-z])?([xyz])|(.*[a-z0-9])?([XYZ]))$/.exec(name));
  const prefixes = new Set(parts.map((part) => part?.[1] ?? part?.[3] ?? ''));
  const letters = new Set(parts.map((part) => (part?.[2] ?? part?.[4])?.toLowerCase()));
  return names.length > 1 && !parts.includes(null) && prefixes.size === 1 && letters.size === names.length;
}
/** Feature of two channels. */
export const PAIR_KIND: FeatureKind = kind('correlation', 'correlation');
