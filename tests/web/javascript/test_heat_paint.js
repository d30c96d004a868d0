// What is drawn over a head's heatmap: the label of what is pinned or pointed at.
import assert from "node:assert/strict";
import { test } from "node:test";

import { paintOver } from "../../../mha_viz/web/components/workbench/heat_paint.js";
import { heatLayout } from "../../../mha_viz/web/components/workbench/heat_layout.js";

const LABELS = ["In", "spring", "Captain", "Z", "or"];
const COLOURS = { ink: "#111111", muted: "#777777", accent: "#c83200", paper: "#fefefe" };

/** A canvas that writes down what is filled, with the place of its origin. */
function recorder() {
  const calls = [];
  const stack = [];
  let origin = [0, 0];
  const context = new Proxy({}, {
    get(state, name) {
      if (name === "measureText") return (text) => ({ width: 7 * text.length });
      if (name === "save") return () => stack.push(origin);
      if (name === "restore") return () => (origin = stack.pop());
      if (name === "translate") return (x, y) => (origin = [origin[0] + x, origin[1] + y]);
      if (name === "fillText" || name === "fillRect") {
        return (...parameters) => calls.push({ name, parameters, origin, colour: state.fillStyle });
      }
      return name in state ? state[name] : () => {};
    },
  });
  return { canvas: { getContext: () => context, style: {} }, calls };
}

for (const [size, dense] of [[400, false], [90, true]]) {
  for (const pair of [{ query: 2, key: -1 }, { query: -1, key: 2 }]) {
    const where = `${pair.query < 0 ? "key" : "query"}, ${dense ? "dense" : "large"} cells`;
    test(`a pinned label is written on paper, not over the plain one: ${where}`, () => {
      globalThis.devicePixelRatio = 1;
      const { canvas, calls } = recorder();
      const view = { top: 0, left: 0, rows: 5, cols: 5 };
      const layout = heatLayout(size, size, view, LABELS, LABELS);
      assert.equal(layout.cell < 11, dense);
      const special = LABELS.map(() => 0);
      const header = { query_labels: LABELS, key_labels: LABELS, query_special: special, key_special: special };
      const picture = { width: size, height: size, layout, header, colours: COLOURS, font: "sans" };
      paintOver(canvas, picture, null, pair, null);
      const [paper, text] = calls;
      assert.deepEqual([paper.name, paper.colour], ["fillRect", COLOURS.paper]);
      assert.deepEqual([text.name, text.parameters[0][0], text.colour], ["fillText", "C", COLOURS.accent]);
      assert.deepEqual(paper.origin, text.origin);
      const [left, , wide, high] = paper.parameters;
      const written = 7 * text.parameters[0].length;
      if (pair.query >= 0) assert.ok(left <= -written && left + wide >= 0);
      else assert.ok(left <= 0 && left + wide >= written);
      assert.ok(high >= 12);
    });
  }
}
