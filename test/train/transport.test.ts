import { readFileSync } from 'node:fs';
import fc from 'fast-check';
import { expect, test } from 'vitest';
import type { Tensor } from '../../src/engine/engine.ts';
import { openTorch } from '../../src/engine/torch/torch.ts';
import { ConfigError } from '../../src/ground/errors.ts';
import { Random } from '../../src/ground/random.ts';
import { drGrpo, timerpo } from '../../src/train/advantage.ts';
import { tokenCostAdvantages } from '../../src/train/similarity.ts';
import { type HiddenStates, marginals, TIMERPO_TRANSPORT, transport } from '../../src/train/transport.ts';
import { DEVICE } from '../helpers/device.ts';

interface Golden {
  groups: {
    hint_hidden: number[][];
    responses: {
      response_hidden: number[][];
      marginal_response: number[];
      marginal_hint: number[];
      W: number;
      similarity: number;
      row_err: number;
      token_cost: number[];
      token_advantage_alpha_0_3: number[];
      contrast: number;
    }[];
    rewards: number[];
    adv_main_mean_only: number[];
    adv_ts: number[];
    coeff: number;
    adv_ts_orth: number[];
    adv_final_alpha_0_3: number[];
    adv_standardised: number[];
  }[];
}

const golden: Golden = JSON.parse(readFileSync(new URL('../golden/timerpo.json', import.meta.url), 'utf8'));
const engine = openTorch({ device: DEVICE, threads: 1 });

/** Rows of different lengths as one padded tensor; padding is garbage on purpose. */
function padded(rows: readonly number[][][]): HiddenStates {
  const length = Math.max(...rows.map((row) => row.length)) + 2;
  const width = rows[0]![0]!.length;
  const data = new Float64Array(rows.length * length * width).fill(7.5);
  rows.forEach((row, b) => {
    row.forEach((state, t) => {
      data.set(state, (b * length + t) * width);
    });
  });
  const states: Tensor = engine.tensor(data, [rows.length, length, width]);
  return { states, lengths: Int32Array.from(rows.map((row) => row.length)) };
}

test.each(golden.groups.map((group, i) => [i, group] as const))(
  'group %i of the independent program: transport, similarity and TimerPO advantage agree',
  (_, group) => {
    engine.scope(() => {
      const responses = padded(group.responses.map((response) => response.response_hidden));
      const result = transport(engine, responses, padded([group.hint_hidden]));
      group.responses.forEach((response, i) => {
        expect(result.distance[i]).toBeCloseTo(response.W, 9);
        expect(result.similarity[i]).toBeCloseTo(response.similarity, 9);
        expect(result.rowError[i]).toBeCloseTo(response.row_err, 9);
      });
      const main = drGrpo({ rewards: group.rewards });
      const advantage = timerpo(main, [...result.similarity], { alpha: 0.3, projection: true });
      group.rewards.forEach((_reward, i) => {
        expect(advantage.main[i]).toBeCloseTo(group.adv_main_mean_only[i]!, 9);
        expect(advantage.orthogonal[i]).toBeCloseTo(group.adv_ts_orth[i]!, 9);
        expect(advantage.advantage[i]).toBeCloseTo(group.adv_final_alpha_0_3[i]!, 9);
      });
    });
  },
);

test.each([0.08, 2 / 600])(
  'costs of tokens with ε %f sum to the distance, and are the golden ones',
  (epsilon) => {
    for (const { responses, hint_hidden } of golden.groups) {
      engine.scope(() => {
        const states = padded(responses.map((response) => response.response_hidden));
        const options = { ...TIMERPO_TRANSPORT, epsilon, tokenCosts: true };
        const { tokenCosts, distance } = transport(engine, states, padded([hint_hidden]), options);
        const width = states.states.shape[1]!;
        responses.forEach((response, i) => {
          const costs = tokenCosts!.subarray(i * width, (i + 1) * width);
          const length = response.response_hidden.length;
          expect([...costs.subarray(length)]).toEqual([0, 0, ...costs.subarray(length + 2)]);
          expect(distance[i]).toBeGreaterThan(0);
          if (epsilon !== 0.08) return;
          response.token_cost.forEach((cost, t) => {
            expect(costs[t]).toBeCloseTo(cost, 9);
          });
          const advantages = tokenCostAdvantages(costs.slice(0, length), 0.3);
          response.token_advantage_alpha_0_3.forEach((value, t) => {
            expect(advantages[t]).toBeCloseTo(value, 6);
          });
        });
      });
    }
  },
);

test('tokens that are not compared have no advantage, and those of the others sum to zero', () => {
  const advantages = tokenCostAdvantages(Float64Array.of(Number.NaN, 0.5, 0.1, 0.3, Number.NaN), 2);
  expect([...advantages]).toEqual([0, expect.closeTo(-0.4), expect.closeTo(0.4), expect.closeTo(0), 0]);
});

