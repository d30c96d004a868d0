// @ts-check
// The menu "View": which heads are drawn and how, how a tile is read, and the tour.

import { ReadingExample } from "./reading_example.js";
import { Tour } from "./tour.js";
import { check, chooseIn, fillMenu, menu, segments } from "./workbench_parts.js";
import { make } from "../shared/shared.js";

const DIRECTIONS = { "": "all tokens", aa: "A to A", ab: "A to B", ba: "B to A", bb: "B to B" };
const SCALES = { sqrt: "Square root", linear: "Linear", log: "Log" };
const CHECKS = {
  words: ["Whole words", "Sub-words merged: weights to the parts of a word are summed, from them averaged."],
  no_special: ["Hide special tokens", "Special tokens left out; the rest of each row is scaled back to a sum of 1."],
  no_first: ["Hide first token", "The first token left out; the rest of each row is scaled back to a sum of 1."],
};

export class ViewMenu {
  /**
   * @param {import("./bench.js").Bench} bench
   * @param {boolean} hasTour whether the page is one that the tour leads through
   */
  constructor(bench, hasTour) {
    this.bench = bench;
    this.root = make("div", "view-menu");
    this.button = make("button", "button", "View");
    this.button.setAttribute("aria-haspopup", "dialog");
    this.panel = make("div", "panel");
    this.panel.setAttribute("role", "dialog");
    this.panel.setAttribute("aria-label", "View");
    this.active = make("span", "active");
    this.buildControls();
    this.buildGuide(hasTour);
    this.root.append(this.button, this.active, this.panel);
    this.open(false);
    this.listen();
  }

  buildControls() {
    const { bench } = this;
    this.sort = menu("Sort", (sort) => bench.choose({ sort }));
    this.tiles = menu("Tiles show", (tiles) => bench.choose({ tiles }));
    this.only = menu("Heads", (only) => bench.chooseKind(only));
    this.between = menu("Direction", (between) => bench.choose({ between }));
    this.scale = segments("Colour scale", (scale) => bench.choose({ scale }));
    this.least = make("label", "menu");
    this.leastInput = Object.assign(make("input"), { type: "number", min: 0, step: 0.05 });
    this.leastInput.addEventListener("change", () => bench.choose({ least: Math.max(0, Number(this.leastInput.value) || 0) }));
    this.least.append(make("span", "", "at least"), this.leastInput);
    this.checks = Object.entries(CHECKS).map(([name, [title, help]]) => ({ name, ...check(title, help, (on) => bench.choose({ [name]: on })) }));
    const scale = make("div", "menu");
    scale.append(make("span", "", "Scale"), this.scale);
    const menus = [this.sort.root, this.least, this.tiles.root, this.only.root, this.between.root, scale];
    this.panel.append(...menus, ...this.checks.map(({ root }) => root));
  }

  buildGuide(hasTour) {
    const { bench } = this;
    this.how = make("button", "button", "How to read");
    this.example = new ReadingExample(bench);
    this.how.addEventListener("click", () => {
      this.example.root.hidden = !this.example.root.hidden;
      this.draw();
    });
    const buttons = make("div", "buttons");
    buttons.append(this.how);
    if (hasTour) {
      this.tour = new Tour(bench, () => this.button.focus({ preventScroll: true }));
      this.start = make("button", "button", "Tour");
      this.start.addEventListener("click", () => {
        this.open(false);
        this.tour.begin();
      });
      buttons.append(this.start);
      this.root.append(this.tour.root);
    }
    this.panel.append(buttons, this.example.root);
  }

  /** @param {boolean} isOpen */
  open(isOpen) {
    this.panel.hidden = !isOpen;
    this.button.setAttribute("aria-expanded", String(isOpen));
    if (isOpen) this.draw();
  }

  listen() {
    this.button.addEventListener("click", () => this.open(this.panel.hidden));
    this.root.addEventListener("keydown", (event) => {
      if (event.key !== "Escape" || this.panel.hidden) return;
      this.open(false);
      this.button.focus();
      event.stopPropagation();
    });
    this.outside = (event) => !event.composedPath().includes(this.root) && this.open(false);
    document.addEventListener("pointerdown", this.outside);
  }

  draw() {
    this.tour?.update();
    const { view, ranking } = this.bench;
    this.active.textContent = this.choicesInWords();
    if (this.panel.hidden) return;
    const { settings, payload: { header } } = this.bench;
    fillMenu(this.sort, this.sorts(), view.sort);
    this.least.hidden = !view.sort || view.sort === "pair";
    this.leastInput.value = String(view.least ?? 0);
    fillMenu(this.tiles, { "": "Attention weights", ...ranking.titles }, view.tiles ?? "");
    this.only.root.hidden = !settings.kinds;
    fillMenu(this.only, { "": "All heads", ...this.kinds() }, view.only);
    chooseIn(this.scale, settings.scales ?? SCALES, view.scale);
    const offered = { words: header.words, no_special: header.key_special.some(Boolean), no_first: true };
    for (const { name, root, box } of this.checks) {
      box.checked = Boolean(view[name]);
      root.hidden = !offered[name] && !view[name];
    }
    this.between.root.hidden = !header.key_segments.includes(1) || !header.query_segments.includes(1);
    fillMenu(this.between, DIRECTIONS, view.between ?? "");
    if (!this.example.root.hidden) this.example.draw();
  }

  /** Labels with how many heads have each, as far as that is known. @returns {Record<string, string>} */
  kinds() {
    const { ranking, notes, settings } = this.bench;
    const titles = Object.entries(settings.kinds ?? {});
    return Object.fromEntries(titles.map(([kind, title]) => [kind, notes ? `${title} (${ranking.withLabel(kind).length})` : title]));
  }

  /** The orders of heads that can be chosen now. @returns {Record<string, string>} */
  sorts() {
    const { bench } = this;
    const { sort, query, key } = bench.view;
    const pair = query >= 0 && key >= 0 ? { pair: this.pairTitle() } : {};
    const among = bench.among.size ? { among: "Weight among the chosen tokens" } : {};
    const sorts = { "": "By layer", ...pair, ...among, ...bench.ranking.titles };
    if (sort && !sorts[sort]) sorts[sort] = sort === "pair" ? "Weight of a pair" : sort;
    return sorts;
  }

  pairTitle() {
    const { header } = this.bench.payload;
    const { query, key } = this.bench.view;
    return `Weight “${header.query_labels[query]}” → “${header.key_labels[key]}”`;
  }

  /** The choices that differ from the usual ones, beside the closed menu. */
  choicesInWords() {
    const { view, settings } = this.bench;
    const named = [
      view.sort && `sorted: ${this.sorts()[view.sort]}`,
      view.only && (settings.kinds?.[view.only] ?? view.only),
      view.between && DIRECTIONS[view.between],
      ...this.checks.map(({ name }) => view[name] && CHECKS[name][0].toLowerCase()),
    ];
    return named.filter(Boolean).join(" · ");
  }

  close() {
    document.removeEventListener("pointerdown", this.outside);
    this.tour?.end();
  }
}
