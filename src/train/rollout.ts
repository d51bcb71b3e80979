/** Rollouts: sampled responses with log-probabilities and hidden states, and their scores. */

import { DataError } from '../ground/errors.ts';
import { getOrMake } from '../ground/maps.ts';
import type { Example, Score } from '../ground/types.ts';
import { type AskedTurn, type PlayedEpisode, playEpisodes } from '../inspect/episode.ts';
import { compressionReward, OpticalMemory } from '../inspect/optical.ts';
import type { EncodedPrompt } from '../policy/batch.ts';
import { type GenerateSchedule, generate, type Sampled } from '../policy/generate.ts';
import { KeptCaches } from '../policy/kv-cache.ts';
import type { Policy } from '../policy/policy.ts';
import { type RemoteSampler, sampleRemotely } from './remote-rollout.ts';
import type { Episode } from './step-advantage.ts';
import { type Episodes, PromptEncoder, type Task } from './task.ts';

export interface RolloutOptions {
  /** Responses per prompt, G. */
  readonly group: number;
  readonly temperature: number;
  readonly topP: number;
  readonly maxTokens: number;
  readonly seed: number;
  /** True keeps hidden states, for the transport. */
  readonly hidden: boolean;
  /** Maximum responses decoded in one batch. Default: 256. */
  readonly rows?: number;
  /** Batching of the decoder. Default: that of the device. */
  readonly schedule?: Partial<GenerateSchedule>;
  /** Inference server that samples; default: this process does. Not for tasks of several turns. */
  readonly remote?: RemoteSampler | undefined;
  /** Scores of the answers that stand behind each turn of an episode, beside that of its last. Default: false. */
  readonly scoreTurns?: boolean;
  /** Tokens per micro-batch in which the responses of a server are read again. */
  readonly tokens?: number;
}

/** Prompt with its G responses. */
export interface SampledGroup {
  readonly example: Example;
  readonly prompt: EncodedPrompt;
  /** Responses [G]; of episodes the last ones, with the final answer as their text. */
  readonly responses: readonly Sampled[];
  /** Episodes [G] of tasks of several turns. */
  readonly episodes?: readonly PlayedEpisode<StepSample>[];
}

/** Response of one step, and its prompt with all turns before. Equal histories share a prompt. */
export interface StepSample extends Sampled {
  readonly behind: EncodedPrompt;
  /** Factor that it chose for the next picture of the history; undefined where histories are turns. */
  readonly compression: number | undefined;
}

/** Sampled group with the scores of its responses. */
export interface RolloutGroup extends SampledGroup {
  /** Null for a response to which no reward part applies. */
  readonly scores: readonly (Score | null)[]; // [G]
  /** Totals of the answers that stand behind each turn but the last, by episode; 0 where no reward part applies. */
  readonly standing?: readonly (readonly number[])[]; // [G][turns − 1]
}

/** Responses whose scores may still be pending. */
interface Rollout {
  readonly groups: readonly SampledGroup[];
  /** Prompt tokens of episodes: those encoded, and those whose cache was kept from the turn before. */
  readonly prefill?: KeptCaches['tokens'];
  /** Waits for the scores. @throws RewardError and other errors of the reward */
  readonly scored: () => Promise<RolloutGroup[]>;
}

/**
 * Samples G responses to each prompt and starts to score them: at the end, or on arrival if the reward is
 * `hosted`. `indices` of the examples key the random streams, so a response depends on neither rank nor
 * batch.
 */
