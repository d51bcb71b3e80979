import { createHash } from 'node:crypto';
import { afterAll, describe, expect, it } from 'vitest';
import { ConfigError, DataError, TimeseerError } from '../../src/ground/errors.ts';
import { workerUrl } from '../../src/ground/paths.ts';
import type { Picture } from '../../src/ground/types.ts';
import { type Figure, figure } from '../../src/plot/figure.ts';
import { type RenderJob, RenderPool } from '../../src/plot/pool.ts';
import { render } from '../../src/plot/raster.ts';
import { GOLDEN } from './golden.ts';

const hash = (picture: Picture) => createHash('sha256').update(picture.data).digest('hex');
const nano = figure('nano');
const job = (first: number): RenderJob => ({ figure: nano, values: Float64Array.of(first, 0, 1) });

async function withPool<T>(pool: RenderPool, body: (pool: RenderPool) => Promise<T>): Promise<T> {
  try {
    return await body(pool);
  } finally {
    await pool.close();
  }
}

describe('the render pool', () => {
  // One for the tests that leave it as it was: each Worker takes a second to start.
  const shared = new RenderPool(2);
  afterAll(() => shared.close());

  it('gives the pixels that this thread gives, from every Worker', async () => {
    const pool = shared;
    const all = Object.values(GOLDEN);
    const drawn = await Promise.all(
      [...all, ...all].map(({ figure, values, times }) => pool.render(figure, values, times)),
    );
    const here: string[] = [];
    for (const { figure, values, times } of all) here.push(hash(await render(figure, values, times)));
    expect(drawn.map(hash)).toEqual([...here, ...here]);
  });

  it('keeps the order of the jobs, and runs no further ahead than its capacity', async () => {
    const pool = shared;
    let taken = 0;
    function* jobs() {
      for (taken = 0; taken < 30; ) yield job(++taken);
    }
    let seen = 0;
    for await (const picture of pool.renderAll(jobs())) {
      seen++;
      expect(taken).toBeLessThanOrEqual(seen + pool.capacity);
      const alone = await render(nano, job(seen).values);
      expect(hash(picture)).toBe(hash(alone));
    }
    expect(seen).toBe(30);
  });

  it('passes on typed errors and goes on', async () => {
    const pool = shared;
    const refused = pool.render(nano, Float64Array.of(Number.NaN));
    await expect(refused).rejects.toThrow(DataError);
    await expect(refused).rejects.toThrow(/every sample is missing/);
    const colored = pool.render(figure('nano', { colors: ['red'] }), Float64Array.of(1, 2));
    await expect(colored).rejects.toThrow(ConfigError);
    const unsendable = { ...nano, title: (() => '') as unknown as string } satisfies Figure;
    await expect(pool.render(unsendable, Float64Array.of(1))).rejects.toThrow(/cannot be sent/);
    expect((await pool.render(nano, Float64Array.of(1, 2))).width).toBe(560);
  });

  it('stops a sequence at its first error and takes no more jobs', async () => {
    const pool = shared;
    let taken = 0;
    function* jobs() {
      for (; taken < 50; taken++) yield job(taken === 3 ? Number.NaN : 1);
      throw new Error('not reached');
    }
    const bad = function* () {
      for (const each of jobs()) {
        yield Number.isNaN(each.values[0]) ? { ...each, values: Float64Array.of(Number.NaN) } : each;
      }
    };
    const got: Picture[] = [];
    const run = async () => {
      for await (const picture of pool.renderAll(bad())) got.push(picture);
    };
    await expect(run()).rejects.toThrow(DataError);
    expect(got.length).toBe(3);
    expect(taken).toBeLessThanOrEqual(3 + pool.capacity);
  });

  it('survives a Worker that dies: its pictures fail, later ones are drawn', () => {
    const program = workerUrl('../helpers/failing-render-worker.ts', import.meta.url);
    return withPool(new RenderPool(1, program), async (pool) => {
      const doomed = pool.render(nano, job(13).values);
      const queued = pool.render(nano, job(1).values);
      await expect(doomed).rejects.toThrow(TimeseerError);
      await expect(doomed).rejects.toThrow(/Worker failed \(out of luck\)/);
      await queued.catch((error: unknown) => expect(error).toBeInstanceOf(TimeseerError));
      for (let i = 0; i < 5; i++) expect((await pool.render(nano, job(2).values)).width).toBe(1);
    });
  });

  it('draws what was asked for before it closes, and nothing after', async () => {
    const pool = new RenderPool(2);
    const pictures = Promise.all([1, 2, 3, 4, 5, 6, 7].map((first) => pool.render(nano, job(first).values)));
    const closed = pool.close();
    expect((await pictures).length).toBe(7);
    await closed;
    await expect(pool.render(nano, job(1).values)).rejects.toThrow(/closed/);
    await pool.close();
  });

  it('refuses a number of workers that makes no pool', () => {
    for (const workers of [0, 1.5, -2, Number.NaN])
      expect(() => new RenderPool(workers)).toThrow(ConfigError);
  });
});
