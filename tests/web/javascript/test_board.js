// The board: cells of one size, what is pointed at in all heads, edits, and where panels lie.

import assert from "node:assert/strict";

import board from "../../../mha_viz/web/components/board/board.js";
import { boardLayout, columnsOf, shownOf } from "../../../mha_viz/web/components/board/board_layout.js";
import { putPayload, unpack } from "../../../mha_viz/web/components/shared/payload_store.js";
import { lay, mounted, press, test } from "./dom.js";
import { bytesIn, python } from "./python.js";

const ACTIONS = [["right", "remove", "heads", "note"], ["left", "remove", "note"]];

function shown(more = {}) {
  const bytes = bytesIn(python.board.payload);
  const { header } = unpack(bytes);
  lay(() => ({ width: 1000, height: 600 }));
  const page = mounted(board);
  const data = { name: "board", payload: header.id, scale: "sqrt", window: [], waiting: "Comparing …", actions: ACTIONS, ...more };
  page.update(data);
  putPayload(bytes);
  const view = page.parentElement.mhaViews.board;
  return { ...page, data, header, view };
}

test("cells of both heads have one size, and a text has no cells where it has no token", () => {
  const { view, header } = shown();
  const [first, two] = view.panels;
  assert.equal(first.cells.width, two.cells.width);
  assert.deepEqual([first.panel.rows, first.panel.cols], [two.panel.rows, two.panel.cols]);
  const [allLabels, part] = python.board.labels;
  for (const [panel, labels] of [[header.panels[0], allLabels], [header.panels[1], part]]) {
    assert.deepEqual(panel.query_labels.filter(Boolean), labels);
  }
  const row = two.panel.query_labels.indexOf("");
  assert.ok(row >= 0 && first.panel.query_labels[row]);
  view.point({ row, column: 0 });
  assert.match(first.weight.textContent, / → .*: /);
  assert.equal(two.weight.textContent, "not in this sentence");
});

test("a cell that is pointed at or kept in one head is read in both", () => {
  const { view } = shown();
  const [first, two] = view.panels;
  first.over.focus();
  for (const key of ["ArrowDown", "ArrowRight"]) press(key);
  const texts = [first, two].map((panel) => panel.weight.textContent);
  for (const panel of [first, two]) {
    const { query_labels: queries, key_labels: keys } = panel.panel;
    const { row, column } = view.hover;
    assert.ok(panel.weight.textContent.startsWith(`${queries[row]} → ${keys[column]}: `));
  }
  press("Enter");
  two.over.focus();
  assert.equal(view.hover, null);
  assert.deepEqual([first, two].map((panel) => panel.weight.textContent), texts);
  press("Escape");
  assert.equal(first.weight.textContent, "");
});

test("the verdict has its place before it comes, and brings labels and frames", () => {
  const { view, find } = shown();
  assert.equal(find(".verdict").textContent, "Comparing …");
  assert.equal(find(".verdict").getAttribute("role"), "status"); // read aloud when it comes
  putPayload(bytesIn(python.board.notes));
  assert.equal(find(".verdict").textContent, "They differ.");
  assert.deepEqual(view.panels.map((panel) => panel.labels.textContent), ["first", "none"]);
  assert.deepEqual(view.panels[0].board.marked, [[1, 2]]);
});

test("a board that is left before its numbers have come is not waited for", () => {
  const { data, update, view } = shown();
  update({ ...data, payload: "to come" });
  const { pending } = globalThis[Symbol.for("mha_viz.readiness")];
  assert.ok(pending.has("board board"));
  view.close();
  assert.ok(!pending.has("board board"));
});

test("a panel offers what Python says, and sends it with its place", () => {
  const { view, messages, header } = shown();
  const [first, two] = view.panels;
  const offered = (panel) => panel.buttons.filter((button) => !button.hidden).map((button) => button.title);
  assert.deepEqual(offered(first), ["Move right", "Open in Heads", "Remove"]);
  assert.deepEqual(offered(two), ["Move left", "Remove"]);
  two.buttons.find((button) => button.title === "Remove").click();
  first.note.value = "a note";
  first.note.dispatchEvent(new globalThis.window.Event("change"));
  assert.deepEqual(messages.map(([, value]) => value), [
    { of: header.id, panel: 1, action: "remove" },
    { of: header.id, panel: 0, action: "note", text: "a note" },
  ]);
});

test("rows of panels have equal lengths, and two stand beside each other", () => {
  assert.equal(columnsOf(1200, 2, 14), 2);
  assert.equal(columnsOf(700, 2, 40), 2);
  assert.equal(columnsOf(358, 2, 14), 1);
  assert.equal(columnsOf(1200, 4, 20), 2);
  assert.equal(columnsOf(1200, 9, 10), 3);
});

test("all panels have one layout, no lower than can be read", () => {
  const labels = ["a", "word", "more"];
  const panel = { rows: 3, cols: 3, query_labels: labels, key_labels: labels };
  const view = shownOf(panel, []);
  assert.deepEqual(view, { top: 0, left: 0, rows: 3, cols: 3 });
  assert.deepEqual(shownOf(panel, [[1, 2], [0, 0]]), { top: 1, left: 0, rows: 2, cols: 1 });
  assert.deepEqual(shownOf(panel, [[5, 9], [5, 9]]), view);
  const { layout, width, height } = boardLayout({ width: 1000, room: 100 }, [panel, panel], view);
  assert.equal(Math.round(layout.cell), 30);
  assert.ok(width <= 492 && height >= layout.top + layout.high);
});