export async function startRollout(
  policy: Policy,
  examples: readonly Example[],
  prompts: readonly EncodedPrompt[],
  indices: readonly number[],
  { score, hosted = false, episodes }: Pick<Task, 'score' | 'hosted' | 'episodes'>,
  options: RolloutOptions,
): Promise<Rollout> {
  if (episodes !== undefined) {
    const kept = new KeptCaches(policy);
    let played: SampledGroup[];
    try {
      played = await playGroups(policy, kept, examples, prompts, indices, episodes, options);
    } finally {
      kept.dispose();
    }
    const standingOf = ({ example, episodes: own }: SampledGroup): Promise<number[][]> =>
      Promise.all(
        own!.map(({ turns }) =>
          Promise.all(
            turns.slice(0, -1).map(async (turn) => (await score(turn.standing, example))?.total ?? 0),
          ),
        ),
      );
    const scored = (): Promise<RolloutGroup[]> =>
      Promise.all(
        played.map(async (group) => ({
          ...group,
          scores: await Promise.all(group.responses.map(({ text }) => score(text, group.example))),
          ...(options.scoreTurns === true ? { standing: await standingOf(group) } : {}),
        })),
      );
    return { groups: played, prefill: kept.tokens, scored };
  }
  const { group: size, temperature, topP, maxTokens, seed, hidden, rows, schedule } = options;
  const pending = prompts.map(() => new Map<number, ReturnType<Task['score']>>());
  const startScore = ({ prompt, sample, text }: Sampled): void => {
    if (pending[prompt]!.has(sample)) return;
    const result = score(text, examples[prompt]!);
    // `scored` awaits it later; until then a rejection must not count as unhandled.
    if (result instanceof Promise) result.catch(() => undefined);
    pending[prompt]!.set(sample, result);
  };
  const generateOptions = {
    samples: size,
    temperature,
    topP,
    maxTokens,
    seed,
    stream: 'rollout',
    examples: indices,
    hidden,
    ...(rows === undefined ? {} : { maxRows: rows }),
    ...(hosted ? { onResponse: startScore } : {}),
  };
  const sampled =
    options.remote === undefined
      ? await generate(policy, prompts, generateOptions, schedule)
      : await sampleRemotely(
          policy,
          options.remote,
          prompts.map((prompt, p) => ({ prompt, example: examples[p]!, index: indices[p]! })),
          options,
        );
  const groups = prompts.map((prompt, p) => {
    const responses = sampled.filter((response) => response.prompt === p).sort((a, b) => a.sample - b.sample);
    responses.forEach(startScore);
    return { example: examples[p]!, prompt, responses };
  });
  const scored = (): Promise<RolloutGroup[]> =>
    Promise.all(
      groups.map(async (group, p) => ({
        ...group,
        scores: await Promise.all(group.responses.map(({ sample }) => pending[p]!.get(sample)!)),
      })),
    );
  return { groups, scored };
}

/**
 * Plays G episodes from each prompt, all of them turn by turn in one batch. A turn is keyed by its number, the index of the example and that
 * of the episode. Prompts beyond the context end their episode without an answer. A history that is a picture is encoded anew each turn.
 */
async function playGroups(
  policy: Policy,
  kept: KeptCaches,
  examples: readonly Example[],
  prompts: readonly EncodedPrompt[],
  indices: readonly number[],
  { open, history }: Episodes,
  options: RolloutOptions,
): Promise<SampledGroup[]> {
  const { group: size, temperature, topP, maxTokens, seed, rows, schedule } = options;
  const encoder = new PromptEncoder(policy);
  const sampling = { temperature, topP, maxTokens, seed, ...(rows === undefined ? {} : { maxRows: rows }) };
  const placeOf = (episode: number): number => Math.floor(episode / size);
  const continues = history !== 'optical' && examples.some((example) => open(example).memory === 'turns');
  const memories =
    history === 'optical' ? Array.from({ length: examples.length * size }, () => new OpticalMemory()) : null;
  const pictured = (one: AskedTurn<StepSample>): EncodedPrompt => {
    const { pictures, text } = memories![one.episode]!.prompt(one);
    return encoder.encodePictures(pictures, text);
  };
  /** Prompts of a turn by the prompt that they continue (and its response), or by their picture. */
  const shared = new Map<object | null, Map<string, EncodedPrompt>>();
  const promptOf = (one: AskedTurn<StepSample>): EncodedPrompt | null => {
    const { picture, instruction } = one;
    const last = one.history.at(-1)?.reply;
    const siblings = getOrMake(shared, last?.behind ?? picture, () => new Map<string, EncodedPrompt>());
    const key = `${last?.ids.join(' ') ?? ''} ${instruction}`;
    try {
      if (memories !== null) return pictured(one);
      return getOrMake(siblings, key, () =>
        last === undefined
          ? encoder.encode(picture, instruction)
          : encoder.continued(last.behind, last.ids, { picture, instruction }),
      );
    } catch (error) {
      if (error instanceof DataError) return null;
      throw error;
    }
  };
  const played = await playEpisodes<StepSample>(
    examples.flatMap((example) => Array.from({ length: size }, () => open(example))),
    async (turn, asked) => {
      const first = turn === 0;
      const starts =
        first && memories !== null ? examples.map((_, p) => pictured(asked[p * size]!)) : prompts;
      // A plan counts on episodes that all see something else.
      const apart = !first && schedule?.abridged === true;
      const behind = asked.map((one) => {
        const prompt = first ? starts[placeOf(one.episode)]! : promptOf(one);
        return apart && prompt !== null ? { ...prompt } : prompt;
      });
      // Episodes that see the same stand side by side, so that their prompt is encoded once.
      const seen = new Map([...new Set(behind)].map((prompt, i) => [prompt, i]));
      const places = behind
        .flatMap((prompt, i) => (prompt === null ? [] : [i]))
        .sort((a, b) => seen.get(behind[a]!)! - seen.get(behind[b]!)!);
      const sampled = await generate(
        policy,
        first ? starts : places.map((i) => behind[i]!),
        {
          ...{ ...sampling, stream: first ? 'rollout' : `rollout ${turn}` },
          ...(continues ? { kept } : {}),
          samples: first ? size : 1,
          examples: first ? indices : places.map((i) => indices[placeOf(asked[i]!.episode)]!),
          ...(first ? {} : { firstSamples: places.map((i) => asked[i]!.episode % size) }),
        },
        schedule,
      );
      kept.retain(new Set(behind));
      const replies: (StepSample | null)[] = asked.map(() => null);
      for (const [k, one] of sampled.entries()) {
        const i = first ? k : places[k]!;
        const memory = memories?.[asked[i]!.episode];
        const text = memory?.take(one.text) ?? one.text;
        replies[i] = { ...one, text, behind: behind[i]!, compression: memory?.factor };
      }
      return replies;
    },
  );
  return examples.map((example, p) => {
    const episodes = played.slice(p * size, (p + 1) * size);
    const responses = episodes.map(({ turns, answer }) => ({ ...turns.at(-1)!.reply, text: answer }));
    return { example, prompt: prompts[p]!, responses, episodes };
  });
}

