/** Made series like recordings in which the detector was wrong. */
import { describe, expect, test } from 'vitest';
import { detect } from '../../src/detect/detect.ts';
import { Random } from '../../src/ground/random.ts';
import { poisson } from '../bench/anomaly-shapes.ts';

describe('smooth courses', () => {
  /** Temperatures: a day of one height on a course that changes with the weather. */
  const weather = (seed: number, days: number, day: number, noise: number): Float64Array => {
    const random = new Random(seed, 'weather');
    const hours = 24 / day;
    let [course, pace] = [0, 0];
    return Float64Array.from({ length: day * days }, (_, t) => {
      pace = (1 - 0.07 * hours) * pace + 0.14 * Math.sqrt(hours) * random.normal();
      course = (1 - 0.015 * hours) * course + pace * hours;
      const usual = course + 3 * Math.sin(2 * Math.PI * (t / day - 0.375));
      return Number((usual + noise * random.normal()).toFixed(2));
    });
  };

  test('of a few days of weather have few findings, and no trend or level beyond all others', () => {
    const found = [
      [5, 24, 0.02],
      [5, 144, 0.02],
      [5, 144, 0.1],
      [10, 24, 0.05],
      [5, 96, 0.05],
    ].flatMap(([days, day, noise]) =>
      Array.from({ length: 40 }, (_, seed) => {
        const calendar = [day! / 24, day!, 7 * day!].filter((period) => period > 1);
        return detect(weather(seed, days!, day!, noise!), { calendar }).findings;
      }),
    );
    expect(found.filter((some) => some.length > 0).length).toBeLessThanOrEqual(28);
    const falls = found.flat().filter(({ kind }) => kind === 'level' || kind === 'trend');
    expect(Math.max(...falls.map(({ severity }) => severity))).toBeLessThan(13);
  });

  test('still show a fall that no day explains', () => {
    const values = weather(3, 10, 24, 0.1).map((value, t) => (t >= 120 && t < 132 ? value - 25 : value));
    const { findings } = detect(values, { calendar: [24, 168] });
    expect(findings[0]).toMatchObject({ direction: 'below' });
    expect(Math.abs(findings[0]!.start - 120)).toBeLessThan(3);
  });
});

describe('a level of other noise', () => {
  test('holds what is usual there: no spikes and dips in it, and no growth before its end', () => {
    const random = new Random(9, 'g');
    const values = Float64Array.from({ length: 991 }, (_, t) =>
      Math.exp(Math.log(14) + (t >= 756 && t < 945 ? 2.2 : 0) + 0.3 * random.normal()),
    );
    const { findings } = detect(values);
    expect(findings.find(({ start, end }) => start === 756 && end === 945)).toMatchObject({
      ...{ kind: 'level', direction: 'above' },
    });
    expect(findings.length).toBeLessThanOrEqual(3);
    expect(findings.filter(({ direction, ongoing }) => direction === 'below' || ongoing)).toEqual([]);
  });

  test.each([2, 3, 4, 5])('is one finding of counts in an outbreak (%i)', (seed) => {
    const random = new Random(seed, 'outbreak');
    const values = Float64Array.from({ length: 209 }, (_, t) => poisson(random, t >= 95 && t < 113 ? 24 : 2));
    expect(detect(values).findings).toMatchObject([
      { kind: 'level', direction: 'above', start: 95, end: 113 },
    ]);
  });
});

