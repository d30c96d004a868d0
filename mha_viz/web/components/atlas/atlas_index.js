// @ts-check
// The first page of an atlas: all heads by two numbers that the reader chooses, coloured by a third, and their map.
// What is chosen stands in the address, behind the #.

import { endsOf, ScatterPlot } from "./scatter_plot.js";
import { check, fillMenu, menu } from "../workbench/workbench_parts.js";
import { colourAt, formatNumber, inkOn, themeOf } from "../shared/shared.js";
/* global PALETTE */

const AXES = { x: "Across", y: "Up", colour: "Colour" };
const SWITCHES = { intervals: "95 % intervals", untrained: "Random weights" };
const HELP = {
  intervals: "Draw the interval of each mean over texts.",
  untrained: "Draw the same heads of the model with random weights in grey.",
};

export class AtlasIndex {
  /** @param {any} data heads and quantities, see mha_viz/atlas/index_page.py */
  constructor(data) {
    this.data = data;
    this.byKey = Object.fromEntries(data.quantities.map((quantity) => [quantity.key, quantity]));
    this.plot = new ScatterPlot("All heads");
    /** @type {HTMLElement[]} */
    this.cells = [...document.querySelectorAll("#map a")].map((cell) => /** @type {HTMLElement} */ (cell));
    const controls = document.getElementById("controls");
    const titles = Object.fromEntries(data.quantities.map(({ key, title }) => [key, title]));
    this.menus = Object.entries(AXES).map(([axis, name]) => {
      const axisMenu = menu(name, (key) => this.choose({ [axis]: key }));
      fillMenu(axisMenu, titles, "");
      controls.append(axisMenu.root);
      return [axis, axisMenu.select];
    });
    this.switches = Object.entries(SWITCHES).map(([key, name]) => {
      const switchBox = check(name, HELP[key], (isOn) => this.choose({ [key]: isOn ? "1" : "" }));
      switchBox.root.hidden = !data.quantities.some((quantity) => quantity[key === "untrained" ? "untrained" : "low"]);
      controls.append(switchBox.root);
      return [key, switchBox.box];
    });
    document.getElementById("scatter").append(this.plot.root);
    globalThis.addEventListener("hashchange", () => this.draw());
    matchMedia("(prefers-color-scheme: dark)").addEventListener("change", () => this.draw());
    this.draw();
  }

  /** The choices in the address; a quantity that it does not name, or that does not exist, is the default. */
  get view() {
    const parameters = Object.fromEntries(new URLSearchParams(location.hash.slice(1)));
    const axes = Object.keys(AXES).map((axis) => [axis, this.byKey[parameters[axis]] ? parameters[axis] : this.data.start[axis]]);
    return { ...Object.fromEntries(axes), ...Object.fromEntries(Object.keys(SWITCHES).map((key) => [key, parameters[key] ?? ""])) };
  }

  choose(values) {
    const parameters = Object.entries({ ...this.view, ...values }).filter(([, value]) => value);
    location.replace(`#${new URLSearchParams(parameters)}`); // the page draws when it hears of it
  }

  draw() {
    const { view } = this;
    for (const [axis, select] of this.menus) select.value = view[axis];
    for (const [key, box] of this.switches) box.checked = Boolean(view[key]);
    const [x, y, colour] = Object.keys(AXES).map((axis) => this.byKey[view[axis]]);
    const points = this.data.names.map((name, head) => this.pointOf(head, { x, y, colour }));
    if (view.untrained) points.push(...this.untrained({ x, y }));
    this.plot.draw({ points, x: x.title, y: y.title, colour: colour.title, hasBars: Boolean(view.intervals) });
    this.drawMap(colour);
  }

  /** @returns {import("./scatter_plot.js").Point} */
  pointOf(head, { x, y, colour }) {
    const lines = [...new Set([x, y, colour])].map((quantity) => `${quantity.title}: ${withInterval(quantity, head)}`);
    const interval = ({ low, high }) => (low ? [low[head], high[head]] : undefined);
    return {
      x: x.values[head], y: y.values[head], xs: interval(x), ys: interval(y), colour: colour.values[head],
      name: this.data.names[head], lines: [...lines, ...this.data.labels[head]], href: this.data.files[head],
    };
  }

  /** The heads of random weights, where both axes have them. @returns {import("./scatter_plot.js").Point[]} */
  untrained({ x, y }) {
    if (!x.untrained || !y.untrained) return [];
    return this.data.names.map((name, head) => ({
      x: x.untrained[head], y: y.untrained[head], name: `${name} with random weights`, isPale: true,
      lines: [x, y].map(({ title, untrained }) => `${title}: ${formatNumber(untrained[head])}`),
    }));
  }

  drawMap(quantity) {
    const theme = themeOf(document.getElementById("map"));
    const [low, high] = endsOf(quantity.values);
    this.cells.forEach((cell, head) => {
      const value = quantity.values[head];
      const isKnown = typeof value === "number";
      const colour = isKnown ? colourAt((value - low) / (high - low), PALETTE.sequential[theme]) : null;
      cell.style.background = colour ? `rgb(${colour})` : PALETTE.missing[theme];
      cell.style.color = colour ? inkOn(colour) : "";
      cell.title = `${this.data.names[head]}, ${quantity.title}: ${withInterval(quantity, head)}`;
      cell.setAttribute("aria-label", cell.title);
    });
    document.getElementById("map-title").textContent = `${quantity.title}, from ${formatNumber(low)} to ${formatNumber(high)}. A row is a layer, a column a head.`;
  }
}

/** A head's number with its interval. */
function withInterval({ values, low, high }, head) {
  const value = formatNumber(values[head]);
  return low && low[head] !== null ? `${value} (${formatNumber(low[head])} to ${formatNumber(high[head])})` : value;
}
