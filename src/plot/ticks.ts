/** Tick labels of the y axis that fit beside the plot, whatever the values: their number format and font size. */
import { textWidth } from './canvas.ts';
import { FONT_FAMILY } from './figure.ts';

export interface TickLabels {
  /** d3-format specifier. */
  readonly format: string;
  /** Font size in px, at most the one wished for. */
  readonly size: number;
}

const SMALLEST = 6; // px, just readable

/**
 * Labels for ticks on [lo, hi]: plain decimals with as many digits as the tick step needs; SI prefixes (60k, 2.5M,
 * 300n) or exponents where the numbers are large or small and the step is not minute beside them.
 *
 * @param ticks about how many ticks there are
 * @param size wished font size, px
 * @param room px that a label may take; wider ones are set smaller, down to 6 px
 */
export function tickLabels(
  [lo, hi]: readonly [number, number],
  ticks: number,
  size: number,
  room: number,
): TickLabels {
  const magnitude = Math.max(Math.abs(lo), Math.abs(hi));
  const span = hi - lo;
  const step = 10 ** Math.floor(Math.log10(span / ticks));
  const decimals = Math.min(100, Math.max(0, -Math.floor(Math.log10(step))));
  const plain = magnitude < 1e4 && magnitude >= 1e-3;
  // Three digits tell the ticks apart unless they all begin with the same ones.
  const short = span * 100 > magnitude;
  const [format, longest] =
    !plain && short
      ? magnitude >= 1e18 || magnitude < 1e-18
        ? ['.2~e', '−1.25e+300']
        : ['.3~s', '−125k']
      : magnitude < 1e15
        ? [
            `.${decimals}f`,
            [lo, hi].map((value) => value.toFixed(decimals)).sort((a, b) => a.length - b.length)[1]!,
          ]
        : ['.8~e', '−1.23456789e+300'];
  const width = textWidth(`${size}px "${FONT_FAMILY}"`, longest.replace('-', '−'));
  return { format, size: Math.max(SMALLEST, Math.min(size, Math.floor((size * room) / width / 0.1) * 0.1)) };
}
