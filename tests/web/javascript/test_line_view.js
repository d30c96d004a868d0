// The line in words: what the text shows, and where a chosen token looks most.

import assert from "node:assert/strict";

import { unpack } from "../../../mha_viz/web/components/shared/payload_store.js";
import { Bench } from "../../../mha_viz/web/components/workbench/bench.js";
import { LineView } from "../../../mha_viz/web/components/workbench/line_view.js";
import { headsOfPair, keysOf } from "../../../mha_viz/web/components/workbench/token_findings.js";
import { click, lay, pass, serve, settled, test } from "./dom.js";
import { bytesIn, python, weightsIn } from "./python.js";

const FINDING = { head: 7, text: "looks at the previous token", amount: "0.989 of its weight", chance: "0.05", baseline_name: "best random head" };

/** A bench with a payload, and its line. */
function opened(data = python.heads, notes = null) {
  const bench = new Bench();
  bench.adopt(unpack(bytesIn(data.grid)));
  bench.notes = notes;
  const line = new LineView(bench);
  document.body.append(line.root);
  bench.listeners.add(() => line.draw());
  line.draw();
  const heads = () => [...line.root.querySelectorAll(".head-name")];
  return { bench, line, heads, text: () => line.words.textContent };
}

/** Weights of all heads from one token, by Python's own numbers. */
function rowsOf(data, query) {
  const { layers, heads, queries, keys } = unpack(bytesIn(data.grid)).header;
  const weights = weightsIn(data.exact);
  const row = (head) => [...weights.subarray((head * queries + query) * keys, (head * queries + query + 1) * keys)];
  return Array.from({ length: layers * heads }, (_, head) => row(head));
}

test("the likeliest tokens behind the text stand at the line's end, and go without a prediction", () => {
  const { bench, line } = opened();
  bench.prediction = { next: [["Next", [["<b>", 0.4671], ["The", 0.0842]]]] };
  line.draw();
  assert.equal(line.next.textContent, "Next: <b> 46.7 % · The 8.4 %");
  assert.equal(line.next.querySelector("b"), null);
  bench.prediction = { next: [["[MASK] 1", [["him", 0.5]]], ["[MASK] 2", [["her", 0.25]]]] };
  line.draw();
  assert.equal(line.next.textContent, "[MASK] 1: him 50.0 %; [MASK] 2: her 25.0 %");
  bench.prediction = { off: [[0, 1]], rows: [] };
  line.draw();
  assert.equal(line.next.textContent, "");
});

test("the clearest head of the text is named with its chance, and a click chooses it", () => {
  const { bench, heads, text } = opened(python.heads, { finding: FINDING, hint: "" });
  assert.equal(text(), "L1 H2 looks at the previous token: 0.989 of its weight; chance 0.05");
  assert.notEqual(bench.chosen, 7);
  click(heads()[0]);
  assert.equal(bench.chosen, 7);
});

test("a text without labels says so, and the line is empty while they are on their way", () => {
  const none = { head: null, text: "No head of 15 earns a label on this text.", amount: "", chance: "", baseline_name: "" };
  assert.equal(opened(python.heads, { finding: none, hint: "" }).text(), none.text);
  assert.equal(opened(python.heads).text(), "");
});

test("an example's hint stands in place of it, and goes with the example", () => {
  const hint = "\nWhich head? **L1 H2** leads from *)* back; L0 H4 does not, and L9 H9 is none.";
  const { bench, line, heads, text } = opened(python.heads, { finding: FINDING, hint });
  assert.equal(text(), hint.trim().replaceAll("*", ""));
  assert.deepEqual(heads().map(({ textContent }) => textContent), ["L0 H4"]);
  assert.equal(line.words.querySelector("em").textContent, ")");
  bench.adopt(unpack(bytesIn(python.many.grid)));
  bench.notes = null; // the new text's labels are not there yet
  line.draw();
  assert.equal(text(), "");
});

