import { describe, expect, it } from 'vitest';
import { recurrence } from '../../src/expcot/recurrence.ts';
import type { Interval } from '../../src/types.ts';

/** Departures of some sizes at some places, two samples wide, and those above 5 as stretches. */
function at(places: readonly (readonly [at: number, size: number])[], n = 900) {
  const departures = new Float64Array(n);
  for (const [place, size] of places) departures.fill(size, place, place + 2);
  const stretches = places
    .filter(([, size]) => Math.abs(size) > 5)
    .map(([place]): Interval => [place, place + 2]);
  return { departures, stretches };
}
const found = (places: readonly (readonly [number, number])[]) => {
  const { departures, stretches } = at(places);
  return recurrence(departures, stretches);
};

describe('recurrence', () => {
  it('sees what comes at equal distances through the whole series', () => {
    expect(
      found([
        [101, 6],
        [340, 7],
        [581, 6.5],
        [819, 6],
      ]),
    ).toEqual({ lag: 238, rest: [] });
  });

  it('allows for occurrences that are weaker and not flagged', () => {
    expect(
      found([
        [101, 6],
        [340, 4.5],
        [581, 6.5],
        [819, 4.9],
      ]),
    ).toEqual({
      lag: null,
      rest: [
        [101, 103],
        [581, 583],
      ],
    });
    expect(
      found([
        [101, 6],
        [340, 6],
        [581, 4.5],
        [819, 4.9],
      ]),
    ).toEqual({ lag: 239, rest: [] });
  });

  it('leaves over what stands beside the pattern', () => {
    const { lag, rest } = found([
      [101, 6],
      [340, 7],
      [450, 9],
      [581, 6.5],
      [819, 6],
    ]);
    expect([lag, rest]).toEqual([238, [[450, 452]]]);
  });

  it('leaves over what is much larger than what recurs', () => {
    const { lag, rest } = found([
      [101, 20],
      [341, 6],
      [581, 6],
      [821, 6],
    ]);
    expect([lag, rest]).toEqual([240, [[101, 103]]]);
  });

  it.each([
    [
      'twice only',
      [
        [300, 6],
        [550, 6],
      ],
    ],
    [
      'with one missing in between',
      [
        [101, 6],
        [341, 6],
        [821, 6],
      ],
    ],
    [
      'in other directions',
      [
        [101, 6],
        [341, -6],
        [581, 6],
        [821, -6],
      ].slice(0, 3),
    ],
    [
      'at unequal distances',
      [
        [101, 6],
        [331, 6],
        [621, 6],
      ],
    ],
  ] as [string, [number, number][]][])('does not take for a pattern what comes %s', (_, places) => {
    const { stretches } = at(places);
    expect(found(places)).toEqual({ lag: null, rest: stretches });
  });

  it('does not take neighbours for recurrences, nor try very many', () => {
    const wide = new Float64Array(900).fill(6, 400, 460);
    const parts: Interval[] = [
      [400, 418],
      [421, 439],
      [442, 460],
    ];
    expect(recurrence(wide, parts)).toEqual({ lag: null, rest: parts });
    const many = Array.from({ length: 150 }, (_, i): Interval => [6 * i, 6 * i + 1]);
    expect(recurrence(new Float64Array(900).fill(6), many).lag).toBeNull();
  });
});