test.each(golden.groups.map((group, i) => [i, group] as const))(
  'group %i of the independent program: the standardised variant agrees where rewards are equal, and is the paper elsewhere',
  (_, { responses, rewards, adv_standardised }) => {
    const similarity = responses.map((response) => response.similarity);
    const options = { alpha: 0.3, projection: true, equalGroups: 'standardised' } as const;
    const { orthogonal } = timerpo(drGrpo({ rewards }), similarity, options);
    adv_standardised.forEach((value, i) => {
      expect(orthogonal[i]).toBeCloseTo(value, 9);
    });
  },
);

test('marginals are the golden softmax of norms and vanish at padding', () => {
  const group = golden.groups[0]!;
  const response = group.responses[0]!;
  const norms = response.response_hidden.map((state) => Math.hypot(...state));
  const out = marginals(Float64Array.from([...norms, 99, 99]), Int32Array.of(norms.length), norms.length + 2);
  response.marginal_response.forEach((mass, t) => {
    expect(out[t]).toBeCloseTo(mass, 12);
  });
  expect([...out.slice(norms.length)]).toEqual([0, 0]);
});

test('marginals stay positive and sum to one when one norm dwarfs the others', () => {
  const out = marginals(Float64Array.of(900, 3, 0.5), Int32Array.of(3), 3);
  expect(out[1]).toBeGreaterThan(0);
  expect(out[0]! + out[1]! + out[2]!).toBeCloseTo(1, 12);
});

function randomStates(random: Random, rows: number, width: number, longest: number): HiddenStates {
  return padded(
    Array.from({ length: rows }, () =>
      Array.from({ length: random.integer(1, longest) }, () =>
        Array.from({ length: width }, () => random.normal()),
      ),
    ),
  );
}

test('the log domain and the scaling form give the same plan', () => {
  engine.scope(() => {
    const random = new Random(5, 'transport');
    const responses = randomStates(random, 6, 5, 9);
    const traces = randomStates(random, 2, 5, 7);
    // Either side of the switch between the two forms: 2/ε = 500 at ε = 0.004.
    const scaling = transport(engine, responses, traces, { ...TIMERPO_TRANSPORT, epsilon: 0.004 });
    const log = transport(engine, responses, traces, { ...TIMERPO_TRANSPORT, epsilon: 0.004 * (1 - 1e-12) });
    for (let b = 0; b < 6; b++) expect(log.distance[b]).toBeCloseTo(scaling.distance[b]!, 7);
  });
});

test('a tiny regularisation neither underflows nor yields NaN', () => {
  engine.scope(() => {
    const random = new Random(6, 'transport');
    const result = transport(engine, randomStates(random, 4, 5, 9), randomStates(random, 2, 5, 7), {
      ...TIMERPO_TRANSPORT,
      epsilon: 1e-4,
    });
    for (const w of result.distance) expect(w >= 0 && w <= 2).toBe(true);
  });
});

test('batched over groups, every response is transported to the trace of its own prompt', () => {
  fc.assert(
    fc.property(fc.integer({ min: 1, max: 1000 }), (seed) =>
      engine.scope(() => {
        const random = new Random(seed, 'transport');
        const rows = Array.from({ length: 6 }, () =>
          Array.from({ length: random.integer(1, 5) }, () => [
            random.normal(),
            random.normal(),
            random.normal(),
          ]),
        );
        const traces = Array.from({ length: 2 }, () =>
          Array.from({ length: random.integer(1, 4) }, () => [
            random.normal(),
            random.normal(),
            random.normal(),
          ]),
        );
        const together = transport(engine, padded(rows), padded(traces));
        rows.forEach((row, b) => {
          const alone = transport(engine, padded([row]), padded([traces[Math.floor(b / 3)]!]));
          expect(together.distance[b]).toBeCloseTo(alone.distance[0]!, 9);
        });
      }),
    ),
    { numRuns: 10 },
  );
});

test('a response equal to the trace is nearer than an unrelated one, and an opposite one is far', () => {
  engine.scope(() => {
    const trace = [
      [3, 0, 0],
      [0, 2, 0],
    ];
    const opposite = trace.map((state) => state.map((value) => -value));
    const { distance } = transport(engine, padded([trace, [[0, 0, 1]], opposite]), padded([trace]));
    expect(distance[0]!).toBeLessThan(distance[1]!);
    expect(distance[1]!).toBeLessThan(distance[2]!);
  });
});

test('impossible settings and empty responses are refused', () => {
  engine.scope(() => {
    const states = padded([[[1, 2]]]);
    expect(() => transport(engine, states, states, { ...TIMERPO_TRANSPORT, epsilon: 0 })).toThrow(
      ConfigError,
    );
    expect(() => transport(engine, states, states, { ...TIMERPO_TRANSPORT, iterations: 0 })).toThrow(
      ConfigError,
    );
    expect(() => transport(engine, { ...states, lengths: Int32Array.of(0) }, states)).toThrow(/no token/);
  });
});

test('nothing stays alive after a transport', () => {
  const before = engine.live();
  engine.scope(() => transport(engine, padded([[[1, 2]]]), padded([[[2, 1]]])));
  expect(engine.live()).toBe(before);
});