test("for a pair the heads are named that give it the largest weights", async () => {
  serve(python.heads.exact);
  const { bench, heads, text } = opened();
  const [query, key] = [6, 2];
  bench.choosePair({ query, key });
  await settled();
  const weights = rowsOf(python.heads, query).map((row) => row[key]);
  const best = [...weights.keys()].sort((a, b) => weights[b] - weights[a]);
  const ranked = headsOfPair(bench.weights, query, key);
  assert.deepEqual(ranked.map(({ head }) => head), best.slice(0, ranked.length));
  ranked.forEach(({ weight, chance }, rank) => {
    assert.equal(weight, weights[best[rank]]);
    assert.ok(rank === 0 || weight > chance);
  });
  const { header } = bench.weights.shown;
  assert.ok(text().startsWith(`${header.query_labels[query]} looks at ${header.key_labels[key]} most in ${bench.name(best[0])} (`), text());
  assert.ok(!text().includes("≈"), text());
  click(heads()[0]);
  assert.equal(bench.chosen, best[0]);
  bench.clear();
  assert.equal(text(), "");
});

test("for a token each head that is named gives that key the largest weight of its row", async () => {
  serve(python.heads.exact);
  const { bench, text } = opened();
  const query = 5;
  bench.choosePair({ query });
  await settled();
  const rows = rowsOf(python.heads, query);
  const ranked = keysOf(bench.weights, query);
  assert.ok(ranked.length > 0);
  for (const { head, key, weight, chance } of ranked) {
    assert.equal(weight, Math.max(...rows[head]));
    assert.equal(rows[head].indexOf(weight), key);
    assert.ok(key !== query && weight > chance);
  }
  assert.equal(new Set(ranked.map(({ key }) => key)).size, ranked.length);
  assert.ok(text().startsWith(`${bench.weights.shown.header.query_labels[query]} looks most at `), text());
});

test("chance is one over the keys that the query can see, and a masked pair is said to be", () => {
  const { bench, text } = opened();
  const { rows, cols } = bench.weights.shown.header;
  for (let head = 0; head < bench.weights.count; head++) {
    for (let query = 0; query < rows; query++) {
      const row = bench.payload.body.subarray((head * rows + query) * cols, (head * rows + query + 1) * cols);
      row.fill(0, query + 1); // as a model that reads from left to right
    }
  }
  for (const { chance } of headsOfPair(bench.weights, 3, 1)) assert.equal(chance, 1 / 4);
  assert.deepEqual(headsOfPair(bench.weights, 3, 4), []);
  for (const { key } of keysOf(bench.weights, 4)) assert.ok(key > 0 && key < 4); // neither the sink nor itself
  bench.choosePair({ query: 3, key: 4 });
  assert.match(text(), / cannot see /);
});

test("a long text's line waits for the chosen token's weights", () => {
  const { bench, text } = opened(python.pooled);
  bench.choosePair({ query: 40 });
  assert.equal(text(), "");
  const rows = rowsOf(python.pooled, 40);
  const bytes = new Uint8Array(Float32Array.from(rows.flat()).buffer);
  bench.weights.takeRow({ query: 40 }, bytes);
  bench.notify();
  const ranked = keysOf(bench.weights, 40);
  for (const { head, key } of ranked) assert.equal(rows[head].indexOf(Math.max(...rows[head])), key);
  assert.ok(ranked.length && !text().includes("≈") && text(), text());
});

test("a line that is too long unfolds", () => {
  const { line } = opened(python.heads, { finding: FINDING, hint: "" });
  Object.defineProperty(line.words, "scrollWidth", { value: 1500, configurable: true });
  lay(() => ({ width: 900 }));
  assert.equal(line.more.hidden, false);
  click(line.more);
  assert.equal(line.more.textContent, "Less");
  assert.ok(line.root.classList.contains("open"));
  pass(1);
  click(line.more);
  assert.ok(!line.root.classList.contains("open"));
  line.close();
});
