/** Recordings to try, made when they are asked for: equal on every visit. */

/** Random numbers of a normal distribution, by the central limit of twelve uniform ones. */
function noise(seed) {
  let state = seed;
  const next = () => {
    state = (Math.imul(state, 1664525) + 1013904223) >>> 0;
    return state / 2 ** 32;
  };
  return () => Array.from({ length: 12 }, next).reduce((sum, value) => sum + value, -6);
}

const START = Date.UTC(2025, 2, 3);

/** Table of `count` rows, one every `minutes`; `row` gives the cells behind the time from row number and days. */
const table = (header, count, minutes, row) => {
  const lines = [header];
  for (let i = 0; i < count; i++) {
    const time = new Date(START + i * minutes * 60_000).toISOString().slice(0, 19).replace('T', ' ');
    lines.push([time, ...row(i, (i * minutes) / 1440)].join(','));
  }
  return `${lines.join('\n')}\n`;
};

const daily = (days, peak = 0.6) => Math.cos(2 * Math.PI * (days - peak));

export const EXAMPLES = {
  shop: {
    name: 'shop.csv',
    make: () => {
      const random = noise(1);
      return table('time,requests,latency_ms', 4032, 5, (i, days) => {
        const outage = i >= 2946 && i < 2964;
        const requests = 130 + 55 * daily(days) + 4 * random();
        const slow = i >= 1700 && i < 1730 ? 90 : 0;
        return [
          (outage ? 2 + Math.abs(random()) : requests).toFixed(1),
          (42 + 0.12 * requests + 2.5 * random() + slow).toFixed(1),
        ];
      });
    },
  },
  cold: {
    name: 'cold-store.csv',
    make: () => {
      const random = noise(2);
      return table('time,temperature', 10_000, 10, (i, days) => {
        const door = i >= 4210 && i < 4225 ? 3.5 : 0;
        const drift = i >= 7600 ? Math.min(2.2, (i - 7600) / 300) : 0;
        return [(-18 + 0.6 * daily(days, 0.55) + 0.12 * random() + door + drift).toFixed(2)];
      });
    },
  },
};
