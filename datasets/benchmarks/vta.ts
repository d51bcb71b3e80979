/** VisualTimeAnomaly: univariate, with missing points, and grids of variates. */
import {
  VTA_LENGTH,
  VTA_MINIMUM_LENGTH,
  VTA_MISSING,
  VTA_TYPES,
  VTA_VARIATE_LENGTH,
  VTA_VARIATES,
  VTA_WAVE_PARAMETERS,
  VTA_WAVES,
  vta,
  vtaClass,
  vtaIrregular,
  vtaMultivariate,
  vtaParameters,
} from '../generators/vta.ts';
import { anomalyPrompt } from './benchmark.ts';
import { generatedBenchmark } from './families.ts';

const CITATION = 'Xu et al.: Can multimodal LLMs perform time series anomaly detection?, 2025';
const CLASSES = VTA_TYPES.map(vtaClass);
const UNIVARIATE = Object.fromEntries(VTA_TYPES.map((type) => [type, vtaParameters(type)]));

/** Digits of an index in a mixed radix, lowest first; the last one is how often the combination came before. */
function turn(index: number, ...sizes: readonly number[]): number[] {
  let rest = index;
  const places = sizes.map((size) => {
    const place = rest % size;
    rest = Math.floor(rest / size);
    return place;
  });
  return [...places, rest];
}

export const vtaUnivariate = generatedBenchmark({
  name: 'vta',
  title: 'VisualTimeAnomaly, univariate: five kinds, evenly mixed',
  kind: 'anomaly',
  description: 'A sine with anomalous points or segments; every series has some.',
  citation: CITATION,
  shape: `${VTA_LENGTH} points, 1 channel`,
  figure: { preset: 'vta', missing: 'break' },
  prompt: anomalyPrompt(
    'It is a synthetic series: a sine wave with a little noise, which may change in places.',
  ),
  classes: CLASSES,
  counts: { train: 2000, validation: 200, test: 500 },
  length: VTA_LENGTH,
  minimumLength: VTA_MINIMUM_LENGTH,
  parameters: UNIVARIATE,
  at(seed, split, index, length) {
    const [type, own] = turn(index, VTA_TYPES.length) as [number, number];
    return vta(VTA_TYPES[type]!, seed, split, own, length);
  },
});

export const vtaKinds = VTA_TYPES.map((type) =>
  generatedBenchmark({
    name: `vta/${type}`,
    title: `VisualTimeAnomaly, ${type} only: every series has anomalies of class '${vtaClass(type)}'`,
    kind: 'anomaly',
    description: `A sine with anomalies of the kind ${type}; every series has some.`,
    citation: CITATION,
    shape: `${VTA_LENGTH} points, 1 channel`,
    figure: { preset: 'vta', missing: 'break' },
    prompt: null,
    classes: [vtaClass(type)],
    counts: { train: 400, validation: 40, test: 100 },
    length: VTA_LENGTH,
    minimumLength: VTA_MINIMUM_LENGTH,
    parameters: vtaParameters(type),
    at: (...address) => vta(type, ...address),
  }),
);

export const vtaMissing = generatedBenchmark({
  name: 'vta/irregular',
  title: 'VisualTimeAnomaly, irregular: 5 to 25 % of the points missing',
  kind: 'anomaly',
  description: 'The univariate series with points left out; shares and kinds evenly mixed.',
  citation: CITATION,
  pairing: `Within a split every series comes ${VTA_MISSING.length} times, each time with another share of its points missing.`,
  shape: `${VTA_LENGTH} points, 1 channel`,
  figure: { preset: 'vta', missing: 'join' },
  prompt: anomalyPrompt(
    'It is a synthetic series: a sine wave with a little noise, which may change in places. Some of its points are missing; what is missing is no anomaly.',
  ),
  // Where no point of an anomaly is left, the answer is that there is none.
  classes: [...CLASSES, 'normal'],
  counts: { train: 2000, validation: 200, test: 500 },
  length: VTA_LENGTH,
  minimumLength: VTA_MINIMUM_LENGTH,
  parameters: { ...UNIVARIATE, missing: VTA_MISSING },
  at(seed, split, index, length) {
    const [type, share, own] = turn(index, VTA_TYPES.length, VTA_MISSING.length) as [number, number, number];
    return vtaIrregular(VTA_TYPES[type]!, VTA_MISSING[share]!, seed, split, own, length);
  },
});

export const vtaVariates = generatedBenchmark({
  name: 'vta/multivariate',
  title: 'VisualTimeAnomaly, multivariate: which of 4 to 36 variates are anomalous',
  kind: 'variates',
  description:
    'Sines and cosines, some of them replaced by a triangle, a square, a sawtooth or a random walk.',
  citation: CITATION,
  shape: `${VTA_VARIATE_LENGTH} points, ${VTA_VARIATES.join(', ')} channels`,
  figure: { preset: 'vta-grid', missing: 'break' },
  prompt: {
    version: 1,
    context:
      'They are synthetic: most variates are smooth waves of similar speed that differ in size, level and phase, with a little noise.',
    question:
      'Find the variates whose wave has another shape than that of the others, such as corners, jumps or a wandering level. There are fewer of them than of the others.',
    hints: {},
    advice: null,
  },
  classes: [],
  counts: { train: 2000, validation: 200, test: 500 },
  length: VTA_VARIATE_LENGTH,
  minimumLength: VTA_MINIMUM_LENGTH,
  parameters: { ...VTA_WAVE_PARAMETERS, waves: VTA_WAVES, variates: VTA_VARIATES },
  at(seed, split, index, length) {
    const [wave, size, own] = turn(index, VTA_WAVES.length, VTA_VARIATES.length) as [number, number, number];
    const variates = VTA_VARIATES[size]!;
    return vtaMultivariate(VTA_WAVES[wave]!, seed, split, own, { variates, length });
  },
});
