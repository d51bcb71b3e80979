import { afterAll, describe, expect, it } from 'vitest';
import type { LogProbOptions, Tensor } from '../../src/engine/engine.ts';
import { collate, type EncodedPrompt, joined } from '../../src/policy/batch.ts';
import { forward } from '../../src/policy/forward.ts';
import { Tape } from '../../src/policy/gradient-checkpointing.ts';
import { headGradients } from '../../src/train/loss.ts';
import { responseLogProbs, responseStates } from '../../src/train/micro-batch.ts';
import { ENGINES } from './golden.ts';
import {
  type Gradients,
  gradientsOf,
  named,
  parity,
  parityPolicy,
  TOLERANCE,
  uniform,
  weighted,
  worst,
} from './parity.ts';
import { encode, note } from './parity-run.ts';

// Of one group the second engine shows what it does with all of them.
const groups = ENGINES.flatMap((engine, second) =>
  parity.policies
    .flatMap((row, index) =>
      row.group === undefined
        ? []
        : [
            {
              ...{ ...row, index, group: row.group, title: `${engine.info.name}: ${row.name}` },
              policy: parityPolicy(engine, row),
            },
          ],
    )
    .slice(0, second === 0 ? undefined : 1),
);
const born = ENGINES.map((engine) => engine.live());
afterAll(() => expect(ENGINES.map((engine) => engine.live())).toEqual(born));

describe.each(groups)('responses behind shared prompts get what each full sequence gets: $title', (row) => {
  const { policy, group, index } = row;
  const { engine } = policy;
  const prompts = encode(policy, row);
  const responses = group.responses.map((ids) => Int32Array.from(ids));
  const targets = Int32Array.from(group.responses.flat());
  const promptOf = (r: number): EncodedPrompt => prompts[Math.floor(r / group.samples)]!;
  const options = (): LogProbOptions => ({
    temperature: group.temperature,
    mask: engine.tensor(policy.forbidden, [policy.dims.vocabulary]),
  });

  const checkScores = (scores: Float32Array): void => {
    const error = worst(`${index}/group.logProbs`, scores, targets.length);
    note('log-probabilities', row.name, error);
    expect(error).toBeLessThan(TOLERANCE);
  };
  const checkGradients = (gradients: Gradients): void => {
    expect(gradients.size).toBeGreaterThan(40);
    for (const [name, { values, rows }] of gradients) {
      const error = worst(`${index}/group.gradient.${name}`, values, rows);
      note('gradients', `${row.name}: ${name}`, error);
      expect(error, name).toBeLessThan(TOLERANCE);
    }
  };

  it('with a shared prompt, in one graph', () => {
    engine.scope(() => {
      const { states } = responseStates(policy, prompts, responses);
      const ids = engine.tensor(targets, [targets.length]);
      const { logProb } = engine.logProbs(states, policy.weights.head, ids, options());
      checkScores(engine.floats(logProb));
      checkGradients(gradientsOf(policy, weighted(engine, logProb)));
    });
    checkScores(responseLogProbs(policy, prompts, responses, group.temperature));
  });

  it('as whole sequences', () => {
    engine.scope(() => {
      const whole = collate(
        responses.map((ids, r) => joined(promptOf(r), ids)),
        policy.dims.special.pad,
      );
      const rows = responses.flatMap((ids, r) => {
        const first = r * whole.length + promptOf(r).ids.length - 1;
        return Array.from(ids, (_, t) => first + t);
      });
      const { hidden } = forward(policy, { ...whole, rows: Int32Array.from(rows) });
      const ids = engine.tensor(targets, [targets.length]);
      const { logProb } = engine.logProbs(hidden, policy.weights.head, ids, options());
      checkScores(engine.floats(logProb));
      checkGradients(gradientsOf(policy, weighted(engine, logProb)));
    });
  });

  it.each([true, false])('with chunks of the vocabulary projection; layers computed again: %s', (again) => {
    engine.scope(() => {
      const { leaves } = policy.trainable;
      const tape = again ? new Tape(engine, leaves) : undefined;
      const { states } = responseStates(policy, prompts, responses, tape);
      const sums = leaves.map(({ shape }) => engine.zeros(shape));
      const add = (leaf: Tensor, gradient: Tensor): void =>
        engine.addInto(sums[leaves.indexOf(leaf)]!, 0, 0, gradient);
      const weights = uniform('loss', targets.length).map((u) => -(1 + u / 2) / targets.length);
      const { head } = policy.weights;
      const given = headGradients(
        engine,
        states,
        head,
        targets,
        options(),
        (logProb, _, start, end) =>
          engine.sum(engine.mul(logProb, engine.tensor(weights.slice(start, end), [end - start]))),
        (part) => add(head, part),
        5,
      );
      if (tape !== undefined) tape.backward([[states, given]], add);
      else
        for (const [i, gradient] of engine.grad(states, leaves, given).entries()) add(leaves[i]!, gradient);
      checkGradients(named(policy, sums));
    });
  });
});
