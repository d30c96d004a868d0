import assert from "node:assert/strict";
import test from "node:test";

import { Bench, benchOf } from "../../../mha_viz/web/components/workbench/bench.js";
import { unpack } from "../../../mha_viz/web/components/shared/payload_store.js";
import { bytesIn, bytesOf, python } from "./python.js";

// Time passes where a test says so.
let waiting = new Map();
globalThis.setTimeout = (call) => {
  waiting.set(waiting.size + 1, call);
  return waiting.size;
};
globalThis.clearTimeout = (timer) => waiting.set(timer, () => {});
const pause = () => {
  const calls = [...waiting.values()];
  waiting = new Map();
  for (const call of calls) call();
};

/** A bench with the weights that Python wrote, and what it has told Python. */
function receivedBench({ grid = bytesOf("grid"), settings = {} } = {}) {
  const bench = new Bench();
  const messages = [];
  bench.receive({ heard: null, view: { layer: 0, head: 0 }, ...settings }, (message) => messages.push(message));
  bench.adopt(unpack(grid));
  return { bench, messages };
}

const HEADS = 6; // of the grid: 2 layers, 3 heads, 5 queries, 7 keys
const weight = (head, query, key) => python.pattern[Math.floor(head / 3)][head % 3][query][key];

test("choices that follow each other are drawn at once and told together, in the words of an address", () => {
  const { bench, messages } = receivedBench();
  let drawn = 0;
  bench.listeners.add(() => drawn++);
  bench.chooseHead(4);
  bench.choose({ scale: "log", words: true });
  bench.choose({ heads: [[0, 1], [1, 2]], layer: 0 });
  assert.equal(bench.chosen, 1);
  assert.deepEqual([drawn, messages.length], [3, 0]);
  pause();
  const view = { layer: "0", head: "1", scale: "log", words: "1", heads: "0.1,1.2" };
  assert.deepEqual(messages.map((message) => message.view), [view]);
  bench.choose({ scale: "log", layer: "0" }); // said again: nothing new
  pause();
  assert.deepEqual([drawn, messages.length], [3, 1]);
});

test("what Python said before it heard the last choice is out of date", () => {
  const { bench, messages } = receivedBench();
  const says = (heard, layer) => bench.receive({ heard, view: { layer } });
  bench.choose({ layer: 1 });
  says(null, 0);
  assert.equal(bench.view.layer, 1); // before it was told
  pause();
  says(null, 0);
  assert.equal(bench.view.layer, 1); // before it heard
  bench.choose({ head: 2 });
  says(messages[0].id, 0);
  assert.equal(bench.view.layer, 1); // before it heard of the newest
  pause();
  says(messages[1].id, 1);
  says(messages[1].id, 0);
  assert.equal(bench.view.layer, 0); // Back, in the browser: Python knows better
});

test("a message that pushes another one out says what that said", () => {
  const { bench, messages } = receivedBench();
  bench.choose({ layer: 1 });
  pause();
  bench.choose({ scale: "log" });
  pause(); // the server, which is busy, reads only this one
  assert.deepEqual(messages[1].view, { layer: "1", scale: "log" });
  bench.receive({ heard: messages[1].id, view: { layer: 1, scale: "log" } });
  bench.choose({ scale: "sqrt" });
  pause();
  assert.deepEqual(messages[2].view, { scale: "sqrt" }); // the rest was heard, and may have changed
});

test("a page that is left tells nothing", () => {
  const { bench, messages } = receivedBench();
  bench.choose({ layer: 1 });
  pause();
  assert.equal(messages.length, 1);
  bench.choose({ layer: 0 });
  bench.outbox.clear();
  pause();
  assert.equal(messages.length, 1);
  bench.receive({ heard: null, view: { layer: 1 } }, () => {});
  assert.equal(bench.view.layer, 1);
});

test("elements of one page share a bench, those of another page do not", () => {
  assert.equal(benchOf("one"), benchOf("one"));
  assert.notEqual(benchOf("one"), benchOf("other"));
});

