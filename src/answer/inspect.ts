/** Inspections by anything that answers prompts: each turn is a question whose earlier turns are its shots, or its first picture. */
import type { TokenUsage } from '../ground/types.ts';
import { withoutOldOutputs } from '../inspect/code.ts';
import type { Inspection } from '../inspect/environment.ts';
import { type AskedTurn, type PlayedEpisode, playEpisodes } from '../inspect/episode.ts';
import { OpticalMemory } from '../inspect/optical.ts';
import type { Answerer, AnswerRequest, Prompt, Response } from './answerer.ts';

/** Episodes that are played together: as many questions as a policy on this machine decodes in one batch. */
const TOGETHER = 64;
/** Keys of one question: a turn has random streams of its own. */
const MOST_TURNS = 64;

/**
 * Puts inspections to an answerer. The response to a request is the final answer of its episode, in samples of the whole series; its usage
 * and seconds are sums over the turns. A turn without a response fails the request.
 *
 * @param watch gets each episode with its turns
 */
export function inspector(
  answerer: Pick<Answerer, 'answer'>,
  open: (key: number) => Inspection,
  history?: 'turns' | 'optical',
  watch?: (key: number, episode: PlayedEpisode<Response>) => void,
): Pick<Answerer, 'answer'> {
  return {
    async answer(requests, options, report) {
      const wanted = requests.flatMap(({ key, samples, series }) =>
        samples.map((sample) => ({ key, sample, series })),
      );
      for (let first = 0; first < wanted.length; first += TOGETHER) {
        const part = wanted.slice(first, first + TOGETHER);
        const inspections = new Map(part.map(({ key }) => [key, open(key)]));
        const failures = new Map<number, string>();
        const memories = history === 'optical' ? part.map(() => new OpticalMemory()) : null;
        const episodes = await playEpisodes<Response>(
          part.map(({ key }) => inspections.get(key)!),
          async (turn, asked) => {
            const replies: (Response | null)[] = asked.map(() => null);
            const places = new Map<string, number>();
            const questions = asked.map((one, i): AnswerRequest => {
              const { sample, series, key } = part[one.episode]!;
              const keyOfTurn = key * MOST_TURNS + turn;
              places.set(`${keyOfTurn} ${sample}`, i);
              return {
                ...{ key: keyOfTurn, samples: [sample], series },
                prompt: () =>
                  memories === null
                    ? promptOf(one, inspections.get(key)!)
                    : { shots: [], ...memories[one.episode]!.prompt(one) },
              };
            });
            await answerer.answer(questions, options, (response) => {
              const i = places.get(`${response.key} ${response.sample}`)!;
              const { episode } = asked[i]!;
              if (response.failure !== undefined) failures.set(episode, response.failure);
              else
                replies[i] = { ...response, text: memories?.[episode]?.take(response.text) ?? response.text };
            });
            return replies;
          },
        );
        for (const [i, episode] of episodes.entries()) {
          const { key, sample } = part[i]!;
          const { turns, answer } = episode;
          watch?.(key, episode);
          const replies = turns.map(({ reply }) => reply);
          const failure = failures.get(i);
          const outcome = failure === undefined ? { text: answer } : { text: '', failure };
          report({ key, sample, ...outcome, ...totals(replies) });
        }
      }
    },
  };
}

function promptOf(
  { history, picture, instruction }: AskedTurn<Response>,
  { tools, memory }: Inspection,
): Prompt {
  const pictures = picture === null ? [] : [picture];
  const offered =
    memory === 'state'
      ? []
      : Object.entries(tools).map(([name, { summary, parameters = null }]) => ({
          name,
          summary,
          parameters,
        }));
  return {
    ...{ shots: withoutOldOutputs(history), pictures, text: instruction },
    ...(offered.length === 0 ? {} : { tools: offered }),
  };
}

/** Sums tokens, seconds and costs of the turns, as far as they are known. */
function totals(replies: readonly Response[]): Pick<Response, 'usage' | 'seconds' | 'cost'> {
  const usages = replies.flatMap(({ usage }) => usage ?? []);
  const usage: TokenUsage = {
    prompt: usages.reduce((sum, { prompt }) => sum + prompt, 0),
    completion: usages.reduce((sum, { completion }) => sum + completion, 0),
    turns: replies.length,
  };
  const sumOf = (name: 'seconds' | 'cost') => {
    const values = replies.flatMap((reply) => reply[name] ?? []);
    return values.length === 0 ? {} : { [name]: values.reduce((sum, value) => sum + value, 0) };
  };
  return { ...(usages.length === 0 ? {} : { usage }), ...sumOf('seconds'), ...sumOf('cost') };
}
