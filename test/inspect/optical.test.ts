import { readFileSync } from 'node:fs';
import { crc32 } from 'node:zlib';
import fc from 'fast-check';
import { describe, expect, test } from 'vitest';
import { resizeLanczos } from '../../src/ground/resize.ts';
import type { Picture } from '../../src/ground/types.ts';
import {
  compressedSide,
  compressionReward,
  historySegments,
  historyText,
  LINE_HEIGHT,
  OpticalHistory,
  parseCompression,
  wrapLine,
} from '../../src/inspect/optical.ts';

type Size = [width: number, height: number];
interface Response {
  readonly text: string;
  readonly factor: number;
}
const golden = JSON.parse(readFileSync(new URL('../golden/optical.json', import.meta.url), 'utf8')) as {
  split: { text: string; segments: string[] }[];
  wrap_fast: { text: string; width: number; lines: [string, boolean][] }[];
  cache: {
    line_height: number;
    steps: {
      contexts: string[];
      active: boolean[];
      hits: number;
      misses: number;
      heights_minus_padding: number[];
      widths: number[];
    }[];
  };
  compress: { height: number; width: number; factor: number; newHeight: number; newWidth: number }[];
  projection_alfworld: Response[];
  projection_search: Response[];
  reward: {
    coef: number;
    every: number;
    step: number;
    rows: [number, number, boolean, number][];
    scores: number[];
  }[];
  lanczos: { from: Size; to: Size; crc: number }[];
};

const PADDING = 10; // both sides

describe('as the release of AgentOCR', () => {
  test('splits a history into lines', () => {
    for (const { text, segments } of golden.split) expect(historySegments(text)).toEqual(segments);
  });

  test('wraps lines', () => {
    for (const { text, width, lines } of golden.wrap_fast) {
      const rows = text === '' ? [] : text.split('\n').flatMap((line) => wrapLine(line.trim(), width));
      expect(rows).toEqual(lines.map(([row]) => row));
    }
  });

  test('renders each line of an episode once, in pictures of the same sizes', () => {
    const histories = [new OpticalHistory(), new OpticalHistory()];
    const total = () => {
      const all = histories.map(({ statistics }) => statistics);
      return { hits: all[0]!.hits + all[1]!.hits, misses: all[0]!.misses + all[1]!.misses };
    };
    expect(LINE_HEIGHT).toBe(golden.cache.line_height);
    for (const step of golden.cache.steps) {
      const before = total();
      histories.forEach((history, e) => {
        const { width, height } = history.picture(step.active[e]! ? step.contexts[e]! : '');
        expect([width, height - PADDING]).toEqual([step.widths[e], step.heights_minus_padding[e]]);
      });
      const after = total();
      expect([after.hits - before.hits, after.misses - before.misses]).toEqual([step.hits, step.misses]);
    }
  });

  test('compresses sides', () => {
    for (const { height, width, factor, newHeight, newWidth } of golden.compress) {
      expect([compressedSide(height, factor), compressedSide(width, factor)]).toEqual([newHeight, newWidth]);
    }
  });

  test('reads compression factors', () => {
    // The release does not read the factor of a response with two actions, nor of one with an answer, after which there is no picture.
    const responses = [...golden.projection_alfworld, ...golden.projection_search].filter(
      ({ text }) => !/<action>a<\/action><action>|<answer>/.test(text),
    );
    expect(responses.length).toBeGreaterThan(15);
    for (const { text, factor } of responses) expect(parseCompression(text), text).toBe(factor);
  });

  test('rewards compression', () => {
    for (const { coef: coefficient, every, step: trainingStep, rows, scores } of golden.reward) {
      rows.forEach(([reward, , success, factor], i) => {
        const bonus = compressionReward(factor, { success, trainingStep }, { coefficient, every });
        expect(reward + bonus).toBeCloseTo(scores[i]!, 5);
      });
    }
  });
});

test.each(golden.lanczos)(
  'takes $from to $to byte for byte as Pillow',
  ({ from: [width, height], to, crc }) => {
    const data = new Uint8Array(width * height * 3);
    for (let at = 0; at < data.length; at++) {
      const [c, x, y] = [at % 3, Math.floor(at / 3) % width, Math.floor(at / 3 / width)];
      data[at] = x * 7 + y * 13 + c * 29 + Math.floor((x * y) / 3);
    }
    expect(crc32(resizeLanczos({ width, height, data }, ...to).data)).toBe(crc);
  },
);