test("heads stand by layer, by a quantity, or by the weight of a pair", () => {
  const { bench } = receivedBench({ settings: { titles: { entropy: "Entropy" }, view: { least: 0 } } });
  assert.equal(bench.ranking.order, null);
  bench.payload.header.facts.Entropy = [1, 3, null, 2, 3, 0.5];
  bench.choose({ sort: "entropy" });
  assert.deepEqual(bench.ranking.order, [1, 4, 3, 0, 5, 2]); // equal ones by number, unknown ones last
  bench.choose({ least: 2 });
  assert.deepEqual(bench.ranking.order, [1, 4, 3]);
  bench.choose({ sort: "pair", query: 3, key: 5 });
  const pairs = [...Array(HEADS).keys()].map((head) => weight(head, 3, 5));
  const ranked = [...pairs.keys()].sort((a, b) => pairs[b] - pairs[a]);
  assert.deepEqual(bench.ranking.order, ranked); // of all of them, whatever is the least of the quantity
  bench.choose({ query: -1 });
  assert.equal(bench.ranking.order, null);
});

test("a quantity that Python alone knows is waited for", () => {
  const { bench } = receivedBench();
  bench.choose({ sort: "induction" });
  assert.equal(bench.ranking.order, null);
  pause();
  const fact = { title: "Induction", values: [0, 1, 2, 3, 4, 5] };
  bench.receive({ heard: bench.outbox.messageId, view: { sort: "induction" }, fact });
  assert.deepEqual(bench.ranking.order, [5, 4, 3, 2, 1, 0]);
});

test("only heads of a kind are shown, none before the kinds are known", () => {
  const { bench } = receivedBench();
  bench.choose({ only: "first_token" });
  assert.deepEqual(bench.ranking.order, []);
  assert.equal(bench.labels(0), null);
  bench.notes = {
    labels: [["First token"], [], [], [], [], []],
    kinds: [["first_token"], [], ["first_token", "separator"], [], ["separator"], []],
  };
  assert.deepEqual(bench.ranking.order, [0, 2]);
  assert.deepEqual([bench.labels(0), bench.labels(1)], [["First token"], []]);
});

test("what no head reaches is said of the heads of the chosen kind alone", () => {
  const { bench } = receivedBench({ settings: { titles: { entropy: "Entropy" }, view: { least: 0 } } });
  bench.payload.header.facts.Entropy = [2.66, 0.5, null, 1.25, 2, 1];
  const none = ["No head of that kind on this text.", []];
  const rankingState = () => [bench.ranking.whyNone, bench.ranking.order];
  bench.choose({ sort: "entropy", only: "induction" });
  bench.notes = { kinds: [[], [], [], [], [], []] };
  assert.deepEqual(rankingState(), none);
  bench.choose({ least: 2 });
  assert.deepEqual(rankingState(), none);
  bench.notes = { kinds: [[], ["induction"], ["induction"], ["induction"], [], []] };
  assert.deepEqual(rankingState(), ["No head of that kind reaches 2 in Entropy: the largest is 1.25.", []]);
  bench.notes = { kinds: [[], [], ["induction"], [], [], []] };
  assert.deepEqual(rankingState(), ["Entropy is not defined for any head of that kind on this text.", []]);
  bench.choose({ least: 3, only: "" });
  assert.deepEqual(rankingState(), ["No head reaches 3 in Entropy: the largest is 2.66.", []]);
});

test("the weight of a pair is read off its codes, and is exact where the weights are known", () => {
  const { bench } = receivedBench();
  bench.weights.ofPair(2, 6).forEach((estimate, head) => {
    assert.ok(Math.abs(estimate - weight(head, 2, 6)) <= Math.sqrt(weight(head, 2, 6)) / 255 + 1e-5);
  });
  const flat = (head) => new Float32Array(python.pattern[Math.floor(head / 3)][head % 3].flat());
  bench.weights.exact.keep(0, HEADS, new Float32Array(python.pattern.flat(3)).buffer);
  bench.weights.ofPair(2, 6).forEach((exact, head) => assert.equal(exact, Math.fround(weight(head, 2, 6))));
  assert.deepEqual(bench.weights.of(4), flat(4));
  assert.ok(bench.weights.isExact(4));
  const mean = bench.weights.meanRow(2);
  const wide = [...Array(HEADS).keys()].reduce((sum, head) => sum + weight(head, 2, 6), 0) / HEADS;
  assert.ok(Math.abs(mean[6] - wide) < 0.01);
});

