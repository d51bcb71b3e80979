/** Credit of claims: which tokens a verdict reaches, and that it leaves the task alone. */
import fc from 'fast-check';
import { describe, expect, test } from 'vitest';
import { openTorch } from '../../src/engine/torch/torch.ts';
import { claimAdvantages, tokenCredit } from '../../src/train/claim-credit.ts';
import { tinyPolicy } from '../helpers/tiny-policy.ts';

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
  const policy = tinyPolicy(openTorch());
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
