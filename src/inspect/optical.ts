/**
 * Optical history (AgentOCR, arXiv 2601.04786): the earlier turns of an episode as one picture in front of the prompt. Each line of the
 * history is rendered once and kept; the policy chooses how much the next picture is compressed, and is rewarded for it.
 *
 * Departures from the release: where the picture would be too high, the oldest rows of text are left out, and a compression factor is a plain
 * decimal number (Python's `float` also reads `1_0`, `nan` and `inf`).
 */
import { getOrMake } from '../ground/maps.ts';
import { resizeLanczos } from '../ground/resize.ts';
import type { Picture } from '../ground/types.ts';
import { canvas, MONO_FONT_FAMILY, opaquePixels, textWidth } from '../plot/canvas.ts';
import type { AskedTurn } from './episode.ts';

/** Turn of an episode: what was seen, and the response. */
interface OpticalTurn {
  readonly instruction: string;
  readonly response: string;
}

/** Width of the text, border, greatest height of the text, and side of the blank picture of a first turn: px. */
const WIDTH = 392;
const PADDING = 5;
const MOST_HEIGHT = 4096;
const BLANK = 28;
const FONT_SIZE = 10;
/** Height of a line of text, px. */
export const LINE_HEIGHT = Math.trunc(1.2 * FONT_SIZE);
const MOST_ROWS = Math.floor(MOST_HEIGHT / LINE_HEIGHT);
const FONT = `${FONT_SIZE}px "${MONO_FONT_FAMILY}"`;
const COLUMNS = Math.trunc(WIDTH / textWidth(FONT, '0'));
const TAGS: Readonly<Record<string, string>> = { '[Observation]': '#00f', '[Action]': '#f00' };
const WHITE = 255;
const [LEAST_FACTOR, MOST_FACTOR] = [1, 5];

const oneLine = (text: string): string => text.replace(/\s+/gu, ' ').trim();

/** Writes turns as the text of a history, one line each: actions without their reasoning. */
export const historyText = (turns: readonly OpticalTurn[]): string =>
  turns
    .map(({ instruction, response }) => {
      const action = oneLine(response.replace(/<think>[\s\S]*?<\/think>/giu, ''));
      return `[Observation]: ${oneLine(instruction)} [Action]: ${action}`;
    })
    .join('\n');

/** Splits a history into its lines that are not empty, without the spaces around them. */
export const historySegments = (history: string): string[] =>
  history
    .split('\n')
    .map((line) => line.trim())
    .filter((line) => line !== '');

/** Breaks a line at spaces into rows of at most `columns` characters; longer words are cut. */
export function wrapLine(line: string, columns: number): string[] {
  if (Array.from(line).length <= columns) return [line];
  const rows: string[] = [];
  let row = '';
  for (const word of line.split(/\s+/u)) {
    const joined = row === '' ? word : `${row} ${word}`;
    if (Array.from(joined).length <= columns) {
      row = joined;
      continue;
    }
    if (row !== '') rows.push(row);
    const letters = Array.from(word);
    row = letters.length <= columns ? word : '';
    for (let at = 0; row === '' && at < letters.length; at += columns) {
      rows.push(letters.slice(at, at + columns).join(''));
    }
  }
  return row === '' ? rows : [...rows, row];
}

/** Pixels of a line, wrapped: [rows · LINE_HEIGHT, WIDTH, 3]. */
function renderLine(line: string): Uint8Array {
  const rows = wrapLine(line, COLUMNS).slice(-MOST_ROWS);
  const page = canvas.createCanvas(WIDTH, rows.length * LINE_HEIGHT);
  const context = page.getContext('2d');
  context.fillStyle = '#fff';
  context.fillRect(0, 0, page.width, page.height);
  context.font = FONT;
  rows.forEach((row, i) => {
    let x = 0;
    for (const piece of row.split(/(\[Observation\]|\[Action\])/)) {
      context.fillStyle = TAGS[piece] ?? '#000';
      context.fillText(piece, x, i * LINE_HEIGHT + FONT_SIZE - 1);
      x += textWidth(FONT, piece);
    }
  });
  return opaquePixels(page.data());
}

/** Size of a side compressed by a factor. */
export const compressedSide = (side: number, factor: number): number =>
  factor === 1 ? side : Math.max(BLANK, Math.trunc(side / Math.sqrt(factor)));

