// How a score arises: sums of products, the row against all keys, and the pair that is shown.

import assert from "node:assert/strict";

import { payloadStore, putPayload, unpack } from "../../../mha_viz/web/components/shared/payload_store.js";
import { formatNumber, formatWeight } from "../../../mha_viz/web/components/shared/shared.js";
import { ScoreVectors } from "../../../mha_viz/web/components/workbench/score_vectors.js";
import { openBench } from "./bench_page.js";
import { click, pass, test } from "./dom.js";
import { packed, python } from "./python.js";

const N = 11, SIZE = 3, SCALE = 0.5;
const SEEN = (query, key) => query === 0 ? key === 0 : key <= query + 1; // the first token sees itself alone
const q = (query, dimension) => ((query * 7 + dimension * 5) % 9) - 4;
const k = (key, dimension) => ((key * 5 + dimension * 11) % 7) - 3;
const product = (query, key) => [0, 1, 2].reduce((sum, dimension) => sum + q(query, dimension) * k(key, dimension), 0);

/** The softmax of a row, computed in the plainest way. */
function rowOf(query, queries = N) {
  const scores = Array.from({ length: N }, (_, key) => (SEEN(query, key) ? Math.exp(SCALE * product(query, key)) : 0));
  const sum = scores.reduce((all, score) => all + score, 0);
  return scores.map((score, key) => (SEEN(query, key) ? score / sum : -0)).slice(0, queries);
}

const WEIGHTS = Float32Array.from([...Array(N).keys()].flatMap((query) => rowOf(query)));

/** A payload of head_details.py for some queries and keys. */
function scores(of, head, { isLong = false, queries = [...Array(N).keys()], keys = [...Array(N).keys()], gap = 0 } = {}) {
  const dimensions = [0, 1, 2];
  const numbers = [
    ...queries.flatMap((query) => dimensions.map((dimension) => q(query, dimension))),
    ...keys.flatMap((key) => dimensions.map((dimension) => k(key, dimension))),
    ...(isLong ? queries.flatMap((query) => keys.map((key) => rowOf(query)[key])) : []),
  ];
  const header = { kind: "scores", of, head, id: `${of} scores ${head} ${queries} ${keys} ${gap}`, queries, keys, d_head: SIZE, scale: SCALE, gaps: queries.map(() => gap),
    "seen": queries.map((query) => [...Array(N).keys()].filter((key) => SEEN(query, key)).length) };
  return packed(header, Float32Array.from(numbers));
}

/** The page with its score, of the chosen head 7. */
function opened(view = {}, { settings = {}, bring = {} } = {}) {
  const page = openBench(view, { exact: null, more: { vectors: true, explained: true, ...settings } });
  const { id } = page.header;
  putPayload(packed({ kind: "head", id: `${id} head 7`, of: id, head: 7 }, WEIGHTS));
  putPayload(scores(page.header.id, 7, bring));
  const rows = () => page.all(".score-rows tr").slice(1);
  const sent = [];
  globalThis[Symbol.for("mha_viz.benches")].get("bench").outbox.send = (message) => sent.push(message);
  return { ...page, rows, sent, pair: () => page.find(".score-view").dataset.pair };
}

test("products sum to the scores whose softmax is the row", () => {
  const { header, body } = unpack(scores("x", 0));
  const vectors = new ScoreVectors(header, body);
  vectors.weights = WEIGHTS;
  for (const query of [0, 4, 10]) {
    const { q: queryVector, terms } = vectors.row(query);
    assert.deepEqual([...queryVector], [0, 1, 2].map((dimension) => q(query, dimension)));
    assert.equal(terms.length, N);
    for (const term of terms) {
      assert.equal(term.product, product(query, term.key));
      assert.equal(term.score, SCALE * product(query, term.key));
      assert.deepEqual([...term.products], [0, 1, 2].map((dimension) => q(query, dimension) * k(term.key, dimension)));
      assert.equal(term.isVisible, SEEN(query, term.key));
    }
    const visibleTerms = terms.filter((term) => term.isVisible);
    const sum = visibleTerms.reduce((all, { score }) => all + Math.exp(score), 0);
    for (const { score, weight } of visibleTerms) assert.ok(Math.abs(Math.exp(score) / sum - weight) < 1e-6);
    const order = terms.map(({ weight }) => weight);
    assert.deepEqual(order, [...order].sort((a, b) => b - a));
  }
  assert.throws(() => new ScoreVectors(header, body.subarray(4)), /cut short/);
});

