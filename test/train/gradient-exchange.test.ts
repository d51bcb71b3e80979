/** Gradients between ranks that share no memory: simulated groups, whose ranks run one after the other. */
import fc from 'fast-check';
import { afterAll, expect, test } from 'vitest';
import { openTorch } from '../../src/engine/torch/torch.ts';
import {
  bucketsOf,
  type ExchangeOptions,
  GradientExchange,
  type Range,
  slicesOf,
} from '../../src/train/gradient-exchange.ts';
import { DEVICE } from '../helpers/device.ts';
import { LoneRank } from '../helpers/lone-rank.ts';

const engine = openTorch({ device: DEVICE, threads: 1 });
const born = engine.live();
afterAll(() => expect(engine.live()).toBe(born));

/** A micro-batch: gradients by parameter, in the order in which they come. */
type Round = readonly {
  readonly index: number;
  readonly value: number;
  readonly last: boolean | undefined;
}[];

interface Job {
  readonly ranges: readonly Range[];
  readonly options: ExchangeOptions;
  /** By rank. */
  readonly rounds: readonly (readonly Round[])[];
  readonly announced: boolean;
  readonly passes: number;
  readonly steps: number;
}

/** Sums of the slices of one rank in the last step, [T] with NaN elsewhere. */
function run({ ranges, options, rounds, announced, passes, steps }: Job, workers: LoneRank): number[] {
  const total = ranges.reduce((sum, { size }) => sum + size, 0);
  const out = new Array<number>(total).fill(Number.NaN);
  engine.scope(() => {
    const exchange = new GradientExchange(engine, workers, ranges, options);
    for (let step = 0; step < steps; step++) {
      const own = rounds[workers.rank]!;
      if (announced) exchange.begin(own.length, passes);
      for (const round of own) {
        engine.scope(() => {
          for (const { index, value, last } of round) {
            const { size } = ranges[index]!;
            const values = Float32Array.from({ length: size }, (_, i) => value * (i + 1));
            exchange.add(index, engine.tensor(values, [size]), last);
          }
        });
        exchange.endRound();
      }
      exchange.finish();
      if (step === steps - 1) {
        for (const slice of exchange.slices) {
          const { start, end } = slice;
          if (end > start)
            out.splice(start, end - start, ...engine.floats(exchange.summed(slice, start, end - start)));
        }
      }
      exchange.drop();
    }
    expect(workers.open).toBe(0);
    exchange.dispose();
  });
  return out;
}

const ROUND = (parameters: number): fc.Arbitrary<Round> =>
  fc
    .array(
      fc.record({
        index: fc.nat(parameters - 1),
        value: fc.integer({ min: -50, max: 50 }),
        part: fc.boolean(),
      }),
      { maxLength: 8 },
    )
    .map((list) =>
      list.map(({ part, ...item }, at) => ({
        ...item,
        last: part ? undefined : !list.slice(at + 1).some(({ index }) => index === item.index),
      })),
    );

const JOB: fc.Arbitrary<Job> = fc.integer({ min: 1, max: 7 }).chain((parameters) =>
  fc.record({
    ranges: fc
      .array(fc.record({ size: fc.integer({ min: 1, max: 9 }), late: fc.boolean() }), {
        ...{ minLength: parameters, maxLength: parameters },
      })
      .map((list) => {
        let offset = 0;
        return list.map((range) => {
          offset += range.size;
          return { ...range, offset: offset - range.size, decay: false };
        });
      }),
    options: fc.record({ zero: fc.constantFrom(1, 2, 3), bucket: fc.integer({ min: 1, max: 12 }) }),
    rounds: fc.array(fc.array(ROUND(parameters), { maxLength: 3 }), { minLength: 2, maxLength: 4 }),
    announced: fc.boolean(),
    passes: fc.integer({ min: 1, max: 3 }),
    steps: fc.integer({ min: 1, max: 2 }),
  }),
);

test('every rank sends the same pieces in the same order, and its slices are the sum over ranks and micro-batches', () => {
  fc.assert(
    fc.property(JOB, (given) => {
      const job = { ...given, announced: given.announced || given.options.zero !== 1 };
      const size = job.rounds.length;
      const longest = Math.max(...job.rounds.map((rounds) => rounds.length));
      // What a rank sends does not depend on what it receives.
      const sent = job.rounds.map((_, rank) => {
        const workers = new LoneRank(engine, rank, size, null, longest);
        run(job, workers);
        return workers.log;
      });
      for (const of of sent) {
        expect(of.map(({ root, values }) => [root, values.length])).toEqual(
          sent[0]!.map(({ root, values }) => [root, values.length]),
        );
      }
      const total = job.ranges.reduce((sum, range) => sum + range.size, 0);
      const wanted = new Array<number>(total).fill(0);
      for (const { index, value } of job.rounds.flat(2)) {
        const { offset, size: length } = job.ranges[index]!;
        for (let i = 0; i < length; i++) wanted[offset + i]! += value * (i + 1);
      }
      const owners = new Array<number>(total).fill(0);
      job.rounds.forEach((_, rank) => {
        run(job, new LoneRank(engine, rank, size, sent, longest)).forEach((value, i) => {
          if (Number.isNaN(value)) return;
          owners[i]!++;
          expect(value).toBe(wanted[i]);
        });
      });
      expect(owners).toEqual(new Array<number>(total).fill(1));
    }),
  );
});

