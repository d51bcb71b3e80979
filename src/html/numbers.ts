/** Numbers and labels as pages print them. */
import type { Estimate } from '../ground/types.ts';
import { type Html, html } from './html.ts';

const MINUS = '\u2212';

/** Fixed decimals with a true minus sign; no "−0.000". */
export function fixed(value: number, decimals = 3): string {
  const text = Math.abs(value).toFixed(decimals);
  return value < 0 && Number(text) !== 0 ? MINUS + text : text;
}

/** Formats a number with its sign: "+0.015", "−0.002"; a value that rounds to zero has none: "0.000". */
export function signed(value: number, decimals = 3): string {
  const text = fixed(value, decimals);
  return text.startsWith(MINUS) || Number(text) === 0 ? text : `+${text}`;
}

/** "[0.81, 0.85]". */
export function interval(
  estimate: Pick<Estimate, 'ci95'>,
  format: (value: number) => string = fixed,
): string {
  return `[${format(estimate.ci95[0])}, ${format(estimate.ci95[1])}]`;
}

/** "+0.015 [−0.002, +0.032]"; no change at all is a plain "0.000". */
export function change(estimate: Pick<Estimate, 'mean' | 'ci95'>): string {
  const mean = signed(estimate.mean);
  const ends = estimate.ci95.map((value) => signed(value));
  return ends.every((end) => end === mean && Number(end) === 0) ? mean : `${mean} [${ends.join(', ')}]`;
}

/** 930000 → "0.93 M", 12345 → "12.3 k", 3.09e9 → "3.09 B". */
export function compact(value: number): string {
  const [scale, unit] =
    value >= 1e9 ? [1e9, ' B'] : value >= 5e5 ? [1e6, ' M'] : value >= 1e4 ? [1e3, ' k'] : [1, ''];
  const scaled = value / scale;
  const decimals = scale === 1 ? 0 : scaled >= 100 ? 0 : scaled >= 10 ? 1 : 2;
  return scaled.toFixed(decimals) + unit.replace(' ', '\u202f');
}

/** Thousands separated by thin spaces: 30000 → "30 000". */
export function grouped(value: number): string {
  return Math.round(value)
    .toString()
    .replace(/\B(?=(\d{3})+$)/g, '\u202f');
}

/** For a word that becomes a label. */
export function upperFirst(text: string): string {
  return text.charAt(0).toUpperCase() + text.slice(1);
}

/** For a label inside a sentence. */
export function lowerFirst(text: string): string {
  return text.charAt(0).toLowerCase() + text.slice(1);
}

/** 4.25 → "4.3 s", 118 → "1 min 58 s". */
export function duration(seconds: number): string {
  if (seconds < 10) return `${seconds.toFixed(1)}\u202fs`;
  if (seconds < 60) return `${Math.round(seconds)}\u202fs`;
  const whole = Math.round(seconds);
  if (whole < 3600) return `${Math.floor(whole / 60)}\u202fmin ${whole % 60}\u202fs`;
  return `${Math.floor(whole / 3600)}\u202fh ${Math.round((whole % 3600) / 60)}\u202fmin`;
}

/** Mean above its interval, as the content of a table cell. */
export function estimateCell(estimate: Estimate): Html {
  return html`<span class="mean">${fixed(estimate.mean)}</span><span class="ci">${interval(estimate)}</span>`;
}

/**
 * Draws an estimate in [0, most]: a whisker for its interval, a dot for its mean, a tick for the requirement.
 * Decorative: the numbers stand beside it.
 */
export function whisker(estimate: Estimate, floor: number | null, most = 1): Html {
  const x = (value: number): string => (100 * Math.min(1, Math.max(0, value / most))).toFixed(1);
  return html`<svg class="whisker" viewBox="-2 0 104 10" preserveAspectRatio="none" aria-hidden="true" focusable="false"><line class="axis" x1="0" x2="100" y1="5" y2="5"/>${
    floor === null ? null : html`<line class="floor" x1="${x(floor)}" x2="${x(floor)}" y1="0" y2="10"/>`
  }<line class="range" x1="${x(estimate.ci95[0])}" x2="${x(estimate.ci95[1])}" y1="5" y2="5"/><line class="dot" x1="${x(estimate.mean)}" x2="${x(estimate.mean)}" y1="1.5" y2="8.5"/></svg>`;
}