test("the chosen pair is added up, and its key is marked among all keys of the row", () => {
  const page = opened({ query: 6, key: 3 });
  assert.equal(page.pair(), "6 3");
  const weight = Math.fround(rowOf(6)[3]);
  const numbers = page.texts(".score-view .sum b");
  assert.deepEqual(page.texts(".heat-bar .sum b"), numbers); // in sight beside the heatmap, too
  assert.deepEqual(numbers, [formatNumber(product(6, 3)), formatNumber(SCALE), formatNumber(SCALE * product(6, 3)), formatWeight(weight)]);
  assert.match(page.text(".score-view .sum"), /\b8 keys/);
  assert.equal(page.all(".strips .strip").length, 3);
  assert.equal(page.rows().length, N);
  assert.deepEqual(page.rows().filter((row) => row.className.includes("marked")).map(({ dataset }) => dataset.key), ["3"]);
  assert.equal(page.rows().filter((row) => row.className.includes("unseen")).length, N - 8);
  for (const row of page.rows()) {
    const key = Number(row.dataset.key);
    assert.equal(row.querySelector(".score").textContent, formatNumber(SCALE * product(6, key)));
    assert.equal(row.querySelector(".number").textContent, SEEN(6, key) ? formatWeight(Math.fround(rowOf(6)[key])) : "masked");
  }
});

test("where no pair is chosen it is the strongest one that is the head's own, of the part that is shown", () => {
  const strongest = (queries, keys) => queries.flatMap((query) => keys.map((key) => [query, key]))
    .filter(([query]) => query > 0).reduce((best, at) => (rowOf(at[0])[at[1]] > rowOf(best[0])[best[1]] ? at : best));
  const all = [...Array(N).keys()];
  const page = opened();
  assert.equal(page.pair(), strongest(all, all).join(" "));
  assert.ok(page.text(".score-view .note").endsWith("L1 H2"));
  page.word(4).click();
  assert.equal(page.pair(), strongest([4], all).join(" "));
  document.body.replaceChildren();
  const part = opened({ window: [[2, 4], [0, 2]] });
  assert.equal(part.pair(), strongest([2, 3, 4], [0, 1, 2]).join(" "));
});

test("a click on a row chooses its key, and a cell of the heatmap its pair", () => {
  const page = opened({ query: 6, key: 3 });
  click(page.rows().find((row) => row.dataset.key === "5"));
  assert.equal(page.pair(), "6 5");
  click(page.find(".heat-over"), ...page.cell(8, 2));
  assert.equal(page.pair(), "8 2");
  assert.equal(page.text(".score-view .title"), `How “${page.header.query_labels[8]}” → “${page.header.key_labels[2]}” gets its weight`);
});

test("the button leads to where the score is taken apart, with the pair that is shown", () => {
  const page = opened({ query: 6, key: 3 });
  page.button("Why this head looks there").click();
  assert.deepEqual(page.sent, [{ leave: "why", view: { query: "6", key: "3" } }]);
  document.body.replaceChildren();
  assert.ok(opened({}, { settings: { explained: false } }).button("Why this head looks there").hidden);
});

test("what a model adds before the softmax is said; families without vectors say so", () => {
  const line = (gap) => opened({}, { bring: { gap } }).text(".check-line");
  assert.ok(line(2e-7).includes("2e−7"));
  document.body.replaceChildren();
  assert.ok(line(0.25).includes("0.25"));
  document.body.replaceChildren();
  const page = openBench({}, { more: { vectors: false } });
  assert.ok(page.text(".score-empty") && page.find(".score-body").hidden && !page.find(".score-empty").hidden);
});

test("of a long text the row of a chosen token is asked for at once, and its strongest keys are listed", () => {
  const { grid } = python.pooled;
  const page = openBench({}, { grid, exact: null, more: { vectors: true, cells: 400 } });
  const requests = [];
  payloadStore().request = (values) => requests.push(values);
  const before = page.text(".score-empty");
  page.word(9).click();
  pass(50);
  assert.equal(requests.at(-1).query, "9");
  assert.ok(before && page.text(".score-empty") !== before);
  putPayload(scores(page.header.id, 1 * page.header.heads + 2, { isLong: true, queries: [9], keys: [2, 5, 9] }));
  assert.match(page.text(".score-rows caption"), /\b3 of 11 keys/); // of those that the query sees
  assert.equal(page.all(".score-rows tr").length, 4);
});
