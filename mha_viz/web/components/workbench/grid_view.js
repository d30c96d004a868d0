// @ts-check
// The heads of a workbench: the grid of all of them, and what decides which are drawn and how.

import { loneRows, strongestOf } from "./head_facts.js";
import { HeadGrid } from "../head_grid/head_grid.js";
import { LabelSummary } from "./label_summary.js";
import { check, chooseIn, fillMenu, menu, segments } from "./workbench_parts.js";
import { canHover, formatWeight, make, themeOf } from "../shared/shared.js";
/* global PALETTE */

const CLICK = "Click a head, or go to it with the arrow keys and press Enter.";
const BETWEEN = { "": "all to all", aa: "A to A", ab: "A to B", ba: "B to A", bb: "B to B" };

export class GridView {
  /** @param {import("./bench.js").Bench} bench */
  constructor(bench) {
    this.bench = bench;
    this.root = make("div", "mha grid-view");
    this.build();
    this.grid = new HeadGrid(this.below);
    this.empty = make("div", "message");
    this.empty.setAttribute("role", "status");
    this.summary = new LabelSummary(bench);
    this.root.append(this.controls, this.note, this.empty, this.below, this.summary.root);
  }

  build() {
    const { bench } = this;
    this.controls = make("div", "controls");
    this.note = make("div", "note");
    this.below = make("div", "below");
    /** Of the window, below this element's upper edge; undefined where there is no such limit. @type {number | undefined} */
    this.height = undefined;
    this.sort = menu("Sort", (sort) => bench.choose({ sort }));
    this.only = menu("Show", (only) => bench.choose({ only }));
    this.scale = segments("Colour scale", (scale) => bench.choose({ scale }));
    const { words, no_special, no_first } = {
      words: "Sub-words merged: weights to the parts of a word are summed, from them averaged.",
      no_special: "Special tokens left out; the rest of each row is scaled back to a sum of 1.",
      no_first: "The first token left out; the rest of each row is scaled back to a sum of 1.",
    };
    this.words = check("Whole words", words, (on) => bench.choose({ words: on }));
    this.no_special = check("No special", no_special, (on) => bench.choose({ no_special: on }));
    this.no_first = check("No first", no_first, (on) => bench.choose({ no_first: on }));
    this.between = menu("From", (between) => bench.choose({ between }));
    this.least = this.number();
    const parts = [this.sort.root, this.least.root, this.only.root, this.between.root, this.scale];
    this.controls.append(...parts, this.words.root, this.no_special.root, this.no_first.root);
  }

  number() {
    const root = make("label", "menu");
    const input = Object.assign(make("input"), { type: "number", min: 0, step: 0.05 });
    input.addEventListener("change", () => this.bench.choose({ least: Math.max(0, Number(input.value) || 0) }));
    root.append(make("span", "", "at least"), input);
    return { root, input };
  }

  draw() {
    const { bench } = this;
    if (!bench.payload) return;
    this.drawControls();
    const { view, fact, order } = bench;
    const none = order?.length === 0 && Boolean(fact || bench.known);
    const waiting = Boolean(view.only) && !bench.known;
    this.empty.hidden = !(none || waiting);
    this.empty.textContent = waiting ? "Looking at what kind each head is …" : bench.whyNone;
    this.below.hidden = none || waiting;
    if (none || waiting) return;
    const { weights } = bench;
    const { header } = weights.shown;
    const layer = Math.floor(bench.chosen / header.heads);
    this.grid.show(weights.shown, {
      payload: header.id, selected: [layer, bench.chosen % header.heads], heard: this.grid.sent,
      scale: view.scale, order: order?.map((head) => [Math.floor(head / header.heads), head % header.heads]),
      fact: fact?.title ?? null, values: fact?.values, height: this.room(), pair: bench.pair,
      badges: bench.known?.badges, several: (head) => bench.drawBeside(head), describe: (head) => this.describe(head),
      exact: { of: (head) => (weights.isExact(head) ? weights.of(head) : null), request: (head) => weights.exact.request(head) },
    }, ({ layer, head }) => bench.chooseHead(layer * header.heads + head));
    const { height = Infinity } = this;
    this.summary.draw(height - this.below.offsetTop - this.below.offsetHeight);
    this.drawNote(fact);
  }

