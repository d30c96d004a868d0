// @ts-check
// The four spaces of a head: a dot for each token of a sample, on two components that the reader chooses.

import { ScatterPlot } from "./scatter_plot.js";
import { fillMenu, menu } from "../workbench/workbench_parts.js";
import { formatNumber, make } from "../shared/shared.js";

const RECEIVED = { title: "weight received", names: [] };
const TOKENS_AROUND = 6; // tokens of its text on both sides of one
const DOTS = { radius: 3.5, shape: 0.75 };

export class SpacePlots {
  /** @param {any} spaces see mha_viz/atlas/model_parts.py */
  constructor(spaces) {
    this.spaces = spaces;
    const { colours } = globalThis.mhaAtlas.sample;
    /** Colours of tokens to choose from. @type {Record<string, { title: string, values: number[], names: string[] }>} */
    this.colours = { ...colours, received: { ...RECEIVED, values: spaces.received } };
    this.view = { x: "0", y: "1", colour: "kind" };
    const numbers = spaces.axes[0].map((_, component) => [String(component), `component ${component + 1}`]);
    /** @type {Record<string, [string, Record<string, string>]>} */
    const offered = {
      x: ["Across", Object.fromEntries(numbers)], y: ["Up", Object.fromEntries(numbers)],
      colour: ["Colour", Object.fromEntries(Object.entries(this.colours).map(([key, { title }]) => [key, title]))],
    };
    for (const [key, [name, titles]] of Object.entries(offered)) {
      const spaceMenu = menu(name, (value) => {
        this.view[key] = value;
        this.draw();
      });
      fillMenu(spaceMenu, titles, this.view[key]);
      document.getElementById("space-controls").append(spaceMenu.root);
    }
    this.plots = spaces.names.map((name) => new ScatterPlot(name, DOTS));
    document.getElementById("space-plots").append(...this.plots.map((plot) => {
      const section = make("section");
      section.append(make("h3", "", plot.name), plot.root);
      return section;
    }));
    this.table = make("div", "table");
    this.table.tabIndex = 0;
    this.fold = make("details");
    this.fold.append(make("summary", "", "Table"), this.table);
    this.fold.addEventListener("toggle", () => this.fill());
    document.getElementById("space-plots").after(this.fold);
    this.draw();
  }

  draw() {
    const { x, y, colour } = this.view;
    const { sample } = globalThis.mhaAtlas;
    const { title, values, names } = this.colours[colour];
    const colours = names.length ? values.map((number) => names[number]) : values;
    this.plots.forEach((plot, space) => {
      const axes = this.spaces.axes[space];
      const points = sample.label.map((name, token) => ({
        x: axes[x][token], y: axes[y][token], colour: colours[token], name, ...this.described(token),
      }));
      const titleOf = (axis) => `component ${Number(axis) + 1}: ${percentOf(this.spaces.explained[space][axis])}`;
      plot.draw({ points, x: titleOf(x), y: titleOf(y), colour: title, names });
    });
    this.fill();
  }

  /** Writes the numbers of the pictures into their table, while it is open: a row for each token. */
  fill() {
    if (!this.fold.open) return;
    const { x, y, colour } = this.view;
    const { label, text, position } = globalThis.mhaAtlas.sample;
    const { title, values, names } = this.colours[colour];
    const components = x === y ? [x] : [x, y];
    const columns = this.spaces.names.flatMap((name, space) => components.map((axis) => [name, space, Number(axis)]));
    const head = ["Token", "Text", "Position", title, ...columns.map(([name, , axis]) => `${name}, component ${axis + 1}`)];
    const rows = label.map((token, at) => [token, text[at], position[at], names.length ? names[values[at]] : formatNumber(values[at]),
      ...columns.map(([, space, axis]) => formatNumber(this.spaces.axes[space][axis][at]))]);
    const table = make("table");
    table.append(make("thead"), make("tbody"));
    table.firstChild.append(tableRow("th", head));
    table.lastChild.append(...rows.map((cells) => tableRow("td", cells)));
    this.table.replaceChildren(table);
  }

  /** The lines that describe a token, and the link to its text. */
  described(token) {
    const { sample, texts } = globalThis.mhaAtlas;
    const [id, position] = [sample.text[token], sample.position[token]];
    const { tokens, hasWeights } = texts[id];
    const near = tokens.slice(Math.max(0, position - TOKENS_AROUND), position + TOKENS_AROUND + 1).join(" ");
    const lines = [`… ${near} …`, `position ${position}`, `${RECEIVED.title} ${formatNumber(this.spaces.received[token])}`];
    return { lines, href: hasWeights ? `#text-${id}` : undefined };
  }
}

/** @param {"th" | "td"} kind @param {unknown[]} cells */
const tableRow = (kind, cells) => {
  const row = make("tr");
  row.append(...cells.map((cell) => make(kind, "", String(cell))));
  return row;
};

/** @param {number | null} share of the variance */
const percentOf = (share) => (share === null ? "not defined" : `${formatNumber(100 * share)} % of the variance`);
