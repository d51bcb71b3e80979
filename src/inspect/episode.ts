/** Episodes: inspections played turn by turn, all of them together, by whatever responds. */
import type { Picture } from '../ground/types.ts';
import { type Inspection, type InspectionState, type Observation, stateKey } from './environment.ts';

/** Turn of an episode with its response. */
interface EpisodeTurn<Reply> {
  readonly picture: Picture | null;
  readonly instruction: string;
  readonly response: string;
  readonly reply: Reply;
  /** Keys of the states before and after it. */
  readonly state: string;
  readonly next: string;
  /** Reason why the step failed; null for a step that did not. */
  readonly problem: string | null;
  /** Answer of the episode if it had ended with this turn. */
  readonly standing: string;
}

export interface PlayedEpisode<Reply> {
  readonly turns: readonly EpisodeTurn<Reply>[];
  /** Final response, its intervals in samples of the whole series; empty for an episode without one. */
  readonly answer: string;
  /** Failed steps. */
  readonly failures: number;
}

/** Prompt of the next turn of an episode. */
export interface AskedTurn<Reply> {
  /** Index of the episode. */
  readonly episode: number;
  /** Earlier turns that the prompt continues; none where the turn states all of them (`memory: state`). */
  readonly history: readonly EpisodeTurn<Reply>[];
  readonly picture: Picture | null;
  readonly instruction: string;
}

interface Running<Reply> {
  readonly episode: number;
  readonly inspection: Inspection;
  state: InspectionState;
  observation: Observation | null;
  readonly turns: EpisodeTurn<Reply>[];
}

/**
 * Plays one episode per inspection; the episodes from one start may share theirs. `respond` gets the next turn of every episode that goes
 * on; null for a turn that has no response ends its episode without an answer.
 */
export async function playEpisodes<Reply extends { readonly text: string }>(
  inspections: readonly Inspection[],
  respond: (turn: number, asked: readonly AskedTurn<Reply>[]) => Promise<readonly (Reply | null)[]>,
): Promise<PlayedEpisode<Reply>[]> {
  const episodes = inspections.map(
    (inspection, episode): Running<Reply> => ({ episode, inspection, ...inspection.reset(), turns: [] }),
  );
  for (let turn = 0; ; turn++) {
    const running = episodes.filter(({ observation }) => observation !== null);
    if (running.length === 0) break;
    const asked: AskedTurn<Reply>[] = [];
    for (const { episode, inspection, observation, turns } of running) {
      const picture = await inspection.picture(observation!);
      const history = inspection.memory === 'state' ? [] : turns;
      asked.push({ episode, history, picture, instruction: observation!.text });
    }
    const replies = await respond(turn, asked);
    for (const [i, one] of running.entries()) {
      const reply = replies[i] ?? null;
      if (reply === null) {
        one.observation = null;
        continue;
      }
      const { state, observation, problem } = await one.inspection.step(one.state, reply.text);
      const { picture, instruction } = asked[i]!;
      const keys = { state: stateKey(one.state), next: stateKey(state) };
      const standing = one.inspection.standing(state);
      one.turns.push({ picture, instruction, response: reply.text, reply, ...keys, problem, standing });
      Object.assign(one, { state, observation });
    }
  }
  return episodes.map(({ turns, state }) => ({
    turns,
    answer: state.answer ?? '',
    failures: state.failures,
  }));
}
