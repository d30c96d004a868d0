// The scripts as they come to the browser, and what Streamlit does with a component when its data
// change twice in a moment.

import assert from "node:assert/strict";

import { mounted, test } from "./dom.js";
import { python } from "./python.js";

const DATA = {
  board: { name: "test", error: "first", scale: "sqrt" },
  decile_texts: { bands: [], typed: null },
  figure_download: { figure: "{}", plotly: null, name: "a" },
  flow_graph: new Uint8Array(),
  head_grid: { error: "first" },
  number_table: { tables: [], across: null, clickable: false },
  player: { at: 0, last: 5, "what": "a slider" },
  sentence_arcs: { pieces: [], above: [], below: [] },
  workbench: { name: "test", error: "first" },
  written_text: { tokens: [], coming: null, last: 5, "said": "", drawing: false },
};

for (const [name, source] of Object.entries(python.scripts)) {
  test(`${name}: the end of an overtaken call leaves the picture`, async () => {
    const { default: component } = await import(`data:text/javascript,${encodeURIComponent(source)}`);
    const { parentElement, update } = mounted(component);
    const [overtaken, latest] = [update(DATA[name]), update(DATA[name])];
    const counts = [parentElement.childElementCount];
    for (const end of [overtaken, latest]) {
      end();
      counts.push(parentElement.childElementCount);
    }
    update(DATA[name]);
    assert.deepEqual([...counts, parentElement.childElementCount], [1, 1, 0, 1]);
  });
}
