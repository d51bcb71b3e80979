/** Drawing of tokens in JavaScript, in float64. */

/** A token and the natural logarithm of its probability. */
interface Draw {
  readonly id: number;
  readonly logProb: number;
}

/**
 * Draws a token from masked logits [V]. Temperature 0 takes the most probable (the first of equal ones) and
 * reports its probability at temperature 1; otherwise the first token whose cumulative probability, after
 * top-k and top-p, exceeds `draw` of the total. Ties of the last token that top-k keeps stay. The logarithm
 * is NaN where a logit is.
 * @param draw in [0, 1)
 */
export function drawToken(
  logits: Float64Array,
  draw: number,
  options: { readonly temperature?: number; readonly topP?: number; readonly topK?: number | undefined },
): Draw {
  const { temperature = 1, topP = 1, topK } = options;
  const heat = temperature === 0 ? 1 : temperature;
  let best = 0;
  for (let v = 1; v < logits.length; v++) if (logits[v]! > logits[best]!) best = v;
  const most = logits[best]!;
  const mass = temperature === 0 ? null : new Float64Array(logits.length);
  let all = 0;
  for (let v = 0; v < logits.length; v++) {
    const share = Math.exp((logits[v]! - most) / heat);
    if (mass !== null) mass[v] = share;
    all += share;
  }
  const drawn = (id: number): Draw => ({ id, logProb: (logits[id]! - most) / heat - Math.log(all) });
  if (mass === null) return drawn(best);
  if (topK !== undefined && topK < mass.length) {
    const least = Float64Array.from(mass).sort()[mass.length - topK]!;
    for (let v = 0; v < mass.length; v++) if (mass[v]! < least) mass[v] = 0;
  }
  let total = 0;
  for (let v = 0; v < mass.length; v++) total += mass[v]!;
  if (topP < 1) {
    const order = Array.from(mass, (_, v) => v).sort((a, b) => mass[b]! - mass[a]!);
    const limit = topP * total;
    let before = 0;
    total = 0;
    for (const v of order) {
      const share = mass[v]!;
      if (before < limit) total += share;
      else mass[v] = 0;
      before += share;
    }
  }
  let cumulative = 0;
  let last = best;
  for (let v = 0; v < mass.length; v++) {
    if (mass[v] === 0) continue;
    cumulative += mass[v]!;
    if (cumulative > draw * total) return drawn(v);
    last = v;
  }
  return drawn(last);
}
