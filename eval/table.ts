/** Tables of results: one record of cells, written as a page, as Markdown, or for a terminal. */
import { type Html, html, scrolling } from '../src/html/html.ts';

/** Text of a cell, with another content, class or style on pages where it has them. */
interface StyledCell {
  readonly text: string;
  readonly shown?: Html;
  readonly look?: string;
  readonly style?: string;
}
export type Cell = string | Html | StyledCell;

export interface Table {
  readonly head: readonly Cell[];
  /** The first cell of each row is its heading. */
  readonly rows: readonly (readonly Cell[])[];
}

interface PageTable extends Table {
  /** Name for screen readers. */
  readonly label: string;
  readonly look?: string;
  readonly title?: string;
  /** Sentence above the table. */
  readonly caption?: string;
}

export const NOTHING: Cell = { text: '\u2013', look: 'none' };

const textOf = (cell: Cell): string =>
  typeof cell === 'object' && 'text' in cell ? cell.text : String(cell);

function pageCell(cell: Cell): Html {
  if (typeof cell === 'string' || !('text' in cell)) return html`<td>${cell}</td>`;
  const { text, shown = null, look, style } = cell;
  const attributes = html`${look ? html` class="${look}"` : null}${style === undefined ? null : html` style="${style}"`}`;
  return html`<td${attributes}>${shown ?? text}</td>`;
}

function pageHead(cell: Cell, scope: 'col' | 'row'): Html {
  if (typeof cell === 'string' || !('text' in cell)) return html`<th scope="${scope}">${cell}</th>`;
  return html`<th scope="${scope}">${cell.shown ?? cell.text}</th>`;
}

/** Writes a table of a page; it scrolls in narrow windows. */
export function pageTable({ label, look, title, caption, head, rows }: PageTable): Html {
  const table = html`<table${look === undefined ? null : html` class="${look}"`}>${
    title === undefined ? null : html`<caption>${title}</caption>`
  }<thead><tr>${head.map((cell) => pageHead(cell, 'col'))}</tr></thead><tbody>${rows.map(
    ([first, ...cells]) => html`<tr>${pageHead(first!, 'row')}${cells.map(pageCell)}</tr>\n`,
  )}</tbody></table>`;
  return scrolling(label, table, caption ?? null);
}

/** Text of a cell, which Markdown shows as it is. */
export const escaped = (cell: Cell): string =>
  textOf(cell).replaceAll('|', '\\|').replaceAll('*', '\\*').replaceAll('\n', ' ');

/** Writes a table in Markdown, numbers to the right. */
export function markdownTable({ head, rows }: Table): string {
  const line = (cells: readonly string[]): string => `| ${cells.join(' | ')} |`;
  const rule = head.map((_, c) => (c === 0 ? '---' : '---:'));
  return [line(head.map(escaped)), line(rule), ...rows.map((row) => line(row.map(escaped)))].join('\n');
}

/** Texts of a table, for `columns` of a terminal. */
export const tableTexts = ({ head, rows }: Table): string[][] =>
  [head, ...rows].map((row) => row.map(textOf));