test('a bucket is sent as soon as its gradients are final in the last micro-batch, or in each with ZeRO 2', () => {
  const ranges = [0, 1, 2, 3].map((i) => ({ offset: 2 * i, size: 2, decay: false, late: i === 3 }));
  const sentAfter = (zero: 1 | 2): number[] =>
    engine.scope(() => {
      const workers = new LoneRank(engine, 1, 2, null, 2);
      const exchange = new GradientExchange(engine, workers, ranges, { zero, bucket: 2 });
      const counts: number[] = [];
      exchange.begin(2);
      for (let round = 0; round < 2; round++) {
        for (const index of [2, 1, 3, 0]) {
          exchange.add(index, engine.zeros([2]));
          exchange.finalise(index);
          counts.push(workers.log.length / 2);
        }
        exchange.endRound();
      }
      workers.log.length = 0;
      exchange.dispose();
      return counts;
    });
  expect(sentAfter(1)).toEqual([0, 0, 0, 0, 1, 2, 2, 4]); // parameter 3 comes early and is sent last
  expect(sentAfter(2)).toEqual([1, 2, 2, 4, 5, 6, 6, 8]);
});

test('buckets hold whole parameters, the last first and late ones last, and ranks have even slices of each', () => {
  const sizes = [7, 3, 3, 2, 4];
  let offset = 0;
  const ranges = sizes.map((size, i) => {
    offset += size;
    return { offset: offset - size, size, decay: false, late: i === 4 };
  });
  const buckets = bucketsOf(ranges, 5);
  expect(buckets.map(({ start, end, indices }) => [start, end, indices])).toEqual([
    [10, 15, [3, 2]],
    [0, 10, [1, 0]],
    [15, 19, [4]],
  ]);
  expect(bucketsOf(ranges, 20)).toEqual([expect.objectContaining({ start: 0, end: 19 })]);
  const slices = [0, 1, 2].map((rank) => slicesOf(buckets, rank, 3, false));
  expect(slices[1]).toEqual([
    { start: 11, end: 13, at: 0 },
    { start: 3, end: 6, at: 2 },
    { start: 16, end: 17, at: 5 },
  ]);
});

test('slices of ranks meet, and no rank gets a part of a matrix', () => {
  const shape = fc.tuple(fc.integer({ min: 1, max: 6 }), fc.integer({ min: 1, max: 6 }), fc.boolean());
  fc.assert(
    fc.property(
      fc.array(fc.array(shape, { minLength: 1, maxLength: 3 }), { minLength: 1, maxLength: 12 }),
      fc.integer({ min: 1, max: 5 }),
      fc.integer({ min: 1, max: 60 }),
      (parameters, size, full) => {
        let offset = 0;
        const ranges = parameters.map((shapes) => {
          const start = offset;
          const matrices = shapes.map(([rows, columns]) => {
            offset += rows * columns;
            return { offset: offset - rows * columns, rows, columns };
          });
          const isWhole = shapes[0]![2];
          return {
            offset: start,
            size: offset - start,
            decay: true,
            matrices: isWhole ? matrices : undefined,
          };
        });
        const buckets = bucketsOf(ranges, full);
        const slices = Array.from({ length: size }, (_, rank) => slicesOf(buckets, rank, size, false));
        buckets.forEach(({ start, end }, b) => {
          let at = start;
          const inOrder = slices.map((of) => of[b]!).sort((x, y) => x.start - y.start || x.end - y.end);
          for (const slice of inOrder) {
            expect(slice.start).toBe(at);
            at = slice.end;
            const cut = ranges
              .flatMap(({ matrices = [] }) => matrices)
              .filter((matrix) => matrix.offset < at && at < matrix.offset + matrix.rows * matrix.columns);
            expect(cut).toEqual([]);
          }
          expect(at).toBe(end);
        });
      },
    ),
  );
});

test('ranks hold nearly the same where matrices fill buckets', () => {
  // Sizes in the proportions of a 3B policy: query, key, value, output, and three of the feed-forward network.
  let offset = 0;
  const ranges = Array.from({ length: 36 }, () => [4, 1, 1, 4, 22, 22, 22]).flatMap((layer) =>
    layer.map((rows) => {
      const matrix = { offset, rows, columns: 100 };
      offset += rows * 100;
      return { offset: matrix.offset, size: rows * 100, decay: true, matrices: [matrix] };
    }),
  );
  for (const size of [2, 4, 8, 16]) {
    const held = Array.from({ length: size }, (_, rank) =>
      slicesOf(bucketsOf(ranges, 800), rank, size, false).reduce(
        (sum, { start, end }) => sum + end - start,
        0,
      ),
    );
    expect(Math.max(...held) - offset / size).toBeLessThanOrEqual(2200);
  }
});

test('ZeRO 2 refuses a step whose micro-batches were not announced', () => {
  engine.scope(() => {
    const exchange = new GradientExchange(
      engine,
      new LoneRank(engine, 0, 2, null, 1),
      [{ offset: 0, size: 2, decay: true }],
      {
        zero: 2,
      },
    );
    expect(() => exchange.finish()).toThrow(/not announced/);
    exchange.dispose();
  });
});