test("a chosen token stays the same one on other axes, and is found again", () => {
  const { cases } = python.reduced;
  const { bench } = receivedBench({ grid: bytesIn(cases[0].grid) });
  bench.choosePair({ query: 4, key: 0 }); // "wards" looks at [CLS]
  assert.deepEqual(bench.pair, { query: 4, key: 0 });
  bench.choose({ words: true });
  assert.deepEqual(bench.pair, { query: 2, key: 0 }); // "homewards"
  bench.choose({ no_special: true });
  assert.deepEqual(bench.pair, { query: 1, key: -1 });
  assert.deepEqual(bench.weights.ofPair(4, 0), Array(4).fill(null));
  bench.choosePair({ key: 0 }); // "walking"
  assert.deepEqual([bench.view.query, bench.view.key], [4, 1]);
  bench.choose({ words: false, no_special: false });
  assert.deepEqual(bench.pair, { query: 4, key: 1 });
  bench.choosePair({ query: -1, key: -1 });
  assert.deepEqual(bench.pair, { query: -1, key: -1 });
});

test("what the grid paints is the picture that Python packs of the same tokens", () => {
  for (const { wish, grid } of python.reduced.cases) {
    const { bench } = receivedBench({ grid: bytesIn(python.reduced.cases[0].grid), settings: { view: wish } });
    const { header, body } = bench.weights.shown;
    const right = unpack(bytesIn(grid));
    for (const name of ["rows", "cols", "query_labels", "key_special"]) {
      assert.deepEqual(header[name], right.header[name]);
    }
    body.forEach((code, at) => {
      assert.equal(code > 0, right.body[at] > 0);
      assert.ok(Math.abs(code - right.body[at]) <= 3, `${JSON.stringify(wish)} ${at}`); // made of codes
    });
  }
});

test("rows are scaled only where something was left out of them", () => {
  const { bench } = receivedBench(); // without special tokens; read off their codes, rows hardly sum to 1
  const before = [...bench.weights.of(2)];
  bench.choose({ no_special: true });
  assert.deepEqual([...bench.weights.of(2)], before);
});

test("where nothing would be left all of it stays", () => {
  const { header, body } = unpack(bytesOf("grid"));
  const special = { query_special: header.query_labels.map(() => 1) };
  const bench = new Bench();
  bench.adopt({ header: { ...header, ...special }, body });
  bench.choose({ no_special: true });
  assert.equal(bench.weights.shown, bench.payload);
  assert.equal(bench.weights.of(0).length, 5 * 7);
});

test("weights that are cut short are refused", () => {
  const { header, body } = unpack(bytesOf("grid"));
  const bench = new Bench();
  assert.throws(() => bench.adopt({ header, body: body.subarray(1) }), /cut short/);
  assert.throws(() => bench.adopt({ header: { ...header, kind: "notes" }, body }), /cut short/);
});

test("a pair chosen in one text is not one of the next, but stays while a text is written on", () => {
  const other = (labels) => {
    const { header, body } = unpack(bytesOf("grid"));
    return { header: { ...header, ...labels }, body };
  };
  const { bench, messages } = receivedBench();
  bench.choosePair({ query: 2, key: 3 });
  bench.receive({ heard: "another", view: { layer: 0, head: 0, query: -1, key: -1 } });
  bench.adopt(other({})); // written on: the same tokens, and more
  assert.deepEqual([bench.view.query, bench.view.key], [2, 3]);
  const { header } = bench.payload;
  bench.adopt(other({ query_labels: header.query_labels.map((label) => `${label}!`) }));
  assert.deepEqual([bench.view.query, bench.view.key], [-1, -1]);
  pause();
  assert.ok(messages.every(({ view }) => !("query" in view) && !("key" in view)));
});
