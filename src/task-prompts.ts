/**
 * What a policy is told about each task: where the series come from, how they were sampled, what the classes look like. Ground
 * knowledge without a layer of its own, because data sets (which keep the version), training, evaluation and the commands all ask it.
 * Nothing here depends on an example or its label; `promptText` puts a request together.
 */
import { ConfigError, suggestion } from './errors.ts';
import type { Gold } from './types.ts';

export interface TaskPrompt {
  /** Name of the task. */
  readonly name: string;
  /** Raised with every change of a word that a policy can see: kept in manifests, since answers depend on it. */
  readonly version: number;
  readonly kind: Gold['kind'];
  /** Where the series come from and what a point is: one or more sentences. */
  readonly context: string;
  /** What there is to find, as a request. */
  readonly question: string;
  /** What a class looks like, by its name; classes without one are only listed. */
  readonly hints: Readonly<Record<string, string>>;
  /** What an extension is asked for; null for tasks that have none. No command asks for one until there is a judge of it. */
  readonly advice: string | null;
}

const classify = (
  name: string,
  context: string,
  question: string,
  hints: Readonly<Record<string, string>>,
  advice: string | null,
): TaskPrompt => ({ name, version: 1, kind: 'classification', context, question, hints, advice });

/** What is asked of an anomaly task. */
export const ANOMALY_QUESTION =
  'Find the intervals in which it behaves anomalously, if there are any, and name the kind of anomaly.';

/** What the kinds of anomaly mean. */
export const ANOMALY_HINTS = {
  'contextual point':
    'single values or short stretches that do not fit their place in the pattern, though the level is usual',
  'global point': 'values far outside of the range of all others',
  seasonal: 'stretches in which the pattern repeats faster, slower or differently than elsewhere',
  trend: 'stretches in which the level drifts or shifts in a way that the rest does not',
  shapelet: 'stretches in which the basic shape of a cycle is another one',
  normal: 'nothing departs from the pattern',
} as const;

const detect = (name: string, context: string): TaskPrompt => ({
  name,
  version: 1,
  kind: 'anomaly',
  context,
  question: ANOMALY_QUESTION,
  hints: ANOMALY_HINTS,
  advice: null,
});

const PROMPTS: readonly TaskPrompt[] = [
  classify(
    'rcw',
    'It is two seconds of underwater sound from a recording buoy (Cornell, Marinexplore), 2000 samples per second. An up-call of the North Atlantic right whale is a tone that rises smoothly from about 60 to 250 Hz within about one second; other whales, ships, ice and rain are heard as well.',
    'Decide whether the recording holds a right whale call.',
    {
      RightWhale: 'a rising tone stands out of the background for about a second',
      NoWhale: 'background noise, or sounds that do not rise in this way',
    },
    'advise operators of ships and of the listening network what to do next, given how clear the call is and how safe the decision',
  ),
  classify(
    'tee',
    'It is the radio power density of a lightning event as the satellite FORTE received it, 800 microseconds around the trigger.',
    'Decide which kind of lightning event it is.',
    {
      'CG Positive':
        'positive cloud-to-ground stroke: a sudden onset, then hundreds of microseconds of noisy radiation',
      'IR Negative':
        'initial negative return stroke: power climbs slowly to the attachment, peaks sharply and falls quickly',
      'Subsequent Return Stroke':
        'later negative stroke: a sudden onset without a slow climb, then a quick fall with little noise after',
      Impulsive: 'one isolated spike of a few microseconds',
      'Impulsive Pair': 'two isolated spikes close to each other',
      'Gradual Intra-Cloud':
        'discharge inside the cloud: power rises and falls gradually, without a sharp edge',
      'Off-record': 'only part of an event, cut off by an end of the record',
    },
    'advise storm monitoring and aviation what this event means for the risk in the area',
  ),
  classify(
    'ecg',
    'It is five seconds of an electrocardiogram of one lead from a handheld recorder, 300 samples per second, in millivolts.',
    'Decide which rhythm it shows.',
    {
      'normal sinus rhythm': 'evenly spaced QRS complexes, each after a P wave',
      'atrial fibrillation': 'irregularly spaced QRS complexes, no P waves, an unsteady baseline',
      'other cardiac rhythms': 'an abnormal rhythm that is not atrial fibrillation',
      noise: 'too disturbed to be read',
    },
    'advise which examination or care should follow, and how urgent it is',
  ),
  classify(
    'emg',
    'It is an electromyogram of the front shin muscle (tibialis anterior), taken with a concentric needle of 25 mm while the foot was gently lifted against resistance: 0.375 seconds at 4000 samples per second, in millivolts.',
    'Decide what the muscle suffers from, if anything.',
    {
      Healthy: 'separate motor unit potentials of moderate size and duration, mostly alike',
      Myopathy: 'many small, short and jagged potentials that come early and overlap',
      Neuropathy: 'few, large and long potentials with many phases, firing fast',
    },
    'advise which examination or treatment should follow',
  ),
  classify(
    'ctu',
    'It is the electricity use of one computer in a household of the United Kingdom over 24 hours, one reading every two minutes, scaled to mean 0 and standard deviation 1.',
    'Decide what kind of computer it is.',
    {
      Desktop: 'stays on for long at a high and restless level, and switches between clear levels',
      Laptop: 'lower and shorter use, with stretches in which a battery is charged and long rests',
    },
    'advise the household how to use less electricity with this computer',
  ),
  classify(
    'har',
    'It is 2.56 seconds of the acceleration of a phone at the waist of a volunteer aged 19 to 48, 50 samples per second, along three axes, gravity included, in units of g.',
    'Decide what the volunteer is doing.',
    {
      walking: 'regular steps of moderate size on the level',
      walking_upstairs: 'steps that are slower and less even, the body leaning forward',
      walking_downstairs: 'steps with hard, sharp impacts',
      sitting: 'hardly any movement, gravity spread over several axes',
      standing: 'hardly any movement, gravity almost wholly along the upright axis',
      laying: 'hardly any movement, gravity along another axis than the upright one',
    },
    'advise the person about health and safety in this activity',
  ),
  detect(
    'anomllm',
    'It is a synthetic series: a regular pattern, such as a wave, noise or a trend, which may change in places.',
  ),
  detect(
    'nano5',
    'It is a synthetic series: a regular pattern, such as a wave, noise or a trend, which may change in places.',
  ),
  detect('vta', 'It is a synthetic series: a sine wave with a little noise, which may change in places.'),
  detect(
    'vta/irregular',
    'It is a synthetic series: a sine wave with a little noise, which may change in places. Some of its points are missing; what is missing is no anomaly.',
  ),
  {
    name: 'vta/multivariate',
    version: 1,
    kind: 'variates',
    context:
      'They are synthetic: most variates are smooth waves of similar speed that differ in size, level and phase, with a little noise.',
    question:
      'Find the variates whose wave has another shape than that of the others, such as corners, jumps or a wandering level. There are fewer of them than of the others.',
    hints: {},
    advice: null,
  },
  detect(
    'tsb-uad',
    'It was recorded by a sensor, a machine, a body or a computer system; most of it is usual behaviour.',
  ),
  detect(
    'tsb-ad',
    'It was recorded by sensors, machines, bodies or computer systems; most of it is usual behaviour. With several channels, an anomaly may show in some of them only.',
  ),
  detect(
    'tab',
    'It was recorded in a real system; most of it is usual behaviour. With several channels, an anomaly may show in some of them only.',
  ),
  detect(
    'nab',
    'It is a metric of a running system, such as the load of a server, traffic, or mentions of a company, one value every five minutes in most cases; most of it is usual behaviour. Daily and weekly patterns are normal.',
  ),
];

