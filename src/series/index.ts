/**
 * `timeseer/series`: classical analysis of univariate time series. Series are `Float64Array`s of finite values; an analysis that
 * needs more than it is given throws a `ConfigError` (options) or a `DataError` (values), or returns null where its result is
 * undefined. Results equal those of NumPy, SciPy and statsmodels where a function says so.
 *
 * - Statistics: `summarise`, `moments`, `median`, `fitLine`, `noiseSigma`; robust: `summariseRobustly`, `trimmedMean`,
 *   `winsorizedMean`, `outlierIndices`, `hampel`, `runningMedians`
 * - Frequencies: `spectrum`, `dominantPeriod`, `slidingPeriods`, `periodogram`, `welch`, `spectrogram`, `autocorrelation`
 * - Season and trend: `decompose`, `stl`, `strengths`, `savgol`, `mannKendall`, `theilSen`
 * - Stationarity: `unitRootTest` (augmented Dickey–Fuller), `stationarityTest` (KPSS)
 * - Change points: `pelt`, `cusumTest`, `cusumShifts`
 * - Matrix profile: `matrixProfile` (exact), `anytimeMatrixProfile` (all cores, any time), `topMotifs`, `topDiscords`, `distanceProfile`
 * - Anomalies: `DETECTORS`, `rangeTest`, `outlierTest`, `trendTest`, `frequencyTest`, `profileTest`, `isolationScores`,
 *   `isolationOfWindows`, `spectralResidual`, `subPca`; scores of samples or windows by classical methods (`deviationScore`, `stlScore`,
 *   `windowIsolation`, `windowDiscords`, `spectralScore`, `onSamples`) and what stands out of a score (`peaks`)
 * - Time warping: `dtw`, its lower bounds `lbKim` and `lbKeogh` with `envelope`, the nearest of many series (`WarpingSearch`, on all cores
 *   `NearestPool`) and the window that suits their labels (`learnWindow`)
 * - Classification of series: `fitMiniRocket` and `MiniRocketTransform`, `fitRidge` and `ridgeClass`
 * - Missing points (NaN): `bridge`
 * - Intervals `[start, end)` of samples: `runs`, `mergeIntervals`, `coverage`, `overlap`, `pointF1`
 */
export { ConfigError, DataError } from '../ground/errors.ts';
export type { Interval } from '../ground/types.ts';
export {
  type FrequencyTest,
  frequencyTest,
  type OutlierTest,
  outlierTest,
  type ProfileTest,
  profileTest,
  type RangeTest,
  rangeTest,
  smoothedSlope,
  type TrendTest,
  trendTest,
} from './analyses.ts';
export { type AnytimeOptions, anytimeMatrixProfile, type ProfileReport } from './anytime-profile.ts';
export * from './change-points.ts';
export {
  type Decomposition,
  decompose,
  type SeasonalTrend,
  type StlOptions,
  stl,
  strengths,
} from './decompose.ts';
export { DETECTORS, type Detector, type ScoredIntervals } from './detectors.ts';
export {
  type Channels,
  dtw,
  type Envelope,
  envelope,
  joinChannels,
  lbKeogh,
  lbKim,
  type WarpingOptions,
} from './dtw.ts';
export {
  clipAndMerge,
  coverage,
  intervalText,
  mergeIntervals,
  overlap,
  pointF1,
  runs,
  within,
} from './intervals.ts';
export { type ForestOptions, isolationOfWindows, isolationScores } from './isolation-forest.ts';
export {
  type Discord,
  distanceProfile,
  type MatrixProfile,
  type MatrixProfileOptions,
  type Motif,
  type MotifOptions,
  matrixProfile,
  topDiscords,
  topMotifs,
} from './matrix-profile.ts';
export {
  fitMiniRocket,
  type MiniRocket,
  type MiniRocketOptions,
  MiniRocketTransform,
} from './mini-rocket.ts';
export { type Bridged, bridge } from './missing.ts';
export { type LearnedWindow, learnWindow, NearestPool, type Neighbour, WarpingSearch } from './nearest.ts';
export * from './point-scores.ts';
export { fitRidge, type Ridge, type RidgeOptions, ridgeClass, ridgeValues } from './ridge.ts';
export * from './robust.ts';
export { type SavgolOptions, savgol } from './savgol.ts';
export {
  type AutocorrelationOptions,
  autocorrelation,
  bartlettBands,
  dominantPeriod,
  type PowerOptions,
  type PowerSpectrum,
  periodogram,
  type SegmentOptions,
  type Spectrogram,
  type Spectrum,
  seriesOfSpectrum,
  slidingPeriods,
  spectrogram,
  spectrum,
  type WindowName,
  welch,
} from './spectrum.ts';
export {
  type Regression,
  type StationarityOptions,
  type StationarityTest,
  stationarityTest,
  type UnitRootOptions,
  type UnitRootTest,
  unitRootTest,
} from './stationarity.ts';
export {
  fitLine,
  type Line,
  type Moments,
  median,
  moments,
  noiseSigma,
  type Summary,
  summarise,
} from './stats.ts';
export { type MannKendall, mannKendall, type TheilSen, theilSen } from './trend.ts';
