import { describe, expect, test } from 'vitest';
import { recomputes } from '../../src/train/recompute.ts';

describe('layers are computed again', () => {
  test('where the recipe says so, whatever fits', () => {
    expect(recomputes('always', { kept: 1, memory: 100, parameters: 10 })).toBe(true);
    expect(recomputes('never', { kept: 1000, memory: 100, parameters: 1e9 })).toBe(false);
  });

  test('by themselves where all that is kept would leave less than a fifth of the memory', () => {
    expect(recomputes('auto', { kept: 79, memory: 100, parameters: 1e9 })).toBe(false);
    expect(recomputes('auto', { kept: 81, memory: 100, parameters: 10 })).toBe(true);
  });

  test('by themselves from 100 million parameters on where the memory is not known', () => {
    expect(recomputes('auto', { kept: 1e12, memory: null, parameters: 99e6 })).toBe(false);
    expect(recomputes('auto', { kept: 1, memory: null, parameters: 101e6 })).toBe(true);
  });
});
