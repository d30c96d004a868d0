// The workbench in a notebook: the notebook's theme, bytes of Python's traits, and what is sent back.

import assert from "node:assert/strict";

import widget from "../../../mha_viz/web/components/workbench/notebook_widget.js";
import { unpack } from "../../../mha_viz/web/components/shared/payload_store.js";
import { paintedOn } from "./canvas.js";
import { click, dark, pass, settled, test } from "./dom.js";
import { bytesIn, python } from "./python.js";

const NONE = new DataView(new ArrayBuffer(0));

/** A widget in a cell of a notebook, and the model that Python shares with it. */
function shown() {
  const bytes = bytesIn(python.heads.grid);
  const { header } = unpack(bytes);
  const listeners = {};
  const values = {
    payload: new DataView(bytes.buffer, bytes.byteOffset, bytes.byteLength), exact: NONE, styles: ".head-view { margin: 0 }",
    themes: { light: "--ink: black;", dark: "--ink: white;" },
    settings: { name: "notebook", heard: null, payload: header.id, ...python.bench.settings },
  };
  let saved = 0;
  const model = {
    get: (name) => values[name],
    set: (name, value) => (values[name] = value),
    save_changes: () => saved++,
    on: (name, call) => (listeners[name] = call),
  };
  const el = document.createElement("div");
  document.body.append(el);
  const end = widget.render({ model, el });
  pass(50);
  return { el, end, values, header, listeners, root: el.shadowRoot, saved: () => saved, look: () => el.shadowRoot.querySelector("style").textContent };
}

test("the widget has the notebook's theme, and changes with it", async () => {
  const { look, end } = shown();
  assert.ok(look().includes("--ink: black;") && look().includes(".head-view { margin: 0 }"));
  dark(true);
  document.body.className = "dark";
  await settled();
  pass(50);
  assert.ok(look().includes("--ink: white;"));
  end();
  dark(false);
  document.body.className = "";
  await settled();
  pass(50);
  assert.ok(look().includes("--ink: white;")); // it has ended
});

test("all heads are painted in the shadow, and a chosen head is sent to Python", () => {
  const { root, header, values, saved, end } = shown();
  const tiles = paintedOn(root.querySelector(".cells"), "image");
  assert.equal(tiles.length, header.layers * header.heads);
  const at = tiles.length - 2;
  const { x, y, width, height } = tiles[at];
  click(root.querySelector(".head-grid .stage"), x + width / 2, y + height / 2);
  pass(1000);
  assert.ok(saved() > 0);
  const { view } = values.sent;
  assert.equal(Number(view.layer) * header.heads + Number(view.head), at);
  end();
});
