/** A column of float64 that grows while a file of unknown length is read. */
export class Column {
  #values: Float64Array;
  #length = 0;

  constructor(capacity = 64) {
    this.#values = new Float64Array(capacity);
  }

  get length(): number {
    return this.#length;
  }

  push(value: number): void {
    if (this.#length === this.#values.length) {
      const wider = new Float64Array(2 * this.#length);
      wider.set(this.#values);
      this.#values = wider;
    }
    this.#values[this.#length++] = value;
  }

  at(index: number): number | undefined {
    return index < this.#length ? this.#values[index] : undefined;
  }

  /** A copy of what was pushed [N]; the column is empty afterwards and keeps its capacity. */
  take(): Float64Array {
    const values = this.#values.slice(0, this.#length);
    this.#length = 0;
    return values;
  }
}
