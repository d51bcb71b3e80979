/** Tokens for names of classes: one each, with the means of what spelled them; all else as it was. */
import { join } from 'node:path';
import { afterAll, describe, expect, test } from 'vitest';
import { openTorch } from '../../src/engine/torch/torch.ts';
import { Policy } from '../../src/policy/policy.ts';
import { addTokens } from '../../src/run/added-tokens.ts';
import { DEVICE } from '../helpers/device.ts';
import { temporary } from '../helpers/temporary.ts';
import { tinyPolicy } from '../helpers/tiny-policy.ts';

const root = temporary('added');
const engine = openTorch({ device: DEVICE, threads: 1 });

describe.each([true, false])('a policy whose head is its embedding: %s', (tied) => {
  const directory = join(root, String(tied));
  const before = tinyPolicy(engine, 5, { tied });
  before.write(directory);
  // `class`, `dark on` and `im_end` are parts of tokens and get none.
  const NAMES = [
    'class',
    'dark on',
    'im_end',
    'a<|im_end|>b',
    'worn',
    'Badminton',
    'worn out',
    '7',
    '42',
    '100',
    '1.52',
    'o.x',
    'a, b',
    'worn',
    'trend',
    'Läufer',
    ' led',
    '<bold>&"\\',
  ];
  const added = addTokens(directory, NAMES);
  const after = Policy.load(engine, directory, { tuning: 'none' });
  afterAll(() => {
    before.dispose();
    after.dispose();
  });
  const rowsOf = (policy: Policy, of: RegExp): Float32Array[] =>
    policy.layout.parameters
      .map(({ name }, i) => ({ name, values: engine.floats(policy.parameters[i]!) }))
      .filter(({ name }) => of.test(name))
      .map(({ values }) => values);

  test('names that take three tokens or more get one, but not parts of other tokens, or what libraries may give back otherwise', () => {
    expect(added).toEqual(['worn', 'Badminton', 'worn out', '<bold>&"\\']);
    const { size } = before.tokenizer;
    expect(after.dims.vocabulary).toBe(size + 4);
    expect([...after.tokenizer.encode('<class>worn out</class>')]).toEqual(
      [...before.tokenizer.encode('<class></class>')].toSpliced(1, 0, size + 2),
    );
    for (const text of [
      '<class>Badminton</class>',
      'Badminton, worn out; trend 42',
      '<bold>&"\\',
      'Läufer led',
    ]) {
      expect(after.tokenizer.decode(after.tokenizer.encode(text))).toBe(text);
    }
    expect(after.forbidden[size + 3]).toBe(0);
    expect([...after.tokenizer.encode('trend 42 Läufer')]).toEqual([
      ...before.tokenizer.encode('trend 42 Läufer'),
    ]);
  });

  test('a new row is the mean of the rows that spelled the name, and all else is as it was', () => {
    const [size, { width }] = [before.tokenizer.size, before.dims];
    const [old, now] = [before, after].map((policy) => rowsOf(policy, /^(embed|head)/));
    expect(now).toHaveLength(tied ? 1 : 2);
    for (const [m, matrix] of now!.entries()) {
      expect(matrix.subarray(0, size * width)).toEqual(old![m]);
      const ids = before.tokenizer.encode('worn out');
      for (let d = 0; d < width; d++) {
        const mean = [...ids].reduce((sum, id) => sum + old![m]![id * width + d]!, 0) / ids.length;
        expect(matrix[(size + 2) * width + d]).toBeCloseTo(mean, 6);
      }
    }
    const others = /^(?!embed|head)/;
    expect(rowsOf(after, others)).toEqual(rowsOf(before, others));
  });

  test('nothing is added a second time', () => {
    expect(addTokens(directory, NAMES)).toEqual([]);
    expect(Policy.read(directory).tokenizer.size).toBe(after.tokenizer.size);
  });
});
