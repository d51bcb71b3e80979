import { describe, expect, test } from 'vitest';
import { waitFor } from '../../src/endpoint/requests.ts';

const recent = [
  { at: 1000, tokens: 400 },
  { at: 5000, tokens: 300 },
  { at: 9000, tokens: 200 },
];

describe('rates', () => {
  test('let a request through while the minute before it has room', () => {
    expect(waitFor(recent, 10_000, 100, { requestsPerMinute: 4, tokensPerMinute: 1000 })).toBe(0);
    expect(waitFor(recent, 10_000, 1e9, {})).toBe(0);
    expect(waitFor([], 10_000, 1e9, { tokensPerMinute: 1 })).toBe(0);
  });

  test('make it wait until enough requests are a minute old', () => {
    expect(waitFor(recent, 10_000, 1, { requestsPerMinute: 3 })).toBe(51_000);
    expect(waitFor(recent, 10_000, 1, { requestsPerMinute: 2 })).toBe(55_000);
  });

  test('make it wait until enough tokens are a minute old', () => {
    expect(waitFor(recent, 10_000, 101, { tokensPerMinute: 1000 })).toBe(51_000);
    expect(waitFor(recent, 10_000, 700, { tokensPerMinute: 1000 })).toBe(55_000);
    expect(waitFor(recent, 10_000, 2000, { tokensPerMinute: 1000 })).toBe(59_000);
  });
});