test.each([
  ['<compression>1.5</compression>', 1.5],
  ['<COMPRESSION> 2 </COMPRESSION>', 2],
  ['<compression>-3</compression>', 1],
  ['<compression>1e9</compression>', 5],
  ['<compression>1_0</compression>', 1],
  ['<compression>0x3</compression>', 1],
  ['<compression></compression>', 1],
  ['<compression>2', 1],
  ['<compression>2</compression> <compression>4</compression>', 2],
])('reads %s as %d', (text, factor) => {
  expect(parseCompression(text)).toBe(factor);
});

test('keeps a turn on one line, whatever it says', () => {
  const turns = [
    { instruction: 'mean 3\n\n  std\t2', response: '<think>a\nb</think>zoom\r\n1 0' },
    { instruction: '', response: 'answer' },
  ];
  expect(historyText(turns)).toBe(
    '[Observation]: mean 3 std 2 [Action]: zoom 1 0\n[Observation]:  [Action]: answer',
  );
});

test('wraps without losing a letter, in rows that fit', () => {
  fc.assert(
    fc.property(
      fc.string({ unit: 'binary', maxLength: 200 }),
      fc.integer({ min: 1, max: 70 }),
      (text, columns) => {
        const line = text.trim();
        const rows = wrapLine(line, columns);
        expect(rows.every((row) => Array.from(row).length <= columns)).toBe(true);
        expect(rows.join('').replace(/\s/gu, '')).toBe(line.replace(/\s/gu, ''));
      },
    ),
  );
});

const pixel = ({ width, data }: Picture, x: number, y: number): number[] =>
  Array.from(data.subarray((y * width + x) * 3, (y * width + x) * 3 + 3));
const colours = (picture: Picture): { red: number; blue: number; dark: number } => {
  const count = { red: 0, blue: 0, dark: 0 };
  for (let y = 0; y < picture.height; y++) {
    for (let x = 0; x < picture.width; x++) {
      const [r, g, b] = pixel(picture, x, y) as [number, number, number];
      if (r > 200 && g < 120 && b < 120) count.red++;
      if (b > 200 && g < 120 && r < 120) count.blue++;
      if (Math.max(r, g, b) < 120) count.dark++;
    }
  }
  return count;
};
const history = (length: number): string =>
  historyText(
    Array.from({ length }, (_, t) => ({ instruction: `mean ${t}`, response: `zoom ${t} ${t % 3}` })),
  );

describe('the picture', () => {
  test('has blue and red tags, black text and a white border', () => {
    const picture = new OpticalHistory().picture(history(3));
    const { red, blue, dark } = colours(picture);
    expect(Math.min(red, blue, dark)).toBeGreaterThan(20);
    for (let x = 0; x < picture.width; x++) {
      expect(pixel(picture, x, 0)).toEqual([255, 255, 255]);
      expect(pixel(picture, x, picture.height - 5)).toEqual([255, 255, 255]);
    }
  });

  test('is the same whether its lines were rendered before or not', () => {
    const used = new OpticalHistory();
    for (let length = 0; length < 9; length++) used.picture(history(length), 2);
    expect(used.picture(history(9), 1.7)).toEqual(new OpticalHistory().picture(history(9), 1.7));
  });

  test('costs fewer pixels the higher the factor', () => {
    const pixels = [1, 1.5, 2, 3, 5].map((factor) => {
      const { width, height } = new OpticalHistory().picture(history(9), factor);
      return (width - PADDING) * (height - PADDING);
    });
    expect(pixels).toEqual(pixels.toSorted((a, b) => b - a));
    expect(pixels.at(-1)! / pixels[0]!).toBeLessThan(0.3);
  });

  test('leaves out the oldest lines where it would be higher than 4 096 px', () => {
    const all = new OpticalHistory().picture(history(400));
    const last = new OpticalHistory().picture(history(400).split('\n').slice(-341).join('\n'));
    expect(all).toEqual(last);
    expect(all.height).toBe(341 * LINE_HEIGHT + PADDING);
    expect(new OpticalHistory().picture('x'.repeat(200_000)).height).toBe(341 * LINE_HEIGHT + PADDING);
  });
});