/** Steps of a group as training samples: one prompt with the responses of the episodes that were there. */
export interface PromptSteps {
  readonly prompt: EncodedPrompt;
  readonly responses: readonly Sampled[];
  /** Episode and turn of each response. */
  readonly at: readonly (readonly [episode: number, turn: number])[];
}

/** Lists the training samples of a group, in the order of their turns. */
export function stepsOf({ prompt, responses, episodes }: SampledGroup): PromptSteps[] {
  if (episodes === undefined) return [{ prompt, responses, at: responses.map((_, g) => [g, 0] as const) }];
  const out = new Map<EncodedPrompt, { responses: Sampled[]; at: [number, number][] }>();
  const longest = episodes.reduce((most, { turns }) => Math.max(most, turns.length), 0);
  for (let t = 0; t < longest; t++) {
    for (const [g, { turns }] of episodes.entries()) {
      const reply = turns[t]?.reply;
      if (reply === undefined) continue;
      const steps = getOrMake(out, reply.behind, () => ({ responses: [], at: [] }));
      steps.responses.push(reply);
      steps.at.push([g, t]);
    }
  }
  return [...out].map(([behind, steps]) => ({ prompt: behind, ...steps }));
}

/**
 * Describes episodes for the estimators of steps: the score is the reward of the last step, or, with the scores of the answers that stood
 * before, each step has the change that it made; their sum is the score. Where histories are pictures, every fifth
 * training step rewards their compression (AgentOCR); no picture follows the last response.
 */
export const episodeRecords = (
  episodes: readonly PlayedEpisode<StepSample>[],
  rewards: readonly (number | null)[],
  { success: least, role }: Pick<Episodes, 'success'> & Partial<Pick<Episodes, 'role'>>,
  trainingStep: number,
  standing?: readonly (readonly number[])[],
): Episode[] =>
  episodes.map(({ turns }, g) => {
    const stood = standing?.[g] ?? turns.slice(0, -1).map(() => 0);
    const success = (rewards[g] ?? 0) >= least;
    const steps = turns.map(({ state, next, problem, reply: { compression = 1 } }, t) => {
      const isLast = t === turns.length - 1;
      return {
        ...{ state, next, isValid: problem === null },
        ...(role === undefined ? {} : { role: role(state) }),
        reward: (isLast ? (rewards[g] ?? 0) : stood[t]!) - (stood[t - 1] ?? 0),
        bonus: compressionReward(isLast ? 1 : compression, { success, trainingStep }),
      };
    });
    return { success, steps };
  });