describe('outages', () => {
  test('that are alike are compared with usual values', () => {
    const random = new Random(7, 'flow');
    const outages = [193, 512, 873];
    let [next, since] = [5, 99];
    // Pulses of one shape at any time, which similar stretches predict.
    const values = Float64Array.from({ length: 1268 }, (_, t) => {
      if (t === next) [since, next] = [0, t + random.integer(45, 60)];
      since++;
      const pulse = 2 * Math.exp(-((since - 8) ** 2) / 18) - 1.2 * Math.exp(-((since - 16) ** 2) / 18);
      const down = outages.map((start) => t - start).find((k) => k >= 0 && k < 16);
      return (down === undefined ? 100 + pulse : 24 + 60 * Math.exp(-down / 4)) + 0.1 * random.normal();
    });
    const { findings } = detect(values);
    const told = outages.map((start) => findings.filter((one) => one.start < start + 16 && one.end > start));
    for (const some of told) {
      expect(some).toMatchObject([{ kind: 'level', direction: 'below' }]);
      expect(some[0]!.expected.value).toBeGreaterThan(90);
    }
  });

  test('of one sample behind a night without samples are that sample', () => {
    const random = new Random(4, 'nights');
    const values = Float64Array.from({ length: 40 * 96 }, (_, t) => {
      const day = Math.sin((2 * Math.PI * ((t % 96) - 24)) / 96);
      return day < -0.2 ? Number.NaN : Math.max(0, 5 * day + 0.05 * random.normal());
    });
    const first = values.findIndex(
      (value, t) => t > 2000 && !Number.isNaN(value) && Number.isNaN(values[t - 1]!),
    );
    values[first] = -1000;
    const { findings } = detect(values, { calendar: [4, 96, 672] });
    expect(findings).toMatchObject([{ kind: 'dip', start: first, end: first + 1 }]);
  });

  test('and standstills are found beside nights at 0, which are longer', () => {
    const random = new Random(8, 'stuck');
    const values = Float64Array.from({ length: 30 * 96 }, (_, t) => {
      const day = Math.sin((2 * Math.PI * ((t % 96) - 24)) / 96);
      if (t >= 1470 && t < 1500) return 604;
      return day <= 0 ? 0 : Math.round(700 * day * random.between(0.3, 1.3));
    });
    const { findings } = detect(values, { calendar: [4, 96, 672] });
    expect(findings).toMatchObject([{ kind: 'flat', start: 1470, end: 1500 }]);
  });
});

describe('standstills', () => {
  test.each([2, 4, 6])('of a sensor that sticks %i times are each found', (times) => {
    const random = new Random(times, 'sticks');
    const values = Float64Array.from({ length: 2000 }, () => 20 + 0.7 * random.normal());
    const starts = [230, 410, 985, 1190, 1555, 1880].slice(0, times);
    for (const [k, start] of starts.entries()) values.fill(19.7 + 0.1 * k, start, start + 24 + 3 * k);
    const { findings } = detect(values);
    expect(findings.map(({ start }) => start).sort((a, b) => a - b)).toEqual(starts);
    for (const { start, end } of findings) expect(end - start).toBe(24 + 3 * starts.indexOf(start));
  });

  test.each([2, 3, 5])('of a price at %i closed weekends are usual', (weekends) => {
    const random = new Random(weekends, 'closed');
    let price = 100;
    const values = Float64Array.from({ length: 168 * weekends + 60 }, (_, t) => {
      if (t % 168 < 120) price += random.normal();
      return price;
    });
    expect(detect(values).findings.filter(({ kind }) => kind === 'flat')).toEqual([]);
  });

  test.each([
    ['two Sundays', [3, 10], 0, 24],
    ['Sundays and a holiday', [3, 6, 10], 0, 24],
    ['pauses about noon', [0, 1, 2, 3], 48, 5],
  ])('of a counter at %s are usual', (_, days, noon, length) => {
    const random = new Random(1, 'pauses');
    const day = noon === 0 ? 24 : 96;
    // Pauses begin within three hours of each other, days without work at midnight.
    const rests = days.map((at): [number, number] => {
      const start = day * at + noon + (noon === 0 ? 0 : random.integer(-6, 6));
      return [start, start + length + (noon === 0 ? 0 : random.integer(0, 4))];
    });
    let count = 0;
    const values = Float64Array.from({ length: 400 }, (_, t) => {
      if (!rests.some(([start, end]) => t >= start && t < end)) count += random.integer(1, 20);
      return count;
    });
    const { findings } = detect(values, { calendar: [day, 7 * day] });
    expect(findings.filter(({ kind }) => kind === 'flat')).toEqual([]);
  });

  test.each([
    ['at several times of day', [4, 96, 672]],
    ['on several days of a daily series', [7]],
  ])('of a sensor that sticks %s are found where the day is known', (_, calendar) => {
    const random = new Random(4, 'sticks by day');
    const values = Float64Array.from({ length: 2000 }, () => 20 + 0.7 * random.normal());
    const starts = [230, 985, 1360];
    for (const [k, start] of starts.entries()) values.fill(19.7 + 0.1 * k, start, start + 24 + 3 * k);
    const { findings } = detect(values, { calendar });
    expect(findings.map(({ start }) => start).sort((a, b) => a - b)).toEqual(starts);
  });
});

