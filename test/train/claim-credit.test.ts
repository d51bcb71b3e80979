/** Credit of claims: which tokens a verdict reaches, and that it leaves the task alone. */
import fc from 'fast-check';
import { describe, expect, test } from 'vitest';
import { openTorch } from '../../src/engine/torch/torch.ts';
import { defaultRecipe } from '../../src/recipe/recipe.ts';
import {
  choicesOf,
  claimAdvantages,
  corrected,
  lesson,
  pickLessons,
  tokenCredit,
} from '../../src/train/claim-credit.ts';
import type { Learner } from '../../src/train/learner.ts';
import type { RlMetrics } from '../../src/train/metrics.ts';
import { groupLogProbs } from '../../src/train/micro-batch.ts';
import { type RlOptions, rl } from '../../src/train/rl.ts';
import { PromptEncoder, type Task } from '../../src/train/task.ts';
import { DEVICE, REPEATS } from '../helpers/device.ts';
import { relativeDistance } from '../helpers/full-sequence.ts';
import {
  darkClaims,
  mixedScore,
  moments,
  teach,
  tinyLearner,
  tinyPolicy,
  tinyTask,
} from '../helpers/tiny-policy.ts';

const claim = (fact: string, holds: boolean, span: readonly [number, number] = [0, 1]) => ({
  fact,
  holds,
  span,
});

describe('advantages of claims', () => {
  test('are the verdict less the mean over the claims of the same fact', () => {
    const stated = [
      [claim('period', true), claim('noise', false)],
      [claim('period', false)],
      [claim('period', false), claim('noise', true)],
      [],
    ];
    const third = 1 / 3;
    expect(claimAdvantages(stated, null)).toEqual([
      [expect.closeTo(2 * third), -0.5],
      [expect.closeTo(-third)],
      [expect.closeTo(-third), 0.5],
      [],
    ]);
  });

  test('are 0 where all claims of a fact are alike, and for a single one', () => {
    expect(claimAdvantages([[claim('a', true)], [claim('a', true), claim('b', false)]], null)).toEqual([
      [0],
      [0, 0],
    ]);
  });

  test('are orthogonal to the main part where every response states the fact', () => {
    const group = fc.array(fc.tuple(fc.boolean(), fc.double({ min: -1, max: 1, noNaN: true })), {
      minLength: 2,
      maxLength: 16,
    });
    fc.assert(
      fc.property(group, (responses) => {
        const main = responses.map(([, value]) => value);
        const out = claimAdvantages(
          responses.map(([holds]) => [claim('period', holds)]),
          main,
        );
        const product = out.reduce((sum, [value], g) => sum + value! * main[g]!, 0);
        expect(Math.abs(product)).toBeLessThan(1e-4);
      }),
    );
  });
});

describe('token credit', () => {
  const policy = tinyPolicy(openTorch({ device: DEVICE }));
  const text = '<think>dark</think><answer>[[1, 2]]</answer>';
  const ids = policy.encodeResponse(text);

  test('reaches the tokens that state the claim, and no other', () => {
    const start = text.indexOf('[[1');
    const span = [start, start + 3] as const;
    const credit = tokenCredit(policy.tokenizer, ids, [claim('where', true, span)], [0.8], 0.5)!;
    const reached = [...credit].flatMap((value, t) => (value === 0 ? [] : [t]));
    expect(policy.tokenizer.decode(Int32Array.from(reached, (t) => ids[t]!))).toBe('[[1');
    expect(reached).toHaveLength(3);
    for (const t of reached) expect(credit[t]).toBeCloseTo(0.4);
  });

  test('is absent where no claim has an advantage', () => {
    expect(tokenCredit(policy.tokenizer, ids, [claim('where', true)], [0], 0.5)).toBeNull();
    expect(tokenCredit(policy.tokenizer, ids, [], [], 0.5)).toBeNull();
  });
});

