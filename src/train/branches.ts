/**
 * Texts behind one prompt as branches of one row: tokens with which several of them begin are computed once. Each token sees the prompt and
 * those that it continues, so the states are those of the texts one by one. Responses of a policy that is sure of most of its tokens begin
 * alike, and a lesson begins with the response that it corrects.
 */
import type { EncodedPrompt, Sequence } from '../policy/batch.ts';

/** Ids are below this, so that a token and the one that it continues make one key. */
const MOST_IDS = 2 ** 21;

/** Pairs of a query and a key that are worth one token less. Measured on nano policies: 5000 is slower, 50 000 as fast. */
const PAIRS_PER_TOKEN = 20_000;

/** Tokens of a row with branches, at most: its mask has as many numbers for each of them. */
const MOST_BRANCHED = 1024;

/** Row of tokens, each with the place of the one that it continues. */
export class BranchedRow {
  readonly #ids: number[] = [];
  readonly #parents: number[] = [];
  readonly #depths: number[] = [];
  readonly #children = new Map<number, number>();

  get length(): number {
    return this.#ids.length;
  }

  #child(parent: number, id: number): number | undefined {
    return this.#children.get((parent + 1) * MOST_IDS + id);
  }

  /** Counts the tokens at the beginning of a text that the row has. */
  shared(ids: Int32Array): number {
    let place: number | undefined = -1;
    for (let t = 0; t < ids.length; t++) {
      place = this.#child(place, ids[t]!);
      if (place === undefined) return t;
    }
    return ids.length;
  }

  /** Adds a text; returns the places of its tokens [T]. */
  add(ids: Int32Array): Int32Array {
    let before = -1;
    return ids.map((id, depth) => {
      const known = this.#child(before, id);
      const place = known ?? this.#ids.push(id) - 1;
      if (known === undefined) {
        this.#children.set((before + 1) * MOST_IDS + id, place);
        this.#parents.push(before);
        this.#depths.push(depth);
      }
      before = place;
      return place;
    });
  }

  /** Returns the row behind its prompt. */
  sequence({ next }: EncodedPrompt): Sequence {
    const positions = [0, 1, 2].flatMap(() => this.#depths.map((depth) => next + depth));
    const isChain = this.#parents.every((parent, t) => parent === t - 1);
    return {
      ids: Int32Array.from(this.#ids),
      positions: Int32Array.from(positions),
      images: [],
      ...(isChain ? {} : { parents: Int32Array.from(this.#parents) }),
    };
  }
}

/** Place of a text: its row, and its tokens in that [T]. */
interface Placed {
  readonly row: number;
  readonly places: Int32Array;
}

/**
 * Puts texts behind one prompt into rows. A text joins the row with which it shares most, unless attention to what it does not continue takes
 * longer than the tokens that it saves.
 * @param branching false: every text has a row
 */
export function branchedRows(
  texts: readonly Int32Array[],
  branching: boolean,
): { readonly rows: readonly BranchedRow[]; readonly placed: readonly Placed[] } {
  const rows: BranchedRow[] = [];
  const placed = texts.map((ids) => {
    let [best, most] = [-1, -1];
    for (const [r, row] of rows.entries()) {
      const shared = row.shared(ids);
      if (shared > most) [best, most] = [r, shared];
    }
    const added = ids.length - most;
    const length = rows[best]?.length ?? 0;
    const saved = length + added <= MOST_BRANCHED ? most * PAIRS_PER_TOKEN : 0;
    if (best < 0 || !branching || added * length > saved) best = rows.push(new BranchedRow()) - 1;
    return { row: best, places: rows[best]!.add(ids) };
  });
  return { rows, placed };
}
