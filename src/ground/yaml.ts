/** YAML that people write, as plain values: where each key stands, and what is wrong with it in words that fit one line. */
import { type Document, isMap, isNode, isScalar, LineCounter, parseDocument, visit } from 'yaml';

/** Most bytes of a file: the time of the parser can grow with the square of its length. */
export const MOST_YAML_BYTES = 32 << 10;

interface YamlText {
  /** Objects, lists, text, numbers, true, false, null; a finite tree. */
  readonly content: unknown;
  /** Line of a key, or of the nearest key above it; undefined when none is there. */
  line(path: readonly PropertyKey[]): number | undefined;
}

/** Parser message without the appended excerpt of the file. */
function complaintOf(error: unknown): string {
  const [first = ''] = (error as Error).message.split('\n');
  return first.replace(/ at line \d+, (column \d+):?$/, ' ($1)');
}

/** An alias that cannot be followed: to no anchor, or to one that it is itself a part of. */
function brokenAlias(document: Document): { readonly offset: number; readonly loops: boolean } | null {
  let broken: { offset: number; loops: boolean } | null = null;
  visit(document, {
    Alias(_, alias, path) {
      const source = alias.resolve(document);
      const loops = source !== undefined && path.includes(source);
      if (source !== undefined && !loops) return undefined;
      broken = { offset: alias.range?.[0] ?? 0, loops };
      return visit.BREAK;
    },
  });
  return broken;
}

/** Reads one document. @throws what `fail` makes of a complaint and its place, where it is not YAML */
export function readYaml(
  text: string,
  fail: (complaint: string, line?: number, column?: number) => Error,
): YamlText {
  const lines = new LineCounter();
  const document = parseDocument(text, { lineCounter: lines, logLevel: 'error' });
  const [broken] = document.errors;
  if (broken !== undefined) {
    const { line, col } = lines.linePos(broken.pos[0]);
    throw fail(complaintOf(broken), line, col);
  }
  const alias = brokenAlias(document);
  if (alias?.loops === true) {
    throw fail('an alias (*) stands inside of its own anchor (&)', lines.linePos(alias.offset).line);
  }
  let content: unknown;
  try {
    content = document.toJS();
  } catch (error) {
    throw fail(complaintOf(error), alias === null ? undefined : lines.linePos(alias.offset).line);
  }
  return {
    content,
    line(path) {
      for (let length = path.length; length > 0; length--) {
        const parent = length === 1 ? document.contents : document.getIn(path.slice(0, length - 1), true);
        const pair = isMap(parent)
          ? parent.items.find(({ key }) => isScalar(key) && String(key.value) === String(path[length - 1]))
          : undefined;
        const range = pair !== undefined && isNode(pair.key) ? pair.key.range : undefined;
        if (range) return lines.linePos(range[0]).line;
      }
      return undefined;
    },
  };
}