function padded({ width, height, data }: Picture): Picture {
  const across = width + 2 * PADDING;
  const out = new Uint8Array(across * (height + 2 * PADDING) * 3).fill(WHITE);
  for (let y = 0; y < height; y++) {
    out.set(data.subarray(y * width * 3, (y + 1) * width * 3), ((y + PADDING) * across + PADDING) * 3);
  }
  return { width: across, height: height + 2 * PADDING, data: out };
}

/** Pictures of the history of one episode. Rendered lines are kept, so that a turn renders only its own line. */
export class OpticalHistory {
  readonly #rendered = new Map<string, Uint8Array>();
  #lookups = 0;

  /** Number of lines that were found rendered, and of those that had to be. */
  get statistics(): { readonly hits: number; readonly misses: number } {
    return { hits: this.#lookups - this.#rendered.size, misses: this.#rendered.size };
  }

  /** Draws a history (`historyText`), compressed by the factor that the response before it chose. Without a turn: blank. */
  picture(history: string, factor = 1): Picture {
    const lines = historySegments(history).map((line) => this.#line(line));
    if (lines.length === 0) {
      return padded({ width: BLANK, height: BLANK, data: new Uint8Array(BLANK * BLANK * 3).fill(WHITE) });
    }
    const data = new Uint8Array(Buffer.concat(lines)).subarray(-MOST_ROWS * LINE_HEIGHT * WIDTH * 3);
    const height = data.length / (WIDTH * 3);
    const whole = { width: WIDTH, height, data };
    return padded(resizeLanczos(whole, compressedSide(WIDTH, factor), compressedSide(height, factor)));
  }

  #line(line: string): Uint8Array {
    this.#lookups++;
    return getOrMake(this.#rendered, line, () => renderLine(line));
  }
}

/**
 * Reads the factor for the next picture from the first `<compression>c</compression>`, in 1 to 5; 1 without one, and for what is no number.
 */
export function parseCompression(response: string): number {
  const text = /<compression>([^<]*)<\/compression>/iu.exec(response)?.[1]?.trim() ?? '';
  const value = /^[+-]?(?:\d+(?:\.\d*)?|\.\d+)(?:e[+-]?\d+)?$/iu.test(text) ? Number(text) : LEAST_FACTOR;
  return Math.min(MOST_FACTOR, Math.max(LEAST_FACTOR, value));
}

/** Describes the picture of the history, and asks for the factor of the next one; appended to a prompt. */
const compressionRequest = (factor: number): string =>
  `The first picture shows your earlier turns as text, compressed by a factor of ${factor}; it is blank before your first response. Choose ` +
  'the factor of the next one, from 1 to 5: higher ones cost fewer tokens, but may make the text illegible. End your response with it, ' +
  'as <compression>1.1</compression>.';

/** Prompts of an episode whose earlier turns are a picture, compressed as the policy chooses. */
export class OpticalMemory {
  readonly #history = new OpticalHistory();
  #factor = 1;

  /** Factor that the last response chose. */
  get factor(): number {
    return this.#factor;
  }

  /** The picture of the history and the last one that was shown; question, present turn, and the request for a factor. */
  prompt({
    history,
    picture,
    instruction,
  }: Pick<AskedTurn<unknown>, 'history' | 'picture' | 'instruction'>): {
    readonly pictures: readonly Picture[];
    readonly text: string;
  } {
    const [first, ...later] = history;
    const turns = first === undefined ? [] : [{ ...first, instruction: 'the whole series' }, ...later];
    const memory = this.#history.picture(historyText(turns), this.#factor);
    const shown = picture ?? history.findLast((turn) => turn.picture !== null)?.picture ?? null;
    const question = first === undefined ? [] : [first.instruction];
    return {
      pictures: shown === null ? [memory] : [memory, shown],
      text: [...question, instruction, compressionRequest(this.#factor)].join('\n\n'),
    };
  }

  /** Keeps the factor of a response, and returns the rest of it. */
  take(response: string): string {
    this.#factor = parseCompression(response);
    return response.replace(/<compression>[^<]*<\/compression>/giu, '').trimEnd();
  }
}

/**
 * Reward for compression, added to the reward of a step: coefficient · ln c in successful episodes of every fifth training step, else 0.
 * For c = 2 and the default coefficient of 0.01: 0.0069.
 */
export function compressionReward(
  factor: number,
  { success, trainingStep }: { readonly success: boolean; readonly trainingStep: number },
  { coefficient = 0.01, every = 5 }: { readonly coefficient?: number; readonly every?: number } = {},
): number {
  return success && trainingStep % every === 0 ? coefficient * Math.log(factor) : 0;
}