describe('corrections', () => {
  const policy = tinyPolicy(openTorch({ device: DEVICE }));
  const text = '<think>dark</think><answer>[[1, 2]]</answer>';
  const at = (part: string): readonly [number, number] => [
    text.indexOf(part),
    text.indexOf(part) + part.length,
  ];
  const wrong = (part: string, correction: string | null) => ({
    ...claim(part, false, at(part)),
    correction,
  });
  const shown = (claims: Parameters<typeof corrected>[1]) => {
    const made = corrected(text, claims);
    if (made === null) return null;
    const { ids, weights } = lesson(policy.tokenizer, made, 1);
    const chosen = ids.filter((_, t) => weights[t] === 1);
    return [policy.tokenizer.decode(ids), policy.tokenizer.decode(chosen)];
  };

  test('write the true text behind the words before it, and count the characters that differ', () => {
    expect(shown([wrong('[1, 2]', '[1, 0]')])).toEqual(['<think>dark</think><answer>[[1, 0', '0']);
    expect(shown([wrong('dark', 'white'), wrong('2', '0')])).toEqual([
      '<think>white</think><answer>[[1, 0',
      expect.stringMatching(/^white.*0$/),
    ]);
  });

  test('insert at an empty span, before a claim that begins there, and teach all that is inserted', () => {
    const [behind] = at('dark').slice(1) as [number];
    const missing = { ...claim('dark', false, [behind, behind]), correction: 'white' };
    expect(shown([missing])).toEqual(['<think>darkwhite', 'white']);
    expect(shown([missing, { ...missing, correction: 'dark' }])![0]).toBe('<think>darkwhitedark');
    expect(shown([missing, wrong('dark', 'white')])![0]).toBe('<think>whitewhite');
    expect(shown([missing, wrong('</think>', '<answer>')])![0]).toBe('<think>darkwhite<answer>');
  });

  test('are none for true claims, for those whose truth is not known, and where nothing differs', () => {
    expect(shown([claim('dark', true, at('dark'))])).toBeNull();
    expect(shown([wrong('dark', null), wrong('2', '2')])).toBeNull();
    expect(shown([])).toBeNull();
  });

  test('leave out a claim that overlaps one before it', () => {
    expect(shown([wrong('[1, 2]', '[0, 2]'), wrong('2', '0')])![0]).toBe('<think>dark</think><answer>[[0');
  });

  test('picked of a group stand for all of it', () => {
    const { tokenizer } = policy;
    const of = (id: number) => ({ text: `<answer>${id}`, ranges: [[8, 9]] as const });
    const taught = (corrections: readonly number[], counterfactual: number | null) =>
      pickLessons(
        tokenizer,
        {
          corrections: corrections.map(of),
          counterfactual: counterfactual === null ? null : of(counterfactual),
        },
        { corrections: 0.5, counterfactuals: 2 },
      ).map(({ ids, weights }) => [tokenizer.decode(ids).at(-1), weights.at(-1)]);
    expect(taught([1, 2, 3, 4, 5, 6], null)).toEqual([
      ['1', 1.5],
      ['4', 1.5],
    ]);
    expect(taught([], null)).toEqual([]);
    expect(taught([7], 8)).toEqual([
      ['7', 0.5],
      ['8', 2],
    ]);
    expect(taught([], 9)).toEqual([['9', 2]]);
  });
});

describe('a lesson with open numbers', () => {
  const { tokenizer } = tinyPolicy(openTorch({ device: DEVICE }));
  /** Digits that are right at each token of a number, as text. */
  const open = (number: string, within: readonly [number, number]): string[] => {
    const text = `<answer>[[${number}, `;
    const span = [text.indexOf(number), text.indexOf(number) + number.length] as const;
    const made = lesson(tokenizer, { text, ranges: [[0, text.length]], open: [{ span, within }] }, 1);
    const choices = choicesOf([made])!;
    const digits = [...made.ids].flatMap((id, t) => (/^\d$/.test(tokenizer.decode([id])) ? [t] : []));
    expect(digits).toHaveLength(number.length);
    choices.forEach((ids, t) => {
      if (!digits.includes(t)) expect(ids).toEqual([made.ids[t]]);
    });
    return digits.map((t) => [...choices[t]!.map((id) => tokenizer.decode([id]))].sort().join(''));
  };

  test('has at each digit those that continue the digits before it to a number of the range', () => {
    expect(open('570', [550, 599])).toEqual(['5', '56789', '0123456789']);
    expect(open('590', [561, 600])).toEqual(['56', '6789', '0123456789']);
    expect(open('600', [561, 600])).toEqual(['56', '0', '0']);
    expect(open('90', [51, 100])).toEqual(['156789', '0123456789']);
    expect(open('7', [7, 7])).toEqual(['7']);
  });

  test('has no choices without them', () => {
    expect(choicesOf([lesson(tokenizer, { text: '[[1, 2]]', ranges: [[0, 8]] }, 1)])).toBeNull();
  });
});

