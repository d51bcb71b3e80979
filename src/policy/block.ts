/** Several decoding steps between two looks at what was sampled. */

/** What a block of K steps gave, for B slots. */
export interface Block {
  readonly steps: number;
  readonly ids: Int32Array; // [K · B]; empty when only states were wanted
  readonly logProbs: Float32Array; // [K · B]
  /** States of the tokens that were fed, when asked for: [K · B · D]. */
  readonly hidden: Float32Array | null;
}