/** Names of the tasks that have a prompt; `custom` is made with `customPrompt`. */
export const PROMPT_NAMES: readonly string[] = PROMPTS.map(({ name }) => name);

/**
 * The prompt of a task, or that of the task to which a preset belongs: `anomllm/point` has that of `anomllm`, `vta/square/9` with the
 * kind `variates` that of `vta/multivariate`. The rest of a preset's name, which tells the label, has no effect.
 * @param kind of the answer; needed for presets of tasks of several kinds
 * @throws ConfigError for a task without a prompt
 */
export function taskPrompt(task: string, kind?: Gold['kind']): TaskPrompt {
  const family = task.split('/')[0]!;
  const found =
    PROMPTS.find(({ name }) => name === task) ??
    PROMPTS.find((prompt) => prompt.name.split('/')[0] === family && (kind ?? prompt.kind) === prompt.kind);
  if (found !== undefined) return found;
  throw new ConfigError(
    `no prompt for the task '${task}'.${suggestion(task, PROMPT_NAMES)} Known: ${PROMPT_NAMES.join(', ')}; describe your own data as a custom task`,
  );
}

/** What no word of a user may hold, because it is a part of an answer or of a chat: tags, and special tokens such as <|im_end|>. */
export const RESERVED = /<\/?(?:think|answer|class|extension)>|<\|[^|]*\|>/i;

/** A user's own task, in the user's words. */
export interface CustomPrompt {
  readonly kind: Gold['kind'];
  /** What was measured, how, and how often; nothing where empty. */
  readonly description?: string;
  /** What a class looks like, by its name; of anomalies, instead of the usual words. */
  readonly hints?: Readonly<Record<string, string>>;
  /** What the extension is asked for; none where absent. */
  readonly advice?: string;
}

const QUESTIONS: Readonly<Record<Gold['kind'], string>> = {
  classification: 'Decide which class it belongs to.',
  anomaly: ANOMALY_QUESTION,
  variates: 'Find the variates that behave unlike the others.',
};

/** The prompt of a user's own task. @throws ConfigError where a text holds `RESERVED` text */
export function customPrompt({ kind, description = '', hints = {}, advice }: CustomPrompt): TaskPrompt {
  for (const text of [description, advice ?? '', ...Object.entries(hints).flat()]) {
    if (RESERVED.test(text)) {
      throw new ConfigError(
        `custom prompt: ${JSON.stringify(text)} holds a tag of the answer or a special token; leave it out`,
      );
    }
  }
  return {
    name: 'custom',
    version: 2,
    kind,
    context: description.trim(),
    question: QUESTIONS[kind],
    hints: kind === 'anomaly' ? { ...ANOMALY_HINTS, ...hints } : hints,
    advice: advice?.trim() ?? null,
  };
}
