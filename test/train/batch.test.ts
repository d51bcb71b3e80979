import { expect, test } from 'vitest';
import { openTorch } from '../../src/engine/torch/torch.ts';
import { type EncodedPrompt, joined } from '../../src/policy/batch.ts';
import { promptBatch, responseBatch, sequenceBatch } from '../../src/train/batch.ts';
import { PromptEncoder } from '../../src/train/prompt.ts';
import { tinyPolicy, tinyTask } from '../helpers/tiny-policy.ts';

const policy = tinyPolicy(openTorch({ threads: 1 }));
const task = tinyTask();
const encoder = new PromptEncoder(policy);
const { pad, end } = policy.dims.special;
const prompts = await Promise.all(
  [1, 2].map(async (i): Promise<EncodedPrompt> => {
    const series = task.example(i);
    return encoder.encode(await task.picture(series), task.instruction(series));
  }),
);
const ids = (...tokens: number[]): Int32Array => Int32Array.from([...tokens, end]);

test('the prompts of these tests have unequal lengths', () => {
  expect(prompts[0]!.ids.length).not.toBe(prompts[1]!.ids.length);
});

test('the state before each response token predicts it, in rows of unequal length', () => {
  const responses = [ids(40, 41, 42, 43), ids()];
  const { input, targets } = sequenceBatch(prompts, responses, pad);
  expect([...targets]).toEqual([40, 41, 42, 43, end, end]);
  expect([...input.rows!]).toHaveLength(targets.length);
  input.rows!.forEach((row, k) => {
    const b = Math.floor(row / input.length);
    const t = row % input.length;
    expect(b).toBe(k < 5 ? 0 : 1);
    expect(joined(prompts[b]!, responses[b]!).ids[t + 1]).toBe(targets[k]);
  });
});

test('the last response token, which predicts nothing, is not fed', () => {
  const { input } = sequenceBatch([prompts[0]!], [ids(40, 41)], pad);
  expect(input.length).toBe(prompts[0]!.ids.length + 2);
  expect([...input.tokens.slice(-2)]).toEqual([40, 41]);
});

test('of a prompt batch the state after each last token is wanted', () => {
  const input = promptBatch(prompts, pad);
  expect([...input.rows!].map((row) => input.tokens[row])).toEqual(prompts.map((one) => one.ids.at(-1)));
  expect([...input.rows!].map((row) => Math.floor(row / input.length))).toEqual([0, 1]);
});

test('every token of grouped responses is predicted by the prompt or by the token before it', () => {
  const responses = [ids(40), ids(50, 51, 52), ids(), ids(60), ids(70, 71), ids(80)];
  const { input, select, targets, owner } = responseBatch(prompts, responses, pad);
  expect([...targets]).toEqual(responses.flatMap((one) => [...one]));
  expect([...owner]).toEqual([0, 0, 1, 1, 1, 1, 2, 3, 3, 4, 4, 4, 5, 5]);
  expect(input!.batch).toBe(6);
  expect(input!.length).toBe(3);
  let t = 0;
  select.forEach((place, k) => {
    const b = owner[k]!;
    t = k > 0 && owner[k - 1] === b ? t + 1 : 0;
    if (t === 0) expect(place).toBe(b < 3 ? 0 : 1);
    else {
      const row = place - prompts.length;
      expect(Math.floor(row / input!.length)).toBe(b);
      expect(input!.tokens[row]).toBe(responses[b]![t - 1]);
    }
  });
});

test('response positions go on from the prompt of their own group', () => {
  const { input } = responseBatch(prompts, [ids(40), ids(41, 42), ids(50), ids(51)], pad);
  const { length, positions } = input!;
  [0, 0, 1, 1].forEach((p, b) => {
    expect(positions[b * length]).toBe(prompts[p]!.next);
    expect(positions[b * length + 1]).toBe(prompts[p]!.next + 1);
  });
});

test('responses of the end token alone need no forward pass of their own', () => {
  const { input, select, targets, owner } = responseBatch(prompts, [ids(), ids(), ids(), ids()], pad);
  expect(input).toBeNull();
  expect([...select]).toEqual([0, 0, 1, 1]);
  expect([...targets]).toEqual([end, end, end, end]);
  expect([...owner]).toEqual([0, 1, 2, 3]);
});
