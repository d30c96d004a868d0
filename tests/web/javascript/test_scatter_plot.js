// Points in a plane: where they lie, what they say and link to, and the way between them by keys.

import assert from "node:assert/strict";

import { endsOf, ScatterPlot, ticksOf } from "../../../mha_viz/web/components/atlas/scatter_plot.js";
import { lay, press, test } from "./dom.js";

const POINTS = [
  { x: 0, y: 0, xs: [-1, 1], ys: [null, null], colour: 2, name: "L0 H0", lines: ["Entropy: 0"], href: "heads/L0H0.html" },
  { x: 4, y: 2, xs: [3, 5], ys: [1, 3], colour: 7, name: "<b>L0 H1</b>", lines: [], href: "heads/L0H1.html" },
  { x: null, y: 1, name: "undefined", lines: [], href: "heads/L0H2.html" },
  { x: 2, y: 1, name: "random weights", lines: [], isPale: true },
];

function plotted(scene = {}) {
  lay((element) => (element.matches?.(".scatter-plot") ? { width: 500 } : undefined));
  const plot = new ScatterPlot("All heads");
  document.body.append(plot.root);
  plot.draw({ points: POINTS, x: "Distance", y: "Entropy", colour: "Layer", ...scene });
  return plot;
}

const number = (element, name) => Number(element.getAttribute(name));

test("ticks are round numbers between the ends", () => {
  assert.deepEqual(ticksOf(0.03, 0.97), [0.2, 0.4, 0.6, 0.8]);
  assert.deepEqual(ticksOf(-7, 7), [-5, 0, 5]);
  assert.deepEqual(endsOf([3, null, 3]), [2.5, 3.5]);
  assert.deepEqual(endsOf([null]), [0, 1]);
});

test("a point lies where its numbers are, and one without a number is left out", () => {
  const { root } = plotted();
  const [pale, first, second] = root.querySelectorAll("circle");
  assert.equal(root.querySelectorAll("circle").length, 3);
  assert.ok(pale.matches(".pale") && pale.parentElement.tagName === "svg");
  assert.ok(number(first, "cx") < number(pale, "cx") && number(pale, "cx") < number(second, "cx"));
  assert.ok(number(first, "cy") > number(second, "cy"));
  assert.equal(number(pale, "cx"), (number(first, "cx") + number(second, "cx")) / 2);
  assert.equal(first.parentElement.getAttribute("href"), "heads/L0H0.html");
  assert.notEqual(first.getAttribute("fill"), second.getAttribute("fill"));
});

test("intervals are drawn where both ends are known", () => {
  assert.equal(plotted().root.querySelectorAll(".interval").length, 0);
  const lines = [...plotted({ hasBars: true }).root.querySelectorAll(".interval")];
  assert.deepEqual(lines.map((line) => [number(line, "x1") === number(line, "x2"), number(line, "y1") === number(line, "y2")]),
    [[false, true], [false, true], [true, false]]);
});

test("names are text, and the arrow keys go from point to point", () => {
  const { root, tip } = plotted();
  const [first, second] = root.querySelectorAll("a");
  assert.equal(second.getAttribute("aria-label"), "<b>L0 H1</b>");
  assert.deepEqual([first, second].map((link) => link.getAttribute("tabindex")), ["0", "-1"]);
  first.focus();
  assert.ok(press("ArrowRight"));
  assert.deepEqual([first, second].map((link) => link.getAttribute("tabindex")), ["-1", "0"]);
  assert.equal(document.activeElement, second);
  assert.equal(tip.hidden, false);
  assert.equal(tip.querySelector("b").textContent, "<b>L0 H1</b>");
});