describe('a burst of noise', () => {
  test.each([0.15, 0.3, 0.45])('over %f of a series is one finding', (share) => {
    for (const seed of [1, 2, 3]) {
      const random = new Random(seed, 'burst');
      const [start, end] = [600, 600 + 2000 * share];
      let level = 0;
      const values = Float64Array.from({ length: 2000 }, (_, t) => {
        level = 0.8 * level + random.normal();
        return 50 + level + (t >= start && t < end ? 6 * random.normal() : 0);
      });
      const { findings } = detect(values);
      expect(findings).toMatchObject([{ kind: 'variance', direction: 'above' }]);
      expect(Math.abs(findings[0]!.start - start)).toBeLessThan(16);
      expect(Math.abs(findings[0]!.end - end)).toBeLessThan(16);
    }
  });

  test('is none where the noise is larger by day, or wanders', () => {
    const found = Array.from({ length: 12 }, (_, seed) => {
      const random = new Random(seed, 'wanders');
      let size = 0;
      const values = Float64Array.from({ length: 1500 }, (_, t) => {
        size = 0.97 * size + 0.06 * random.normal();
        return Math.exp(size + 0.4 * Math.sin((2 * Math.PI * t) / 300)) * random.normal();
      });
      return detect(values).findings.filter(({ start, end }) => end - start > 150);
    });
    expect(found.flat()).toEqual([]);
  });
});

describe('a shift of three hours', () => {
  test.each([
    [288, 14, 2, 3, 40],
    [288, 8, 2, 3, 40],
    [288, 5, 2, 13, -40],
    [96, 14, 2, 3, -40],
  ])(
    'ends where it ends, whatever similar stretches say behind it (%i × %i)',
    (day, days, noise, hour, size) => {
      const start = day * (days - 1) + Math.round((hour * day) / 24);
      const end = start + day / 8;
      for (const seed of [1, 2]) {
        const random = new Random(seed, `${day}/${days}/${noise}/${hour}/${size}`);
        const values = Float64Array.from({ length: day * days }, (_, t) => {
          const usual = 100 + 40 * Math.sin(2 * Math.PI * (t / day - 0.3)) + noise * random.normal();
          return t >= start && t < end ? usual + size : usual;
        });
        const { findings } = detect(values, { calendar: [day / 24, day, 7 * day] });
        const [found, ...others] = findings.filter((one) => one.start < end && start < one.end);
        expect(others).toEqual([]);
        expect(Math.abs(found!.start - start) + Math.abs(found!.end - end)).toBeLessThan(day / 16);
      }
    },
  );
});

describe('departures within a day of each other', () => {
  test.each([2, 3, 5, 6])('at no time of a cycle are told apart (%i)', (seed) => {
    const random = new Random(seed, 'office');
    const values = Float64Array.from({ length: 2500 }, (_, t) => {
      const isOpen = t % 288 >= 108 && t % 288 < 216;
      const usual = (isOpen ? 80 : 20) + (isOpen ? 4 : 0.6) * random.normal();
      if (t >= 1908 && t < 1944) return usual + 50;
      if (t >= 2102 && t < 2106) return -140;
      return t >= 2140 && t < 2150 ? 55 : usual;
    });
    const { findings } = detect(values, { calendar: [12, 288, 2016] });
    expect(findings.toSorted((a, b) => a.start - b.start)).toMatchObject([
      { kind: 'level', direction: 'above', start: 1908, end: 1944 },
      { kind: 'dip', start: 2102, end: 2106 },
      { kind: 'level', direction: 'below', start: 2140, end: 2150 },
    ]);
  });
});