  /** The height that is left for the tiles in the window. */
  room() {
    return this.height ? Math.max(200, this.height - this.below.offsetTop - 40) : undefined;
  }

  drawControls() {
    const { bench } = this;
    const { view, settings } = bench;
    const pair = view.query >= 0 && view.key >= 0 ? { pair: this.pairTitle() } : {};
    const among = bench.among.size ? { among: "Weight among the chosen tokens" } : {};
    const sorts = { "": "By layer", ...pair, ...among, ...bench.titles };
    if (view.sort && !sorts[view.sort]) sorts[view.sort] = view.sort === "pair" ? "Weight of a pair" : view.sort;
    fillMenu(this.sort, sorts, view.sort);
    this.only.root.hidden = !settings.kinds;
    fillMenu(this.only, { "": "All heads", ...(settings.kinds ?? {}) }, view.only);
    chooseIn(this.scale, settings.scales ?? { sqrt: "Square root", linear: "Linear", log: "Log" }, view.scale);
    this.least.root.hidden = !view.sort || view.sort === "pair";
    this.least.input.value = String(view.least ?? 0);
    for (const name of ["words", "no_special", "no_first"]) {
      this[name].box.checked = Boolean(view[name]);
    }
    const { header } = bench.payload;
    this.words.root.hidden = !header.words && !view.words;
    this.no_special.root.hidden = !header.key_special.some(Boolean) && !view.no_special;
    this.between.root.hidden = !header.key_segments.includes(1) || !header.query_segments.includes(1);
    fillMenu(this.between, BETWEEN, view.between ?? "");
    this.root.style.setProperty("--accent", PALETTE.accent[themeOf(this.root)]);
  }

  pairTitle() {
    const { header } = this.bench.payload;
    const { query, key } = this.bench.view;
    return `Weight “${header.query_labels[query]}” → “${header.key_labels[key]}”`;
  }

  /** What the heads do, once it is known; of heads sorted by a pair, its weight in even attention. */
  drawNote(fact) {
    const { view } = this.bench;
    const { sentence = "" } = this.summary.root.hidden ? this.bench.known ?? {} : {}; // told once
    let text = sentence.replaceAll(/ \([^)]*\)/g, "") || (canHover() ? CLICK : ""); // numbers and baselines on hover
    this.note.title = sentence;
    if (fact && view.sort === "pair") {
      const even = this.uniform();
      text = `Weight of the chosen pair in each head; with even weights it would be ${even}.`;
    }
    this.note.textContent = text;
    this.note.hidden = !text;
  }

  /** The weight of one key among all that the chosen query can see in the chosen head. */
  uniform() {
    const { bench } = this;
    const { header } = bench.weights.shown;
    const codes = bench.weights.picture(bench.chosen);
    const { query } = bench.pair;
    if (!codes || query < 0) return "not known yet";
    const row = codes.subarray(query * header.keys, (query + 1) * header.keys);
    return formatWeight(1 / row.filter((code) => code > 0).length);
  }

  /** Label and strongest pair of a head, for those who hear the grid. */
  describe(head) {
    const { bench } = this;
    const { header } = bench.weights.shown;
    const labels = bench.labels(head);
    const weights = bench.weights.of(head);
    const lone = weights ? loneRows(bench.weights.picture(head), header.keys) : 0;
    const [best] = weights ? strongestOf(weights, header.keys, 1, lone) : [];
    const label = labels?.length ? `; ${labels.join(", ")}` : "";
    if (!best) return label;
    const { query, key, weight } = best;
    return `${label}; strongest from ${header.query_labels[query]} to ${header.key_labels[key]}, ${weight.toPrecision(2)}`;
  }

  close() {
    this.grid.close();
  }
}
