// A component whose script comes in an element of its own, before or after its data.

import assert from "node:assert/strict";
import test from "node:test";

globalThis.COMPONENT = "picture";
const { default: late } = await import("../../../mha_viz/web/components/page/script_late.js");
const { default: bring } = await import("../../../mha_viz/web/components/page/script_carrier.js");
const { scriptStore } = await import("../../../mha_viz/web/components/page/script_store.js");

const element = () => ({ setAttribute() {} });

function begin() {
  const { byName, waiting } = scriptStore();
  byName.clear();
  waiting.clear();
  const drawn = [];
  globalThis.DRAW = ({ data }) => {
    drawn.push(data);
    return () => drawn.push(`end of ${data}`);
  };
  return drawn;
}

test("data that come before the script are drawn when it is there, the newest alone", () => {
  const drawn = begin();
  const parentElement = element();
  const ends = ["old", "new"].map((data) => late({ parentElement, data }));
  ends[0](); // Streamlit ends a call that newer data have overtaken
  assert.deepEqual(drawn, []);
  bring();
  assert.deepEqual(drawn, ["new"]);
  ends[1]();
  assert.deepEqual(drawn, ["new", "end of new"]);
});

test("data that come after the script are drawn at once, each with its own end", () => {
  const drawn = begin();
  bring();
  late({ parentElement: element(), data: 1 })();
  late({ parentElement: element(), data: 2 });
  assert.deepEqual(drawn, [1, "end of 1", 2]);
});

test("what has gone before its script came is not drawn, and other components' scripts wait", () => {
  const drawn = begin();
  const other = element();
  scriptStore().waiting.set(other, { name: "another", draw: () => drawn.push("another") });
  late({ parentElement: element(), data: "gone" })();
  bring();
  assert.deepEqual(drawn, []);
  assert.ok(scriptStore().waiting.has(other));
});
