// @ts-check
// The heads that are chosen together in the grid (Ctrl and a click), and what can be done with them.

import { make, makeButton } from "../shared/shared.js";

export class Selection {
  /** @param {import("./bench.js").Bench} bench */
  constructor(bench) {
    this.bench = bench;
    this.root = make("div", "selection");
    this.names = make("span", "names");
    this.switchOff = makeButton("button", "Switch off", () => bench.switchOff(this.heads));
    this.root.append(this.names, this.switchOff, makeButton("button", "Clear", () => bench.choose({ heads: [] })));
  }

  /** Numbers of the selected heads, with the chosen one. */
  get heads() {
    const { bench } = this;
    const { heads } = bench.payload.header;
    return [...new Set([bench.chosen, ...(bench.view.heads ?? []).map(([layer, head]) => layer * heads + head)])];
  }

  draw() {
    const { bench } = this;
    this.root.hidden = !(bench.view.heads ?? []).length;
    if (this.root.hidden) return;
    this.names.textContent = `Selected: ${this.heads.map((head) => bench.name(head)).join(", ")}`;
    this.switchOff.hidden = !bench.settings.switches;
    this.switchOff.textContent = bench.switchWords.off;
  }
}
