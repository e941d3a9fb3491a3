/** How many disks of each group a pass has taken, in all and for the action it is looking at. Back at zero after the pass. */
export class Tally {
  readonly #all: Int32Array;
  readonly #now: Int32Array;
  /** Action the number in `#now` is about: nothing has to be cleared between actions. */
  readonly #stamp: Int32Array;
  #action = 0;

  constructor(groups: number) {
    this.#all = new Int32Array(groups);
    this.#now = new Int32Array(groups);
    this.#stamp = new Int32Array(groups);
  }

  /** Another action is looked at. */
  begin(): void {
    this.#action++;
  }

  add(group: number, by: number): void {
    this.#all[group] = (this.#all[group] as number) + by;
    this.#now[group] = this.now(group) + by;
    this.#stamp[group] = this.#action;
  }

  /** Taken by the pass so far. */
  all(group: number): number {
    return this.#all[group] as number;
  }

  /** Taken by the action that is looked at. */
  now(group: number): number {
    return this.#stamp[group] === this.#action ? (this.#now[group] as number) : 0;
  }
}