describe('reinforcement by truth', () => {
  const engine = openTorch({ device: DEVICE });
  // Equal rewards in every group: the task alone has no gradient.
  const task = tinyTask({ claims: darkClaims, score: () => ({ total: 0.5, parts: { class: 0.5 } }) });

  let lines: RlMetrics[] = [];
  let learner: Learner;

  /** Trains by claims alone, and returns by how much the log-probability of each text rises. */
  async function gainsOf(
    texts: readonly string[],
    watched: Task,
    weights: { corrections?: number; counterfactuals?: number },
    changes: Partial<RlOptions> = {},
    samples = 300, // after which nearly every token is sure
  ): Promise<number[]> {
    const policy = tinyPolicy(engine);
    learner = tinyLearner(policy);
    await teach(learner, { samples });
    const encoder = new PromptEncoder(policy);
    const example = task.example(0);
    const prompt = encoder.encode(await task.picture(example), task.instruction(example));
    const responses = texts.map((text) => policy.encodeResponse(text).slice(0, -1));
    const logProbs = (): number[] =>
      responses.map((ids) =>
        groupLogProbs(policy, [{ prompt, responses: [{ ids }] }], { temperature: 1 })[0]!.reduce(
          (a, b) => a + b,
        ),
      );
    const before = logProbs();
    const { rl: usual } = defaultRecipe();
    const sizes = { steps: 6, prompts: 3, group: 8, maxTokens: 30 };
    const rate = { learningRate: 3e-3, warmup: 0, minLearningRate: 1 };
    const timerpo = { ...usual.timerpo, similarity: 'truth', credit: 'claim', ...weights } as const;
    const options = { ...usual, ...sizes, ...rate, advantage: 'timerpo', timerpo, ...changes } as const;
    lines = [];
    await rl(learner, null, watched, options, 4, {
      onStep: (line) => lines.push(line),
      save: () => {},
      onCompletions: () => {},
    });
    return logProbs().map((after, i) => after - before[i]!);
  }

  test.each([
    [0, 'claims'],
    [0.2, 'claims'],
    [0.2, 'amendments'],
  ] as const)(
    'by corrections of weight %d of its %s makes a word likelier that is never sampled, which no verdict does',
    async (corrections, kind) => {
      const seen = { all: 0, dark: 0 };
      const watched: Task = {
        ...task,
        claims: (response) => {
          const match = /dark/.exec(response);
          seen.all++;
          seen.dark += match === null ? 0 : 1;
          if (match === null) return { claims: [], f1: null };
          const span = [match.index, match.index + match[0].length] as const;
          const wrong = [{ fact: 'colour', span, holds: false, correction: 'white' }];
          return { claims: [], f1: null, [kind]: wrong };
        },
      };
      const [gain] = await gainsOf(['<think>white'], watched, { corrections });
      const shares = lines.map(({ lessons }) => lessons);
      if (corrections === 0) expect(shares).toEqual(Array(6).fill(null));
      else {
        expect(seen.dark).toBeLessThan(seen.all);
        const shared = shares.reduce((sum, share) => sum + share!.corrections / shares.length, 0);
        expect(shared).toBeCloseTo(seen.dark / seen.all, 6);
      }
      if (corrections === 0) expect(gain).toBe(0);
      else expect(gain).toBeGreaterThan(5);
    },
  );

  test.for(['token', 'sequence'] as const)(
    'has the gradient of the whole when groups and lessons are divided into micro-batches: ratio of the %s',
    async (ratio, { skip }) => {
      skip(!REPEATS);
      const before = '<think>white</think><answer>';
      const watched: Task = {
        ...task,
        score: mixedScore([0]),
        claims: (response) => darkClaims(response, task.example(0)),
        counterfactual: () => ({
          text: `${before}[[0, 2]]</answer>`,
          answer: [before.length, before.length + 8],
          open: [],
        }),
      };
      const weights = { corrections: 0.3, counterfactuals: 2 };
      const momentsOf = async (tokens: number): Promise<Float32Array> => {
        await gainsOf([], watched, weights, { steps: 1, tokens, ratio }, 120);
        expect(lines[0]!.lessons!.corrections).toBeGreaterThan(0);
        expect(lines[0]!.zeroVariance).toBeLessThan(1); // responses are trained beside the lessons
        return moments(learner).first;
      };
      const [whole, parts, single] = [await momentsOf(1e6), await momentsOf(150), await momentsOf(1)];
      expect(relativeDistance(parts, whole)).toBeLessThan(2e-6);
      expect(relativeDistance(single, whole)).toBeLessThan(2e-6);
    },
  );

  test('by counterfactuals teaches the one that marks most of the responses drawn, of any prompt', async () => {
    const before = '<think>white</think><answer>';
    const answers = ['[[1, 2]]', '[[0, 2]]'] as const;
    const offeredTo = new Map<string, Set<string>>();
    const watched: Task = {
      ...task,
      claims: () => ({ claims: [], f1: null }),
      counterfactual: (response, { id }) => {
        offeredTo.set(response, (offeredTo.get(response) ?? new Set()).add(id));
        const marks = response.includes('left') ? 1 : 0;
        const answer = [before.length, before.length + 8] as const;
        const open = Array.from({ length: 2 * marks }, () => ({ span: [0, 0], within: [0, 0] }) as const);
        return { text: `${before}${answers[marks]}</answer>`, answer, open };
      },
    };
    const texts = answers.map((answer) => before + answer);
    const [fewer, more] = await gainsOf(texts, watched, { counterfactuals: 1 });
    const shares = [...offeredTo.keys()].map((text) => text.includes('left'));
    expect(new Set(shares).size).toBe(2);
    expect([...offeredTo.values()].some((ids) => ids.size > 1)).toBe(true);
    expect(more! - fewer!).toBeGreaterThan(2);
  });

  test.each([0, 1])(
    'by counterfactuals of weight %d makes the answer to a moved reasoning likelier',
    async (counterfactuals) => {
      const before = '<think>white</think><answer>';
      const watched: Task = {
        ...task,
        claims: () => ({ claims: [], f1: null }),
        counterfactual: () => ({
          text: `${before}[[0, 2]]</answer>`,
          answer: [before.length, before.length + 8],
          open: [],
        }),
      };
      const texts = [`${before}[[0, 2]]`, before];
      const [gain, ofReasoning] = await gainsOf(texts, watched, { counterfactuals });
      if (counterfactuals > 0) expect(lines[0]!.lessons).toEqual({ corrections: 0, counterfactuals: 1 });
      if (counterfactuals === 0) expect(gain).toBe(0);
      else expect(gain! - ofReasoning!).toBeGreaterThan(5);
    },
  );

  test('by counterfactuals with an open number makes all of its range likelier, not only the number that stands there', async () => {
    const before = '<think>white</think><answer>[[';
    const gains = async (within: readonly [number, number]): Promise<number[]> => {
      const watched: Task = {
        ...task,
        claims: () => ({ claims: [], f1: null }),
        counterfactual: () => ({
          text: `${before}4, 6]]</answer>`,
          answer: [before.length, before.length + 1],
          open: [{ span: [before.length, before.length + 1], within }],
        }),
      };
      const texts = [before, ...[4, 5, 0].map((digit) => `${before}${digit}`)];
      const [context, ...ofDigits] = await gainsOf(texts, watched, { counterfactuals: 1 });
      return ofDigits.map((gain) => gain - context!);
    };
    const [four, five, zero] = await gains([4, 5]);
    const [alone, beside, other] = await gains([4, 4]);
    expect(five! - zero!).toBeGreaterThan(beside! - other! + 2); // nats
    expect(four! - five!).toBeLessThan(alone! - beside! - 2);
  });
});
